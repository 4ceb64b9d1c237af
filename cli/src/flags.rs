//! Flags that several commands have.

use std::ffi::OsStr;
use std::fmt;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::num::{NonZeroU16, NonZeroUsize};
use std::ops::RangeInclusive;
use std::path::PathBuf;

use bytesize::ByteSize;
use chomp_plan::HEAD_BITS_MAX;
use chomp_store::location::{StoreLocation, local};
use chomp_table::RangeBits;
use chomp_table::position::TIMES;
use clap::builder::{OsStringValueParser, TypedValueParser};
use reqwest::Url;

use crate::machine;

/// The usual directory of tables.
pub(crate) const TABLE: &str = "chomp-table";

/// The bits of the smallest position, the poison alone.
pub(crate) const BITS_MIN: u32 = 2;
/// With more bits, even the largest ranges are too many for a plan.
pub(crate) const BITS_MAX: u32 = RangeBits::MAX + HEAD_BITS_MAX;

/// The longest side of a board that `chomp box` takes.
const SIDE_MAX: u32 = 200_000;

/// Parses a flag's environment variable.
pub(crate) fn flag(text: &str) -> Result<bool, &'static str> {
    match text.to_ascii_lowercase().as_str() {
        "true" | "yes" | "on" | "t" | "y" | "1" => Ok(true),
        "false" | "no" | "off" | "f" | "n" | "0" => Ok(false),
        _ => Err("the variable of a flag is true or false"),
    }
}

pub(crate) fn number<T: TryFrom<u64>>(
    limits: RangeInclusive<u64>,
) -> impl Fn(&str) -> Result<T, String> + Clone + Send + Sync + 'static {
    move |text| {
        let number = text.parse().ok().filter(|number| limits.contains(number));
        let number = number.and_then(|number| T::try_from(number).ok());
        number.ok_or_else(|| match (limits.start(), limits.end()) {
            (0, &u64::MAX) => "a whole number is wanted".to_owned(),
            (least, &u64::MAX) => format!("a whole number of at least {least} is wanted"),
            (least, most) => format!("a whole number from {least} to {most} is wanted"),
        })
    }
}

pub(crate) fn bits(text: &str) -> Result<u32, String> {
    number(BITS_MIN.into()..=BITS_MAX.into())(text)
}

pub(crate) fn count(text: &str) -> Result<NonZeroUsize, String> {
    let count = number::<usize>(1..=u64::MAX)(text)?;
    Ok(NonZeroUsize::new(count).expect("at least 1"))
}

pub(crate) fn size(text: &str) -> Result<ByteSize, &'static str> {
    let wrong = "a size with a unit is wanted, as 8GiB or 500MB, or a number of bytes";
    text.parse().map_err(|_| wrong)
}

/// The rows and columns of a rectangle, as 8x10.
pub(crate) fn sides(text: &str) -> Result<(u32, u32), String> {
    let side = number(1..=SIDE_MAX.into());
    let sides = text.split_once(TIMES);
    let sides = sides.and_then(|(rows, columns)| {
        let [rows, columns] = [rows, columns].map(|text| side(text.trim()));
        Some((rows.ok()?, columns.ok()?))
    });
    sides.ok_or_else(|| format!("rows x columns are wanted, as 8x10, each from 1 to {SIDE_MAX}"))
}

/// Parses `HOST:PORT`, where the host may be a name; or `PORT`, of loopback; or `:PORT`, of all addresses of this
/// machine.
pub(crate) fn address(text: &str) -> Result<SocketAddr, &'static str> {
    if let Ok(port) = text.parse() {
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    if let Some(Ok(port)) = text.strip_prefix(':').map(str::parse) {
        return Ok((Ipv4Addr::UNSPECIFIED, port).into());
    }
    let found = text.to_socket_addrs().ok();
    let found = found.and_then(|all| all.min_by_key(SocketAddr::is_ipv6));
    found.ok_or("an address is HOST:PORT, as 0.0.0.0:7171 or localhost:7171, or the port alone")
}

/// The host by which others reach this machine, an IPv6 address in brackets, and the port if it is not that of
/// `--listen`.
pub(crate) type Advertised = (String, Option<u16>);

pub(crate) fn advertised(text: &str) -> Result<Advertised, &'static str> {
    let wrong = "workers take a name in ASCII letters or an address, as big-machine, 192.0.2.7 or [2001:db8::7], and \
                 after a colon the port if it is another than that of --listen";
    let (host, port) = match text.rsplit_once(':') {
        _ if text.parse::<Ipv6Addr>().is_ok() => (format!("[{text}]"), None),
        Some((host, port)) if !port.ends_with(']') => {
            let port = port.parse::<NonZeroU16>().map_err(|_| wrong)?;
            (host.to_owned(), Some(port))
        }
        _ => (text.to_owned(), None),
    };
    let url = Url::parse(&format!("http://{host}")).map_err(|_| wrong)?;
    let found = url.host_str().unwrap_or_default();
    let ip = found.trim_matches(['[', ']']).parse::<IpAddr>();
    if url.as_str() != format!("http://{found}/") || ip.is_ok_and(|ip| ip.is_unspecified()) {
        return Err(wrong);
    }
    Ok((found.to_owned(), port.map(NonZeroU16::get)))
}

/// The table to compute.
#[derive(Clone, Copy, Debug, clap::Args)]
pub(crate) struct WantedTable {
    /// Compute all positions of at most this many bits (first row + number of rows)
    #[arg(long, value_name = "N", value_parser = bits)]
    pub(crate) bits: u32,

    /// Work on ranges of 2^B numbers, half of which are words, from 2^12 to 2^32 [default: the table's, or chosen by
    /// bits, threads and memory]
    #[arg(long, value_name = "B", value_parser = range_bits)]
    pub(crate) range_bits: Option<RangeBits>,
}

/// The table to build.
#[derive(Debug, clap::Args)]
pub(crate) struct TableArgs {
    /// The directory of the table; made if it is not there
    #[arg(long, value_name = "DIR", default_value = TABLE, value_parser = path())]
    pub(crate) table: PathBuf,

    /// Where parts, journal and shards lie: a directory that workers can reach too, or `s3://BUCKET/PREFIX`,
    /// `gs://…` or `az://…` [default: the directory of the table]
    #[arg(long, value_name = "DIR|URL", value_parser = location())]
    pub(crate) store: Option<StoreLocation>,

    /// Keep the journal in this directory. This is for a store that would replace an object instead of refusing to
    /// create it twice
    #[arg(long, value_name = "DIR", requires = "store", value_parser = path())]
    pub(crate) journal: Option<PathBuf>,

    /// Remove this segment of the journal, the last one, which is damaged: its ranges are computed again
    #[arg(long, value_name = "N", value_parser = number::<u64>(0..=u64::MAX))]
    pub(crate) without_segment: Option<u64>,

    /// Keep the finished ranges when the table is published. To extend it is faster then, as they need not be restored
    /// from the shards
    #[arg(long, value_parser = flag)]
    pub(crate) keep_parts: bool,

    /// Print the summary as one JSON object, and events to stderr, one JSON object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}

/// How much of this machine to take.
#[derive(Debug, clap::Args)]
pub(crate) struct ShareArgs {
    /// The number of threads that compute [default: one for each CPU that the system, the container or Slurm grants]
    #[arg(long, value_parser = count, value_name = "T")]
    pub(crate) threads: Option<NonZeroUsize>,

    /// Use at most this much memory, as 4GiB; less is slower [default: three quarters of what is free, within the
    /// limits of the control group, of Slurm and of ulimit -v]
    #[arg(long, value_parser = size, value_name = "SIZE")]
    pub(crate) memory: Option<ByteSize>,
}

impl ShareArgs {
    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.threads.unwrap_or_else(machine::threads)
    }

    pub(crate) fn memory_bytes(&self) -> anyhow::Result<u64> {
        match self.memory {
            Some(memory) => Ok(memory.as_u64()),
            None => machine::memory_bytes(),
        }
    }

    /// The error that the memory is too small. Without `--memory`, it names the limit that decided how much is taken.
    pub(crate) fn too_small(&self, error: impl Into<anyhow::Error>) -> anyhow::Error {
        match self.memory.is_none().then(machine::memory_limit) {
            Some(Ok((_, limit))) => error.into().context(format!(
                "without --memory, {limit} decides how much is taken"
            )),
            _ => error.into(),
        }
    }
}

/// The coordinator to speak to.
#[derive(Debug, clap::Args)]
pub(crate) struct ReachArgs {
    /// Where the coordinator listens, as `https://host:7171` [default: as the access file says]
    #[arg(long, value_name = "URL", value_parser = url)]
    pub(crate) coordinator: Option<String>,

    /// The access file that the coordinator wrote; `-` for standard input. Not needed for a coordinator of the same
    /// user on this machine
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,
}

#[derive(Clone, Debug)]
pub(crate) enum TablePlace {
    /// A directory or file of this machine.
    Here(PathBuf),
    /// The address of a server, or of a bucket.
    Elsewhere(String),
}

impl TablePlace {
    fn parse(text: &OsStr) -> Result<TablePlace, String> {
        let address = text.to_str().and_then(|text| text.split_once("://"));
        let elsewhere = || TablePlace::Elsewhere(text.display().to_string());
        match address {
            None | Some(("file", _)) => {
                let path = local(text).map_err(|error| error.to_string());
                path.map(TablePlace::Here)
            }
            Some(("http" | "https", _)) => Ok(elsewhere()),
            _ if StoreLocation::is_of_bucket(&text.to_string_lossy()) => {
                StoreLocation::parse(&text.to_string_lossy()).map_err(|error| error.to_string())?;
                Ok(elsewhere())
            }
            Some((scheme, _)) => Err(format!(
                "no table is read from {scheme}://: give a directory, http:// or https://, or a bucket as s3://, gs:// or az://"
            )),
        }
    }
}

impl fmt::Display for TablePlace {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            TablePlace::Here(path) => path.display().fmt(f),
            TablePlace::Elsewhere(address) => f.write_str(address),
        }
    }
}

/// The table to read, wherever it is.
#[derive(Debug, clap::Args)]
pub(crate) struct SourceArgs {
    /// The table: its directory, or the address of a coordinator, of `chomp serve`, or of a bucket, as
    /// `s3://bucket/tables`; for `query` and `openings` also one shard, as a file
    #[arg(long, value_name = "DIR|FILE|URL", default_value = TABLE, value_parser = place())]
    pub(crate) table: TablePlace,

    /// Of `chomp query`: whether a flag or a variable names the table.
    #[arg(skip)]
    pub(crate) is_named: bool,

    /// The access file of the coordinator, for its certificate
    #[arg(long, value_name = "FILE", value_parser = path())]
    pub(crate) access: Option<PathBuf>,
}

pub(crate) fn url(text: &str) -> Result<String, String> {
    match text.split_once("://") {
        Some(("http" | "https", rest)) if !rest.contains(['@', '?', '#']) => {
            Ok(text.trim_end_matches('/').to_owned())
        }
        _ => Err(
            "an address looks like https://host:7171, without a user's name, a ? or a #".to_owned(),
        ),
    }
}

pub(crate) fn place() -> impl TypedValueParser<Value = TablePlace> {
    OsStringValueParser::new().try_map(|text| TablePlace::parse(&text))
}

pub(crate) fn path() -> impl TypedValueParser<Value = PathBuf> {
    OsStringValueParser::new().try_map(|text| local(&text))
}

pub(crate) fn location() -> impl TypedValueParser<Value = StoreLocation> {
    OsStringValueParser::new().try_map(|text| match text.to_str() {
        Some(text) => StoreLocation::parse(text),
        // An address is UTF-8, so this is a path.
        None => local(&text).map(StoreLocation::Directory),
    })
}

pub(crate) fn range_bits(text: &str) -> Result<RangeBits, String> {
    let bits = number(RangeBits::MIN.into()..=RangeBits::MAX.into())(text)?;
    Ok(RangeBits::new(bits).expect("within the limits"))
}
