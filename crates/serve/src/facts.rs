//! Facts about a table as a whole: `/api/table`, and `/api/status` where there is no job.

use bytes::Bytes;
use chomp_table::Digest;
use chomp_table::manifest::{Manifest, folder_name};
use serde::Serialize;

use crate::status::StatusText;

/// The texts about a table, which do not change.
#[derive(Debug)]
pub(crate) struct TableTexts {
    /// The answer to `/api/table`.
    pub(crate) table: Bytes,
    /// The answer to `/api/status`.
    pub(crate) status: StatusText,
}

/// The fields of `/api/table`.
#[derive(Debug, Serialize)]
struct TableFields<'a> {
    bits: u32,
    positions: u64,
    losing: u64,
    stored: u64,
    fingerprint: Digest,
    losing_by_bits: &'a [u64],
    path: &'a str,
}

/// A job that is over. The fields of a job that goes on have these names too.
#[derive(Debug, Serialize)]
struct Finished<'a> {
    phase: &'a str,
    bits: u32,
    done: f64,
    positions: u64,
    losing: u64,
    stored: u64,
    fingerprint: Digest,
    path: &'a str,
    software: &'a str,
}

impl TableTexts {
    pub(crate) fn new(manifest: &Manifest) -> TableTexts {
        let path = format!("/{}/", folder_name(manifest.bits));
        let mut table = serde_json::to_string(&TableFields {
            bits: manifest.bits,
            positions: manifest.positions,
            losing: manifest.losing,
            stored: manifest.stored,
            fingerprint: manifest.fingerprint,
            losing_by_bits: &manifest.losing_by_bits,
            path: &path,
        })
        .expect("texts, numbers and lists become JSON");
        table.push('\n');
        TableTexts {
            table: table.into(),
            status: StatusText::new(&Finished {
                phase: "finished",
                bits: manifest.bits,
                done: 1.0,
                positions: manifest.positions,
                losing: manifest.losing,
                stored: manifest.stored,
                fingerprint: manifest.fingerprint,
                path: &path,
                software: concat!("chomp ", env!("CARGO_PKG_VERSION")),
            }),
        }
    }
}
