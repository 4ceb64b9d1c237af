//! The rules of all open routes, and the pages.

use std::collections::BTreeSet;

use http::HeaderValue;
use http::header::ACCEPT;

use super::{
    Answer, answered, let_in, limited, publish, publish_in_frames, request_from, with_table,
};
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
        "/table-14/ /play /explore /games /games/nim /job",
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
    let paths =
        "/ /table-14/ /play /explore /games /games/horse /job /assets/style.css /assets/api.js";
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
    assert_eq!(page.body, tested.get("/play").await.body);
    let list = tested.ask("GET", "/", &[("accept", "*/*")]).await;
    assert_eq!(list.json()[0]["bits"], 14);
    assert_eq!([page.header("vary"), list.header("vary")], ["accept"; 2]);
    let none = "/assets/ /assets/nothing.js /assets/STYLE.css /assets/style%2ecss /assets/..%2fplay.html \
                /assets/play.html /play.html /play/";
    for path in none.split(' ') {
        assert_eq!(tested.get(path).await.status, 404, "{path}");
    }
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
        let text = String::from_utf8(answer.body).unwrap();
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

#[tokio::test(start_paused = true)]
async fn who_asks_too_often_has_to_wait() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 8);
    let router = limited(directory.path(), 5).await.router();
    let paths = "/api/table /play /nothing/at/all /table-08/SHA256SUMS".split(' ');
    for (number, path) in (1..).zip(paths) {
        let (count, refused) = let_in(&router, number, path).await;
        assert_eq!(count, 10, "{path}");
        let refused = Answer::of(refused).await;
        assert_eq!(refused.header("retry-after"), "1", "{path}");
        assert!(refused.error().contains("too many requests"), "{path}");
    }
    let free = limited(directory.path(), 0).await.router();
    for _ in 0..100 {
        let answer = answered(&free, request_from(1, "/api/table")).await;
        assert_eq!(answer.status().as_u16(), 200);
    }
}

/// Each frame that is read counts, as each position alone would.
#[tokio::test(start_paused = true)]
async fn what_costs_more_is_let_in_less_often() {
    let directory = tempfile::tempdir().unwrap();
    publish_in_frames(directory.path(), 14, 8);
    let router = limited(directory.path(), 20).await.router();
    let wide = "/api/position/7x7";
    let first = answered(&router, request_from(2, wide)).await;
    let status = first.status().as_u16();
    assert_eq!(status, 200, "the first is let in, whatever it costs");
    let (more, _) = let_in(&router, 2, wide).await;
    let (narrow, _) = let_in(&router, 3, "/api/position/1").await;
    assert!(narrow >= 40, "{narrow}");
    assert!(more * 4 < narrow, "{more} {narrow}");
    // Nobody else notices.
    let other = answered(&router, request_from(4, wide)).await;
    assert_eq!(other.status().as_u16(), 200);
}

/// Clients of a proxy have their own places and rates, and so has the proxy; others cannot say that they are somebody
/// else.
#[tokio::test(start_paused = true)]
async fn the_limits_hold_for_each_client_of_a_proxy() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 12);
    let router = limited(directory.path(), 40).await.router();
    let ask = async |from: u8, client: &str, path: &str| {
        let mut request = request_from(from, path);
        let clients = format!("192.0.2.99, {client}");
        let headers = request.headers_mut();
        headers.insert("x-forwarded-for", clients.parse().unwrap());
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream"));
        let answer = answered(&router, request).await;
        (answer.status().as_u16(), answer)
    };
    let listen = async |from: u8, client: &str| ask(from, client, "/api/status").await;
    let mut held = Vec::new();
    for (from, client) in [(9, "192.0.2.7"), (2, "192.0.2.8")] {
        for _ in 0..32 {
            let (status, answer) = listen(from, client).await;
            assert_eq!(status, 200);
            held.push(answer);
        }
        // However many places there are, these are all of one client.
        assert_eq!(listen(from, client).await.0, 503);
        let one_more = listen(from, "192.0.2.9").await.0;
        assert_eq!(one_more, if from == 9 { 200 } else { 503 });
    }
    let asks = async |client: &str| ask(9, client, "/api/table").await.0;
    while asks("192.0.2.7").await == 200 {}
    assert_eq!(asks("192.0.2.7").await, 429);
    assert_eq!(asks("192.0.2.9").await, 200);
}
