//! Who makes a request: what the answer may depend on besides the request itself.

use std::net::{IpAddr, Ipv4Addr};
use std::sync::Arc;

use http::Extensions;
use tokio_util::sync::CancellationToken;

/// The other end of the connection that a request came over.
#[derive(Clone, Debug)]
pub struct Caller {
    /// Its address.
    pub address: IpAddr,
    /// Cancelled when the server is to stop: answers without an end have one then.
    pub stop: CancellationToken,
}

impl Caller {
    /// Who made the request with these extensions. A request that came over no connection is
    /// nobody's.
    pub fn of(extensions: &Extensions) -> Arc<Caller> {
        let caller = extensions.get::<Arc<Caller>>().cloned();
        caller.unwrap_or_else(|| {
            Arc::new(Caller {
                address: IpAddr::V4(Ipv4Addr::UNSPECIFIED),
                stop: CancellationToken::new(),
            })
        })
    }
}
