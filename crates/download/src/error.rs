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
#[expect(missing_docs, reason = "the variants are named for what they are")]
pub enum DownloadError {
    /// The server gave nothing, or nothing for too long: try again later.
    #[error("{url} cannot be reached")]
    Unreachable { url: String, source: Outage },
    /// The certificate of the server is not accepted, which time alone does not mend.
    #[error("the certificate of {url} is not accepted: {what}")]
    Certificate { url: String, what: String },
    /// The answer is not from a server of tables: a sign-in page, a page about something else.
    #[error("what is at {url} answers, but not as was expected: {what}")]
    Strange { url: String, what: String },
    #[error(
        "the server does not answer requests for a part of {0} (byte ranges): fetch the whole table with \
         `chomp download --from URL --out DIR`, and ask that one"
    )]
    WholeFiles(String),
    #[error("{url} was refused with status {status}{}", if *status == 401 { ": a token is needed" } else { "" })]
    Refused { url: String, status: u16 },
    #[error("{0} does not exist: the table there is not complete")]
    NotFound(String),
    #[error(
        "there is no {} at {url}: give the address of a server that lists its tables, or of a table's folder, \
         as …/table-32/; if a job works there, `chomp status` says how far it is",
        table.map_or_else(|| "table".to_owned(), |table| table.to_string())
    )]
    NoTable {
        url: String,
        table: Option<TableName>,
    },
    /// The content is not what the manifest says, and was not when it was fetched again.
    #[error("{file} is damaged: it has the SHA-256 {found} instead of {expected}")]
    Damaged {
        file: String,
        expected: Digest,
        found: Digest,
    },
    #[error("{url} was answered wrongly: {what}")]
    Wrong { url: String, what: String },
    /// The server's manifest is damaged, or one of a newer format.
    #[error("{url} is no manifest of a table")]
    Manifest { url: String, source: FormatError },
    /// All files are as the manifest says, but they are not a table.
    #[error(transparent)]
    Table(#[from] TableError),
    #[error("{} has another table already: use another directory", .0.display())]
    OtherTable(PathBuf),
    #[error(
        "no space left: {} takes {needed} bytes more, and its disk has {free}; free some and run again",
        folder.display()
    )]
    NoSpace {
        folder: PathBuf,
        needed: u64,
        free: u64,
    },
    #[error(transparent)]
    File(#[from] FileError),
    #[error("{url:?} is not the URL of a server: {what}")]
    Url { url: String, what: String },
    #[error(transparent)]
    Location(#[from] LocationError),
    /// Another process owns the directory, or the environment does not say how to reach the bucket.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// The bucket gave nothing for too long, or refuses.
    #[error("the bucket cannot be read")]
    Storage(#[from] StorageError),
    #[error("cannot use {0} to reach the server")]
    Credentials(&'static str),
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
