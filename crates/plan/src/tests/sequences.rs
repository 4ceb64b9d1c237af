//! The plan against its rule, told in a few lines, under every sequence of results and revocations of three
//! participants for two ranges, of which the second depends on the first. The right content is 0, and the referee decides
//! at once. A range that was wrong is computed again at once.

use std::collections::{BTreeMap, BTreeSet, VecDeque};

use super::*;

const WORKERS: [WorkerId; 3] = [A, B, C];
const HONEST: WorkerId = WorkerId::only(9);

#[derive(Clone, Copy, Debug)]
enum Step {
    Finds(usize, u64, u8),
    Revoked(usize),
}

fn steps() -> Vec<Step> {
    let worker = |worker| {
        let finds = [(0, 0), (0, 1), (1, 0), (1, 1)];
        let finds = finds.map(|(head, content)| Step::Finds(worker, head, content));
        finds.into_iter().chain([Step::Revoked(worker)])
    };
    (0..3).flat_map(worker).collect()
}

/// The knowledge of a range.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Known {
    content: u8,
    finders: BTreeSet<usize>,
    /// Whether the referee has decided.
    is_own: bool,
}

#[derive(Clone, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
struct Rulebook {
    replicas: usize,
    checked: bool,
    found: BTreeSet<(u64, usize, u8)>,
    known: BTreeMap<u64, Known>,
    out: BTreeSet<usize>,
}

impl Rulebook {
    /// Whether the range has fewer finders than it should have.
    fn wants(&self, known: &Known) -> bool {
        let wanted = self.replicas + usize::from(self.checked);
        !known.is_own && known.finders.len() < wanted
    }

    /// Returns whether that can happen.
    fn step(&mut self, step: Step) -> bool {
        match step {
            Step::Finds(worker, head, _)
                if self.out.contains(&worker) || head == 1 && !self.known.contains_key(&0) =>
            {
                return false;
            }
            Step::Finds(worker, head, content) => {
                let known = self.known.get(&head).cloned();
                match known {
                    Some(mut known) if known.content == content => {
                        if self.wants(&known) {
                            known.finders.insert(worker);
                            self.known.insert(head, known);
                        }
                    }
                    _ => {
                        self.found.insert((head, worker, content));
                        self.judge(head);
                    }
                }
            }
            Step::Revoked(worker) => self.put_out(worker),
        }
        true
    }

    /// Enough have found the same, or results differ.
    fn judge(&mut self, head: u64) {
        let found: Vec<_> = self
            .found
            .iter()
            .filter(|found| found.0 == head)
            .copied()
            .collect();
        let mut contents: BTreeSet<u8> = found.iter().map(|found| found.2).collect();
        contents.extend(self.known.get(&head).map(|known| known.content));
        let finders: BTreeSet<usize> = found.iter().map(|found| found.1).collect();
        if contents.len() > 1 {
            self.decide(head);
        } else if finders.len() >= self.replicas && !self.known.contains_key(&head) {
            self.found.retain(|found| found.0 != head);
            let known = Known {
                content: found[0].2,
                finders,
                is_own: false,
            };
            self.known.insert(head, known);
        }
    }

    /// The referee decides about the range.
    fn decide(&mut self, head: u64) {
        let wrong = self
            .found
            .iter()
            .filter(|found| found.0 == head && found.2 != 0);
        let mut wrong: BTreeSet<usize> = wrong.map(|found| found.1).collect();
        self.found.retain(|found| found.0 != head);
        if let Some(known) = self.known.get(&head).filter(|known| known.content != 0) {
            wrong.extend(&known.finders);
            self.found.clear();
            self.known.retain(|&other, _| other < head);
        }
        let known = Known {
            content: 0,
            finders: BTreeSet::new(),
            is_own: true,
        };
        self.known.insert(head, known);
        for worker in wrong {
            self.put_out(worker);
        }
    }

    fn put_out(&mut self, worker: usize) {
        self.out.insert(worker);
        self.found.retain(|found| found.1 != worker);
        for known in self.known.values_mut() {
            known.finders.remove(&worker);
        }
    }
}

/// Runs a sequence, and compares the plan with the rulebook.
fn compare(settings: &Settings, steps: &[Step], book: &Rulebook) {
    let mut bench = Bench::new(settings.clone(), &WORKERS);
    // One that finds only what was wrong, so that nobody is ever alone.
    bench.join(HONEST);
    for &step in steps {
        match step {
            Step::Finds(worker, head, content) => {
                bench.finds(WORKERS[worker], head, content);
            }
            Step::Revoked(worker) => {
                let participant = WORKERS[worker].participant;
                bench.handle(Event::Revoked { participant });
            }
        }
        while let Some(task) = bench.take_as_referee() {
            bench.does(REFEREE, &task);
            if let Some(lost) = (0..2).find(|&head| !bench.is_done(head) && bench.is_known(head)) {
                bench.finds(HONEST, lost, 0);
            }
        }
    }
    for head in 0..2 {
        let unit = Unit::Range(Head(head));
        let known = book.known.get(&head);
        assert_eq!(bench.is_done(head), known.is_some(), "{steps:?}: {book:?}");
        let Some(known) = known else {
            continue;
        };
        let finders: BTreeSet<WorkerId> = known
            .finders
            .iter()
            .map(|&worker| WORKERS[worker])
            .collect();
        let found = bench.finders(head).iter();
        assert!(
            found.filter(|&&worker| worker != HONEST).eq(&finders),
            "{steps:?}: {book:?}"
        );
        let content = bench.plan.units.content(unit).unwrap();
        assert_eq!(
            content.digest,
            range(head, known.content).digest,
            "{steps:?}"
        );
        let debt = bench.plan.debt(unit).is_some();
        assert_eq!(debt, book.wants(known), "{steps:?}: {book:?}");
    }
    for (number, &worker) in WORKERS.iter().enumerate() {
        let is_out = bench.plan.out_reason(worker).is_some();
        assert_eq!(is_out, book.out.contains(&number), "{steps:?}: {book:?}");
    }
}

#[test]
fn every_sequence_keeps_the_rule() {
    for (replicas, checked) in [(1, false), (1, true), (2, false), (2, true), (3, false)] {
        let settings = Settings {
            replicas,
            checks_per_1000: if checked { 1000 } else { 0 },
            ..settings()
        };
        let start = Rulebook {
            replicas: replicas as usize,
            checked,
            ..Rulebook::default()
        };
        let mut seen = BTreeSet::from([start.clone()]);
        let mut queue = VecDeque::from([(start, Vec::new())]);
        while let Some((book, path)) = queue.pop_front() {
            for step in steps() {
                let mut book = book.clone();
                if !book.step(step) {
                    continue;
                }
                let mut path = path.clone();
                path.push(step);
                compare(&settings, &path, &book);
                if seen.insert(book.clone()) {
                    queue.push_back((book, path));
                }
            }
        }
        assert!(seen.len() > 50, "{}", seen.len());
    }
}
