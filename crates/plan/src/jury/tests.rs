//! The jury against its rule, told in ten lines, under every sequence of events up to some length.

use chomp_table::{Digest, Head};

use super::*;

/// The unit that is drawn, and one that is not.
const UNITS: [Unit; 2] = [Unit::Range(Head(0)), Unit::Range(Head(1))];
const WORKERS: [WorkerId; 3] = [WorkerId::only(1), WorkerId::only(2), WorkerId::only(3)];

fn content(number: u8) -> UnitContent {
    UnitContent::of_shard(Digest([number; 32]))
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Happens {
    /// A worker finds a content in a unit.
    Votes(usize, usize, u8),
    Quarantined(usize),
    /// A unit is settled, if it may be.
    Settled(usize),
    /// The coordinator finds a content in a unit.
    Truth(usize, u8),
    Withdrawn(usize),
}

fn all() -> Vec<Happens> {
    let mut all = Vec::new();
    for unit in 0..2 {
        for content in 0..2 {
            all.push(Happens::Truth(unit, content));
            all.extend((0..3).map(|worker| Happens::Votes(worker, unit, content)));
        }
        all.push(Happens::Settled(unit));
        all.push(Happens::Withdrawn(unit));
    }
    all.extend((0..3).map(Happens::Quarantined));
    all
}

/// The rule: what is found of a unit is the set of (who, what) of all that are not quarantined. It is a contents'
/// finders that count, of what was settled before as of what is said now.
#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rulebook {
    votes: BTreeSet<(usize, usize, u8)>,
    /// The settled contents: what, who found it, and how many had to.
    known: BTreeMap<usize, (u8, BTreeSet<usize>, usize)>,
    quarantined: BTreeSet<usize>,
    replicas: usize,
}

impl Rulebook {
    fn standing(&self, unit: usize) -> Standing {
        let of_unit = self.votes.iter().filter(|vote| vote.1 == unit);
        let known = self.known.get(&unit);
        let (finders, needed) = known.map_or((BTreeSet::new(), self.replicas), |known| {
            (known.1.clone(), known.2)
        });
        let voters: BTreeSet<usize> = of_unit.clone().map(|vote| vote.0).chain(finders).collect();
        let mut contents: BTreeSet<u8> = of_unit.map(|vote| vote.2).collect();
        contents.extend(known.map(|known| known.0));
        let one_more = usize::from(unit == 0 && known.is_none());
        match contents.first() {
            None => Standing::Open,
            Some(_) if contents.len() > 1 => Standing::Disputed,
            Some(_) if voters.len() < needed => Standing::Open,
            Some(_) if voters.len() < needed + one_more => Standing::Agreed,
            Some(&one) => Standing::Settled(content(one)),
        }
    }

    fn happens(&mut self, event: Happens) {
        match event {
            Happens::Votes(worker, unit, content) => {
                let known = self.known.get(&unit);
                let is_settled = known.is_some_and(|(found, finders, needed)| {
                    *found == content && finders.len() >= *needed
                });
                if !is_settled && !self.quarantined.contains(&worker) {
                    self.votes.insert((worker, unit, content));
                }
            }
            Happens::Quarantined(worker) => {
                self.quarantined.insert(worker);
                self.votes.retain(|vote| vote.0 != worker);
                for (_, finders, _) in self.known.values_mut() {
                    finders.remove(&worker);
                }
            }
            Happens::Settled(unit) => {
                let known = self.known.remove(&unit);
                let (known, mut finders, needed) = known.map_or(
                    (None, BTreeSet::new(), self.replicas),
                    |(content, finders, needed)| (Some(content), finders, needed),
                );
                let of_unit = self.votes.iter().filter(|vote| vote.1 == unit);
                let content = known.or_else(|| of_unit.clone().map(|vote| vote.2).next());
                finders.extend(of_unit.map(|vote| vote.0).filter(|_| needed > 0));
                self.votes.retain(|vote| vote.1 != unit);
                self.known.insert(unit, (content.unwrap(), finders, needed));
            }
            Happens::Truth(unit, content) => {
                self.votes.retain(|vote| vote.1 != unit);
                self.known.insert(unit, (content, BTreeSet::new(), 0));
            }
            Happens::Withdrawn(unit) => {
                self.votes.retain(|vote| vote.1 != unit);
                self.known.remove(&unit);
            }
        }
    }
}

/// A key with which the first unit is drawn, also when it was withdrawn some times, and the other is not.
fn key() -> u64 {
    let fits = |key: &u64| {
        let mut jury = jury(1, *key);
        (0..8).all(|_| {
            let drawn = UNITS.map(|unit| jury.need(unit) > 1);
            for unit in UNITS {
                jury.withdraw(unit);
            }
            drawn == [true, false]
        })
    };
    (0..1 << 20).find(fits).unwrap()
}

fn drawing(replicas: u32, one_in: u32, key: u64, ranges: u64) -> Jury {
    let settings = Settings {
        replicas,
        draw_one_in: one_in,
        draw_own_one_in: one_in,
        key,
        ..Settings::new(16, chomp_table::RangeBits::new(12).unwrap())
    };
    Jury::new(settings, ranges)
}

fn jury(replicas: u32, key: u64) -> Jury {
    drawing(replicas, 2, key, 2)
}

/// Does to a new jury what happened, and compares it after each event. Returns the rulebook after that; none if the
/// last event was none that can happen.
fn replay(replicas: u32, key: u64, events: &[Happens]) -> Option<Rulebook> {
    let mut jury = jury(replicas, key);
    let mut book = Rulebook {
        replicas: replicas as usize,
        ..Rulebook::default()
    };
    for (number, &event) in (0..).zip(events) {
        match event {
            Happens::Votes(worker, unit, found) => {
                if book.quarantined.contains(&worker) {
                    return None;
                }
                let vote = Vote {
                    worker: WORKERS[worker],
                    content: content(found),
                    submission: SubmissionId(number),
                };
                jury.vote(UNITS[unit], vote, false);
            }
            Happens::Quarantined(worker) => {
                let is_reopened = |unit: &usize| {
                    let known = book.known.get(unit);
                    known.is_some_and(|(_, finders, needed)| {
                        finders.contains(&worker) && finders.len() <= *needed
                    })
                };
                let reopened = (0..2).filter(is_reopened).map(|unit| UNITS[unit]);
                let removed = jury.remove_votes(WORKERS[worker].participant);
                assert!(removed.reopened.into_iter().eq(reopened));
            }
            Happens::Settled(unit) => {
                let has_votes = book.votes.iter().any(|vote| vote.1 == unit);
                let may = matches!(book.standing(unit), Standing::Agreed | Standing::Settled(_));
                if !may || !has_votes {
                    return None;
                }
                jury.settle(UNITS[unit], None);
            }
            Happens::Truth(unit, found) => {
                let liars = jury.liars(UNITS[unit], content(found), false);
                let mut wrong: BTreeSet<usize> = BTreeSet::new();
                for vote in &book.votes {
                    wrong.extend((vote.1 == unit && vote.2 != found).then_some(vote.0));
                }
                if let Some((known, finders, _)) = book.known.get(&unit)
                    && *known != found
                {
                    wrong.extend(finders);
                }
                let liars: BTreeSet<ParticipantId> =
                    liars.into_iter().map(Doer::participant).collect();
                let wrong = wrong.into_iter().map(|worker| WORKERS[worker].participant);
                assert!(liars.into_iter().eq(wrong), "{events:?}");
                jury.truth(UNITS[unit], content(found));
            }
            Happens::Withdrawn(unit) => {
                jury.withdraw(UNITS[unit]);
            }
        }
        book.happens(event);
        jury.check();
        for (number, unit) in UNITS.into_iter().enumerate() {
            assert_eq!(jury.standing(unit), book.standing(number), "{events:?}");
            let known = book.known.get(&number);
            let found = known.map(|(found, ..)| content(*found));
            assert_eq!(jury.known(unit), found, "{events:?}");
            let is_reopened = known.is_some_and(|(_, finders, needed)| finders.len() < *needed);
            assert_eq!(jury.is_reopened(unit), is_reopened, "{events:?}");
        }
    }
    Some(book)
}

/// Every sequence of events up to a length, but for those that come to what a shorter one has come to.
fn every_sequence(replicas: u32, length: usize) {
    let key = key();
    let mut seen = BTreeSet::new();
    let mut sequences = vec![Vec::new()];
    for _ in 0..length {
        let mut longer = Vec::new();
        for sequence in sequences {
            for event in all() {
                let sequence = [&sequence[..], &[event]].concat();
                if let Some(book) = replay(replicas, key, &sequence)
                    && seen.insert(book)
                {
                    longer.push(sequence);
                }
            }
        }
        sequences = longer;
    }
    assert!(seen.len() > 1000, "{}", seen.len());
}

#[test]
fn one_finder_settles_every_sequence_by_the_rule() {
    every_sequence(1, 4);
}

#[test]
fn two_finders_settle_every_sequence_by_the_rule() {
    every_sequence(2, 5);
}

/// Which ranges are drawn depends on the key, and is another matter when one was withdrawn.
#[test]
fn nobody_knows_which_ranges_are_drawn() {
    let draw = |key: u64, times: u32| {
        let mut jury = drawing(1, 4, key, 4096);
        let units = || (0..4096).map(|head| Unit::Range(Head(head)));
        for unit in units() {
            (0..times).for_each(|_| drop(jury.withdraw(unit)));
        }
        units().map(|unit| jury.need(unit) > 1).collect::<Vec<_>>()
    };
    let draws = [draw(1, 0), draw(2, 0), draw(1, 1)];
    for drawn in &draws {
        let count = drawn.iter().filter(|&&drawn| drawn).count();
        assert!((900..1150).contains(&count), "{count}");
    }
    for (one, other) in [(0, 1), (0, 2), (1, 2)] {
        let same = draws[one].iter().zip(&draws[other]);
        let both = same.filter(|(one, other)| **one && **other).count();
        assert!((180..340).contains(&both), "{both} of 256");
    }
}

/// Whoever writes a shard is not the only one to look at it.
#[test]
fn a_shard_needs_two_at_least() {
    let needs = [1, 2, 3].map(|replicas| jury(replicas, key()).need(Unit::Shard(0)));
    assert_eq!(needs, [2, 2, 3]);
}

/// Those who found a shard have nothing to do with a file that somebody speaks of later.
#[test]
fn whoever_speaks_of_a_forged_file_is_a_liar() {
    let unit = Unit::Shard(0);
    let mut jury = jury(2, key());
    let vote = |worker: usize, found: u8| Vote {
        worker: WORKERS[worker],
        content: content(found),
        submission: SubmissionId(worker as u64),
    };
    let liars = |jury: &Jury, is_forged| {
        let liars = jury.liars(unit, content(1), is_forged).into_iter();
        liars.map(Doer::participant).collect::<Vec<_>>()
    };
    let [a, b, c] = WORKERS.map(|worker| worker.participant);
    jury.vote(unit, vote(0, 1), false);
    jury.vote(unit, vote(1, 1), false);
    assert_eq!(
        [liars(&jury, false), liars(&jury, true)],
        [vec![], vec![a, b]]
    );
    jury.settle(unit, None);
    assert_eq!(
        [liars(&jury, false), liars(&jury, true)],
        [vec![], vec![a, b]]
    );
    jury.vote(unit, vote(2, 0), false);
    assert_eq!(
        [liars(&jury, false), liars(&jury, true)],
        [vec![c], vec![c]]
    );
}
