//! The algorithm of the kernel on sets of strings, as the crate's documentation describes it, and its lemmas by trial.

use std::collections::BTreeSet;

use chomp_table::Word;
use chomp_testing::definition::Oracle;

type Strings = BTreeSet<String>;

fn zeros(string: &str) -> usize {
    string.matches('0').count()
}

fn sorted(span: &str) -> String {
    let zeros = zeros(span);
    "0".repeat(zeros) + &"1".repeat(span.len() - zeros)
}

/// All strings of `bits` bits, ascending.
fn strings(bits: usize) -> impl Iterator<Item = String> {
    let number = move |number: u32| format!("{number:032b}")[32 - bits..].to_owned();
    (0..1 << bits).map(number)
}

/// The strings that begin with `prefix`, without it.
fn after(strings: &Strings, prefix: &str) -> Strings {
    let rest = strings
        .iter()
        .filter_map(|string| string.strip_prefix(prefix));
    rest.map(str::to_owned).collect()
}

fn prefixed<'a>(bit: &'a str, strings: &'a Strings) -> impl Iterator<Item = String> + 'a {
    strings.iter().map(move |string| bit.to_owned() + string)
}

/// `R_j[z]` of the losing strings P.
fn slice(losing: &Strings, j: usize, z: usize) -> Strings {
    match z {
        0 => Strings::new(),
        _ => after(losing, &("0".repeat(z - 1) + &"1".repeat(j + 1 - z))),
    }
}

/// `M_j[z]` of the losing strings P of m bits, by Lemma 2.
fn marks(losing: &Strings, m: usize, j: usize, z: usize) -> Strings {
    let mut marked = slice(losing, j, z);
    if j < m {
        marked.extend(prefixed("0", &marks(losing, m, j + 1, z + 1)));
        marked.extend(prefixed("1", &marks(losing, m, j + 1, z)));
    }
    marked
}

/// The losing ones among the strings of `bits` bits after some prefix, if moves that start in it mark `marked`.
fn solve(bits: usize, marked: &Strings) -> Strings {
    if bits == 0 {
        return strings(0)
            .filter(|string| !marked.contains(string))
            .collect();
    }
    let m = bits - 1;
    let zero = solve(m, &after(marked, "0"));
    let lifted = &marks(&zero, m, 0, 0) | &after(marked, "1");
    let one = solve(m, &lifted);
    prefixed("0", &zero).chain(prefixed("1", &one)).collect()
}

/// The paths of `bits` bits that have no move.
fn empty(bits: usize) -> Strings {
    strings(bits).filter(|path| sorted(path) == *path).collect()
}

#[test]
fn sets_of_strings_agree_with_the_definition() {
    let mut oracle = Oracle::default();
    for bits in 0..=11 {
        let losing = solve(bits, &empty(bits));
        for path in strings(bits) {
            let number = u64::from_str_radix(&format!("0{path}"), 2).unwrap();
            let expected = oracle.is_losing(Word::new(number));
            assert_eq!(losing.contains(&path), expected, "{path}");
        }
    }
}

#[test]
fn the_example_of_four_bits() {
    let set = |strings: &[&str]| {
        strings
            .iter()
            .map(|&string| string.to_owned())
            .collect::<Strings>()
    };
    let losing = solve(4, &empty(4));
    assert_eq!(losing, set(&["0010", "0101", "1010", "1011"]));
    let half = after(&losing, "0");
    assert_eq!(half, set(&["010", "101"]));
    assert_eq!(slice(&half, 1, 1), set(&["01"]));
    assert_eq!(slice(&half, 2, 2), set(&["0"]));
    assert_eq!(marks(&half, 3, 1, 1), set(&["00", "01"]));
    assert_eq!(marks(&half, 3, 0, 0), set(&["000", "001"]));

    let half = after(&losing, "10");
    assert_eq!(half, set(&["10", "11"]));
    assert_eq!(slice(&half, 1, 1), set(&["0", "1"]));
    assert_eq!(slice(&half, 2, 1), set(&[""]));
    assert_eq!(marks(&half, 2, 1, 1), set(&["0", "1"]));
    assert_eq!(marks(&half, 2, 1, 0), set(&["0"]));
    assert_eq!(marks(&half, 2, 0, 0), set(&["00", "01", "10"]));
}

/// The paths that moves lead to which start at bit `start` of `path`.
fn moves(path: &str, start: usize) -> Strings {
    let ends = (start + 1..path.len()).filter(|&end| &path[end..=end] == "0");
    let moved =
        ends.map(|end| path[..start].to_owned() + &sorted(&path[start..=end]) + &path[end + 1..]);
    moved.filter(|_| &path[start..=start] == "1").collect()
}

#[test]
fn lemma_1_finds_all_moves_and_no_others() {
    for m in 0..=8 {
        for x in strings(m) {
            let lead = |j: usize| {
                let (t, r) = x.split_at(j);
                let z = zeros(t);
                (z > 0).then(|| "0".repeat(z) + &"1".repeat(j + 1 - z) + r)
            };
            let found: Strings = (0..=m).filter_map(lead).collect();
            assert_eq!(found, moves(&format!("1{x}"), 0), "1{x}");
        }
    }
}

/// With the head X g and the index t r.
#[test]
fn lemma_3_tells_head_and_index() {
    for head in (1..=5).flat_map(strings) {
        for start in (0..head.len()).filter(|&at| &head[at..=at] == "1") {
            let (before, g) = head.split_at(start);
            let ones = g.len() - zeros(g);
            for index in strings(5) {
                let lead = |j: usize| {
                    let (t, r) = index.split_at(j);
                    let d = zeros(t);
                    let (next, first) = if d <= ones {
                        let g = "0".repeat(zeros(g) + d) + &"1".repeat(ones - d);
                        (g, "1".repeat(j))
                    } else {
                        let first = "0".repeat(d - ones) + &"1".repeat(j + ones - d);
                        ("0".repeat(g.len()), first)
                    };
                    (d > 0).then(|| before.to_owned() + &next + &first + r)
                };
                let found: Strings = (0..=index.len()).filter_map(lead).collect();
                // The others are those that end in the head: they leave the index as it is.
                let all = moves(&(head.clone() + &index), start);
                assert!(
                    found.is_subset(&all) && found.len() == zeros(&index),
                    "{head} {index}"
                );
            }
        }
    }
}
