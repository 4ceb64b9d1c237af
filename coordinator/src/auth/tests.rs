//! Every credential at every door, over real connections.

use std::collections::BTreeSet;

use chomp_access::{Certificate, Participants, Token as AccessToken};
use http::uri::PathAndQuery;
use http_body_util::{BodyExt, StreamBody};
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::mpsc;
use tokio_stream::wrappers::ReceiverStream;
use tokio_stream::{Stream, StreamExt};
use tonic::metadata::MetadataValue;
use tonic::transport::{Channel, ClientTlsConfig, Endpoint};
use tonic::{Code, Request as Call};
use tonic_prost::ProstCodec;

use super::*;
use crate::server::tests::options;
use crate::server::{Coordinator, CoordinatorOptions, Listeners};
use chomp_store::objects::SimulatedStorage;

/// The calls that the protocol has.
fn calls() -> BTreeSet<String> {
    let protocol = include_str!("../../../proto/proto/chomp.proto");
    let mut service = "";
    let mut calls = BTreeSet::new();
    for line in protocol.lines() {
        let mut words = line.split([' ', '(']).filter(|word| !word.is_empty());
        match (words.next(), words.next()) {
            (Some("service"), Some(name)) => service = name,
            (Some("rpc"), Some(name)) => {
                calls.insert(format!("/chomp.v1.{service}/{name}"));
            }
            _ => {}
        }
    }
    assert!(calls.len() > 5, "{calls:?}");
    calls
}

#[test]
fn every_call_has_its_rule_and_every_rule_its_call() {
    let rules: BTreeSet<String> = CALLS.map(str::to_owned).into();
    assert_eq!(rules, calls());
    assert_eq!(rules.len(), CALLS.len(), "a call has one rule");
    let open = |(path, rule): &(&'static str, AccessRule)| (*rule == Open).then_some(*path);
    let open: Vec<&str> = ROUTES.iter().filter_map(open).collect();
    let expected = [
        "/healthz",
        "/readyz",
        "/",
        "/{folder}",
        "/{folder}/",
        "/{folder}/{name}",
        "/api/table",
        "/api/counts",
        "/api/position/{position}",
        "/api/depth/{position}",
        "/api/value/{position}",
        "/api/openings",
        "/api/openings/{board}",
        "/api/games",
        "/api/games/{game}/{position}",
        "/api/games/{game}/losing/{size}",
        "/api/games/{game}/picture/{fixed}/{size}",
        "/openapi.json",
        "/bite",
        "/play",
        "/explore",
        "/games",
        "/games/{game}",
        "/job",
        "/assets/{name}",
    ];
    assert_eq!(open, expected);
}

#[tokio::test]
async fn every_route_of_a_site_has_its_rule() {
    let site = chomp_serve::Site::open(nowhere()).await;
    let routes = site.routes(chomp_serve::StatusSource::Table).into_iter();
    let mut routes: Vec<&str> = routes.map(|(path, _)| path).collect();
    routes.extend(["/healthz", "/readyz", "/status", "/metrics", super::OBJECTS]);
    routes.sort_unstable();
    let mut rules = ROUTES.map(|(path, _)| path);
    rules.sort_unstable();
    assert_eq!(routes, rules);
}

/// Where no tables are.
fn nowhere() -> chomp_serve::SiteOptions {
    chomp_serve::SiteOptions {
        question_limits: chomp_serve::QuestionLimits::BESIDE_JOB,
        directory: "/nowhere".into(),
        cache_bytes: 0,
    }
}

/// A path of the route, and how the answer to who may ask begins, where there is no table.
fn asked(route: &'static str) -> (&'static str, &'static str) {
    match route {
        "/{folder}" => ("/table-14", "HTTP/1.1 404"),
        "/{folder}/" => ("/table-14/", "HTTP/1.1 404"),
        "/{folder}/{name}" => ("/table-14/manifest.json", "HTTP/1.1 404"),
        "/assets/{name}" => ("/assets/style.css", "HTTP/1.1 200"),
        "/objects/{*key}" => ("/objects/work/journal/0000000000", "HTTP/1.1 200"),
        "/api/table" | "/api/counts" | "/api/openings" => (route, "HTTP/1.1 503"),
        "/api/position/{position}" => ("/api/position/3,1", "HTTP/1.1 200"),
        "/api/depth/{position}" => ("/api/depth/3,1", "HTTP/1.1 200"),
        "/api/value/{position}" => ("/api/value/3,1", "HTTP/1.1 503"),
        "/api/openings/{board}" => ("/api/openings/2x3", "HTTP/1.1 503"),
        "/api/games/{game}/{position}" => ("/api/games/nim/3,4", "HTTP/1.1 200"),
        "/api/games/{game}/losing/{size}" => ("/api/games/nim/losing/4", "HTTP/1.1 200"),
        "/api/games/{game}/picture/{fixed}/{size}" => {
            ("/api/games/poisons/picture/3=0/4", "HTTP/1.1 200")
        }
        "/games/{game}" => ("/games/nim", "HTTP/1.1 200"),
        path => (path, "HTTP/1.1 200"),
    }
}

/// Headers of callers, each with its name and the answer to it where a token is needed; none if it is good.
fn all_credentials(
    good: &AccessToken,
    revoked: &AccessToken,
) -> Vec<(&'static str, Option<String>, Option<Denied>)> {
    let good = good.secret();
    let wrong = Some(Denied::Wrong);
    let other = AccessToken::random();
    let garbled = format!("Bearer {}.", &good[..good.len() - 1]);
    vec![
        ("good", Some(format!("Bearer {good}")), None),
        ("good, other case", Some(format!("bearer {good}")), None),
        ("none", None, Some(Denied::Missing)),
        ("revoked", Some(header_of(revoked)), Some(Denied::Revoked)),
        ("another's", Some(header_of(&other)), wrong),
        ("garbled", Some(garbled), wrong),
        ("cut", Some(format!("Bearer {}", &good[..20])), wrong),
        ("longer", Some(format!("Bearer {good}A")), wrong),
        ("empty", Some("Bearer ".into()), wrong),
        ("no scheme", Some(good.to_owned()), wrong),
        ("other scheme", Some(format!("Basic {good}")), wrong),
        ("two spaces", Some(format!("Bearer  {good}")), wrong),
    ]
}

fn header_of(token: &AccessToken) -> String {
    format!("Bearer {}", token.secret())
}

/// A gate for the owner of a table, and the owner's header.
fn gate_of_owner() -> (Gate, String) {
    let mut participants = Participants::default();
    let token = participants.keep_or_renew_owner_token(None).unwrap();
    let gate = gate_of(ParticipantList::new(participants, false));
    (gate, header_of(&token))
}

fn gate_of(participants: ParticipantList) -> Gate {
    Gate::new(participants, false)
}

struct Tested {
    coordinator: Coordinator,
    owner: AccessToken,
    revoked: AccessToken,
    certificate: Certificate,
    pages: std::net::SocketAddr,
}

async fn start(tls: bool, open_status: bool) -> Tested {
    let certificate = new_certificate();
    let mut participants = Participants::default();
    let owner = participants.keep_or_renew_owner_token(None).unwrap();
    let revoked = participants.add("eve").unwrap();
    participants.revoke("eve").unwrap();
    let listen = || TcpListener::bind("127.0.0.1:0");
    let listeners = Listeners {
        calls: Some(listen().await.unwrap()),
        pages: Some(listen().await.unwrap()),
    };
    let pages = listeners.pages.as_ref().unwrap().local_addr().unwrap();
    let options = CoordinatorOptions {
        tls: tls.then(|| Arc::new(certificate.server_config().unwrap())),
        site: Some(nowhere()),
        open_status,
        ..options(participants)
    };
    let storage = Arc::new(SimulatedStorage::new(0));
    Tested {
        coordinator: Coordinator::start(storage, options, None, listeners)
            .await
            .unwrap(),
        owner,
        revoked,
        certificate,
        pages,
    }
}

fn new_certificate() -> Certificate {
    Certificate::new("test", &["localhost".to_owned()]).unwrap()
}

/// The status of an empty call, over HTTP/2.
async fn call(channel: &Channel, path: &str, header: Option<&str>) -> (Code, String) {
    let mut client = tonic::client::Grpc::new(channel.clone());
    client.ready().await.unwrap();
    let mut request = Call::new(());
    if let Some(header) = header {
        let value = MetadataValue::try_from(header).unwrap();
        request.metadata_mut().insert("authorization", value);
    }
    let codec: ProstCodec<(), ()> = ProstCodec::default();
    let path = PathAndQuery::try_from(path).unwrap();
    // The first message of a stream that does not end will do.
    let result = async {
        let reply = client.server_streaming(request, path, codec).await?;
        reply.into_inner().message().await
    };
    match result.await {
        Ok(_) => (Code::Ok, String::new()),
        Err(status) => (status.code(), status.message().to_owned()),
    }
}

/// The answer to a request over HTTP/1.
async fn page(address: std::net::SocketAddr, path: &str, headers: &[String]) -> String {
    let mut stream = TcpStream::connect(address).await.unwrap();
    let mut request = format!("GET {path} HTTP/1.1\r\nhost: a\r\nconnection: close\r\n");
    for header in headers {
        request.extend(["authorization: ", header, "\r\n"]);
    }
    request += "\r\n";
    stream.write_all(request.as_bytes()).await.unwrap();
    let mut answer = Vec::new();
    stream.read_to_end(&mut answer).await.unwrap();
    // Objects are no text.
    String::from_utf8_lossy(&answer).into_owned()
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_at_every_call() {
    let tested = start(false, false).await;
    let address = tested.coordinator.address().unwrap();
    let channel = Endpoint::from_shared(format!("http://{address}")).unwrap();
    let channel = channel.connect().await.unwrap();
    let mut refused = 0;
    for (name, header, refusal) in all_credentials(&tested.owner, &tested.revoked) {
        for path in calls() {
            // It waits for a task, which takes seconds, or a worker that it does not know.
            let (code, message) = call(&channel, &path, header.as_deref()).await;
            match refusal {
                Some(denied) => {
                    let expected = (Code::Unauthenticated, denied.to_string());
                    assert_eq!((code, message), expected, "{name} {path}");
                    refused += 1;
                }
                None => assert_ne!(code, Code::Unauthenticated, "{name} {path}: {message}"),
            }
        }
        // Paths without a rule are for nobody.
        for path in [
            "/chomp.v1.Coordinator/Rule",
            "/chomp.v2.Coordinator/Join",
            "/a/b/c",
        ] {
            let (code, _) = call(&channel, path, header.as_deref()).await;
            assert_eq!(code, Code::Unauthenticated, "{name} {path}");
            refused += 1;
        }
    }
    let metrics = [header_of(&tested.owner)];
    let metrics = page(address, "/metrics", &metrics).await;
    let counted = format!("chomp_calls_refused_total {refused}\n");
    assert!(metrics.contains(&counted), "{refused}: {metrics}");
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn every_credential_at_every_page() {
    for open_status in [false, true] {
        every_credential(&start(false, open_status).await, open_status).await;
    }
}

async fn every_credential(tested: &Tested, open_status: bool) {
    let secret = &tested.owner;
    for address in [tested.coordinator.address().unwrap(), tested.pages] {
        for (name, header, refusal) in all_credentials(secret, &tested.revoked) {
            let headers: Vec<String> = header.into_iter().collect();
            // Objects are not where pages are.
            let is_there = |route| route != super::OBJECTS || address != tested.pages;
            for (route, rule) in ROUTES.into_iter().filter(|(route, _)| is_there(*route)) {
                let (path, good) = asked(route);
                let answer = page(address, path, &headers).await;
                let open = rule == Open || rule == Status && open_status;
                // Pages of others may read what everybody may but a job, and the rest not even with a token.
                let theirs = answer.contains("access-control-allow-origin: *");
                assert!(!theirs || rule == Open, "{name} {path}: {answer}");
                match refusal.filter(|_| !open) {
                    Some(denied) => {
                        assert!(
                            answer.starts_with("HTTP/1.1 401"),
                            "{name} {path}: {answer}"
                        );
                        let text = format!("{{\"error\":\"{denied}\"}}\n");
                        assert!(answer.ends_with(&text), "{name} {path}: {answer}");
                        assert!(answer.contains("www-authenticate: Bearer\r\n"), "{answer}");
                    }
                    None => assert!(answer.starts_with(good), "{name} {path}: {answer}"),
                }
                assert!(!answer.contains(secret.secret()));
            }
            for path in [
                "/nothing",
                "/status/",
                "//status",
                "/healthz/x/y",
                "/%73tatus",
                "/a/b/c",
                "/api/statu%73",
                "/api/status/",
                "/api/nothing",
                "/play/",
                "/assets/../status",
                "/assets/secrets.json",
                "/%2e%2e/status",
                "/objects/",
            ] {
                let answer = page(address, path, &headers).await;
                let shut = answer.starts_with("HTTP/1.1 401") || answer.starts_with("HTTP/1.1 404");
                assert!(shut, "{name} {path}: {answer}");
            }
        }
        // Two tokens are none, even if one is good.
        let good = format!("Bearer {}", secret.secret());
        for headers in [
            [good.clone(), good.clone()],
            ["Bearer x".into(), good.clone()],
        ] {
            for path in ["/metrics", "/status", "/api/status"] {
                let answer = page(address, path, &headers).await;
                let open = open_status && path != "/metrics";
                assert_eq!(answer.starts_with("HTTP/1.1 401"), !open, "{answer}");
            }
        }
    }
    // Calls are not where pages are.
    let channel = Endpoint::from_shared(format!("http://{}", tested.pages)).unwrap();
    let channel = channel.connect().await.unwrap();
    let good = format!("Bearer {}", secret.secret());
    for path in calls() {
        let (code, _) = call(&channel, &path, Some(&good)).await;
        assert_ne!(code, Code::Ok, "{path}");
    }
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn calls_and_pages_go_over_tls() {
    let tested = start(true, false).await;
    let port = tested.coordinator.address().unwrap().port();
    let connect = |certificate: &Certificate| {
        let ca = tonic::transport::Certificate::from_pem(certificate.pem());
        let tls = ClientTlsConfig::new().ca_certificate(ca);
        let endpoint = Endpoint::from_shared(format!("https://localhost:{port}")).unwrap();
        let endpoint = endpoint.tls_config(tls).unwrap();
        async move { endpoint.connect().await }
    };
    let channel = connect(&tested.certificate).await.unwrap();
    let good = header_of(&tested.owner);
    let path = "/chomp.v1.Coordinator/Leave";
    assert_eq!(call(&channel, path, Some(&good)).await.0, Code::Ok);
    assert_eq!(call(&channel, path, None).await.0, Code::Unauthenticated);

    assert!(connect(&new_certificate()).await.is_err());
    // Nothing is said in plain.
    for address in [tested.coordinator.address().unwrap(), tested.pages] {
        let mut stream = TcpStream::connect(address).await.unwrap();
        let request = b"GET /healthz HTTP/1.1\r\nhost: a\r\n\r\n";
        stream.write_all(request).await.unwrap();
        let mut answer = Vec::new();
        stream.read_to_end(&mut answer).await.unwrap_or(0);
        assert!(!answer.starts_with(b"HTTP"), "{answer:?}");
    }
}

#[tokio::test]
async fn a_route_without_a_rule_is_for_nobody() {
    use axum::routing::get;
    use tower::ServiceExt;

    let (gate, token) = gate_of_owner();
    let page = || get(|| async { "here" });
    let router = gate.router(vec![("/healthz", page()), ("/new", page())]);
    for (path, status) in [
        ("/healthz", StatusCode::OK),
        ("/new", StatusCode::UNAUTHORIZED),
    ] {
        let request = Request::builder().uri(path);
        let request = request.header(AUTHORIZATION, &token).body(Body::empty());
        let response = router.clone().oneshot(request.unwrap()).await.unwrap();
        assert_eq!(response.status(), status, "{path}");
    }
}

fn body_of(pieces: impl Stream<Item = &'static str> + Send + 'static) -> Body {
    let frame = |piece: &'static str| Ok::<_, std::io::Error>(Frame::data(Bytes::from(piece)));
    Body::new(StreamBody::new(pieces.map(frame)))
}

/// Calls that wait, bodies that come and answers that go: those of whom is revoked end, and those of others do not.
#[tokio::test(start_paused = true)]
async fn what_a_revoked_participant_has_begun_ends() {
    use axum::routing::{get, put};
    use std::time::Duration;
    use tower::ServiceExt;

    let mut participants = Participants::default();
    let tokens = ["eve", "bob"].map(|name| participants.add(name).unwrap());
    let list = ParticipantList::new(participants.clone(), false);
    let gate = gate_of(list.clone());
    let (written, mut writes) = mpsc::channel(2);
    let write = move |body: Bytes| async move { written.send(body).await.unwrap() };
    let stream = || async { body_of(tokio_stream::once("begun").chain(tokio_stream::pending())) };
    let router = gate.router(vec![
        ("/metrics", get(std::future::pending::<()>)),
        ("/api/status", get(stream)),
        (super::OBJECTS, put(write)),
    ]);
    let soon = async |call: &mut (dyn Future<Output = Response> + Send + Unpin)| {
        tokio::time::timeout(Duration::from_secs(1), call)
            .await
            .ok()
    };
    let mut begun = Vec::new();
    for token in tokens {
        let token = header_of(&token);
        let ask = |method, path, body| {
            let request = Request::builder().method(method).uri(path);
            let request = request.header(AUTHORIZATION, &token).body(body).unwrap();
            let call = router.clone().oneshot(request);
            Box::pin(async { call.await.unwrap() })
        };
        let mut waits = ask("GET", "/metrics", Body::empty());
        assert!(soon(&mut waits).await.is_none());
        let (sender, pieces) = mpsc::channel(1);
        let mut puts = ask("PUT", "/objects/a", body_of(ReceiverStream::new(pieces)));
        sender.send("half").await.unwrap();
        assert!(soon(&mut puts).await.is_none());
        let mut answer = ask("GET", "/api/status", Body::empty()).await.into_body();
        let first = answer.frame().await.unwrap().unwrap();
        assert_eq!(first.into_data().unwrap(), "begun");
        begun.push((waits, puts, sender, answer));
    }

    participants.revoke("eve").unwrap();
    list.change(participants);
    for (is_revoked, (mut waits, mut puts, sender, mut answer)) in
        [true, false].into_iter().zip(begun)
    {
        let waited = soon(&mut waits).await;
        // Its peer says so when the call has ended already.
        let _ = sender.send(" and half").await;
        drop(sender);
        let put = soon(&mut puts).await.expect("its body has ended");
        let next = tokio::time::timeout(Duration::from_secs(1), answer.frame()).await;
        if is_revoked {
            assert_eq!(waited.unwrap().status(), StatusCode::UNAUTHORIZED);
            assert_eq!(put.status(), StatusCode::UNAUTHORIZED);
            assert!(next.unwrap().unwrap().is_err());
        } else {
            assert!(waited.is_none() && next.is_err());
            assert_eq!(put.status(), StatusCode::OK);
        }
    }
    assert_eq!(writes.recv().await.unwrap(), "half and half");
    assert!(writes.is_empty(), "what eve sent was taken");
}
