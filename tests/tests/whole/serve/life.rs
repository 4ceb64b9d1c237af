//! Changes of a table while it is served.

use std::fs;

use super::{Served, home};
use crate::common::cluster::wait_for;

#[test]
fn bytes_that_change_under_it_give_errors_and_no_answers() {
    // No more than one frame stays in memory.
    let served = Served::of(home(24), "--cache 0");
    let table = served.table();
    let paths = ["12x12", "5,4,2,1", "3x20", "22,1"].map(|text| format!("/api/position/{text}"));
    let honest: Vec<_> = paths.iter().map(|path| served.get(path).body).collect();
    let shard = table.join("table-24/shard-0000.zst");
    let whole = fs::read(&shard).unwrap();
    fs::write(&shard, vec![0; whole.len()]).unwrap();
    let answers: Vec<_> = paths.iter().map(|path| served.get(path)).collect();
    assert!(answers.iter().any(|answer| answer.status == 500));
    for (answer, honest) in answers.iter().zip(&honest) {
        assert!(answer.status == 500 || answer.body == *honest, "{answer:?}");
    }
    fs::write(&shard, &whole).unwrap();
    assert_eq!(served.get(&paths[0]).body, honest[0]);
    // The owner is told where.
    let said = served.server.process.said();
    assert!(said.contains("shard-0000.zst is damaged"), "{said}");
    fs::remove_dir_all(table.join("table-24")).unwrap();
    wait_for("its end", || served.get("/api/table").status == 503);
}
