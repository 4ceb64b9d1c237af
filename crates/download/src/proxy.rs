//! Proxies, which the environment names as it does for other programs.

use std::env;
use std::fmt;
use std::net::IpAddr;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

/// The variables for addresses that begin with `http:`, `https:` and anything. The first of a line that is set counts.
const HTTP: [&str; 2] = ["HTTP_PROXY", "http_proxy"];
const HTTPS: [&str; 2] = ["HTTPS_PROXY", "https_proxy"];
const ALL: [&str; 2] = ["ALL_PROXY", "all_proxy"];

/// The proxy that the requests to a server go through.
#[derive(Debug)]
pub(crate) struct Proxy {
    variable: &'static str,
    /// Its address, without the name and password that may be in the variable.
    address: String,
}

impl Proxy {
    /// The proxy for the server at `url`. None for this machine itself, and for a server that is `certified`, which has
    /// a certificate of its own: a proxy is for what is elsewhere, and for what everybody knows.
    pub(crate) fn of(url: &Url, certified: bool) -> Option<Proxy> {
        if certified || is_loopback(url) {
            return None;
        }
        let found = Matcher::from_env().intercept(&url.as_str().parse().ok()?)?;
        let own = if url.scheme() == "https" { HTTPS } else { HTTP };
        Some(Proxy {
            variable: set(own).or_else(|| set(ALL)).unwrap_or("the environment"),
            address: found.uri().to_string().trim_end_matches('/').to_owned(),
        })
    }
}

impl fmt::Display for Proxy {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Proxy { variable, address } = self;
        write!(f, "through the proxy {address} of {variable}")
    }
}

/// The one of two variables that counts, if it says something.
fn set(variables: [&'static str; 2]) -> Option<&'static str> {
    let found = variables
        .into_iter()
        .find_map(|name| Some((name, env::var(name).ok()?)));
    found
        .filter(|(_, value)| !value.is_empty())
        .map(|(name, _)| name)
}

fn is_loopback(url: &Url) -> bool {
    let host = url.host_str().unwrap_or_default();
    let address = host.trim_matches(['[', ']']).parse::<IpAddr>();
    host == "localhost" || address.is_ok_and(|address| address.to_canonical().is_loopback())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn this_machine_is_told_from_others() {
        for (url, expected) in [
            ("http://127.0.0.1:7171/", true),
            ("https://127.9.8.7/table-32/", true),
            ("http://LOCALHOST/", true),
            ("http://[::1]:80/", true),
            ("http://[::ffff:127.0.0.1]/", true),
            ("http://128.0.0.1/", false),
            ("http://localhost.example.org/", false),
            ("http://[::2]/", false),
        ] {
            assert_eq!(is_loopback(&Url::parse(url).unwrap()), expected, "{url}");
        }
    }
}
