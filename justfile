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

# The unsafe code of the kernel under Miri, which needs a nightly compiler with it
miri:
    .ci/run miri

# The kernel on emulated CPUs of other instruction sets, which needs QEMU
emulated:
    .ci/run emulated

# Licences, banned crates and sources of the dependencies
deny:
    .ci/run deny

# What is known against the dependencies (needs the network)
advisories:
    .ci/run advisories

# Feeds a decoder what nobody wrote, for so many seconds: `just fuzz manifest 60`; `just fuzz list` names them
fuzz TARGET SECONDS="" SEED="0":
    cargo run -p chomp-fuzz -- {{TARGET}} {{SECONDS}} {{ if SECONDS == "" { "" } else { SEED } }}

# What things cost, as tables: kernel, codecs, and whole runs beside the plain method
bench:
    .ci/run bench

# Archives with a static program, its manual and completions
release:
    .ci/release
