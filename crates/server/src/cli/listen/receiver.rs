//! HTTP handler for callbacks: reads, verifies, forwards and acknowledges each request.

use std::{convert::Infallible, fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::{
    callback::signature::{ATTEMPT_HEADER, CallbackRequest, SOURCE_HEADER, VerifiedSignature},
    ports::{Clock, SystemClock},
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    http_client::{HttpClientError, HttpResponse, send_request},
    key_set::KeySet,
    report::{CallbackReport, ListenEvent, RejectedRequest},
    secure_url::SecureUrl,
    verification::{VerificationContext, VerificationError, find_header, verify_callback},
};
use crate::cli::client::{Claim, JournalEntry, ListenJournal};

const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Equals the server's timeout for a callback response.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(10);
/// For the whole request, including key fetches.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);

/// Not forwarded.
const HOP_BY_HOP_HEADERS: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
];

/// Browsers add one of these to every cross-site POST; Ringtrue sends neither. Without this check, any web page open in
/// the developer's browser could post to the application behind `--forward`.
const BROWSER_HEADERS: [&str; 2] = ["origin", "sec-fetch-site"];

#[derive(Debug)]
pub(super) struct CallbackReceiver {
    pub keys: KeySet,
    /// `Sandbox` accepts callbacks of live and sandbox checks.
    pub mode: Mode,
    pub port: u16,
    /// Fixed response status.
    pub response_status: Option<StatusCode>,
    pub forward: Option<SecureUrl>,
    pub forward_unverified: bool,
    pub journal: Option<Arc<ListenJournal>>,
    pub events: mpsc::Sender<ListenEvent>,
}

impl CallbackReceiver {
    /// Serves one request, then closes the connection.
    pub(super) async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut builder = http1::Builder::new();
        builder
            .keep_alive(false)
            .max_buf_size(MAX_HEAD_BYTES)
            .max_headers(MAX_HEADERS)
            .timer(TokioTimer::new())
            .header_read_timeout(READ_TIMEOUT);
        let service = service_fn(|request| {
            let receiver = Arc::clone(&self);
            async move { Ok::<_, Infallible>(receiver.handle_request(request).await) }
        });
        let error = match timeout(REQUEST_TIMEOUT, builder.serve_connection(TokioIo::new(stream), service)).await {
            Ok(Err(error)) if error.is_parse() || error.is_timeout() => error.to_string(),
            // Closed without a request.
            Ok(Ok(()) | Err(_)) => return,
            Err(_) => "timed out".to_owned(),
        };
        self.send_event(ListenEvent::Rejected(RejectedRequest::new(now(), format!("invalid request: {error}")))).await;
    }

    async fn handle_request(&self, request: hyper::Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if let Some(name) = BROWSER_HEADERS.iter().find(|name| parts.headers.contains_key(**name)) {
            let reason = format!("header `{name}` shows that a web page sent it; callbacks come from a server");
            return self.reject(&parts, StatusCode::FORBIDDEN, reason).await;
        }
        let is_callback = parts.method == Method::POST || parts.headers.contains_key(header::AUTHORIZATION);
        if !is_callback {
            return self.reject(&parts, StatusCode::BAD_REQUEST, "expected a POST request").await;
        }
        let body = match timeout(READ_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(error)) if error.is::<LengthLimitError>() => {
                return self.reject(&parts, StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 64 KiB").await;
            }
            Ok(Err(error)) => {
                return self.reject(&parts, StatusCode::BAD_REQUEST, format!("incomplete body: {error}")).await;
            }
            Err(_) => return self.reject(&parts, StatusCode::REQUEST_TIMEOUT, "timed out reading the body").await,
        };
        let mut callback = self.handle_callback(&parts, &body).await;
        let mut status = callback.response_status;
        let journaled = callback.entry.is_some().then(|| {
            let (sender, journaled) = oneshot::channel();
            callback.journaled = Some(sender);
            journaled
        });
        self.send_event(ListenEvent::Callback(Box::new(callback))).await;
        if let Some(journaled) = journaled
            && journaled.await.is_err()
        {
            // Not journaled: the server must retry.
            status = StatusCode::SERVICE_UNAVAILABLE;
        }
        empty_response(status)
    }

    async fn handle_callback(&self, parts: &Parts, body: &Bytes) -> CallbackReport {
        let received_at = now();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let headers = text_headers(&parts.headers);
        let request = CallbackRequest { method: parts.method.as_str(), target, headers: &headers, body };
        let signature = self.verify(&request).await.map(|verified| verified.kid);
        // Unverified callbacks are not journaled.
        let entry = self
            .journal
            .as_ref()
            .filter(|_| signature.is_ok())
            .and_then(|_| JournalEntry::from_body(body, received_at));
        let claim =
            self.journal.as_ref().zip(entry.as_ref()).map_or(Claim::Acquired, |(journal, entry)| journal.claim(entry));
        let is_forwarded = claim == Claim::Acquired && (signature.is_ok() || self.forward_unverified);
        let forwarded = match &self.forward {
            Some(to) if is_forwarded => {
                Some(send_request(to, &forwarded_request(parts, target, body, to), FORWARD_TIMEOUT).await)
            }
            _ => None,
        };
        let response_status = match claim {
            Claim::Acquired => self.response_status.unwrap_or_else(|| match &forwarded {
                None if self.forward.is_some() => StatusCode::UNAUTHORIZED,
                forwarded => relayed_status(forwarded.as_ref()),
            }),
            Claim::AlreadyHandled => StatusCode::OK,
            Claim::InProgress => StatusCode::SERVICE_UNAVAILABLE,
        };
        let is_handled = claim == Claim::Acquired && response_status == StatusCode::OK;
        if let (Some(journal), Some(entry), Claim::Acquired, false) = (&self.journal, &entry, claim, is_handled) {
            journal.release(entry);
        }
        CallbackReport {
            received_at,
            product: find_header(&request, SOURCE_HEADER).map(str::to_owned),
            attempt: find_header(&request, ATTEMPT_HEADER).map(str::to_owned),
            target: target.to_owned(),
            signature,
            response_status,
            forwarded,
            body: body.clone(),
            is_duplicate: claim != Claim::Acquired,
            entry: entry.filter(|_| is_handled),
            journaled: None,
        }
    }

    async fn verify(&self, request: &CallbackRequest<'_>) -> Result<VerifiedSignature, VerificationError> {
        let verify_with = |keys: &[_]| {
            let (keys_url, mode) = (self.keys.url(), self.mode);
            verify_callback(request, &VerificationContext { keys, keys_url, now: now(), mode, port: self.port })
        };
        let first = verify_with(&self.keys.keys().await);
        match first {
            // The key may be new.
            Err(unknown_key) if unknown_key.part == "key" => match self.keys.fetch().await {
                Ok(keys) => verify_with(&keys),
                Err(error) => {
                    let reason = format!("{} (key refresh failed: {error})", unknown_key.reason);
                    Err(VerificationError { reason, ..unknown_key })
                }
            },
            other => other,
        }
    }

    async fn reject(&self, parts: &Parts, status: StatusCode, reason: impl Display) -> Response<Full<Bytes>> {
        let message = format!("{} {}: {reason} (responded {})", parts.method, parts.uri.path(), status.as_u16());
        self.send_event(ListenEvent::Rejected(RejectedRequest::new(now(), message))).await;
        empty_response(status)
    }

    async fn send_event(&self, event: ListenEvent) {
        // The channel is closed during shutdown.
        let _ = self.events.send(event).await;
    }
}

pub(super) fn now() -> jiff::Timestamp {
    SystemClock.now()
}

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// Relays the application's status; 200 without forwarding.
fn relayed_status(forwarded: Option<&Result<HttpResponse, HttpClientError>>) -> StatusCode {
    match forwarded {
        None => StatusCode::OK,
        // 1xx is not a final response.
        Some(Ok(response)) if response.status >= 200 => {
            StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        Some(_) => StatusCode::BAD_GATEWAY,
    }
}

fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// Keeps all headers, `host` included, because the signature covers them.
fn forwarded_request(parts: &Parts, target: &str, body: &[u8], to: &SecureUrl) -> Vec<u8> {
    let target = if to.has_path() { to.request_target() } else { target.to_owned() };
    let mut request = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    for (name, value) in parts.headers.iter().filter(|(name, _)| !HOP_BY_HOP_HEADERS.contains(name)) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            request.extend_from_slice(piece);
        }
    }
    request.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}
