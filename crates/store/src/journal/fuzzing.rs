//! Functions for the package `extras/fuzz`, which gives random bytes to decoders.

use super::format::{CHECKPOINT, SEGMENT, decode, encode_checkpoint};

/// Whether `bytes` can be decoded, as a checkpoint with number 0 or as segment 0. Panics if a checkpoint of the decoded
/// ledger is decoded as another ledger.
pub fn is_read(bytes: &[u8], is_checkpoint: bool) -> bool {
    let kind = if is_checkpoint { CHECKPOINT } else { SEGMENT };
    let Ok(ledger) = decode(kind, bytes, 0) else {
        return false;
    };
    let again = encode_checkpoint(&ledger);
    let read = decode(CHECKPOINT, &again, ledger.next_segment);
    assert!(
        read.is_ok_and(|read| read == ledger),
        "a checkpoint comes back"
    );
    true
}
