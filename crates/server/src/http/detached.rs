//! Runs handlers to completion after the client disconnects or the request times out.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::Response;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{App, problem::Problem};

type HandlerResult = Result<Response, Problem>;

/// Runs the request to completion even if the client disconnects, so that no idempotency key stays claimed.
pub fn run_to_completion(
    app: &App,
    work: impl Future<Output = HandlerResult> + Send + 'static,
) -> impl Future<Output = HandlerResult> {
    DetachOnDrop { work: Some(Box::pin(work)), tasks: app.tasks.clone() }
}

/// Polled in place while the client waits; moved to a new task when dropped. Spawning a task for every request would be
/// slower, and few clients disconnect.
struct DetachOnDrop {
    work: Option<Pin<Box<dyn Future<Output = HandlerResult> + Send>>>,
    tasks: TaskTracker,
}

impl Future for DetachOnDrop {
    type Output = HandlerResult;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<HandlerResult> {
        // Taken out so that a future that panicked is not spawned on drop.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let result = work.as_mut().poll(cx);
        if result.is_pending() {
            self.work = Some(work);
        }
        result
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        // Without a runtime the process is exiting.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work, &runtime);
        }
    }
}

#[cfg(test)]
mod tests {
    use std::panic::AssertUnwindSafe;

    use futures_util::{FutureExt, poll};
    use tokio::sync::oneshot;

    use super::*;

    /// Work that waits for the sender and then signals the receiver.
    fn blocked_work(tasks: &TaskTracker) -> (DetachOnDrop, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (resume, resumed) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let work = async move {
            resumed.await.map_err(|_| Problem::internal(&"sender dropped"))?;
            let _ = end.send(());
            Ok(Response::default())
        };
        (DetachOnDrop { work: Some(Box::pin(work)), tasks: tasks.clone() }, resume, ended)
    }

    #[tokio::test]
    async fn awaited_work_runs_in_place() {
        let tasks = TaskTracker::new();
        let (mut work, resume, ended) = blocked_work(&tasks);
        assert!(poll!(&mut work).is_pending());
        resume.send(()).unwrap();
        assert!(poll!(&mut work).is_ready());
        drop(work);
        assert!(tasks.is_empty());
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn dropped_work_continues_in_a_task() {
        let tasks = TaskTracker::new();
        let (mut work, resume, ended) = blocked_work(&tasks);
        assert!(poll!(&mut work).is_pending());
        drop(work);
        assert_eq!(tasks.len(), 1);
        resume.send(()).unwrap();
        ended.await.unwrap();
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn panicked_work_is_not_spawned() {
        let tasks = TaskTracker::new();
        let work = DetachOnDrop { work: Some(Box::pin(async { panic!("expected") })), tasks: tasks.clone() };
        assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
        assert!(tasks.is_empty());
    }
}
