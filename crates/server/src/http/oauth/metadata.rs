//! Authorization server metadata (RFC 8414) and the JWKS of callback keys.

use aws_lc_rs::digest;
use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use http::{HeaderValue, StatusCode, header};
use ringtrue_domain::{product::Scope, tenancy::Mode};
use ringtrue_engine::keys::CallbackPublicKey;
use serde_json::{Value, json as value};

use crate::http::{App, json_bytes_response, json_response};

const CACHE_FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// `GET /.well-known/oauth-authorization-server`
pub async fn authorization_server(State(app): State<App>) -> Response {
    let base = app.engine.base_url();
    let body = value!({
        "issuer": base,
        "token_endpoint": format!("{base}/oauth2/token"),
        "revocation_endpoint": format!("{base}/oauth2/revoke"),
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "scopes_supported": Scope::all().map(Scope::as_str).collect::<Vec<_>>(),
        "response_types_supported": [],
        "grant_types_supported": ["client_credentials"],
        "token_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "revocation_endpoint_auth_methods_supported": ["client_secret_basic", "client_secret_post"],
        "service_documentation": format!("{base}/docs"),
    });
    let mut response = json_response(StatusCode::OK, &body);
    response.headers_mut().insert(header::CACHE_CONTROL, CACHE_FOR_AN_HOUR);
    response
}

/// `GET /.well-known/jwks.json`: callback keys, including upcoming and recently retired ones.
pub async fn jwks(State(app): State<App>, request: Request) -> Response {
    let keys = app.engine.control_plane().keys();
    let keys: Vec<Value> = keys.published_keys(app.engine.clock().now()).into_iter().map(jwk).collect();
    let body = serde_json::to_vec(&value!({ "keys": keys })).unwrap_or_default();
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
    let mut jwk = value!({"kty": "RSA", "use": "sig", "alg": "RS256", "kid": key.kid, "n": key.n, "e": key.e});
    if key.mode == Mode::Sandbox {
        jwk["use_mode"] = Mode::Sandbox.as_str().into();
    }
    jwk
}
