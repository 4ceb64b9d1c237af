//! Moves taken back, by the parts of a word that they change.
//!
//! A move sorts a **span** of a word, which starts at a 1 and ends at a 0: its 0s first, then its 1s; and then
//! trailing 1s are dropped. So the words p with a move to q are found thus:
//!
//! * Append t trailing 1s to q, for every t that leaves it short enough; this is the **path** that
//!   the move left before 1s were dropped. Its leading 0s, up to the bits of the table, count.
//! * Choose a span of 0s followed by 1s in the path, at least one of each: a part of a run of 0s, and of the run of 1s
//!   that follows. With trailing 1s, the span must include all of them: the span ended with the last 0 of p.
//! * Replace it by 1, any arrangement of as many 0s and 1s as are left, 0.
//!
//! Span and arrangement follow from p and the path, so each pair of p and a move from it is met once. p is larger than
//! q: it has a 1 where the span starts.
//!
//! A word is a high part, from some bit w up, and a low part. For all words p with one high part:
//!
//! * [`above`]: the span lies in the high part, and nothing was dropped. q has the low part of p, and the
//!   high part with one span sorted.
//! * [`across`]: the span starts in the high part and ends in the low part, and nothing was dropped. The high
//!   part of q has 0s from the start of the span on, and then the 1s that found no room in the low part;
//!   [`fills`] says where the span may end.
//! * The span lies in the low part, and nothing was dropped: q has the same high part.
//! * t 1s were dropped, so that q is p shifted down by t bits, with a sorted end. If the span starts in the low part, q
//!   begins with the high part of p. If it starts in the high part, q is the bits of p above the start, then 0s.

use chomp_table::word::mask;

/// For the words with the high part `high` and their moves whose span lies in it: visits the high parts of the words to
/// which these moves lead.
pub(crate) fn above(high: u64, mut visit: impl FnMut(u64)) {
    for start in ones(high) {
        let kept = high & !mask(start + 1);
        let mut sorted = 1;
        for end in (0..start).rev() {
            if high >> end & 1 == 1 {
                sorted += 1;
            } else {
                visit(kept | mask(sorted) << end | high & mask(end));
            }
        }
    }
}

/// For the words with the high part `high` and their moves whose span starts in it and ends below: visits the high
/// parts of the words to which these moves lead. Each comes with two numbers of 1s that the span has in the high part
/// below its start: how many fewer there are after the move than before, and how many there are after it.
pub(crate) fn across(high: u64, mut visit: impl FnMut(u64, u32, u32)) {
    for (known, start) in (0..).zip(ones(high)) {
        let kept = high & !mask(start + 1);
        for after in 0..=known {
            visit(kept | mask(after), known - after, after);
        }
    }
}

/// For a word with the low part `low`, of `width` bits, and the moves to it whose span starts above the low part and
/// ends in it, with `fewer` and `after` as [`across`] has them: visits each bit where such a span may end. It comes
/// with the number of 1s that the low part had above this bit before the move, in any arrangement.
pub(crate) fn fills(low: u64, width: u32, fewer: u32, after: u32, mut visit: impl FnMut(u32, u32)) {
    // The 1s of the span, from `end` up to `high`.
    let high = match after {
        0 => u64::BITS - low.leading_zeros(),
        _ => width,
    };
    for end in (0..high).rev() {
        if low >> end & 1 == 0 {
            return;
        }
        let ones = high - end;
        if ones > fewer {
            visit(end, ones - 1 - fewer);
        }
    }
}

/// [`fills`] visits nothing for a lower low part than this: 0 if `after` is 0, else `fewer` + 1 1s at its top. None if
/// these 1s do not fit.
pub(crate) fn least_low(width: u32, fewer: u32, after: u32) -> Option<u64> {
    match after {
        0 => Some(0),
        _ if fewer < width => Some(mask(fewer + 1) << (width - fewer - 1)),
        _ => None,
    }
}

/// For the words with the high part `high`, from bit `width` up, and their moves whose span starts in it and that drop
/// 1s: visits the words to which these moves lead. Each comes with the number of 1s in the low part before the move.
pub(crate) fn dropped(width: u32, high: u64, mut visit: impl FnMut(u64, u32)) {
    for (known, start) in (0..).zip(ones(high)) {
        let kept = high & !mask(start + 1);
        // The span has its first 1, the `known` ones below it in the high part, and `free` ones in the low part, whose
        // bit 0 is 0.
        for free in 0..width {
            if kept != 0 {
                visit(kept << width >> (known + free + 1), free);
            }
        }
    }
}

/// The high parts of all words to which a move leads from those with the high part `high`, from bit `width` up;
/// ascending, and `high` among them.
pub(crate) fn reached(bits: u32, width: u32, high: u64) -> Vec<u64> {
    let mut reached = vec![high];
    above(high, |source| reached.push(source));
    across(high, |source, _, _| reached.push(source));
    reached.extend((1..bits).map(|trailing| high >> trailing));
    dropped(width, high, |word, _| {
        reached.push(word.checked_shr(width).unwrap_or(0));
    });
    reached.sort_unstable();
    reached.dedup();
    reached
}

/// The places of the 1s, from the lowest on.
fn ones(mut number: u64) -> impl Iterator<Item = u32> {
    std::iter::from_fn(move || {
        let lowest = (number != 0).then(|| number.trailing_zeros());
        number &= number.wrapping_sub(1);
        lowest
    })
}
