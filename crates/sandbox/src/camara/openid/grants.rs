//! The ways to get a token, and what each gives.

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use super::{ErrorCode, Refusal, assertion, authorize::CODE_LIFETIME, backchannel, client_authentication, subject};
use crate::camara::{
    Client, Core, Endpoint,
    http::{Parameters, Request},
    jose::Jws,
    memory::{AccessToken, Authorization, Grant},
    scope::Scopes,
    sealed::Kind,
};

/// How long a token for one call is good, in seconds.
const ONE_CALL_TOKEN: i64 = 300;
/// How long any other is.
const LONGEST_TOKEN: i64 = 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantType {
    AuthorizationCode,
    ClientCredentials,
    Backchannel,
    JwtBearer,
}

/// A grant with the access token for it.
pub(super) struct Issued {
    pub access_token: String,
    pub lifetime: i64,
    pub grant: Grant,
    pub nonce: Option<String>,
}

impl GrantType {
    pub(super) const ALL: [Self; 4] =
        [Self::AuthorizationCode, Self::ClientCredentials, Self::Backchannel, Self::JwtBearer];

    pub(super) fn as_str(self) -> &'static str {
        match self {
            Self::AuthorizationCode => "authorization_code",
            Self::ClientCredentials => "client_credentials",
            Self::Backchannel => "urn:openid:params:grant-type:ciba",
            Self::JwtBearer => "urn:ietf:params:oauth:grant-type:jwt-bearer",
        }
    }

    pub(super) fn issue(self, core: &Core, request: &Request, form: &Parameters) -> Result<Issued, Refusal> {
        let client = || client_authentication::authenticate(core, request, form, Endpoint::Token);
        match self {
            Self::AuthorizationCode => redeem(core, client()?, form),
            Self::ClientCredentials => issue(core, of_client(client()?, form)?),
            Self::Backchannel => issue(core, backchannel::poll(core, client()?, form)?),
            Self::JwtBearer => issue(core, by_assertion(core, request, form)?),
        }
    }
}

/// A code is good once. Who brings it again may have stolen it, so what it gave is taken back.
fn redeem(core: &Core, client: &Client, form: &Parameters) -> Result<Issued, Refusal> {
    let invalid = |why| Refusal::new(ErrorCode::InvalidGrant, why);
    let name = form.get("code").ok_or(Refusal::new(ErrorCode::InvalidRequest, "code is missing"))?;
    let now = core.now();
    let authorization: Authorization =
        core.sealer.open(Kind::Code, name).ok_or_else(|| invalid("there is no such code"))?;
    let mut memory = core.memory();
    if let Some(token) = memory.used_codes.get_mut(now, name).cloned() {
        memory.used_tokens.insert(now, token, now + LONGEST_TOKEN, ());
        return Err(invalid("the code was used before"));
    }
    let is_theirs = authorization.grant.client_id == client.id
        && form.get("redirect_uri") == Some(&authorization.redirect_uri)
        && is_proven(&authorization, form.get("code_verifier"));
    if !is_theirs || authorization.until <= now {
        return Err(invalid("the code has expired, or is for another client, redirect_uri or code_verifier"));
    }
    let issued = seal(core, authorization.grant, authorization.nonce)?;
    // Remembered for as long as there may be a token that it was exchanged for.
    let forgotten_at = now + CODE_LIFETIME + LONGEST_TOKEN;
    memory.used_codes.insert(now, name.to_owned(), forgotten_at, issued.access_token.clone());
    Ok(issued)
}

fn is_proven(authorization: &Authorization, verifier: Option<&str>) -> bool {
    match (&authorization.code_challenge, verifier) {
        (None, None) => true,
        (Some(challenge), Some(verifier)) => {
            (43..=128).contains(&verifier.len())
                && BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())) == *challenge
        }
        _ => false,
    }
}

fn of_client(client: &Client, form: &Parameters) -> Result<Grant, Refusal> {
    let scopes = form.get("scope").ok_or(Refusal::new(ErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    if scopes.openid() {
        return Err(Refusal::new(ErrorCode::InvalidScope, "there is no user to tell of"));
    }
    Ok(Grant { client_id: client.id.clone(), scopes, subject: None })
}

/// The assertion names the user, and its signature is proof enough of the client.
fn by_assertion(core: &Core, request: &Request, form: &Parameters) -> Result<Grant, Refusal> {
    let invalid = |why| Refusal::new(ErrorCode::InvalidGrant, why);
    if form.get("scope").is_some() {
        return Err(Refusal::new(ErrorCode::InvalidRequest, "scope is a claim of the assertion"));
    }
    let token = form.get("assertion").ok_or(Refusal::new(ErrorCode::InvalidRequest, "assertion is missing"))?;
    let token = Jws::parse(token).ok_or(invalid("the assertion is not a signed token"))?;
    let client = token.claimed_issuer().and_then(|id| core.client(id)).ok_or(invalid("iss is not a client"))?;
    if client_authentication::is_attempted(request, form)
        && client_authentication::authenticate(core, request, form, Endpoint::Token)?.id != client.id
    {
        return Err(invalid("the assertion is another client's"));
    }
    let audiences = [core.url(Endpoint::Token), core.issuer.clone()];
    let claims = assertion::verify(core, client, token, &audiences).map_err(invalid)?;
    if !claims.contains_key("iat") {
        return Err(invalid("iat is missing"));
    }
    let scopes = assertion::text(&claims, "scope").ok_or(Refusal::new(ErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    let subject = assertion::text(&claims, "sub").ok_or(invalid("sub is missing"))?;
    let subject = subject::named(subject).map_err(|unknown| invalid(unknown.why))?;
    assertion::use_up(core, client, &claims).map_err(invalid)?;
    Ok(Grant { client_id: client.id.clone(), scopes, subject: Some(subject) })
}

fn issue(core: &Core, grant: Grant) -> Result<Issued, Refusal> {
    seal(core, grant, None)
}

fn seal(core: &Core, grant: Grant, nonce: Option<String>) -> Result<Issued, Refusal> {
    let lifetime = if grant.scopes.are_for_one_call() { ONE_CALL_TOKEN } else { LONGEST_TOKEN };
    let content = AccessToken { grant, until: core.now() + lifetime };
    let access_token = core.sealer.seal(Kind::AccessToken, &content)?;
    Ok(Issued { access_token, lifetime, grant: content.grant, nonce })
}
