//! `chomp serve`.

use std::net::{IpAddr, SocketAddr};

use bytesize::ByteSize;
use chomp_serve::net::limits::REQUESTS_A_SECOND;

use super::shared::{SourceArgs, address, flag, size};

#[derive(Debug, clap::Args)]
#[command(after_help = "\
Examples:
  chomp serve --table chomp-table                           then open http://127.0.0.1:7172/
  chomp serve --table chomp-table --http 0.0.0.0:7172       for everybody who can reach this machine
  curl http://127.0.0.1:7172/api/position/5,4,2,1           one position, as JSON
  curl http://127.0.0.1:7172/api/value/5,4,2,1              its Grundy value, if a table has it
  chomp download --from http://127.0.0.1:7172 --out copy    the table itself

The table of the most bits answers questions about losing positions, that of the most tiles those about
Grundy values. A table on a server or in a bucket is downloaded to chomp-table first.
All of it is open and in plain HTTP: for TLS and the open internet put a reverse proxy before it, as those in
deploy/proxy/.
docs/SERVING.md has the routes and the limits.")]
pub(crate) struct ServeArgs {
    #[command(flatten)]
    pub(crate) source: SourceArgs,

    /// Where to listen: HOST:PORT, or the port alone for this machine only
    #[arg(long, value_parser = address, value_name = "ADDR", default_value = "127.0.0.1:7172")]
    pub(crate) http: SocketAddr,

    /// Answer this many requests a second from each address, and bursts of twice as many; 0: no limit
    #[arg(long, value_name = "N", default_value_t = REQUESTS_A_SECOND)]
    pub(crate) rate: u32,

    /// The address of a reverse proxy: its X-Forwarded-For says which client asks, and the limits hold for that
    /// client. Several: repeat it, or separate them with commas
    #[arg(long, value_delimiter = ',', value_name = "IP")]
    pub(crate) trust_proxy: Vec<IpAddr>,

    /// Keep this much of the table in memory; less is slower
    #[arg(long, value_parser = size, value_name = "SIZE", default_value = "64MiB")]
    pub(crate) cache: ByteSize,

    /// Print the address and what the table is as one JSON object, and events to stderr, one JSON
    /// object a line
    #[arg(long, value_parser = flag)]
    pub(crate) json: bool,
}
