//! A table that stays where it is. Only the indices and data frames of its shards that a question needs are fetched.
//!
//! The reader checks what comes against the manifest, as it does with files. Parts that are needed
//! together are asked for together.

use std::io;
use std::path::PathBuf;

use chomp_table::TableError;
use chomp_table::reader::{AnyTable, FileSlice, Files};
use futures_util::{StreamExt, TryStreamExt, stream};
use tokio::runtime::Handle;

use crate::Reach;
use crate::error::DownloadError;
use crate::folder::blocking;
use crate::source::TableSource;

/// The requests of one question that are under way at a time.
const REQUESTS: usize = 16;

/// Opens the [preferred](chomp_table::reader::TableName::preferred) table that is there.
///
/// The methods of the table block their thread while the runtime of this call fetches bytes. They are for threads that
/// may block.
pub async fn open(reach: Reach) -> Result<AnyTable, DownloadError> {
    open_at(TableSource::find(&reach).await?).await
}

pub(crate) async fn open_at(source: TableSource) -> Result<AnyTable, DownloadError> {
    let table = Some(source.table);
    let runtime = Handle::current();
    let files = Box::new(RemoteFiles { source, runtime });
    let opened = blocking(move || AnyTable::from_files(files, table)).await;
    opened.map_err(|error| match error {
        TableError::Io { file, source } => match source.downcast() {
            Ok(error) => error,
            Err(source) => TableError::Io { file, source }.into(),
        },
        error => error.into(),
    })
}

#[derive(Debug)]
struct RemoteFiles {
    source: TableSource,
    runtime: Handle,
}

impl Files for RemoteFiles {
    fn full_name(&self, name: &str) -> PathBuf {
        PathBuf::from(self.source.address(name))
    }

    fn whole(&self, name: &str, most: u64) -> Result<Vec<u8>, TableError> {
        let read = self.runtime.block_on(self.source.small(name, most));
        read.map_err(|error| self.failed(name, error))
    }

    fn read_slices(&self, slices: &[FileSlice<'_>]) -> Result<Vec<Vec<u8>>, TableError> {
        let reads = slices.iter().map(async |slice| {
            let range = slice.range.clone();
            let read = self
                .source
                .fetch_slice(slice.name, range, slice.length)
                .await;
            read.map_err(|error| self.failed(slice.name, error))
        });
        let reads = stream::iter(reads).buffered(REQUESTS);
        self.runtime.block_on(reads.try_collect())
    }
}

impl RemoteFiles {
    fn failed(&self, name: &str, error: DownloadError) -> TableError {
        let file = self.full_name(name);
        match error {
            DownloadError::Wrong { what, .. } => TableError::Damaged { file, what },
            error => TableError::Io {
                file,
                source: io::Error::other(error),
            },
        }
    }
}
