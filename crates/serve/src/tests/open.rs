//! The rules of all open routes, and the pages.

use std::collections::BTreeSet;
use std::net::{IpAddr, Ipv4Addr};
use std::num::NonZeroU32;
use std::path::Path;

use chomp_testing::values;
use serde_json::Value;
use tokio::io::{AsyncReadExt, AsyncWriteExt};

use super::{Tested, publish, publish_in_frames, site, start};
use crate::pages::{FILES, PAGES};
use crate::site::{Site, SiteOptions, StatusSource};

const PAGE: (&str, &str) = (
    "accept",
    "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8",
);

/// A path for each route, and what it answers with.
const PATHS: [(&str, &str); 21] = [
    ("/", "application/json"),
    ("/table-14/", "text/html; charset=utf-8"),
    ("/table-14/SHA256SUMS", "text/plain; charset=utf-8"),
    ("/api/table", "application/json"),
    ("/api/counts", "application/json"),
    ("/api/position/5,4,2,1", "application/json"),
    ("/api/depth/5,4,2,1", "application/json"),
    ("/api/openings", "application/json"),
    ("/api/openings/3x5", "application/json"),
    ("/api/games", "application/json"),
    ("/api/games/nim/3,4,5", "application/json"),
    ("/api/games/nim/losing/4", "application/json"),
    ("/api/games/poisons/picture/1=5/9", "application/json"),
    ("/api/status", "application/json"),
    ("/openapi.json", "application/json"),
    ("/play", "text/html; charset=utf-8"),
    ("/explore", "text/html; charset=utf-8"),
    ("/games", "text/html; charset=utf-8"),
    ("/games/nim", "text/html; charset=utf-8"),
    ("/job", "text/html; charset=utf-8"),
    ("/assets/style.css", "text/css; charset=utf-8"),
];

async fn tested() -> (Tested, tempfile::TempDir) {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 14);
    let tested = start(site(directory.path()).await.router()).await;
    (tested, directory)
}

#[tokio::test]
async fn get_and_head_agree_and_nothing_else_is_done() {
    let (tested, _directory) = tested().await;
    let unknown = ("/nothing/at/all", "application/json");
    for (path, kind) in PATHS.into_iter().chain([unknown]) {
        if path == "/api/counts" {
            // It changes while it is counted.
            while tested.get(path).await.json()["losing_by_area"].is_null() {}
        }
        let get = tested.get(path).await;
        let head = tested.ask("HEAD", path, &[]).await;
        assert_eq!(
            get.status,
            if path == unknown.0 { 404 } else { 200 },
            "{path}"
        );
        assert_eq!(get.header("content-type"), kind, "{path}");
        assert_eq!(get.header("x-content-type-options"), "nosniff", "{path}");
        assert_eq!(
            get.header("content-length"),
            get.body.len().to_string(),
            "{path}"
        );
        assert!(!get.header("cache-control").is_empty(), "{path}");
        assert_eq!((head.status, head.body.len()), (get.status, 0), "{path}");
        let but_date = |answer: &super::Answer| {
            let mut headers = answer.headers.clone();
            headers.remove("date");
            headers
        };
        assert_eq!(but_date(&get), but_date(&head), "{path}");
        for method in ["POST", "PUT", "DELETE", "PATCH", "TRACE", "BREW"] {
            let answer = tested.ask(method, path, &[]).await;
            assert_eq!(answer.status, 405, "{method} {path}");
            assert_eq!(
                answer.header("allow"),
                "GET, HEAD, OPTIONS",
                "{method} {path}"
            );
            assert!(answer.error().contains(method), "{method} {path}");
        }
    }
}

#[tokio::test]
async fn pages_of_others_may_read_answers_and_tables() {
    let (tested, _directory) = tested().await;
    for (path, kind) in PATHS {
        let shared = kind == "application/json" || path.starts_with("/table");
        let expected = if shared { "*" } else { "" };
        for (method, status) in [("GET", 200), ("HEAD", 200), ("OPTIONS", 204), ("POST", 405)] {
            let answer = tested
                .ask(method, path, &[("origin", "https://a.example")])
                .await;
            assert_eq!(answer.status, status, "{method} {path}");
            let allowed = answer.header("access-control-allow-origin");
            assert_eq!(allowed, expected, "{method} {path}");
            assert_eq!(answer.header("access-control-allow-credentials"), "");
        }
    }
    let missing = tested.get("/api/position/no").await;
    assert_eq!(
        (
            missing.status,
            missing.header("access-control-allow-origin")
        ),
        (400, "*")
    );
}

#[tokio::test]
async fn pages_may_load_nothing_from_elsewhere() {
    let (tested, _directory) = tested().await;
    for path in [
        "/",
        "/table-14/",
        "/play",
        "/explore",
        "/games",
        "/games/horse",
        "/job",
        "/assets/style.css",
        "/assets/api.js",
    ] {
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
        let known = tested
            .ask("GET", path, &[PAGE, ("if-none-match", &etag)])
            .await;
        assert_eq!((known.status, known.body.len()), (304, 0), "{path}");
        assert_eq!(known.header("etag"), etag);
    }
    // At the root, people get a page and programs the list.
    let page = tested.ask("GET", "/", &[PAGE]).await;
    assert_eq!(page.body, tested.get("/play").await.body);
    let list = tested.ask("GET", "/", &[("accept", "*/*")]).await;
    assert_eq!(list.json()[0]["bits"], 14);
    assert_eq!(
        (page.header("vary"), list.header("vary")),
        ("accept", "accept")
    );
    for path in [
        "/assets/",
        "/assets/nothing.js",
        "/assets/STYLE.css",
        "/assets/style%2ecss",
        "/assets/..%2fplay.html",
        "/assets/play.html",
        "/play.html",
        "/play/",
    ] {
        assert_eq!(tested.get(path).await.status, 404, "{path}");
    }
}

/// All files that pages name are there.
#[tokio::test]
async fn pages_find_their_files() {
    let (tested, _directory) = tested().await;
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
            if let Some(name) =
                beside.or_else(|| quoted.trim_start_matches("../").strip_prefix("assets/"))
            {
                paths.push(format!("/assets/{name}"));
            }
        }
    }
    assert_eq!(seen.len(), FILES.len() + PAGES.len(), "{seen:?}");
}

/// Whom `limited` believes for whom it asks.
const PROXY: IpAddr = IpAddr::V4(Ipv4Addr::new(127, 0, 0, 9));

async fn limited(directory: &Path, a_second: u32) -> Tested {
    let site = Site::open(SiteOptions {
        directory: directory.to_owned(),
        rate: NonZeroU32::new(a_second),
        proxies: vec![PROXY],
        cache_bytes: 0,
    });
    start(site.await.router()).await
}

#[tokio::test]
async fn who_asks_too_often_has_to_wait() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 8);
    let tested = limited(directory.path(), 5).await;
    for path in [
        "/api/table",
        "/play",
        "/nothing/at/all",
        "/table-08/SHA256SUMS",
    ] {
        let mut let_in = 0;
        let refused = loop {
            let answer = tested.get(path).await;
            if answer.status == 429 {
                break answer;
            }
            let_in += 1;
            assert!(let_in < 100, "{path}");
        };
        assert_eq!(refused.header("retry-after"), "1", "{path}");
        assert!(refused.error().contains("too many requests"), "{path}");
    }
    let free = limited(directory.path(), 0).await;
    for _ in 0..100 {
        assert_eq!(free.get("/api/table").await.status, 200);
    }
}

/// How many requests for `path` a stranger may make at once, from an address of its own.
async fn let_in(tested: &Tested, number: u8, path: &str) -> u32 {
    for count in 0..1000 {
        if tested.get_from(number, path).await.status == 429 {
            return count;
        }
    }
    panic!("{path} has no rate");
}

/// Each frame that is read counts, as each position alone would.
#[tokio::test]
async fn what_costs_more_is_let_in_less_often() {
    let directory = tempfile::tempdir().unwrap();
    publish_in_frames(directory.path(), 14, 8);
    let tested = limited(directory.path(), 20).await;
    let wide = "/api/position/7x7";
    let first = tested.get_from(2, wide).await;
    assert_eq!(first.status, 200, "the first is let in, whatever it costs");
    let [wide, narrow] = [
        let_in(&tested, 2, wide).await,
        let_in(&tested, 3, "/api/position/1").await,
    ];
    assert!(narrow >= 40, "{narrow}");
    assert!(wide * 4 < narrow, "{wide} {narrow}");
    // Nobody else notices.
    assert_eq!(tested.get_from(4, "/api/position/7x7").await.status, 200);
}

/// The description has all routes, and the answers have the fields that it tells.
#[tokio::test]
async fn the_description_is_that_of_the_answers() {
    let (tested, directory) = tested().await;
    let description = tested.get("/openapi.json").await.body;
    let description: Value = serde_json::from_slice(&description).unwrap();
    assert_eq!(description["openapi"], "3.1.0");
    let described: BTreeSet<&str> = description["paths"]
        .as_object()
        .unwrap()
        .keys()
        .map(String::as_str)
        .collect();
    let routes = site(directory.path()).await.routes(StatusSource::Table);
    // Pages are for people.
    let for_people = [
        "/{folder}/",
        "/play",
        "/explore",
        "/games",
        "/games/{game}",
        "/job",
        "/assets/{name}",
    ];
    let routes: BTreeSet<&str> = routes
        .iter()
        .map(|(path, _)| *path)
        .filter(|path| !for_people.contains(path))
        .collect();
    assert_eq!(described, routes);

    assert_eq!(tested.get("/api/value/3,2").await.status, 503);
    values::publish(directory.path(), values::SMALL, &values::areas(10));
    while tested.get("/api/counts").await.json()["losing_by_area"].is_null() {}
    let [game, list, picture] = ["{position}", "losing/{size}", "picture/{fixed}/{size}"];
    let [game, list, picture] =
        [game, list, picture].map(|end| format!("/api/games/{{game}}/{end}"));
    let [game, list, picture] = [&*game, &*list, &*picture];
    for (path, asked, status) in [
        ("/", "/", "200"),
        ("/api/table", "/api/table", "200"),
        ("/api/counts", "/api/counts", "200"),
        ("/api/position/{position}", "/api/position/5,4,2,1", "200"),
        ("/api/position/{position}", "/api/position/0", "200"),
        ("/api/position/{position}", "/api/position/5,4,3", "200"),
        ("/api/position/{position}", "/api/position/x", "400"),
        ("/api/depth/{position}", "/api/depth/5,4,2,1", "200"),
        ("/api/depth/{position}", "/api/depth/0", "200"),
        ("/api/depth/{position}", "/api/depth/10x10", "400"),
        ("/api/depth/{position}", "/api/depth/x", "400"),
        ("/api/value/{position}", "/api/value/3,2", "200"),
        ("/api/value/{position}", "/api/value/1", "200"),
        ("/api/value/{position}", "/api/value/3x4", "400"),
        ("/api/value/{position}", "/api/value/0", "400"),
        ("/api/value/{position}", "/api/value/11x11", "400"),
        ("/api/openings", "/api/openings", "200"),
        ("/api/openings/{board}", "/api/openings/3x5", "200"),
        ("/api/openings/{board}", "/api/openings/30x50", "400"),
        ("/api/games", "/api/games", "200"),
        (game, "/api/games/ichomp/4x4%2F3,1%2F2", "200"),
        (game, "/api/games/poisons/3x8@1,1@2,2", "200"),
        (game, "/api/games/nim/2,1@misere", "200"),
        (game, "/api/games/towers/1-8,3-5", "200"),
        (game, "/api/games/horse/4,6", "200"),
        (game, "/api/games/nim/0", "200"),
        (game, "/api/games/chess/1", "400"),
        (list, "/api/games/towers/losing/2", "200"),
        (picture, "/api/games/poisons/picture/1=5/9@1,2@2,1", "200"),
        ("/api/status", "/api/status", "200"),
    ] {
        let answer = tested.get(asked).await;
        assert_eq!(answer.status.to_string(), status, "{asked}");
        let get = &description["paths"][path]["get"];
        let response = resolve(&description, &get["responses"][status]);
        let schema = &response["content"]["application/json"]["schema"];
        fits(&description, schema, &answer.json(), asked);
    }
    for (path, item) in description["paths"].as_object().unwrap() {
        let responses = item["get"]["responses"].as_object().unwrap();
        assert!(
            responses.contains_key("200") && responses.contains_key("429"),
            "{path}"
        );
        assert!(item["get"]["summary"].is_string(), "{path}");
        let parameters = item["get"]["parameters"]
            .as_array()
            .map_or(&[][..], |list| list);
        let named = parameters
            .iter()
            .filter(|parameter| parameter["in"] == "path")
            .count();
        assert_eq!(named, path.matches('{').count(), "{path}");
    }
}

/// Follows a reference within the description.
fn resolve<'a>(description: &'a Value, value: &'a Value) -> &'a Value {
    match value["$ref"].as_str() {
        Some(reference) => {
            let found = description.pointer(reference.strip_prefix('#').unwrap());
            resolve(
                description,
                found.unwrap_or_else(|| panic!("no {reference}")),
            )
        }
        None => value,
    }
}

/// Asserts that a value is what a schema describes: all that it must have, and nothing else.
fn fits(description: &Value, schema: &Value, value: &Value, place: &str) {
    let schema = resolve(description, schema);
    if let Some(choices) = schema["oneOf"].as_array() {
        // Told apart by whether there is anything, and by what must be there.
        let required = |choice: &&Value| {
            let choice = resolve(description, choice);
            let mut required = choice["required"].as_array().into_iter().flatten();
            value.is_null() == (choice["type"] == "null")
                && required.all(|name| !value[name.as_str().unwrap()].is_null())
        };
        let choice = choices.iter().find(required);
        return fits(
            description,
            choice.unwrap_or_else(|| panic!("{place}: {value}")),
            value,
            place,
        );
    }
    let kind = match value {
        Value::Null => "null",
        Value::Bool(_) => "boolean",
        Value::Number(number) if number.is_u64() => "integer",
        Value::Number(_) => "number",
        Value::String(_) => "string",
        Value::Array(_) => "array",
        Value::Object(_) => "object",
    };
    let kinds: Vec<&str> = match &schema["type"] {
        Value::String(kind) => vec![kind],
        Value::Array(kinds) => kinds.iter().map(|kind| kind.as_str().unwrap()).collect(),
        other => panic!("{place} has the type {other}"),
    };
    assert!(kinds.contains(&kind), "{place} is {value}, not {kinds:?}");
    match value {
        Value::Array(items) => {
            for (number, item) in items.iter().enumerate() {
                fits(
                    description,
                    &schema["items"],
                    item,
                    &format!("{place}[{number}]"),
                );
            }
            let count = items.len() as u64;
            assert!(
                schema["minItems"]
                    .as_u64()
                    .is_none_or(|least| count >= least),
                "{place}"
            );
            assert!(
                schema["maxItems"].as_u64().is_none_or(|most| count <= most),
                "{place}"
            );
        }
        Value::Object(fields) => {
            let properties = schema["properties"].as_object().unwrap();
            for (name, field) in fields {
                let place = format!("{place}.{name}");
                let schema = properties
                    .get(name)
                    .unwrap_or_else(|| panic!("{place} is not described"));
                assert!(
                    schema["description"].is_string() || schema["$ref"].is_string(),
                    "{place}"
                );
                fits(description, schema, field, &place);
            }
            for name in schema["required"].as_array().unwrap() {
                assert!(
                    fields.contains_key(name.as_str().unwrap()),
                    "{place} has no {name}"
                );
            }
        }
        _ => {}
    }
}

/// Clients of a proxy have their own places and rates, and so has the proxy; others cannot say that they are somebody else.
#[tokio::test]
async fn the_limits_hold_for_each_client_of_a_proxy() {
    let directory = tempfile::tempdir().unwrap();
    publish(directory.path(), 12);
    let tested = limited(directory.path(), 40).await;
    let listen = async |from: u8, client: &str| {
        let mut stream = tested.connect_from(from).await;
        let request = format!(
            "GET /api/status HTTP/1.1\r\nhost: a\r\naccept: text/event-stream\r\n\
             x-forwarded-for: 192.0.2.99, {client}\r\n\r\n"
        );
        stream.write_all(request.as_bytes()).await.unwrap();
        let mut head = [0; 12];
        stream.read_exact(&mut head).await.unwrap();
        let status: u16 = str::from_utf8(&head[9..]).unwrap().parse().unwrap();
        (status, stream)
    };
    let mut held = Vec::new();
    for (from, client) in [(9, "192.0.2.7"), (2, "192.0.2.8")] {
        for _ in 0..32 {
            let (status, stream) = listen(from, client).await;
            assert_eq!(status, 200);
            held.push(stream);
        }
        // However many places there are, these are all of one client.
        assert_eq!(listen(from, client).await.0, 503);
        let one_more = listen(from, "192.0.2.9").await.0;
        assert_eq!(one_more, if from == 9 { 200 } else { 503 });
    }
    let asks = async |from, client: &str| {
        let headers = [("x-forwarded-for", client)];
        tested
            .ask_from(from, "GET", "/api/table", &headers)
            .await
            .status
    };
    while asks(9, "192.0.2.7").await == 200 {}
    assert_eq!(asks(9, "192.0.2.7").await, 429);
    assert_eq!(asks(9, "192.0.2.9").await, 200);
}
