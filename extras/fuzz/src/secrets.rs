//! Secrets and tokens, which are made anew for each process: nobody keeps them.

use std::fs;
use std::sync::LazyLock;

use chomp_access::{Holder, Issuer, Token};
use serde_json::Value;

use crate::seeds::NOW;

/// How much of a secret is too much in a text, in bytes.
const PIECE: usize = 16;

static ISSUER: LazyLock<Issuer> = LazyLock::new(|| Issuer::in_memory().expect("random numbers"));
static TOKENS: LazyLock<Vec<Vec<u8>>> = LazyLock::new(|| {
    let last = Holder {
        number: u32::MAX,
        serial: 7,
    };
    let all = [
        (Holder::OWNER, None),
        (last, Some(NOW + 1)),
        (last, Some(u64::MAX)),
    ];
    let given = all.map(|(holder, expires)| ISSUER.issue(holder, expires));
    given
        .map(|token: Token| token.secret().as_bytes().to_vec())
        .to_vec()
});
/// A file of format 2, and the same of format 1, which had no inode.
static SECRETS: LazyLock<[Value; 2]> = LazyLock::new(|| {
    let folder = tempfile::tempdir().expect("a folder for files");
    let path = folder.path().join("secrets");
    Issuer::open(&path).expect("secrets can be made");
    let newer = fs::read(path).expect("it was written");
    let newer: Value = serde_json::from_slice(&newer).expect("it is JSON");
    let mut older = newer.clone();
    older["format"] = 1.into();
    older.as_object_mut().expect("fields").remove("inode");
    [newer, older]
});

pub(crate) fn issuer() -> &'static Issuer {
    &ISSUER
}

pub(crate) fn tokens() -> Vec<Vec<u8>> {
    TOKENS.clone()
}

pub(crate) fn files() -> Vec<Vec<u8>> {
    let files = SECRETS.each_ref();
    files.map(|file| file.to_string().into_bytes()).to_vec()
}

/// Whether a text has a piece of the secret or of the key.
pub(crate) fn are_in(text: &str) -> bool {
    let fields = ["secret", "authority_key"].map(|name| SECRETS[0][name].as_str());
    let lines = fields.into_iter().flatten().flat_map(str::lines);
    let mut secret = lines.filter(|line| !line.starts_with('-'));
    secret.any(|line| {
        let mut pieces = line.as_bytes().chunks_exact(PIECE);
        pieces.any(|piece| text.as_bytes().windows(PIECE).any(|at| at == piece))
    })
}
