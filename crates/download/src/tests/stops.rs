//! Downloads that are told to stop.

use super::server::{Peril, Server};
use super::*;

#[tokio::test]
async fn it_stops_when_asked_to() {
    let server = Server::start().await;
    server.set(Peril::Status(503));
    let out = tempfile::tempdir().unwrap();
    let stop = CancellationToken::new();
    let (progress, _watch) = watch::channel(DownloadProgress::default());
    let config = Config {
        patience: patience(Duration::from_hours(1)),
        ..config(&server.url(), out.path())
    };
    let (error, ()) = tokio::join!(download(config, progress, stop.clone()), async {
        tokio::time::sleep(Duration::from_millis(50)).await;
        stop.cancel();
    });
    assert!(matches!(error, Err(DownloadError::Stopped)), "{error:?}");
}
