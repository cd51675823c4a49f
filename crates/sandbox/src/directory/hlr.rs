//! The register of who has which number and whether his phone is on, as it is asked by HTTP.

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

use super::{Core, HlrFault, State, Subscriber};
use crate::{camara::PhoneNumber, doorway::take_in};

pub(super) const PATH: &str = "/hlr";

const READ_PATIENCE: Duration = Duration::from_secs(10);
const LARGEST_HEAD: usize = 16 * 1024;

type Answer = Response<Full<Bytes>>;

/// Takes connections in until the directory stops.
pub(super) async fn listen(listener: TcpListener, core: Arc<Core>, tasks: TaskTracker) {
    let (most, stop) = (core.config.connections, core.stop.clone());
    take_in(listener, most, stop, tasks, |stream| serve(stream, Arc::clone(&core))).await;
}

async fn serve(stream: TcpStream, core: Arc<Core>) {
    // Small answers that are waited for: the usual gathering only makes them late.
    let _ = stream.set_nodelay(true);
    let service = service_fn(async |request| Ok::<_, Infallible>(exchange(&core, &request).await));
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_PATIENCE)
        .max_buf_size(LARGEST_HEAD)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "a connection to the simulated HLR broke");
    }
}

async fn exchange(core: &Core, request: &Request<Incoming>) -> Answer {
    core.observer.count(|counts| counts.lookups += 1);
    match core.faults.by_http() {
        None => answer(core, request),
        Some(HlrFault::InternalError) => problem(StatusCode::INTERNAL_SERVER_ERROR, "something broke"),
        Some(HlrFault::TooManyRequests { retry_after }) => {
            let busy = problem(StatusCode::TOO_MANY_REQUESTS, "too many questions");
            with(busy, RETRY_AFTER, HeaderValue::from(retry_after))
        }
        Some(HlrFault::Hang) => pending().await,
        Some(HlrFault::Garbage) => garbled(&answer(core, request)),
    }
}

fn answer(core: &Core, request: &Request<Incoming>) -> Answer {
    if !has_secret(core, request) {
        core.observer.count(|counts| counts.without_secret += 1);
        let stranger = problem(StatusCode::UNAUTHORIZED, "the secret is missing, or is another one");
        return with(stranger, WWW_AUTHENTICATE, HeaderValue::from_static("Bearer"));
    }
    if request.uri().path() != PATH {
        return problem(StatusCode::NOT_FOUND, "there is nothing here");
    }
    if request.method() != Method::GET {
        let wrong = problem(StatusCode::METHOD_NOT_ALLOWED, "numbers are asked for by GET");
        return with(wrong, ALLOW, HeaderValue::from_static("GET"));
    }
    match number(request.uri().query().unwrap_or_default()) {
        Some(number) => json_answer(StatusCode::OK, &told(core, &number)),
        None => problem(StatusCode::BAD_REQUEST, "`number` is to be one number in E.164 form"),
    }
}

fn has_secret(core: &Core, request: &Request<Incoming>) -> bool {
    let Some(secret) = &core.config.secret else { return true };
    let header = request.headers().get(AUTHORIZATION).and_then(|value| value.to_str().ok());
    let given = header.and_then(|header| header.split_once(' ')).filter(|(scheme, _)| is_bearer(scheme));
    given.is_some_and(|(_, given)| verify_slices_are_equal(given.trim().as_bytes(), secret.as_bytes()).is_ok())
}

fn is_bearer(scheme: &str) -> bool {
    scheme.eq_ignore_ascii_case("bearer")
}

/// The number that is asked for. Its plus may have become a space, or have been left out.
fn number(query: &str) -> Option<PhoneNumber> {
    let mut values = form_urlencoded::parse(query.as_bytes()).filter(|(name, _)| name == "number");
    let (Some((_, value)), None) = (values.next(), values.next()) else { return None };
    let digits = value.strip_prefix(['+', ' ']).unwrap_or(&value);
    format!("+{digits}").parse().ok()
}

fn told(core: &Core, number: &PhoneNumber) -> Value {
    match core.register.find(number.as_str().trim_start_matches('+')) {
        Some(Subscriber { network, ported_from, state, .. }) => json!({
            "number": number.as_str(),
            "status": if *state == State::Absent { "absent" } else { "present" },
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

fn problem(status: StatusCode, error: &str) -> Answer {
    json_answer(status, &json!({ "error": error }))
}

/// As long as it would have been.
fn garbled(answer: &Answer) -> Answer {
    let length = hyper::body::Body::size_hint(answer.body()).lower();
    written(answer.status(), "}".repeat(usize::try_from(length).unwrap_or_default()))
}

fn json_answer(status: StatusCode, body: &Value) -> Answer {
    written(status, body.to_string())
}

fn written(status: StatusCode, body: String) -> Answer {
    let mut answer = Response::new(Full::from(body));
    *answer.status_mut() = status;
    answer.headers_mut().insert(CONTENT_TYPE, HeaderValue::from_static("application/json"));
    // It is about a person.
    answer.headers_mut().insert(CACHE_CONTROL, HeaderValue::from_static("no-store"));
    answer
}

fn with(mut answer: Answer, name: http::HeaderName, value: HeaderValue) -> Answer {
    answer.headers_mut().insert(name, value);
    answer
}
