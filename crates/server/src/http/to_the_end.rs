//! Work that is not left half done when nobody waits for it any more: its caller was told that it took too long, or the
//! connection is gone.

use std::{
    pin::Pin,
    task::{Context, Poll},
};

use axum::response::Response;
use tokio::runtime::Handle;
use tokio_util::task::TaskTracker;

use super::{App, problem::Problem};

type Answer = Result<Response, Problem>;

/// Goes on with what was begun for a caller who does not wait for it: it is ended, and no key is left claimed.
pub fn to_the_end(app: &App, work: impl Future<Output = Answer> + Send + 'static) -> impl Future<Output = Answer> {
    Attended { work: Some(Box::pin(work)), tasks: app.tasks.clone() }
}

/// It is done by whoever waits for it, as long as somebody does, and then by a task of its own. Nearly always somebody
/// waits: a task for each would be made, woken and waited for in vain.
struct Attended {
    work: Option<Pin<Box<dyn Future<Output = Answer> + Send>>>,
    tasks: TaskTracker,
}

impl Future for Attended {
    type Output = Answer;

    fn poll(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Answer> {
        // Taken out, so that what has panicked does not go on.
        let Some(mut work) = self.work.take() else { return Poll::Pending };
        let answer = work.as_mut().poll(cx);
        if answer.is_pending() {
            self.work = Some(work);
        }
        answer
    }
}

impl Drop for Attended {
    fn drop(&mut self) {
        // Without a runtime the process is ending, and nothing goes on.
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

    /// Work that waits to be told to go on, and tells that it has ended.
    fn begun(tasks: &TaskTracker) -> (Attended, oneshot::Sender<()>, oneshot::Receiver<()>) {
        let (go_on, told) = oneshot::channel::<()>();
        let (end, ended) = oneshot::channel();
        let work = async move {
            told.await.map_err(|_| Problem::internal(&"nobody says to go on"))?;
            let _ = end.send(());
            Ok(Response::default())
        };
        (Attended { work: Some(Box::pin(work)), tasks: tasks.clone() }, go_on, ended)
    }

    #[tokio::test]
    async fn whoever_waits_does_the_work() {
        let tasks = TaskTracker::new();
        let (mut work, go_on, ended) = begun(&tasks);
        assert!(poll!(&mut work).is_pending());
        go_on.send(()).unwrap();
        assert!(poll!(&mut work).is_ready());
        drop(work);
        assert!(tasks.is_empty());
        ended.await.unwrap();
    }

    #[tokio::test]
    async fn what_was_begun_goes_on_without_its_caller() {
        let tasks = TaskTracker::new();
        let (mut work, go_on, ended) = begun(&tasks);
        assert!(poll!(&mut work).is_pending());
        drop(work);
        assert_eq!(tasks.len(), 1);
        go_on.send(()).unwrap();
        ended.await.unwrap();
        tasks.close();
        tasks.wait().await;
    }

    #[tokio::test]
    async fn what_has_panicked_does_not_go_on() {
        let tasks = TaskTracker::new();
        let work = Attended { work: Some(Box::pin(async { panic!("as asked") })), tasks: tasks.clone() };
        assert!(AssertUnwindSafe(work).catch_unwind().await.is_err());
        assert!(tasks.is_empty());
    }
}
