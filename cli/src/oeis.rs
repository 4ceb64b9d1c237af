//! `chomp oeis`: the terms of integer sequences, as the b-files of the OEIS have them.

use std::iter::once;

use chomp_boxes::few::{Few, FewSolver, Tail};
use chomp_boxes::space::Space;
use chomp_boxes::{Bounds, FewTally, Memory, Solver, hooks};
use chomp_games::Effort;
use chomp_plan::forecast::as_f64;
use chomp_query::{INSIDE_MAX, Inside, TooManyInside, openings_to};
use chomp_table::Table;
use chomp_table::partition::{AREA_MAX, Partition, count};
use chomp_table::reader::AnyTable;
use chomp_table::values::Values;
use chomp_table::values::manifest::AreaInfo;
use clap::builder::PossibleValuesParser;

use crate::boxes;
use crate::exit::{Interruption, usage};
use crate::flags::{ShareArgs, SourceArgs};
use crate::progress::{Display, Teller};
use crate::source;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Without NAME it lists the sequences, each with the n of its first term, and whether its terms are one \
for each n, the rows of a triangle, or a list. docs/OEIS.md tells more of them.
A line has n and the term of n, as the b-files of https://oeis.org, where the names A... come from. \
--table is only for those of n bits, which are read from a table of losing positions, and those of n \
tiles, from a table of Grundy values. All others are computed.

Examples:
  chomp oeis
  chomp oeis A029899 --terms 401 > b029899.txt
  chomp oeis bits --terms 32
  chomp oeis by-value --terms 3240 --table chomp-values")]
pub(crate) struct OeisArgs {
    /// The sequence [default: list them]
    #[arg(value_name = "NAME", ignore_case = true, hide_possible_values = true)]
    #[arg(value_parser = names())]
    name: Option<String>,

    /// How many terms, from the first on
    #[arg(long, value_name = "N", default_value_t = 20, value_parser = clap::value_parser!(u32).range(1..=200_000))]
    terms: u32,

    #[command(flatten)]
    source: SourceArgs,

    #[command(flatten)]
    pub(crate) share: ShareArgs,
}

/// Each line has the name of a sequence, the n of its first term, the number of terms for each size of boards, and a
/// description. The number is one with `each`, the size with `triangle`, and any with `list`.
const SEQUENCES: &str = "\
A112470     0 each     losing positions of n tiles
A112471     0 each     winning positions of n tiles
A112472     1 each     positions of n tiles with one winning move
A112473     1 each     positions of n tiles with several winning moves
A029899     0 each     losing positions inside 3 x n
A029900     0 list     columns of the boards of 3 rows that (2,n+1) wins
A029901     0 list     columns of the boards of 3 rows that are won in row 3
A029902     0 list     columns of these winning moves, counted from 0
A069001     1 each     Grundy value of 3 x n
A395126     1 list     last rows of the losing positions of 4 rows, ascending
bits        1 each     losing positions of n bits
squares     1 each     losing positions inside n x n
rectangles  1 triangle losing positions inside k x n, k = 1..n
4xn         0 each     losing positions inside 4 x n
5xn         0 each     losing positions inside 5 x n
3xn-column  1 each     column of the winning first move of 3 x n
4xn-row     1 each     row of the winning first move of 4 x n
4xn-column  1 each     column of the winning first move of 4 x n
three-three 1 list     all n for which (3,3) wins n x (n+1)
several     2 each     boards of n bits, rows <= columns, with several winning first moves
moves       1 triangle moves to the end of k x n, k = 1..n, if the winner hurries and the loser delays
values      1 triangle Grundy value of k x n, k = 1..n
4xn-values  1 each     Grundy value of 4 x n
by-value    1 triangle positions of n tiles with the Grundy value k, k = 0..n-1
largest     1 each     positions of n tiles with the Grundy value n-1
missing     1 list     all n > 1 for which no position of n tiles has the Grundy value n-2
cubes       1 each     losing positions inside n x n x n
2xnxn       1 each     losing positions inside 2 x n x n
ichomp      0 each     losing positions of iChomp with n cells
";

type Found = anyhow::Result<Vec<u64>>;

fn names() -> PossibleValuesParser {
    let names = SEQUENCES.lines().filter_map(|line| line.split(' ').next());
    PossibleValuesParser::new(names)
}

pub(crate) async fn run(args: OeisArgs, display: &Display) -> anyhow::Result<()> {
    let Some(wanted) = args.name else {
        return crate::print(SEQUENCES);
    };
    let is_it = |line: &&str| {
        line.split(' ')
            .next()
            .is_some_and(|name| name.eq_ignore_ascii_case(&wanted))
    };
    let line = SEQUENCES
        .lines()
        .find(is_it)
        .expect("the command line takes these names");
    let words: Vec<&str> = line.split_whitespace().collect();
    let (name, offset, growth) = (words[0], words[1].parse::<u64>()?, words[2]);
    let is_read = line.contains(" bits") || line.contains(" tiles");
    let table = match is_read.then(|| source::open(&args.source, display.overrides())) {
        None => None,
        Some(opening) => match opening.await {
            Err(error) if source::is_missing(&error) => None,
            opened => Some(opened?),
        },
    };
    let share = args.share;
    let find = move |teller| {
        TermSources {
            table,
            share,
            teller,
        }
        .first(name, growth, args.terms as usize)
    };
    let terms = display
        .during("solving", &display.stop_token(), find)
        .await?;
    let lines = (offset..)
        .zip(terms)
        .map(|(n, term)| format!("{n} {term}\n"));
    crate::print(&lines.collect::<String>())
}

fn lacks(what: &str, command: &str) -> anyhow::Error {
    usage(format!(
        "so many terms need a table of {what}, and a large one: chomp {command}, or more, computes it, and --table says \
         where it is (chomp grundy writes chomp-values)"
    ))
}

struct TermSources {
    table: Option<AnyTable>,
    share: ShareArgs,
    teller: Teller,
}

impl TermSources {
    /// The first `wanted` terms of a sequence. The size of the boards is doubled until they give as many.
    fn first(&self, name: &str, growth: &str, wanted: usize) -> Found {
        let is_enough = |&rows: &usize| rows * (rows + 1) / 2 >= wanted;
        let mut size = match growth {
            "triangle" => (1..wanted).find(is_enough).unwrap_or(wanted),
            // Its terms are many more than the columns.
            _ if name == "A395126" => 15,
            _ => wanted,
        };
        loop {
            let mut terms = self.terms(name, size)?;
            if terms.len() >= wanted {
                terms.truncate(wanted);
                return Ok(terms);
            }
            size *= 2;
        }
    }

    fn terms(&self, name: &str, size: usize) -> Found {
        let triangle = || (1..=size).flat_map(|n| (1..=n).map(move |k| (k, n)));
        let with_rows = |rows: usize| (1..=size).map(move |n| (rows, n));
        Ok(match name {
            // The position without tiles is winning: the other player has taken the poison.
            "A112470" => {
                let counts = self.by_value(size - 1)?;
                once(0)
                    .chain(counts.iter().map(|counts| counts[0]))
                    .collect()
            }
            "A112471" => {
                let counts = self.by_value(size - 1)?;
                let winning = counts.iter().map(|counts| counts[1..].iter().sum());
                once(1).chain(winning).collect()
            }
            "A112472" => self.by_winning_moves(size, 1)?,
            "A112473" => self.by_winning_moves(size, 2)?,
            "by-value" => self.by_value(size)?.concat(),
            "largest" => {
                let counts = self.by_value(size)?;
                (0..size).map(|index| counts[index][index]).collect()
            }
            "missing" => {
                let tiles = self.values(size)?.manifest().tiles as usize;
                let counts = self.by_value(tiles)?;
                let is_missing = |&n: &usize| counts[n - 1][n - 2] == 0;
                (2..=tiles).filter(is_missing).map(|n| n as u64).collect()
            }
            "A029899" => self.tally(3, size)?.losing().swap_remove(3),
            "4xn" => self.tally(4, size)?.losing().swap_remove(4),
            "5xn" => self.tally(5, size)?.losing().swap_remove(5),
            "3xn-column" => self.first_moves(3, size)?.map(|cell| cell.2).collect(),
            "4xn-row" => self.first_moves(4, size)?.map(|cell| cell.1).collect(),
            "4xn-column" => self.first_moves(4, size)?.map(|cell| cell.2).collect(),
            "A029900" => {
                let moves = self.first_moves(3, size)?.filter(|cell| cell.1 == 2);
                let mut moves: Vec<_> = moves.map(|cell| (cell.2, cell.0)).collect();
                moves.sort_unstable();
                let each_column = (1..).zip(moves).take_while(|(n, (column, _))| n == column);
                each_column.map(|(_, (_, columns))| columns).collect()
            }
            "A029901" | "A029902" => {
                let moves = self.first_moves(3, size)?.filter(|cell| cell.1 == 3);
                let term = |cell: (u64, u64, u64)| match name {
                    "A029901" => cell.0,
                    _ => cell.2 - 1,
                };
                moves.map(term).collect()
            }
            "A395126" => {
                let mut all = Vec::new();
                self.few(4, size, |tails| {
                    all.extend(tails.iter().flat_map(Tail::positions));
                })?;
                all.sort_unstable();
                all.iter().map(|rows| rows[3].into()).collect()
            }
            "A069001" => settled(Inside::values, (3, size), with_rows(3))?,
            "4xn-values" => settled(Inside::values, (4, size), with_rows(4))?,
            "values" => settled(Inside::values, (size, size), triangle())?,
            "moves" => settled(Inside::depths, (size, size), triangle())?,
            "squares" => self.square(size, (1..=size).map(|n| (n, n)))?,
            "rectangles" => self.square(size, triangle())?,
            "bits" => {
                let losing = &self.losing(size)?.manifest().losing_by_bits[..=size];
                losing.windows(2).map(|pair| pair[1] - pair[0]).collect()
            }
            "several" => {
                let mut counts = vec![0; size + 2];
                for one in openings_to(self.losing(size + 1)?, u32::try_from(size + 1)?)? {
                    counts[(one.rows + one.columns) as usize] += u64::from(one.moves.len() > 1);
                }
                counts.split_off(2)
            }
            "three-three" => {
                boxes::enough(&self.share, hooks::memory([3, 3], size), "")?;
                let tell = |done| self.teller.stage("positions", done).is_continue();
                let boards = hooks::boards_won_by([3, 3], size, tell);
                let mut boards = boards.ok_or(Interruption::Lost)?;
                boards.retain(|(m, n)| m + 1 == *n);
                boards.iter().map(|&(m, _)| m as u64).collect()
            }
            "cubes" => self.space([size; 3])?,
            "2xnxn" => self.space([2, size, size])?,
            _ => {
                let mut counts = vec![0; size];
                let cells = u32::try_from(size - 1)?;
                for position in chomp_games::open("ichomp", "", Effort::USUAL)?.list(cells)? {
                    let boards = position.split('/').map(str::parse::<Partition>);
                    let boards = boards.collect::<Result<Vec<_>, _>>()?;
                    let cells: u32 = boards.iter().map(Partition::area).sum();
                    counts[cells as usize] += 1;
                }
                counts
            }
        })
    }

    fn tell(&self, done: u64, all: u64) -> Result<(), Interruption> {
        let told = self.teller.stage("positions", as_f64(done) / as_f64(all));
        told.is_continue().then_some(()).ok_or(Interruption::Lost)
    }

    fn losing(&self, bits: usize) -> anyhow::Result<&Table> {
        match &self.table {
            Some(AnyTable::Losing(table)) if table.manifest().bits as usize >= bits => Ok(table),
            _ => Err(lacks("losing positions", &format!("run --bits {bits}"))),
        }
    }

    fn values(&self, tiles: usize) -> anyhow::Result<&Values> {
        match &self.table {
            Some(AnyTable::Values(table)) if table.manifest().tiles as usize >= tiles => Ok(table),
            _ if tiles > AREA_MAX as usize => Err(usage(format!(
                "there are no more terms: tables have values of at most {AREA_MAX} tiles"
            ))),
            _ => Err(lacks("Grundy values", &format!("grundy --tiles {tiles}"))),
        }
    }

    /// Of 1, 2, … tiles: index v is the number of positions with the value v.
    fn by_value(&self, tiles: usize) -> anyhow::Result<Vec<Vec<u64>>> {
        let areas = &self.values(tiles.max(1))?.manifest().areas[..tiles];
        let mut counts: Vec<_> = areas.iter().map(AreaInfo::positions_by_value).collect();
        for (counts, tiles) in counts.iter_mut().zip(1..) {
            counts.resize(tiles, 0);
        }
        Ok(counts)
    }

    /// For 1, 2, … tiles, the number of positions with `wanted` winning moves; if `wanted` is 2, with 2 or more.
    fn by_winning_moves(&self, tiles: usize, wanted: usize) -> Found {
        let (table, most) = (self.values(tiles)?, u32::try_from(tiles)?);
        let areas = (1..=most).map(|tiles| table.area(tiles));
        let areas = areas.collect::<Result<Vec<_>, _>>()?;
        let is_losing = |left: &Partition| {
            let values = &areas[left.area() as usize - 1];
            values[usize::try_from(left.rank()).expect("in memory")] == 0
        };
        let mut terms = vec![0; tiles];
        for (term, tiles) in terms.iter_mut().zip(1..) {
            for rank in 0..count(tiles) {
                let position = Partition::at(tiles, rank);
                let winning = position.moves().filter(|(_, left)| is_losing(left));
                *term += u64::from(winning.take(2).count() == wanted);
                self.tell(rank, count(most))?;
            }
        }
        Ok(terms)
    }

    fn few(
        &self,
        rows: usize,
        columns: usize,
        mut take: impl FnMut(&[Tail]) + Send,
    ) -> anyhow::Result<()> {
        let (few, threads) = (Few::new(&vec![columns; rows]), self.share.threads());
        boxes::enough(&self.share, few.memory(threads), "")?;
        let goes_on = FewSolver::new(few).advance(usize::MAX, threads, |tails, done| {
            take(&tails);
            self.teller.stage("third rows", done).is_continue()
        });
        Ok(goes_on.then_some(()).ok_or(Interruption::Lost)?)
    }

    /// The tally of the losing positions of at most `rows` rows and `columns` columns.
    fn tally(&self, rows: usize, columns: usize) -> anyhow::Result<FewTally> {
        let mut tally = FewTally::new(rows, columns);
        self.few(rows, columns, |tails| tally.add(tails))?;
        Ok(tally)
    }

    /// For 1, 2, … columns: their number, and the first winning first move (row, column) with `rows` rows.
    fn first_moves(
        &self,
        rows: u32,
        columns: usize,
    ) -> anyhow::Result<impl Iterator<Item = (u64, u64, u64)>> {
        let openings = self.tally(rows as usize, columns)?.openings().into_iter();
        let openings = openings.filter(move |((own, _), _)| *own == rows);
        Ok(openings.map(|((_, n), moves)| (n.into(), moves[0].0.into(), moves[0].1.into())))
    }

    /// For each of `boards`, which lie inside a square of this side, the number of losing positions inside it.
    fn square(&self, side: usize, boards: impl Iterator<Item = (usize, usize)>) -> Found {
        let (bounds, threads) = (Bounds::new(side, side)?, self.share.threads());
        let memory = Memory::of(&bounds, threads).whole;
        boxes::enough(&self.share, memory, "")?;
        let solver = Solver::new(bounds.clone(), threads, memory, None)?;
        let summary = boxes::solve(solver, bounds.positions(), &self.teller)?;
        let summary = summary.ok_or(Interruption::Lost)?;
        Ok(boards.map(|(m, n)| summary.losing(m, n)).collect())
    }

    /// For n = 1, 2, …, the number of losing positions inside n x n x n or, if the first side a is less than the
    /// others, inside a x n x n.
    fn space(&self, sides: [usize; 3]) -> Found {
        let space = Space::new(sides).map_err(|error| usage(error.to_string()))?;
        boxes::enough(&self.share, space.memory(), "")?;
        let control = |done| self.tell(done, space.surroundings()).is_ok();
        let solved = space.solve(self.share.threads(), &control);
        let solved = solved.ok_or(Interruption::Lost)?;
        let [a, _, most] = sides;
        let sides = |n| [if a < most { a } else { n }, n, n];
        Ok((1..=most).map(|n| solved.losing(sides(n))).collect())
    }
}

/// The depth or the value, as `settle` finds them, of each of `boards`, which lie inside a board of `rows` rows and
/// `columns` columns.
fn settled(
    settle: fn(&[u32], u64) -> Result<Inside, TooManyInside>,
    (rows, columns): (usize, usize),
    boards: impl Iterator<Item = (usize, usize)>,
) -> Found {
    let board = |(rows, columns)| vec![u32::try_from(columns).expect("a side"); rows];
    let found = settle(&board((rows, columns)), INSIDE_MAX);
    let refused = |many| usage(format!("of {rows}x{columns} {many}"));
    let found = found.map_err(refused)?;
    Ok(boards
        .map(|sides| found.result_of(&board(sides)).into())
        .collect())
}
