//! Proxies, which the environment names as it does for other programs.

use std::env;
use std::net::IpAddr;

use hyper_util::client::proxy::matcher::Matcher;
use reqwest::Url;

/// The proxy for the server at `url`, as errors name it: without the name and password that may be in the variable.
/// None for this machine itself, and for a server that is `certified`, with a certificate of its own: a proxy is for
/// public servers elsewhere.
pub(crate) fn describe_proxy(url: &Url, certified: bool) -> Option<String> {
    if certified || is_loopback(url) {
        return None;
    }
    let found = Matcher::from_env().intercept(&url.as_str().parse().ok()?)?;
    let own = format!("{}_proxy", url.scheme());
    let all = [&own.to_uppercase(), &own, "ALL_PROXY", "all_proxy"];
    let is_set = |name: &&str| env::var_os(name).is_some_and(|value| !value.is_empty());
    let variable = all.into_iter().find(is_set);
    let (address, variable) = (found.uri(), variable.unwrap_or("the environment"));
    let address = address.to_string();
    let address = address.trim_end_matches('/');
    Some(format!("through the proxy {address} of {variable}"))
}

pub(crate) fn is_loopback(url: &Url) -> bool {
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
