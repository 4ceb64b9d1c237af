//! The store through the coordinator does what every storage does.

use std::sync::Arc;

use bytes::Bytes;
use chomp_proto::v1::JoinRequest;
use chomp_store::objects::{Operation, SimulatedStorage};
use chomp_store::part::BYTES_MAX;
use chomp_store::{FaultKind, Key, Storage, StorageError, StorageProblem};
use chomp_table::format::describe;
use tonic::Status;

use super::fake::{Act, Fake, Leased, State, config, now};
use crate::client::Client;
use crate::link::Link;
use crate::relay::RelayStorage;

/// The storage of a worker that has leases for two parts.
async fn relay(fake: &Fake) -> RelayStorage {
    let join_request = JoinRequest {
        worker: 5,
        ..JoinRequest::default()
    };
    let rng = fastrand::Rng::with_seed(1);
    let access = config(1).access;
    let link = Link::new(&access, Arc::new(fake.clone()), join_request, None, rng).unwrap();
    let client = Client::join(link).await.unwrap();
    let mut state = fake.state();
    for lease in 0..3 {
        let heads = vec![chomp_table::Head(1)];
        state.leases.insert(lease, Leased::Ranges(heads));
    }
    RelayStorage(client)
}

fn part(lease: u64) -> Key {
    Key::new(&format!("work/parts/0001/{lease:016x}")).unwrap()
}

fn storage(fake: &Fake) -> Arc<SimulatedStorage> {
    fake.state().storage.clone()
}

#[tokio::test(start_paused = true)]
async fn objects_are_created_once_and_read() {
    let fake = Fake::new(|_, _| Act::Go);
    let relay = relay(&fake).await;
    let (digits, large) = (
        Bytes::from_static(b"0123456789"),
        Bytes::from(vec![7; 3 << 20]),
    );
    relay.create(&part(0), digits.clone()).await.unwrap();
    relay.create(&part(1), large.clone()).await.unwrap();
    relay.create(&part(2), Bytes::new()).await.unwrap();
    assert_eq!(now(storage(&fake).read(&part(0))).unwrap(), digits);
    relay.create(&part(0), digits.clone()).await.unwrap();
    let again = relay.create(&part(0), Bytes::new()).await.unwrap_err();
    assert!(
        (again.problem, again.action, again.key)
            == (StorageProblem::AlreadyExists, Operation::Create, part(0))
    );

    for (range, expected) in [
        (0..10, "0123456789"),
        (2..5, "234"),
        (9..10, "9"),
        (0..0, ""),
        (8..12, "89"),
        (10..12, ""),
        (11..u64::MAX, ""),
        (0..u64::MAX, "0123456789"),
        (u64::MAX..u64::MAX, ""),
    ] {
        let bytes = relay.read_at(&part(0), range.clone()).await.unwrap();
        assert_eq!(bytes, expected, "{range:?}");
    }
    assert_eq!(relay.read(&part(0)).await.unwrap(), "0123456789");
    assert_eq!(relay.read(&part(1)).await.unwrap(), large);
    assert_eq!(
        relay.read_at(&part(1), 5..3 << 20).await.unwrap(),
        large.slice(5..)
    );
    assert_eq!(relay.read(&part(2)).await.unwrap(), "");

    let missing = part(9);
    for result in [
        relay.read(&missing).await.map(drop),
        relay.read_at(&missing, 0..0).await.map(drop),
        relay.read_at(&missing, 3..8).await.map(drop),
    ] {
        assert!(
            matches!(&result, Err(error) if error.problem == StorageProblem::NotFound),
            "{result:?}"
        );
    }
    let listed = relay.list(&missing).await.unwrap_err();
    let deleted = relay.delete(&[part(0)]).await.unwrap_err();
    assert_eq!(
        [listed, deleted].map(|error| error.problem),
        [StorageProblem::Fault(FaultKind::Lasting); 2]
    );
    assert!(fake.state().authorized);
}

/// The first attempts fail in every way, and the one after them counts.
#[tokio::test(start_paused = true)]
async fn it_survives_outages() {
    let lost = || Status::unavailable("connection reset");
    let script = move |attempts: usize| {
        let mut count = 0;
        move |call: &str, state: &mut State| {
            count += usize::from(call == "get" || call == "put");
            match (call, count) {
                ("get" | "put", count) if count > attempts => Act::Go,
                ("get" | "put", 1) => Act::Lose(lost()),
                ("get" | "put", 2) => {
                    state.known.clear();
                    Act::Fail(lost())
                }
                ("get" | "put", 3) => Act::Hang,
                ("get" | "put", 4) => Act::Fail(Status::resource_exhausted("later")),
                ("get" | "put", _) => Act::Fail(lost()),
                _ => Act::Go,
            }
        }
    };
    let bytes = Bytes::from_static(b"abc");
    for attempts in 0..7 {
        let fake = Fake::new(script(attempts));
        let relay = relay(&fake).await;
        // The first attempt had an effect, of which nobody heard.
        relay.create(&part(0), bytes.clone()).await.unwrap();
        assert_eq!(now(storage(&fake).read(&part(0))).unwrap(), bytes);

        let fake = Fake::new(script(attempts));
        let relay = self::relay(&fake).await;
        now(storage(&fake).create(&part(0), bytes.clone())).unwrap();
        assert_eq!(relay.read_at(&part(0), 1..9).await.unwrap(), "bc");
        assert_eq!(fake.state().count("get"), attempts + 1);
    }
}

/// An answer that says that it is longer than any object, or than the range that was asked for, is not read.
#[tokio::test(start_paused = true)]
async fn what_is_not_allowed_and_answers_that_are_too_long_are_refused() {
    let fake = Fake::new(|_, _| Act::Go);
    let relay = relay(&fake).await;
    let refused = |error: StorageError, what: &str| {
        assert!(error.is(FaultKind::Lasting), "{error:?}");
        assert!(describe(&error).contains(what), "{error}");
    };
    let error = relay.create(&part(77), Bytes::new()).await.unwrap_err();
    refused(error, "does not accept a call: 403");
    relay
        .create(&part(0), Bytes::from_static(b"0123456789"))
        .await
        .unwrap();
    fake.state().more_bytes = BYTES_MAX - 9;
    refused(
        relay.read(&part(0)).await.unwrap_err(),
        "more than was asked",
    );
    fake.state().more_bytes = 1;
    for range in [0..10, 2..5] {
        let error = relay.read_at(&part(0), range).await.unwrap_err();
        refused(error, "more than was asked");
    }
}
