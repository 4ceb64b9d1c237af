//! A Roaring bitmap of 64 bits in its portable form, as `CRoaring`, Java, Go and pyroaring read it.
//!
//! ```text
//! 8  the number of blocks; for each, ascending:
//! 4      what its words have above their low 32 bits
//! …      the Roaring bitmap of the low halves of its words
//! ```
//!
//! One block is held at a time. Their number comes from a pass of its own.

use std::io::Write;

use roaring::RoaringBitmap;

use crate::words::Words;
use crate::{ExportError, Pieces};

pub(crate) fn write(words: &mut Words<'_>, mut out: &mut dyn Write) -> Result<u64, ExportError> {
    let blocks = words.totals()?.blocks.len() as u64;
    out.write_all(&blocks.to_le_bytes())?;
    let mut key = 0;
    let mut block = RoaringBitmap::new();
    let mut finish = |key: u32, block: &mut RoaringBitmap| -> Result<(), ExportError> {
        if !block.is_empty() {
            out.write_all(&key.to_le_bytes())?;
            std::mem::take(block).serialize_into(&mut out)?;
        }
        Ok(())
    };
    let count = words.for_each_piece(|piece| {
        for &word in piece {
            let high = u32::try_from(word >> 32).expect("the high half");
            if high != key {
                finish(key, &mut block)?;
                key = high;
            }
            let low = u32::try_from(word & u64::from(u32::MAX)).expect("the low half");
            block.try_push(low).expect("words ascend");
        }
        Ok(())
    })?;
    finish(key, &mut block)?;
    Ok(count)
}
