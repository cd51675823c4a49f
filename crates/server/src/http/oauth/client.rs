//! Who asks for a token: credentials by HTTP Basic or in the form, and the throttle on guessing them.

use std::{
    borrow::Cow,
    net::IpAddr,
    sync::{Arc, LazyLock},
};

use base64::engine::{DecodePaddingMode, Engine as _, GeneralPurposeConfig, Simd};
use http::{HeaderMap, HeaderValue, header};
use jiff::Timestamp;
use ringtrue_domain::tenancy::Credential;
use ringtrue_engine::tokens::ClientError;

use crate::http::{
    App,
    body::{Form, form_decoded},
    catalogue::Code,
    problem::Problem,
};

/// Standard base64, with or without its padding.
static BASE64: LazyLock<Simd> = LazyLock::new(|| {
    Simd::standard(GeneralPurposeConfig::new().with_decode_padding_mode(DecodePaddingMode::Indifferent))
});

/// Authenticates a client, and counts its request against its limits.
pub fn authenticate(
    app: &App,
    address: IpAddr,
    headers: &HeaderMap,
    form: &Form<'_>,
    now: Timestamp,
) -> Result<Arc<Credential>, Problem> {
    let credential = if headers.contains_key(header::AUTHORIZATION) {
        let pair = basic_pair(headers)?;
        let (client_id, secret) = id_and_secret(&pair).ok_or_else(not_a_client)?;
        if form.get("client_secret").is_some() || form.get("client_id").is_some_and(|given| given != client_id) {
            let detail = "send the credentials by HTTP Basic or in the body, not both";
            return Err(Problem::new(Code::InvalidRequest, detail));
        }
        compare(app, address, &client_id, &secret, now)?
    } else {
        let (Some(client_id), Some(secret)) = (form.get("client_id"), form.get("client_secret")) else {
            let detail =
                "send the client id and secret by HTTP Basic, or as `client_id` and `client_secret` in the body";
            return Err(challenge(Problem::new(Code::InvalidClient, detail)));
        };
        compare(app, address, client_id, secret, now)?
    };
    let workspace = credential.owner.workspace();
    let own = app.engine.control_plane().own_limits(workspace);
    let standing = app.engine.limiter().client(&credential.client_id, workspace, &own, now);
    if !standing.admitted {
        let detail = format!("the limit of {} token requests per second is reached", standing.limit);
        return Err(Problem::new(Code::TooManyRequests, detail).retry_after(standing.reset));
    }
    Ok(credential)
}

/// The secret is compared before the throttle is asked: a client with the right one is served, whoever else guesses
/// behind the same address.
fn compare(
    app: &App,
    address: IpAddr,
    client_id: &str,
    secret: &str,
    now: Timestamp,
) -> Result<Arc<Credential>, Problem> {
    let limiter = app.engine.limiter();
    app.engine.authenticate_client(client_id, secret, now).map_err(|error| {
        if error != ClientError::InvalidClient {
            return refuse(error);
        }
        if let Some(seconds) = limiter.login_delay(client_id, address, now) {
            let detail = "too many failed attempts with this client from this address";
            return Problem::new(Code::TooManyRequests, detail).retry_after(seconds);
        }
        limiter.login_failed(client_id, address, now);
        refuse(error)
    })
}

/// The credential that a refused request names, whether or not it knows the secret: by HTTP Basic, or by the `client_id`
/// of its form.
pub fn named(app: &App, headers: &HeaderMap, posted: Option<&str>) -> Option<Arc<Credential>> {
    if !headers.contains_key(header::AUTHORIZATION) {
        return app.engine.control_plane().credential(posted?);
    }
    let pair = basic_pair(headers).ok()?;
    app.engine.control_plane().credential(&id_and_secret(&pair)?.0)
}

fn refuse(error: ClientError) -> Problem {
    let code = match error {
        ClientError::InvalidClient => Code::InvalidClient,
        ClientError::CredentialRevoked | ClientError::ProjectDisabled => Code::Unauthorized,
    };
    challenge(Problem::new(code, error.to_string()))
}

fn challenge(problem: Problem) -> Problem {
    problem.with(header::WWW_AUTHENTICATE, HeaderValue::from_static(r#"Basic realm="ringtrue", charset="UTF-8""#))
}

fn not_a_client() -> Problem {
    refuse(ClientError::InvalidClient)
}

/// What the one `Authorization` header says, without its base64.
fn basic_pair(headers: &HeaderMap) -> Result<String, Problem> {
    let mut values = headers.get_all(header::AUTHORIZATION).iter();
    let value = values.next().ok_or_else(not_a_client)?;
    if values.next().is_some() {
        return Err(Problem::new(Code::InvalidRequest, "send one `Authorization` header"));
    }
    let (scheme, encoded) = value.to_str().ok().and_then(|value| value.split_once(' ')).ok_or_else(not_a_client)?;
    if !scheme.eq_ignore_ascii_case("basic") {
        return Err(not_a_client());
    }
    let decoded = BASE64.decode(encoded.trim()).map_err(|_| not_a_client())?;
    String::from_utf8(decoded).map_err(|_| not_a_client())
}

/// Id and secret, each form-url-decoded as RFC 6749 has it. Ours hold no character that decoding would change, so
/// clients that do not encode are served too.
fn id_and_secret(pair: &str) -> Option<(Cow<'_, str>, Cow<'_, str>)> {
    let (client_id, secret) = pair.split_once(':')?;
    Some((form_decoded(client_id), form_decoded(secret)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(value: &[u8]) -> Option<(String, String)> {
        let mut headers = HeaderMap::new();
        headers.insert(header::AUTHORIZATION, HeaderValue::from_bytes(value).unwrap());
        let pair = basic_pair(&headers).ok()?;
        id_and_secret(&pair).map(|(id, secret)| (id.into_owned(), secret.into_owned()))
    }

    #[test]
    fn basic_credentials_are_read_encoded_or_raw() {
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
