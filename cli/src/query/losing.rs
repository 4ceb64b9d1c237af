//! Whether positions are losing, and what wins: from a table, or solved on the spot if it does not have them.

use chomp_query::{
    Answer, INSIDE_MAX, Losing, PositionVerdict, SolveError, SolveLimits, answers, drawing, solve,
    verdicts,
};
use chomp_table::TableError;
use chomp_table::position::PositionError;
use tokio::runtime::Handle;

use super::board::Boards;
use super::{AnswerSource, Form, Style, answer_text, told, verdict_text};
use crate::exit::{Interruption, usage};
use crate::machine;
use crate::progress::Display;
use crate::source::{LosingTable, NoTable};

/// The most combinations of the rows below the first that a search goes through. So many take half an hour.
const LOWER_ROWS_MAX: u64 = 1 << 33;

pub(super) struct LosingAnswers<'a> {
    pub(super) table: Result<LosingTable, NoTable>,
    pub(super) display: &'a Display,
}

impl AnswerSource for LosingAnswers<'_> {
    fn has(&self, board: &Boards) -> bool {
        let table = self.table.as_ref();
        table.is_ok_and(|table| board.bits() <= u64::from(table.bits()))
    }

    fn texts(&self, style: Style, boards: &[Boards]) -> anyhow::Result<String> {
        let verdict =
            |board: &Boards, verdict: &PositionVerdict| verdict_text(&board.name(), verdict.losing);
        let full = |board: &Boards, answer: &Answer| {
            let moves = &answer.winning_moves;
            let text = answer_text(&board.name(), answer.verdict.losing, moves);
            let drawn = board.position().filter(|_| style.form == Form::WithPicture);
            text + &drawn.map_or_else(String::new, |position| drawing::draw(&position, moves))
        };
        let mut missing = None;
        // A shard also has some of the positions of more bits than `bits()`, so a single position is looked up in any
        // case.
        if let Ok(table) = &self.table
            && (boards.len() == 1 || boards.iter().all(|board| self.has(board)))
            && let Some(positions) = boards
                .iter()
                .map(Boards::position)
                .collect::<Option<Vec<_>>>()
        {
            let found = if style.moves {
                answers(table, &positions).map(|found| told(style, boards, found, full))
            } else {
                verdicts(table, &positions).map(|found| told(style, boards, found, verdict))
            };
            match found {
                Err(error @ (TableError::NotInShard { .. } | TableError::Beyond { .. }))
                    if boards.len() == 1 =>
                {
                    missing = Some(error);
                }
                found => return Ok(found?),
            }
        }
        let solved = boards.iter().map(|board| self.solve(board, missing.take()));
        let solved = solved.collect::<anyhow::Result<Vec<Answer>>>()?;
        Ok(if style.moves {
            told(style, boards, solved, full)
        } else {
            let verdicts = solved.into_iter().map(|answer| answer.verdict).collect();
            told(style, boards, verdicts, verdict)
        })
    }
}

impl LosingAnswers<'_> {
    /// Solves a position that the table does not have. `missing` is the error of the table.
    fn solve(&self, board: &Boards, missing: Option<TableError>) -> anyhow::Result<Answer> {
        let limits = SolveLimits {
            inside: INSIDE_MAX,
            lower_rows: LOWER_ROWS_MAX,
            memory: machine::memory_bytes()?,
            threads: machine::threads(),
        };
        let rows = board.rows().to_vec();
        let stop = self.display.stop_token();
        let solving = self.display.during("solving", &stop, move |teller| {
            solve(&rows, limits, |done| {
                teller.stage("positions inside", done).is_continue()
            })
        });
        let error = match Handle::current().block_on(solving) {
            Ok(answer) => return Ok(answer),
            Err(SolveError::Stopped) => return Err(Interruption::Lost.into()),
            Err(error) => error,
        };
        if !matches!(error, SolveError::Inside(_)) {
            return Err(usage(error.to_string()));
        }
        let cause = match (missing, &self.table) {
            (Some(missing), _) => anyhow::Error::from(missing),
            (None, Err(missing)) if board.position().is_some() => missing.clone().into(),
            (None, _) => PositionError::TooLarge { bits: board.bits() }.into(),
        };
        Err(cause.context(error))
    }
}

#[cfg(test)]
mod tests {
    use chomp_table::Word;

    use super::super::{Notation, PlayArgs};
    use super::*;
    use crate::TestOverrides;

    /// Positions of at most 4 cells in a row, by hand.
    struct Rows;

    impl Losing for Rows {
        fn are_losing(&self, words: &[Word]) -> Result<Vec<bool>, TableError> {
            Ok(words.iter().map(|word| word.get() == 2).collect())
        }

        fn bits(&self) -> u32 {
            5
        }
    }

    #[tokio::test(flavor = "multi_thread", worker_threads = 1)]
    async fn answers_are_told() {
        let display = Display::new(false, TestOverrides::NONE);
        let check = move || {
            let solver = LosingAnswers {
                table: Ok(LosingTable(Box::new(Rows))),
                display: &display,
            };
            let tell = |texts: [&str; 3], moves, form, depth| {
                let boards = texts.map(|text| Notation::Rows.parse(text).unwrap());
                let play = PlayArgs { depth, line: false };
                let style = Style { form, moves, play };
                solver.texts(style, &boards).unwrap()
            };
            let told = |moves, form| tell(["4", "1", "0"], moves, form, false);
            assert_eq!(
                told(true, Form::Text),
                "4 is winning, with (1,2)\n1 is losing: no move wins\n\
                 0 is won: the other one took the poison\n"
            );
            assert_eq!(
                told(true, Form::WithPicture),
                "4 is winning, with (1,2)\nx O . .\n1 is losing: no move wins\nx\n\
                 0 is won: the other one took the poison\n"
            );
            assert_eq!(
                told(false, Form::WithPicture),
                "4 is winning\n1 is losing\n0 is winning\n"
            );
            let lines = told(true, Form::Json);
            let first: serde_json::Value =
                serde_json::from_str(lines.lines().next().unwrap()).unwrap();
            let expected = serde_json::json!({
                "rows": [4], "word": 30, "bits": 5, "area": 4, "losing": false,
                "winning_moves": [[1, 2]], "losing_positions": [[1]], "reply": [1, 2],
            });
            assert_eq!(first, expected);
            assert_eq!(
                told(false, Form::Json).lines().nth(1).unwrap(),
                r#"{"rows":[1],"word":2,"bits":2,"area":1,"losing":true}"#
            );
            let deep = |form| tell(["4", "1", "4x16"], false, form, true);
            assert_eq!(
                deep(Form::Text),
                "4 is winning\n  2 moves to the end, if the winner hurries and the loser delays\n\
                 1 is losing\n  1 move to the end, if the winner hurries and the loser delays\n\
                 4x16 is winning\n  32 moves to the end, if the winner hurries and the loser delays\n"
            );
            for (line, expected) in deep(Form::Json).lines().zip(["2", "1", "32"]) {
                let depth = format!("\"depth\":{expected},");
                assert!(line.contains(&depth), "{line}");
            }
        };
        tokio::task::spawn_blocking(check).await.unwrap();
    }
}
