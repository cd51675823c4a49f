//! `ringtrue listen --project`: receives callbacks over a connection that this machine opens.
//!
//! The server sends each callback as a server-sent event with the signed request. After an interruption, the listener
//! connects again and names the last event that it got. The journal drops callbacks that the server repeats.

use std::{collections::BTreeMap, convert::Infallible, sync::Arc, time::Duration};

use bytes::{Bytes, BytesMut};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, header::ACCEPT, request::Parts};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{product::Scope, timestamp};
use serde::Deserialize;
use tokio::time::sleep;

use super::{receiver::CallbackReceiver, resume::ListenJournal};
use crate::{
    api::ApiSession,
    argument_values::SecureUrl,
    error::CommandError,
    http::{HttpError, StreamedResponse},
};

const LAST_EVENT_ID: HeaderName = HeaderName::from_static("last-event-id");
/// Path for which callbacks are signed if `--forward` has none.
pub(super) const DEFAULT_CALLBACK_PATH: &str = "/callbacks";
/// Time without any data after which the connection counts as lost. The server sends a heartbeat every two seconds.
const SILENCE_TIMEOUT: Duration = Duration::from_secs(30);
const MIN_RETRY_DELAY: Duration = Duration::from_secs(1);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Maximum size of an event. A callback has at most a few kilobytes.
const MAX_EVENT_BYTES: usize = 256 * 1024;
/// The cursor of the journal is moved in steps of at least this length, because each move writes the whole journal.
const MIN_CURSOR_STEP: SignedDuration = SignedDuration::from_mins(1);

/// The stream of a project's callbacks.
#[derive(Debug)]
pub(super) struct ProjectCallbackStream {
    pub session: ApiSession,
    pub project: String,
    /// The URL for which callbacks are signed. `None`: each callback's own URL.
    pub callback_url_to_sign: Option<String>,
    pub journal: Arc<ListenJournal>,
    pub receiver: Arc<CallbackReceiver>,
}

/// Data of a `callback` event: the request that the server would send to the callback URL.
#[derive(Deserialize)]
struct CallbackEvent {
    url: url::Url,
    headers: BTreeMap<String, String>,
    body: String,
}

/// A server-sent event.
#[derive(Debug, Default, PartialEq, Eq)]
struct ServerEvent {
    id: Option<String>,
    name: String,
    data: String,
}

/// Splits a stream into server-sent events.
#[derive(Debug, Default)]
struct EventParser {
    buffer: BytesMut,
    event: ServerEvent,
}

impl EventParser {
    /// Adds received bytes. Fails if an event is too large.
    fn push(&mut self, chunk: &[u8]) -> Result<(), HttpError> {
        self.buffer.extend_from_slice(chunk);
        if self.buffer.len() + self.event.data.len() > MAX_EVENT_BYTES { Err(HttpError::TooLarge) } else { Ok(()) }
    }

    /// Returns the next complete event.
    fn next_event(&mut self) -> Option<ServerEvent> {
        while let Some(end) = self.buffer.iter().position(|byte| *byte == b'\n') {
            let line = self.buffer.split_to(end + 1);
            let line = String::from_utf8_lossy(&line);
            let line = line.trim_end_matches(['\n', '\r']);
            if line.is_empty() {
                let event = std::mem::take(&mut self.event);
                if !event.data.is_empty() {
                    return Some(event);
                }
                continue;
            }
            let (field, value) = line.split_once(':').unwrap_or((line, ""));
            let value = value.strip_prefix(' ').unwrap_or(value);
            match field {
                "id" => self.event.id = Some(value.to_owned()),
                "event" => value.clone_into(&mut self.event.name),
                "data" => self.event.data.push_str(value),
                // Ignores comments, which are heartbeats, and the reconnection delay.
                _ => {}
            }
        }
        None
    }
}

impl ProjectCallbackStream {
    /// Receives callbacks until a permanent error occurs.
    pub(super) async fn run(self) -> Result<Infallible, CommandError> {
        let mut last_event = self.journal.replay_start();
        let mut delay = Duration::ZERO;
        loop {
            let lost = match self.connect(last_event).await {
                Ok(response) => {
                    if !delay.is_zero() {
                        self.session.printer.print_status("Connected again. No callback was missed.")?;
                    }
                    delay = Duration::ZERO;
                    self.receive(response, &mut last_event).await?
                }
                Err(error) if error.is_transient() => error,
                Err(error) => return Err(error),
            };
            if delay.is_zero() {
                self.session.printer.print_status(&format!("The connection was lost: {lost}\nConnecting again."))?;
            }
            delay = (delay * 2).clamp(MIN_RETRY_DELAY, MAX_RETRY_DELAY);
            sleep(lost.retry_after().unwrap_or(delay).min(MAX_RETRY_DELAY)).await;
        }
    }

    async fn connect(&self, last_event: Timestamp) -> Result<StreamedResponse, CommandError> {
        let workspace = self.session.workspace_id()?;
        let path = ["v1", "management", "workspaces", workspace, "projects", &self.project, "callbacks", "stream"];
        let query: Vec<_> = self.callback_url_to_sign.iter().map(|url| ("url", url.clone())).collect();
        let mut headers = HeaderMap::new();
        headers.insert(ACCEPT, HeaderValue::from_static("text/event-stream, application/problem+json"));
        headers
            .insert(LAST_EVENT_ID, HeaderValue::try_from(timestamp::format(last_event)).map_err(CommandError::other)?);
        self.session.open_stream(Scope::Management, &self.session.url(&path, &query), headers).await
    }

    /// Receives callbacks until the connection is lost. Returns the reason.
    async fn receive(
        &self,
        mut response: StreamedResponse,
        last_event: &mut Timestamp,
    ) -> Result<CommandError, CommandError> {
        let mut parser = EventParser::default();
        let mut is_incomplete = false;
        loop {
            let chunk = match response.next_chunk(SILENCE_TIMEOUT).await {
                Ok(Some(chunk)) => parser.push(&chunk),
                Ok(None) => Err(HttpError::Lost),
                Err(error) => Err(error),
            };
            if let Err(error) = chunk {
                return Ok(self.session.unreachable(error));
            }
            while let Some(event) = parser.next_event() {
                match event.name.as_str() {
                    "callback" => {
                        let at = event.id.as_deref().and_then(timestamp::parse);
                        let (Some(at), Ok(callback)) = (at, serde_json::from_str(&event.data)) else {
                            return Ok(self.session.unreachable(HttpError::Protocol));
                        };
                        self.handle(at, callback).await?;
                        *last_event = at.max(*last_event);
                    }
                    // The server repeats the event, but one line is enough.
                    "incomplete" if !std::mem::replace(&mut is_incomplete, true) => self.session.printer.print_status(
                        "The project creates more checks than a listener can follow: callbacks are missing.",
                    )?,
                    _ => {}
                }
            }
        }
    }

    /// Handles a callback, and returns after it is in the journal.
    async fn handle(&self, concluded_at: Timestamp, callback: CallbackEvent) -> Result<(), CommandError> {
        // The server resumes a little before the last event, so its first callbacks may be older than the first
        // `listen`.
        if concluded_at < self.journal.began_at() {
            return Ok(());
        }
        let Some(parts) = request_parts(&callback) else { return Ok(()) };
        self.receiver.receive(&parts, &Bytes::from(callback.body)).await;
        self.journal.advance_cursor_by_at_least(concluded_at, MIN_CURSOR_STEP)
    }
}

/// Returns the head of the request that the server would send. `None`: the event contains no valid request.
fn request_parts(callback: &CallbackEvent) -> Option<Parts> {
    let target = &callback.url[url::Position::BeforePath..url::Position::AfterQuery];
    let mut request = Request::builder().method(Method::POST).uri(target);
    for (name, value) in &callback.headers {
        request = request.header(name, value);
    }
    request.body(()).ok().map(|request| request.into_parts().0)
}

/// Returns the URL for which the server signs callbacks: that of `--forward`, so that the application can verify them.
pub(super) fn callback_url_to_sign(forward: &SecureUrl) -> String {
    let mut url = forward.as_url().clone();
    if !forward.has_path() {
        url.set_path(DEFAULT_CALLBACK_PATH);
    }
    url.into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn events_are_parsed_from_pieces() {
        let text = "retry: 2000\nevent: listening\ndata: {}\n\n:\n\nid: 7\r\nevent: callback\r\ndata: {\"a\": 1}\r\n\r\nid: 8\n";
        for size in [1, 2, 7, text.len()] {
            let mut parser = EventParser::default();
            let mut events = vec![];
            for piece in text.as_bytes().chunks(size) {
                parser.push(piece).unwrap();
                events.extend(std::iter::from_fn(|| parser.next_event()));
            }
            let event = |id: Option<&str>, name: &str, data: &str| ServerEvent {
                id: id.map(str::to_owned),
                name: name.to_owned(),
                data: data.to_owned(),
            };
            let expected = [event(None, "listening", "{}"), event(Some("7"), "callback", r#"{"a": 1}"#)];
            assert_eq!(events, expected, "pieces of {size}");
        }
    }

    #[test]
    fn an_endless_event_is_refused() {
        let mut parser = EventParser::default();
        let piece = [b'a'; 1_024];
        let failed = (0..1_000).find(|_| parser.push(&piece).is_err());
        assert_eq!(failed, Some(MAX_EVENT_BYTES / piece.len()));
    }

    #[test]
    fn callbacks_are_signed_for_the_application() {
        for (forward, signed) in [
            ("http://localhost:3000/hooks/ringtrue", "http://localhost:3000/hooks/ringtrue"),
            ("http://localhost:3000", "http://localhost:3000/callbacks"),
            ("http://127.0.0.1:3000/a?b=c", "http://127.0.0.1:3000/a?b=c"),
        ] {
            assert_eq!(callback_url_to_sign(&SecureUrl::parse_local(forward).unwrap()), signed);
        }
    }
}
