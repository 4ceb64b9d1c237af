//! `chomp status`: shows the progress of a job, or what a directory has of a table.

use std::io;
use std::path::{Path, PathBuf};
use std::time::Duration;

use anyhow::Context;
use chomp_access::Access;
use chomp_coordinator::status::{Status, WorkerStatus};
use chomp_download::{DownloadError, Outage, Reach, ServerPatience};
use chomp_grundy::areas_done;
use chomp_plan::{Settings, forecast};
use chomp_store::location::Location;
use chomp_store::objects::TableLock;
use chomp_store::{Ledger, journal};
use chomp_table::format::shown;
use chomp_table::reader::{Table, TableError, TableName};
use chomp_table::values::Values;
use chomp_table::{Head, head};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use reqwest::{StatusCode, Url};
use serde::Serialize;
use serde_json::{Value, json};
use tokio::net::TcpStream;

use crate::Haste;
use crate::access::ACCESS_NAME;
use crate::connect::{self, is_there};
use crate::flags::{ReachArgs, TABLE, TablePlace, flag, place};
use crate::progress::{self, Display, rate_text as rate, time_left};
use crate::summary::Lines;

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp status
  chomp status --table s3://bucket/tables
  chomp status --access access.json --json")]
pub(crate) struct StatusArgs {
    #[command(flatten)]
    pub(crate) reach: ReachArgs,

    /// Look at the table in this directory or bucket, when no coordinator is named
    #[arg(long, value_name = "DIR|URL", default_value = TABLE, value_parser = place())]
    pub(crate) table: TablePlace,

    /// Print it as one JSON object
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// How long it may take to find out whether somebody listens where the owner of a table did.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer: that of a job with many thousand workers.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
/// The longest reason of a coordinator that is shown.
const REASON_CHARS_MAX: usize = 300;

/// Why a coordinator gives no status.
#[derive(Debug, thiserror::Error)]
pub(crate) enum AskError {
    #[error(
        "the coordinator at {url} cannot be reached: check the address, and that it is running"
    )]
    Unreachable { url: String, source: Outage },
    #[error("the coordinator at {url} refuses: {reason}")]
    Refused { url: String, reason: String },
    #[error("what is at {url} answers, but not as a coordinator does: {what}; check the address")]
    Strange { url: String, what: String },
}

pub(crate) async fn run(args: StatusArgs, display: &Display) -> anyhow::Result<()> {
    let patience = ServerPatience::USUAL.hastened(display.haste().limits);
    let named = args.reach.access.is_some() || args.reach.coordinator.is_some();
    let status = match &args.table {
        _ if named => Some(ask(&connect::coordinator(&args.reach)?, patience).await?),
        TablePlace::Here(directory) => ask_owner(directory, patience).await?,
        TablePlace::Elsewhere(bucket) if Location::is_of_bucket(bucket) => None,
        TablePlace::Elsewhere(url) => Some(ask(&connect::local_access(url)?, patience).await?),
    };
    if let Some(status) = status {
        return crate::print_as(args.json, &status, text);
    }
    let found = look(&args.table, display.haste()).await?;
    crate::print_as(args.json, &found, LocalTables::text)
}

/// Asks the coordinator that owns the table in `directory`, if there is one now.
async fn ask_owner(directory: &Path, patience: ServerPatience) -> anyhow::Result<Option<Status>> {
    let file = directory.join(ACCESS_NAME);
    if !is_there(&file)? {
        return Ok(None);
    }
    let access = Access::read(&file)?;
    if is_refused(&access.coordinator).await {
        return Ok(None);
    }
    match ask(&access, patience).await {
        Err(error) if !matches!(error.downcast_ref(), Some(AskError::Refused { .. })) => {
            // Another program may have the address by now.
            Ok(None)
        }
        asked => asked.map(Some),
    }
}

/// Whether nobody listens at this address: then its coordinator has ended.
async fn is_refused(url: &str) -> bool {
    let Ok(url) = Url::parse(url) else {
        return false;
    };
    let Some((host, port)) = url.host_str().zip(url.port_or_known_default()) else {
        return false;
    };
    let connecting = TcpStream::connect((host.trim_matches(['[', ']']), port));
    let connected = tokio::time::timeout(CONNECT_TIMEOUT, connecting).await;
    matches!(connected, Ok(Err(error)) if error.kind() == io::ErrorKind::ConnectionRefused)
}

/// Asks a coordinator. Nobody else gets the token.
async fn ask(access: &Access, patience: ServerPatience) -> anyhow::Result<Status> {
    let url = access.coordinator.clone();
    let reach = Reach {
        from: url.clone(),
        ca: access.ca.clone(),
        token: access.token.clone(),
        patience,
    };
    let answer = match chomp_download::ask(reach, "status", ANSWER_BYTES_MAX).await {
        Err(DownloadError::Unreachable { url, source }) => {
            return Err(AskError::Unreachable { url, source }.into());
        }
        Err(DownloadError::Strange { url, what }) => {
            return Err(AskError::Strange { url, what }.into());
        }
        answer => answer?,
    };
    let status = StatusCode::from_u16(answer.status)?;
    if status == StatusCode::OK {
        return serde_json::from_slice(&answer.body).map_err(|error| {
            let what = format!("its status is not understood: {error}");
            AskError::Strange { url, what }.into()
        });
    }
    if status == StatusCode::NOT_FOUND {
        let what = "it has no /status".to_owned();
        return Err(AskError::Strange { url, what }.into());
    }
    let problem = serde_json::from_slice(&answer.body).unwrap_or(Value::Null);
    let reason = match problem["error"].as_str() {
        Some(error) => {
            let start: String = error.chars().take(REASON_CHARS_MAX).collect();
            format!("{status}: {}", shown(&start, &[]))
        }
        None => status.to_string(),
    };
    Err(AskError::Refused { url, reason }.into())
}

fn text(status: &Status) -> String {
    let phase = json!(status.phase);
    let phase = phase.as_str().unwrap_or_default();
    let mut lines = Lines::new(format_args!("{} bits, {phase}", status.bits));
    // Reasons and names come from others, and each is one line.
    let mut line = |name: &str, value: &str| lines.line(name, shown(value, &[]));
    if let Some(reason) = &status.waiting_for {
        line("waiting", reason);
    }
    let layer = status.layer.saturating_add(1).min(status.layers);
    line("layer", &format!("{layer} of {}", status.layers));
    let (done, ranges) = (HumanCount(status.ranges_done), HumanCount(status.ranges));
    let (leases, results) = (status.leases, status.submissions);
    line(
        "ranges",
        &format!("{done} of {ranges} done, {leases} leases, {results} results being written"),
    );
    line("losing", &HumanCount(status.losing).to_string());
    line("rate", &rate(status.positions_per_second));
    if let Some(seconds) = status.seconds_left {
        let left = Duration::from_secs_f64(seconds.clamp(0.0, 1e9));
        line("left", &HumanDuration(left).to_string());
    }
    if status.shards > 0 {
        let (done, shards) = (HumanCount(status.shards_done), HumanCount(status.shards));
        line("shards", &format!("{done} of {shards} written"));
    }
    if status.arbitrations > 0 {
        line("arbitrations", &HumanCount(status.arbitrations).to_string());
    }
    line("replicas", &status.replicas.to_string());
    for worker in &status.workers {
        line("worker", &describe(worker));
    }
    lines.into_text()
}

fn describe(worker: &WorkerStatus) -> String {
    if let Some(reason) = &worker.quarantined {
        return format!(
            "{}, of {}: gets no more tasks: {reason}",
            worker.name, worker.participant
        );
    }
    let hits = u128::from(worker.cache_hits);
    let found = hits + u128::from(worker.cache_misses);
    let hits = (hits * 100).checked_div(found).unwrap_or(0);
    format!(
        "{}, of {}: {} threads, {} leases, {} ranges, {}, {} failures, {} in its cache ({hits} % hits), heard of {:.1} s ago",
        worker.name,
        worker.participant,
        worker.threads,
        worker.leases,
        HumanCount(worker.ranges),
        rate(worker.positions_per_second),
        worker.failures,
        HumanBytes(worker.cache_bytes),
        Duration::from_millis(worker.last_contact_ms).as_secs_f64(),
    )
}

/// The published tables and working files of a place without a coordinator.
#[derive(Debug, Serialize)]
struct LocalTables {
    /// The bits of the largest published table.
    published_bits: Option<u32>,
    /// The tiles of the largest published table of Grundy values.
    #[serde(skip_serializing_if = "Option::is_none")]
    published_tiles: Option<u32>,
    /// Which process of this machine has locked the directory.
    #[serde(skip_serializing_if = "Option::is_none")]
    holder: Option<String>,
    /// The numbers of tiles whose Grundy values are done, of a table that is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    areas: Option<usize>,
    #[serde(flatten)]
    work: Option<WorkingFiles>,
}

/// The working files of a table, from its journal.
#[derive(Debug, Serialize)]
struct WorkingFiles {
    /// The bits of a range.
    range_bits: u32,
    /// The segments of the journal.
    segments: u64,
    ranges_done: u64,
    losing: u64,
    /// The bytes of the records of these ranges.
    record_bytes: u64,
    /// How far the last job is, if it is not finished.
    #[serde(skip_serializing_if = "Option::is_none")]
    job: Option<JobStatus>,
}

/// How far a job is.
#[derive(Debug, Serialize)]
struct JobStatus {
    /// Its bits.
    size: u32,
    /// The part of its work that is done, from 0 to 1.
    done: f64,
    /// The time of all its runs together.
    seconds: u64,
    /// The seconds to its end, if it goes on as fast.
    seconds_left: Option<f64>,
}

/// Looks at a table without owning it. Records are not read.
async fn look(place: &TablePlace, haste: Haste) -> anyhow::Result<LocalTables> {
    let (location, [published_bits, published_tiles], holder, areas) = match place {
        TablePlace::Here(directory) => (
            Location::Directory(directory.clone()),
            [
                found(Table::open(directory))?.map(|table| table.manifest().bits),
                found(Values::open(directory))?.map(|values| values.manifest().tiles),
            ],
            TableLock::holder(directory),
            areas_done(directory).ok().filter(|&areas| areas > 0),
        ),
        TablePlace::Elsewhere(bucket) => {
            let location = Location::parse(bucket)?;
            (location, published(bucket, haste).await?, None, None)
        }
    };
    let storage = location.open_view()?;
    let ledger = journal::look(&*storage).await;
    let ledger = ledger.with_context(|| crate::directory::in_table(&location))?;
    if published_bits.is_none() && published_tiles.is_none() && ledger.is_none() && areas.is_none()
    {
        let path = PathBuf::from(place.to_string());
        return Err(TableError::NotFound { path }.into());
    }
    Ok(LocalTables {
        published_bits,
        published_tiles,
        holder,
        areas,
        work: ledger.as_ref().map(WorkingFiles::of),
    })
}

/// The bits, or the tiles, of the first table in a bucket.
async fn published(bucket: &str, haste: Haste) -> anyhow::Result<[Option<u32>; 2]> {
    match chomp_download::open(connect::tables(bucket, None, haste)?).await {
        Ok(table) => Ok(match table.name() {
            TableName::Losing(bits) => [Some(bits), None],
            TableName::Values(tiles) => [None, Some(tiles)],
        }),
        Err(DownloadError::NoTable { .. }) => Ok([None; 2]),
        Err(error) => Err(error.into()),
    }
}

/// The opened table, or none if there is no table.
fn found<T>(opened: Result<T, TableError>) -> Result<Option<T>, TableError> {
    match opened {
        Ok(found) => Ok(Some(found)),
        Err(TableError::NotFound { .. }) => Ok(None),
        Err(error) => Err(error),
    }
}

impl WorkingFiles {
    fn of(ledger: &Ledger) -> WorkingFiles {
        let places = || ledger.done(u64::MAX).map(|(_, place)| place);
        WorkingFiles {
            range_bits: ledger.range_bits.get(),
            segments: ledger.next,
            ranges_done: ledger.len() as u64,
            losing: places().map(|place| place.count).sum(),
            record_bytes: places().map(|place| u64::from(place.length)).sum(),
            job: JobStatus::of(ledger),
        }
    }
}

impl JobStatus {
    /// None if nothing is done, or all is published, or the journal does not tell.
    fn of(ledger: &Ledger) -> Option<JobStatus> {
        let (size, seconds) = ledger.worked.filter(|_| !ledger.is_empty())?;
        let range_bits = ledger.range_bits;
        Settings::new(size, range_bits).check().ok()?;
        let done = ledger.done(range_bits.heads(size)).map(|(head, _)| head);
        let done: Vec<Head> = done.collect();
        let work = forecast::JobWork::new(size, range_bits);
        let done = work.part(&head::layers(size, range_bits), &done);
        let left = time_left(0.0, done, Duration::from_secs(seconds));
        Some(JobStatus {
            size,
            done,
            seconds,
            seconds_left: left.map(|left| left.as_secs_f64()),
        })
    }
}

impl LocalTables {
    fn text(&self) -> String {
        let mut lines = Vec::new();
        let bits = self.published_bits;
        lines.extend(bits.map(|bits| format!("published: the table of {bits} bits")));
        let tiles = self.published_tiles;
        lines.extend(tiles.map(|tiles| format!("published: the Grundy values of {tiles} tiles")));
        let areas = self
            .areas
            .map(|areas| format!("working files: the Grundy values of {areas} numbers of tiles"));
        lines.extend(areas);
        if let Some(work) = &self.work {
            lines.push(format!(
                "working files: {} ranges of 2^{} words done, {}; {} losing positions",
                HumanCount(work.ranges_done),
                work.range_bits,
                HumanBytes(work.record_bytes),
                HumanCount(work.losing),
            ));
        }
        if let Some(job) = self.work.as_ref().and_then(|work| work.job.as_ref()) {
            let left = job.seconds_left.map(Duration::from_secs_f64);
            let left = left.map(|left| format!(", {} left", HumanDuration(left)));
            lines.push(format!(
                "job: {} % of {} bits done in {}{}",
                progress::steps(job.done, 100),
                job.size,
                HumanDuration(Duration::from_secs(job.seconds)),
                left.unwrap_or_default(),
            ));
        }
        let holder = self.holder.as_ref();
        lines.extend(holder.map(|holder| format!("in use by {holder}")));
        lines.join("\n") + "\n"
    }
}

#[cfg(test)]
mod tests {
    use chomp_access::{Certificate, Token};
    use tokio::io::{AsyncReadExt, AsyncWriteExt};
    use tokio::net::TcpListener;
    use tokio::task::JoinSet;

    use super::*;

    /// The error of asking a server that answers everybody alike, and how many asked.
    async fn asked(answer: &'static str, endless: bool, ca: Option<String>) -> (String, usize) {
        let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (sender, mut asked) = tokio::sync::mpsc::channel(100);
        let mut server = JoinSet::new();
        server.spawn(async move {
            loop {
                let (mut stream, _) = listener.accept().await.unwrap();
                sender.send(()).await.unwrap();
                let mut request = [0; 4096];
                let read = stream.read(&mut request).await.unwrap();
                assert!(read > 0, "somebody asks");
                stream.write_all(answer.as_bytes()).await.unwrap();
                while endless && stream.write_all(&[b' '; 4096]).await.is_ok() {}
            }
        });
        let access = Access {
            coordinator: format!("http://{address}"),
            ca,
            token: Some(Token::new("secret".to_owned())),
        };
        let error = ask(&access, ServerPatience::USUAL)
            .await
            .map(drop)
            .unwrap_err();
        server.abort_all();
        let mut count = 0;
        while asked.try_recv().is_ok() {
            count += 1;
        }
        (format!("{error:#}"), count)
    }

    #[tokio::test]
    async fn a_hostile_coordinator_gets_one_request_and_no_memory() {
        let elsewhere = "HTTP/1.1 307 Temporary Redirect\r\nlocation: http://127.0.0.1:1/status\r\ncontent-length: 0\r\n\r\n";
        let (said, count) = asked(elsewhere, false, None).await;
        assert!(
            said.contains("leads to http://127.0.0.1:1/status"),
            "{said}"
        );
        assert_eq!(count, 1);
        for head in ["HTTP/1.1 200 OK\r\n\r\n", "HTTP/1.1 403 No\r\n\r\n"] {
            let (said, _) = asked(head, true, None).await;
            assert!(said.contains("more than"), "{said}");
        }
        let escapes = "HTTP/1.1 403 No\r\n\r\n{\"error\": \"a\\u001b[31mb\\u0007c\"}";
        let (said, _) = asked(escapes, false, None).await;
        assert!(said.ends_with("a\\u001b[31mb\\u0007c"), "{said:?}");
    }

    #[tokio::test]
    async fn with_a_certificate_nothing_is_said_in_the_clear() {
        let certificate = Certificate::new("test", &["localhost".to_owned()]);
        let ca = certificate.unwrap().pem().to_owned();
        let (said, count) = asked("", false, Some(ca)).await;
        assert!(said.contains("starts with https://"), "{said}");
        assert_eq!(count, 0);
    }

    #[test]
    fn what_workers_say_is_one_line_each_and_commands_no_terminal() {
        let named = |name: &str, quarantined: Option<&str>| WorkerStatus {
            name: name.to_owned(),
            participant: "ann".to_owned(),
            quarantined: quarantined.map(str::to_owned),
            cache_hits: u64::MAX,
            cache_misses: u64::MAX,
            ..WorkerStatus::default()
        };
        let status = Status {
            layer: u32::MAX,
            waiting_for: Some("\u{9b}2J\nphase".to_owned()),
            workers: vec![
                named("\u{1b}[31mred\n  worker a", None),
                named("b", Some("\u{202e}lies")),
            ],
            ..Status::default()
        };
        let text = text(&status);
        assert!(!text.contains(|char: char| char.is_control() && char != '\n'));
        for shown in [
            "\\u009b2J\\u000aphase\n",
            "\\u001b[31mred\\u000a  worker a, of ann: ",
            "b, of ann: gets no more tasks: \\u202elies\n",
            "(50 % hits)",
        ] {
            assert!(text.contains(shown), "{shown} in {text}");
        }
    }
}
