//! The calls over connections in memory, with a true job behind them: what is taken, what is refused.

use std::collections::HashMap;
use std::time::Duration;

use chomp_kernel::{Evaluator, fingerprint};
use chomp_plan::{ParticipantId, Settings};
use chomp_proto::v1::coordinator_client::CoordinatorClient;
use chomp_proto::v1::coordinator_server::CoordinatorServer;
use chomp_proto::v1::{complete_reply::Verdict as Told, complete_request::Result as Sent};
use chomp_store::PartName;
use chomp_store::objects::SimulatedStorage;
use chomp_store::part::{self, PartBuilder};
use chomp_store::{Follower, ShardSummary, Storage};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;
use tonic::Code;
use tonic::service::Routes;
use tonic::service::interceptor::InterceptedService;

use super::*;
use crate::server::{JobInputs, Opened};
use crate::testing::{nobody, range_bits};

mod limits;

const BITS: u32 = 14;
const TABLE: u64 = 0xdead_beef;
const WORKER: u64 = 7;

type AsParticipant = fn(Request<()>) -> Result<Request<()>, Status>;
type Client = CoordinatorClient<InterceptedService<CoordinatorServer<Service>, AsParticipant>>;

/// Names a participant as the caller, as the gate does for its token.
#[expect(clippy::unnecessary_wraps, reason = "as interceptors are")]
fn as_participant<const NUMBER: u32>(mut request: Request<()>) -> Result<Request<()>, Status> {
    let participant = ParticipantId(NUMBER);
    request
        .extensions_mut()
        .insert(AuthenticatedParticipant(participant));
    Ok(request)
}

/// A job and its service; the job runs for as long as this is kept.
struct Served {
    client: Client,
    service: CoordinatorServer<Service>,
    storage: Arc<SimulatedStorage>,
    journal: Arc<Journal>,
    _job: JoinSet<()>,
}

async fn serve() -> Served {
    let storage = Arc::new(SimulatedStorage::new(0));
    let mut settings = Settings::new(BITS, range_bits());
    (settings.checks_per_1000, settings.owner_checks_per_1000) = (0, 0);
    settings.newcomer_ranges = 0;
    let inputs = JobInputs {
        participants: nobody(),
        settings,
        coordinator_secret: 1,
        table: TABLE,
        store_hint: Some("s3://bucket/table".to_owned()),
        published: None,
    };
    let opened = Opened::new(storage.clone(), inputs, |epoch| epoch)
        .await
        .unwrap();
    let mut tasks = JoinSet::new();
    tasks.spawn(async move {
        let run = opened
            .job
            .run(CancellationToken::new(), Duration::ZERO, Routes::default());
        run.await;
    });
    Served {
        client: CoordinatorClient::with_interceptor(opened.service.clone(), as_participant::<1>),
        service: opened.service,
        storage,
        journal: opened.journal,
        _job: tasks,
    }
}

fn hello() -> v1::JoinRequest {
    v1::JoinRequest {
        protocol: PROTOCOL,
        format: range::VERSION,
        software: "chomp 9.9".to_owned(),
        threads: 1,
        worker: WORKER,
        name: "máquina".to_owned(),
        kernel: fingerprint(Isa::detect()).0.to_vec(),
    }
}

impl Served {
    async fn lease(&self) -> v1::Task {
        let request = v1::LeaseRequest { worker: WORKER };
        let reply = self.client.clone().lease(request).await.unwrap();
        task_of(reply.into_inner())
    }

    async fn complete(&self, lease: u64, result: impl Into<Option<Sent>>) -> Result<Told, Status> {
        let request = v1::CompleteRequest {
            worker: WORKER,
            lease,
            result: result.into(),
            next: false,
        };
        let reply = self.client.clone().complete(request).await?;
        Ok(reply.into_inner().verdict.unwrap())
    }

    async fn report(&self, records: Vec<v1::LostRecord>) -> Result<v1::ReportReply, Status> {
        let request = v1::ReportRequest {
            worker: WORKER,
            records,
        };
        let reply = self.client.clone().report(request).await;
        reply.map(tonic::Response::into_inner)
    }

    /// Evaluates the first range and puts its part.
    async fn put_first(&self, lease: u64) -> v1::Summary {
        let none = HashMap::new();
        let range = Evaluator::new(range_bits(), Isa::Portable).evaluate(Head(0), &none);
        let (summary, record) = range::encode(&range.unwrap(), range_bits());
        let mut builder = PartBuilder::default();
        builder.push(summary, &record);
        let (bytes, placed) = builder.finish();
        let name = PartName { layer: 0, lease };
        self.storage.create(&name.key(), bytes).await.unwrap();
        incoming::summary(&placed[0])
    }

    /// Joins, evaluates the first range and hands it in.
    async fn begin(&self) -> (u64, v1::Summary) {
        self.client.clone().join(hello()).await.unwrap();
        let task = self.lease().await;
        let summary = self.put_first(task.lease).await;
        let told = self
            .complete(task.lease, evaluated(std::slice::from_ref(&summary)))
            .await;
        assert!(matches!(told, Ok(Told::Accepted(_))), "{told:?}");
        (task.lease, summary)
    }
}

fn task_of(reply: v1::LeaseReply) -> v1::Task {
    match reply.answer {
        Some(lease_reply::Answer::Task(task)) => task,
        other => panic!("no task: {other:?}"),
    }
}

fn heads_of(task: v1::Task) -> Vec<u64> {
    match task.work {
        Some(task::Work::Evaluate(work)) => work.heads,
        other => panic!("{other:?}"),
    }
}

fn evaluated(ranges: &[v1::Summary]) -> Sent {
    let ranges = ranges.to_vec();
    Sent::Evaluated(v1::Evaluated { ranges })
}

#[tokio::test(start_paused = true)]
async fn a_true_result_is_taken_and_told_of_in_the_journal() {
    let served = serve().await;
    let reply = served.client.clone().join(hello()).await.unwrap();
    let expected = v1::JoinReply {
        bits: BITS,
        range_bits: 12,
        table: TABLE,
        lease_ms: 30_000,
        store: "s3://bucket/table".to_owned(),
        checkpoint: 0,
        epoch: 0,
        coordinator: 1,
    };
    assert_eq!(reply.into_inner(), expected);
    let task = served.lease().await;
    assert_eq!((task.attempt, task.journal), (1, 1));
    let Some(task::Work::Evaluate(work)) = task.work else {
        panic!("{:?}", task.work);
    };
    assert_eq!((work.layer, &work.heads[..]), (0, &[0][..]));
    let summary = served.put_first(task.lease).await;
    let told = served
        .complete(task.lease, evaluated(std::slice::from_ref(&summary)))
        .await;
    assert!(matches!(told, Ok(Told::Accepted(_))), "{told:?}");
    let row = *served.journal.ledger().range(Head(0)).unwrap();
    assert_eq!(row.lease, task.lease);
    let record = part::read_record(&*served.storage, Head(0), &row).await;
    assert_eq!(record.unwrap().len(), summary.length as usize);

    // A result is a duplicate when it comes again, and the next task says how far the journal is.
    let again = || evaluated(std::slice::from_ref(&summary));
    let told = served.complete(task.lease, again()).await;
    assert!(matches!(told, Ok(Told::Duplicate(_))), "{told:?}");
    let other = v1::Summary {
        count: summary.count + 1,
        ..summary.clone()
    };
    let told = served.complete(99, evaluated(&[other])).await;
    assert!(matches!(told, Ok(Told::Rejected(_))), "{told:?}");
    assert_eq!(served.lease().await.journal, 2);

    let request = v1::LeaseRequest { worker: 8 };
    let status = served.client.clone().lease(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    assert!(status.message().contains("has not joined"), "{status:?}");
    limits::strangers_have_no_part(&served).await;
}

#[tokio::test(start_paused = true)]
async fn a_result_is_answered_with_the_next_task() {
    let served = serve().await;
    let (lease, summary) = served.begin().await;
    let request = v1::CompleteRequest {
        worker: WORKER,
        lease,
        result: Some(evaluated(&[summary])),
        next: true,
    };
    let reply = served.client.clone().complete(request).await.unwrap();
    let v1::CompleteReply { verdict, next } = reply.into_inner();
    assert!(matches!(verdict, Some(Told::Duplicate(_))), "{verdict:?}");
    let task = task_of(next.unwrap());
    assert_eq!(task.journal, 2);
    assert_eq!(heads_of(task), [1]);
}

#[tokio::test(start_paused = true)]
async fn what_is_lost_is_looked_at_and_computed_again() {
    let served = serve().await;
    let (lease, summary) = served.begin().await;
    let report = |digest: &[u8]| v1::LostRecord {
        head: 0,
        digest: digest.to_vec(),
        reason: "it is not there".to_owned(),
        lease,
    };
    let settle = || tokio::time::sleep(Duration::from_secs(1));
    let answer = |lost: &[u64], in_order: &[u64]| v1::ReportReply {
        lost: lost.to_vec(),
        in_order: in_order.to_vec(),
    };
    // It is in order, or not what the journal has.
    let reports = vec![report(&summary.digest), report(&[1; 32])];
    let reply = served.report(reports).await.unwrap();
    assert_eq!(reply, answer(&[0], &[0]));
    assert!(served.journal.ledger().range(Head(0)).is_some());
    // It is not there.
    let name = PartName { layer: 0, lease };
    served.storage.delete(&[name.key()]).await.unwrap();
    served.report(vec![report(&[1; 32])]).await.unwrap();
    settle().await;
    assert!(served.journal.ledger().range(Head(0)).is_some());
    let reports = vec![report(&summary.digest); 3];
    let reply = served.report(reports).await.unwrap();
    assert_eq!(reply, answer(&[0; 3], &[]));
    settle().await;
    assert!(served.journal.ledger().range(Head(0)).is_none());
    assert_eq!(heads_of(served.lease().await), [0]);
    let status = served.report(vec![report(&[1; 31])]).await.unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
    let status = served
        .report(vec![report(&[1; 32]); REPORTS_MAX + 1])
        .await
        .unwrap_err();
    assert_eq!(status.code(), Code::InvalidArgument);
}

/// The segments of the journal are damaged while the job runs.
#[tokio::test]
async fn who_cannot_read_the_journal_joins_again_and_can() {
    let served = serve().await;
    let follow = async || {
        let reply = served.client.clone().join(hello()).await.unwrap();
        let from = Some(reply.into_inner().checkpoint).filter(|&number| number > 0);
        let mut follower = Follower::open(served.storage.clone(), from).await?;
        let next = served.journal.ledger().next_segment;
        follower.catch_up(next).await
    };
    follow().await.unwrap();
    let segments = served.storage.objects().into_keys();
    let segments = segments.filter(|key| key.as_str().starts_with("work/journal/"));
    for key in segments {
        served.storage.overwrite(&key, &b"damage"[..]);
    }
    follow().await.unwrap();
}

#[tokio::test]
async fn workers_that_would_do_harm_do_not_join() {
    let served = serve().await;
    let refuse = async |change: fn(&mut v1::JoinRequest), code, words: &[&str]| {
        let mut request = hello();
        change(&mut request);
        let status = served.client.clone().join(request).await.unwrap_err();
        assert_eq!(status.code(), code, "{status:?}");
        for word in words {
            assert!(status.message().contains(word), "{word}: {status:?}");
        }
        assert!(status.message().len() < 600, "{status:?}");
    };
    let ours = fingerprint(Isa::Portable).to_string();
    let current = format!("protocol {PROTOCOL}");
    let version = [&*current, "protocol 1", "same version"];
    let (failed, invalid) = (Code::FailedPrecondition, Code::InvalidArgument);
    refuse(|hello| hello.protocol = 1, failed, &version).await;
    refuse(|hello| hello.format = 9, failed, &["format 9", "chomp 9.9"]).await;
    let kernel = [&*ours, "CPU", "e3b0c442"];
    let other = |hello: &mut v1::JoinRequest| hello.kernel = Digest::of(&[]).0.to_vec();
    refuse(other, failed, &kernel).await;
    refuse(|hello| hello.kernel.clear(), failed, &["0 bytes"]).await;
    refuse(|hello| hello.threads = 0, invalid, &["0 threads"]).await;
    refuse(|hello| hello.threads = 1 << 17, invalid, &["threads"]).await;
    refuse(|hello| hello.name = "x".repeat(65), invalid, &["64 bytes"]).await;
    refuse(
        |hello| hello.name = "a\nb".to_owned(),
        invalid,
        &["control"],
    )
    .await;
    let long = |hello: &mut v1::JoinRequest| {
        hello.protocol = 1;
        hello.software = "y".repeat(1 << 20);
    };
    refuse(long, failed, &["yyy"]).await;
    let mut largest = hello();
    (largest.name, largest.threads) = ("x".repeat(64), 1 << 12);
    served.client.clone().join(largest).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn results_that_are_none_are_refused() {
    let served = serve().await;
    let (_, good) = served.begin().await;
    let with = |change: fn(&mut v1::Summary)| {
        let mut summary = good.clone();
        change(&mut summary);
        Some(evaluated(&[summary]))
    };
    let next = |change: fn(&mut v1::Summary)| {
        let mut next = good.clone();
        next.head = 1;
        next.offset += next.length;
        change(&mut next);
        Some(evaluated(&[good.clone(), next]))
    };
    let many: Vec<_> = (0..=part::RANGES_MAX as u64)
        .map(|head| v1::Summary {
            head,
            ..good.clone()
        })
        .collect();
    for (result, words) in [
        (None, "without content"),
        (Some(evaluated(&many)), "4097 ranges"),
        (with(|range| range.digest.truncate(31)), "31 bytes"),
        (with(|range| range.digest.push(0)), "33 bytes"),
        (with(|range| range.stored = range.count + 1), "stored"),
        (with(|range| range.count = 2048), "possible"),
        (with(|range| range.offset = 15), "cannot be at 15"),
        (with(|range| range.offset = 17), "cannot be at 17"),
        (with(|range| range.offset = u32::MAX), "cannot be at"),
        (with(|range| range.length = 0), "with 0 bytes"),
        (with(|range| range.length = u32::MAX), "cannot be at"),
        (with(|range| range.head = 1 << 40), "not of this table"),
        (with(|range| range.head = u64::MAX), "not of this table"),
        (next(|range| range.head = 0), "out of order"),
        (next(|range| range.offset -= 1), "cannot be at"),
        (next(|range| range.offset += 1), "cannot be at"),
    ] {
        let status = served.complete(0, result).await.expect_err(words);
        assert_eq!(status.code(), Code::InvalidArgument, "{status:?}");
        assert!(status.message().contains(words), "{words}: {status:?}");
    }
    // The form is right, and the plan sees that it is not of the job.
    for result in [
        Some(evaluated(&[])),
        next(|_| ()),
        with(|range| range.head = 4),
    ] {
        let told = served.complete(0, result).await;
        assert!(matches!(told, Ok(Told::Rejected(_))), "{told:?}");
    }
}

#[test]
fn shards_that_are_none_are_refused() {
    let digest = "0".repeat(64);
    let good = serde_json::json!({
        "number": 0,
        "shard": {"name": "shard-0000.zst", "first": 2, "last": 8, "entries": 3, "bytes": 178,
            "sha256": digest, "words_sha256": digest, "index_offset": 50, "index_sha256": digest},
        "leaf": {"words": 3, "digest": digest, "lengths": [
            {"bits": 2, "words": 1, "digest": digest}, {"bits": 4, "words": 3, "digest": digest}]},
        "sums": [{"bits": 2, "losing": 1, "unpaired": 5}, {"bits": 4, "losing": 4, "unpaired": 7}],
    });
    let check = |json: &serde_json::Value| {
        let result = Sent::Merged(v1::Merged {
            json: serde_json::to_vec(json).unwrap(),
            is_forged: false,
        });
        incoming::result(Some(result), LeaseId(1), range_bits(), BITS)
    };
    assert!(check(&good).is_ok(), "{:?}", check(&good));
    let empty = serde_json::json!({
        "number": 3, "shard": null, "sums": [],
        "leaf": {"words": 0, "digest": digest, "lengths": []},
    });
    assert!(check(&empty).is_ok(), "{:?}", check(&empty));
    for (pointer, value) in [
        ("/number", 1.into()),
        ("/number", (-1).into()),
        ("/shard/name", "../manifest.json".into()),
        ("/shard/first", 0.into()),
        ("/shard/first", 3.into()),
        ("/shard/first", 10.into()),
        ("/shard/last", 9.into()),
        ("/shard/last", (1 << BITS).into()),
        ("/shard/last", 4.into()),
        ("/shard/entries", 4.into()),
        ("/shard/entries", 0.into()),
        ("/shard/bytes", (1_u64 << 40).into()),
        ("/shard/bytes", 50.into()),
        ("/shard/sha256", "00".into()),
        ("/shard", serde_json::Value::Null),
        ("/leaf/words", 2.into()),
        ("/leaf/lengths/0/words", 4.into()),
        ("/leaf/lengths/1/words", 2.into()),
        ("/leaf/lengths/0/bits", 4.into()),
        ("/leaf/lengths/1/bits", (BITS + 1).into()),
        ("/sums/0/bits", 4.into()),
        ("/sums/1/bits", (BITS + 1).into()),
        ("/sums/1/losing", 9.into()),
        ("/sums", "x".repeat(2 << 20).into()),
    ] {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).unwrap() = value;
        let checked = check(&bad);
        assert!(checked.is_err(), "{pointer}: {checked:?}");
        assert!(checked.unwrap_err().to_string().len() < 600);
    }
    let merged: ShardSummary = serde_json::from_value(good).unwrap();
    assert_eq!(
        serde_json::from_slice::<ShardSummary>(&serde_json::to_vec(&merged).unwrap()).unwrap(),
        merged
    );
}

#[test]
fn texts_of_workers_are_cut_and_cannot_garble_a_terminal() {
    assert_eq!(
        excerpt("a\u{1b}[2Jb\r\nc\u{9b}d", 100),
        "a\\u001b[2Jb\\u000d\\u000ac\\u009bd"
    );
    assert_eq!(excerpt(&"é".repeat(1000), 3), "ééé");
    assert_eq!(excerpt("", 3), "");
}

#[tokio::test(start_paused = true)]
async fn a_job_has_a_bounded_number_of_workers() {
    let served = serve().await;
    let join = async |worker, client: &mut Client| {
        let request = v1::JoinRequest { worker, ..hello() };
        client.join(request).await.map(|_| ())
    };
    let callers: [AsParticipant; 3] = [
        as_participant::<1>,
        as_participant::<2>,
        as_participant::<0>,
    ];
    let client = |caller| CoordinatorClient::with_interceptor(served.service.clone(), caller);
    let [mut many, mut other, mut owner] = callers.map(client);
    let mut workers = 0..;
    // Each participant leaves room for others, and the owner takes the rest.
    for (client, count) in [(&mut many, 1792), (&mut other, 896), (&mut owner, 1408)] {
        for worker in workers.by_ref().take(count) {
            join(worker, client).await.unwrap();
        }
        let refused = join(u64::MAX, client).await.unwrap_err();
        assert_eq!(refused.code(), Code::ResourceExhausted, "{refused}");
    }
    // One that is there comes again, and one that leaves makes room.
    join(17, &mut many).await.unwrap();
    let leave = v1::LeaveRequest { worker: 17 };
    many.leave(leave).await.unwrap();
    join(u64::MAX, &mut owner).await.unwrap();
}
