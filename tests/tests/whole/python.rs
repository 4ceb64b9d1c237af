//! Python programs read tables, by `examples/read_table.py` and by the reader in `docs/FORMAT.md`,
//! and every format of `chomp export`.
//!
//! Needs the packages of `examples/requirements.txt`, in the Python that `CHOMP_PYTHON` names, or in
//! `python3`. Where they are not there is nothing to test, unless `CHOMP_REQUIRE_PYTHON=1`.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::OnceLock;

use crate::common::{FINGERPRINT_24, chomp, end, finished, made_once};
use chomp_table::partition::count;
use chomp_table::{Partition, Table, Word};
use chomp_testing::needs;
use chomp_testing::values::{SMALL, areas, publish};
use tempfile::TempDir;

const BITS: u32 = 24;
const LOSING: usize = 104_364;
const STORED: usize = 52_188;

fn python() -> Command {
    let name = std::env::var_os("CHOMP_PYTHON").unwrap_or_else(|| "python3".into());
    let mut command = Command::new(name);
    command.stdin(Stdio::null());
    command
}

/// Whether there is a Python with the packages.
fn has_python() -> bool {
    static HAS: OnceLock<Result<(), String>> = OnceLock::new();
    let has = HAS.get_or_init(|| {
        let imports = "import numpy, pyarrow.parquet, pyroaring, zstandard";
        let what = "Python with the packages of examples/requirements.txt (CHOMP_PYTHON names it)";
        needs::can(what, python().args(["-c", imports]))
    });
    needs::found("PYTHON", has.clone()).is_some()
}

/// A finished table, made once.
fn table() -> &'static Path {
    static TABLE: OnceLock<TempDir> = OnceLock::new();
    made_once(&TABLE, BITS)
}

fn folder() -> PathBuf {
    table().join(format!("table-{BITS}"))
}

fn root() -> &'static Path {
    Path::new(concat!(env!("CARGO_MANIFEST_DIR"), "/.."))
}

/// Runs `examples/read_table.py` with these arguments.
fn read_table(arguments: &[&str]) -> Output {
    let mut command = python();
    command.arg(root().join("examples/read_table.py"));
    command.args(arguments).output().expect("Python starts")
}

/// The standard output of a program that must succeed.
fn printed(output: Output) -> String {
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    String::from_utf8(output.stdout).unwrap()
}

/// Exports the table in this format, with and without mirror images, runs `program` with the paths
/// of the file and of the words to be found, as CSV, and expects it to be content.
fn check_format(format: &str, program_text: &str) {
    if !has_python() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    for (flag, count) in [("--both", LOSING), ("--json", STORED)] {
        let [file, words] = [format, "expected"].map(|name| directory.path().join(name));
        fs::write(&words, expected(flag == "--both", count)).unwrap();
        export(&[flag], format, table(), &file);
        let read =
            "import sys, numpy; path, words = sys.argv[1], numpy.fromfile(sys.argv[2], '<u8')\n";
        let mut command = python();
        command.arg("-c").arg(format!("{read}{program_text}"));
        printed(command.arg(&file).arg(&words).output().unwrap());
    }
}

/// Exports a table to a file.
fn export(flags: &[&str], format: &str, table: &Path, file: &Path) {
    let mut export = chomp(&format!("export --force --format {format} --table"));
    export.arg(table).arg("--out").arg(file);
    end(export.args(flags)).done();
}

/// The words that an export should have, 8 bytes each, from the reader of tables.
fn expected(both: bool, count: usize) -> Vec<u8> {
    let table = Table::open(table()).unwrap();
    let stored = table.words().collect::<Result<Vec<_>, _>>().unwrap();
    let mut words = stored.concat();
    if both {
        let mirror = |&word: &u64| Word::new(word).mirror().get();
        let mirrors: Vec<u64> = words.iter().map(mirror).collect();
        words.extend(mirrors);
        words.sort_unstable();
        words.dedup();
    }
    assert_eq!(words.len(), count);
    words.iter().flat_map(|word| word.to_le_bytes()).collect()
}

#[test]
fn numpy_reads_npy() {
    check_format(
        "npy",
        "
found = numpy.load(path)
assert found.dtype == numpy.uint64 and found.shape == words.shape and (found == words).all()
found = numpy.load(path, mmap_mode='r')
assert (found == words).all()
",
    );
}

#[test]
fn csv_reads_words_and_rows() {
    check_format(
        "words",
        "
import csv
lines = list(csv.reader(open(path, newline='')))
assert lines[0] == ['word']
assert [int(word) for word, in lines[1:]] == words.tolist()
",
    );
    check_format(
        "rows",
        "
import csv
lines = csv.reader(open(path, newline=''))
assert next(lines) == ['word', 'bits', 'area', 'rows']
count = 0
for expected, (word, bits, area, rows) in zip(words.tolist(), lines, strict=True):
    rows = [int(row) for row in rows.split('+')]
    path, length = '', 0
    for row in reversed(rows):
        path += '1' * (row - length) + '0'
        length = row
    assert int(word) == int(path, 2) == expected
    assert int(bits) == len(path) and int(area) == sum(rows)
    count += 1
assert count == len(words)
",
    );
}

#[test]
fn pyarrow_reads_parquet() {
    check_format(
        "parquet",
        "
import pyarrow, pyarrow.parquet
table = pyarrow.parquet.read_table(path)
assert table.schema.names == ['word', 'bits', 'area', 'rows']
types = [pyarrow.uint64(), pyarrow.uint8(), pyarrow.uint16()]
assert table.schema.types[:3] == types and table.schema.types[3].value_type == pyarrow.uint8()
assert all(column.null_count == 0 for column in table.columns)
assert (table['word'].to_numpy() == words).all()
rows = table['rows'].combine_chunks()
values, offsets = rows.values.to_numpy().astype(int), rows.offsets.to_numpy()
firsts, counts = values[offsets[:-1]], numpy.diff(offsets)
assert (table['bits'].to_numpy() == firsts + counts).all()
assert (table['area'].to_numpy() == numpy.add.reduceat(values, offsets[:-1])).all()
for at in range(0, len(words), 997):
    text, length = '', 0
    for row in reversed(rows[at].as_py()):
        text += '1' * (row - length) + '0'
        length = row
    assert int(text, 2) == words[at]
few = pyarrow.parquet.read_table(path, filters=[('word', '<', 1000)])
assert few['word'].to_pylist() == [word for word in words.tolist() if word < 1000]
",
    );
}

#[test]
fn pyroaring_reads_roaring() {
    check_format(
        "roaring",
        "
import pyroaring
found = pyroaring.BitMap64.deserialize(open(path, 'rb').read())
assert len(found) == len(words) and found == pyroaring.BitMap64(words)
",
    );
}

/// The tiles, the ranks, the rows and the values that an export of values should have, straight from the values.
fn expected_values(areas: &[Vec<u8>], both: bool) -> String {
    let all = (1..).zip(&areas[1..]).flat_map(|(tiles, values)| {
        let ranked = (0..count(tiles)).zip(values);
        ranked.map(move |(rank, &value)| (rank, Partition::at(tiles, rank), value))
    });
    let kept = all.filter(|(_, position, _)| both || position.is_representative());
    let lines = kept.map(|(rank, position, value)| {
        let (tiles, rows) = (position.area(), position.rows());
        format!("[{tiles}, {rank}, {rows:?}, {value}]")
    });
    format!("[{}]", lines.collect::<Vec<_>>().join(",\n"))
}

const READ_VALUES: &str = "
import csv, json, sys, numpy, pyarrow, pyarrow.parquet
npy, parquet, text, expected = sys.argv[1:]
expected = json.load(open(expected))
found = numpy.load(npy)
assert found.dtype == numpy.dtype([('tiles', 'u1'), ('rank', '<u4'), ('value', 'u1')])
assert found.tolist() == [(tiles, rank, value) for tiles, rank, rows, value in expected]
assert (numpy.load(npy, mmap_mode='r') == found).all()
table = pyarrow.parquet.read_table(parquet)
assert table.schema.names == ['tiles', 'rank', 'rows', 'value']
kinds = table.schema.types
assert [kinds[0], kinds[1], kinds[3]] == [pyarrow.uint8(), pyarrow.uint32(), pyarrow.uint8()]
assert kinds[2].value_type == pyarrow.uint8()
assert all(column.null_count == 0 for column in table.columns)
assert [list(row.values()) for row in table.to_pylist()] == expected
assert (pyarrow.parquet.ParquetFile(parquet).num_row_groups > 1) == (len(expected) > 150_000)
few = pyarrow.parquet.read_table(parquet, filters=[('tiles', '=', 12), ('value', '=', 0)])
assert few['rank'].to_pylist() == [rank for tiles, rank, rows, value in expected if (tiles, value) == (12, 0)]
lines = list(csv.reader(open(text, newline='')))
assert lines[0] == ['tiles', 'rank', 'rows', 'value']
rows = lambda text: [int(row) for row in text.split('+')]
assert [[int(line[0]), int(line[1]), rows(line[2]), int(line[3])] for line in lines[1:]] == expected
";

#[test]
fn numpy_pyarrow_and_csv_read_values() {
    if !has_python() {
        return;
    }
    let directory = tempfile::tempdir().unwrap();
    // Both of each mirror pair are more than a row group of Parquet.
    for (tiles, both) in [(24, false), (40, true)] {
        let areas = areas(tiles);
        let folder = publish(directory.path(), SMALL, &areas);
        let flags: Vec<&str> = both.then_some("--both").into_iter().collect();
        let mut command = python();
        command.arg("-c").arg(READ_VALUES);
        for format in ["npy", "parquet", "rows"] {
            let file = directory.path().join(format);
            export(&flags, format, &folder, &file);
            command.arg(file);
        }
        let expected = directory.path().join("expected");
        fs::write(&expected, expected_values(&areas, both)).unwrap();
        printed(command.arg(expected).output().unwrap());
    }
}

#[test]
fn read_table_agrees() {
    if !has_python() {
        return;
    }
    let folder = folder();
    let text = printed(read_table(&[folder.to_str().unwrap()]));
    let count = "24 bits           104,364 losing";
    for found in [count, "52,188 stored", FINGERPRINT_24] {
        assert!(text.contains(found), "{text}");
    }

    let text = printed(read_table(&["--rows", folder.to_str().unwrap()]));
    assert_eq!(text.lines().count(), LOSING);
    let word = |line: &str| Word::from(&line.parse().unwrap()).get();
    let mut words: Vec<u64> = text.lines().map(word).collect();
    words.sort_unstable();
    let words: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
    assert!(words == expected(true, LOSING));

    // A shard is read alone, under any name.
    let directory = tempfile::tempdir().unwrap();
    let shard = directory.path().join("downloaded");
    fs::copy(folder.join("shard-0000.zst"), &shard).unwrap();
    let text = printed(read_table(&[shard.to_str().unwrap()]));
    assert!(text.starts_with("52,188 words from 2 to "), "{text}");
}

#[test]
fn read_table_refuses_what_is_damaged() {
    if !has_python() {
        return;
    }
    let directory = finished(20);
    let folder = directory.path().join("table-20");
    let refused = |path: &Path, case: &str| {
        let output = read_table(&[path.to_str().unwrap()]);
        let errors = String::from_utf8_lossy(&output.stderr);
        assert_eq!(output.status.code(), Some(3), "{case}: {errors}");
        assert!(errors.starts_with("error: "), "{case}: {errors}");
        assert_eq!(output.stdout, b"", "{case}");
    };
    for file in ["shard-0000.zst", "manifest.json", "SHA256SUMS"] {
        let path = folder.join(file);
        let good = fs::read(&path).unwrap();
        let last = good.len() - 1;
        // In a shard, the second is a bit that zstd does not look at.
        for (at, bit) in [(0, 4), (24, 0x10), (last / 2, 4), (last, 4)] {
            let mut bytes = good.clone();
            bytes[at] ^= bit;
            fs::write(&path, bytes).unwrap();
            refused(&folder, &format!("{file}, byte {at}"));
            if file == "shard-0000.zst" {
                refused(&path, &format!("{file} alone, byte {at}"));
            }
        }
        fs::write(&path, &good[..last]).unwrap();
        refused(&folder, &format!("{file} cut short"));
        fs::write(&path, good).unwrap();
    }
    printed(read_table(&[folder.to_str().unwrap()]));
}

/// The reader in the page needs the program `zstd`, and Python without any package.
#[test]
fn the_reader_in_the_page_agrees() {
    let zstd = needs::can("the program zstd", Command::new("zstd").arg("--version"));
    if !has_python() || needs::found("ZSTD", zstd).is_none() {
        return;
    }
    let page = fs::read_to_string(root().join("docs/FORMAT.md")).unwrap();
    let (_, reader) = page.split_once("```python\n").expect("a reader");
    let (reader, _) = reader.split_once("```").expect("the reader ends");
    let output = python().arg("-c").arg(reader).arg(folder()).output();
    let text = printed(output.unwrap());
    let expected = format!("{STORED} words, fingerprint {FINGERPRINT_24}\n");
    assert_eq!(text, expected);
}
