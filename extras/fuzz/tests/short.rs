//! A short run of each target. In one test: all share the memory that is counted.

use chomp_fuzz::targets::TARGETS;
use chomp_fuzz::{Broken, Fuzzer, kept};

/// The executions of each target.
const EXECUTIONS: u64 = 3_000;
/// All kept inputs are small enough to be kept.
const CORPUS_BYTES_MAX: usize = 200 << 10;

#[test]
fn every_decoder_keeps_its_promises() {
    let mut bytes = 0;
    for target in &TARGETS {
        let fuzzer = Fuzzer::new(target).unwrap();
        let kept = kept(target).unwrap();
        let seeds = kept.iter().filter(|(name, _)| name.starts_with("seed-"));
        assert_eq!(seeds.count(), target.seeds().len(), "{target:?}");
        for (name, input) in &kept {
            let accepted = fuzzer.check(input);
            let expected = name.starts_with("seed-");
            let good = accepted
                .as_ref()
                .is_ok_and(|&accepted| accepted || !expected);
            assert!(good, "{target:?}: {name}: {accepted:?}");
            bytes += input.len();
        }
        match fuzzer.run(0..EXECUTIONS) {
            Ok(count) => assert!(count.accepted > 0, "{target:?} accepts nothing"),
            Err(Broken { seed, what, .. }) => panic!("{target:?}: seed {seed}: {what}"),
        }
    }
    assert!(bytes < CORPUS_BYTES_MAX, "{bytes} bytes of inputs");
}
