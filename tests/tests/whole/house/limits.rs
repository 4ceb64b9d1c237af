//! The limits that pages name are those of the code. The table of docs/SERVING.md is made of them.

use std::fs;

use super::root;

/// A page, words of it about a limit, a file, and the constant in it that keeps the limit.
const LIMITS: &str = r"
OPERATIONS.md :: | workers | 4,096; :: coordinator/src/error.rs :: const WORKERS_MAX: usize = 4096;
OPERATIONS.md :: leases in a heartbeat 8,192 :: coordinator/src/service.rs :: const LEASES_MAX: usize = 1 << 13;
OPERATIONS.md :: | a call | 2 MiB :: coordinator/src/messages.rs :: const MESSAGE_BYTES_MAX: u32 = 2 << 20;
OPERATIONS.md :: | participants | 4,096, :: crates/access/src/participants.rs :: const PARTICIPANTS_MAX: usize = 4096;
OPERATIONS.md :: | a part | 256 MiB, 4,096 ranges :: crates/store/src/part.rs :: const RANGES_MAX: usize = 1 << 12;
OPERATIONS.md :: | a part | 256 MiB, 4,096 ranges :: crates/store/src/part.rs :: const BYTES_MAX: u64 = 1 << 28;
OPERATIONS.md :: ended leases for 131,072 ranges :: crates/plan/src/leases.rs :: const ENDED_UNITS_MAX: usize = 1 << 17;
OPERATIONS.md :: and 160 MiB :: worker/src/lib.rs :: const OVERHEAD_BYTES: u64 = 160 << 20;
OPERATIONS.md :: at least 16 MiB :: worker/src/lib.rs :: const CACHE_BYTES_MIN: u64 = 16 << 20;
OPERATIONS.md :: Three quarters hold a cache :: worker/src/lib.rs :: const SOURCES_SHARE: u64 = 4;
OPERATIONS.md :: has 15 s for its tasks :: worker/src/lib.rs :: const GRACE: Duration = Duration::from_secs(15);
OPERATIONS.md :: gives up after 10 s :: worker/src/link.rs :: const PATIENCE_FIRST: Duration = Duration::from_secs(10);
OPERATIONS.md :: else after 30 minutes :: worker/src/link.rs :: const PATIENCE_LATER: Duration = Duration::from_mins(30);
OPERATIONS.md :: also minus 128 MiB :: cli/src/local.rs :: const COORDINATOR_BYTES: u64 = 128 << 20;
OPERATIONS.md :: some 250 bytes for each range :: cli/src/local.rs :: const COORDINATOR_RANGE_BYTES: u64 = 250;
SERVING.md :: at most 256 KiB of each download :: crates/serve/src/net/limits.rs :: const ANSWER_BYTES_MAX: u64 = 256 << 10;
OPERATIONS.md :: | a lease | 30 s unless renewed :: crates/plan/src/settings.rs :: lease_ms: 30_000,
";

#[test]
fn pages_name_the_limits_of_the_code() {
    let read = |file: &str| fs::read_to_string(root().join(file)).unwrap();
    for line in LIMITS.lines().skip(1) {
        let parts: Vec<&str> = line.split(" :: ").collect();
        let [page, said, file, constant] = parts[..] else {
            panic!("four parts: {line}")
        };
        let page_text = read(&format!("docs/{page}"));
        // Lines end anywhere.
        let words: Vec<&str> = page_text.split_whitespace().collect();
        let page_says = words.join(" ").contains(said);
        assert!(
            page_says,
            "{page} does not say {said:?}, but {file} has {constant:?}"
        );
        let is_kept = read(file).contains(constant);
        assert!(
            is_kept,
            "{page} says {said:?}, but {file} has no {constant:?}"
        );
    }
}
