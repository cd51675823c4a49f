//! Routes requests to endpoints.

use http::{
    HeaderValue, StatusCode,
    header::{ALLOW, RETRY_AFTER},
};

use super::{
    Endpoint, EndpointFault, OperatorState, api,
    http::{HttpResponse, Request, json_response, text_response},
    openid,
};

pub(super) fn handle(
    state: &OperatorState,
    endpoint: Option<Endpoint>,
    request: &Request,
    fault: &EndpointFault,
) -> HttpResponse {
    let Some(endpoint) = endpoint else {
        return if request.head.uri.path().contains("/v2/") {
            api::error_response(request, &api::CamaraError::NotFound)
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
        Endpoint::Discovery => json_response(&openid::discovery(state, fault)),
        Endpoint::Jwks => json_response(&state.signing_key.jwks()),
        Endpoint::Authorize => openid::authorize(state, request, fault),
        Endpoint::Token => openid::token(state, request, fault),
        Endpoint::BackchannelAuthorize => openid::backchannel_authorize(state, request),
        Endpoint::VerifyNumber => api::respond(request, || api::verify_number(state, request)),
        Endpoint::DevicePhoneNumber => api::respond(request, || api::device_phone_number(state, request)),
        Endpoint::CheckSimSwap => api::respond(request, || api::check_sim_swap(state, request)),
        Endpoint::RetrieveSimSwapDate => api::respond(request, || api::retrieve_sim_swap_date(state, request)),
    }
}

/// Response of a fault.
fn simulated_error(endpoint: Endpoint, request: &Request, status: StatusCode) -> HttpResponse {
    if endpoint.is_api() {
        api::error_response(request, &api::CamaraError::Simulated(status))
    } else {
        openid::simulated_error_response(status)
    }
}

fn method_not_allowed(endpoint: Endpoint, request: &Request) -> HttpResponse {
    let mut response = if endpoint.is_api() {
        api::error_response(request, &api::CamaraError::MethodNotAllowed)
    } else {
        text_response(StatusCode::METHOD_NOT_ALLOWED, "method not allowed")
    };
    if let Ok(method) = HeaderValue::from_str(endpoint.method().as_str()) {
        response.headers_mut().insert(ALLOW, method);
    }
    response
}
