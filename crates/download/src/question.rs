//! A question that is not about a table.

use crate::error::DownloadError;
use crate::remote::Reach;
use crate::server::Server;

/// The answer to a question that is not about a table.
#[derive(Clone, Debug)]
pub struct ServerReply {
    /// The HTTP status: a success, or a refusal.
    pub status: u16,
    /// The content, no longer than [`ask`] allows.
    pub body: Vec<u8>,
}

/// Asks a server for what is at `path` below its address, at most `bytes_max` bytes. No answer leads to another server.
///
/// # Errors
///
/// If the server cannot be reached, or what is there gives no answer of this kind.
pub async fn ask(reach: Reach, path: &str, bytes_max: u64) -> Result<ServerReply, DownloadError> {
    let (ca, token) = (reach.ca.as_deref(), reach.token.as_ref());
    let server = Server::new(&reach.from, ca, token, reach.patience)?;
    let url = server.below(path);
    let mut tries = server.tries();
    loop {
        let outage = match server.send(&url, server.get(&url)).await? {
            Ok(mut response) => {
                let status = response.status().as_u16();
                match server.read(&url, &mut response, bytes_max).await? {
                    Ok(body) => return Ok(ServerReply { status, body }),
                    Err(outage) => outage,
                }
            }
            Err(outage) => outage,
        };
        tries.wait(outage).await?;
    }
}
