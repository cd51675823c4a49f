//! HTTP server of the simulated directory, for HLR lookups.

use std::{convert::Infallible, future::pending, sync::Arc, time::Duration};

use aws_lc_rs::constant_time::verify_slices_are_equal;
use bytes::Bytes;
use http::{
    HeaderValue, Method, Request, Response, StatusCode,
    header::{ALLOW, AUTHORIZATION, CACHE_CONTROL, CONTENT_TYPE, RETRY_AFTER, WWW_AUTHENTICATE},
};
use http_body_util::Full;
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use serde_json::{Value, json};
use tokio::net::{TcpListener, TcpStream};
use tokio_util::task::TaskTracker;
use url::form_urlencoded;

use super::{DirectoryState, HlrFault, Subscriber, SubscriberState};
use crate::{accept_connections, camara::PhoneNumber};

pub(super) const HLR_PATH: &str = "/hlr";

const READ_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_HEAD_BYTES: usize = 16 * 1024;

type HlrResponse = Response<Full<Bytes>>;

pub(super) async fn listen(listener: TcpListener, state: Arc<DirectoryState>, tasks: TaskTracker) {
    let (max_connections, stop) = (state.config.max_connections, state.stop.clone());
    accept_connections(listener, max_connections, stop, tasks, |stream| serve(stream, Arc::clone(&state))).await;
}

async fn serve(stream: TcpStream, state: Arc<DirectoryState>) {
    // Nagle's algorithm would delay small responses.
    let _ = stream.set_nodelay(true);
    let service = service_fn(async |request| Ok::<_, Infallible>(handle_request(&state, &request).await));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "sandbox HLR connection failed");
    }
}

async fn handle_request(state: &DirectoryState, request: &Request<Incoming>) -> HlrResponse {
    state.counts.send_modify(|counts| counts.hlr_requests += 1);
    let fault = state.faults.lock().hlr_fault;
    match fault {
        None => respond(state, request),
        Some(HlrFault::InternalError) => error_response(StatusCode::INTERNAL_SERVER_ERROR, "internal error"),
        Some(HlrFault::TooManyRequests { retry_after }) => {
            let busy = error_response(StatusCode::TOO_MANY_REQUESTS, "too many requests");
            with_header(busy, RETRY_AFTER, HeaderValue::from(retry_after))
        }
        Some(HlrFault::Hang) => pending().await,
        Some(HlrFault::GarbledBody) => garble(&respond(state, request)),
    }
}

fn respond(state: &DirectoryState, request: &Request<Incoming>) -> HlrResponse {
    if !is_authorized(state, request) {
        state.counts.send_modify(|counts| counts.unauthorized += 1);
        let unauthorized = error_response(StatusCode::UNAUTHORIZED, "missing or invalid bearer token");
        return with_header(unauthorized, WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if request.uri().path() != HLR_PATH {
        return error_response(StatusCode::NOT_FOUND, "not found");
    }
    if request.method() != Method::GET {
        let response = error_response(StatusCode::METHOD_NOT_ALLOWED, "method not allowed; use GET");
        return with_header(response, ALLOW, HeaderValue::from_static("GET"));
    }
    match parse_number(request.uri().query().unwrap_or_default()) {
        Some(number) => json_response(StatusCode::OK, &lookup_json(state, &number)),
        None => error_response(StatusCode::BAD_REQUEST, "`number` must be a single phone number in E.164 format"),
    }
}

fn is_authorized(state: &DirectoryState, request: &Request<Incoming>) -> bool {
    let Some(secret) = &state.config.hlr_secret else { return true };
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given =
        header.and_then(|header| header.split_once(' ')).filter(|(scheme, _)| scheme.eq_ignore_ascii_case("bearer"));
    given.is_some_and(|(_, given)| verify_slices_are_equal(given.trim().as_bytes(), secret.as_bytes()).is_ok())
}

/// Parses the number in a query. Its plus sign may be missing, or decoded as a space.
fn parse_number(query: &str) -> Option<PhoneNumber> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "number");
    let (Some((_, value)), None) = (values.next(), values.next()) else { return None };
    let digits = value.strip_prefix(['+', ' ']).unwrap_or(&value);
    format!("+{digits}").parse().ok()
}

fn lookup_json(state: &DirectoryState, number: &PhoneNumber) -> Value {
    match state.subscribers.find(number.as_str().trim_start_matches('+')) {
        Some(Subscriber { network, ported_from, state, .. }) => json!({
            "number": number.as_str(),
            "status": if *state == SubscriberState::Absent { "absent" } else { "present" },
            "mcc": network.mcc(),
            "mnc": network.mnc(),
            "ported": ported_from.is_some(),
            "ported_from": ported_from.as_ref().map(ToString::to_string),
        }),
        None => json!({
            "number": number.as_str(), "status": "unknown", "mcc": null, "mnc": null, "ported": false, "ported_from": null,
        }),
    }
}

fn error_response(status: StatusCode, error: &str) -> HlrResponse {
    json_response(status, &json!({ "error": error }))
}

/// Replaces the body by garbage of the same length.
fn garble(response: &HlrResponse) -> HlrResponse {
    let length = hyper::body::Body::size_hint(response.body()).lower();
    json_text_response(response.status(), "}".repeat(usize::try_from(length).unwrap_or_default()))
}

fn json_response(status: StatusCode, body: &Value) -> HlrResponse {
    json_text_response(status, body.to_string())
}

fn json_text_response(status: StatusCode, body: String) -> HlrResponse {
    let mut response = Response::new(Full::from(body));
    *response.status_mut() = status;
    response.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // Responses contain personal data, so they must not be cached.
    response.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    response
}

fn with_header(mut response: HlrResponse, name: http::HeaderName, value: HeaderValue) -> HlrResponse {
    response.headers_mut().insert(name, value);
    response
}
