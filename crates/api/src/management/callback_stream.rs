//! Streams the callbacks of a project to `ringtrue listen --project`, as server-sent events.

use std::{
    collections::{BTreeMap, VecDeque},
    convert::Infallible,
    time::Duration,
};

use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderMap, HeaderName, HeaderValue, header};
use ringtrue_domain::{timestamp, web_url::CallbackUrl};
use ringtrue_engine::callbacks::{CallbackStream, StreamedCallback};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    routes::Routes,
};
use serde::Serialize;
use tokio::time::{Instant, sleep};

use crate::caller::{Caller, is_token_valid, scope::Management};

const POLL_INTERVAL: Duration = Duration::from_secs(1);
/// Interval of heartbeats. They keep proxies from closing the connection. They also reveal that the client has
/// disconnected, so that its stream no longer counts towards the limit of open streams.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// First event of a stream. It tells the client that it gets the callbacks of all checks that conclude from now on.
/// `retry` is the delay in milliseconds before the client reconnects when the stream ends.
const LISTENING_EVENT: &str = "retry: 2000\nevent: listening\ndata: {}\n\n";
/// Seconds after which a client may try again if too many streams are open.
const STREAM_RETRY_AFTER: u32 = 5;
const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub fn routes() -> Routes {
    Routes::default().get("/v1/management/workspaces/{workspace_id}/projects/{project_id}/callbacks/stream", open)
}

/// Data of an event: the HTTP request that a callback URL would receive.
#[derive(Serialize)]
struct CallbackEvent<'a> {
    check_id: String,
    product: &'static str,
    url: &'a str,
    headers: BTreeMap<&'static str, &'a str>,
    body: &'a str,
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}/callbacks/stream`
async fn open(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["url"])?;
    let project =
        app.engine.management.project(&caller.management_actor(), ids.workspace_id()?, ids.project_id()?).await?;
    let url = query.get("url").map(CallbackUrl::parse_loopback_only).transpose();
    let url = url.map_err(|error| Problem::bad_request(format!("`url`: {error}")))?;
    let last_event = headers.get(&LAST_EVENT_ID).map(|id| id.to_str().ok().and_then(timestamp::parse));
    let after = match last_event {
        Some(None) => return Err(Problem::bad_request("`Last-Event-ID` is not the id of an event of this stream")),
        after => after.flatten(),
    };
    let stream = app.engine.callbacks.open_stream(project, after, url);
    let stream = stream.map_err(|error| Problem::too_many_requests(error.to_string(), STREAM_RETRY_AFTER))?;
    let events = EventStream {
        stream,
        // The server closes connections that are idle for `idle_timeout`, so heartbeats must be more frequent.
        heartbeat: HEARTBEAT_INTERVAL.min(app.http.idle_timeout / 2),
        wrote_at: Instant::now(),
        is_first_poll: true,
        waiting: VecDeque::from([LISTENING_EVENT.to_owned()]),
        headers,
        app,
    };
    let events = stream::unfold(events, async |mut events| {
        let text = events.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(text)), events))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Asks proxies not to buffer the response, which would delay the events.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

struct EventStream {
    app: App,
    stream: CallbackStream,
    /// Headers of the request that opened the stream. The access token in them is verified again before each poll.
    headers: HeaderMap,
    heartbeat: Duration,
    wrote_at: Instant,
    is_first_poll: bool,
    /// Events and heartbeats to write before the next poll.
    waiting: VecDeque<String>,
}

impl EventStream {
    /// Waits for the next event or heartbeat. `None`: the stream has ended, because the token is no longer valid, the
    /// database is unavailable or the server stops. The client then reconnects.
    async fn next(&mut self) -> Option<String> {
        let shutdown = self.app.shutdown.clone();
        loop {
            if let Some(event) = self.waiting.pop_front() {
                self.wrote_at = Instant::now();
                return Some(event);
            }
            if !std::mem::take(&mut self.is_first_poll) {
                shutdown.run_until_cancelled(sleep(POLL_INTERVAL)).await?;
            }
            if !is_token_valid(&self.app, &self.headers) {
                return None;
            }
            let found = self.app.engine.callbacks.poll_stream(&mut self.stream).await;
            let found = found.inspect_err(|error| tracing::debug!(%error, "failed to poll a callback stream")).ok()?;
            if found.is_incomplete {
                self.waiting.push_back("event: incomplete\ndata: {}\n\n".to_owned());
            }
            self.waiting.extend(found.callbacks.iter().filter_map(render_event));
            if self.waiting.is_empty() && self.wrote_at.elapsed() >= self.heartbeat {
                self.waiting.push_back(":\n\n".to_owned());
            }
        }
    }
}

/// Renders a callback as an event. The event's id is the time at which the check concluded.
fn render_event(callback: &StreamedCallback) -> Option<String> {
    let request = &callback.request;
    let host = ("host", request.url.authority());
    let headers = request.headers.iter().map(|(name, value)| (*name, value.as_str()));
    let data = serde_json::to_string(&CallbackEvent {
        check_id: callback.check.to_string(),
        product: callback.product.into_str(),
        url: request.url.as_str(),
        headers: headers.chain([host]).collect(),
        body: std::str::from_utf8(&request.body).ok()?,
    });
    Some(format!("id: {}\nevent: callback\ndata: {}\n\n", timestamp::format(callback.concluded_at), data.ok()?))
}
