//! CSV files with columns of positions.

use chomp_plan::counted;

use super::Notation;
use super::board::Boards;
use crate::exit::usage;

/// The signs that separate the fields of CSV files.
const SEPARATORS: [char; 3] = ['\t', ';', ','];

/// The columns of a CSV file that have the positions.
pub(super) struct Columns {
    separators: Vec<char>,
    count: usize,
    rows: Option<usize>,
    word: Option<usize>,
}

impl Columns {
    /// The columns that a line names, if one of them is `rows` or `word`. A comment names none, but a column may have
    /// the name `#`.
    pub(super) fn of(line: &str) -> Option<Columns> {
        SEPARATORS.iter().find_map(|&separator| {
            let names = fields(line, &[separator])?;
            let names: Vec<&str> = names.into_iter().map(str::trim).collect();
            let place = |name: &str| {
                let mut places = (0..names.len()).filter(|&place| names[place] == name);
                places.next().filter(|_| places.next().is_none())
            };
            let (rows, word) = (place("rows"), place("word"));
            if rows.or(word).is_none() || names[0].starts_with('#') && names[0] != "#" {
                return None;
            }
            // Lines below a single name may have any separator, and then are not understood.
            let separators = match names.len() {
                1 => SEPARATORS.to_vec(),
                _ => vec![separator],
            };
            let count = names.len();
            Some(Columns {
                separators,
                count,
                rows,
                word,
            })
        })
    }

    /// Whether `--numbers` does not contradict the names. The default may be meant or not.
    pub(super) fn may_have(&self, numbers: Notation) -> bool {
        match numbers {
            Notation::Rows => true,
            Notation::Columns => false,
            Notation::Words => self.word.is_some(),
        }
    }

    pub(super) fn position(&self, line: &str) -> anyhow::Result<Boards> {
        let found = fields(line, &self.separators).filter(|cells| cells.len() == self.count);
        let Some(cells) = found else {
            let columns = counted(self.count, "column");
            return Err(usage(format!(
                "the header has {columns}, and this line has not: write rows as 5+4+2+1, or in quotes"
            )));
        };
        let rows = self.rows.map(|rows| Notation::Rows.parse(cells[rows]));
        let word = self.word.map(|word| cells[word].trim());
        // Beside rows, the word of a large position may be left out.
        let word = word.filter(|word| rows.is_none() || !word.is_empty());
        let word = word.map(|word| Notation::Words.parse(word));
        let [rows, word] = [rows.transpose()?, word.transpose()?];
        if let (Some(rows), Some(word)) = (&rows, &word)
            && rows.all() != word.all()
        {
            return Err(usage(format!(
                "its columns rows, {}, and word, {}, differ: a program may have taken rows for one number",
                rows.name(),
                word.name()
            )));
        }
        Ok(rows.or(word).expect("one of the columns"))
    }
}

/// Whether a first line that is no position looks as if it named columns.
pub(super) fn names_columns(text: &str) -> bool {
    let mut names = text
        .split(SEPARATORS)
        .map(|name| name.trim().trim_matches('"'));
    let begins = |name: &str| {
        name.chars()
            .next()
            .is_none_or(|first| first.is_alphabetic() || first == '_')
    };
    text.starts_with(SEPARATORS) || names.all(begins)
}

/// The fields of a line of CSV, without the quotes around them. None if a quote is not closed, or stands beside other
/// text.
fn fields<'a>(mut rest: &'a str, separators: &[char]) -> Option<Vec<&'a str>> {
    let mut fields = Vec::new();
    loop {
        let (field, behind) = if let Some(quoted) = rest.trim_start_matches(' ').strip_prefix('"') {
            let mut end = quoted.find('"')?;
            // Two quotes stand for one in a field.
            while quoted[end + 1..].starts_with('"') {
                end += 2 + quoted[end + 2..].find('"')?;
            }
            (&quoted[..end], quoted[end + 1..].trim_start_matches(' '))
        } else {
            let end = rest.find(separators).unwrap_or(rest.len());
            (
                Some(&rest[..end]).filter(|field| !field.contains('"'))?,
                &rest[end..],
            )
        };
        fields.push(field);
        if behind.is_empty() {
            return Some(fields);
        }
        rest = behind.strip_prefix(separators)?;
    }
}
