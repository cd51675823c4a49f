//! HTTP server of the simulated operator: reads whole requests, routes them to endpoints, and simulates faults in the
//! responses if a test has set any.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use http::{
    HeaderValue, StatusCode,
    header::{ALLOW, RETRY_AFTER},
};
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::{TokioIo, TokioTimer};
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{
    Endpoint, EndpointFault, OperatorState,
    api::{self, X_CORRELATOR},
    message::{HttpResponse, Request, json_response, text_response},
    openid,
};
use crate::accept_connections;

const READ_TIMEOUT: Duration = Duration::from_secs(10);
const MAX_BODY_BYTES: usize = 64 * 1024;
const MAX_HEAD_BYTES: usize = 32 * 1024;

/// Error that makes hyper close the connection, as a simulated fault requires.
#[derive(Debug, Error)]
#[error("connection closed by a fault")]
struct CloseConnection;

pub(super) async fn listen(listener: TcpListener, state: Arc<OperatorState>, tasks: TaskTracker) {
    let (max_connections, stop) = (state.config.max_connections, state.stop.clone());
    accept_connections(listener, max_connections, stop, tasks, |stream| serve(stream, Arc::clone(&state))).await;
}

async fn serve(stream: TcpStream, state: Arc<OperatorState>) {
    // Nagle's algorithm would delay small responses.
    let _ = stream.set_nodelay(true);
    let service = service_fn(async |request| handle_request(&state, request).await);
    let served = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(READ_TIMEOUT)
        .max_buf_size(MAX_HEAD_BYTES)
        .half_close(true)
        .writev(false)
        .serve_connection(TokioIo::new(stream), service)
        .await;
    if let Err(error) = served {
        tracing::debug!(%error, "sandbox CAMARA connection failed");
    }
}

async fn handle_request(
    state: &OperatorState,
    request: http::Request<Incoming>,
) -> Result<HttpResponse, CloseConnection> {
    let Ok(endpoint) = request.uri().path().parse::<Endpoint>() else {
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
    if !fault.delayed_by.is_zero() {
        sleep(fault.delayed_by).await;
    }
    if fault.connection_dropped {
        return Err(CloseConnection);
    }
    let (head, body) = request.into_parts();
    let response = match timeout(READ_TIMEOUT, Limited::new(body, MAX_BODY_BYTES).collect()).await {
        Ok(Ok(body)) => route(state, endpoint, &Request { head, body: body.to_bytes() }, fault),
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
    // The body is in memory, so reading it cannot fail.
    let mut octets = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    if fault.garbled {
        octets.fill(b'}');
    }
    if octets.len() < fault.padded_to {
        octets.resize(fault.padded_to, b' ');
    }
    HttpResponse::from_parts(head, Full::new(Bytes::from(octets)))
}

fn route(state: &OperatorState, endpoint: Option<Endpoint>, request: &Request, fault: &EndpointFault) -> HttpResponse {
    let Some(endpoint) = endpoint else {
        return if request.head.uri.path().contains("/v2/") {
            api::error_response(request, &api::SimulatedApiError::NotFound)
        } else {
            text_response(StatusCode::NOT_FOUND, "not found")
        };
    };
    let mut response = if let Some(status) = fault.status {
        simulated_error(endpoint, request, status)
    } else if request.head.method == endpoint.method() {
        dispatch(state, endpoint, request, fault)
    } else {
        method_not_allowed(endpoint, request)
    };
    if let Some(seconds) = fault.retry_after {
        response.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    response
}

fn dispatch(state: &OperatorState, endpoint: Endpoint, request: &Request, fault: &EndpointFault) -> HttpResponse {
    match endpoint {
        Endpoint::Discovery => json_response(&openid::discovery_document(state, fault)),
        Endpoint::Jwks => json_response(&state.signing_key.jwks()),
        Endpoint::Authorize => openid::authorization_endpoint(state, request, fault),
        Endpoint::Token => openid::token_endpoint(state, request, fault),
        Endpoint::BackchannelAuthorize => openid::backchannel_endpoint(state, request),
        Endpoint::VerifyNumber => api::respond_with_correlator(request, || api::verify_number(state, request)),
        Endpoint::DevicePhoneNumber => {
            api::respond_with_correlator(request, || api::device_phone_number(state, request))
        }
        Endpoint::CheckSimSwap => api::respond_with_correlator(request, || api::check_sim_swap(state, request)),
        Endpoint::RetrieveSimSwapDate => {
            api::respond_with_correlator(request, || api::retrieve_sim_swap_date(state, request))
        }
    }
}

/// Builds the error response of a simulated fault, in the format of the endpoint.
fn simulated_error(endpoint: Endpoint, request: &Request, status: StatusCode) -> HttpResponse {
    if endpoint.is_api() {
        api::error_response(request, &api::SimulatedApiError::Simulated(status))
    } else {
        openid::simulated_error_response(status)
    }
}

fn method_not_allowed(endpoint: Endpoint, request: &Request) -> HttpResponse {
    let mut response = if endpoint.is_api() {
        api::error_response(request, &api::SimulatedApiError::MethodNotAllowed)
    } else {
        text_response(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
    };
    if let Ok(method) = HeaderValue::from_str(endpoint.method().as_str()) {
        response.headers_mut().insert(ALLOW, method);
    }
    response
}
