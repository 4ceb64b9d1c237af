//! Answers that nobody reads.

use super::*;

#[tokio::test(start_paused = true)]
async fn transfers_take_turns_and_read_little_ahead() {
    let served = serve();
    served.storage.overwrite(&key(PART), vec![1; 4 << 20]);
    let ask = |participant| {
        let request = Request::get(format!("{OBJECTS_PATH}{PART}"));
        served.send_as(participant, request.body(Body::empty()).unwrap())
    };
    let start = Instant::now();
    let mut unread = Vec::new();
    for _ in 0..TRANSFERS.each {
        let response = ask(1).await;
        assert_eq!(response.status(), StatusCode::OK);
        unread.push(response);
    }
    // One participant never has all.
    let (beyond, honest) = tokio::join!(ask(1), async {
        for _ in 0..10 {
            let response = ask(2).await;
            assert_eq!(response.status(), StatusCode::OK);
            assert!(response.into_body().collect().await.is_ok());
        }
        start.elapsed()
    });
    assert_eq!(beyond.status(), StatusCode::SERVICE_UNAVAILABLE);
    assert_eq!((start.elapsed(), honest), (TURN_TIME, Duration::ZERO));
    unread.clear();
    sleep(Duration::from_millis(1)).await;
    assert_eq!(served.proxy.transfers.left(), 64);
    for number in 0..TRANSFERS.all {
        let response = ask(number / TRANSFERS.each).await;
        assert_eq!(response.status(), StatusCode::OK);
        unread.push(response);
    }
    let read = served.proxy.traffic().fetched.load(Ordering::Relaxed);
    sleep(Duration::from_millis(1)).await;
    let most = (TRANSFERS.each + TRANSFERS.all) << 20;
    assert!(
        read <= u64::from(most) + (40 << 20),
        "{read} bytes are read ahead"
    );
    // One that is dropped leaves its place at once.
    assert_eq!(served.proxy.transfers.left(), 0);
    unread.pop();
    let again = ask(4).await;
    assert!(again.into_body().collect().await.is_ok());
}
