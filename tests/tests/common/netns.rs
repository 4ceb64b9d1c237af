//! Networks of a test: a coordinator and workers in namespaces of their own, with a router between
//! them that can lose what it should pass on, in one direction or both.
//!
//! Needs root, and the program `ip`.

use std::process::Command;

use super::cluster::{Cluster, Process};
use super::wrapped;

/// Where the coordinator is.
pub(crate) const COORDINATOR: usize = 0;

/// How a link is cut.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Cut {
    /// Nothing gets through.
    Both,
    /// Packets to the router are lost; those from it get through.
    Outwards,
    /// The reverse.
    Inwards,
    /// The router says that there is no way.
    Unreachable,
    /// The cable is pulled out.
    Unplugged,
}

/// A router with namespaces around it. Dropping it removes them.
#[derive(Debug)]
pub(crate) struct Network {
    name: String,
    hosts: usize,
}

impl Network {
    /// A network of `hosts` hosts, or the reason why there can be none here.
    pub(crate) fn new(hosts: usize) -> Result<Network, String> {
        let name = format!("chomp-{}", std::process::id());
        let network = Network { name, hosts };
        let router = network.router();
        ip(&format!("netns add {router}"))?;
        ip(&format!(
            "netns exec {router} sysctl -qw net.ipv4.ip_forward=1"
        ))?;
        for host in 0..hosts {
            let (inside, gateway) = (network.namespace(host), format!("10.77.{host}.1"));
            for command in [
                format!("netns add {inside}"),
                format!("link add to{host} netns {router} type veth peer name out netns {inside}"),
                format!("-n {router} addr add {gateway}/24 dev to{host}"),
                format!("-n {router} link set to{host} up"),
                format!("-n {inside} addr add {}/24 dev out", address(host)),
                format!("-n {inside} link set lo up"),
                format!("-n {inside} link set out up"),
                format!("-n {inside} route add default via {gateway}"),
            ] {
                ip(&command)?;
            }
        }
        Ok(network)
    }

    fn router(&self) -> String {
        format!("{}-router", self.name)
    }

    fn namespace(&self, host: usize) -> String {
        format!("{}-{host}", self.name)
    }

    /// Starts a process on a host.
    pub(crate) fn start(&self, host: usize, cluster: &Cluster, command: &Command) -> Process {
        let namespace = ["netns", "exec", &self.namespace(host)];
        cluster.start(&mut wrapped("ip", &namespace, command))
    }

    /// Cuts the link of a host.
    pub(crate) fn cut(&self, host: usize, cut: Cut) {
        let address = address(host);
        for (number, which) in cut.rules(host) {
            let kind = match cut {
                Cut::Unreachable => "unreachable",
                _ => "blackhole",
            };
            self.change(&format!("rule add pref {number} {which} {address} {kind}"));
        }
        if cut == Cut::Unplugged {
            self.change(&format!("link set to{host} down"));
        }
    }

    /// Undoes a cut.
    pub(crate) fn mend(&self, host: usize, cut: Cut) {
        for (number, _) in cut.rules(host) {
            self.change(&format!("rule del pref {number}"));
        }
        if cut == Cut::Unplugged {
            self.change(&format!("link set to{host} up"));
        }
    }

    /// Changes the router.
    fn change(&self, what: &str) {
        let changed = ip(&format!("-n {} {what}", self.router()));
        changed.expect("the network of this test");
    }
}

impl Cut {
    /// The router's rules that are a cut: their numbers, and whether they are for what comes from a host or for what
    /// goes there. The numbers are lower than that of the rule by which it finds itself, so none is about the router's
    /// own addresses.
    fn rules(self, host: usize) -> Vec<(usize, &'static str)> {
        let (outwards, inwards) = ((100 + 2 * host, "from"), (101 + 2 * host, "to"));
        match self {
            Cut::Both | Cut::Unreachable => vec![outwards, inwards],
            Cut::Outwards => vec![outwards],
            Cut::Inwards => vec![inwards],
            Cut::Unplugged => Vec::new(),
        }
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Namespaces that were never made cannot be removed.
        for host in 0..self.hosts {
            let _ = ip(&format!("netns del {}", self.namespace(host)));
        }
        let _ = ip(&format!("netns del {}", self.router()));
    }
}

pub(crate) fn address(host: usize) -> String {
    format!("10.77.{host}.2")
}

fn ip(arguments: &str) -> Result<(), String> {
    let output = Command::new("ip").args(arguments.split(' ')).output();
    let output = output.map_err(|error| format!("ip cannot be started: {error}"))?;
    if output.status.success() {
        Ok(())
    } else {
        let said = String::from_utf8_lossy(&output.stderr);
        Err(format!("ip {arguments}: {}", said.trim()))
    }
}
