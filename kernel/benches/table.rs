//! The evaluation of a whole 28-bit table on one thread, without coding, network or disk:
//! `cargo bench -p chomp-kernel`.

use std::collections::HashMap;
use std::hint::black_box;

use chomp_kernel::{Evaluator, Isa, Source};
use chomp_table::{Head, RangeBits, head};
use criterion::{Criterion, criterion_group, criterion_main};

const BITS: u32 = 28;

fn table(heads: &[Head], evaluator: &mut Evaluator) -> usize {
    let (mut losing, mut sources) = (0, HashMap::new());
    for &head in heads {
        let range = evaluator
            .evaluate(head, &sources)
            .expect("sources come first");
        losing += range.losing.len();
        sources.insert(head, Source::new(&range));
    }
    losing
}

fn evaluate(c: &mut Criterion) {
    let mut group = c.benchmark_group(format!("table of {BITS} bits"));
    group.sample_size(20);
    for isa in Isa::ALL.into_iter().filter(|isa| isa.is_available()) {
        for range_bits in [20, 24, 28].into_iter().filter_map(RangeBits::new) {
            let heads = head::layers(BITS, range_bits).concat();
            let mut evaluator = Evaluator::new(range_bits, isa);
            group.bench_function(format!("{isa}, {range_bits} range bits"), |b| {
                b.iter(|| table(black_box(&heads), &mut evaluator));
            });
        }
    }
    group.finish();
}

criterion_group!(benches, evaluate);
criterion_main!(benches);
