//! Answers that nobody reads.

use super::*;

#[tokio::test(start_paused = true)]
async fn transfers_are_bounded_and_read_little_ahead() {
    let served = serve();
    served.storage.overwrite(&key(PART), vec![1; 4 << 20]);
    let ask = || {
        let request = Request::get(format!("{OBJECTS_PATH}{PART}"));
        served.send(request.body(Body::empty()).unwrap())
    };
    let mut unread = Vec::new();
    for _ in 0..TRANSFERS_MAX {
        let response = ask().await;
        assert_eq!(response.status(), StatusCode::OK);
        unread.push(response);
    }
    let start = Instant::now();
    let beyond = ask().await;
    assert_eq!(beyond.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!(beyond.headers()[RETRY_AFTER], "1");
    assert_eq!(start.elapsed(), TURN_TIME);
    let read = served.relay.traffic.fetched.load(Ordering::Relaxed);
    let most = (TRANSFERS_MAX as u64) << 20;
    assert!(read <= most, "{read} bytes are read ahead");
    // One that is dropped leaves its place at once.
    assert_eq!(served.free().1, 0);
    unread.pop();
    let again = ask().await;
    assert!(again.into_body().collect().await.is_ok());
}
