//! OAuth 2.0: token and revocation endpoints, authorization server metadata, and the JWKS of callback keys.
//!
//! Clients authenticate with HTTP Basic or form fields. Repeated wrong secrets are throttled.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use aws_lc_rs::digest;
use axum::{
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use base64::{
    engine::{DecodePaddingMode, Engine as _, GeneralPurposeConfig, Simd},
    prelude::BASE64_URL_SAFE_NO_PAD,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use jiff::Timestamp;
use ringtrue_callback_signature::CallbackPublicKey;
use ringtrue_domain::{
    product::{Scope, join_names},
    tenancy::{Credential, Mode},
};
use ringtrue_engine::tokens::{ClientAuthError, MintError};
use ringtrue_web::{
    app::App,
    body::{Form, form_decode, read_form},
    error_catalog::ProblemCode,
    problem::Problem,
    request_context::RequestContext,
    response::{json_bytes_response, json_response},
    routes::{Routes, post},
};
use serde_json::{Value, json};

const CACHE_FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");
/// Initial capacity of a token response's header map. Fits all headers, including those added by the middleware.
const TOKEN_RESPONSE_HEADERS: usize = 8;

/// Decoder for standard base64, with or without padding.
static BASE64: LazyLock<Simd> = LazyLock::new(|| {
    Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
});

pub fn routes() -> Routes {
    Routes::default()
        .route("/oauth2/token", post(issue).oauth_endpoint())
        .route("/oauth2/revoke", post(revoke).oauth_endpoint())
        .logged()
        .get("/.well-known/oauth-authorization-server", authorization_server)
        .get("/.well-known/jwks.json", jwks)
}

/// `POST /oauth2/token` (RFC 6749, client credentials)
async fn issue(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let issue = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let grant_type = form.get("grant_type").ok_or_else(|| missing_parameter("grant_type"))?;
        let now = app.engine.clock().now();
        let client = authenticate(&app, context.client_ip, &parts.headers, &form, now)?;
        context.log_client(Arc::clone(&client));
        if grant_type != "client_credentials" {
            let detail = "unsupported grant_type; use `client_credentials`";
            return Err(Problem::new(ProblemCode::UnsupportedGrantType, detail));
        }
        let token = app.engine.tokens.mint_token(&client, parse_scope(&form)?, now).map_err(|error| match error {
            MintError::Scope(error) => Problem::new(ProblemCode::InvalidScope, error.to_string()),
            MintError::NoKey => Problem::unavailable("no token signing key is active yet"),
        })?;
        // The values need no escaping: base64url, an integer and a scope name.
        let (expires_in, scope) = (token.expires_in.to_string(), token.scope.into_str());
        let body = [
            r#"{"access_token":""#,
            &token.token,
            r#"","token_type":"bearer","expires_in":"#,
            &expires_in,
            r#","scope":""#,
            scope,
            r#""}"#,
        ]
        .concat();
        let mut response = Response::new(body.into());
        let headers = response.headers_mut();
        headers.reserve(TOKEN_RESPONSE_HEADERS);
        headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("application/json"));
        headers.insert(header::PRAGMA, HeaderValue::from_static("no-cache"));
        Ok(response)
    };
    issue.await.inspect_err(|_: &Problem| {
        context.log_claimed_client(|| claimed_credential(&app, &parts.headers, posted.as_deref()));
    })
}

/// `POST /oauth2/revoke` (RFC 7009)
async fn revoke(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    request: Request,
) -> Result<Response, Problem> {
    let (parts, body) = request.into_parts();
    let mut posted = None;
    let revoke = async {
        let body = read_form(&app, &parts.headers, body).await?;
        let form = Form::parse(&body)?;
        posted = form.get("client_id").map(str::to_owned);
        let client = authenticate(&app, context.client_ip, &parts.headers, &form, app.engine.clock().now())?;
        context.log_client(Arc::clone(&client));
        let token = form.get("token").ok_or_else(|| missing_parameter("token"))?;
        app.engine.tokens.revoke_token(&client, token).await?;
        // The body is not empty, because some clients parse the body of every success response.
        Ok(json_bytes_response(StatusCode::OK, "{}"))
    };
    revoke.await.inspect_err(|_: &Problem| {
        context.log_claimed_client(|| claimed_credential(&app, &parts.headers, posted.as_deref()));
    })
}

fn missing_parameter(parameter: &str) -> Problem {
    Problem::new(ProblemCode::InvalidRequest, format!("missing parameter `{parameter}`"))
}

/// Parses the `scope` parameter, which must be exactly one known scope.
fn parse_scope(form: &Form<'_>) -> Result<Scope, Problem> {
    let invalid = |detail: &str| Problem::new(ProblemCode::InvalidScope, detail);
    let text = form.get("scope").ok_or_else(|| missing_parameter("scope"))?;
    if text.trim().contains(' ') {
        return Err(invalid("multiple scopes; request a separate token for each scope"));
    }
    text.parse().map_err(|_| invalid(&format!("unknown scope; use {}", join_names(Scope::all().map(Scope::into_str)))))
}

/// Authenticates a client and applies its rate limit.
fn authenticate(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    form: &Form<'_>,
    now: Timestamp,
) -> Result<Arc<Credential>, Problem> {
    let credential = if headers.contains_key(header::AUTHORIZATION) {
        let pair = decode_basic_header(headers)?;
        let (client_id, secret) = split_basic_pair(&pair).ok_or_else(invalid_client)?;
        if form.get("client_secret").is_some() || form.get("client_id").is_some_and(|given| given != client_id) {
            let detail = "send the credentials either by HTTP Basic or in the body, not both";
            return Err(Problem::new(ProblemCode::InvalidRequest, detail));
        }
        verify_secret(app, address, &client_id, &secret, now)?
    } else {
        let (Some(client_id), Some(secret)) = (form.get("client_id"), form.get("client_secret")) else {
            let detail =
                "send the client id and secret by HTTP Basic, or as `client_id` and `client_secret` in the body";
            return Err(with_basic_challenge(Problem::new(ProblemCode::InvalidClient, detail)));
        };
        verify_secret(app, address, client_id, secret, now)?
    };
    let workspace = credential.owner.workspace();
    let own = app.engine.control_plane().rate_limit_overrides(workspace);
    let limit_state = app.engine.rate_limiter().limit_client(&credential.client_id, workspace, &own, now);
    if !limit_state.admitted {
        let detail = format!("rate limit of {} token requests per second exceeded", limit_state.limit);
        return Err(Problem::too_many_requests(detail, limit_state.reset_seconds));
    }
    Ok(credential)
}

/// Verifies the secret before the throttle applies, so that clients with valid secrets are not locked out by attackers
/// behind the same address.
fn verify_secret(
    app: &App,
    address: IpAddr,
    client_id: &str,
    secret: &str,
    now: Timestamp,
) -> Result<Arc<Credential>, Problem> {
    let limiter = app.engine.rate_limiter();
    app.engine.tokens.authenticate_client(client_id, secret, now).map_err(|error| {
        if error != ClientAuthError::InvalidClient {
            return client_problem(error);
        }
        if let Some(seconds) = limiter.failed_login_delay(client_id, address, now) {
            let detail = "too many failed logins for this client from this address";
            return Problem::too_many_requests(detail, seconds);
        }
        limiter.record_failed_login(client_id, address, now);
        client_problem(error)
    })
}

/// Finds the credential whose id a rejected request contains, in HTTP Basic or in the `client_id` form field, for the
/// request log. The secret is not verified.
fn claimed_credential(app: &App, headers: &HeaderMap, posted: Option<&str>) -> Option<Arc<Credential>> {
    if !headers.contains_key(header::AUTHORIZATION) {
        return app.engine.control_plane().credential(posted?);
    }
    let pair = decode_basic_header(headers).ok()?;
    app.engine.control_plane().credential(&split_basic_pair(&pair)?.0)
}

fn client_problem(error: ClientAuthError) -> Problem {
    let code = match error {
        ClientAuthError::InvalidClient => ProblemCode::InvalidClient,
        ClientAuthError::CredentialRevoked | ClientAuthError::ProjectDisabled => ProblemCode::Unauthorized,
    };
    with_basic_challenge(Problem::new(code, error.to_string()))
}

fn with_basic_challenge(problem: Problem) -> Problem {
    problem
        .with_header(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Basic realm="ringtrue", charset="UTF-8""#))
}

fn invalid_client() -> Problem {
    client_problem(ClientAuthError::InvalidClient)
}

/// Decodes the single `Authorization` header and returns `id:secret`.
fn decode_basic_header(headers: &HeaderMap) -> Result<String, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or_else(invalid_client)?;
    if values.next().is_some() {
        return Err(Problem::new(ProblemCode::InvalidRequest, "repeated `Authorization` header"));
    }
    let (scheme, encoded) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(invalid_client)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(invalid_client());
    }
    let decoded = BASE64.decode(encoded.trim()).map_err(|_| invalid_client())?;
    String::from_utf8(decoded).map_err(|_| invalid_client())
}

/// Splits and form-decodes id and secret (RFC 6749, section 2.3.1). Our ids and secrets contain no characters that
/// decoding changes, so clients that do not encode them work too.
fn split_basic_pair(pair: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (client_id, secret) = pair.split_once(':')?;
    Some((form_decode(client_id), form_decode(secret)))
}

/// `GET /.well-known/oauth-authorization-server`
async fn authorization_server(State(app): State<App>) -> Response {
    let base = app.engine.base_url();
    let body = json!({
        "issuer": base,
        "token_endpoint": format!("{base}/oauth2/token"),
        "revocation_endpoint": format!("{base}/oauth2/revoke"),
        "jwks_uri": format!("{base}/.well-known/jwks.json"),
        "scopes_supported": Scope::all().map(Scope::into_str).collect::<Vec<_>>(),
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

/// `GET /.well-known/jwks.json`: public keys of callback signatures, including upcoming and recently retired ones.
async fn jwks(State(app): State<App>, request: Request) -> Response {
    let keys = app.engine.control_plane().keys();
    let keys: Vec<Value> = keys.published_keys(app.engine.clock().now()).into_iter().map(jwk).collect();
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

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> Option<(String, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        let pair = decode_basic_header(&headers).ok()?;
        split_basic_pair(&pair).map(|(id, secret)| (id.into_owned(), secret.into_owned()))
    }

    #[test]
    fn basic_credentials_may_be_encoded_or_raw() {
        let pair = |id: &str, secret: &str| Some((id.to_owned(), secret.to_owned()));
        // Decoded, the first five are `a:b`, `a:b`, `a%5Fb:c%2Dd` with and without base64 padding, and `a:b:c`. `YWI=`
        // has no colon, and `/zov` is not UTF-8.
        for (value, expected) in [
            (&b"Basic YTpi"[..], pair("a", "b")),
            (b"basic YTpi", pair("a", "b")),
            (b"Basic YSU1RmI6YyUyRGQ=", pair("a_b", "c-d")),
            (b"Basic YSU1RmI6YyUyRGQ", pair("a_b", "c-d")),
            (b"Basic YTpiOmM=", pair("a", "b:c")),
            (b"Basic", None),
            (b"Basic !!!", None),
            (b"Basic YWI=", None),
            (b"Basic /zov", None),
            (b"Bearer YTpi", None),
        ] {
            assert_eq!(read(value), expected, "{}", String::from_utf8_lossy(value));
        }
    }
}
