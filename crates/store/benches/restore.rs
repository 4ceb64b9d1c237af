//! The time to restore the ranges of a table, without keeping them, by one thread:
//! `cargo bench -p chomp-store --bench restore -- TABLE`.

#![expect(clippy::print_stdout, reason = "it prints what it measures")]

use std::ops::ControlFlow;
use std::path::Path;
use std::time::Instant;

use chomp_store::restore::Restorer;
use chomp_table::{RangeBits, Table};

const RANGE_BITS: u32 = 24;
const MEMORY_BYTES: u64 = 1 << 30;

fn main() {
    let mut words = std::env::args().skip(1).filter(|word| word != "--bench");
    let Some(path) = words.next() else {
        println!("no table is named: nothing is restored");
        return;
    };
    let table = Table::open(Path::new(&path)).expect("a published table");
    let scratch = tempfile::tempdir().expect("a folder for files");
    let restorer = Restorer {
        table: &table,
        range_bits: RangeBits::new(RANGE_BITS).expect("12 to 32"),
        threads: 1,
        memory_bytes: MEMORY_BYTES,
        scratch: scratch.path(),
    };
    #[expect(clippy::disallowed_methods, reason = "it is what is measured")]
    let start = Instant::now();
    let done = restorer.run(&|_| true, &|_| Ok(()), &|_, _| ControlFlow::Continue(()));
    done.expect("the ranges are restored");
    let (seconds, losing) = (start.elapsed().as_secs_f64(), table.manifest().losing);
    #[expect(clippy::cast_precision_loss, reason = "it is shown with a digit")]
    let each = seconds * 1e9 / losing as f64;
    println!("{seconds:.2} s, {each:.1} ns for each of {losing} losing positions");
}
