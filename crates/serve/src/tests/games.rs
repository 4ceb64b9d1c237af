//! The answers about games, against the games themselves, and refusals.

use std::num::NonZeroU32;

use serde_json::{Value, json};

use super::{Tested, start};
use crate::site::{Site, SiteOptions};

/// A site without a table: games need none.
async fn without_a_table(rate: u32) -> (Tested, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    let site = Site::open(SiteOptions {
        directory: directory.path().to_owned(),
        rate: NonZeroU32::new(rate),
        proxies: Vec::new(),
        cache_bytes: 0,
    });
    (start(site.await.router()).await, directory)
}

#[tokio::test]
async fn positions_are_answered_as_by_the_games() {
    let (tested, _directory) = without_a_table(0).await;
    for (game, position) in [
        ("ichomp", "4x4/3,1/2"),
        ("ichomp", "8x8/8x8/1"),
        ("poisons", "3x8@1,1@2,2"),
        ("poisons", "3x200"),
        ("nim", "3,4,5"),
        ("nim", "1,1@misere"),
        ("towers", "1-8,3-5"),
        ("horse", "4,7"),
    ] {
        let escaped = position.replace('/', "%2F");
        let answer = tested.get(&format!("/api/games/{game}/{escaped}")).await;
        assert_eq!(answer.status, 200, "{game} {position}: {answer:?}");
        let expected = chomp_games::answer(game, position).unwrap();
        assert_eq!(answer.json(), serde_json::to_value(expected).unwrap());
    }
    let games = tested.get("/api/games").await.json();
    let names: Vec<&Value> = games
        .as_array()
        .unwrap()
        .iter()
        .map(|game| &game["name"])
        .collect();
    assert_eq!(names, chomp_games::NAMES);
    for game in games.as_array().unwrap() {
        let rules = game["rules"].as_str().unwrap();
        assert_eq!(rules.matches(['.', '?']).count(), 5, "{rules}");
        assert!(!rules.contains(['<', '>', '&', '{']), "it stands in a page");
    }
}

#[tokio::test]
async fn lists_and_pictures_are_those_of_the_games() {
    let (tested, _directory) = without_a_table(0).await;
    for (game, size, rules) in [
        ("ichomp", 6, ""),
        ("poisons", 9, "1,2@2,1"),
        ("nim", 8, "misere"),
        ("towers", 2, ""),
        ("horse", 8, ""),
    ] {
        let text = if rules.is_empty() {
            size.to_string()
        } else {
            format!("{size}@{rules}")
        };
        let list = tested
            .get(&format!("/api/games/{game}/losing/{text}"))
            .await
            .json();
        let losing = chomp_games::open(game, rules).unwrap().list(size).unwrap();
        let expected =
            json!({"game": game, "rules": rules, "size": size, "fixed": null, "losing": losing});
        assert_eq!(list, expected);
    }
    // Plain Chomp of two rows loses by one cell.
    let picture = tested.get("/api/games/poisons/picture/3=0/10").await.json();
    let expected: Vec<[u32; 2]> = (1..=10).map(|length| [length, length - 1]).collect();
    assert_eq!(
        (&picture["losing"], &picture["fixed"]),
        (&json!(expected), &json!("3=0"))
    );
}

#[tokio::test]
async fn what_is_wrong_or_too_large_is_refused_with_the_reason() {
    let (tested, _directory) = without_a_table(0).await;
    let long = "1,".repeat(200);
    let heaps = vec!["1000"; 32].join(",");
    for (path, status, reason) in [
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
        ("poisons/4x4@0,1", 400, "@1,1@2,2"),
        (&format!("nim/{heaps}"), 400, "3000 moves"),
        (&format!("nim/{long}"), 414, "256 characters"),
        ("nim/losing/41", 400, "40 counters"),
        ("nim/losing/-1", 400, "is no size"),
        ("nim/losing/4294967296", 400, "is no size"),
        ("nim/losing/%2B4", 400, "is no size"),
        ("ichomp/losing/17", 400, "16 cells"),
        ("poisons/losing/301", 400, "300 columns"),
        ("poisons/picture/1=5/301", 400, "300 columns"),
        ("poisons/picture/4=1/10", 400, "1=50"),
        ("poisons/picture/1=11/10", 400, "1=50"),
        ("nim/picture/1=1/10", 400, "poisons only"),
        ("nim/1/2", 404, "nothing here"),
    ] {
        let answer = tested.get(&format!("/api/games/{path}")).await;
        assert_eq!(answer.status, status, "{path}");
        let error = answer.error();
        assert!(error.contains(reason), "{path}: {error}");
    }
}

/// Questions that occupy the thread longer are let in less often, also if they are refused.
#[tokio::test]
async fn games_are_charged_by_the_time_they_take() {
    let (tested, _directory) = without_a_table(50).await;
    let let_in = async |number: u8, path: &str| {
        let mut count = 0;
        while tested.get_from(number, path).await.status != 429 {
            count += 1;
            assert!(count < 1000, "{path} has no rate");
        }
        count
    };
    let small = let_in(2, "/api/games/horse/4,7").await;
    let large = let_in(3, "/api/games/ichomp/8x8").await;
    let refused = let_in(4, "/api/games/ichomp/16x16").await;
    assert!(small >= 50, "{small}");
    assert!(
        large * 3 < small && refused * 3 < small,
        "{large} {refused} {small}"
    );
}
