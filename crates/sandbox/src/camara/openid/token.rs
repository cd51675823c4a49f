//! Token endpoint: grants, access tokens and ID tokens; and the backchannel endpoint (CIBA).

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use serde::Serialize;
use serde_json::json;
use strum::{EnumString, VariantNames};

use super::{CODE_LIFETIME, authenticate, claim_str, consume_jti, has_credentials, parse_phone_hint, verify_assertion};
use crate::camara::{
    Endpoint, EndpointFault, OAuthClient, OperatorState,
    client::Scopes,
    jose::{Jws, SigningKey},
    message::{HttpResponse, OAuthError, OAuthErrorCode, OAuthParameters, Request, json_response},
    random_token,
    sim::{PhoneNumber, SimHistory},
    store::{
        AccessToken, AuthenticationMethod, AuthorizationCode, BackchannelRequest, Grant, OperatorToken, SealedKind,
        Subject,
    },
};

#[derive(Serialize)]
struct TokenResponse<'a> {
    access_token: &'a str,
    token_type: &'static str,
    expires_in: i64,
    scope: &'a str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id_token: Option<String>,
}

/// `POST /token`
pub(in crate::camara) fn token_endpoint(
    state: &OperatorState,
    request: &Request,
    fault: &EndpointFault,
) -> HttpResponse {
    handle_request(state, request)
        .and_then(|issued| token_response(state, &issued, fault))
        .unwrap_or_else(OAuthError::into_response)
}

fn handle_request(state: &OperatorState, request: &Request) -> Result<IssuedToken, OAuthError> {
    let invalid = |description| OAuthErrorCode::InvalidRequest.with_description(description);
    let form = request.form().filter(|form| !form.has_repeated());
    let form = form.ok_or(invalid("the body must be a form without repeated parameters"))?;
    let requested = form.get("grant_type").ok_or(invalid("grant_type is missing"))?;
    let grant_type: GrantType = requested
        .parse()
        .map_err(|_| OAuthErrorCode::UnsupportedGrantType.with_description("unsupported grant_type"))?;
    grant_type.issue(state, request, &form)
}

fn token_response(
    state: &OperatorState,
    issued: &IssuedToken,
    fault: &EndpointFault,
) -> Result<HttpResponse, OAuthError> {
    Ok(json_response(&TokenResponse {
        access_token: &issued.access_token,
        token_type: "Bearer",
        expires_in: issued.lifetime,
        scope: issued.grant.scopes.as_str(),
        id_token: issue_id_token(state, issued, fault)?,
    }))
}

/// Lifetime of tokens for Number Verification, in seconds.
const SINGLE_USE_TOKEN_LIFETIME: i64 = 300;
/// Lifetime of other tokens, in seconds.
const TOKEN_LIFETIME: i64 = 3600;

#[derive(Clone, Copy, Debug, PartialEq, Eq, EnumString, VariantNames)]
#[strum(serialize_all = "snake_case")]
pub(super) enum GrantType {
    AuthorizationCode,
    ClientCredentials,
    #[strum(serialize = "urn:openid:params:grant-type:ciba")]
    Backchannel,
    #[strum(serialize = "urn:ietf:params:oauth:grant-type:jwt-bearer")]
    JwtBearer,
}

/// An issued access token and its grant.
struct IssuedToken {
    access_token: String,
    lifetime: i64,
    grant: Grant,
    nonce: Option<String>,
}

impl GrantType {
    fn issue(
        self,
        state: &OperatorState,
        request: &Request,
        form: &OAuthParameters,
    ) -> Result<IssuedToken, OAuthError> {
        let client = || authenticate(state, request, form, Endpoint::Token);
        match self {
            Self::AuthorizationCode => redeem_code(state, client()?, form),
            Self::ClientCredentials => issue_token(state, client_credentials_grant(client()?, form)?, None),
            Self::Backchannel => issue_token(state, handle_backchannel_poll(state, client()?, form)?, None),
            Self::JwtBearer => issue_token(state, jwt_bearer_grant(state, request, form)?, None),
        }
    }
}

/// Redeems a code. A second use revokes the issued token (RFC 6749, 4.1.2).
fn redeem_code(state: &OperatorState, client: &OAuthClient, form: &OAuthParameters) -> Result<IssuedToken, OAuthError> {
    let invalid = |description| OAuthErrorCode::InvalidGrant.with_description(description);
    let code = form.get("code").ok_or(OAuthErrorCode::InvalidRequest.with_description("code is missing"))?;
    let now = state.now();
    let authorization: AuthorizationCode =
        state.sealer.open(SealedKind::Code, code).ok_or_else(|| invalid("unknown code"))?;
    let mut store = state.store();
    if let Some(token) = store.used_codes.get_mut(now, code).copied() {
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
    // The code is kept until the issued token has expired, so that a second use of the code can revoke the token.
    let expires_at = now + CODE_LIFETIME + TOKEN_LIFETIME;
    store.used_codes.insert(now, code, expires_at, issued.access_token.as_str().into());
    Ok(issued)
}

fn matches_code_challenge(authorization: &AuthorizationCode, verifier: Option<&str>) -> bool {
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
    let scopes = Scopes::parse(form.get("scope"), &client.scopes)?;
    if scopes.includes_openid() {
        return Err(OAuthErrorCode::InvalidScope.with_description("openid is not available without a user"));
    }
    Ok(Grant { client_id: client.id.clone(), scopes, subject: None })
}

/// Handles the JWT bearer grant. The signature of the assertion authenticates the client.
fn jwt_bearer_grant(state: &OperatorState, request: &Request, form: &OAuthParameters) -> Result<Grant, OAuthError> {
    let invalid = |description| OAuthErrorCode::InvalidGrant.with_description(description);
    if form.get("scope").is_some() {
        return Err(OAuthErrorCode::InvalidRequest.with_description("scope must be a claim of the assertion"));
    }
    let token = form.get("assertion").ok_or(OAuthErrorCode::InvalidRequest.with_description("assertion is missing"))?;
    let token = Jws::parse(token).ok_or(invalid("assertion is not a JWS"))?;
    let client = token.claimed_issuer().and_then(|id| state.client(id)).ok_or(invalid("iss is not a known client"))?;
    if has_credentials(request, form) && authenticate(state, request, form, Endpoint::Token)?.id != client.id {
        return Err(invalid("the assertion belongs to another client"));
    }
    let audiences = [state.url(Endpoint::Token), state.issuer.clone()];
    let claims = verify_assertion(state, client, token, &audiences).map_err(invalid)?;
    if !claims.contains_key("iat") {
        return Err(invalid("iat is missing"));
    }
    let scopes = Scopes::parse(claim_str(&claims, "scope"), &client.scopes)?;
    let subject = claim_str(&claims, "sub").ok_or(invalid("sub is missing"))?;
    let subject = resolve_subject(state, subject).map_err(|unknown| invalid(unknown.description))?;
    consume_jti(state, client, &claims).map_err(invalid)?;
    Ok(Grant { client_id: client.id.clone(), scopes, subject: Some(subject) })
}

fn issue_token(state: &OperatorState, grant: Grant, nonce: Option<String>) -> Result<IssuedToken, OAuthError> {
    let lifetime = if grant.scopes.requires_single_use_token() { SINGLE_USE_TOKEN_LIFETIME } else { TOKEN_LIFETIME };
    let content = AccessToken { grant, until: state.now() + lifetime };
    let access_token = state.sealer.seal(SealedKind::AccessToken, &content)?;
    Ok(IssuedToken { access_token, lifetime, grant: content.grant, nonce })
}

/// Lifetime of ID tokens, in seconds.
const ID_TOKEN_LIFETIME: i64 = 300;

#[derive(Serialize)]
struct IdTokenClaims<'a> {
    iss: &'a str,
    sub: String,
    aud: &'a str,
    exp: i64,
    iat: i64,
    auth_time: i64,
    at_hash: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    amr: Option<[&'static str; 1]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    nonce: Option<&'a str>,
}

/// Issues an ID token with a pairwise subject identifier, if the grant has a user and the scope `openid`.
fn issue_id_token(
    state: &OperatorState,
    issued: &IssuedToken,
    fault: &EndpointFault,
) -> Result<Option<String>, OAuthError> {
    let grant = &issued.grant;
    let Some(subject) = grant.subject.as_ref().filter(|_| grant.scopes.includes_openid()) else {
        return Ok(None);
    };
    let now = state.now();
    let pseudonym =
        hmac::sign(&state.pseudonym_key, format!("{} {}", grant.client_id, subject.number.as_str()).as_bytes());
    let hash = digest(&SHA256, issued.access_token.as_bytes());
    let nonce = issued.nonce.as_deref();
    let claims = IdTokenClaims {
        iss: state.stated_issuer(fault),
        sub: BASE64_URL_SAFE_NO_PAD.encode(pseudonym),
        aud: &grant.client_id,
        exp: now + ID_TOKEN_LIFETIME,
        iat: now,
        auth_time: now,
        at_hash: BASE64_URL_SAFE_NO_PAD.encode(&hash.as_ref()[..16]),
        amr: (subject.authentication == AuthenticationMethod::Network).then_some(["nba"]),
        nonce: if fault.wrong_nonce { nonce.and(Some("another nonce")) } else { nonce },
    };
    if fault.invalid_signature {
        return Ok(Some(SigningKey::generate()?.with_kid_of(&state.signing_key).sign(&claims)?));
    }
    Ok(Some(state.signing_key.sign(&claims)?))
}

/// Lifetime of a CIBA request, in seconds.
const BACKCHANNEL_LIFETIME: i64 = 120;
/// Time in seconds for which an expired CIBA request is kept, so that polling it returns `expired_token` instead of an
/// unknown request.
const EXPIRED_BACKCHANNEL_RETENTION: i64 = 600;
/// Seconds by which a `slow_down` error lengthens the client's polling interval.
const SLOW_DOWN_INCREMENT: i64 = 5;

/// `POST /bc-authorize`: CIBA in poll mode. The first poll is pending, the second succeeds.
pub(in crate::camara) fn backchannel_endpoint(state: &OperatorState, request: &Request) -> HttpResponse {
    start_backchannel_request(state, request).unwrap_or_else(OAuthError::into_response)
}

fn start_backchannel_request(state: &OperatorState, request: &Request) -> Result<HttpResponse, OAuthError> {
    let invalid = |description| OAuthErrorCode::InvalidRequest.with_description(description);
    let form = request.form().filter(|form| !form.has_repeated());
    let form = form.ok_or(invalid("the body must be a form without repeated parameters"))?;
    let client = authenticate(state, request, &form, Endpoint::BackchannelAuthorize)?;
    if ["request", "login_hint_token", "id_token_hint"].iter().any(|name| form.get(name).is_some()) {
        return Err(invalid("unsupported parameter; use login_hint without a request object"));
    }
    let scopes = Scopes::parse(form.get("scope"), &client.scopes)?;
    let subject = resolve_subject(state, form.get("login_hint").ok_or(invalid("login_hint is missing"))?)?;

    let now = state.now();
    let interval =
        i64::try_from(state.config.poll_interval.as_secs()).unwrap_or(BACKCHANNEL_LIFETIME).min(BACKCHANNEL_LIFETIME);
    let pending = BackchannelRequest {
        grant: Grant { client_id: client.id.clone(), scopes, subject: Some(subject) },
        next_poll_at: None,
        interval,
        expires_at: now + BACKCHANNEL_LIFETIME,
    };
    let id = random_token()?;
    state.store().backchannel_requests.insert(
        now,
        id.as_str(),
        now + BACKCHANNEL_LIFETIME + EXPIRED_BACKCHANNEL_RETENTION,
        pending,
    );
    Ok(json_response(&json!({ "auth_req_id": id, "expires_in": BACKCHANNEL_LIFETIME, "interval": interval })))
}

/// Handles a token request of a client that polls for the result of its CIBA request.
fn handle_backchannel_poll(
    state: &OperatorState,
    client: &OAuthClient,
    form: &OAuthParameters,
) -> Result<Grant, OAuthError> {
    let missing = OAuthErrorCode::InvalidRequest.with_description("auth_req_id is missing");
    let id = form.get("auth_req_id").ok_or(missing)?;
    let now = state.now();
    let mut store = state.store();
    let request = store.backchannel_requests.get_mut(now, id).filter(|request| request.grant.client_id == client.id);
    let request = request.ok_or(OAuthErrorCode::InvalidGrant.with_description("unknown auth_req_id"))?;
    if request.expires_at <= now {
        return Err(OAuthErrorCode::ExpiredToken.with_description("the auth_req_id has expired"));
    }
    match request.next_poll_at {
        None => {
            request.next_poll_at = Some(now + request.interval);
            Err(OAuthErrorCode::AuthorizationPending.with_description("the request is pending"))
        }
        Some(next_poll_at) if now < next_poll_at => {
            request.interval += SLOW_DOWN_INCREMENT;
            request.next_poll_at = Some(now + request.interval);
            Err(OAuthErrorCode::SlowDown.with_description("polling too fast"))
        }
        Some(_) => {
            let grant = request.grant.clone();
            store.backchannel_requests.remove(id);
            Ok(grant)
        }
    }
}

/// Resolves the user that a backchannel request or a JWT bearer assertion names: by a phone number, or by an operator
/// token (`operatortoken:…`), which is consumed.
fn resolve_subject(state: &OperatorState, hint: &str) -> Result<Subject, OAuthError> {
    let (number, authentication) = match hint.strip_prefix("operatortoken:") {
        Some(token) => (consume_operator_token(state, token), AuthenticationMethod::Sim),
        None => (parse_phone_hint(hint), AuthenticationMethod::Named),
    };
    let number = number.filter(|number| number.sim_history() != SimHistory::UnknownNumber);
    let number = number.ok_or(OAuthErrorCode::UnknownUserId.with_description("no user matches the hint"))?;
    Ok(Subject { number, authentication })
}

/// Returns the SIM's number of an operator token. `None`: the token is invalid, has expired or was already used.
fn consume_operator_token(state: &OperatorState, token: &str) -> Option<PhoneNumber> {
    let now = state.now();
    let OperatorToken { number, until } = state.sealer.open(SealedKind::OperatorToken, token)?;
    let mut store = state.store();
    if until <= now || store.used_tokens.contains(now, token) {
        return None;
    }
    store.used_tokens.insert(now, token, until, ());
    Some(number)
}
