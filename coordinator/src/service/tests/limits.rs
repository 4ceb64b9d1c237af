//! Calls of strangers, and calls that are just allowed.

use super::*;

/// Renewals tell what is lost, and a worker that is not there is told that it is not.
pub(super) async fn strangers_have_no_part(served: &Served) {
    let renew = async |worker, leases| {
        let request = v1::RenewRequest { worker, leases };
        let reply = served.client.clone().renew(request).await?;
        Ok::<_, Status>(reply.into_inner().lost)
    };
    assert_eq!(renew(WORKER, vec![99]).await.unwrap(), [99]);
    let status = renew(8, vec![]).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let (worker, records) = (8, Vec::new());
    let request = v1::ReportRequest { worker, records };
    let status = served.client.clone().report(request).await.unwrap_err();
    assert_eq!(status.code(), Code::NotFound);
    let record = v1::LostRecord {
        digest: vec![1; 32],
        ..v1::LostRecord::default()
    };
    served.report(vec![record; REPORTS_MAX]).await.unwrap();
}

/// A task that is given back in order was no attempt.
#[tokio::test(start_paused = true)]
async fn only_failures_are_attempts() {
    let served = serve().await;
    served.client.clone().join(hello()).await.unwrap();
    for (failure, attempt) in [(String::new(), 1), ("\n".repeat(10), 2)] {
        let task = served.lease().await;
        let request = v1::ReturnRequest {
            worker: WORKER,
            lease: task.lease,
            failure,
        };
        served.client.clone().r#return(request).await.unwrap();
        let again = served.lease().await;
        assert!(again.lease > task.lease);
        // One that says nothing of use is one all the same.
        assert_eq!(again.attempt, attempt);
        let request = v1::ReturnRequest {
            worker: WORKER,
            lease: again.lease,
            failure: String::new(),
        };
        served.client.clone().r#return(request).await.unwrap();
    }
}

#[test]
fn the_digest_of_a_shard_is_that_of_what_is_said_of_its_words() {
    let merged = |number| {
        let digest = "0".repeat(64);
        let leaf = serde_json::json!({"words": 0, "digest": digest, "lengths": []});
        let json = serde_json::json!({"number": number, "shard": null, "sums": [], "leaf": leaf});
        let merged: ShardSummary = serde_json::from_value(json).unwrap();
        merged.words_digest()
    };
    assert_eq!(merged(3), merged(3));
    assert_ne!(merged(3), merged(4));
}
