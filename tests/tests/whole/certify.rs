//! `chomp certify` as a process: the first moves that win on 8x10 are proved, other programs agree, and what proves
//! nothing is refused.

use std::fs::{self, File};
use std::io::Write;
use std::ops::ControlFlow;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::sync::LazyLock;
use std::thread;

use chomp_query::{Certificate, CertificateError};
use chomp_table::{Cell, Position, Word};
use chomp_testing::{definition, needs, trials};
use fastrand::Rng;

use crate::common::{ask, chomp, end, finished, folder, hasten, wrapped};

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn certify(table: &Path, line: &str) -> Command {
    let mut command = chomp(&format!("certify {line} --table"));
    command.arg(table);
    command
}

fn check(file: &Path) -> Command {
    let mut command = chomp("certify --check");
    command.arg(file);
    command
}

fn examples() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../examples")
}

/// Python, if it is there. It leaves no files beside a program.
fn python() -> Option<Command> {
    let there = needs::can("python3", Command::new("python3").arg("--version"));
    needs::found("PYTHON", there)?;
    let mut command = Command::new("python3");
    command.env("PYTHONDONTWRITEBYTECODE", "1");
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    Some(command)
}

/// The check in Python, which shares nothing with the program; none if there is no Python.
fn other_check(file: &Path) -> Option<Command> {
    let mut command = python()?;
    command.arg(examples().join("check_certificate.py"));
    command.arg(file);
    Some(command)
}

/// Asserts that both programs say that a file proves nothing, and this one says why.
fn proves_nothing(file: &Path, what: &str) {
    end(&mut check(file)).refuses(3, &["proves nothing: ", what]);
    if let Some(mut other) = other_check(file) {
        let ended = end(&mut other);
        ended.refuses(1, &["proves nothing: "]);
        ended.says_nothing_of("Traceback");
    }
}

#[test]
fn winning_first_moves_are_proved() {
    let table = finished(18);
    let out = table.path().join("proof.txt");
    for (line, positions, necessary) in [
        ("8x10 --move 5,6", 467, 448),
        ("8x10 --move 4,9", 598, 566),
        ("5x4 --move 3,3", 11, 11),
    ] {
        let mut command = certify(table.path(), &format!("{line} --json --force"));
        command.arg("--out").arg(&out);
        let told = end(&mut command).summary();
        let counts = [&told["positions"], &told["necessary"]];
        assert_eq!(counts, [positions, necessary], "{line}");
        let checked = end(check(&out).arg("--json")).summary();
        assert_eq!(checked["positions"], positions, "{line}");
        // To stdout goes the same text, and from stdin it is read.
        let printed = end(&mut certify(table.path(), line)).done().stdout;
        assert_eq!(printed, fs::read_to_string(&out).unwrap());
        ask(&mut chomp("certify --check -"), printed.clone()).done();
        if let Some(mut other) = other_check(&out) {
            let (board, first) = line.split_once(" --move ").unwrap();
            let said = format!("({first}) wins on {board}: {positions} positions\n");
            assert_eq!(end(&mut other).done().stdout, said);
        }
        let (without_last, _) = printed.trim_end().rsplit_once('\n').unwrap();
        fs::write(&out, without_last).unwrap();
        proves_nothing(&out, "no reply leads to one of the positions");
    }
}

#[test]
fn moves_that_do_not_win_are_not_proved() {
    let table = finished(18);
    for (line, code, said) in [
        ("8x10 --move 5,5", 2, "(5,5) does not win on 8x10"),
        ("8x10 --move 1,1", 2, "no first move of 8x10"),
        ("8x10 --move 9,1", 2, "no first move of 8x10"),
        ("9x10 --move 7,8", 5, "19 bits"),
    ] {
        end(&mut certify(table.path(), line)).refuses(code, &[said]);
    }
    end(&mut check(&table.path().join("nowhere"))).refuses(1, &["cannot read", "nowhere"]);
    end(&mut check(table.path())).refuses(1, &["cannot read"]);
}

const PROOF: &str = "board 3x4\nmove 2,3\n4,2,2\n3,1,1\n2,2,1\n2,1\n1\n";

/// The reply that takes the poison would lead to the empty position, however it is written.
#[test]
fn the_empty_position_proves_nothing() {
    let directory = folder();
    let file = directory.path().join("proof.txt");
    for empty in ["0", "0,0", "[]", "0b0", "0x0", "()", "0x3", "\"\"", ""] {
        for (text, line) in [
            (format!("3,3,2\n{empty}"), 4),
            (format!("{empty}\n3,3,2"), 3),
        ] {
            fs::write(&file, format!("board 3x3\nmove 3,3\n{text}\n")).unwrap();
            let found = if empty.is_empty() {
                "nothing".to_owned()
            } else {
                format!("{empty:?}")
            };
            let what = format!("line {line}: {found} where a position such as \"5,4,2,1\" belongs");
            proves_nothing(&file, &what);
        }
    }
}

#[test]
fn what_proves_nothing_is_refused() {
    let directory = folder();
    let file = directory.path().join("proof.txt");
    fs::write(&file, PROOF).unwrap();
    end(&mut check(&file)).done();
    for (from, to, what) in [
        // Another claim in front, or behind.
        (
            "",
            "board 9x9\n",
            "line 2: \"board 3x4\" where a line such as \"move 5,6\"",
        ),
        (
            "",
            "board 9x9\nmove 8,8\n",
            "line 3: \"board 3x4\" where a position",
        ),
        (
            "\n1\n",
            "\n1\nboard 9x9\n",
            "line 8: \"board 9x9\" where a position",
        ),
        (
            "\n1\n",
            "\n1\nmove 3,3\n",
            "line 8: \"move 3,3\" where a position",
        ),
        (
            "board 3x4\nmove 2,3",
            "move 2,3\nboard 3x4",
            "line 1: \"move 2,3\" where",
        ),
        (
            "board 3x4",
            "board 3x4\rboard 9x9",
            "line 1: \"board 3x4\\rboard 9x9\"",
        ),
        ("board 3x4", "board +3x4", "line 1: \"board +3x4\" where"),
        (
            "board 3x4\n",
            "board 3x4\r\n",
            "line 1: \"board 3x4\\r\" where",
        ),
        // Lines that are no position, or a position again.
        (
            "3,1,1",
            "# no comment",
            "line 4: \"# no comment\" where a position",
        ),
        ("3,1,1", "0b101100", "line 4: \"0b101100\" where a position"),
        ("3,1,1", "3,1^2", "line 4: \"3,1^2\" where a position"),
        (
            "4,2,2",
            "3,3,1,1",
            "line 3: \"3,3,1,1\" where a position inside 3x4",
        ),
        (
            "\n1\n",
            "\n1\n3,2\n",
            "line 8: the position or its mirror image has a line before",
        ),
        ("2,1\n1", "2,3\n1", "line 6: row 2 has 3 cells"),
        // The mirror image of the position, which is not in the file, has the smaller word.
        (
            "3,1,1\n2,2,1\n",
            "",
            "line 3: after the move (1,4) from 4,2,2 no reply leads to one of",
        ),
        (
            "board 3x4",
            "board 9x10",
            "the position that the first move leaves, 10,2,2,",
        ),
        ("move 2,3", "move 1,1", "(1,1) is no first move of 3x4"),
        (
            &PROOF[10..],
            "",
            "line 2: nothing where a line such as \"move 5,6\" belongs",
        ),
        (
            PROOF,
            "",
            "line 1: nothing where a line such as \"board 8x10\" belongs",
        ),
    ] {
        fs::write(&file, PROOF.replacen(from, to, 1)).unwrap();
        proves_nothing(&file, what);
    }
}

/// A file that somebody made takes no more memory than the positions that are in it.
#[test]
fn sizes_are_checked_before_they_take_memory() {
    let directory = folder();
    let file = directory.path().join("proof.txt");
    let limited = |command: &Command| {
        let limit = ["-c", "ulimit -v 900000; exec \"$0\" \"$@\""];
        wrapped("sh", &limit, command)
    };
    let refused = |what: &str| {
        end(&mut limited(&check(&file))).refuses(3, &["proves nothing: ", what]);
        if let Some(other) = other_check(&file) {
            end(&mut limited(&other)).refuses(1, &["proves nothing: "]);
        }
    };
    for board in ["400000000x1", "4000000000x1", "1x4000000000", "99999x99999"] {
        fs::write(&file, format!("board {board}\nmove 1,2\n1\n")).unwrap();
        refused(&format!("line 1: \"board {board}\" where a line such as"));
    }
    fs::write(&file, "board 33x32\nmove 1,2\n1\n").unwrap();
    refused("line 1: a board has at most 64 rows and columns together");
    for (begin, line) in [("", 1), ("#", 1), ("# a\nboard 3x3\nmove 2,2\n3,1,1\n", 5)] {
        let mut sparse = File::create(&file).unwrap();
        sparse.write_all(begin.as_bytes()).unwrap();
        sparse.set_len(2 << 30).unwrap();
        refused(&format!("line {line}: it has more than 1000 bytes"));
    }
    fs::write(
        &file,
        "board 3x3\nmove 2,2\n3,1,1\n".to_owned() + &"1\n".repeat(1 << 20),
    )
    .unwrap();
    refused("line 5: the position or its mirror image has a line before");

    // Comments are not kept: here are 2 GiB of them, before a proof.
    let mut command = limited(&chomp("certify --check -"));
    let mut child = command.stdin(Stdio::piped()).spawn().unwrap();
    let mut stdin = child.stdin.take().unwrap();
    let writer = thread::spawn(move || {
        let comments = format!("#{}\n", "x".repeat(511)).repeat(1 << 11);
        (0..1 << 11).try_for_each(|_| stdin.write_all(comments.as_bytes()))?;
        stdin.write_all(b"board 2x2\nmove 2,2\n2,1\n1\n")
    });
    let ended = child.wait_with_output().unwrap();
    assert!(ended.status.success(), "{ended:?}");
    writer.join().unwrap().unwrap();
}

/// Nobody knows how many positions a search will find, so it says what it has found, and foretells nothing.
#[test]
fn a_search_says_what_it_has_found() {
    let table = finished(26);
    let mut command = certify(table.path(), "12x14 --move 5,6");
    command.arg("--out").arg(table.path().join("proof.txt"));
    let ended = end(hasten(&mut command, 10_000)).done();
    assert!(ended.stdout.contains("12,655"), "{ended:?}");
    let lines = ended.stderr.lines();
    let searching: Vec<&str> = lines.filter(|line| line.contains(" positions ")).collect();
    assert!(!searching.is_empty(), "{ended:?}");
    for line in searching {
        let (stage, rest) = line.split_once(" positions ").unwrap();
        let (count, elapsed) = rest.split_once(" after ").unwrap_or_default();
        assert!(["necessary", "other"].contains(&stage), "{line}");
        assert!(count.replace(',', "").parse::<usize>().is_ok(), "{line}");
        assert!(elapsed.contains(" second"), "{line}");
    }
}

/// Certificates of small boards, for each of which the definition says which positions are losing.
static PROOFS: LazyLock<Vec<String>> = LazyLock::new(|| {
    let losing = definition::losing(12);
    let is_losing = |word: Word| losing[definition::index_of(word)];
    let boards = [
        (2, 2),
        (1, 4),
        (2, 5),
        (3, 3),
        (3, 4),
        (3, 6),
        (4, 5),
        (5, 5),
        (5, 6),
        (6, 4),
    ];
    let proofs = boards.into_iter().flat_map(|(rows, columns)| {
        let cells =
            (1..=rows).flat_map(|row| (1..=columns).map(move |column| Cell { row, column }));
        let found = cells.skip(1).filter_map(|opening| {
            let found = Certificate::find((rows, columns), opening, &is_losing, &mut |_, _| GO_ON);
            found.unwrap().map(|found| found.certificate.to_string())
        });
        found.collect::<Vec<_>>()
    });
    proofs.collect()
});

/// One of the texts, with some of its lines and bytes changed.
fn mutated(seed: u64) -> Vec<u8> {
    const SIGNS: &[u8] = b"0123456789,x# \n\r+b[]^\xff";
    let mut rng = Rng::with_seed(seed);
    let mut lines: Vec<Vec<u8>> = rng
        .choice(&*PROOFS)
        .unwrap()
        .lines()
        .map(Into::into)
        .collect();
    // Where the claim is, and after it the positions.
    let claim = lines
        .iter()
        .position(|line| line.starts_with(b"board"))
        .unwrap();
    for _ in 0..rng.usize(0..4) {
        let (at, other) = (rng.usize(..lines.len()), rng.usize(..lines.len()));
        let later = claim + 2 + rng.usize(..lines.len().saturating_sub(claim + 2).max(1));
        match rng.u8(0..12) {
            0 => drop(lines.remove(at)),
            1 => lines.insert(at, lines[other].clone()),
            2 => lines.swap(at, other),
            3 if later < lines.len() => {
                let last = lines.len() - 1;
                lines.swap(later, last);
            }
            4 => lines.insert(0, b"# more".to_vec()),
            5 => {
                let rows = (0..rng.usize(1..5))
                    .map(|_| rng.u8(1..7))
                    .collect::<Vec<_>>();
                let mut rows: Vec<String> = rows.iter().map(u8::to_string).collect();
                rows.sort_by(|a, b| b.cmp(a));
                lines.push(rows.join(",").into_bytes());
            }
            6 if later < lines.len() => {
                let rows = String::from_utf8_lossy(&lines[later]).parse::<Position>();
                if let Ok(position) = rows {
                    let mirror = Word::from(&position).mirror();
                    lines[later] = Position::from(mirror).to_string().into_bytes();
                }
            }
            7 => lines[claim + 1] = format!("move {},{}", rng.u8(0..7), rng.u8(1..7)).into_bytes(),
            8 => lines[claim] = format!("board {}x{}", rng.u8(0..8), rng.u8(1..70)).into_bytes(),
            9 if !lines[at].is_empty() => {
                let place = rng.usize(..lines[at].len());
                lines[at][place] = *rng.choice(SIGNS).unwrap();
            }
            10 => {
                let place = rng.usize(..=lines[at].len());
                lines[at].insert(place, *rng.choice(SIGNS).unwrap());
            }
            _ if !lines[at].is_empty() => {
                let place = rng.usize(..lines[at].len());
                lines[at].remove(place);
            }
            _ => {}
        }
        if lines.len() < claim + 2 {
            break;
        }
    }
    let mut text = lines.join(&b'\n');
    if rng.bool() {
        text.push(b'\n');
    }
    text
}

/// Whether the text is a proof. Then its claim is true.
fn proves(text: &[u8]) -> bool {
    let read = Certificate::read(&mut &*text, &mut |_| GO_ON);
    let checked = read.and_then(|certificate| {
        certificate.check(&mut |_| GO_ON)?;
        Ok::<_, CertificateError>(certificate)
    });
    checked.is_ok_and(|certificate| {
        let ((rows, columns), opening) = (certificate.board, certificate.opening);
        let left = (1..=rows).map(|row| {
            if row < opening.row {
                columns
            } else {
                opening.column - 1
            }
        });
        let left = left.filter(|&length| length > 0).collect();
        let left = Word::from(&Position::new(left).unwrap());
        assert!(
            definition::Oracle::default().is_losing(left),
            "{certificate}"
        );
        true
    })
}

/// In one process, the check in Python says of many texts the same as this one.
#[test]
fn both_checks_take_the_same_texts() {
    let Some(mut python) = python() else { return };
    let cases = trials("texts of certificates")
        .seconds(0.0)
        .at_least(10_000);
    let (_, mut cases) = cases.gather(|seed| vec![(seed, mutated(seed))], Extend::extend);
    cases.sort_unstable();
    let program = "
import io, json, sys
sys.path.insert(0, sys.argv[1])
import check_certificate
for text in json.load(sys.stdin):
    try:
        check_certificate.check(io.BytesIO(bytes(text)))
        print('proved')
    except ValueError:
        print('refused')
";
    let texts: Vec<&[u8]> = cases.iter().map(|(_, text)| &text[..]).collect();
    let input = serde_json::to_string(&texts).unwrap();
    let ended = ask(python.arg("-c").arg(program).arg(examples()), input).done();
    let mut proofs = 0;
    let mut said = ended.stdout.lines();
    for (seed, text) in &cases {
        let is_proof = proves(text);
        let expected = if is_proof { "proved" } else { "refused" };
        let shown = String::from_utf8_lossy(text);
        assert_eq!(
            said.next(),
            Some(expected),
            "seed {seed}; it alone: CHOMP_TEST_SEED={seed} CHOMP_TEST_CASES=1\n{shown}"
        );
        proofs += u64::from(is_proof);
    }
    let all = cases.len() as u64;
    assert!(
        all < 1000 || (all / 10..all / 2).contains(&proofs),
        "{proofs} of {all}"
    );
}
