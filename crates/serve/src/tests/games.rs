//! The answers about games, against the games themselves, and refusals.

use std::time::Duration;

use chomp_games::Effort;
use serde_json::{Value, json};

use super::{Tested, site, start};
use crate::question_threads::QuestionLimits;
use crate::site::{Site, SiteOptions};

/// A site without a table: games need none.
async fn without_a_table() -> (Tested, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let site = site(directory.path()).await;
    (start(site.router()).await, directory)
}

/// Long computations end when their time is over.
#[tokio::test]
async fn questions_without_time_are_refused() {
    let directory = tempfile::tempdir().unwrap();
    let options = SiteOptions {
        question_limits: QuestionLimits {
            time: Duration::ZERO,
            yields: false,
        },
        directory: directory.path().to_owned(),
        cache_bytes: 0,
    };
    let tested = start(Site::open(options).await.router()).await;
    for path in [
        "depth/8x8",
        "position/10x10",
        "position/4x100",
        "games/poisons/6x6",
        "games/poisons/3x100@2,2",
        "games/poisons/losing/100",
        "games/poisons/picture/1=50/60",
        "games/ichomp/6x6",
        "games/space/losing/3",
        "games/transfinite/6x6",
    ] {
        let answer = tested.get(&format!("/api/{path}")).await;
        assert_eq!(answer.status, 400, "{path}");
        assert_eq!(answer.error(), "this takes too much time here", "{path}");
    }
    assert_eq!(tested.get("/api/depth/3x4").await.status, 200);
}

#[tokio::test]
async fn answers_are_those_of_the_games() {
    let (tested, _directory) = without_a_table().await;
    for (game, position, size, rules) in [
        ("ichomp", "4x4/3,1/2", 6, ""),
        ("poisons", "3x8@1,2@2,1", 9, "1,2@2,1"),
        ("nim", "1,1@misere", 8, "misere"),
        ("towers", "1-8,3-5", 2, ""),
        ("horse", "4,7", 8, ""),
        ("space", "4,4,2/3,1", 3, ""),
        // The largest random start of the page.
        ("divisors", "1008", 360, ""),
        ("crossed", "8x8@2,3", 8, "2,3"),
        ("transfinite", "w,w,3", 30, ""),
    ] {
        let path = format!("/api/games/{game}/{}", position.replace('/', "%2F"));
        let open = |rules| chomp_games::open(game, rules, Effort::USUAL).unwrap();
        let (start, of_position) = position.split_once('@').unwrap_or((position, ""));
        let expected = open(of_position).answer(start).unwrap();
        let answer = tested.get(&path).await.json();
        assert_eq!(answer, serde_json::to_value(expected).unwrap());

        let at = if rules.is_empty() { "" } else { "@" };
        let path = format!("/api/games/{game}/losing/{size}{at}{rules}");
        let losing = open(rules).list(size).unwrap();
        let expected =
            json!({"game": game, "rules": rules, "size": size, "fixed": null, "losing": losing});
        assert_eq!(tested.get(&path).await.json(), expected);
    }
    // Plain Chomp of two rows loses by one cell.
    let picture = tested.get("/api/games/poisons/picture/3=0/10").await.json();
    let expected: Vec<[u32; 2]> = (1..=10).map(|length| [length, length - 1]).collect();
    assert_eq!(picture["losing"], json!(expected));
    assert_eq!(picture["fixed"], "3=0");

    let games = tested.get("/api/games").await.json();
    let games = games.as_array().unwrap();
    let names: Vec<&Value> = games.iter().map(|game| &game["name"]).collect();
    assert_eq!(names, chomp_games::NAMES);
    for game in games {
        let rules = game["rules"].as_str().unwrap();
        assert!(!rules.contains(['<', '>', '&', '{']), "it stands in a page");
    }
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
        ("ichomp/16x16", 400, "1048576 moves"),
        ("poisons/10x10", 400, "1048576 moves"),
        ("transfinite/16xw", 400, "1048576 moves"),
        ("space/4x4x4", 400, "1048576 moves"),
        (&heaps, 400, "3000 moves"),
        (&long, 414, "256 characters"),
        ("nim/losing/41", 400, "40 counters"),
        ("nim/losing/-1", 400, "is no size"),
        ("nim/losing/4294967296", 400, "is no size"),
        ("nim/losing/%2B4", 400, "is no size"),
        ("space/losing/4", 400, "1048576 moves"),
        ("poisons/losing/301", 400, "300 columns"),
        ("poisons/picture/1=5/301", 400, "300 columns"),
        ("poisons/picture/1=11/10", 400, "1=50"),
        ("nim/picture/1=1/10", 400, "poisons only"),
        ("nim/1/2", 404, "nothing here"),
    ];
    tested.refuses("/api/games/", &cases).await;
}
