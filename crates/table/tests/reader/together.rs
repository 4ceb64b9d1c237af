//! How much of a published table is read at a time.

use std::fs;
use std::path::PathBuf;
use std::sync::{Arc, Mutex};

use chomp_table::reader::{FileSlice, Files};
use chomp_table::shard::ShardSize;
use chomp_table::{Table, TableError, Word};
use chomp_testing::tables::publish_words;

/// The files of a table in a folder, and how many slices were asked for at a time.
#[derive(Debug)]
struct Counted(PathBuf, Arc<Mutex<Vec<usize>>>);

impl Files for Counted {
    fn full_name(&self, name: &str) -> PathBuf {
        self.0.join(name)
    }

    fn whole(&self, name: &str, _most: u64) -> Result<Vec<u8>, TableError> {
        Ok(fs::read(self.full_name(name)).unwrap())
    }

    fn read_slices(&self, slices: &[FileSlice<'_>]) -> Result<Vec<Vec<u8>>, TableError> {
        self.1.lock().unwrap().push(slices.len());
        let slice = |slice: &FileSlice<'_>| {
            let [start, end] = [slice.range.start, slice.range.end];
            let [start, end] = [start, end].map(|at| usize::try_from(at).unwrap());
            fs::read(self.full_name(slice.name)).unwrap()[start..end].to_vec()
        };
        Ok(slices.iter().map(slice).collect())
    }
}

/// Ten indices of 112,072 bytes: nine of them fit into a MiB.
#[test]
fn indices_are_read_together_as_far_as_they_fit_into_a_mib() {
    let dir = tempfile::tempdir().unwrap();
    let words: Vec<u64> = (0..20_000).map(|i| (1 << 20) + 64 * i).collect();
    let size = ShardSize {
        frame_words: 1,
        shard_words: 2_000,
    };
    let folder = publish_words(dir.path(), 22, size, &words);
    let asked = Arc::default();
    let files = Counted(folder, Arc::clone(&asked));
    let table = Table::from_files(Box::new(files), None, 0).unwrap();
    let one_of_each = words.iter().step_by(2_000).map(|&word| Word::new(word));
    table.are_losing(&one_of_each.collect::<Vec<_>>()).unwrap();
    assert_eq!(*asked.lock().unwrap(), [9, 1, 10], "the last are frames");
}
