//! Which client asks: by its secret, or by a token that it has signed.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use url::form_urlencoded;

use super::{ErrorCode, Refusal, assertion};
use crate::camara::{
    Client, Core, Endpoint,
    http::{Parameters, Request},
    jose::Jws,
};

const ASSERTION_TYPE: &str = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer";

/// The client, if it has proven in exactly one way to be it.
pub(super) fn authenticate<'a>(
    core: &'a Core,
    request: &Request,
    form: &Parameters,
    endpoint: Endpoint,
) -> Result<&'a Client, Refusal> {
    let client = match (request.credentials("Basic"), form.get("client_secret"), form.get("client_assertion")) {
        (Some(credentials), None, None) => by_basic(core, credentials),
        (None, Some(secret), None) => by_secret(core, form.get("client_id"), secret),
        (None, None, Some(assertion)) => by_signature(core, form, assertion, endpoint),
        (None, None, None) => Err("the client does not authenticate"),
        _ => return Err(Refusal::new(ErrorCode::InvalidRequest, "the client authenticates in more than one way")),
    };
    let client = client.map_err(|why| Refusal::new(ErrorCode::InvalidClient, why))?;
    if form.get("client_id").is_some_and(|id| id != client.id) {
        return Err(Refusal::new(ErrorCode::InvalidClient, "client_id is another client"));
    }
    Ok(client)
}

/// Whether there is anything to authenticate by.
pub(super) fn is_attempted(request: &Request, form: &Parameters) -> bool {
    request.credentials("Basic").is_some()
        || ["client_secret", "client_assertion"].iter().any(|name| form.get(name).is_some())
}

fn by_basic<'a>(core: &'a Core, credentials: &str) -> Result<&'a Client, &'static str> {
    const MALFORMED: &str = "Basic credentials are base64 of name:secret";
    let decoded = BASE64_STANDARD.decode(credentials).map_err(|_| MALFORMED)?;
    let (id, secret) = str::from_utf8(&decoded).ok().and_then(|text| text.split_once(':')).ok_or(MALFORMED)?;
    by_secret(core, Some(&form_decoded(id)), &form_decoded(secret))
}

fn by_secret<'a>(core: &'a Core, id: Option<&str>, secret: &str) -> Result<&'a Client, &'static str> {
    let client = id.and_then(|id| core.client(id)).filter(|client| client.has_secret(secret));
    client.ok_or("there is no such client with this secret")
}

fn by_signature<'a>(
    core: &'a Core,
    form: &Parameters,
    token: &str,
    endpoint: Endpoint,
) -> Result<&'a Client, &'static str> {
    if form.get("client_assertion_type") != Some(ASSERTION_TYPE) {
        return Err("client_assertion_type is not jwt-bearer");
    }
    let token = Jws::parse(token).ok_or("the assertion is not a signed token")?;
    let client = token.claimed_issuer().and_then(|id| core.client(id)).ok_or("iss is not a client")?;
    // CIBA lets a client write the token endpoint's name wherever it authenticates.
    let audiences = [core.url(endpoint), core.url(Endpoint::Token), core.issuer.clone()];
    let claims = assertion::verify(core, client, token, &audiences)?;
    if assertion::text(&claims, "sub") != Some(&client.id) {
        return Err("sub is not the client");
    }
    assertion::use_up(core, client, &claims)?;
    Ok(client)
}

/// Names and secrets are written as in a form before they become Basic credentials.
fn form_decoded(text: &str) -> String {
    let as_form = format!("={}", text.replace('&', "%26"));
    form_urlencoded::parse(as_form.as_bytes()).next().map(|(_, value)| value.into_owned()).unwrap_or_default()
}
