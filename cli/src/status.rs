//! `chomp status`: shows the progress of a job, or what a directory has of a table.

use std::io;
use std::path::Path;
use std::time::Duration;

use anyhow::Context;
use chomp_access::Access;
use chomp_coordinator::status::{Status, WorkerStatus};
use chomp_download::{Reach, ServerPatience};
use chomp_grundy::areas_done;
use chomp_plan::{Settings, counted, forecast};
use chomp_store::location::StoreLocation;
use chomp_store::objects::TableLock;
use chomp_store::{Ledger, journal};
use chomp_table::format::escape_control;
use chomp_table::reader::{AnyTable, TableError, TableName, locate};
use chomp_table::{Head, head};
use indicatif::{HumanBytes, HumanCount, HumanDuration};
use reqwest::Url;
use serde_json::{Map, Value, json};
use tokio::net::TcpStream;

use crate::TestOverrides;
use crate::access::ACCESS_NAME;
use crate::connect::{self, is_there};
use crate::exit::Exit;
use crate::failure::exit_of;
use crate::flags::{ReachArgs, TABLE, TablePlace, flag, place};
use crate::progress::{self, Display, rate_text as rate, time_left};
use crate::source;
use crate::summary::TextReport;

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

/// The time limit for the test whether the owner of a table still listens.
const CONNECT_TIMEOUT: Duration = Duration::from_secs(1);
/// The longest answer: that of a job with many thousand workers.
const ANSWER_BYTES_MAX: u64 = 16 << 20;
const REASON_CHARS_MAX: usize = 300;

pub(crate) async fn run(args: StatusArgs, display: &Display) -> anyhow::Result<()> {
    let patience = ServerPatience::USUAL.hastened(display.overrides().limit_haste);
    let named = args.reach.access.is_some() || args.reach.coordinator.is_some();
    let status = match &args.table {
        _ if named => Some(ask(&connect::coordinator(&args.reach)?, patience).await?),
        TablePlace::Here(directory) if directory.is_dir() => ask_owner(directory, patience).await?,
        TablePlace::Here(_) => None,
        TablePlace::Elsewhere(bucket) if StoreLocation::is_of_bucket(bucket) => None,
        TablePlace::Elsewhere(url) => Some(ask(&connect::access_by_url(url)?, patience).await?),
    };
    if let Some(status) = status {
        return crate::print_as(args.json, &status, text);
    }
    let found = look(&args.table, display.overrides()).await?;
    crate::print_as(args.json, &found.json, |_| found.text())
}

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
        // Another program may have the address by now.
        Err(error) if exit_of(&error) != Exit::Refused => Ok(None),
        asked => asked.map(Some),
    }
}

/// Whether connections to this address are refused: then its coordinator has ended.
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

/// Asks a coordinator for its status. The token is sent to its address alone: redirects are not followed.
pub(crate) async fn ask(access: &Access, patience: ServerPatience) -> anyhow::Result<Status> {
    let url = &access.coordinator;
    let reach = Reach {
        from: url.clone(),
        ca: access.ca.clone(),
        token: access.token.clone(),
        patience,
    };
    let answer = chomp_download::ask(reach, "status", ANSWER_BYTES_MAX).await;
    let answer = answer.with_context(|| {
        format!("no status of the coordinator at {url}: check the address, and that it is running")
    })?;
    let strange = |what| {
        Exit::Unreachable.error(format!(
            "what is at {url} answers, but not as a coordinator does: {what}; check the address"
        ))
    };
    match answer.status {
        200 => serde_json::from_slice(&answer.body)
            .map_err(|error| strange(format!("its status is not understood: {error}"))),
        404 => Err(strange("it has no /status".to_owned())),
        status => {
            let problem: Value = serde_json::from_slice(&answer.body).unwrap_or_default();
            let reason = problem["error"].as_str().unwrap_or("it does not say why");
            let reason: String = reason.chars().take(REASON_CHARS_MAX).collect();
            let reason = escape_control(&reason, &[]);
            Err(Exit::Refused.error(format!(
                "the coordinator at {url} refuses with status {status}: {reason}"
            )))
        }
    }
}

fn text(status: &Status) -> String {
    let phase = json!(status.phase);
    let phase = phase.as_str().unwrap_or_default();
    let mut lines = TextReport::new(format_args!("{} bits, {phase}", status.bits));
    // Reasons and names come from others, and each is one line.
    let mut line = |name: &str, value: &str| lines.line(name, escape_control(value, &[]));
    if let Some(reason) = &status.waiting_for {
        line("waiting", reason);
    }
    let layer = status.layer.saturating_add(1).min(status.layers);
    line("layer", &format!("{layer} of {}", status.layers));
    let (done, ranges) = (HumanCount(status.ranges_done), HumanCount(status.ranges));
    let leases = counted(status.leases, "lease");
    let results = counted(status.results_waiting, "result");
    line(
        "ranges",
        &format!("{done} of {ranges} done, {leases}, {results} being written"),
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
        let left = HumanCount(status.arbitrations);
        line(
            "referee",
            &format!("{left} ranges or shards are left to it"),
        );
    }
    line("replicas", &status.replicas.to_string());
    for worker in &status.workers {
        line("worker", &describe(worker));
    }
    lines.into_text()
}

fn describe(worker: &WorkerStatus) -> String {
    if let Some(reason) = &worker.out {
        return format!(
            "{}, of {}: gets no more tasks: {reason}",
            worker.name, worker.participant
        );
    }
    let unreadable = match worker.unreadable {
        0 => String::new(),
        count => format!(
            "; cannot read what others can: {}",
            counted(count, "record")
        ),
    };
    format!(
        "{}, of {}: {}, {}, {}, {}, {}, heard of {:.1} s ago{unreadable}",
        worker.name,
        worker.participant,
        counted(worker.threads, "thread"),
        counted(worker.leases, "lease"),
        counted(HumanCount(worker.ranges), "range"),
        rate(worker.positions_per_second),
        counted(worker.failures, "failure"),
        Duration::from_millis(worker.last_contact_ms).as_secs_f64(),
    )
}

/// The status of a place without a coordinator: for programs, and as lines for people.
#[derive(Default)]
struct Found {
    json: Map<String, Value>,
    lines: Vec<String>,
}

impl Found {
    /// Adds fields, and a line that says the same.
    fn add(&mut self, fields: Value, line: String) {
        if let Value::Object(fields) = fields {
            self.json.extend(fields);
        }
        self.lines.push(line);
    }

    fn text(&self) -> String {
        self.lines.join("\n") + "\n"
    }
}

/// Looks at a table without owning it. Records are not read.
async fn look(place: &TablePlace, overrides: TestOverrides) -> anyhow::Result<Found> {
    let (location, holder, areas) = match place {
        TablePlace::Here(directory) => (
            StoreLocation::Directory(directory.clone()),
            TableLock::holder(directory),
            areas_done(directory).ok().filter(|&areas| areas > 0),
        ),
        TablePlace::Elsewhere(bucket) => (StoreLocation::parse(bucket)?, None, None),
    };
    let table = source::published(&location, overrides).await?;
    if let TablePlace::Here(directory) = place
        && !directory.is_dir()
    {
        return Err(nothing_at(place));
    }
    let storage = location.open_view()?;
    let ledger = journal::read_ledger(&*storage).await;
    let ledger = ledger.with_context(|| crate::owned_store::in_table(&location))?;
    let mut found = Found::default();
    if let Some(table) = &table {
        source::warn_of_wrong_fingerprint(&table.manifest(), &table.name().folder());
        add_table(&mut found, table, place);
    }
    let published = match table.map(|table| table.name()) {
        Some(TableName::Losing(bits)) => bits,
        _ => 0,
    };
    if let Some(areas) = areas {
        let line = format!("working files: the Grundy values of {areas} numbers of tiles");
        found.add(json!({ "areas": areas }), line);
    }
    let is_unfinished = ledger.is_some_and(|ledger| {
        add_working_files(&mut found, &ledger, published);
        // A finished job leaves all ranges of its table, with --keep-parts, or none.
        let left = [0, ledger.range_bits.head_count(published)];
        let is_larger = ledger.worked.is_some_and(|(size, _)| size > published);
        published == 0 || is_larger || !left.contains(&(ledger.done_count() as u64))
    });
    if found.lines.is_empty() {
        return Err(nothing_at(place));
    }
    match holder {
        Some(holder) => found.add(json!({ "holder": holder }), format!("in use by {holder}")),
        None if matches!(place, TablePlace::Here(_)) && (is_unfinished || areas.is_some()) => {
            let line = "no process works on it: run the command that began it again to go on";
            found.lines.push(line.to_owned());
        }
        None => {}
    }
    Ok(found)
}

fn nothing_at(place: &TablePlace) -> anyhow::Error {
    match place {
        TablePlace::Here(path) => source::explained(TableError::NotFound { path: path.clone() }),
        TablePlace::Elsewhere(bucket) => Exit::Failed.error(format!(
            "{bucket} has no published table, and no working files of one: `chomp run --store {bucket} --bits N` \
             builds one there"
        )),
    }
}

fn add_table(found: &mut Found, table: &AnyTable, place: &TablePlace) {
    let (name, manifest) = (table.name(), table.manifest());
    let inside = || format!("{place}/{}", name.folder());
    let folder = match place {
        TablePlace::Here(path) => locate(path).ok(),
        TablePlace::Elsewhere(_) => None,
    };
    let folder = folder.map_or_else(inside, |folder| folder.display().to_string());
    let (size, what) = match name {
        TableName::Losing(bits) => ("published_bits", format!("the table of {bits} bits")),
        TableName::Values(tiles) => (
            "published_tiles",
            format!("the Grundy values of {tiles} tiles"),
        ),
    };
    let (losing, _) = source::counts(table);
    let bytes = manifest.shards().iter().map(|shard| shard.bytes).sum();
    let line = format!(
        "finished: {folder}, {what}: {} losing positions, {}",
        HumanCount(losing),
        HumanBytes(bytes)
    );
    let json =
        json!({ size: name.size(), "table": folder, "table_losing": losing, "table_bytes": bytes });
    found.add(json, line);
}

/// Adds what a journal says of finished ranges, and of the job that is not finished: one of more than `published` bits.
fn add_working_files(found: &mut Found, ledger: &Ledger, published: u32) {
    let rows = || ledger.done(u64::MAX).map(|(_, row, _)| row);
    let (range_bits, ranges) = (ledger.range_bits, ledger.done_count() as u64);
    let losing = rows().map(|row| row.count).sum();
    let bytes = rows().map(|row| u64::from(row.length)).sum();
    let json = json!({
        "range_bits": range_bits.get(),
        "segments": ledger.next_segment,
        "ranges_done": ranges,
        "losing": losing,
        "record_bytes": bytes,
    });
    let line = match ranges {
        0 => "working files: of a job that has not finished a range".to_owned(),
        ranges => format!(
            "working files: {} of 2^{} numbers done, {}; {}",
            counted(HumanCount(ranges), "range"),
            range_bits.get(),
            HumanBytes(bytes),
            counted(HumanCount(losing), "losing position"),
        ),
    };
    found.add(json, line);
    if ranges == 0 && published > 0 {
        // The parts of a finished table are removed, so the line would be wrong.
        found.lines.pop();
    }
    let worked = ledger
        .worked
        .filter(|&(size, _)| ranges > 0 && size > published);
    let worked = worked.filter(|&(size, _)| Settings::new(size, range_bits).validate().is_ok());
    let Some((size, seconds)) = worked else {
        return;
    };
    let done = ledger
        .done(range_bits.head_count(size))
        .map(|(head, ..)| head);
    let done: Vec<Head> = done.collect();
    let work = forecast::JobCost::new(size, range_bits);
    let done = work.fraction_done(&head::layers(size, range_bits), &done);
    let time = Duration::from_secs(seconds);
    // The forecast assumes that the job goes on at its average pace so far.
    let left = time_left(0.0, done, time);
    let seconds_left = left.map(|left| left.as_secs_f64());
    let left = left.map(|left| format!(", {} left", HumanDuration(left)));
    found.add(
        json!({ "job": {
            "size": size,
            "done": done,
            "seconds": seconds,
            "seconds_left": seconds_left,
        } }),
        format!(
            "job: {} % of {size} bits done in {}{}",
            progress::steps(done, 100),
            HumanDuration(time),
            left.unwrap_or_default(),
        ),
    );
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
        let named = |name: &str, out: Option<&str>| WorkerStatus {
            name: name.to_owned(),
            participant: "ann".to_owned(),
            out: out.map(str::to_owned),
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
        ] {
            assert!(text.contains(shown), "{shown} in {text}");
        }
    }
}
