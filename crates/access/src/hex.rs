//! Bytes as hex digits.

pub(crate) fn hex(bytes: &[u8]) -> String {
    let digit = |value: u8| char::from(b"0123456789abcdef"[usize::from(value)]);
    let digits = bytes.iter().flat_map(|byte| [byte >> 4, byte & 15]);
    digits.map(digit).collect()
}

/// The `N` bytes that exactly 2 `N` lower case hex digits stand for.
pub(crate) fn unhex<const N: usize>(text: &str) -> Option<[u8; N]> {
    let digits = |at: usize| text.get(2 * at..2 * at + 2);
    let bytes = (0..N).map(|at| u8::from_str_radix(digits(at)?, 16).ok());
    let bytes: Vec<u8> = bytes.collect::<Option<_>>()?;
    // Other texts have a sign, upper case letters or more digits.
    (hex(&bytes) == text).then(|| bytes.try_into().ok())?
}
