//! HTTP connections: reads requests and sends responses with their faults.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{HttpResponse, Request, text_response};
use crate::{
    accept::accept_connections,
    camara::{Endpoint, EndpointFault, OperatorState, api::X_CORRELATOR, routes},
};

const READ_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Makes hyper close the connection.
#[derive(Debug, Error)]
#[error("connection closed by a fault")]
struct CloseConnection;

pub(in crate::camara) async fn listen(listener: TcpListener, state: Arc<OperatorState>, tasks: TaskTracker) {
    let (max_connections, stop) = (state.config.max_connections, state.stop.clone());
    accept_connections(listener, max_connections, stop, tasks, |stream| serve(stream, Arc::clone(&state))).await;
}

async fn serve(stream: TcpStream, state: Arc<OperatorState>) {
    // Nagle's algorithm would delay small responses.
    let _ = stream.set_nodelay(true);
    let steps = AtomicU64::new(0);
    let service = service_fn(async |request| {
        steps.fetch_add(1, Ordering::Relaxed);
        let result = handle_request(&state, request).await;
        steps.fetch_add(1, Ordering::Relaxed);
        result
    });
    let serving = http1::Builder::new()
        .max_buf_size(MAX_HEAD_BYTES)
        .half_close(true)
        .writev(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "sandbox CAMARA connection failed");
        },
        () = wait_for_idle(&steps) => tracing::debug!("sandbox CAMARA connection idle timeout"),
    }
}

/// Waits until the connection has been idle between requests. `steps` counts requests and responses; hyper's own timer
/// would be set for every request.
async fn wait_for_idle(steps: &AtomicU64) {
    let mut previous = None;
    loop {
        let count = steps.load(Ordering::Relaxed);
        let is_between_requests = count.is_multiple_of(2);
        if is_between_requests && previous == Some(count) {
            return;
        }
        previous = Some(count);
        sleep(READ_TIMEOUT).await;
    }
}

async fn handle_request(
    state: &OperatorState,
    request: http::Request<Incoming>,
) -> Result<HttpResponse, CloseConnection> {
    let Some(endpoint) = Endpoint::from_path(request.uri().path()) else {
        return respond(state, None, request, &EndpointFault::default()).await;
    };
    state.observer.record_request(endpoint);
    let correlator = request.headers().get(X_CORRELATOR).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let result = respond(state, Some(endpoint), request, &state.faults.take_next(endpoint)).await;
    state.observer.record_response(endpoint, result.as_ref().ok().map(HttpResponse::status), correlator);
    result
}

async fn respond(
    state: &OperatorState,
    endpoint: Option<Endpoint>,
    request: http::Request<Incoming>,
    fault: &EndpointFault,
) -> Result<HttpResponse, CloseConnection> {
    // A zero-length sleep would still wait for the next timer tick.
    if !fault.delay.is_zero() {
        sleep(fault.delay).await;
    }
    if fault.connection_dropped {
        return Err(CloseConnection);
    }
    let (head, body) = request.into_parts();
    let response = match timeout(READ_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => routes::handle(state, endpoint, &Request { head, body: body.to_bytes() }, fault),
        Ok(Err(_)) => text_response(StatusCode::PAYLOAD_TOO_LARGE, "the request body is too large or incomplete"),
        Err(_) => text_response(StatusCode::REQUEST_TIMEOUT, "timed out reading the request body"),
    };
    if fault.response_lost { Err(CloseConnection) } else { Ok(apply_body_faults(response, fault).await) }
}

async fn apply_body_faults(response: HttpResponse, fault: &EndpointFault) -> HttpResponse {
    if !fault.garbled && fault.padded_to == 0 {
        return response;
    }
    let (head, body) = response.into_parts();
    // Reading a body in memory cannot fail.
    let mut octets = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    if fault.garbled {
        octets.fill(b'}');
    }
    if octets.len() < fault.padded_to {
        octets.resize(fault.padded_to, b' ');
    }
    HttpResponse::from_parts(head, Full::new(Bytes::from(octets)))
}
