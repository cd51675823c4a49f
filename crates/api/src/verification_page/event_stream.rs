//! Events of the hosted page: the name of the page's state, sent whenever it changes.

use std::{convert::Infallible, time::Duration};

use axum::{body::Body, extract::State, response::Response};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, header};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::reverse_sms::Platform;
use ringtrue_engine::{
    silent::BrowserKey,
    verifications::{PageFollower, PageState, PageView},
};
use ringtrue_web::{app::App, problem::Problem};
use tokio::time::{Instant, sleep, sleep_until};

use crate::verification_page::{page_state::page_state, visitor::PageVisitor};

/// Delay before an event stream reads the state again after an error.
const READ_RETRY_DELAY: Duration = Duration::from_secs(1);
/// How often an event stream checks whether the end time of the current state has passed.
const DEADLINE_CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of heartbeats, which keep proxies from closing the connection and detect a closed one.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(10);
/// Field of an event stream that sets the browser's reconnection delay, in milliseconds.
const RETRY_FIELD: &str = "retry: 2000\n";
/// Time after the verification's expiry at which an event stream ends at the latest. Streams normally end when they
/// have sent the final state; this ends those that cannot read it.
const STREAM_GRACE: SignedDuration = SignedDuration::from_secs(30);
const STREAM_RETRY_AFTER: u32 = 5;
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

/// `GET /v/{token}/events`
///
/// Sends the name of the page's state whenever it changes. The stream ends when the verification ends.
pub async fn events(State(app): State<App>, visitor: PageVisitor) -> Response {
    let opened = async {
        let view = visitor.load_view_for_visit(&app).await?;
        let follower = app.engine.verifications.follow_page(&view);
        let follower = follower.map_err(|error| Problem::too_many_requests(error.to_string(), STREAM_RETRY_AFTER))?;
        let stream = EventStream {
            follower,
            // The server closes connections that are idle for `idle_timeout`, so heartbeats must be more frequent.
            heartbeat: HEARTBEAT_INTERVAL.min(app.http.idle_timeout / 2),
            wrote_at: Instant::now(),
            ends_at: view.expires_at.saturating_add(STREAM_GRACE).unwrap_or(Timestamp::MAX),
            token: visitor.token.clone(),
            browser_keys: visitor.browser_keys.clone(),
            first_view: Some(view),
            last_state: None,
            waits_until: None,
            must_retry: false,
            is_over: false,
            app: app.clone(),
        };
        let events = stream::unfold(stream, async |mut stream| {
            let event = stream.next().await?;
            Some((Ok::<_, Infallible>(Bytes::from(event)), stream))
        });
        let mut response = Response::new(Body::from_stream(events));
        let headers = response.headers_mut();
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
        // Asks proxies not to buffer the response, which would delay the events.
        headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
        Ok(response)
    };
    visitor.respond(opened.await)
}

/// Stream of server-sent events for one verification.
struct EventStream {
    app: App,
    token: String,
    browser_keys: Vec<BrowserKey>,
    follower: PageFollower,
    heartbeat: Duration,
    wrote_at: Instant,
    ends_at: Timestamp,
    /// View of the verification at the start of the stream, from which the first event is rendered. `None` after that.
    first_view: Option<PageView>,
    /// Name of the state that was sent last.
    last_state: Option<&'static str>,
    /// Time at which the current state ends although the verification does not change. `None`: it has no such time.
    waits_until: Option<Timestamp>,
    /// The last attempt to read the state failed.
    must_retry: bool,
    is_over: bool,
}

impl EventStream {
    /// Waits for the next event. `None`: the stream has ended.
    async fn next(&mut self) -> Option<String> {
        let shutdown = self.app.shutdown.clone();
        if let Some(view) = self.first_view.take() {
            return self.render_if_changed(&view);
        }
        while !self.is_over && self.app.engine.clock().now() < self.ends_at {
            tokio::select! {
                () = shutdown.cancelled() => return None,
                () = self.follower.wait_for_change() => {}
                () = sleep(READ_RETRY_DELAY), if self.must_retry => {}
                () = sleep(DEADLINE_CHECK_INTERVAL), if self.waits_until.is_some() => {
                    if self.waits_until.is_some_and(|until| self.app.engine.clock().now() < until) {
                        continue;
                    }
                }
                () = sleep_until(self.wrote_at + self.heartbeat) => return Some(self.mark_written(":\n\n".to_owned())),
            }
            match self.app.engine.verifications.page(&self.token, &self.browser_keys).await {
                Ok(Some(view)) => {
                    self.must_retry = false;
                    if let Some(event) = self.render_if_changed(&view) {
                        return Some(event);
                    }
                }
                Ok(None) => return None,
                Err(error) => {
                    tracing::debug!(%error, "failed to read a verification for its event stream");
                    self.must_retry = true;
                }
            }
        }
        None
    }

    /// Renders the event for a state. `None`: the state is the same as in the last event.
    fn render_if_changed(&mut self, view: &PageView) -> Option<String> {
        let state = page_state(view, Platform::Unknown);
        self.waits_until = match view.state {
            PageState::Silent { waits_until, .. } => waits_until,
            _ => None,
        };
        let retry = if self.last_state.is_none() { RETRY_FIELD } else { "" };
        if self.last_state.replace(state.name()) == Some(state.name()) {
            return None;
        }
        self.is_over = state.is_final();
        Some(self.mark_written(format!("{retry}event: state\ndata: {}\n\n", state.name())))
    }

    /// Stores the time at which an event is written, and returns the event.
    fn mark_written(&mut self, event: String) -> String {
        self.wrote_at = Instant::now();
        event
    }
}
