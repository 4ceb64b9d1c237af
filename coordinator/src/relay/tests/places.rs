//! Answers that nobody reads.

use super::*;

#[tokio::test(start_paused = true)]
async fn transfers_are_bounded_and_read_little_ahead() {
    let served = serve();
    served.storage.overwrite(&key(PART), vec![1; 4 << 20]);
    let ask = |participant| {
        let request = Request::get(format!("{OBJECTS_PATH}{PART}"));
        let caller = Extension(AuthenticatedParticipant(ParticipantId(participant)));
        let request = request.body(Body::empty()).unwrap();
        served.routes.clone().layer(caller).oneshot(request)
    };
    // Two participants leave room for others, and the owner takes the rest.
    let mut unread = Vec::new();
    for (participant, count) in [(1, 28), (2, 14), (0, 22)] {
        for _ in 0..count {
            let response = ask(participant).await.unwrap();
            assert_eq!(response.status(), StatusCode::OK);
            unread.push(response);
        }
        if unread.len() == 28 {
            // It is refused, and has to wait.
            let start = Instant::now();
            let beyond = ask(participant).await.unwrap();
            assert_eq!(beyond.status(), StatusCode::SERVICE_UNAVAILABLE);
            assert_eq!(start.elapsed(), TURN_TIME);
        }
    }
    let ask = || async { ask(0).await.unwrap() };
    assert_eq!(unread.len(), TRANSFERS_MAX);
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
