//! Certificates that are found are proofs, others are refused, and those that are written are read.

use std::collections::HashSet;
use std::io::{BufReader, Read};

use chomp_testing::definition;

use super::*;
use crate::tests::ByDefinition;

const GO_ON: ControlFlow<()> = ControlFlow::Continue(());

fn find(board: (u32, u32), opening: Cell, is_losing: impl Fn(Word) -> bool) -> Option<Found> {
    Certificate::find(board, opening, &is_losing, &mut |_, _| GO_ON).unwrap()
}

fn boards(most_rows: u32, most_columns: u32) -> impl Iterator<Item = (u32, u32)> {
    (1..=most_rows).flat_map(move |rows| (1..=most_columns).map(move |columns| (rows, columns)))
}

fn cells((rows, columns): (u32, u32)) -> impl Iterator<Item = Cell> {
    boards(rows, columns).map(|(row, column)| Cell { row, column })
}

/// The positions that every certificate has, from the definition of them.
fn necessary(table: &ByDefinition, first: Word) -> HashSet<Word> {
    let (mut all, mut open) = (HashSet::from([first]), vec![first]);
    while let Some(position) = open.pop() {
        for (_, left) in position.moves() {
            let replies = left.moves().map(|(_, reply)| reply.representative());
            let losing: HashSet<Word> = replies
                .filter(|&reply| reply != Word::EMPTY && table.is_losing(reply))
                .collect();
            if losing.len() == 1 {
                open.extend(losing.iter().filter(|&&reply| all.insert(reply)));
            }
        }
    }
    all
}

#[test]
fn every_winning_first_move_has_a_certificate() {
    let table = ByDefinition::new(14);
    for board in boards(13, 13).filter(|(rows, columns)| rows + columns <= 14) {
        for opening in cells(board).skip(1) {
            let first = check::after(board, opening).unwrap();
            let found = find(board, opening, |word| table.is_losing(word));
            assert_eq!(found.is_some(), table.is_losing(first));
            let Some(Found {
                certificate,
                necessary: count,
            }) = found
            else {
                continue;
            };
            let necessary = necessary(&table, first.representative());
            assert_eq!(count, necessary.len(), "{board:?} {opening}");
            let positions = certificate.positions.iter();
            let all: HashSet<Word> = positions.map(|word| word.representative()).collect();
            assert!(necessary.is_subset(&all) && all.len() == certificate.positions.len());
            assert!(all.iter().all(|&word| table.is_losing(word)));
            certificate.check(&mut |_| GO_ON).unwrap();
            let text = certificate.to_string();
            let read = Certificate::read(&mut text.as_bytes(), &mut |_| GO_ON).unwrap();
            assert_eq!(read, certificate);
        }
    }
}

/// The positions inside a board, the empty one too, as their rows, and for each its place in a set of 128 bits.
struct Inside(Vec<Vec<u32>>);

impl Inside {
    fn new(rows: usize, columns: u32) -> Inside {
        let mut all = vec![vec![]];
        let mut begun = 0;
        while begun < all.len() {
            let position = all[begun].clone();
            let longest = position.last().copied().unwrap_or(columns);
            if position.len() < rows {
                all.extend((1..=longest).map(|row| [&position[..], &[row]].concat()));
            }
            begun += 1;
        }
        Inside(all)
    }

    fn place(&self, rows: &[u32]) -> Option<u128> {
        let place = self.0.iter().position(|position| position == rows)?;
        Some(1 << place)
    }

    /// The set with this position, and with its mirror image if that is inside.
    fn pair(&self, rows: &[u32]) -> u128 {
        let longest = rows.first().copied().unwrap_or(0);
        let column = |column| u32::try_from(rows.iter().filter(|row| **row >= column).count());
        let mirror: Vec<u32> = (1..=longest).map(|at| column(at).unwrap()).collect();
        self.place(rows).unwrap() | self.place(&mirror).unwrap_or(0)
    }

    /// The positions that moves from this one leave.
    fn left(rows: &[u32]) -> Vec<Vec<u32>> {
        let mut left = Vec::new();
        for row in 0..rows.len() {
            for column in 1..=rows[row] {
                let cut = rows.iter().enumerate();
                let cut = cut.map(|(at, &length)| {
                    if at < row {
                        length
                    } else {
                        length.min(column - 1)
                    }
                });
                left.push(cut.filter(|&length| length > 0).collect());
            }
        }
        left
    }

    /// For each move from this position that leaves cells, the set of positions that replies leave.
    fn replies(&self, rows: &[u32]) -> Vec<u128> {
        let left = Inside::left(rows)
            .into_iter()
            .filter(|left| !left.is_empty());
        let replies = |left: Vec<u32>| {
            let replies = Inside::left(&left).into_iter();
            replies.fold(0, |all, reply| all | self.place(&reply).unwrap())
        };
        left.map(replies).collect()
    }
}

/// All sets of at most `most` of these numbers.
fn subsets(of: &[usize], most: usize, visit: &mut impl FnMut(&[usize])) {
    fn grow(of: &[usize], most: usize, chosen: &mut Vec<usize>, visit: &mut impl FnMut(&[usize])) {
        visit(chosen);
        if most > 0 {
            for (at, &number) in of.iter().enumerate() {
                chosen.push(number);
                grow(&of[at + 1..], most - 1, chosen, visit);
                chosen.pop();
            }
        }
    }
    grow(of, most, &mut Vec::new(), visit);
}

/// On all boards up to 4x5, with every first move: all sets of at most three positions, of which one may be empty, and
/// all sets of losing positions; and those that are closed with one more. The check says yes exactly if the first move
/// leaves one of them and the set is closed, as this page has it with rows and sets of numbers. Then the move wins by
/// definition.
#[test]
fn no_false_claim_is_proved() {
    let losing = definition::losing(9);
    let is_losing = |word: Word| losing[definition::index_of(word)];
    let (mut proved, mut checked) = (0, 0);
    for board in boards(4, 5) {
        let inside = Inside::new(board.0 as usize, board.1);
        let words: Vec<Word> = inside
            .0
            .iter()
            .map(|rows| Word::from(&Position::new(rows.clone()).unwrap()))
            .collect();
        let pairs: Vec<u128> = inside.0.iter().map(|rows| inside.pair(rows)).collect();
        let replies: Vec<Vec<u128>> = inside.0.iter().map(|rows| inside.replies(rows)).collect();
        let openings: Vec<Cell> = cells(board).collect();
        let first = |cell: &Cell| {
            let whole = vec![board.1; board.0 as usize];
            let cut = |(row, &length): (u32, &u32)| {
                if row < cell.row {
                    length
                } else {
                    cell.column - 1
                }
            };
            let left: Vec<u32> = (1..)
                .zip(&whole)
                .map(cut)
                .filter(|&length| length > 0)
                .collect();
            inside.place(&left).unwrap()
        };
        let firsts: Vec<u128> = openings.iter().map(first).collect();
        let mut visit = |set: &[usize]| {
            let all = set.iter().fold(0, |all, &index| all | pairs[index]);
            let is_closed = !set.contains(&0)
                && set
                    .iter()
                    .all(|&index| replies[index].iter().all(|replies| replies & all != 0));
            let positions: Vec<Word> = set.iter().map(|&index| words[index]).collect();
            for (&opening, first) in openings.iter().zip(&firsts) {
                let expected = is_closed && first & all != 0;
                let said = check::check(board, opening, &positions, &mut |_| GO_ON);
                assert_eq!(
                    said.is_ok(),
                    expected,
                    "{board:?} {opening} {set:?}: {said:?}"
                );
                checked += 1;
                if expected {
                    let left = check::after(board, opening).unwrap();
                    assert!(is_losing(left), "{board:?} {opening} {set:?}");
                    proved += 1;
                }
            }
            is_closed
        };
        let every: Vec<usize> = (0..words.len()).collect();
        subsets(&every, 3, &mut |set| {
            visit(set);
        });
        // Of a mirror pair one is enough.
        let is_one = |&index: &usize| pairs[index].trailing_zeros() as usize == index;
        let (losing, winning): (Vec<usize>, Vec<usize>) = every
            .into_iter()
            .filter(is_one)
            .partition(|&index| is_losing(words[index]));
        subsets(&losing, losing.len(), &mut |set| {
            if visit(set) {
                for &other in &winning {
                    assert!(
                        !visit(&[set, &[other]].concat()),
                        "{board:?} {set:?} {other}"
                    );
                }
            }
        });
    }
    assert!(proved >= 40, "{proved} of {checked}");
}

fn said(text: &[u8]) -> Result<usize, String> {
    let read = Certificate::read(&mut &*text, &mut |_| GO_ON);
    let certificate = read.map_err(|error| error.to_string())?;
    let checked = certificate.check(&mut |_| GO_ON);
    checked.map_err(|error| error.to_string())?;
    Ok(certificate.positions.len())
}

/// A certificate of five positions: its claim is in lines 3 and 4.
const RIGHT: &str = "# a comment\n#\nboard 3x4\nmove 2,3\n4,2,2\n1\n2,1\n2,2,1\n3,1,1\n";

/// Asserts that the text is refused with this error, if in the right one the first `from` is replaced by `to`.
fn refused(from: &str, to: &str, line: u64, what: &str) {
    let text = RIGHT.replacen(from, to, 1);
    assert_ne!(text, RIGHT, "{from:?}");
    let error = said(text.as_bytes()).unwrap_err();
    let at = format!("line {line}: ");
    assert!(
        error.starts_with(&at) && error.contains(what),
        "{to:?}: {error}"
    );
}

#[test]
fn there_is_one_way_to_write_a_certificate() {
    assert_eq!(said(RIGHT.as_bytes()), Ok(5));
    assert_eq!(said(RIGHT.trim_end().as_bytes()), Ok(5));
    let mirrored = RIGHT.replace("2,2,1", "3,2");
    assert_eq!(said(mirrored.as_bytes()), Ok(5));
    // Any bytes are a comment.
    let comment = b"#\xff\r \0\n";
    assert_eq!(said(&[comment, RIGHT.as_bytes()].concat()), Ok(5));
    let longest = format!("#{}\n{RIGHT}", "x".repeat(999));
    assert_eq!(said(longest.as_bytes()), Ok(5));
    let longer = format!("#{longest}");
    assert_eq!(
        said(longer.as_bytes()),
        Err("line 1: it has more than 1000 bytes".into())
    );

    let board = "where a line such as \"board 8x10\" belongs";
    for wrong in [
        "",
        " board 3x4",
        "board 3x4\r",
        "board 3x4 ",
        "board  3x4",
        "board3x4",
        "Board 3x4",
        "board 3X4",
        "board 3×4",
        "board 3*4",
        "board +3x4",
        "board 03x4",
        "board 0x4",
        "board 3x4x1",
        "board 3",
        "board",
        "board 100x4",
        "board 4000000000x1",
        "move 2,3\nboard 3x4",
        "4,2,2",
        "\u{feff}#",
    ] {
        refused("board 3x4", wrong, 3, board);
    }
    refused("# a", "", 1, board);
    let opening = "where a line such as \"move 5,6\" belongs";
    for wrong in [
        "",
        "move 2, 3",
        "move (2,3)",
        "move 0,3",
        "move 2x3",
        "move 2",
        "move +2,3",
        "board 3x4",
        "# more",
    ] {
        refused("move 2,3", wrong, 4, opening);
    }
    let position = "where a position such as \"5,4,2,1\" belongs";
    for wrong in [
        "",
        "0",
        "0,0",
        "1,0",
        "[]",
        "[1]",
        "()",
        "0b0",
        "0b10",
        "0x2",
        "01",
        "+1",
        "-1",
        " 1",
        "1 ",
        "1\r",
        "1,",
        ",1",
        "1,,1",
        "1x1",
        "1^1",
        "1+1",
        "1 1",
        "1.",
        "\u{661}",
        "# no",
        "board 3x4",
        "move 2,3",
        "100",
        "1\u{0}",
    ] {
        refused("\n1\n", &format!("\n{wrong}\n"), 6, position);
    }
}

#[test]
fn what_proves_nothing_is_named_as_the_text_has_it() {
    let inside = "where a position inside 3x4 belongs";
    for (from, to, line, what) in [
        ("board 3x4", "board 33x32", 3, "at most 64 rows and columns"),
        ("4,2,2", "3,3,1,1", 5, inside),
        ("4,2,2", "5,2,2", 5, inside),
        ("4,2,2", "99", 5, inside),
        ("4,2,2", "2,4,2", 5, "row 2 has 4 cells"),
        ("2,2,1", "1", 8, "has a line before"),
        // A mirror image.
        ("2,2,1", "2,2,1\n3,2", 9, "has a line before"),
        (
            "2,2,1",
            "2,2,1\n2,2",
            9,
            "after the move (2,2) from 2,2 no reply leads",
        ),
        // Its mirror image, which is not in the text, has the smaller word.
        (
            "\n2,2,1\n3,1,1\n",
            "\n",
            5,
            "from 4,2,2 no reply leads to one of",
        ),
    ] {
        refused(from, to, line, what);
    }
    for (text, what) in [
        (
            "",
            "line 1: nothing where a line such as \"board 8x10\" belongs",
        ),
        ("# a comment", "line 2: nothing where"),
        (
            "board 3x3\n",
            "line 2: nothing where a line such as \"move 5,6\" belongs",
        ),
        ("board 3x3\nmove 2,2\n", "leaves, 3,1,1, is not among"),
        ("board 3x3\nmove 1,1\n1\n", "(1,1) is no first move of 3x3"),
        ("board 3x3\nmove 4,1\n1\n", "(4,1) is no first move of 3x3"),
        ("board 1x1\nmove 1,1\n1\n", "(1,1) is no first move of 1x1"),
        (
            "board 3x3\nmove 3,3\n3,3,2\n",
            "line 3: after the move (1,3) from 3,3,2",
        ),
    ] {
        let error = said(text.as_bytes()).unwrap_err();
        assert!(error.contains(what), "{text:?}: {error}");
    }
}

/// A line has so many bytes, and comments are not kept: no text takes memory but by its positions.
#[test]
fn endless_texts_are_read_line_by_line() {
    let zeros = Certificate::read(&mut BufReader::new(io::repeat(0)), &mut |_| GO_ON);
    let error = zeros.unwrap_err().to_string();
    assert_eq!(error, "line 1: it has more than 1000 bytes");
    let (mut lines, comments) = (0, "#\n".repeat(1 << 20));
    let stopped = Certificate::read(&mut comments.as_bytes(), &mut |so_far| {
        lines = so_far;
        if so_far > 1 << 19 {
            ControlFlow::Break(())
        } else {
            GO_ON
        }
    });
    assert!(matches!(stopped, Err(CertificateError::Stopped)));
    assert!(lines > 1 << 19);
    let broken = Certificate::read(&mut BufReader::new(FailingInput), &mut |_| GO_ON);
    assert!(matches!(broken, Err(CertificateError::Read(_))));
}

struct FailingInput;

impl Read for FailingInput {
    fn read(&mut self, _: &mut [u8]) -> io::Result<usize> {
        Err(io::Error::other("a disk that fails"))
    }
}

/// The reply that takes the poison is none, whichever way the empty position comes among the others.
#[test]
fn the_empty_position_is_no_member() {
    let opening = Cell { row: 3, column: 3 };
    let first = check::after((3, 3), opening).unwrap();
    let all = |positions: &[Word]| check::check((3, 3), opening, positions, &mut |_| GO_ON);
    assert_eq!(all(&[first, Word::EMPTY]), Err(Unproved::Empty(1)));
    let open = Cell { row: 1, column: 3 };
    assert_eq!(all(&[first]), Err(Unproved::Open(0, open)));
    assert_eq!(all(&[]), Err(Unproved::NoStart(first)));
}

#[test]
fn boards_beyond_64_bits_have_no_first_move() {
    let opening = Cell { row: 1, column: 2 };
    for sides in [
        (0, 0),
        (0, 64),
        (64, 0),
        (1, 64),
        (64, 1),
        (33, 32),
        (400_000_000, 1),
        (u32::MAX, u32::MAX),
        (u32::MAX, 1),
    ] {
        assert_eq!(check::after(sides, opening), None, "{sides:?}");
        let found = Certificate::find(sides, opening, &|_| true, &mut |_, _| GO_ON);
        assert!(matches!(found, Err(CertificateError::NoMove { .. })));
    }
    for (sides, left) in [((1, 63), 2), ((32, 32), 1 << 32)] {
        let after = check::after(sides, opening).unwrap();
        assert_eq!(after.get(), left, "{sides:?}");
    }
}

#[test]
fn a_certificate_without_one_of_its_positions_proves_nothing() {
    let table = ByDefinition::new(12);
    let is_losing = |word| table.is_losing(word);
    let mut openings = cells((5, 6)).skip(1);
    let found = openings.find_map(|opening| find((5, 6), opening, is_losing));
    let certificate = found.unwrap().certificate;
    for index in 0..certificate.positions.len() {
        let mut wrong = certificate.clone();
        wrong.positions.remove(index);
        let refused = wrong.check(&mut |_| GO_ON).unwrap_err();
        let expected = matches!(
            refused,
            CertificateError::Line { .. } | CertificateError::NoStart(_)
        );
        assert!(expected, "{index}: {refused}");
    }
    let stopped = certificate.check(&mut |_| ControlFlow::Break(()));
    assert!(matches!(stopped, Err(CertificateError::Stopped)));
}

/// From a wrong table comes a proof that the check takes, or an error, or the answer that the move does not win; and a
/// table that lacks a necessary position gives none.
#[test]
fn wrong_tables_give_no_wrong_proofs() {
    let table = ByDefinition::new(9);
    let all: Vec<Word> = (1..1 << 8).map(|half| Word::new(2 * half)).collect();
    let (mut proofs, mut refused) = (0, 0);
    for board in [(3, 4), (4, 4), (4, 5), (2, 6)] {
        for opening in cells(board).skip(1) {
            for &other in all.iter().filter(|word| word.is_representative()) {
                let is_losing = |word: Word| table.is_losing(word) != (word == other);
                match Certificate::find(board, opening, &is_losing, &mut |_, _| GO_ON) {
                    Ok(Some(found)) => {
                        found.certificate.check(&mut |_| GO_ON).unwrap();
                        proofs += 1;
                    }
                    Ok(None) => {}
                    Err(CertificateError::Contradiction(_)) => refused += 1,
                    Err(error) => panic!("{error}"),
                }
            }
        }
    }
    assert!(proofs > 100 && refused > 20, "{proofs} {refused}");
}
