//! The working files of versions before.

use super::*;
use crate::envelope::{ObjectKind, Writer};

fn with(names: &[&str]) -> Arc<SimulatedStorage> {
    let storage = SimulatedStorage::new(1);
    for name in names {
        storage.overwrite(&Key::new(name).unwrap(), "old");
    }
    Arc::new(storage)
}

#[test]
fn an_unfinished_job_is_refused() {
    let part = "work/parts/0003/0000000000000003-0000000001";
    let storage = with(&["work/job", "work/epochs/0000000000", part]);
    for error in [
        ready(open(&storage)).unwrap_err(),
        ready(look(&*storage)).unwrap_err(),
    ] {
        let expected = format!("{part} belongs to an unfinished job of an older chomp");
        let older = matches!(&error, StoreError::Refused(what) if what.starts_with(&expected));
        assert!(older, "{error:?}");
    }
    assert_eq!(storage.objects().len(), 3, "nothing is added");
}

#[test]
fn what_a_finished_one_leaves_is_let_alone() {
    let storage = with(&[
        "work/job",
        "work/epochs/0000000000",
        "table-20/manifest.json",
    ]);
    assert_eq!(ready(look(&*storage)).unwrap(), None);
    assert_eq!(ready(open(&storage)).unwrap().epoch(), 0);
    let part = PartName { layer: 3, lease: 1 }.key();
    storage.overwrite(&part, "part");
    assert_eq!(ready(open(&storage)).unwrap().epoch(), 1);
}

/// The first segment of an older journal: ranges 0 and 1 are done, and a shard. From version 3 on two have found them,
/// of whom one is quarantined; and then the coordinator found range 1 too.
fn segment(version: u32) -> Bytes {
    let mut writer = Writer::new(ObjectKind { version, ..SEGMENT });
    writer.u64(0).digest(&Digest([0; 32]));
    writer.u64(TABLE).u32(range_bits().get());
    writer.u32(1).u64(7).u32(BITS);
    let (ranges, shard) = if version == 2 { (2, 4) } else { (6, 7) };
    let finders = |writer: &mut Writer| {
        if version > 2 {
            writer.u32(2).u32(1).u32(5);
        }
    };
    for head in 0..2 {
        let Placed {
            summary,
            offset,
            length,
        } = placed(Head(head), 5 + head);
        writer.u32(ranges).u64(5 + head).u32(2);
        finders(&mut writer);
        writer.u32(1);
        writer.u64(head).u64(summary.count).u64(summary.stored);
        writer.digest(&summary.digest).u32(offset).u32(length);
    }
    let text = serde_json::to_vec(&merged(0)).unwrap();
    let length = u32::try_from(text.len()).unwrap();
    writer.u32(shard).u32(BITS);
    finders(&mut writer);
    writer.u32(length).bytes(&text);
    if version > 2 {
        writer.u32(9).u32(5).u32(12).u32(4).bytes(b"lied");
        writer.u32(8).u32(1).u64(1);
    }
    writer.finish().0.into()
}

#[test]
fn journals_of_the_versions_before_are_read() {
    for version in [2, 3] {
        let storage = Arc::new(SimulatedStorage::new(1));
        storage.overwrite(&keys::segment(0), segment(version));
        let journal = ready(open(&storage)).unwrap();
        let mut expected = Plain::default();
        let doubted = if version == 2 {
            vec![]
        } else {
            vec![1, QUARANTINED]
        };
        for (head, finders) in [(0, doubted.clone()), (1, vec![])] {
            let place = (5 + head, 2, finders, placed(Head(head), 5 + head));
            expected.ranges.insert(Head(head), place);
        }
        expected.shards.push((BITS, doubted, merged(0)));
        if version > 2 {
            let (serial, reason) = (12, "lied".to_owned());
            expected
                .quarantined
                .insert(5, Quarantine { serial, reason });
        }
        assert_eq!(Plain::found(&journal.ledger()), expected);
        // The segments after it are of this version.
        let finders = Finders::new([3]);
        let heads = vec![Head(0)];
        let entries = vec![quarantined(1), Entry::Confirmed { finders, heads }];
        ready(journal.append(entries)).unwrap();
        let again = looked(&storage);
        assert_eq!(again, *journal.ledger());
        assert!(again.quarantined().any(|(number, _)| number == 1));
    }
}
