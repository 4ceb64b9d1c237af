//! The threads of `chomp verify`. [`in_order`] runs threads that check shards, or pieces of a table of Grundy values,
//! and passes their results on in the order of the shards or pieces. [`check_windows`] runs the threads that, at the
//! level `full`, check the windows of a table of losing positions (see [`marking`](chomp_verify::marking)), and reports
//! each window as soon as it is done.

use std::ops::ControlFlow;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread;

use chomp_table::Table;
use chomp_verify::marking::{Band, Layout, WindowReport};
use chomp_verify::{CheckError, Watch};
use parking_lot::Mutex;

/// Computes `make` of each number below `count` in several threads, and gives the results to `take` in the order of the
/// numbers. Each thread has at most one result that `take` has not read yet.
pub(super) fn in_order<T: Send, R>(
    threads: usize,
    count: usize,
    make: impl Fn(usize) -> T + Sync,
    take: impl FnOnce(&mut dyn Iterator<Item = T>) -> R,
) -> R {
    let make = &make;
    thread::scope(|scope| {
        let lane = |lane: usize| {
            let (sender, receiver) = sync_channel(0);
            scope.spawn(move || {
                for number in (lane..count).step_by(threads) {
                    // Nobody takes what follows an error.
                    if sender.send(make(number)).is_err() {
                        return;
                    }
                }
            });
            receiver
        };
        let lanes: Vec<_> = (0..threads.min(count)).map(lane).collect();
        let mut items = (0..count).map(|number| {
            let lane = &lanes[number % threads];
            lane.recv()
                .expect("a lane ends when all it has to make is taken")
        });
        take(&mut items)
    })
}

/// Checks the windows with these numbers, which ascend, in several threads. For each band in turn the table is read
/// first, and then its windows are checked: see [`marking`](chomp_verify::marking). The calling thread calls `done` for
/// each window that agrees with the marking. `reading` gets the fraction of the reading for a band that is done, and
/// `watch` the sum of such fractions over the windows that are being checked. Fails at the first error; the other
/// threads then stop where they are.
pub(super) fn check_windows(
    table: &Table,
    layout: Layout,
    numbers: &[u64],
    (reading, watch): (Watch<'_>, &(dyn Fn(f64) -> ControlFlow<()> + Sync)),
    mut done: impl FnMut(u64, WindowReport),
) -> Result<(), CheckError> {
    for numbers in numbers.chunk_by(|one, next| layout.band(*one) == layout.band(*next)) {
        let band = Band::gather(table, layout.band_bits, layout.band(numbers[0]), reading)?;
        let threads = usize::try_from(layout.threads).unwrap_or(1);
        let threads = threads.min(numbers.len());
        let fractions = Mutex::new(vec![0.0; threads]);
        let (next, has_failed) = (AtomicUsize::new(0), AtomicBool::new(false));
        let check = |thread: usize, number: u64| {
            let tell: Watch<'_> = &|fraction| {
                let mut fractions = fractions.lock();
                fractions[thread] = fraction;
                if has_failed.load(Ordering::Relaxed) {
                    return ControlFlow::Break(());
                }
                watch(fractions.iter().sum())
            };
            let report = band.check_window(layout.window_bits, number, tell);
            // A finished window is counted by `done`, not in the sum of the fractions.
            fractions.lock()[thread] = 0.0;
            report
        };
        let take = || {
            let number = numbers.get(next.fetch_add(1, Ordering::Relaxed));
            number.filter(|_| !has_failed.load(Ordering::Relaxed))
        };
        let mut first = Ok(());
        thread::scope(|scope| {
            let (sender, receiver) = sync_channel(threads);
            for thread in 0..threads {
                let (sender, take, check) = (sender.clone(), &take, &check);
                scope.spawn(move || {
                    while let Some(&number) = take()
                        && sender.send((number, check(thread, number))).is_ok()
                    {
                    }
                });
            }
            drop(sender);
            for (number, report) in receiver {
                match report {
                    Ok(report) => done(number, report),
                    // The first error is kept. It ends the other threads, and their errors are dropped.
                    Err(error) if first.is_ok() => {
                        has_failed.store(true, Ordering::Relaxed);
                        first = Err(error);
                    }
                    Err(_) => {}
                }
            }
        });
        first?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_threads_make_comes_in_order() {
        for threads in [1, 2, 3, 7] {
            for count in [0, 1, 2, 20] {
                let calls = AtomicUsize::new(0);
                let make = |number| {
                    calls.fetch_add(1, Ordering::Relaxed);
                    // Some are slower than those after them.
                    (0..(number * 7919) % 11 * 10_000)
                        .map(std::hint::black_box)
                        .count();
                    number
                };
                let all: Vec<usize> = in_order(threads, count, make, |all| all.collect());
                assert!(all.into_iter().eq(0..count), "{threads} threads, {count}");
                assert_eq!(calls.into_inner(), count);
            }
        }
    }

    #[test]
    fn nobody_runs_far_ahead_of_who_takes() {
        let calls = AtomicUsize::new(0);
        let make = |number: usize| {
            calls.fetch_add(1, Ordering::Relaxed);
            number
        };
        let first = in_order(4, 1000, make, |all| all.next());
        assert_eq!(first, Some(0));
        // One result was read, one waits in each lane, and one more in the lane that was read.
        assert!(calls.into_inner() <= 6);
    }
}
