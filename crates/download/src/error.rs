//! The errors of a download, by what a caller can do about them.

use std::path::PathBuf;

use chomp_durable_files::FileError;
use chomp_store::StorageError;
use chomp_store::location::LocationError;
use chomp_store::objects::OpenError;
use chomp_table::format::FormatError;
use chomp_table::reader::TableName;
use chomp_table::{Digest, TableError};

/// Why a table was not downloaded. What was fetched is kept for the next attempt.
#[derive(Debug, thiserror::Error)]
pub enum DownloadError {
    /// The server gave nothing, or nothing for too long: try again later.
    #[error("{url} cannot be reached")]
    Unreachable {
        /// The address of the server.
        url: String,
        /// The last failure.
        source: Outage,
    },
    /// The certificate of the server is not accepted, which time alone does not mend.
    #[error("the certificate of {url} is not accepted: {what}")]
    Certificate {
        /// The server.
        url: String,
        /// Why.
        what: String,
    },
    /// The answer is not from a server of tables: a sign-in page, a page about something else.
    #[error("what is at {url} answers, but not as was expected: {what}")]
    Strange {
        /// The requested address.
        url: String,
        /// How the answer is strange.
        what: String,
    },
    /// The server gives whole files only.
    #[error(
        "the server does not answer requests for a part of {0} (byte ranges): fetch the whole table with \
         `chomp download --from URL --out DIR`, and ask that one"
    )]
    WholeFiles(String),
    /// The server refuses.
    #[error("{url} was refused with status {status}{}", if *status == 401 { ": a token is needed" } else { "" })]
    Refused {
        /// The requested address.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// A table is there, and one of its files is not.
    #[error("{0} does not exist: the table there is not complete")]
    NotFound(String),
    /// There is no table, or not this one.
    #[error(
        "there is no {} at {url}: give the address of a server that lists its tables, or of a table's folder, \
         as …/table-32/; if a job works there, `chomp status` says how far it is",
        table.map_or_else(|| "table".to_owned(), |table| table.to_string())
    )]
    NoTable {
        /// Where it was looked for.
        url: String,
        /// The table asked for.
        table: Option<TableName>,
    },
    /// The content is not what the manifest says, and was not when it was fetched again.
    #[error("{file} is damaged: it has the SHA-256 {found} instead of {expected}")]
    Damaged {
        /// The address of the file.
        file: String,
        /// Its digest by the manifest.
        expected: Digest,
        /// Its digest.
        found: Digest,
    },
    /// The server gave an answer that makes no sense.
    #[error("{url} was answered wrongly: {what}")]
    Wrong {
        /// The requested address.
        url: String,
        /// How the answer is wrong.
        what: String,
    },
    /// The server's manifest is damaged, or one of a newer format.
    #[error("{url} is no manifest of a table")]
    Manifest {
        /// The requested address.
        url: String,
        /// The fault of the manifest.
        source: FormatError,
    },
    /// All files are as the manifest says, but they are not a table.
    #[error(transparent)]
    Table(#[from] TableError),
    /// There is another table where this one should go.
    #[error("{} has another table already: use another directory", .0.display())]
    OtherTable(PathBuf),
    /// The table is larger than what the disk has left.
    #[error(
        "no space left: {} takes {needed} bytes more, and its disk has {free}; free some and run again",
        folder.display()
    )]
    NoSpace {
        /// The folder.
        folder: PathBuf,
        /// The bytes of shards that are not there.
        needed: u64,
        /// The bytes that are left.
        free: u64,
    },
    /// A file or folder cannot be worked with: a full disk, a missing permission.
    #[error(transparent)]
    File(#[from] FileError),
    /// The text is not a URL, or not one that can be fetched from.
    #[error("{url:?} is not the URL of a server: {what}")]
    Url {
        /// The text.
        url: String,
        /// Why it cannot be used.
        what: String,
    },
    /// The address of the bucket is wrong.
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Another process owns the directory, or the environment does not say how to reach the bucket.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The bucket gave nothing for too long, or refuses.
    #[error("the bucket cannot be read")]
    Storage(#[from] StorageError),
    /// The certificate or the token cannot be used.
    #[error("cannot use {0} to reach the server")]
    Credentials(&'static str),
    /// The program was asked to stop.
    #[error("the download was stopped: run it again to go on")]
    Stopped,
}

/// Why a request has no answer for now.
#[derive(Debug, thiserror::Error)]
pub enum Outage {
    /// The connection failed, for this reason.
    #[error("{0}")]
    Connection(String),
    /// Nothing comes, and nothing says why.
    #[error("it gives no answer")]
    Silent,
    /// The server cannot answer for now.
    #[error("it answers with status {0}")]
    Status(u16),
}
