//! The working files of chomp 0.1.

use super::*;

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
        let older = matches!(&error, StoreError::Older { key } if key.as_str() == part);
        assert!(
            older && error.to_string().contains("finish the job with that one"),
            "{error}"
        );
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
