//! Tables whose digests are right and whose words are wrong. No command panics, and one that sees a contradiction says
//! so. Which word is missing or too many, `chomp verify` finds.

use std::fs;
use std::path::{Path, PathBuf};

use chomp_table::Word;
use chomp_table::digest::DigestBuilder;
use chomp_table::manifest::{Manifest, folder_name};
use chomp_table::shard::shard_name;
use chomp_testing::tables::{self, SMALL, publish_words, write_manifest};
use tempfile::TempDir;

use crate::common::cluster::Server;
use crate::common::http::get;
use crate::common::{Ended, chomp, end, exists, finished, folder};

const BITS: u32 = 14;

/// The tables of the words without these, and with others.
fn changed(removed: &[u64], added: &[u64]) -> TempDir {
    let mut words = tables::words(BITS);
    words.retain(|word| !removed.contains(word));
    words.extend(added);
    words.sort_unstable();
    let home = folder();
    publish_words(home.path(), BITS, SMALL, &words);
    home
}

/// The word of these rows, and that of their mirror image: the smaller one first.
fn pair(rows: &str) -> [u64; 2] {
    let word = Word::from(&rows.parse().unwrap()).representative();
    [word.get(), word.mirror().get()]
}

/// Runs a command about the table in `home`, which may write a file or folder there.
fn ask(home: &Path, line: &str) -> Ended {
    let mut command = chomp(line);
    command.arg("--table").arg(home);
    if line.starts_with("export") || line.starts_with("site") || line.starts_with("certify") {
        command.arg("--out").arg(home.join("out"));
    }
    if line.starts_with("verify") {
        command.arg("--report").arg(home.join("report"));
    }
    let ended = end(&mut command);
    ended.says_nothing_of("panicked");
    ended
}

const EXPORTS: [&str; 9] = [
    "--format words",
    "--format words --both",
    "--format rows --box 5x7 --both",
    "--format npy --bits 13 --both",
    "--format parquet --area 3-12",
    "--format roaring",
    "--format roaring --both",
    "--format chomp-fast --box 7x7",
    "--format chomp-fast-checkpoint --box 7x7",
];

const OTHERS: [&str; 8] = [
    "site",
    "openings",
    "oeis several --terms 12",
    "certify 4x5 --move 3,3",
    "certify 7x7 --move 2,2",
    "verify",
    "verify --level sample",
    "verify --level full",
];

/// A table lists the smaller word of each mirror pair. One that lists both, or the larger, is refused by whatever reads
/// its words.
#[test]
fn larger_words_of_mirror_pairs_are_refused() {
    for (rows, is_other_kept) in [("3,2", true), ("3,2", false), ("4,2,2", true)] {
        let [smaller, larger] = pair(rows);
        let kept = if is_other_kept { vec![] } else { vec![smaller] };
        let home = changed(&kept, &[larger]);
        let exports = EXPORTS.map(|flags| format!("export {flags}"));
        for line in exports.iter().map(String::as_str).chain(OTHERS) {
            let ended = ask(home.path(), line).exits(3);
            ended.says("shard-0000.zst is damaged: frame ");
            ended.says(&format!(
                "lists the word {larger}, whose mirror image has a smaller one, {smaller}"
            ));
            assert!(!exists(&home.path().join("out")), "{line}");
        }
        let shard = home.path().join("table-14/shard-0000.zst");
        let mut query = chomp("query 3,2 2,1 --table");
        end(query.arg(shard)).refuses(3, &["shard-0000.zst is damaged"]);
    }
}

/// The right words without one of them, and with one more. A proof from such a table is true, or there is none.
#[test]
fn a_missing_or_additional_word_gives_no_wrong_proof() {
    let right = tables::words(BITS);
    // A manifest whose counts by bits fall is none, so some words have to stay.
    let halves = (1 << 4..1 << 8).map(|half| 2 * half);
    let removed = halves.clone().filter(|word| right.contains(word));
    let removed = removed.map(|word| changed(&[word], &[]));
    let is_other = |word: &u64| Word::new(*word).is_representative() && !right.contains(word);
    let added = halves.filter(is_other).step_by(5);
    let added = added.map(|word| changed(&[], &[word]));
    let mut codes = [0; 4];
    for home in removed.chain(added) {
        for line in ["4x5 --move 3,3", "2x12 --move 2,12", "5x6 --move 4,3"] {
            let ended = ask(home.path(), &format!("certify --force {line}"));
            let code = usize::try_from(ended.code.unwrap()).unwrap();
            codes[code] += 1;
            match code {
                0 => drop(end(chomp("certify --check").arg(home.path().join("out"))).done()),
                2 => ended.says("does not win on"),
                _ => ended.says("the table contradicts itself: it lists "),
            }
        }
        let ended = ask(home.path(), "openings");
        assert!([Some(0), Some(3)].contains(&ended.code), "{ended:?}");
    }
    assert!(codes[0] > 10 && codes[2] > 0 && codes[3] > 10, "{codes:?}");
}

#[test]
fn what_a_table_says_of_moves_goes_together() {
    let without_poison = changed(&pair("1")[..1], &[]);
    let lists = |home: &TempDir, line: &str, what: &str| {
        ask(home.path(), line).refuses(3, &["the table contradicts itself: ", what]);
    };
    lists(
        &without_poison,
        "openings",
        "it lists neither 2 nor a position",
    );
    lists(
        &without_poison,
        "query 1",
        "it lists neither 1 nor a position",
    );
    lists(&without_poison, "site", "it lists neither 2 nor a position");
    lists(
        &without_poison,
        "certify 2x2 --move 2,2",
        "it lists 2,1, and after the move (1,2)",
    );
    lists(
        &without_poison,
        "certify 1x9 --move 1,2",
        "it lists neither 1 nor a position",
    );
    let with_2_2 = changed(&[], &pair("2,2")[..1]);
    lists(&with_2_2, "query 3,3", "from 3,3 the moves (1,3) and (2,3)");
    lists(&with_2_2, "oeis several --terms 12", "from 3,3 the moves");
}

/// The manifest of a table of `bits` bits whose shards are those of `base`. Its counts are possible.
fn wide(base: &Manifest, bits: u32) -> Manifest {
    let mut manifest = base.clone();
    (manifest.bits, manifest.positions) = (bits, 1 << (bits - 1));
    manifest.losing = 2 * manifest.stored - u64::from(bits / 2);
    let count = |bits: u32| match base.losing_by_bits.get(bits as usize) {
        Some(&known) => known.min(manifest.losing),
        None => manifest.losing.min(1 << (bits - 2)),
    };
    manifest.losing_by_bits = (0..=bits).map(count).collect();
    let mut fingerprint = DigestBuilder::default();
    for shard in &manifest.shards {
        fingerprint.push(&shard.words_sha256.0);
    }
    manifest.fingerprint = fingerprint.finish();
    manifest.fingerprints_by_bits = vec![manifest.fingerprint; bits as usize + 1];
    manifest
}

/// Gives the table of these bits in `home` another manifest.
fn widen(home: &Path, from: u32, change: impl FnOnce(&mut Manifest), bits: u32) -> PathBuf {
    let folder = home.join(folder_name(from));
    let bytes = fs::read(folder.join("manifest.json")).unwrap();
    let mut base = Manifest::parse(&bytes).unwrap();
    change(&mut base);
    let other = home.join(folder_name(bits));
    fs::rename(folder, &other).unwrap();
    write_manifest(&other, &wide(&base, bits));
    other
}

#[test]
fn a_manifest_of_many_bits_takes_no_memory() {
    for bits in [63, 64] {
        let home = changed(&[], &[]);
        widen(home.path(), BITS, |_| {}, bits);
        let board = format!("certify {0}x{0} --move 2,2", bits / 2);
        ask(home.path(), &board).refuses(2, &["of memory are too few", "a bit for each position"]);
        ask(home.path(), "certify 4x5 --move 3,3").done();
        ask(home.path(), "openings 32x31").refuses(3, &["it lists neither 31,31"]);
        for line in [
            "query 20x40",
            "site",
            "export --format words --both",
            "verify",
        ] {
            let ended = ask(home.path(), line);
            assert!(ended.code.is_some_and(|code| code < 100), "{ended:?}");
        }
    }
}

/// A table of 10^10 words and more has another size for hosts of data sets. Of such a table here is the first shard.
#[test]
fn a_site_says_the_size_of_any_table() {
    let home = finished(28);
    let table = widen(
        home.path(),
        28,
        |manifest| {
            let first = manifest.shards[0].clone();
            let shards = 10_u64.pow(10).div_ceil(first.entries);
            let later = (1..shards).map(|number| {
                let mut shard = first.clone();
                shard.name = shard_name(usize::try_from(number).unwrap());
                shard.first = first.last + number * 4 * first.entries;
                shard.last = shard.first + 2 * first.entries;
                shard
            });
            manifest.shards.extend(later);
            manifest.stored = shards * first.entries;
        },
        48,
    );
    assert!(table.is_dir());
    ask(
        home.path(),
        "site --bits 20 --without-files https://example.org/t",
    )
    .done();
    let card = fs::read_to_string(home.path().join("out/README.md")).unwrap();
    assert!(card.contains("- 10B<n<100B\n"), "{card}");
}

#[test]
fn a_server_with_wrong_words_answers_or_refuses() {
    let [smaller, larger] = pair("3,2");
    for home in [
        changed(&[], &[larger]),
        changed(&[smaller], &[]),
        changed(&[2], &[]),
    ] {
        let server = Server::start(1, home.path(), home.path(), "");
        let ask = |path: &str| get(server.port, path, &[]).status;
        let paths = [
            "openings",
            "openings/3x4",
            "counts",
            "position/7x7",
            "position/1",
            "position/3,2",
            "table",
        ];
        let statuses = paths.map(|path| ask(&format!("/api/{path}")));
        assert!(
            statuses.iter().all(|status| [200, 500].contains(status)),
            "{statuses:?}"
        );
        assert!(statuses.contains(&500), "{statuses:?}");
        let ended = server.process.stop().done();
        ended.says_nothing_of("panicked");
        ended.says("a table cannot be served: ");
    }
}
