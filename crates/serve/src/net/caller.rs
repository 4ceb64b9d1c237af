//! The caller of a request: what the answer may depend on besides the request itself.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};

use axum::extract::{FromRequestParts, Request};
use http::request::Parts;
use http::{Extensions, HeaderMap, HeaderName};
use tokio_util::sync::CancellationToken;

use super::permits::Permit;
use super::places::{Place, Places, network};

/// Where a proxy says who has asked it: the last address of the list, which it puts behind what it was sent.
const FORWARDED_FOR: HeaderName = HeaderName::from_static("x-forwarded-for");

/// The other end of the connection that a request came over.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its address.
    pub address: IpAddr,
    /// Cancelled when the server is to stop: answers without an end have one then.
    pub stop: CancellationToken,
    /// Weak: the connection holds its permit, so the permit ends with it.
    pub(super) permit: Weak<Permit>,
}

impl Caller {
    /// The caller of the request with these extensions. A request that came over no connection has the address 0.0.0.0.
    pub fn of(extensions: &Extensions) -> Arc<Caller> {
        let caller = extensions.get::<Arc<Caller>>().cloned();
        caller.unwrap_or_else(|| Caller::at(IpAddr::V4(Ipv4Addr::UNSPECIFIED)))
    }

    /// Somebody at an address, without a connection.
    pub fn at(address: IpAddr) -> Arc<Caller> {
        Arc::new(Caller {
            address,
            stop: CancellationToken::new(),
            permit: Weak::new(),
        })
    }

    /// A request of one of these proxies, as that of the client that it names. All others, and one that names nobody,
    /// stay their sender's.
    pub(crate) fn of_client(proxies: &[IpAddr], mut request: Request) -> Request {
        let sender = Caller::of(request.extensions());
        if proxies.contains(&sender.address.to_canonical())
            && let Some(address) = client(request.headers())
        {
            let client = Caller {
                address,
                ..Caller::clone(&sender)
            };
            request.extensions_mut().insert(Arc::new(client));
        }
        request
    }

    /// The address that its calls count for: of IPv6, the network of 64 bits.
    pub fn network(&self) -> IpAddr {
        network(self.address)
    }

    /// Places of this size for something that the call holds. When another gets them, the connection ends.
    pub(crate) fn take(&self, places: &Places<IpAddr>, size: u32) -> Option<Place<IpAddr>> {
        let permit = self.permit.upgrade();
        let usage = permit.map_or_else(Arc::default, |permit| Arc::clone(&permit.usage));
        places.take_for(self.network(), size, &usage)
    }

    /// Notes that a call had a valid token of this participant: the limits of strangers do not bind the connection any
    /// more. False if the participant has as many connections as it may have.
    pub fn admit(&self, participant: u64) -> bool {
        let permit = self.permit.upgrade();
        permit.is_none_or(|permit| permit.admit(participant))
    }
}

impl<S: Sync> FromRequestParts<S> for Caller {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Caller, Infallible> {
        Ok(Caller::clone(&Caller::of(&parts.extensions)))
    }
}

/// For whom a proxy says that it asks.
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
            let request = Caller::of_client(&[proxy.parse().unwrap()], request);
            let found = Caller::of(request.extensions()).address;
            let expected: IpAddr = expected.parse().unwrap();
            assert_eq!(found, expected, "{from} {lists:?}");
        }
    }
}
