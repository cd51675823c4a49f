//! The HTTP server that receives callbacks. It reads, verifies, forwards and acknowledges each request.

use std::{
    convert::Infallible,
    fmt::Display,
    io,
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use bytes::Bytes;
use http::{HeaderMap, HeaderValue, Method, Request, Response, StatusCode, Uri, header, request::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ringtrue_callback_signature::{ATTEMPT_HEADER, CallbackRequest, PRODUCT_HEADER, VerifiedSignature};
use ringtrue_domain::tenancy::Mode;
use serde_json::Value;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{Semaphore, mpsc, oneshot},
    time::{Instant, sleep, timeout, timeout_at},
};
use tokio_util::task::TaskTracker;

use super::{
    report::{CallbackReport, ListenEvent, RejectedRequest},
    resume::{Claim, JournalEntry, ListenJournal},
    verification::{KeySet, VerificationContext, VerificationError, find_header, verify_callback},
};
use crate::{
    api::{ApiSession, id_field},
    argument_values::SecureUrl,
    error::CommandError,
    http::{HttpClient, HttpError, HttpResponse},
    system::now,
};

pub(super) const MAX_CONNECTIONS: usize = 64;
/// Delay after a failed `accept`. Avoids a busy loop when the process has run out of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEAD_BYTES: usize = 16 * 1024;
const MAX_HEADERS: usize = 64;
const READ_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of a forwarded request. Equals the server's timeout for a callback response.
const FORWARD_TIMEOUT: Duration = Duration::from_secs(10);
/// Timeout of the whole request, including fetches of public keys.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(45);

/// Headers that apply only to one connection, and are not forwarded.
const HOP_BY_HOP_HEADERS: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
];

/// Headers that mark a request from a web page: browsers add one of them to every cross-site POST, and Ringtrue sends
/// neither. Without this check, any web page that the developer opens could post to the application behind `--forward`.
const BROWSER_HEADERS: [&str; 2] = ["origin", "sec-fetch-site"];

#[derive(Debug)]
pub(super) struct CallbackReceiver {
    pub keys: KeySet,
    /// `Sandbox` accepts callbacks for both live and sandbox checks.
    pub mode: Mode,
    /// Port on which the receiver listens. `None`: callbacks arrive over a connection to the server.
    pub port: Option<u16>,
    /// Status of every response. `None`: the status depends on the callback.
    pub response_status: Option<StatusCode>,
    pub forward: Option<ForwardTarget>,
    pub journal: Option<Arc<ListenJournal>>,
    pub events: mpsc::Sender<ListenEvent>,
}

/// An application on this machine to which callbacks are forwarded.
#[derive(Debug)]
pub(super) struct ForwardTarget {
    pub url: SecureUrl,
    pub http: HttpClient,
    pub include_unverified: bool,
}

impl CallbackReceiver {
    /// Accepts connections until the future is dropped. Requests in flight continue.
    pub(super) async fn accept_connections(self: Arc<Self>, listener: TcpListener) -> Infallible {
        let tasks = TaskTracker::new();
        let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
        loop {
            // Always succeeds, because the semaphore is never closed.
            let permit = Arc::clone(&permits).acquire_owned().await.ok();
            let Ok((stream, _)) = listener.accept().await else {
                sleep(ACCEPT_RETRY_DELAY).await;
                continue;
            };
            let receiver = Arc::clone(&self);
            tasks.spawn(async move {
                receiver.serve(stream).await;
                drop(permit);
            });
        }
    }

    /// Serves one request on a connection, then closes the connection.
    async fn serve(self: Arc<Self>, stream: TcpStream) {
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
            // The request was served, or the caller closed the connection.
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
        empty_response(self.receive(&parts, &body).await)
    }

    /// Handles a callback and reports it. Waits until it is in the journal, and returns the status of the response.
    pub(super) async fn receive(&self, parts: &Parts, body: &Bytes) -> StatusCode {
        let mut callback = self.handle_callback(parts, body).await;
        let status = callback.response_status;
        let journaled = callback.entry.is_some().then(|| {
            let (sender, journaled) = oneshot::channel();
            callback.journaled = Some(sender);
            journaled
        });
        self.send_event(ListenEvent::Callback(Box::new(callback))).await;
        if let Some(journaled) = journaled
            && journaled.await.is_err()
        {
            // The callback is not in the journal, so the server must retry it.
            return StatusCode::SERVICE_UNAVAILABLE;
        }
        status
    }

    async fn handle_callback(&self, parts: &Parts, body: &Bytes) -> CallbackReport {
        let received_at = now();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let headers = text_headers(&parts.headers);
        let request = CallbackRequest { method: parts.method.as_str(), target, headers: &headers, body };
        let signature = self.verify(&request).await.map(|verified| verified.kid);
        // Unverified callbacks are not journaled, so they have no entry.
        let entry = self
            .journal
            .as_ref()
            .filter(|_| signature.is_ok())
            .and_then(|_| JournalEntry::from_body(body, received_at));
        let claim =
            self.journal.as_ref().zip(entry.as_ref()).map_or(Claim::Acquired, |(journal, entry)| journal.claim(entry));
        let forwarded = match &self.forward {
            Some(to) if claim == Claim::Acquired && (signature.is_ok() || to.include_unverified) => {
                Some(to.send(parts, body).await)
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
            product: find_header(&request, PRODUCT_HEADER).map(str::to_owned),
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
            // The callback may be signed with a key that was published after the cached keys were fetched.
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
        // The channel is closed during shutdown. The event is then dropped.
        let _ = self.events.send(event).await;
    }
}

fn empty_response(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// Returns the status of the application's response, 200 if the callback was not forwarded, or 502 if the application
/// did not respond.
fn relayed_status(forwarded: Option<&Result<HttpResponse, HttpError>>) -> StatusCode {
    match forwarded {
        None => StatusCode::OK,
        Some(Ok(response)) => StatusCode::from_u16(response.status).unwrap_or(StatusCode::BAD_GATEWAY),
        Some(Err(_)) => StatusCode::BAD_GATEWAY,
    }
}

fn text_headers(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

impl ForwardTarget {
    /// Forwards a callback. Keeps the headers, `host` included, because the signature covers them. Drops only
    /// hop-by-hop headers.
    async fn send(&self, parts: &Parts, body: &Bytes) -> Result<HttpResponse, HttpError> {
        let mut uri = self.url.as_url().as_str().parse::<Uri>().map_err(|_| HttpError::InvalidUrl)?.into_parts();
        if !self.url.has_path() {
            uri.path_and_query = parts.uri.path_and_query().cloned();
        }
        let mut request = Request::new(body.clone());
        *request.method_mut() = parts.method.clone();
        *request.uri_mut() = Uri::from_parts(uri).map_err(|_| HttpError::InvalidUrl)?;
        let headers = parts.headers.iter().filter(|(name, _)| !HOP_BY_HOP_HEADERS.contains(name));
        *request.headers_mut() = headers.map(|(name, value)| (name.clone(), value.clone())).collect();
        request.headers_mut().insert(header::CONNECTION, HeaderValue::from_static("close"));
        self.http.send(request, FORWARD_TIMEOUT).await
    }
}

pub(super) async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), CommandError> {
    let listener = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listener.await.map_err(|error: io::Error| {
        CommandError::failed(
            format!("failed to listen on {address}: {error}"),
            "Use another address: `--listen 127.0.0.1:0` picks a free port.",
        )
    })
}

/// A receiver for other commands. It verifies callbacks as `listen` does, but prints nothing.
#[derive(Debug)]
pub(crate) struct BackgroundReceiver {
    /// URL at which it receives callbacks.
    pub url: String,
    events: mpsc::Receiver<ListenEvent>,
}

#[derive(Debug)]
pub(crate) struct ReceivedCallback {
    pub product: Option<String>,
    /// Id of the signing key, or the reason why the signature is invalid.
    pub signed_by: Result<String, String>,
    pub body: Value,
}

impl BackgroundReceiver {
    /// Listens on a free loopback port until the receiver is dropped.
    pub(crate) async fn open(session: &ApiSession) -> Result<Self, CommandError> {
        let (listener, address) = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let (sender, events) = mpsc::channel(MAX_CONNECTIONS);
        let closed = sender.clone();
        let receiver = Arc::new(CallbackReceiver {
            keys: KeySet::new(session.profile.jwks_url().map_err(CommandError::other)?, session.http.clone()),
            mode: Mode::Sandbox,
            port: Some(address.port()),
            response_status: None,
            forward: None,
            journal: None,
            events: sender,
        });
        TaskTracker::new().spawn(async move {
            tokio::select! {
                () = closed.closed() => {}
                never = receiver.accept_connections(listener) => match never {},
            }
        });
        Ok(BackgroundReceiver { url: format!("http://{address}/callbacks"), events })
    }

    /// Waits for the next callback of this check.
    pub(crate) async fn wait_for_callback(&mut self, check: &str, timeout: Duration) -> Option<ReceivedCallback> {
        let deadline = Instant::now() + timeout;
        while let Ok(Some(event)) = timeout_at(deadline, self.events.recv()).await {
            let ListenEvent::Callback(callback) = event else { continue };
            let body: Value = serde_json::from_slice(&callback.body).unwrap_or_default();
            if id_field(&body) == Some(check) {
                let signed_by = callback.signature.map_err(|error| error.reason);
                return Some(ReceivedCallback { product: callback.product, signed_by, body });
            }
        }
        None
    }
}
