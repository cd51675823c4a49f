//! Metadata of the authorization server and OpenID provider, and its public keys.

use aws_lc_rs::digest;
use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use base64::{engine::Engine as _, prelude::BASE64_URL_SAFE_NO_PAD};
use http::{HeaderValue, StatusCode, header};
use ringtrue_callback_signature::CallbackPublicKey;
use ringtrue_domain::{
    camara::CamaraScope,
    product::{Product, Scope},
    sign_in::{AuthenticationContext, ClientAuthentication, IdTokenAlgorithm, SignInScopes},
    tenancy::Mode,
};
use ringtrue_engine::jwt::SIGNING_ALGORITHMS;
use ringtrue_verification_page::Language;
use ringtrue_web::{
    app::App,
    response::{json_bytes_response, json_response},
};
use serde_json::{Value, json};
use strum::VariantArray as _;

use super::camara::{CIBA, JWT_BEARER};

const CACHE_FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// `GET /.well-known/oauth-authorization-server` (RFC 8414)
pub async fn authorization_server(State(app): State<App>) -> Response {
    metadata(&app)
}

/// `GET /.well-known/openid-configuration` (OpenID Connect Discovery 1.0). The same document: it describes one server.
pub async fn openid_configuration(State(app): State<App>) -> Response {
    metadata(&app)
}

fn metadata(app: &App) -> Response {
    let base = app.engine.base_url();
    let sign_in_scopes = [SignInScopes::OPENID, SignInScopes::PHONE];
    let product_scopes = Scope::all().filter(|scope| *scope != Scope::Product(Product::SignIn));
    let scopes: Vec<_> = sign_in_scopes.into_iter().chain(product_scopes.map(Scope::into_str)).collect();
    let signing_algorithms: Vec<_> = SIGNING_ALGORITHMS.iter().map(|algorithm| format!("{algorithm:?}")).collect();
    let client_authentication: Vec<_> = ClientAuthentication::VARIANTS.iter().map(|one| one.as_str()).collect();
    let mut body = json!({
        "issuer": base,
        "authorization_endpoint": format!("{base}/oauth2/authorize"),
        "token_endpoint": format!("{base}/oauth2/token"),
        "userinfo_endpoint": format!("{base}/oauth2/userinfo"),
        "pushed_authorization_request_endpoint": format!("{base}/oauth2/par"),
        "revocation_endpoint": format!("{base}/oauth2/revoke"),
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "scopes_supported": scopes,
        "response_types_supported": ["code"],
        "response_modes_supported": ["query"],
        "grant_types_supported": ["client_credentials", "authorization_code"],
        "subject_types_supported": ["pairwise"],
        "id_token_signing_alg_values_supported":
            IdTokenAlgorithm::VARIANTS.iter().map(|one| one.as_str()).collect::<Vec<_>>(),
        "token_endpoint_auth_methods_supported": client_authentication,
        "token_endpoint_auth_signing_alg_values_supported": signing_algorithms,
        "revocation_endpoint_auth_methods_supported": client_authentication,
        "request_object_signing_alg_values_supported": signing_algorithms,
        "code_challenge_methods_supported": ["S256"],
        "prompt_values_supported": ["none", "login", "select_account", "consent"],
        "display_values_supported": ["page", "popup", "touch"],
        "claim_types_supported": ["normal"],
        "claims_supported": [
            "iss", "sub", "aud", "exp", "iat", "auth_time", "nonce", "acr", "amr", "at_hash", "phone_number",
            "phone_number_verified", "sim_change",
        ],
        "acr_values_supported": AuthenticationContext::ALL.map(AuthenticationContext::acr),
        "ui_locales_supported": Language::VARIANTS.iter().map(|language| language.tag()).collect::<Vec<_>>(),
        "claims_parameter_supported": false,
        "request_parameter_supported": true,
        "request_uri_parameter_supported": false,
        "require_pushed_authorization_requests": false,
        "authorization_response_iss_parameter_supported": true,
        "service_documentation": format!("{base}/docs"),
    });
    if app.engine.camara.is_enabled() {
        add_camara(&mut body, base, &signing_algorithms);
    }
    let mut response = json_response(StatusCode::OK, &body);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_FOR_AN_HOUR);
    response
}

/// Adds what clients of CAMARA's APIs can use (OpenID Connect CIBA, section 4).
fn add_camara(body: &mut Value, base: &str, signing_algorithms: &[String]) {
    let extend = |list: &mut Value, added: &mut dyn Iterator<Item = &'static str>| {
        if let Some(list) = list.as_array_mut() {
            list.extend(added.map(Value::from));
        }
    };
    extend(&mut body["scopes_supported"], &mut CamaraScope::VARIANTS.iter().map(CamaraScope::into_str));
    extend(&mut body["grant_types_supported"], &mut [JWT_BEARER, CIBA].into_iter());
    body["backchannel_authentication_endpoint"] = format!("{base}/oauth2/bc-authorize").into();
    body["backchannel_token_delivery_modes_supported"] = json!(["poll"]);
    body["backchannel_authentication_request_signing_alg_values_supported"] = json!(signing_algorithms);
    body["backchannel_user_code_parameter_supported"] = false.into();
}

/// `GET /.well-known/jwks.json`: public keys of callback signatures and ID tokens, including upcoming and recently
/// retired ones.
pub async fn jwks(State(app): State<App>, request: Request) -> Response {
    let keys = app.engine.control_plane().keys();
    let now = app.engine.clock().now();
    let id_token_keys = keys.published_id_token_keys(now).into_iter().cloned();
    let keys: Vec<Value> = keys.published_callback_keys(now).into_iter().map(jwk).chain(id_token_keys).collect();
    let body = serde_json::to_vec(&json!({ "keys": keys })).unwrap_or_default();
    let tag = format!("\"{}\"", BASE64_URL_SAFE_NO_PAD.encode(digest::digest(&digest::SHA256, &body)));
    let is_known = request
        .headers()
        .get_all(header::IF_NONE_MATCH)
        .iter()
        .filter_map(|value| value.to_str().ok())
        .flat_map(|value| value.split(','))
        .any(|known| matches!(known.trim(), "*") || known.trim().trim_start_matches("W/") == tag);
    let mut response =
        if is_known { StatusCode::NOT_MODIFIED.into_response() } else { json_bytes_response(StatusCode::OK, body) };
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_FOR_AN_HOUR);
    if let Ok(tag) = HeaderValue::from_str(&tag) {
        response.headers_mut().insert(header::ETAG, tag);
    }
    response
}

fn jwk(key: &CallbackPublicKey) -> Value {
    let mut jwk = json!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": key.kid, "n": key.n, "e": key.e});
    if key.mode == Mode::Sandbox {
        jwk["use_mode"] = Mode::Sandbox.into_str().into();
    }
    jwk
}
