//! Access tokens without network authentication: client credentials, JWT bearer (RFC 7523), and backchannel
//! authentication (OpenID Connect CIBA, poll mode).

use std::sync::Arc;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    camara::{CamaraScope, CamaraScopes, NETWORK_AUTHENTICATION_SECONDS},
    phone::Msisdn,
    sign_in::{AuthorizationError, ClientAuthentication, Parameters},
    tenancy::{ClientId, Credential},
};
use serde_json::Value;
use zeroize::Zeroizing;

use super::{Camara, sealed::ApprovedRequest};
use crate::{
    ports::{hashes::TokenHash, store::StoreError},
    rate_limits::RateLimitState,
    sign_in::{AssertionError, Client, IssuedTokens, require_permitted_scopes},
    tokens::{CamaraGrant, CamaraSubject, TOKEN_LIFETIME_SECONDS},
};

/// Lifetime of a token that stands for a user.
const USER_TOKEN_LIFETIME: SignedDuration = SignedDuration::from_secs(NETWORK_AUTHENTICATION_SECONDS as i64);
/// How long a client may poll for the token of a backchannel request.
const BACKCHANNEL_LIFETIME: SignedDuration = SignedDuration::from_secs(120);
/// Seconds between two polls.
const POLLING_INTERVAL: u32 = 2;
/// Paths of the endpoints that may be the audience (`aud`) of a signed backchannel request, besides the issuer.
const BACKCHANNEL_ENDPOINTS: &[&str] = &["/oauth2/bc-authorize"];

/// A backchannel authentication request of an authenticated client.
#[derive(derive_more::Debug)]
#[debug("BackchannelRequest")]
pub struct BackchannelRequest<'a> {
    pub credential: &'a Credential,
    /// How the client has authenticated.
    pub authentication: ClientAuthentication,
    pub parameters: Parameters,
}

/// A backchannel request for whose token the client may poll.
#[derive(derive_more::Debug)]
#[debug("BackchannelResponse")]
pub struct BackchannelResponse {
    pub auth_req_id: String,
    pub expires_in: i64,
    pub interval: u32,
}

#[derive(Debug, thiserror::Error)]
pub enum GrantError {
    #[error("{0}")]
    InvalidRequest(String),
    #[error("{0}")]
    InvalidScope(String),
    #[error("{0}")]
    InvalidGrant(String),
    #[error("{0}")]
    InvalidRequestObject(String),
    /// The assertion that authenticates the client is invalid.
    #[error("{0}")]
    InvalidClient(String),
    #[error("the client must authenticate as `configuration.sign_in.token_endpoint_auth_method` says")]
    WrongAuthentication,
    #[error("the project declares no purposes for CAMARA's APIs; set `configuration.camara.purposes`")]
    UnauthorizedClient,
    #[error("{0}")]
    UnknownUser(&'static str),
    #[error("the backchannel request has expired; send a new one")]
    ExpiredToken,
    #[error("rate limit of {} token requests per second exceeded", .0.limit)]
    RateLimited(RateLimitState),
    #[error("no token signing key is active yet")]
    NoKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<AuthorizationError> for GrantError {
    fn from(error: AuthorizationError) -> Self {
        GrantError::InvalidScope(error.description)
    }
}

impl Camara {
    /// Issues a token by which the client asks about numbers that it names in each request.
    pub async fn grant_to_client(
        &self,
        credential: &Credential,
        authentication: ClientAuthentication,
        scope: &str,
    ) -> Result<IssuedTokens, GrantError> {
        let now = self.context.now();
        let client = self.find_client(&credential.client_id, now)?;
        require_authentication(&client, authentication)?;
        let scopes = parse_scopes(&client, scope)?;
        if scopes.need_network_authentication() {
            let problem = "Number Verification needs a token for a user; use the authorization code flow";
            return Err(GrantError::InvalidScope(problem.to_owned()));
        }
        let lifetime = SignedDuration::from_secs(TOKEN_LIFETIME_SECONDS);
        let expires_at = now.saturating_add(lifetime).unwrap_or(Timestamp::MAX);
        let expires_at = client.credential.valid_until().map_or(expires_at, |until| until.min(expires_at));
        self.issue(&client, &scopes, &CamaraSubject::Client, expires_at, now).await
    }

    /// Issues a token for the user that a signed assertion names. The assertion also authenticates the client.
    pub async fn grant_by_assertion(&self, assertion: &str) -> Result<(IssuedTokens, Arc<Credential>), GrantError> {
        let now = self.context.now();
        let verified = self.sign_ins.verify_grant_assertion(assertion, now).await;
        let (client, claims) = verified.map_err(|error| match error {
            AssertionError::Store(error) => GrantError::Store(error),
            AssertionError::RateLimited(limit) => GrantError::RateLimited(limit),
            AssertionError::UnknownClient | AssertionError::NoKeys => GrantError::InvalidClient(error.to_string()),
            error => GrantError::InvalidGrant(error.to_string()),
        })?;
        if !self.sign_ins.may_use_camara(&client) {
            return Err(GrantError::UnauthorizedClient);
        }
        let text = |name: &str| claims.get(name).and_then(Value::as_str).unwrap_or_default();
        let scopes = parse_scopes(&client, text("scope"))?;
        let hint = Hint::parse(text("sub"), &client, &scopes);
        let subject = hint.map_err(|problem| GrantError::InvalidGrant(problem.to_owned()))?.into();
        let expires_at = now.saturating_add(USER_TOKEN_LIFETIME).unwrap_or(Timestamp::MAX);
        let tokens = self.issue(&client, &scopes, &subject, expires_at, now).await?;
        Ok((tokens, client.credential))
    }

    /// Takes a backchannel authentication request. It needs no approval: the legal basis is the client's purpose.
    pub async fn begin_backchannel(&self, request: BackchannelRequest<'_>) -> Result<BackchannelResponse, GrantError> {
        let now = self.context.now();
        let client = self.find_client(&request.credential.client_id, now)?;
        require_authentication(&client, request.authentication)?;
        let parameters = self.read_backchannel_parameters(&client, request.parameters, now).await?;
        let invalid = |problem: &str| GrantError::InvalidRequest(problem.to_owned());
        if let Some(repeated) = parameters.repeated() {
            return Err(GrantError::InvalidRequest(format!("repeated parameter `{repeated}`")));
        }
        if ["login_hint_token", "id_token_hint"].iter().any(|name| parameters.get(name).is_some()) {
            return Err(invalid("`login_hint` is the only hint that is supported"));
        }
        let scope = parameters.get("scope").ok_or_else(|| invalid("missing parameter `scope`"))?;
        let scopes = parse_scopes(&client, scope)?;
        let hint = parameters.get("login_hint").ok_or_else(|| invalid("missing parameter `login_hint`"))?;
        let hint = Hint::parse(hint, &client, &scopes).map_err(GrantError::UnknownUser)?;
        let approved = ApprovedRequest {
            id: self.context.new_uuid(now),
            client: client.credential.client_id.as_str().to_owned(),
            scope: scopes.to_string(),
            hint: hint.to_text(),
            expires_at: now.as_second() + BACKCHANNEL_LIFETIME.as_secs(),
        };
        let auth_req_id = approved.seal(&self.context)?;
        Ok(BackchannelResponse { auth_req_id, expires_in: BACKCHANNEL_LIFETIME.as_secs(), interval: POLLING_INTERVAL })
    }

    /// Issues the token of a backchannel request, once.
    pub async fn finish_backchannel(
        &self,
        credential: &Credential,
        authentication: ClientAuthentication,
        auth_req_id: &str,
    ) -> Result<IssuedTokens, GrantError> {
        let now = self.context.now();
        let client = self.find_client(&credential.client_id, now)?;
        require_authentication(&client, authentication)?;
        let unknown = || GrantError::InvalidGrant("`auth_req_id` is unknown, used, or for another client".to_owned());
        let approved = ApprovedRequest::unseal(&self.context, auth_req_id).ok_or_else(unknown)?;
        if approved.client != client.credential.client_id.as_str() {
            return Err(unknown());
        }
        if approved.expires_at <= now.as_second() {
            return Err(GrantError::ExpiredToken);
        }
        let scopes = parse_scopes(&client, &approved.scope)?;
        let hint = Hint::parse(&approved.hint, &client, &scopes).map_err(|_| unknown())?;
        // Clocks of nodes differ slightly.
        let kept_until = Timestamp::from_second(approved.expires_at + 60).unwrap_or(Timestamp::MAX);
        let used = self.context.keyed_hash(&[b"camara-backchannel-request", approved.id.as_bytes()])?;
        if !self.store.record_assertion(TokenHash(used), kept_until).await? {
            return Err(unknown());
        }
        let expires_at = now.saturating_add(USER_TOKEN_LIFETIME).unwrap_or(Timestamp::MAX);
        self.issue(&client, &scopes, &hint.into(), expires_at, now).await
    }

    /// Returns the parameters of a backchannel request, which may be in a signed request.
    async fn read_backchannel_parameters(
        &self,
        client: &Client,
        parameters: Parameters,
        now: Timestamp,
    ) -> Result<Parameters, GrantError> {
        let Some(object) = parameters.get("request") else { return Ok(parameters) };
        let read = self.sign_ins.read_request_object(client, object, BACKCHANNEL_ENDPOINTS, now).await;
        read.map_err(|error| match error {
            AssertionError::Store(error) => GrantError::Store(error),
            error => GrantError::InvalidRequestObject(error.to_string()),
        })
    }

    fn find_client(&self, client_id: &ClientId, now: Timestamp) -> Result<Client, GrantError> {
        let client = self.sign_ins.find_client(client_id.as_str(), now);
        client.filter(|client| self.sign_ins.may_use_camara(client)).ok_or(GrantError::UnauthorizedClient)
    }

    async fn issue(
        &self,
        client: &Client,
        scopes: &CamaraScopes,
        subject: &CamaraSubject,
        expires_at: Timestamp,
        now: Timestamp,
    ) -> Result<IssuedTokens, GrantError> {
        let (id, mode) = (self.context.new_uuid(now), client.project.mode);
        let grant = CamaraGrant { id, mode, scopes, subject, expires_at };
        self.sign_ins.issue_camara_tokens(client, &grant, None, None, now).await?.ok_or(GrantError::NoKey)
    }
}

fn require_authentication(client: &Client, authentication: ClientAuthentication) -> Result<(), GrantError> {
    let is_accepted = client.project.configuration.sign_in.accepts_authentication(authentication);
    // A public client proves nothing about itself here.
    let is_proven = authentication != ClientAuthentication::None;
    if is_accepted && is_proven { Ok(()) } else { Err(GrantError::WrongAuthentication) }
}

fn parse_scopes(client: &Client, scope: &str) -> Result<CamaraScopes, GrantError> {
    let scopes = CamaraScopes::parse(scope).map_err(|error| GrantError::InvalidScope(error.to_string()))?;
    require_permitted_scopes(client, &scopes)?;
    Ok(scopes)
}

/// How a client names the user.
enum Hint {
    Number(Msisdn),
    /// A temporary token that the wallet of the user's phone has handed out to the client.
    OperatorToken(Zeroizing<String>),
}

impl Hint {
    const NUMBER_PREFIX: &'static str = "tel:";
    const OPERATOR_TOKEN_PREFIX: &'static str = "operatortoken:";
    /// The access token contains the operator's token, and has to fit into a header.
    const MAX_OPERATOR_TOKEN_BYTES: usize = 2 * 1_024;

    fn parse(text: &str, client: &Client, scopes: &CamaraScopes) -> Result<Self, &'static str> {
        if let Some(number) = text.strip_prefix(Self::NUMBER_PREFIX) {
            let number = Msisdn::parse(number, client.project.mode);
            return number.map(Hint::Number).map_err(|_| "the number is not in E.164 form, or its country is unknown");
        }
        let Some(token) = text.strip_prefix(Self::OPERATOR_TOKEN_PREFIX) else {
            return Err("the user must be named by a number in E.164 form, `tel:+…`, or by a phone's operator token, \
                        `operatortoken:…`");
        };
        let is_token = (1..=Self::MAX_OPERATOR_TOKEN_BYTES).contains(&token.len())
            && token.bytes().all(|byte| byte.is_ascii_graphic());
        if !is_token {
            return Err("the operator token must be 1 to 2048 visible ASCII characters");
        }
        // Its operator is found by the number that the client names when it verifies.
        if scopes.operations().any(|operation| operation != CamaraScope::VerifyNumber) {
            return Err("an operator token serves the scope `number-verification:verify` only");
        }
        Ok(Hint::OperatorToken(Zeroizing::new(token.to_owned())))
    }

    fn to_text(&self) -> String {
        match self {
            Hint::Number(number) => format!("{}{}", Self::NUMBER_PREFIX, number.as_str()),
            Hint::OperatorToken(token) => format!("{}{}", Self::OPERATOR_TOKEN_PREFIX, **token),
        }
    }
}

impl From<Hint> for CamaraSubject {
    fn from(hint: Hint) -> Self {
        match hint {
            Hint::Number(number) => CamaraSubject::User { number },
            Hint::OperatorToken(operator_token) => CamaraSubject::Phone { operator_token },
        }
    }
}
