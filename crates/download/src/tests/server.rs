//! A server of a small table that does what a test wants to go wrong.

use std::collections::BTreeMap;
use std::io;
use std::sync::{Arc, Mutex, MutexGuard};
use std::time::Duration;

use axum::Router;
use axum::body::{Body, Bytes};
use axum::extract::State;
use axum::http::{HeaderMap, HeaderValue, Response, StatusCode, Uri};
use chomp_table::Digest;
use chomp_table::manifest::sha256sums;
use chomp_table::reader::TableName;
use chomp_table::shard::ShardSize;
use chomp_testing::tables;
use tokio::task::JoinSet;
use tokio_stream::StreamExt;

pub(super) const BITS: u32 = 15;
pub(super) const TABLE: TableName = TableName::Losing(BITS);
/// An address in the clear on another machine, which a server leads to that leads elsewhere.
pub(super) const ELSEWHERE: &str = "http://192.0.2.1/table-15/";
const SIZE: ShardSize = ShardSize {
    frame_words: 16,
    shard_words: 50,
};

/// A pause that makes 500 bytes a second of one at a time.
const DRIP: Duration = Duration::from_millis(2);

/// How a server misbehaves.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Peril {
    None,
    /// One of two answers breaks off somewhere.
    Cut,
    /// One of two answers breaks off, and the server knows no ranges.
    CutWithoutRanges,
    /// One of two answers is that it is busy.
    Busy,
    /// Every answer is this status.
    Status(u16),
    /// Every answer, or those with shards, say that the file is elsewhere.
    Elsewhere,
    ShardsElsewhere,
    /// Every answer leads to this port.
    Moved(u16),
    /// A client without a token is refused.
    WantsToken,
    /// Files whose name ends so are bytes without end.
    Endless(&'static str),
    /// Shards have a byte too many or too few.
    LongShards,
    ShortShards,
    /// Shards are answered with a status for no content.
    EmptyAnswer,
    /// The digests are others than those of the files.
    OtherSums,
    NoManifest,
    /// A bit of one byte of this file is wrong, which is no shard.
    FlipIn(&'static str, usize),
    /// Ranges that are not those asked for, that go on behind them, unnamed, or too long.
    RangeElsewhere,
    RangeBeyond,
    RangeUnsaid,
    RangeTooLong,
    NoSuchRange,
    /// A bit of the shards is wrong, the first time each is sent, or always.
    FlipOnce,
    Flip,
    /// All digests are right, and a shard is none.
    NoTable,
    /// The manifest, or the shards, come in pieces of a given size in bytes, each after [`DRIP`].
    Drip(&'static str, usize),
}

#[derive(Debug)]
pub(super) struct World {
    pub(super) files: BTreeMap<String, Bytes>,
    peril: Peril,
    pub(super) random: u64,
    pub(super) requests: u32,
    /// How many answers were spoilt.
    pub(super) disturbed: u32,
    /// How many answers were the rest of a file.
    pub(super) continued: u32,
    /// The bytes of shards that were sent.
    pub(super) sent: usize,
    flipped: Vec<String>,
}

/// A server on loopback, for as long as it is kept.
#[derive(Debug)]
pub(super) struct Server {
    pub(super) url: String,
    world: Arc<Mutex<World>>,
    _task: JoinSet<()>,
}

/// The files of a table. To spoil it is to spoil a shard whose digest the manifest has.
fn files(spoil: bool) -> BTreeMap<String, Bytes> {
    let (mut manifest, mut shards) = tables::shards(BITS, SIZE, &tables::words(BITS));
    assert!(shards.len() > 4);
    if spoil {
        shards[1][30] ^= 1;
        manifest.shards[1].sha256 = Digest::of(&shards[1]);
    }
    let bytes = manifest.to_bytes();
    let sums = sha256sums(&bytes, &manifest);
    let names = manifest.shards.iter().map(|info| info.name.clone());
    let mut files: BTreeMap<_, _> = names.zip(shards.into_iter().map(Bytes::from)).collect();
    files.insert("SHA256SUMS".into(), sums.into());
    files.insert("manifest.json".into(), bytes.into());
    files
}

impl Server {
    pub(super) async fn start() -> Server {
        let world = World {
            files: files(false),
            peril: Peril::None,
            random: 1,
            requests: 0,
            disturbed: 0,
            continued: 0,
            sent: 0,
            flipped: Vec::new(),
        };
        let world = Arc::new(Mutex::new(world));
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let url = format!("http://{}/", listener.local_addr().unwrap());
        let app = Router::new()
            .fallback(answer)
            .with_state(Arc::clone(&world));
        let mut task = JoinSet::new();
        task.spawn(async move { axum::serve(listener, app).await.unwrap() });
        Server {
            url,
            world,
            _task: task,
        }
    }

    pub(super) fn set(&self, peril: Peril) {
        let mut world = self.world();
        world.peril = peril;
        world.files = files(peril == Peril::NoTable);
    }

    pub(super) fn port(&self) -> u16 {
        let (_, port) = self.url.trim_end_matches('/').rsplit_once(':').unwrap();
        port.parse().unwrap()
    }

    /// The bytes of all shards.
    pub(super) fn total(&self) -> usize {
        let world = self.world();
        let shards = world
            .files
            .iter()
            .filter(|(name, _)| name.starts_with("shard-"));
        shards.map(|(_, bytes)| bytes.len()).sum()
    }

    pub(super) fn world(&self) -> MutexGuard<'_, World> {
        self.world.lock().unwrap()
    }
}

impl World {
    fn below(&mut self, limit: usize) -> usize {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        usize::try_from(self.random >> 33).unwrap() % limit
    }

    /// True for one of two.
    fn disturb(&mut self) -> bool {
        let disturb = self.below(2) > 0;
        self.disturbed += u32::from(disturb);
        disturb
    }
}

fn status(status: u16) -> Response<Body> {
    Response::builder()
        .status(status)
        .body(Body::empty())
        .unwrap()
}

/// Leads to another address.
fn to(target: &str) -> Response<Body> {
    let mut response = status(302);
    let target = HeaderValue::from_str(target).unwrap();
    response.headers_mut().insert("location", target);
    response
}

fn endless() -> Response<Body> {
    let bytes = std::iter::repeat_with(|| Ok::<_, io::Error>(Bytes::from(vec![b' '; 1 << 16])));
    Response::new(Body::from_stream(tokio_stream::iter(bytes)))
}

/// The bytes in pieces of `size`, each after a pause.
fn slowly(bytes: &[u8], size: usize) -> Body {
    let pieces: Vec<Bytes> = bytes.chunks(size).map(|it| it.to_vec().into()).collect();
    let pieces = tokio_stream::iter(pieces).then(async |piece| {
        tokio::time::sleep(DRIP).await;
        Ok::<_, io::Error>(piece)
    });
    Body::from_stream(pieces)
}

async fn answer(
    State(world): State<Arc<Mutex<World>>>,
    uri: Uri,
    headers: HeaderMap,
) -> Response<Body> {
    let mut world = world.lock().unwrap();
    world.requests += 1;
    let peril = world.peril;
    let authorization = headers.get("authorization");
    match peril {
        Peril::Status(code) => return status(code),
        Peril::Elsewhere => return to(ELSEWHERE),
        Peril::Moved(port) => return to(&format!("http://127.0.0.1:{port}{uri}")),
        Peril::ShardsElsewhere if uri.path().contains("/shard-") => return to(ELSEWHERE),
        Peril::Busy if world.disturb() => return status(503),
        Peril::Endless(what) if uri.path().ends_with(what) => return endless(),
        Peril::WantsToken if authorization.is_none_or(|it| it != "Bearer secret") => {
            return status(401);
        }
        _ => {}
    }
    if uri.path() == "/" {
        let list = r#"[{"bits":12,"path":"/table-12/"},{"bits":15,"path":"/../../etc/"}]"#;
        return Response::new(list.into());
    }
    let Some(name) = uri.path().strip_prefix("/table-15/") else {
        return status(404);
    };
    let Some(mut bytes) = world.files.get(name).cloned() else {
        return status(404);
    };
    match (peril, name) {
        (Peril::NoManifest, "manifest.json") => bytes = "{}".into(),
        (Peril::FlipIn(file, at), name) if file == name => {
            let mut flipped = bytes.to_vec();
            flipped[at] ^= 1 << (at % 8);
            bytes = flipped.into();
        }
        (Peril::Drip("manifest.json", size), "manifest.json") => {
            return Response::new(slowly(&bytes, size));
        }
        (Peril::OtherSums, "SHA256SUMS") => bytes = bytes.to_ascii_uppercase().into(),
        _ => {}
    }
    if name.starts_with("shard-") {
        answer_shard(&mut world, name, &bytes, &headers)
    } else {
        Response::new(bytes.into())
    }
}

fn answer_shard(
    world: &mut World,
    name: &str,
    whole: &Bytes,
    headers: &HeaderMap,
) -> Response<Body> {
    let peril = world.peril;
    let mut bytes = whole.to_vec();
    match peril {
        Peril::EmptyAnswer => return status(204),
        Peril::LongShards => bytes.push(0),
        Peril::ShortShards => bytes.truncate(whole.len() - 1),
        Peril::Flip => bytes[40] ^= 1,
        Peril::FlipOnce if !world.flipped.iter().any(|flipped| flipped == name) => {
            bytes[40] ^= 1;
            world.disturbed += 1;
            world.flipped.push(name.into());
        }
        _ => {}
    }
    let length = bytes.len();
    let range = headers
        .get("range")
        .filter(|_| peril != Peril::CutWithoutRanges);
    let range = range.and_then(|range| {
        let (from, last) = range
            .to_str()
            .ok()?
            .strip_prefix("bytes=")?
            .split_once('-')?;
        Some((from.parse::<usize>().ok()?, last.parse::<usize>().ok()? + 1))
    });
    let mut response = Response::builder();
    if let Some((from, end)) = range {
        if peril == Peril::NoSuchRange {
            return status(416);
        }
        world.continued += u32::from(from > 0);
        let mut first = from;
        let end = end + usize::from(peril == Peril::RangeBeyond);
        bytes = bytes[from..end.min(length)].to_vec();
        let last = from + bytes.len() - 1;
        match peril {
            Peril::RangeElsewhere => first += 1,
            Peril::RangeTooLong => bytes.extend([0; 9]),
            _ => {}
        }
        response = response.status(StatusCode::PARTIAL_CONTENT);
        if peril != Peril::RangeUnsaid {
            let range = format!("bytes {first}-{last}/{length}");
            response = response.header("content-range", range);
        }
    }
    world.sent += bytes.len();
    match peril {
        Peril::Cut | Peril::CutWithoutRanges if world.disturb() => {
            let cut = world.below(bytes.len());
            let lost = Err(io::Error::other("cut"));
            let start = Ok(Bytes::from(bytes[..cut].to_vec()));
            // The first bytes leave before the connection is cut.
            let body = tokio_stream::iter([start, lost]).then(|piece| async {
                tokio::time::sleep(Duration::from_millis(2)).await;
                piece
            });
            let body = Body::from_stream(body);
            response.header("content-length", bytes.len()).body(body)
        }
        Peril::Drip("shards", size) => response.body(slowly(&bytes, size)),
        Peril::RangeTooLong => {
            let pieces = [Ok::<_, io::Error>(Bytes::from(bytes))];
            response.body(Body::from_stream(tokio_stream::iter(pieces)))
        }
        _ => response.body(bytes.into()),
    }
    .unwrap()
}
