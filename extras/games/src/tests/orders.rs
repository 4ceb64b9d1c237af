//! Chomp on orders against its definition, played with sets of elements, and against boards of plain Chomp.

use std::collections::{BTreeMap, BTreeSet, HashMap};

use crate::board;
use crate::{Effort, GameAnswer, GameError, Move, open};

use super::common::{answer, everything};

type Set = BTreeSet<Move>;

/// All that comes of a set, by the words of the definition: whether it is losing, and its value.
struct Twin {
    takes: fn(&Move, &Move) -> bool,
    known: HashMap<Set, (bool, Option<u32>)>,
}

impl Twin {
    fn new(game: &str) -> Twin {
        let takes = match game {
            "divisors" => |one: &Move, other: &Move| other[0].is_multiple_of(one[0]),
            _ => |one: &Move, other: &Move| (0..one.len()).all(|at| other[at] >= one[at]),
        };
        let known = HashMap::new();
        Twin { takes, known }
    }

    fn left(&self, set: &Set, element: &Move) -> Set {
        let left = set.iter().filter(|other| !(self.takes)(element, other));
        left.cloned().collect()
    }

    fn of(&mut self, set: &Set) -> (bool, Option<u32>) {
        if set.is_empty() {
            return (false, None);
        }
        if let Some(&known) = self.known.get(set) {
            return known;
        }
        let all: Vec<Set> = set.iter().map(|element| self.left(set, element)).collect();
        let next: Vec<_> = all.iter().map(|left| self.of(left)).collect();
        let losing = !next.iter().any(|next| next.0);
        let is_free = |value: &u32| !next.iter().any(|next| next.1 == Some(*value));
        let found = (losing, (0..1000).find(is_free));
        self.known.insert(set.clone(), found);
        found
    }
}

/// All `(row, column, layer)` of a box.
fn cells(sides: [u32; 3]) -> Set {
    let rows = 1..=sides[0];
    let columns = rows.flat_map(|row| (1..=sides[1]).map(move |column| (row, column)));
    let layers = |(row, column)| (1..=sides[2]).map(move |layer| vec![row, column, layer]);
    columns.flat_map(layers).collect()
}

fn divisors(number: u32) -> Set {
    let all = (1..=number).filter(|divisor| number.is_multiple_of(*divisor));
    all.map(|divisor| vec![divisor]).collect()
}

fn rectangle(rows: u32, columns: u32) -> Set {
    board::cells(&vec![columns; rows as usize])
        .map(|(row, column)| vec![row, column])
        .collect()
}

fn without(mut set: Set, gone: &[&[u32]]) -> Set {
    set.retain(|element| !gone.contains(&&element[..]));
    set
}

/// Starts of each game, and what they mean.
fn starts() -> Vec<(&'static str, &'static str, Set)> {
    let beyond = |gone: u32, set: Set| {
        let left = set.into_iter().filter(|one| !one[0].is_multiple_of(gone));
        left.collect::<Set>()
    };
    let stairs = [[3, 2, 1], [2, 1, 0], [1, 0, 0]];
    let stairs = cells([3, 3, 3])
        .into_iter()
        .filter(|cell| cell[2] <= stairs[cell[0] as usize - 1][cell[1] as usize - 1]);
    vec![
        ("space", "2x2x3", cells([2, 2, 3])),
        ("space", "3x1x4", cells([3, 1, 4])),
        ("space", "3,2,1/2,1/1", stairs.collect()),
        ("divisors", "60", divisors(60)),
        ("divisors", "210", divisors(210)),
        (
            "divisors",
            "420/12,14",
            beyond(12, beyond(14, divisors(420))),
        ),
        ("crossed", "4x4", rectangle(4, 4)),
        (
            "crossed",
            "4x5@2,3@4,5@1,2",
            without(rectangle(4, 5), &[&[2, 3], &[4, 5], &[1, 2]]),
        ),
        (
            "crossed",
            "3x4@1,2@2,1@2,2",
            without(rectangle(3, 4), &[&[1, 2], &[2, 1], &[2, 2]]),
        ),
    ]
}

/// From answer to answer by their texts, and from set to set by the definition.
#[test]
fn answers_are_what_the_definition_says() {
    for (game, text, start) in starts() {
        let mut twin = Twin::new(game);
        let mut texts = BTreeMap::new();
        let mut waiting = vec![(answer(game, text).unwrap().position, start)];
        while let Some((text, set)) = waiting.pop() {
            if let Some(known) = texts.insert(set.clone(), text.clone()) {
                assert_eq!(known, text, "one text for {set:?}");
                continue;
            }
            let told = answer(game, &text).unwrap();
            assert_eq!((told.game, &told.position), (game, &text));
            assert_eq!((told.losing, told.value), twin.of(&set), "{game} {text}");
            assert_eq!(told.over, set.is_empty());
            let moves = told.moves.iter().map(|choice| &choice.name);
            assert!(moves.eq(&set), "{game} {text}");
            for choice in told.moves {
                let left = twin.left(&set, &choice.name);
                assert_eq!((choice.losing, choice.value), twin.of(&left), "{text}");
                waiting.push((choice.position, left));
            }
        }
        let different: BTreeSet<&String> = texts.values().collect();
        assert_eq!(different.len(), texts.len(), "{game}");
        assert!(texts.len() > 20, "{game}");
    }
}

#[test]
fn lists_have_all_losing_positions() {
    for (game, rules, size, start) in [
        ("space", "", 2, cells([2, 2, 2])),
        ("divisors", "", 180, divisors(180)),
        ("crossed", "", 4, rectangle(4, 4)),
        (
            "crossed",
            "2,2@3,1",
            4,
            without(rectangle(4, 4), &[&[2, 2], &[3, 1]]),
        ),
    ] {
        let mut twin = Twin::new(game);
        twin.of(&start);
        let expected = twin.known.iter().filter(|(_, found)| found.0);
        let expected: BTreeSet<&Set> = expected.map(|(set, _)| set).collect();
        let list = open(game, rules, Effort::USUAL)
            .unwrap()
            .list(size)
            .unwrap();
        let sets = list.iter().map(|text| {
            let told = answer(game, text).unwrap();
            assert_eq!((&told.position, told.losing), (text, true), "{game}");
            let moves = told.moves.into_iter();
            moves.map(|choice| choice.name).collect::<Set>()
        });
        let sets: Vec<Set> = sets.collect();
        assert!(sets.is_sorted_by_key(Set::len), "{game}");
        assert_eq!(sets.len(), expected.len(), "{game}");
        assert_eq!(sets.iter().collect::<BTreeSet<_>>(), expected, "{game}");
        assert!(sets.len() > 3, "{game}");
    }
}

/// Compares two answers; `to` names an element of the first game in the second one.
fn is_same(one: &GameAnswer, other: &GameAnswer, to: impl Fn(&Move) -> Move) {
    let about = || format!("{} {} {}", one.game, one.position, other.position);
    assert_eq!(
        (one.losing, one.value),
        (other.losing, other.value),
        "{}",
        about()
    );
    let all: BTreeMap<Move, _> = other
        .moves
        .iter()
        .map(|choice| (choice.name.clone(), (choice.losing, choice.value)))
        .collect();
    assert_eq!(one.moves.len(), all.len(), "{}", about());
    for choice in &one.moves {
        let found = all[&to(&choice.name)];
        assert_eq!((choice.losing, choice.value), found, "{}", about());
    }
}

/// One layer, row or column of a box, the divisors of p^a q^b, and boards of which nothing is crossed out.
#[test]
fn each_game_has_plain_chomp_in_it() {
    for rows in 1..=4 {
        for columns in 1..=5 {
            let plain = answer("poisons", &format!("{rows}x{columns}")).unwrap();
            let crossed = answer("crossed", &format!("{rows}x{columns}")).unwrap();
            is_same(&crossed, &plain, Clone::clone);
            for gone in 0..3 {
                let mut sides = vec![rows, columns];
                sides.insert(gone, 1);
                let text = format!("{}x{}x{}", sides[0], sides[1], sides[2]);
                let layer = answer("space", &text).unwrap();
                is_same(&layer, &plain, |cell| {
                    let mut cell = cell.clone();
                    cell.remove(gone);
                    cell
                });
            }
            let number = 3_u32.pow(rows - 1) * 7_u32.pow(columns - 1);
            let divisors = answer("divisors", &number.to_string()).unwrap();
            is_same(&divisors, &plain, |divisor| {
                vec![exponent(divisor[0], 3) + 1, exponent(divisor[0], 7) + 1]
            });
        }
    }
    for rows in board::all(9) {
        let text = board::name(&rows);
        let (crossed, plain) = (answer("crossed", &text), answer("poisons", &text));
        is_same(&crossed.unwrap(), &plain.unwrap(), Clone::clone);
    }
}

/// How often a prime divides a number.
fn exponent(number: u32, prime: u32) -> u32 {
    let powers = (1..).take_while(|&times| number.is_multiple_of(prime.pow(times)));
    powers.last().unwrap_or(0)
}

/// The axes may be exchanged, and the divisors of a number with three primes are a box.
#[test]
fn boxes_are_alike_in_all_directions_and_are_divisors_of_three_primes() {
    for a in 1..=3 {
        for b in a..=3 {
            for c in b..=4 {
                let sides = [a, b, c];
                let of = |order: [usize; 3]| {
                    let side = |at: usize| sides[order[at]];
                    answer("space", &format!("{}x{}x{}", side(0), side(1), side(2))).unwrap()
                };
                let usual = of([0, 1, 2]);
                for order in [[0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
                    let turned = |cell: &Move| order.map(|at| cell[at]).to_vec();
                    is_same(&usual, &of(order), turned);
                }
                let number = 2_u32.pow(a - 1) * 3_u32.pow(b - 1) * 5_u32.pow(c - 1);
                let divisors = answer("divisors", &number.to_string()).unwrap();
                let cell = |divisor: &Move| [2, 3, 5].map(|prime| exponent(divisor[0], prime) + 1);
                is_same(&divisors, &usual, |divisor| cell(divisor).to_vec());
            }
        }
    }
}

/// Each board of 3x3 with cells crossed out, numbers, and boxes: with a greatest element who begins wins, and is told
/// why; without one, sometimes not.
#[test]
fn whoever_begins_below_a_greatest_element_wins() {
    let mut lost = 0;
    let mut check = |game: &str, text: &str| {
        let told = answer(game, text).unwrap();
        let twin = Twin::new(game);
        let is_greatest = |one: &Move| {
            let mut others = told.moves.iter();
            others.all(|other| (twin.takes)(&other.name, one))
        };
        let has_greatest = told.moves.iter().any(|choice| is_greatest(&choice.name));
        let steals = told.moves.len() > 1 && has_greatest;
        assert!(!(steals && told.losing), "{game} {text}");
        let lines = told.explanation.iter();
        let says = lines.filter(|line| line.starts_with("Every move takes"));
        assert_eq!(says.count(), usize::from(steals), "{game} {text}");
        lost += u32::from(told.losing);
    };
    let others: Vec<(u32, u32)> = board::cells(&[3, 3, 3]).skip(1).collect();
    for crossed in 0..1 << others.len() {
        let is_crossed = |&(at, _): &(usize, &(u32, u32))| crossed >> at & 1 == 1;
        let cells = others.iter().enumerate().filter(is_crossed);
        let cells = cells.map(|(_, (row, column))| format!("@{row},{column}"));
        check("crossed", &format!("3x3{}", cells.collect::<String>()));
    }
    for number in 1..=120 {
        check("divisors", &number.to_string());
    }
    for text in ["1x1x1", "2x2x2", "1x3x4", "3x3x2", "2,1/1", "3,2/2,2"] {
        check("space", text);
    }
    assert!(lost > 20, "{lost}");
}

#[test]
fn texts_have_a_normal_form() {
    for (game, text, normal) in [
        ("space", "4,4,2/3,1", "4,4,2/3,1"),
        ("space", "2, 2 / [2,2]", "2x2x2"),
        ("space", " 3 X 2×1", "3x2x1"),
        ("space", "3,0/1/0", "3/1"),
        ("space", "0", "0"),
        ("divisors", " 12 ", "12"),
        ("divisors", "360/8", "180"),
        ("divisors", "360/30,12,60", "360/12,30"),
        ("divisors", "12/1", "1/1"),
        ("crossed", "4x5@4,5@2,3@2,3", "5,5,5,4@2,3"),
        ("crossed", "2x2@1,2@2,1", "2x2@1,2@2,1"),
        ("crossed", "3x3@2,3@3,3@9,9", "3,2,2"),
        ("crossed", "2x3@2,1@2,2@2,3", "3"),
        ("crossed", "0@2,2", "0"),
    ] {
        assert_eq!(answer(game, text).unwrap().position, normal, "{text}");
        assert_eq!(answer(game, normal).unwrap().position, normal);
    }
}

#[test]
fn texts_that_are_no_order_or_too_large_are_refused() {
    for (game, text) in [
        ("space", ""),
        ("space", "2,3"),
        ("space", "2/2,1"),
        ("space", "2/3"),
        ("space", "2x2"),
        ("space", "2x2x2x2"),
        ("space", "0x5x4294967295"),
        ("space", "2,1/"),
        ("space", "2x2x2@1,1"),
        ("divisors", ""),
        ("divisors", "0"),
        ("divisors", "12/"),
        ("divisors", "12/0"),
        ("divisors", "12/5"),
        ("divisors", "12/2/3"),
        ("divisors", "-12"),
        ("divisors", "12@2"),
        ("crossed", "3x3@1,1"),
        ("crossed", "3x3@2"),
        ("crossed", "2,3"),
    ] {
        let refused = answer(game, text);
        assert!(
            matches!(refused, Err(GameError::Syntax(..))),
            "{game} {text}"
        );
    }
    for (game, text, limit) in [
        ("space", "5x5x6", "128 cells"),
        ("space", "65536x65536x1", "128 cells"),
        ("space", "4294967295", "128 cells"),
        ("space", "5x5x5", "262144 positions to come of it"),
        ("divisors", "720720", "128 divisors"),
        ("divisors", "1000000001", "1000000000 for the number"),
        ("crossed", "12x12", "128 cells"),
    ] {
        let refused = answer(game, text).unwrap_err();
        assert!(
            matches!(refused, GameError::TooLarge(..)),
            "{text}: {refused}"
        );
        assert!(refused.to_string().ends_with(limit), "{text}: {refused}");
    }
}

#[test]
fn positions_are_drawn() {
    let of = |game, text| answer(game, text).unwrap().explanation;
    assert_eq!(of("space", "2,2/1"), ["x O   O .", "."]);
    assert_eq!(of("space", "2,1/1"), ["x O   O", "O"]);
    assert_eq!(of("divisors", "12/6"), ["1 2 3 [4]"]);
    assert_eq!(of("divisors", "1/1"), [""; 0]);
    assert_eq!(of("crossed", "3x3@2,1@3,3"), ["x . .", "- . .", ". ."]);
}

/// Sizes that are known from elsewhere: the plane partitions in a box and the antichains of a power set
/// (the numbers of Dedekind).
#[test]
fn as_many_positions_come_of_a_start_as_is_known() {
    use crate::answer::Theory;
    use crate::orders::Orders;
    let space = Orders(crate::space::Space, Effort::USUAL);
    let divisors = Orders(crate::divisors::Divisors, Effort::USUAL);
    let count = |text| everything(&space, space.position(text).unwrap()).len();
    assert_eq!(["2x2x2", "3x3x3", "2x3x4"].map(count), [20, 980, 490]);
    let count = |text| everything(&divisors, divisors.position(text).unwrap()).len();
    assert_eq!(["30", "210", "2310"].map(count), [20, 168, 7581]);
}
