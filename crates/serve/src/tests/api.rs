//! The answers of the API, against the definition of W and the answers of a query.

use std::fs;
use std::time::Duration;

use chomp_table::{Position, Table, Word};
use chomp_testing::definition;
use chomp_testing::values;
use chomp_testing::waiting::arrives;
use serde_json::{Value, json};

use super::{Tested, publish, put, site, start, with_table};

const BITS: u32 = 14;

impl Tested {
    async fn position(&self, text: &str) -> Value {
        let answer = self.get(&format!("/api/position/{text}")).await;
        assert_eq!(answer.status, 200, "{text}: {answer:?}");
        answer.json()
    }
}

#[tokio::test]
async fn positions_and_openings_are_those_of_the_table() {
    let (tested, _directory, folder) = with_table().await;
    let table = Table::open(&folder).unwrap();
    let losing = definition::losing(BITS);
    for index in (0..losing.len()).step_by(13) {
        let word = Word::new(index as u64 * 2);
        let position = Position::from(word);
        let expected = json!(chomp_query::answer(&table, &position).unwrap());
        assert_eq!(expected["losing"], losing[index]);
        for text in [position.to_string(), format!("{:#b}", word.get())] {
            assert_eq!(tested.position(&text).await, expected, "{text}");
        }
    }
    // Escapes of what needs none, as browsers make them.
    let escaped = tested.position("5%2C4%2c2%2C1").await;
    assert_eq!(escaped, tested.position("5,4,2,1").await);
    assert_eq!(tested.position("2x3").await["rows"], json!([3, 3]));

    let list = tested.get("/api/openings").await.json();
    assert_eq!(list, json!(chomp_query::openings(&table).unwrap()));
    for (rows, columns) in [(1, 1), (3, 5), (5, 3), (7, 7), (13, 1)] {
        let found = tested.get(&format!("/api/openings/{rows}x{columns}")).await;
        let position = tested.position(&format!("{rows}x{columns}")).await;
        let moves = &position["winning_moves"];
        let expected = json!({"rows": rows, "columns": columns, "moves": moves});
        assert_eq!(found.json(), expected);
    }
}

/// With and without a table.
#[tokio::test]
async fn positions_beyond_the_table_are_solved() {
    let (with_table, _directory, _) = with_table().await;
    let directory = tempfile::tempdir().unwrap();
    let without = start(site(directory.path()).await.router()).await;
    for tested in [&with_table, &without] {
        for (text, moves) in [
            ("8x10", json!([[4, 9], [5, 6]])),
            ("10*8", json!([[6, 5], [9, 4]])),
            ("70x2", json!([[70, 2]])),
            ("3000,2999", json!([])),
            ("(40^2)", json!([[2, 40]])),
            ("58x2", json!([[58, 2]])),
            ("3+1", json!([[1, 3]])),
        ] {
            let answer = tested.position(text).await;
            assert_eq!(answer["winning_moves"], moves, "{text}");
            assert_eq!(answer["losing"], moves == json!([]), "{text}");
            let is_small = answer["bits"].as_u64() <= Some(53);
            assert_eq!(answer["word"].is_u64(), is_small, "{text}");
        }
        assert_eq!(
            tested.position("5,4,2,1").await,
            with_table.position("5,4,2,1").await
        );
    }
}

#[tokio::test]
async fn counts_are_those_of_the_definition() {
    let (tested, _directory, folder) = with_table().await;
    let counts = loop {
        let counts = tested.get("/api/counts").await.json();
        if !counts["losing_by_area"].is_null() {
            break counts;
        }
        assert!(counts["counted"].as_u64() <= counts["stored"].as_u64());
    };
    let losing = definition::losing(BITS);
    let words = (0..losing.len()).filter(|&index| losing[index]);
    let mut by_area = vec![0; 64];
    for index in words {
        by_area[Word::new(index as u64 * 2).area() as usize] += 1;
    }
    let largest = by_area.iter().rposition(|&count| count > 0).unwrap();
    by_area.truncate(largest + 1);
    let stored = Table::open(&folder).unwrap().manifest().stored;
    let expected = json!({
        "counted": stored, "stored": stored, "complete_to": BITS - 1, "losing_by_area": by_area,
    });
    assert_eq!(counts, expected);
    // A112470 of the OEIS, as far as this table is complete.
    let known = [0, 1, 0, 1, 0, 3, 0, 3, 2, 5, 2, 3, 10, 9];
    assert_eq!(by_area[..known.len()], known);
}

#[tokio::test]
async fn what_is_no_position_is_refused_with_the_reason() {
    let (tested, _directory, _) = with_table().await;
    let long = format!("position/{}", "1,".repeat(200));
    let cases = [
        ("position/5,6", 400, "longest first"),
        ("position/x", 400, "not a position"),
        ("position/%20", 400, "not a position"),
        ("position/%ff", 400, "not UTF-8"),
        ("position/5%002", 400, "not a position"),
        ("position/4294967295x4294967295", 400, "at most 64"),
        ("position/60x60", 400, "at most 64"),
        ("position/20x15", 400, "the position has 35 bits"),
        ("position/20x15", 400, "the table covers 14"),
        ("position/20x15", 400, "positions inside"),
        ("position/5x10000", 400, "sets of rows"),
        (&long, 414, "256 characters"),
        ("openings/8x7", 400, "the table covers 14"),
        ("openings/4294967295x4294967295", 400, "the table covers 14"),
        ("position/", 404, "nothing here"),
        ("position/1/2", 404, "nothing here"),
        ("", 404, "nothing here"),
        ("nothing", 404, "nothing here"),
    ];
    tested.refuses("/api/", &cases).await;
    for text in "x 7 8x x8 0x7 0x8 8x0 8x8x8 +8x8 8X8 %208x8 8x-1 4294967296x1".split(' ') {
        tested
            .refuses("/api/openings/", &[(text, 400, "no board")])
            .await;
    }
}

/// The answer, as soon as a field of it has this value.
async fn until(tested: &Tested, path: &str, name: &str, value: u32) -> Value {
    let found = async {
        loop {
            let answer = tested.get(path).await.json();
            if answer[name] == value {
                return answer;
            }
            tokio::time::sleep(Duration::from_millis(50)).await;
        }
    };
    arrives("another table", found).await
}

#[tokio::test]
async fn the_table_of_the_most_bits_answers_when_it_is_there() {
    let directory = tempfile::tempdir().unwrap();
    let tested = start(site(directory.path()).await.router()).await;
    assert_eq!(tested.get("/healthz").await.status, 200);
    let paths = "/readyz /api/table /api/counts /api/position/20x15 /api/openings /api/openings/1x1 /api/status /api/value/2";
    for path in paths.split(' ') {
        let answer = tested.get(path).await;
        assert_eq!(answer.status, 503, "{path}");
        assert!(!answer.header("retry-after").is_empty(), "{path}");
        answer.error();
    }
    for (bits, most) in [(8, 8), (12, 12), (10, 12)] {
        publish(directory.path(), bits);
        let answer = until(&tested, "/api/table", "bits", most).await;
        let folder = format!("table-{most:02}");
        let manifest = fs::read(directory.path().join(&folder).join("manifest.json")).unwrap();
        let manifest: Value = serde_json::from_slice(&manifest).unwrap();
        for (name, value) in answer.as_object().unwrap() {
            let expected = if name == "path" {
                json!(format!("/{folder}/"))
            } else {
                manifest[name].clone()
            };
            assert_eq!(*value, expected, "{name}");
        }
        assert_eq!(tested.position("4x4").await["losing"], false);
        assert_eq!(tested.get("/readyz").await.status, 200);
    }
    // Without its manifest a table is none, and the next one answers.
    fs::remove_file(directory.path().join("table-12/manifest.json")).unwrap();
    until(&tested, "/api/table", "bits", 10).await;
    assert_eq!(tested.get("/api/position/20x20").await.status, 400);
    values::publish(directory.path(), values::SMALL, &values::areas(10));
    until(&tested, "/api/value/2", "value", 1).await;
}

#[tokio::test]
async fn damage_gives_an_error_and_nothing_else() {
    let directory = tempfile::tempdir().unwrap();
    let folder = publish(directory.path(), BITS);
    let table = Table::open(&folder).unwrap();
    let expected = ["7x7", "1x13", "3,1,1", "5,4,2,1"].map(|text| {
        let position = text.parse().unwrap();
        (text, json!(chomp_query::answer(&table, &position).unwrap()))
    });
    for name in ["shard-0000.zst", "shard-0001.zst"] {
        let path = folder.join(name);
        let good = fs::read(&path).unwrap();
        for at in (0..good.len()).step_by(good.len() / 40 + 1) {
            let mut bad = good.clone();
            bad[at] ^= 0x10;
            put(&path, &bad);
            let tested = start(site(directory.path()).await.router()).await;
            let mut damaged = 0;
            for (text, expected) in &expected {
                let answer = tested.get(&format!("/api/position/{text}")).await;
                if answer.status == 500 {
                    assert_eq!(answer.error(), "the table is damaged here: tell its owner");
                    damaged += 1;
                } else {
                    assert_eq!(answer.json(), *expected, "{name} {at} {text}");
                }
            }
            let list = tested.get("/api/openings").await;
            assert!([200, 500].contains(&list.status));
            assert!(damaged == 0 || list.status == 500, "{name} {at}");
        }
        put(&path, &good);
    }
    let manifest = folder.join("manifest.json");
    put(&manifest, b"{}");
    let tested = start(site(directory.path()).await.router()).await;
    for path in ["table", "counts", "position/1", "openings"] {
        let answer = tested.get(&format!("/api/{path}")).await;
        assert_eq!(answer.status, 500);
        assert!(answer.error().contains("damaged"));
    }
}
