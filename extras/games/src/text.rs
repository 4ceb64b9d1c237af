//! Numbers in the texts of positions.

/// A number in decimal digits, if it is nothing else and at most `max`.
pub(crate) fn number(text: &str, max: u32) -> Option<u32> {
    let digits = text.bytes().all(|byte| byte.is_ascii_digit());
    text.parse().ok().filter(|&number| digits && number <= max)
}

/// Numbers with commas or spaces between them, in brackets or not.
pub(crate) fn numbers(text: &str, max: u32) -> Option<Vec<u32>> {
    let text = text.trim();
    let list = text
        .strip_prefix('[')
        .and_then(|text| text.strip_suffix(']'));
    let text = list.unwrap_or(text).trim();
    let number = |text: &str| number(text.trim(), max);
    if text.contains(',') {
        text.split(',').map(number).collect()
    } else {
        let numbers: Option<Vec<u32>> = text.split_whitespace().map(number).collect();
        numbers.filter(|numbers| !numbers.is_empty())
    }
}

/// A cell as `row,column`, both from 1.
pub(crate) fn cell(text: &str, max: u32) -> Option<(u32, u32)> {
    match numbers(text, max)?[..] {
        [row, column] if row > 0 && column > 0 => Some((row, column)),
        _ => None,
    }
}

pub(crate) fn list(numbers: &[u32]) -> String {
    let texts: Vec<String> = numbers.iter().map(u32::to_string).collect();
    texts.join(",")
}
