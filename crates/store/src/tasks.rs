//! The outputs of tasks.

use std::panic::resume_unwind;

use tokio::task::JoinError;

/// The output of a task that has ended. A panic of the task goes on here. A task that was cancelled has no output: its
/// runtime is being shut down, and with it whoever waits for this, which is for ever.
pub async fn output<T>(ended: Result<T, JoinError>) -> T {
    match ended.map_err(JoinError::try_into_panic) {
        Ok(output) => output,
        Err(Ok(panic)) => resume_unwind(panic),
        Err(Err(_)) => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use tokio::runtime::Builder;

    use super::*;

    /// Work that a runtime drops while it is shut down is no panic of whoever waits for it.
    #[test]
    fn a_runtime_that_is_shut_down_panics_nowhere() {
        let runtime = Builder::new_multi_thread().worker_threads(1).build();
        let other = Builder::new_current_thread().build().unwrap();
        let runtime = runtime.unwrap();
        let handle = runtime.handle().clone();
        drop(runtime);
        let ended = other.block_on(handle.spawn_blocking(|| 7));
        assert!(ended.as_ref().is_err_and(JoinError::is_cancelled));
        let waits = async {
            tokio::select! { biased; _ = output(ended) => false, () = async {} => true }
        };
        assert!(other.block_on(waits));
        assert_eq!(other.block_on(output(Ok(7))), 7);
    }
}
