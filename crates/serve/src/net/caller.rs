//! The caller of a request: what the answer may depend on besides the request itself.

use std::convert::Infallible;
use std::net::{IpAddr, Ipv4Addr};
use std::sync::{Arc, Weak};

use axum::extract::FromRequestParts;
use http::Extensions;
use http::request::Parts;
use tokio_util::sync::CancellationToken;

use super::permits::Permit;
use super::places::{Place, Places, network};

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

    /// This connection, for a call that a proxy makes for `address`.
    pub(crate) fn on_behalf_of(&self, address: IpAddr) -> Arc<Caller> {
        Arc::new(Caller {
            address,
            ..self.clone()
        })
    }

    /// The address that its calls count for: of IPv6, the network of 64 bits.
    pub fn network(&self) -> IpAddr {
        network(self.address)
    }

    /// Places of this size for something that the call holds. When another gets them, the connection ends.
    pub(crate) fn take(&self, places: &Places<IpAddr>, size: u32) -> Option<Place<IpAddr>> {
        let permit = self.permit.upgrade();
        let standing = permit.map_or_else(Arc::default, |permit| Arc::clone(permit.standing()));
        places.take_for(self.network(), size, &standing)
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
