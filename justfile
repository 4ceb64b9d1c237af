# The checks by name. What each does is in .ci/run, the one list that machines use too.

# Everything a change must pass
ci:
    .ci/run

# The formatting
fmt:
    .ci/run fmt

# Clippy, with warnings as errors
lint:
    .ci/run lint

# The documentation, with warnings as errors
doc:
    .ci/run doc

# All tests
test:
    .ci/run test

# All tests on one core, beside two loops that keep it busy: none may depend on the machine's speed
slow:
    .ci/run tools s3 slow

# The unsafe code of the kernel under Miri, which needs a nightly compiler with it
miri:
    .ci/run miri

# The kernel on emulated CPUs of other instruction sets, which needs QEMU
emulated:
    .ci/run emulated

# Breaks one line of a package after the other, and tells which of them its tests do not notice:
# `just mutants table --shard 0/40`
mutants PACKAGE *ARGS:
    cargo mutants -p chomp-{{PACKAGE}} -o target -C=--lib -C=--tests {{ARGS}}

# The same of the lines that a change touches, since a commit: `just mutants-since main~1`
mutants-since COMMIT:
    git diff {{COMMIT}} > target/changes.diff
    cargo mutants --workspace --in-diff target/changes.diff -o target -C=--lib -C=--tests

# Kills and stops coordinators and workers of so many jobs of each kind at the least, and compares the tables: some 1,000
# take an hour
kills EFFORT="1000":
    CHOMP_TEST_EFFORT={{EFFORT}} cargo test --release -p chomp-tests --test whole kills:: -- --nocapture

# So many whole jobs of the plan under random faults and lies, from a seed on
schedules COUNT="1000000" FIRST="0":
    CHOMP_TEST_CASES={{COUNT}} CHOMP_TEST_SEED={{FIRST}} cargo test --release -p chomp-plan every_schedule -- --nocapture

# So many simulated histories of a cluster, from a seed on
histories COUNT="1000000" FIRST="0":
    CHOMP_TEST_CASES={{COUNT}} CHOMP_TEST_SEED={{FIRST}} \
        cargo test --release -p chomp-tests --test whole every_history -- --nocapture

# Writes the gRPC code anew, after a change of the protocol
proto:
    CHOMP_WRITE=1 cargo test -p chomp-proto

# Writes the description of the JSON anew, after a change of the types or routes of a served table
openapi:
    CHOMP_WRITE=1 cargo test -p chomp-serve --lib the_description_has

# What one liar can do, in so many simulated jobs of each kind, among so many participants, with so many of 1,000 ranges
# checked: the table in docs/SECURITY.md
liars JOBS="80" PARTICIPANTS="10" CHECKS="400":
    cargo run --release -p chomp-plan --example liars -- {{JOBS}} {{PARTICIPANTS}} {{CHECKS}}

# The Python package and its notebook
wheel:
    .ci/run wheel

# Licences, banned crates and sources of the dependencies
deny:
    .ci/run deny

# What is known against the dependencies (needs the network)
advisories:
    .ci/run advisories

# Feeds a decoder what nobody wrote, for so many seconds or so often: `just fuzz manifest 60`, `just fuzz manifest times
# 1000000`; `just fuzz list` names them
fuzz +ARGS:
    cargo run --release -p chomp-fuzz -- {{ARGS}}

# Feeds every decoder so often
fuzz-all COUNT="10000000" SEED="0":
    cargo build --release -p chomp-fuzz
    set -e; for target in $(just fuzz list); do just fuzz $target times {{COUNT}} {{SEED}}; done

# What things cost, as tables: kernel, codecs, and whole runs beside the plain method
bench:
    .ci/run bench

# Compares the CPU time of the program that ships with that of the plain build, in turns, on four commands: `just profiles`;
# on all: `just profiles all`; of given programs: `just profiles PROGRAM PROGRAM`
profiles *ARGS:
    .ci/profiles {{ARGS}}

# The engines that take longer, all or some: `just engines ceph mpi`
engines *NAMES:
    .ci/engines {{NAMES}}

# All files of a release; `just release twice` makes them twice and compares
release *ARGS:
    .ci/release {{ARGS}}

# A container image of a static program, without a daemon
image PROGRAM="target/x86_64-unknown-linux-musl/dist/chomp":
    .ci/image {{PROGRAM}}
