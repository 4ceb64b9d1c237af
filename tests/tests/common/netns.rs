//! Networks of a test: a coordinator and workers in namespaces of their own, with a router between
//! them that can lose what it should pass on, in one direction or both.
//!
//! Needs root, and the program `ip`.

use std::process::Command;

use super::cluster::Cluster;
use super::cluster::Process;

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
            let inside = network.namespace(host);
            ip(&format!("netns add {inside}"))?;
            ip(&format!(
                "link add to{host} netns {router} type veth peer name out netns {inside}"
            ))?;
            ip(&format!(
                "-n {router} addr add {}/24 dev to{host}",
                gateway(host)
            ))?;
            ip(&format!("-n {router} link set to{host} up"))?;
            ip(&format!(
                "-n {inside} addr add {}/24 dev out",
                address(host)
            ))?;
            ip(&format!("-n {inside} link set lo up"))?;
            ip(&format!("-n {inside} link set out up"))?;
            ip(&format!(
                "-n {inside} route add default via {}",
                gateway(host)
            ))?;
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
        let mut inside = Command::new("ip");
        inside.args(["netns", "exec", &self.namespace(host)]);
        inside.arg(command.get_program()).args(command.get_args());
        for (name, value) in command.get_envs() {
            match value {
                Some(value) => inside.env(name, value),
                None => inside.env_remove(name),
            };
        }
        cluster.start(&mut inside)
    }

    /// Cuts the link of a host.
    pub(crate) fn cut(&self, host: usize, cut: Cut) {
        let (router, address) = (self.router(), address(host));
        let [outwards, inwards] = rules(host);
        let rule = |number, which, kind| {
            let added = ip(&format!(
                "-n {router} rule add pref {number} {which} {address} {kind}"
            ));
            added.expect("the network of this test");
        };
        match cut {
            Cut::Both => {
                rule(outwards, "from", "blackhole");
                rule(inwards, "to", "blackhole");
            }
            Cut::Outwards => rule(outwards, "from", "blackhole"),
            Cut::Inwards => rule(inwards, "to", "blackhole"),
            Cut::Unreachable => {
                rule(outwards, "from", "unreachable");
                rule(inwards, "to", "unreachable");
            }
            Cut::Unplugged => self.plug(host, "down"),
        }
    }

    /// Undoes a cut.
    pub(crate) fn mend(&self, host: usize, cut: Cut) {
        let [outwards, inwards] = rules(host);
        let numbers: &[usize] = match cut {
            Cut::Both | Cut::Unreachable => &[outwards, inwards],
            Cut::Outwards => &[outwards],
            Cut::Inwards => &[inwards],
            Cut::Unplugged => return self.plug(host, "up"),
        };
        for number in numbers {
            let deleted = ip(&format!("-n {} rule del pref {number}", self.router()));
            deleted.expect("the network of this test");
        }
    }

    fn plug(&self, host: usize, state: &str) {
        let set = ip(&format!("-n {} link set to{host} {state}", self.router()));
        set.expect("the network of this test");
    }
}

impl Drop for Network {
    fn drop(&mut self) {
        // Those that were never made cannot be removed.
        for host in 0..self.hosts {
            let _ = ip(&format!("netns del {}", self.namespace(host)));
        }
        let _ = ip(&format!("netns del {}", self.router()));
    }
}

pub(crate) fn address(host: usize) -> String {
    format!("10.77.{host}.2")
}

fn gateway(host: usize) -> String {
    format!("10.77.{host}.1")
}

/// The numbers of the router's rules for what comes from a host, and for what goes there. Lower
/// than that of the rule by which it finds itself, so none is about the router's own addresses.
fn rules(host: usize) -> [usize; 2] {
    [100 + 2 * host, 101 + 2 * host]
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
