//! Which endpoint answers a request.

use http::{
    HeaderValue, StatusCode,
    header::{ALLOW, RETRY_AFTER},
};

use super::{
    Core, Endpoint, Fault, api,
    http::{Answer, Request, json, page},
    openid,
};

pub(super) fn answer(core: &Core, endpoint: Option<Endpoint>, request: &Request, fault: &Fault) -> Answer {
    let Some(endpoint) = endpoint else {
        return if request.head.uri.path().contains("/v2/") {
            api::refuse(request, &api::Problem::NotFound)
        } else {
            page(StatusCode::NOT_FOUND, "there is nothing here")
        };
    };
    let mut answer = if let Some(status) = fault.status {
        failure(endpoint, request, status)
    } else if request.head.method == endpoint.method() {
        proper_answer(core, endpoint, request, fault)
    } else {
        wrong_method(endpoint, request)
    };
    if let Some(seconds) = fault.retry_after {
        answer.headers_mut().insert(RETRY_AFTER, HeaderValue::from(seconds));
    }
    answer
}

fn proper_answer(core: &Core, endpoint: Endpoint, request: &Request, fault: &Fault) -> Answer {
    match endpoint {
        Endpoint::Discovery => json(&openid::discovery(core, fault)),
        Endpoint::Jwks => json(&core.key.jwks()),
        Endpoint::Authorize => openid::authorize(core, request, fault),
        Endpoint::Token => openid::token(core, request, fault),
        Endpoint::BackchannelAuthorize => openid::backchannel_authorize(core, request),
        Endpoint::VerifyNumber => api::answer(request, || api::verify_number(core, request)),
        Endpoint::DevicePhoneNumber => api::answer(request, || api::device_phone_number(core, request)),
        Endpoint::CheckSimSwap => api::answer(request, || api::check_sim_swap(core, request)),
        Endpoint::RetrieveSimSwapDate => api::answer(request, || api::retrieve_sim_swap_date(core, request)),
    }
}

/// An answer that a fault asks for.
fn failure(endpoint: Endpoint, request: &Request, status: StatusCode) -> Answer {
    if endpoint.is_api() {
        api::refuse(request, &api::Problem::Simulated(status))
    } else {
        openid::simulated_failure(status)
    }
}

fn wrong_method(endpoint: Endpoint, request: &Request) -> Answer {
    let mut answer = if endpoint.is_api() {
        api::refuse(request, &api::Problem::MethodNotAllowed)
    } else {
        page(StatusCode::METHOD_NOT_ALLOWED, "this is asked in another way")
    };
    if let Ok(method) = HeaderValue::from_str(endpoint.method().as_str()) {
        answer.headers_mut().insert(ALLOW, method);
    }
    answer
}
