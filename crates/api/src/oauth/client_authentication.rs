//! Authenticates clients of the OAuth endpoints: by their secret, by a signed assertion, or as public clients.
//!
//! Repeated wrong secrets are throttled.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurposeConfig, Simd};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use ringtrue_domain::{
    sign_in::ClientAuthentication,
    tenancy::{Credential, Project},
};
use ringtrue_engine::{sign_in::AssertionError, tokens::ClientAuthError};
use ringtrue_web::{
    app::App,
    body::{Form, form_decode},
    error_catalog::ProblemCode,
    problem::Problem,
};

/// Decoder for standard base64, with or without padding.
static BASE64: LazyLock<Simd> = LazyLock::new(|| {
    Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
});

/// A client, and how it has authenticated.
pub(super) struct AuthenticatedClient {
    pub credential: Arc<Credential>,
    pub method: ClientAuthentication,
}

/// Which clients an endpoint accepts besides those with a secret.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum AcceptedClients {
    /// Also those that authenticate by a signed assertion.
    Confidential,
    /// Also public clients of sign-ins, which do not authenticate.
    ConfidentialOrPublic,
}

/// Value of `client_assertion_type` (RFC 7523, section 2.2).
const JWT_BEARER_ASSERTION: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// Authenticates a client and applies its rate limit.
pub(super) async fn authenticate(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    form: &Form<'_>,
    accepted: AcceptedClients,
) -> Result<AuthenticatedClient, Problem> {
    let now = app.engine.clock().now();
    let client = match (accepted, form.get("client_assertion")) {
        (_, Some(assertion)) => by_assertion(app, headers, form, assertion).await?,
        (AcceptedClients::ConfidentialOrPublic, None)
            if !headers.contains_key(header::AUTHORIZATION) && form.get("client_secret").is_none() =>
        {
            public_client(app, form, now)?
        }
        _ => by_secret(app, address, headers, form, now)?,
    };
    limit_client(app, &client.credential)?;
    Ok(client)
}

/// Applies the rate limit of an authenticated client.
fn limit_client(app: &App, credential: &Credential) -> Result<(), Problem> {
    let now = app.engine.clock().now();
    let workspace = credential.owner.workspace();
    let own = app.engine.control_plane().rate_limit_overrides(workspace);
    let limit_state = app.engine.rate_limiter().limit_client(&credential.client_id, workspace, &own, now);
    if limit_state.admitted {
        return Ok(());
    }
    let detail = format!("rate limit of {} token requests per second exceeded", limit_state.limit);
    Err(Problem::too_many_requests(detail, limit_state.reset_seconds))
}

/// Authenticates a client by a signed assertion (`private_key_jwt`).
async fn by_assertion(
    app: &App,
    headers: &HeaderMap,
    form: &Form<'_>,
    assertion: &str,
) -> Result<AuthenticatedClient, Problem> {
    let invalid = |detail: &str| Problem::new(ProblemCode::InvalidRequest, detail);
    if headers.contains_key(header::AUTHORIZATION) || form.get("client_secret").is_some() {
        return Err(invalid("send either a client assertion or a client secret, not both"));
    }
    if form.get("client_assertion_type") != Some(JWT_BEARER_ASSERTION) {
        return Err(invalid(&format!("`client_assertion_type` must be `{JWT_BEARER_ASSERTION}`")));
    }
    let issuer = app.engine.base_url();
    let endpoints = ["token", "par", "bc-authorize", "revoke"].map(|endpoint| format!("{issuer}/oauth2/{endpoint}"));
    let audiences: Vec<_> = [issuer].into_iter().chain(endpoints.iter().map(String::as_str)).collect();
    let authenticated = app.engine.sign_ins.authenticate_by_assertion(form.get("client_id"), assertion, &audiences);
    let credential = authenticated.await.map_err(|error| match error {
        AssertionError::Store(error) => error.into(),
        AssertionError::RateLimited(limit) => Problem::too_many_requests(error.to_string(), limit.reset_seconds),
        error => with_basic_challenge(Problem::new(ProblemCode::InvalidClient, error.to_string())),
    })?;
    Ok(AuthenticatedClient { credential, method: ClientAuthentication::PrivateKeyJwt })
}

/// Finds a client that has no secret and is configured as a public one. PKCE proves that it sent the authorization
/// request.
fn public_client(app: &App, form: &Form<'_>, now: Timestamp) -> Result<AuthenticatedClient, Problem> {
    let control_plane = app.engine.control_plane();
    let credential = form.get("client_id").and_then(|id| control_plane.credential(id));
    let credential = credential.filter(|credential| credential.is_active(now));
    let is_public = |credential: &Credential| {
        credential.owner.project().is_some_and(|project| {
            let is_public = |project: &Project| !project.disabled && project.configuration.sign_in.is_public_client();
            control_plane.has_project_where(project, is_public)
        })
    };
    let credential = credential.filter(|credential| is_public(credential)).ok_or_else(missing_credentials)?;
    Ok(AuthenticatedClient { credential, method: ClientAuthentication::None })
}

fn missing_credentials() -> Problem {
    let detail = "send the client id and secret by HTTP Basic, or as `client_id` and `client_secret` in the body";
    with_basic_challenge(Problem::new(ProblemCode::InvalidClient, detail))
}

fn by_secret(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    form: &Form<'_>,
    now: Timestamp,
) -> Result<AuthenticatedClient, Problem> {
    if headers.contains_key(header::AUTHORIZATION) {
        let pair = decode_basic_header(headers)?;
        let (client_id, secret) = split_basic_pair(&pair).ok_or_else(invalid_client)?;
        if form.get("client_secret").is_some() || form.get("client_id").is_some_and(|given| given != client_id) {
            let detail = "send the credentials either by HTTP Basic or in the body, not both";
            return Err(Problem::new(ProblemCode::InvalidRequest, detail));
        }
        let credential = verify_secret(app, address, &client_id, &secret, now)?;
        Ok(AuthenticatedClient { credential, method: ClientAuthentication::ClientSecretBasic })
    } else {
        let secret = form.get("client_id").zip(form.get("client_secret"));
        let (client_id, secret) = secret.ok_or_else(missing_credentials)?;
        let credential = verify_secret(app, address, client_id, secret, now)?;
        Ok(AuthenticatedClient { credential, method: ClientAuthentication::ClientSecretPost })
    }
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
pub(super) fn claimed_credential(app: &App, headers: &HeaderMap, posted: Option<&str>) -> Option<Arc<Credential>> {
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

/// Every 401 of an OAuth endpoint has a challenge (RFC 9110, section 11.6.1).
pub(super) fn with_basic_challenge(problem: Problem) -> Problem {
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
