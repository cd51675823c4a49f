//! Completes handlers whose client disconnects.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::Response;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;
use tracing::Instrument;

pub(crate) type ResponseFuture = Pin<Box<dyn Future<Output = Response> + Send>>;

/// A handler's future, polled in place while the client waits, and moved to a new task when dropped. Spawning a task for
/// every request would be slower, and few clients disconnect.
pub(crate) struct DetachOnDrop {
    work: Option<ResponseFuture>,
    tasks: TaskTracker,
}

impl DetachOnDrop {
    pub(crate) fn new(work: ResponseFuture, tasks: TaskTracker) -> Self {
        DetachOnDrop { work: Some(work), tasks }
    }
}

impl Future for DetachOnDrop {
    type Output = Response;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Response> {
        // Taken out so that a future that panicked is not spawned on drop.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let response = work.as_mut().poll(context);
        if response.is_pending() {
            self.work = Some(work);
        }
        response
    }
}

impl Drop for DetachOnDrop {
    fn drop(&mut self) {
        // Without a runtime the process is exiting.
        if let (Some(work), Ok(runtime)) = (self.work.take(), Handle::try_current()) {
            self.tasks.spawn_on(work.in_current_span(), &runtime);
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
            if resumed.await.is_ok() {
                let _ = end.send(());
            }
            Response::default()
        };
        (DetachOnDrop::new(Box::pin(work), tasks.clone()), resume, ended)
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
        let work = DetachOnDrop::new(Box::pin(async { panic!("expected") }), tasks.clone());
        assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
        assert!(tasks.is_empty());
    }
}
