//! Receiving one request: reading it, judging it, passing it on, answering it.

use std::{convert::Infallible, fmt::Display, sync::Arc, time::Duration};

use bytes::Bytes;
use http::{HeaderMap, Method, Response, StatusCode, header, request::Parts};
use http_body_util::{BodyExt, Full, LengthLimitError, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use ringtrue_domain::tenancy::Mode;
use ringtrue_engine::{
    callback::signature::{ATTEMPT_HEADER, Request, SOURCE_HEADER, Verified},
    ports::{Clock, SystemClock},
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    time::timeout,
};

use super::{
    endpoint::Endpoint,
    exchange::{Answer, Unanswered, exchange},
    key_set::KeySet,
    report::{Callback, Event, Refusal},
    verdict::{Flaw, Standard, header, judge},
};
use crate::cli::caller::{Claim, Entry, Ledger};

const LARGEST_BODY: usize = 64 * 1024;
const LARGEST_HEAD: usize = 16 * 1024;
const MOST_HEADERS: usize = 64;
const READ_PATIENCE: Duration = Duration::from_secs(10);
/// As long as a callback waits for its answer.
const FORWARD_PATIENCE: Duration = Duration::from_secs(10);
/// For everything together, fetching keys included.
const PATIENCE: Duration = Duration::from_secs(45);

/// These concern one connection only, and are written anew for the next.
const HOP_BY_HOP: [header::HeaderName; 7] = [
    header::CONNECTION,
    header::CONTENT_LENGTH,
    header::TRANSFER_ENCODING,
    header::TE,
    header::TRAILER,
    header::UPGRADE,
    header::EXPECT,
];

/// Browsers add one of these to every cross-site POST; Ringtrue sends neither. Without this check any web page that a
/// developer has open could post to the application behind `--forward`.
const BROWSER_HEADERS: [&str; 2] = ["origin", "sec-fetch-site"];

#[derive(Debug)]
pub(super) struct Reception {
    pub keys: KeySet,
    /// The mode of the checks that callbacks are expected for.
    pub mode: Mode,
    pub port: u16,
    /// What every callback is answered, whatever else is known of it.
    pub answer: Option<StatusCode>,
    pub forward: Option<Endpoint>,
    /// Whether callbacks without a valid signature are forwarded too.
    pub forwards_unverified: bool,
    /// Who must not be told twice of the same.
    pub ledger: Option<Arc<Ledger>>,
    pub events: mpsc::Sender<Event>,
}

impl Reception {
    /// Serves one connection: one request, and the end.
    pub(super) async fn serve(self: Arc<Self>, stream: TcpStream) {
        let mut builder = http1::Builder::new();
        builder
            .keep_alive(false)
            .max_buf_size(LARGEST_HEAD)
            .max_headers(MOST_HEADERS)
            .timer(TokioTimer::new())
            .header_read_timeout(READ_PATIENCE);
        let service = service_fn(|request| {
            let reception = Arc::clone(&self);
            async move { Ok::<_, Infallible>(reception.receive(request).await) }
        });
        let problem = match timeout(PATIENCE, builder.serve_connection(TokioIo::new(stream), service)).await {
            Ok(Err(problem)) if problem.is_parse() || problem.is_timeout() => problem.to_string(),
            // A connection that is opened and closed again is nobody's request.
            Ok(Ok(()) | Err(_)) => return,
            Err(_) => "it took too long".to_owned(),
        };
        self.tell(Event::Refused(Refusal::new(now(), format!("not a request: {problem}")))).await;
    }

    async fn receive(&self, request: hyper::Request<Incoming>) -> Response<Full<Bytes>> {
        let (parts, body) = request.into_parts();
        if let Some(name) = BROWSER_HEADERS.iter().find(|name| parts.headers.contains_key(**name)) {
            let why = format!("the header `{name}` says that a web page sent it; a callback comes from a server");
            return self.refuse(&parts, StatusCode::FORBIDDEN, why).await;
        }
        let is_callback = parts.method == Method::POST || parts.headers.contains_key(header::AUTHORIZATION);
        if !is_callback {
            return self.refuse(&parts, StatusCode::BAD_REQUEST, "a callback is a POST").await;
        }
        let body = match timeout(READ_PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await {
            Ok(Ok(body)) => body.to_bytes(),
            Ok(Err(problem)) if problem.is::<LengthLimitError>() => {
                return self.refuse(&parts, StatusCode::PAYLOAD_TOO_LARGE, "the body is larger than 64 KiB").await;
            }
            Ok(Err(problem)) => {
                return self.refuse(&parts, StatusCode::BAD_REQUEST, format!("the body broke off: {problem}")).await;
            }
            Err(_) => return self.refuse(&parts, StatusCode::REQUEST_TIMEOUT, "the body comes too slowly").await,
        };
        let mut callback = self.take(&parts, &body).await;
        let mut status = callback.answered;
        let booked = callback.entry.is_some().then(|| {
            let (done, booked) = oneshot::channel();
            callback.done = Some(done);
            booked
        });
        self.tell(Event::Callback(Box::new(callback))).await;
        if let Some(booked) = booked
            && booked.await.is_err()
        {
            // It is not safe here, so it must come again.
            status = StatusCode::SERVICE_UNAVAILABLE;
        }
        answer(status)
    }

    async fn take(&self, parts: &Parts, body: &Bytes) -> Callback {
        let received_at = now();
        let target = parts.uri.path_and_query().map_or("/", |target| target.as_str());
        let headers = as_text(&parts.headers);
        let request = Request { method: parts.method.as_str(), target, headers: &headers, body };
        let verdict = self.judge(&request).await.map(|verified| verified.kid);
        // What nobody vouches for is booked nowhere.
        let entry = self.ledger.as_ref().filter(|_| verdict.is_ok()).and_then(|_| Entry::of(body, received_at));
        let claim = self.ledger.as_ref().zip(entry.as_ref()).map_or(Claim::Mine, |(ledger, entry)| ledger.claim(entry));
        let is_forwarded = claim == Claim::Mine && (verdict.is_ok() || self.forwards_unverified);
        let forwarded = match &self.forward {
            Some(to) if is_forwarded => {
                Some(exchange(to, &forwarding(parts, target, body, to), FORWARD_PATIENCE).await)
            }
            _ => None,
        };
        let answered = match claim {
            Claim::Mine => self.answer.unwrap_or_else(|| match &forwarded {
                None if self.forward.is_some() => StatusCode::UNAUTHORIZED,
                forwarded => relayed(forwarded.as_ref()),
            }),
            Claim::Handled => StatusCode::OK,
            Claim::Underway => StatusCode::SERVICE_UNAVAILABLE,
        };
        let is_handled = claim == Claim::Mine && answered == StatusCode::OK;
        if let (Some(ledger), Some(entry), Claim::Mine, false) = (&self.ledger, &entry, claim, is_handled) {
            ledger.release(entry);
        }
        Callback {
            received_at,
            product: header(&request, SOURCE_HEADER).map(str::to_owned),
            attempt: header(&request, ATTEMPT_HEADER).map(str::to_owned),
            target: target.to_owned(),
            verdict,
            answered,
            forwarded,
            body: body.clone(),
            is_repeated: claim != Claim::Mine,
            entry: entry.filter(|_| is_handled),
            done: None,
        }
    }

    async fn judge(&self, request: &Request<'_>) -> Result<Verified, Flaw> {
        let judged = |keys: &[_]| {
            let (keys_from, mode) = (self.keys.from(), self.mode);
            judge(request, &Standard { keys, keys_from, now: now(), mode, port: self.port })
        };
        let first = judged(&self.keys.keys().await);
        match first {
            // Perhaps the key is a new one.
            Err(flaw) if flaw.part == "key" => match self.keys.fetch().await {
                Ok(keys) => judged(&keys),
                Err(problem) => Err(Flaw { why: format!("{} (fetched again: {problem})", flaw.why), ..flaw }),
            },
            other => other,
        }
    }

    async fn refuse(&self, parts: &Parts, status: StatusCode, why: impl Display) -> Response<Full<Bytes>> {
        let what = format!("{} {}: {why} (answered {})", parts.method, parts.uri.path(), status.as_u16());
        self.tell(Event::Refused(Refusal::new(now(), what))).await;
        answer(status)
    }

    async fn tell(&self, event: Event) {
        // Nobody listens any more when we are about to end.
        let _ = self.events.send(event).await;
    }
}

pub(super) fn now() -> jiff::Timestamp {
    SystemClock.now()
}

fn answer(status: StatusCode) -> Response<Full<Bytes>> {
    let mut response = Response::new(Full::default());
    *response.status_mut() = status;
    response
}

/// What the callback is answered: what the application behind us said, else 200.
fn relayed(forwarded: Option<&Result<Answer, Unanswered>>) -> StatusCode {
    match forwarded {
        None => StatusCode::OK,
        // An answer below 200 is none, and cannot be given.
        Some(Ok(answer)) if answer.status >= 200 => {
            StatusCode::from_u16(answer.status).unwrap_or(StatusCode::BAD_GATEWAY)
        }
        Some(_) => StatusCode::BAD_GATEWAY,
    }
}

fn as_text(headers: &HeaderMap) -> Vec<(String, String)> {
    let text = |value: &http::HeaderValue| String::from_utf8_lossy(value.as_bytes()).into_owned();
    headers.iter().map(|(name, value)| (name.as_str().to_owned(), text(value))).collect()
}

/// The request as it came, `host` included: the signature covers it.
fn forwarding(parts: &Parts, target: &str, body: &[u8], to: &Endpoint) -> Vec<u8> {
    let target = if to.has_target() { to.target() } else { target.to_owned() };
    let mut request = format!("{} {target} HTTP/1.1\r\n", parts.method).into_bytes();
    for (name, value) in parts.headers.iter().filter(|(name, _)| !HOP_BY_HOP.contains(name)) {
        for piece in [name.as_str().as_bytes(), b": ", value.as_bytes(), b"\r\n"] {
            request.extend_from_slice(piece);
        }
    }
    request.extend_from_slice(format!("content-length: {}\r\nconnection: close\r\n\r\n", body.len()).as_bytes());
    request.extend_from_slice(body);
    request
}
