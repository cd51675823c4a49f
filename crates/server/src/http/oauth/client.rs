//! OAuth client authentication by HTTP Basic or form fields, with throttling of wrong secrets.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurposeConfig, Simd};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use ringtrue_domain::tenancy::Credential;
use ringtrue_engine::tokens::ClientAuthError;

use crate::http::{
    App,
    body::{Form, form_decode},
    error_catalog::ProblemCode,
    problem::Problem,
};

/// Standard base64 with optional padding.
static BASE64: LazyLock<Simd> = LazyLock::new(|| {
    Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
});

/// Authenticates a client and applies its rate limit.
pub fn authenticate(
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
        return Err(Problem::new(ProblemCode::TooManyRequests, detail).retry_after(limit_state.reset_seconds));
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
    app.engine.authenticate_client(client_id, secret, now).map_err(|error| {
        if error != ClientAuthError::InvalidClient {
            return client_problem(error);
        }
        if let Some(seconds) = limiter.failed_login_delay(client_id, address, now) {
            let detail = "too many failed logins for this client from this address";
            return Problem::new(ProblemCode::TooManyRequests, detail).retry_after(seconds);
        }
        limiter.record_failed_login(client_id, address, now);
        client_problem(error)
    })
}

/// Credential named in a rejected request, by HTTP Basic or the `client_id` form field, without proof.
pub fn claimed_credential(app: &App, headers: &HeaderMap, posted: Option<&str>) -> Option<Arc<Credential>> {
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

/// Decodes the single `Authorization` header to `id:secret`.
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
        // `a:b`, `a:b` without padding, `a%5Fb:c%2Dd`, `a:b:c`
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
