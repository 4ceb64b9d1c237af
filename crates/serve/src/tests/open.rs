//! The rules of all open routes, and the pages.

use std::collections::BTreeSet;

use chomp_testing::waiting::becomes;

use super::{Answer, patient, site, start_with, with_table};
use crate::net::Limits;
use crate::net::PROXY;
use crate::net::limits::ANSWER_UNIT_BYTES;
use crate::pages::{FILES, PAGES};

const PAGE: (&str, &str) = (
    "accept",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
);

/// A path for each route, by the type of what it answers with.
const PATHS: [(&str, &str); 4] = [
    (
        "application/json",
        "/ /api/table /api/counts /api/position/5,4,2,1 /api/depth/5,4,2,1 /api/openings /api/openings/3x5 \
         /api/games /api/games/nim/3,4,5 /api/games/nim/losing/4 /api/games/poisons/picture/1=5/9 \
         /api/status /openapi.json",
    ),
    (
        "text/html; charset=utf-8",
        "/table-14/ /bite /play /explore /games /games/nim /job",
    ),
    ("text/plain; charset=utf-8", "/table-14/SHA256SUMS"),
    ("text/css; charset=utf-8", "/assets/style.css"),
];

/// Pages of others may read answers and tables.
#[tokio::test]
async fn get_and_head_agree_and_nothing_else_is_done() {
    let (tested, _directory, _) = with_table().await;
    let unknown = ("application/json", "/nothing/at/all");
    let paths = PATHS.into_iter().chain([unknown]);
    let paths = paths.flat_map(|(kind, paths)| paths.split(' ').map(move |path| (kind, path)));
    for (kind, path) in paths {
        if path == "/api/counts" {
            // It changes while it is counted.
            while tested.get(path).await.json()["losing_by_area"].is_null() {}
        }
        let ask = async |method| {
            let origin = ("origin", "https://a.example");
            tested.ask(method, path, &[origin]).await
        };
        let (get, head, options) = (ask("GET").await, ask("HEAD").await, ask("OPTIONS").await);
        let status = if path == unknown.1 { 404 } else { 200 };
        assert_eq!(
            [get.status, head.status, options.status],
            [status, status, 204],
            "{path}"
        );
        assert_eq!(get.header("content-type"), kind, "{path}");
        assert_eq!(get.header("x-content-type-options"), "nosniff", "{path}");
        let length = get.body.len().to_string();
        assert_eq!(get.header("content-length"), length, "{path}");
        assert!(!get.header("cache-control").is_empty(), "{path}");
        assert_eq!(head.body.len(), 0, "{path}");
        let but_date = |answer: &Answer| {
            let mut headers = answer.headers.clone();
            headers.remove("date");
            headers
        };
        assert_eq!(but_date(&get), but_date(&head), "{path}");
        let mut answers = vec![get, head, options];
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
            let answer = ask(method).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(answer.header("allow"), "GET, HEAD, OPTIONS", "{path}");
            assert!(answer.error().contains(method), "{method} {path}");
            answers.push(answer);
        }
        let answers_or_tables = kind == "application/json" || path.starts_with("/table");
        let shared = answers_or_tables && path != unknown.1;
        for answer in answers {
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed, if shared { "*" } else { "" }, "{path}");
            assert_eq!(answer.header("access-control-allow-credentials"), "");
        }
    }
    let missing = tested.get("/api/position/no").await;
    assert_eq!(missing.status, 400);
    assert_eq!(missing.header("access-control-allow-origin"), "*");
}

#[tokio::test]
async fn pages_may_load_nothing_from_elsewhere() {
    let (tested, _directory, _) = with_table().await;
    let paths = "/ /table-14/ /bite /play /explore /games /games/horse /job /assets/style.css /assets/api.js";
    for path in paths.split(' ') {
        let answer = tested.ask("GET", path, &[PAGE]).await;
        assert_eq!(answer.status, 200, "{path}");
        assert_eq!(
            answer.header("content-security-policy"),
            "default-src 'self'; frame-ancestors 'none'; base-uri 'none'; form-action 'none'"
        );
        assert_eq!(answer.header("x-frame-options"), "DENY");
        assert_eq!(answer.header("referrer-policy"), "no-referrer");
        assert_eq!(answer.header("cache-control"), "no-cache");
        let etag = answer.header("etag").to_owned();
        assert_eq!(etag.len(), 66, "{etag}");
        let headers = [PAGE, ("if-none-match", &etag)];
        let known = tested.ask("GET", path, &headers).await;
        assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
        assert_eq!(known.header("etag"), etag);
    }
    // At the root, people get a page and programs the list.
    let page = tested.ask("GET", "/", &[PAGE]).await;
    assert_eq!(page.body, tested.get("/bite").await.body);
    let list = tested.ask("GET", "/", &[("accept", "*/*")]).await;
    assert_eq!(list.json()[0]["bits"], 14);
    assert_eq!([page.header("vary"), list.header("vary")], ["accept"; 2]);
    let none = "/assets/ /assets/nothing.js /assets/STYLE.css /assets/style%2ecss /assets/..%2fplay.html \
                /assets/play.html /play.html /play/ /bite/";
    for path in none.split(' ') {
        assert_eq!(tested.get(path).await.status, 404, "{path}");
    }
}

/// The memory of an answer is free again when it is taken.
#[tokio::test]
async fn answers_that_are_too_many_are_told_to_come_back() {
    let site = site("/nowhere".as_ref()).await;
    let style = FILES.iter().find(|(path, ..)| *path == "/assets/style.css");
    let units = style.unwrap().2.len() / ANSWER_UNIT_BYTES as usize;
    assert!(units > 0);
    let limits = Limits {
        answer_units: 2 * units + 2,
        ..patient()
    };
    let tested = start_with(site.router(), limits, None).await;
    let (_, other) = tested.permits.take(PROXY).unwrap();
    let is_free = || other.take(2 * units + 2).is_some();
    for _ in 0..3 {
        becomes("free memory", is_free).await;
        assert_eq!(tested.get("/assets/style.css").await.status, 200);
    }
    becomes("free memory", is_free).await;
    let _others = other.take(units).unwrap();
    let beyond = tested.get("/assets/style.css").await;
    assert_eq!((beyond.status, beyond.header("retry-after")), (503, "1"));
    let part = ("range", "bytes=0-9");
    let part = tested.ask("GET", "/assets/style.css", &[part]).await;
    assert_eq!((part.status, part.body.len()), (206, 10));
    assert_eq!(tested.get("/").await.status, 200);
}

/// All files that pages name are there.
#[tokio::test]
async fn pages_find_their_files() {
    let (tested, _directory, _) = with_table().await;
    let mut paths: Vec<String> = PAGES.map(|page| page.path.to_owned()).to_vec();
    let mut seen = BTreeSet::new();
    while let Some(path) = paths.pop() {
        if !seen.insert(path.clone()) {
            continue;
        }
        let answer = tested.get(&path).await;
        assert_eq!(answer.status, 200, "{path}");
        let text = String::from_utf8_lossy(&answer.body);
        // Inline scripts and styles would not be run.
        assert!(
            !text.contains("<style") && !text.contains(" style="),
            "{path}"
        );
        assert!(!text.contains("<script>"), "{path}");
        // Pages may live below any path, so they name files from where they are.
        for quoted in text.split(['"', '\'']) {
            let beside = quoted.strip_prefix("./");
            let beside = beside.filter(|_| path.starts_with("/assets/"));
            let below = quoted.trim_start_matches("../").strip_prefix("assets/");
            paths.extend(beside.or(below).map(|name| format!("/assets/{name}")));
        }
    }
    assert_eq!(seen.len(), FILES.len() + PAGES.len(), "{seen:?}");
}
