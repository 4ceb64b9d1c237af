//! `chomp certify`: proofs that a first move wins, which need no table to be checked.

use std::io::{self, BufRead, BufReader, Write};
use std::path::{Path, PathBuf};

use anyhow::Context;
use chomp_durable_files::open_or_pipe;
use chomp_plan::forecast::as_f64;
use chomp_query::{Certificate, CertificateError, Found, Search};
use chomp_table::reader::AnyTable;
use chomp_table::{Cell, Table, TableError, Word};
use indicatif::HumanCount;
use serde::Serialize;

use crate::exit::{Exit, Interruption, usage};
use crate::export::create;
use crate::flags::{SourceArgs, flag, path, sides};
use crate::machine;
use crate::progress::{Display, Teller};
use crate::source;
use crate::summary::TextReport;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
A certificate is a list of positions, a line each: after every move from one of them some reply leads to one \
of them again. So whoever is to move from one of them loses, and the first move that leaves the first one \
wins. To check one takes the rules of the game and no table; examples/check_certificate.py is another \
program for it. docs/CHECKING.md tells more.

Examples:
  chomp certify 8x10 --move 5,6 --out 8x10.txt
  chomp certify --check 8x10.txt
  python3 examples/check_certificate.py 8x10.txt")]
pub(crate) struct CertifyArgs {
    /// The board, as 8x10
    #[arg(value_name = "BOARD", value_parser = sides, required_unless_present = "check", conflicts_with = "check")]
    board: Option<(u32, u32)>,

    /// The first move (ROW,COLUMN) that wins
    #[arg(long = "move", value_name = "I,J", value_parser = cell, required_unless_present = "check", conflicts_with = "check")]
    opening: Option<Cell>,

    #[command(flatten)]
    source: SourceArgs,

    /// The file to write; - is stdout
    #[arg(long, value_name = "FILE", value_parser = path(), default_value = "-", conflicts_with = "check")]
    out: PathBuf,

    /// Replace the file if it is there
    #[arg(long, value_parser = flag)]
    force: bool,

    /// Check the certificate in this file instead; - is stdin
    #[arg(long, value_name = "FILE", value_parser = path())]
    check: Option<PathBuf>,

    /// Print the summary as one JSON object
    #[arg(long, value_parser = flag)]
    json: bool,
}

#[derive(Debug, Serialize)]
struct Proved {
    board: (u32, u32),
    #[serde(rename = "move")]
    opening: (u32, u32),
    /// The positions of the certificate, one of each mirror pair.
    positions: usize,
    /// The number of positions that every certificate of this move has. Only a search finds it, so it is None after a
    /// check.
    #[serde(skip_serializing_if = "Option::is_none")]
    necessary: Option<usize>,
}

impl Proved {
    fn of(certificate: &Certificate) -> Proved {
        let Cell { row, column } = certificate.opening;
        Proved {
            board: certificate.board,
            opening: (row, column),
            positions: certificate.positions.len(),
            necessary: None,
        }
    }

    fn text(&self) -> String {
        let Proved {
            board: (m, n),
            opening: (i, j),
            positions,
            necessary,
        } = self;
        let mut lines = TextReport::new(format_args!("({i},{j}) wins on {m}x{n}"));
        lines.line("positions", HumanCount(*positions as u64));
        if let Some(necessary) = necessary {
            let necessary = HumanCount(*necessary as u64);
            lines.line(
                "necessary",
                format_args!("{necessary}, which every certificate has"),
            );
        }
        lines.into_text()
    }
}

fn cell(text: &str) -> Result<Cell, &'static str> {
    let cell = text.split_once(',').and_then(|(row, column)| {
        let [row, column] = [row, column].map(|text| text.trim().parse::<u32>().ok());
        Some(Cell {
            row: row?,
            column: column?,
        })
    });
    cell.ok_or("a move is ROW,COLUMN, as 5,6")
}

pub(crate) async fn run(args: CertifyArgs, display: &Display) -> anyhow::Result<()> {
    let (stop, json) = (display.stop_token(), args.json);
    if let Some(file) = args.check {
        let check = move |teller: Teller| check(&file, &teller);
        let proved = display.during("checking", &stop, check).await?;
        return crate::print_as(json, &proved, Proved::text);
    }
    let to_stdout = args.out == Path::new("-");
    if to_stdout && json {
        return Err(usage(
            "--json prints to stdout, where the certificate goes: name a file with --out",
        ));
    }
    let (Some(board), Some(opening)) = (args.board, args.opening) else {
        unreachable!("the command line asks for both");
    };
    let file = (!to_stdout)
        .then(|| create(&args.out, args.force))
        .transpose()?;
    let table = match source::open(&args.source, display.overrides()).await? {
        AnyTable::Losing(table) => table,
        AnyTable::Values(_) => {
            return Err(usage("a certificate takes a table of losing positions"));
        }
    };
    let find = move |teller: Teller| find(&table, board, opening, &teller);
    let found = display.during("certifying", &stop, find).await?;
    let (certificate, necessary) = (found.certificate, Some(found.necessary));
    let proved = Proved {
        necessary,
        ..Proved::of(&certificate)
    };
    let Some(mut file) = file else {
        crate::print(&certificate.to_string())?;
        display.say(proved.text().trim_end());
        return Ok(());
    };
    let written = file
        .write_all(certificate.to_string().as_bytes())
        .map_err(anyhow::Error::new);
    let written = written.and_then(|()| Ok(file.finish()?));
    written.with_context(|| format!("cannot write {}", args.out.display()))?;
    crate::print_as(json, &proved, Proved::text)
}

fn check(file: &Path, teller: &Teller) -> anyhow::Result<Proved> {
    let named = || format!("cannot read {}", file.display());
    let mut input: Box<dyn BufRead> = if file == Path::new("-") {
        Box::new(io::stdin().lock())
    } else {
        Box::new(BufReader::new(open_or_pipe(file).with_context(named)?.0))
    };
    let read = Certificate::read(&mut *input, &mut |lines| teller.counted("lines", lines));
    let checked = read.and_then(|certificate| {
        certificate.check(&mut |done| teller.stage("positions", done))?;
        Ok(Proved::of(&certificate))
    });
    checked.map_err(|error| match error {
        CertificateError::Stopped => Interruption::Lost.into(),
        CertificateError::Read(error) => anyhow::Error::new(error).context(named()),
        error => Exit::Damaged.error(format!("{} proves nothing: {error}", file.display())),
    })
}

fn find(table: &Table, board: (u32, u32), opening: Cell, teller: &Teller) -> anyhow::Result<Found> {
    let (bits, table_bits) = (board.0 + board.1, table.manifest().bits);
    if bits > table_bits {
        return Err(TableError::Beyond { bits, table_bits }.into());
    }
    let losing = Representatives::read(table, bits, teller)?;
    let found = Certificate::find(
        board,
        opening,
        &|word| losing.has(word),
        &mut |search, positions| {
            let stage = match search {
                Search::Necessary => "necessary positions",
                Search::Chosen => "other positions",
            };
            teller.counted(stage, positions as u64)
        },
    );
    let (m, n) = board;
    match found {
        Ok(Some(found)) => Ok(found),
        Ok(None) => Err(usage(format!(
            "{opening} does not win on {m}x{n}: `chomp openings {m}x{n}` lists what does"
        ))),
        Err(CertificateError::Stopped) => Err(Interruption::Lost.into()),
        Err(CertificateError::Contradiction(what)) => {
            Err(TableError::Contradiction { what }.into())
        }
        Err(error) => Err(usage(error.to_string())),
    }
}

/// The stored words up to a number of bits, as a bitmap with one bit for each even number.
struct Representatives(Vec<u64>);

impl Representatives {
    fn read(table: &Table, bits: u32, teller: &Teller) -> anyhow::Result<Representatives> {
        // A board has at least two bits.
        let (bytes, free) = ((1_u64 << (bits - 1)) / 8, machine::memory_bytes()?);
        if bytes > free {
            return Err(machine::too_little_memory(
                free,
                bytes,
                ", a bit for each position",
            ));
        }
        let mut found = Representatives(vec![0; usize::try_from(bytes / 8 + 1)?]);
        // Each word stands for two, mostly.
        let (mut read, all) = (0, table.manifest().losing_by_bits[bits as usize]);
        for piece in table.words() {
            for word in piece? {
                if Word::new(word).bits() > bits {
                    return Ok(found);
                }
                let (at, bit) = Representatives::bit_of(word);
                found.0[at] |= bit;
                read += 2;
            }
            if teller.stage("words", as_f64(read) / as_f64(all)).is_break() {
                return Err(Interruption::Lost.into());
            }
        }
        Ok(found)
    }

    /// The index of the element of the bitmap that has the bit of a word, and the bit.
    fn bit_of(word: u64) -> (usize, u64) {
        let index = word / 2;
        let at = usize::try_from(index / 64).expect("in memory");
        (at, 1 << (index % 64))
    }

    fn has(&self, word: Word) -> bool {
        let (at, bit) = Representatives::bit_of(word.get());
        self.0[at] & bit != 0
    }
}
