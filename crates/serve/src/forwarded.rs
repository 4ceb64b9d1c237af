//! For whom a reverse proxy asks.

use std::net::IpAddr;

use axum::extract::Request;
use http::{HeaderMap, HeaderName};

use crate::net::Caller;

/// Where a proxy says who has asked it: the last address of the list, which it puts behind what it was sent.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// A request of one of these proxies, as that of the client that it names. All others, and one that names nobody, stay
/// their sender's.
pub(crate) fn of_client(proxies: &[IpAddr], mut request: Request) -> Request {
    let sender = Caller::of(request.extensions());
    if proxies.contains(&sender.address.to_canonical())
        && let Some(client) = client(request.headers())
    {
        request.extensions_mut().insert(sender.on_behalf_of(client));
    }
    request
}

fn client(headers: &HeaderMap) -> Option<IpAddr> {
    let addresses = headers.get_all(FORWARDED_FOR).into_iter().next_back()?;
    let last = addresses.to_str().ok()?.rsplit(',').next()?;
    last.trim().parse().ok()
}

#[cfg(test)]
mod tests {
    use axum::body::Body;

    use super::*;

    #[test]
    fn only_the_last_address_that_a_known_proxy_says_counts() {
        let proxy = "10.0.0.1";
        let cases = [
            (proxy, &["192.0.2.7"][..], "192.0.2.7"),
            (proxy, &["192.0.2.9, 192.0.2.7"], "192.0.2.7"),
            (proxy, &["192.0.2.9", "2001:db8::7"], "2001:db8::7"),
            ("::ffff:10.0.0.1", &["192.0.2.7"], "192.0.2.7"),
            // A list changes nothing if a stranger sends it, or if its last entry is no address.
            ("10.0.0.2", &["192.0.2.7"], "10.0.0.2"),
            (proxy, &[], proxy),
            (proxy, &["192.0.2.7, unknown"], proxy),
            (proxy, &["192.0.2.7", ""], proxy),
        ];
        for (from, lists, expected) in cases {
            let mut request = Request::builder();
            for list in lists {
                request = request.header(FORWARDED_FOR, *list);
            }
            let mut request = request.body(Body::empty()).unwrap();
            let sender = Caller::at(from.parse().unwrap());
            request.extensions_mut().insert(sender);
            let request = of_client(&[proxy.parse().unwrap()], request);
            let found = Caller::of(request.extensions()).address;
            assert_eq!(
                found,
                expected.parse::<IpAddr>().unwrap(),
                "{from} {lists:?}"
            );
        }
    }
}
