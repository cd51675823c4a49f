//! OpenID Provider metadata.

use serde_json::{Value, json};

use super::grants::GrantType;
use crate::camara::{Endpoint, EndpointFault, OperatorState, jose::CLIENT_SIGNING_ALGORITHMS, scope::Scope};

pub(in crate::camara) fn discovery(state: &OperatorState, fault: &EndpointFault) -> Value {
    let scopes = ["openid"].into_iter().chain(Scope::ALL.map(Scope::as_str));
    let methods = ["private_key_jwt", "client_secret_basic", "client_secret_post"];
    json!({
        "issuer": state.stated_issuer(fault),
        "authorization_endpoint": state.url(Endpoint::Authorize),
        "token_endpoint": state.url(Endpoint::Token),
        "backchannel_authentication_endpoint": state.url(Endpoint::BackchannelAuthorize),
        "jwks_uri": state.url(Endpoint::Jwks),
        "scopes_supported": scopes.collect::<Vec<_>>(),
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": GrantType::ALL.map(GrantType::as_str),
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported": ["ES256"],
        "claims_supported": ["iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "amr", "at_hash"],
        "prompt_values_supported": ["none"],
        "code_challenge_methods_supported": ["S256"],
        "token_endpoint_auth_methods_supported": methods,
        "token_endpoint_auth_signing_alg_values_supported": CLIENT_SIGNING_ALGORITHMS,
        "request_parameter_supported": true,
        "request_uri_parameter_supported": false,
        "request_object_signing_alg_values_supported": CLIENT_SIGNING_ALGORITHMS,
        "authorization_response_iss_parameter_supported": true,
        "backchannel_token_delivery_modes_supported": ["poll"],
        "backchannel_user_code_parameter_supported": false,
        "claims_parameter_supported": false,
    })
}
