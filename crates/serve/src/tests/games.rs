//! The answers about games, against the games themselves, and refusals.

use serde_json::{Value, json};

use super::{Tested, site, start};

/// A site without a table: games need none.
async fn without_a_table() -> (Tested, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let site = site(directory.path()).await;
    (start(site.router()).await, directory)
}

#[tokio::test]
async fn positions_are_answered_as_by_the_games() {
    let (tested, _directory) = without_a_table().await;
    for (game, position) in [
        ("ichomp", "4x4/3,1/2"),
        ("ichomp", "8x8/8x8/1"),
        ("poisons", "3x8@1,1@2,2"),
        ("poisons", "3x200"),
        ("nim", "3,4,5"),
        ("nim", "1,1@misere"),
        ("towers", "1-8,3-5"),
        ("horse", "4,7"),
        ("space", "4,4,2/3,1"),
        ("space", "3x4x4"),
        ("divisors", "360/12,30"),
        // The largest random start of the page.
        ("divisors", "1008"),
        ("crossed", "8x8@2,3"),
        ("transfinite", "w,w,3"),
    ] {
        let escaped = position.replace('/', "%2F");
        let answer = tested.get(&format!("/api/games/{game}/{escaped}")).await;
        assert_eq!(answer.status, 200, "{game} {position}: {answer:?}");
        let expected = chomp_games::answer(game, position).unwrap();
        assert_eq!(answer.json(), serde_json::to_value(expected).unwrap());
    }
    let games = tested.get("/api/games").await.json();
    let games = games.as_array().unwrap();
    let names: Vec<&Value> = games.iter().map(|game| &game["name"]).collect();
    assert_eq!(names, chomp_games::NAMES);
    for game in games {
        let rules = game["rules"].as_str().unwrap();
        assert_eq!(rules.matches(['.', '?']).count(), 5, "{rules}");
        assert!(!rules.contains(['<', '>', '&', '{']), "it stands in a page");
    }
}

#[tokio::test]
async fn lists_and_pictures_are_those_of_the_games() {
    let (tested, _directory) = without_a_table().await;
    for (game, text, size, rules) in [
        ("ichomp", "6", 6, ""),
        ("poisons", "9@1,2@2,1", 9, "1,2@2,1"),
        ("nim", "8@misere", 8, "misere"),
        ("towers", "2", 2, ""),
        ("horse", "8", 8, ""),
        ("space", "3", 3, ""),
        ("divisors", "360", 360, ""),
        ("crossed", "8@2,3", 8, "2,3"),
        ("transfinite", "30", 30, ""),
    ] {
        let list = tested
            .get(&format!("/api/games/{game}/losing/{text}"))
            .await;
        let losing = chomp_games::open(game, rules).unwrap().list(size).unwrap();
        let expected =
            json!({"game": game, "rules": rules, "size": size, "fixed": null, "losing": losing});
        assert_eq!(list.json(), expected);
    }
    // Plain Chomp of two rows loses by one cell.
    let picture = tested.get("/api/games/poisons/picture/3=0/10").await.json();
    let expected: Vec<[u32; 2]> = (1..=10).map(|length| [length, length - 1]).collect();
    assert_eq!(picture["losing"], json!(expected));
    assert_eq!(picture["fixed"], "3=0");
}

#[tokio::test]
async fn what_is_wrong_or_too_large_is_refused_with_the_reason() {
    let (tested, _directory) = without_a_table().await;
    let long = format!("nim/{}", "1,".repeat(200));
    let heaps = format!("nim/{}", vec!["1000"; 32].join(","));
    let cases = [
        ("chess/1", 400, "a game"),
        ("nim/x", 400, "heaps, as 3,4,5"),
        ("nim/%ff", 400, "not UTF-8"),
        ("nim/3@chess", 400, "@misere"),
        ("horse/101,1", 400, "from 1 to 100"),
        ("towers/1-1", 400, "1-8,3-5"),
        ("ichomp/1%2F1%2F1%2F1%2F1", 400, "at most four boards"),
        ("ichomp/10x10", 400, "1048576 moves"),
        ("ichomp/16x16", 400, "1048576 moves"),
        ("poisons/10x10", 400, "1048576 moves"),
        ("transfinite/w,90,9,9", 400, "256 cells"),
        ("transfinite/16xw", 400, "1048576 moves"),
        ("transfinite/losing/31", 400, "30 cells"),
        ("poisons/4x4@0,1", 400, "@1,1@2,2"),
        ("space/4x4x4", 400, "1048576 moves"),
        ("divisors/720720", 400, "128 divisors"),
        ("crossed/4x4@1,1", 400, "not @1,1"),
        (&heaps, 400, "3000 moves"),
        (&long, 414, "256 characters"),
        ("nim/losing/41", 400, "40 counters"),
        ("nim/losing/-1", 400, "is no size"),
        ("nim/losing/4294967296", 400, "is no size"),
        ("nim/losing/%2B4", 400, "is no size"),
        ("ichomp/losing/17", 400, "16 cells"),
        ("space/losing/5", 400, "4 rows, columns and layers"),
        ("space/losing/4", 400, "1048576 moves"),
        ("poisons/losing/301", 400, "300 columns"),
        ("poisons/picture/1=5/301", 400, "300 columns"),
        ("poisons/picture/4=1/10", 400, "1=50"),
        ("poisons/picture/1=11/10", 400, "1=50"),
        ("nim/picture/1=1/10", 400, "poisons only"),
        ("nim/1/2", 404, "nothing here"),
    ];
    tested.refuses("/api/games/", &cases).await;
}
