use fastrand::Rng;

const CHANGES_MAX: usize = 6;
/// The longest run of bytes that is moved at a time.
const RUN_MAX: usize = 64;

/// An input of the corpus, changed; a few are as they are.
pub(crate) fn any(corpus: &[Vec<u8>], rng: &mut Rng) -> Vec<u8> {
    let mut input = rng.choice(corpus).cloned().unwrap_or_default();
    for _ in 0..rng.usize(0..=CHANGES_MAX) {
        change(&mut input, corpus, rng);
    }
    input
}

fn change(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    if input.is_empty() {
        input.extend((0..rng.usize(1..RUN_MAX)).map(|_| rng.u8(..)));
        return;
    }
    let at = rng.usize(..input.len());
    let run = at..(at + rng.usize(1..=RUN_MAX)).min(input.len());
    match rng.u8(0..12) {
        0 | 1 => input[at] ^= 1 << rng.u8(0..8),
        2 => input[at] = rng.u8(..),
        3 => input.truncate(at),
        4 => drop(input.drain(run)),
        5 => {
            let copy = input[run].to_vec();
            let to = rng.usize(..=input.len());
            input.splice(to..to, copy);
        }
        6 => {
            let more: Vec<u8> = run.map(|_| rng.u8(..)).collect();
            input.splice(at..at, more);
        }
        7 => splice(input, corpus, rng),
        8 => number::<4>(&mut input[at..], rng),
        9 => number::<8>(&mut input[at..], rng),
        // Fields stand at multiples of four, mostly.
        10 => number::<4>(&mut input[at / 4 * 4..], rng),
        _ => digits(input, at, rng),
    }
}

fn splice(input: &mut Vec<u8>, corpus: &[Vec<u8>], rng: &mut Rng) {
    if let Some(other) = rng.choice(corpus) {
        let (start, end) = (rng.usize(..=input.len()), rng.usize(..=other.len()));
        input.truncate(start);
        input.extend_from_slice(&other[end..]);
    }
}

/// A number that somebody may have forgotten.
fn odd(before: u64, rng: &mut Rng) -> u64 {
    match rng.u8(0..8) {
        0 => 0,
        1 => 1,
        2 => before.wrapping_add(1),
        3 => before.wrapping_sub(1),
        4 => before.wrapping_mul(2),
        5 => 1 << rng.u8(0..64),
        6 => (1 << rng.u8(0..64)) - 1,
        _ => u64::MAX,
    }
}

fn number<const N: usize>(bytes: &mut [u8], rng: &mut Rng) {
    if let Some(field) = bytes.first_chunk_mut::<N>() {
        let mut before = [0; 8];
        before[..N].copy_from_slice(field);
        let after = odd(u64::from_le_bytes(before), rng).to_le_bytes();
        field.copy_from_slice(&after[..N]);
    }
}

fn digits(input: &mut Vec<u8>, at: usize, rng: &mut Rng) {
    let is_digit = |byte: &u8| byte.is_ascii_digit();
    let Some(start) = input[at..].iter().position(is_digit) else {
        return;
    };
    let start = at + start;
    let length = input[start..].iter().take_while(|byte| is_digit(byte));
    let end = start + length.count();
    let before = std::str::from_utf8(&input[start..end]).map(str::parse);
    let before = before.ok().and_then(Result::ok).unwrap_or(0);
    let after = odd(before, rng).to_string();
    input.splice(start..end, after.into_bytes());
}
