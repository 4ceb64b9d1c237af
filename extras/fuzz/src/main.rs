//! `chomp-fuzz TARGET SECONDS [SEED]` feeds a decoder for SECONDS s, from number SEED on; `chomp-fuzz TARGET times
//! COUNT [SEED]` feeds it COUNT inputs; `chomp-fuzz TARGET once SEED` repeats one execution; `chomp-fuzz list` names
//! the targets; `chomp-fuzz corpus` makes their first inputs anew.

use std::fs;
use std::io::{self, Write};
use std::process::ExitCode;
use std::time::{Duration, Instant};

use anyhow::{Context, bail};
use chomp_fuzz::targets::{TARGETS, Target};
use chomp_fuzz::{Broken, Count, Fuzzer, corpus_folder};

/// The executions between two looks at the clock.
const BATCH: u64 = 1000;
const TELL_EVERY: Duration = Duration::from_secs(10);
const USAGE: &str = "usage: chomp-fuzz TARGET SECONDS [SEED] | TARGET times COUNT [SEED] | TARGET once SEED | list | corpus";

#[derive(Clone, Copy, Debug)]
enum Most {
    Time(Duration),
    Executions(u64),
}

fn main() -> anyhow::Result<ExitCode> {
    let args: Vec<String> = std::env::args().skip(1).collect();
    let args: Vec<&str> = args.iter().map(String::as_str).collect();
    match args[..] {
        ["list"] => TARGETS.iter().try_for_each(|target| say(target.name))?,
        ["corpus"] => TARGETS.iter().try_for_each(write_corpus)?,
        [name, "once", seed] => {
            let fuzzer = Fuzzer::new(find(name)?)?;
            let seed = seed.parse().context(USAGE)?;
            let done = fuzzer.run(std::iter::once(seed));
            return report(name, done.map(|count| format!("{count:?}")));
        }
        [name, "times", count] => return run(name, times(count)?, "0"),
        [name, "times", count, seed] => return run(name, times(count)?, seed),
        [name, seconds] => return run(name, time(seconds)?, "0"),
        [name, seconds, seed] => return run(name, time(seconds)?, seed),
        _ => bail!(USAGE),
    }
    Ok(ExitCode::SUCCESS)
}

fn find(name: &str) -> anyhow::Result<&'static Target> {
    let found = TARGETS.iter().find(|target| target.name == name);
    found.with_context(|| format!("there is no target {name:?}: chomp-fuzz list names them"))
}

fn time(seconds: &str) -> anyhow::Result<Most> {
    let seconds = seconds.parse().context(USAGE)?;
    Ok(Most::Time(Duration::from_secs(seconds)))
}

fn times(count: &str) -> anyhow::Result<Most> {
    Ok(Most::Executions(count.parse().context(USAGE)?))
}

#[expect(
    clippy::disallowed_methods,
    reason = "how long it runs changes nothing of what an execution does"
)]
fn run(name: &str, most: Most, seed: &str) -> anyhow::Result<ExitCode> {
    let fuzzer = Fuzzer::new(find(name)?)?;
    let mut seed: u64 = seed.parse().context(USAGE)?;
    let (start, mut told) = (Instant::now(), Duration::ZERO);
    let mut all = Count::default();
    let line = |all: &Count, seed: u64| {
        let seconds = start.elapsed().as_secs_f64();
        #[expect(clippy::cast_precision_loss, reason = "a rate need not be exact")]
        let rate = all.executions as f64 / seconds.max(0.001);
        let Count {
            executions,
            accepted,
        } = all;
        format!("{executions} executions, {rate:.0}/s, {accepted} accepted; next seed {seed}")
    };
    loop {
        let batch = match most {
            Most::Time(most) if start.elapsed() < most => BATCH,
            Most::Executions(most) if all.executions < most => BATCH.min(most - all.executions),
            _ => break,
        };
        match fuzzer.run((0..batch).map(|number| seed.wrapping_add(number))) {
            Ok(Count {
                executions,
                accepted,
            }) => {
                all.executions += executions;
                all.accepted += accepted;
            }
            Err(broken) => return report(name, Err(broken)),
        }
        seed = seed.wrapping_add(batch);
        if start.elapsed() > told + TELL_EVERY {
            told = start.elapsed();
            say(&format!("{name}: {}", line(&all, seed)))?;
        }
    }
    report(name, Ok(line(&all, seed)))
}

/// Tells how it ended; an input that breaks a promise is written into the corpus, where tests find it.
fn report(name: &str, done: Result<String, Broken>) -> anyhow::Result<ExitCode> {
    match done {
        Ok(text) => {
            say(&format!("{name}: {text}"))?;
            Ok(ExitCode::SUCCESS)
        }
        Err(Broken { seed, input, what }) => {
            let file = write(find(name)?, &format!("broken-{seed}"), &input)?;
            say(&format!("{name}: seed {seed} breaks a promise: {what}"))?;
            say(&format!(
                "{name}: the input is in {file}; again: chomp-fuzz {name} once {seed}"
            ))?;
            Ok(ExitCode::FAILURE)
        }
    }
}

fn write_corpus(target: &Target) -> anyhow::Result<()> {
    for (number, seed) in target.seeds().iter().enumerate() {
        write(target, &format!("seed-{number}"), seed)?;
    }
    Ok(())
}

#[expect(
    clippy::disallowed_methods,
    reason = "an input can be made again, and replaces what has its name"
)]
fn write(target: &Target, name: &str, bytes: &[u8]) -> anyhow::Result<String> {
    let folder = corpus_folder(target);
    let path = folder.join(name);
    let failed = || format!("cannot write {}", path.display());
    fs::create_dir_all(&folder).with_context(failed)?;
    fs::write(&path, bytes).with_context(failed)?;
    Ok(path.display().to_string())
}

fn say(text: &str) -> io::Result<()> {
    writeln!(io::stdout(), "{text}")
}
