//! Grant types of the token endpoint.

use aws_lc_rs::digest::{SHA256, digest};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};

use super::{
    OAuthError, OAuthErrorCode, assertion, authorize::CODE_LIFETIME, backchannel, client_authentication, subject,
};
use crate::camara::{
    Endpoint, OAuthClient, OperatorState,
    http::{OAuthParameters, Request},
    jose::Jws,
    scope::Scopes,
    sealer::SealedKind,
    store::{AccessToken, Authorization, Grant},
};

/// In seconds.
const SINGLE_USE_TOKEN_LIFETIME: i64 = 300;
/// In seconds.
const TOKEN_LIFETIME: i64 = 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum GrantType {
    AuthorizationCode,
    ClientCredentials,
    Backchannel,
    JwtBearer,
}

/// An issued access token and its grant.
pub(super) struct IssuedToken {
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

    pub(super) fn issue(
        self,
        state: &OperatorState,
        request: &Request,
        form: &OAuthParameters,
    ) -> Result<IssuedToken, OAuthError> {
        let client = || client_authentication::authenticate(state, request, form, Endpoint::Token);
        match self {
            Self::AuthorizationCode => redeem_code(state, client()?, form),
            Self::ClientCredentials => issue_without_nonce(state, client_credentials_grant(client()?, form)?),
            Self::Backchannel => issue_without_nonce(state, backchannel::poll(state, client()?, form)?),
            Self::JwtBearer => issue_without_nonce(state, jwt_bearer_grant(state, request, form)?),
        }
    }
}

/// Redeems a code. A second use revokes the issued token (RFC 6749, 4.1.2).
fn redeem_code(state: &OperatorState, client: &OAuthClient, form: &OAuthParameters) -> Result<IssuedToken, OAuthError> {
    let invalid = |description| OAuthError::new(OAuthErrorCode::InvalidGrant, description);
    let code = form.get("code").ok_or(OAuthError::new(OAuthErrorCode::InvalidRequest, "code is missing"))?;
    let now = state.now();
    let authorization: Authorization =
        state.sealer.open(SealedKind::Code, code).ok_or_else(|| invalid("unknown code"))?;
    let mut store = state.store();
    if let Some(token) = store.used_codes.get_mut(now, code).cloned() {
        store.used_tokens.insert(now, token, now + TOKEN_LIFETIME, ());
        return Err(invalid("the code was already used"));
    }
    let is_match = authorization.grant.client_id == client.id
        && form.get("redirect_uri") == Some(&authorization.redirect_uri)
        && matches_code_challenge(&authorization, form.get("code_verifier"));
    if !is_match || authorization.until <= now {
        return Err(invalid("the code has expired or does not match client_id, redirect_uri or code_verifier"));
    }
    let issued = issue_token(state, authorization.grant, authorization.nonce)?;
    // Kept until the issued token has expired.
    let expires_at = now + CODE_LIFETIME + TOKEN_LIFETIME;
    store.used_codes.insert(now, code.to_owned(), expires_at, issued.access_token.clone());
    Ok(issued)
}

fn matches_code_challenge(authorization: &Authorization, verifier: Option<&str>) -> bool {
    match (&authorization.code_challenge, verifier) {
        (None, None) => true,
        (Some(challenge), Some(verifier)) => {
            (43..=128).contains(&verifier.len())
                && BASE64_URL_SAFE_NO_PAD.encode(digest(&SHA256, verifier.as_bytes())) == *challenge
        }
        _ => false,
    }
}

fn client_credentials_grant(client: &OAuthClient, form: &OAuthParameters) -> Result<Grant, OAuthError> {
    let scopes = form.get("scope").ok_or(OAuthError::new(OAuthErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    if scopes.includes_openid() {
        return Err(OAuthError::new(OAuthErrorCode::InvalidScope, "openid is not available without a user"));
    }
    Ok(Grant { client_id: client.id.clone(), scopes, subject: None })
}

/// The signature of the assertion authenticates the client.
fn jwt_bearer_grant(state: &OperatorState, request: &Request, form: &OAuthParameters) -> Result<Grant, OAuthError> {
    let invalid = |description| OAuthError::new(OAuthErrorCode::InvalidGrant, description);
    if form.get("scope").is_some() {
        return Err(OAuthError::new(OAuthErrorCode::InvalidRequest, "scope must be a claim of the assertion"));
    }
    let token = form.get("assertion").ok_or(OAuthError::new(OAuthErrorCode::InvalidRequest, "assertion is missing"))?;
    let token = Jws::parse(token).ok_or(invalid("assertion is not a JWS"))?;
    let client = token.claimed_issuer().and_then(|id| state.client(id)).ok_or(invalid("iss is not a known client"))?;
    if client_authentication::has_credentials(request, form)
        && client_authentication::authenticate(state, request, form, Endpoint::Token)?.id != client.id
    {
        return Err(invalid("the assertion belongs to another client"));
    }
    let audiences = [state.url(Endpoint::Token), state.issuer.clone()];
    let claims = assertion::verify_assertion(state, client, token, &audiences).map_err(invalid)?;
    if !claims.contains_key("iat") {
        return Err(invalid("iat is missing"));
    }
    let scopes = assertion::claim_str(&claims, "scope")
        .ok_or(OAuthError::new(OAuthErrorCode::InvalidScope, "scope is missing"))?;
    let scopes = Scopes::parse(scopes, &client.scopes)?;
    let subject = assertion::claim_str(&claims, "sub").ok_or(invalid("sub is missing"))?;
    let subject = subject::resolve_subject(subject).map_err(|unknown| invalid(unknown.description))?;
    assertion::consume_jti(state, client, &claims).map_err(invalid)?;
    Ok(Grant { client_id: client.id.clone(), scopes, subject: Some(subject) })
}

fn issue_without_nonce(state: &OperatorState, grant: Grant) -> Result<IssuedToken, OAuthError> {
    issue_token(state, grant, None)
}

fn issue_token(state: &OperatorState, grant: Grant, nonce: Option<String>) -> Result<IssuedToken, OAuthError> {
    let lifetime = if grant.scopes.require_single_use_token() { SINGLE_USE_TOKEN_LIFETIME } else { TOKEN_LIFETIME };
    let content = AccessToken { grant, until: state.now() + lifetime };
    let access_token = state.sealer.seal(SealedKind::AccessToken, &content)?;
    Ok(IssuedToken { access_token, lifetime, grant: content.grant, nonce })
}
