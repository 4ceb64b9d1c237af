//! Entries for the package that feeds decoders any bytes.

use super::format::{CHECKPOINT, SEGMENT, decode, encode_checkpoint};

/// Whether `bytes` are a checkpoint before segment 0, or else that segment. Panics if the checkpoint of what they say
/// says something else.
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
