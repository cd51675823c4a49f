//! Authorization requests (OpenID Connect Core, section 3.1.2) and pushed authorization requests (RFC 9126).

use std::net::IpAddr;

use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    camara::{CamaraScopes, NETWORK_AUTHENTICATION_SECONDS},
    product::Product,
    sign_in::{
        AuthorizationError, AuthorizationErrorCode as Code, AuthorizationRequest, ClientAuthentication, Parameters,
        Prompt, RedirectUri, RequestedScopes, SignInId, SignInProof,
    },
    tenancy::{Credential, Project, ProjectId},
};
use serde_json::Value;

use super::{
    CODE_TTL, Client, PUSHED_TTL, SIGN_IN_TTL, SignIns, client::AssertionError, is_recent, may_sign_in,
    network::require_permitted_network_scopes, sealed, sealed::KeptRequest,
};
use crate::{
    jwt::KeySet,
    ports::{
        hashes::TokenHash,
        sign_in::{PushedAuthorization, SignInEnd, SignInRecord},
        store::StoreError,
    },
    silent::BrowserKey,
};

/// Products by which a user can prove a number.
const PROVING_PRODUCTS: [Product; 3] = [Product::ReverseSms, Product::SecureSna, Product::Discovery];
/// Paths of the endpoints that a signed authorization request may be for.
const AUTHORIZATION_ENDPOINTS: &[&str] = &["/oauth2/authorize", "/oauth2/par"];
/// Prefix of the `request_uri` of a pushed request (RFC 9126, section 2.2).
const PUSHED_PREFIX: &str = "urn:ietf:params:oauth:request_uri:";

/// An authorization request as a browser sends it.
#[derive(derive_more::Debug)]
#[debug("AuthorizeRequest")]
pub struct AuthorizeRequest<'a> {
    pub parameters: Parameters,
    pub visit: BrowserVisit<'a>,
}

/// The browser that sends an authorization request.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("BrowserVisit")]
pub struct BrowserVisit<'a> {
    /// Returns the token of the browser's session at a project, from its cookies.
    pub session_of: &'a (dyn Fn(ProjectId) -> Option<String> + Send + Sync),
    pub address: IpAddr,
    /// Number of the SIM in a simulated device. Sandbox only.
    pub sim: Option<&'a str>,
    /// Whether the browser shows the response in a tab, so that it can be sent to an operator without a page.
    pub is_navigation: bool,
}

/// What the browser does next.
#[derive(derive_more::Debug)]
pub enum AuthorizeOutcome {
    /// Shows the page of the sign-in.
    #[debug("Page")]
    Page(PendingSignInPage),
    /// Returns to the client at this URL, with a code or an error.
    #[debug("Return")]
    Return(String),
    /// Goes to the operator at this URL, without a page.
    #[debug("Operator")]
    Operator {
        location: String,
        /// The sign-in, and the key for the browser's cookie. `None`: any browser may finish, because the client
        /// compares `state` and its code verifier.
        browser: Option<(SignInId, BrowserKey)>,
    },
}

/// A sign-in that needs the user.
#[derive(derive_more::Debug)]
#[debug("PendingSignInPage({id})")]
pub struct PendingSignInPage {
    pub id: SignInId,
    /// Token in the URL of the page.
    pub page_token: String,
    /// Key for the browser's cookie.
    pub browser_key: BrowserKey,
}

/// Errors for which the browser cannot return to the client, because client or redirect URI are not validated.
#[derive(Debug, thiserror::Error)]
pub enum AuthorizeError {
    #[error("{0}")]
    NotRedirectable(String),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub enum PushError {
    #[error("the client must authenticate as `configuration.sign_in.token_endpoint_auth_method` says")]
    WrongAuthentication,
    #[error(transparent)]
    Invalid(#[from] AuthorizationError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A request that a client has sent in advance.
#[derive(derive_more::Debug)]
#[debug("PushedRequest")]
pub struct PushedRequest {
    pub request_uri: String,
    pub expires_in: i64,
}

/// A request with its validated redirect URI.
struct ValidatedRequest {
    parameters: Parameters,
    redirect_uri: RedirectUri,
    /// Why the request object was rejected.
    object_error: Option<AuthorizationError>,
}

impl SignIns {
    /// Takes an authorization request. Errors that the client may see lead back to it.
    pub async fn authorize(&self, request: AuthorizeRequest<'_>) -> Result<AuthorizeOutcome, AuthorizeError> {
        let AuthorizeRequest { parameters, visit } = request;
        let now = self.context.now();
        let not_redirectable = |problem: &str| AuthorizeError::NotRedirectable(problem.to_owned());
        let client_id = parameters.get("client_id");
        let client_id = client_id.ok_or_else(|| not_redirectable("`client_id` is missing or repeated"))?.to_owned();
        let client = self.find_client(&client_id, now).ok_or_else(|| not_redirectable("`client_id` is not known"))?;
        let is_pushed = parameters.get("request_uri").is_some_and(|uri| uri.starts_with(PUSHED_PREFIX));
        let parameters = self.expand_pushed(&client, parameters, now).await?;
        let validated = self.validate_redirect_uri(&client, parameters, !is_pushed, now).await?;
        let (redirect_uri, state) =
            (validated.redirect_uri.clone(), validated.parameters.get("state").map(str::to_owned));
        let refuse = |error: &AuthorizationError| {
            Ok(AuthorizeOutcome::Return(self.error_redirect_url(
                &redirect_uri,
                state.as_deref(),
                error.code.into_str(),
                &error.description,
            )))
        };
        let parsed = match validated.object_error {
            Some(error) => Err(error),
            None => self.parse(&client, &validated.parameters, validated.redirect_uri),
        };
        let parsed = match parsed {
            Ok(parsed) => parsed,
            Err(error) => return refuse(&error),
        };
        if parsed.scopes.camara_scopes().is_some() {
            return self.authorize_by_network(&client, &parsed, &visit).await;
        }
        let expected_subject = match &parsed.id_token_hint {
            Some(hint) => match self.read_id_token_hint(&client, hint, now) {
                Some(subject) => Some(subject),
                None => return refuse(&AuthorizationError::new(Code::InvalidRequest, "`id_token_hint` is not ours")),
            },
            None => None,
        };
        if let Some(proof) = self.session_proof(&client, (visit.session_of)(client.project.id), now).await?
            && self.is_enough(&client.project, &parsed, expected_subject.as_deref(), &proof, now)?
        {
            let id = self.store_request(&client, &parsed, expected_subject, Some(&proof), now).await?;
            return Ok(AuthorizeOutcome::Return(self.code_redirect_url(
                &parsed.redirect_uri,
                parsed.state.as_deref(),
                id,
            )?));
        }
        if parsed.prompt == Prompt::Never {
            return self.authorize_silently(&client, &parsed, expected_subject, &visit).await;
        }
        let id = self.store_request(&client, &parsed, expected_subject, None, now).await?;
        let (page_token, browser_key) = (self.page_token(id)?, self.new_browser_key(id)?);
        Ok(AuthorizeOutcome::Page(PendingSignInPage { id, page_token, browser_key }))
    }

    /// Stores an authorization request that an authenticated client sends in advance.
    pub async fn push(
        &self,
        credential: &Credential,
        authentication: ClientAuthentication,
        parameters: Parameters,
    ) -> Result<PushedRequest, PushError> {
        let now = self.context.now();
        let invalid = |description: &str| AuthorizationError::new(Code::InvalidRequest, description);
        let client = self.find_client(credential.client_id.as_str(), now);
        let client = client.ok_or_else(|| invalid("the client is not a project's"))?;
        if !client.project.configuration.sign_in.accepts_authentication(authentication) {
            return Err(PushError::WrongAuthentication);
        }
        if parameters.get("request_uri").is_some() {
            return Err(invalid("`request_uri` cannot be pushed").into());
        }
        if parameters.get("client_id").is_some_and(|given| given != credential.client_id.as_str()) {
            return Err(invalid("`client_id` is not the authenticated client").into());
        }
        // The client authenticated itself, but its credentials are no part of the request.
        let is_request = |(name, _): &&(String, String)| {
            !["client_secret", "client_assertion", "client_assertion_type"].contains(&name.as_str())
        };
        let parameters = Parameters::new(parameters.pairs().iter().filter(is_request).cloned());
        // A pushed request object is alone in its form (RFC 9126, section 3).
        let repeats_values = false;
        let validated = match self.validate_redirect_uri(&client, parameters, repeats_values, now).await {
            Ok(validated) => validated,
            Err(AuthorizeError::NotRedirectable(problem)) => return Err(invalid(&problem).into()),
            Err(AuthorizeError::Store(error)) => return Err(error.into()),
        };
        if let Some(error) = validated.object_error {
            return Err(error.into());
        }
        self.parse(&client, &validated.parameters, validated.redirect_uri)?;
        let reference = BASE64_URL_SAFE_NO_PAD.encode(self.context.entropy.bytes::<32>());
        let pushed = PushedAuthorization {
            reference: self.pushed_hash(&reference)?,
            client: credential.client_id.clone(),
            parameters: sealed::seal_parameters(&self.context, &reference, &validated.parameters)?,
            expires_at: now.saturating_add(PUSHED_TTL).unwrap_or(Timestamp::MAX),
        };
        self.store.push_authorization(pushed).await?;
        Ok(PushedRequest { request_uri: format!("{PUSHED_PREFIX}{reference}"), expires_in: PUSHED_TTL.as_secs() })
    }

    /// Reads a request, and checks that the client may send it.
    fn parse(
        &self,
        client: &Client,
        parameters: &Parameters,
        redirect_uri: RedirectUri,
    ) -> Result<AuthorizationRequest, AuthorizationError> {
        if parameters.get("request_uri").is_some() {
            let description = "`request_uri` must be one of this server's pushed authorization requests";
            return Err(AuthorizationError::new(Code::RequestUriNotSupported, description));
        }
        let settings = &client.project.configuration.sign_in;
        let is_camara_enabled = self.context.settings.camara_enabled;
        let request = AuthorizationRequest::parse(parameters, redirect_uri, settings, is_camara_enabled)?;
        match &request.scopes {
            RequestedScopes::SignIn(_) => require_sign_in_product(client)?,
            RequestedScopes::Camara(scopes) => require_permitted_network_scopes(client, scopes)?,
        }
        Ok(request)
    }

    /// Replaces the parameters by those of the pushed request that they name.
    async fn expand_pushed(
        &self,
        client: &Client,
        parameters: Parameters,
        now: Timestamp,
    ) -> Result<Parameters, AuthorizeError> {
        let reference = parameters.get("request_uri").and_then(|uri| uri.strip_prefix(PUSHED_PREFIX));
        let Some(reference) = reference else { return Ok(parameters) };
        let hash = self.pushed_hash(reference)?;
        let sealed = self.store.take_pushed_authorization(hash, &client.credential.client_id, now).await?;
        let pushed = sealed.and_then(|sealed| sealed::unseal_parameters(&self.context, reference, &sealed));
        pushed.ok_or_else(|| {
            AuthorizeError::NotRedirectable(
                "`request_uri` is unknown, expired or used; start again at the application".into(),
            )
        })
    }

    /// Matches the redirect URI against the client's registered ones, and reads the request object, if any.
    /// `repeats_values`: whether a CAMARA request must repeat the OAuth parameters of the request object outside it.
    async fn validate_redirect_uri(
        &self,
        client: &Client,
        parameters: Parameters,
        repeats_values: bool,
        now: Timestamp,
    ) -> Result<ValidatedRequest, AuthorizeError> {
        let settings = &client.project.configuration.sign_in;
        let (parameters, object_error) = match parameters.get("request") {
            None => (parameters, None),
            Some(object) => match self.read_request_object(client, object, AUTHORIZATION_ENDPOINTS, now).await {
                Ok(own) if self.is_for_camara(&parameters) || self.is_for_camara(&own) => {
                    // CAMARA's profile: the values of OAuth must be repeated, and all others come from the object.
                    let error = repeats_values.then(|| require_same_values(&parameters, &own).err()).flatten();
                    (own, error)
                }
                Ok(own) => (parameters.overridden_by(own), None),
                Err(AssertionError::Store(error)) => return Err(error.into()),
                Err(_) if is_unsigned(object) => {
                    let error = AuthorizationError::new(Code::RequestNotSupported, "request objects must be signed");
                    (parameters, Some(error))
                }
                Err(error) => {
                    let error = AuthorizationError::new(Code::InvalidRequestObject, error.to_string());
                    (parameters, Some(error))
                }
            },
        };
        let not_redirectable = |problem: &str| AuthorizeError::NotRedirectable(problem.to_owned());
        let uri =
            parameters.get("redirect_uri").ok_or_else(|| not_redirectable("`redirect_uri` is missing or repeated"))?;
        let redirect_uri = settings.find_redirect_uri(uri).cloned();
        let redirect_uri =
            redirect_uri.ok_or_else(|| not_redirectable("`redirect_uri` is not registered for this client"))?;
        Ok(ValidatedRequest { parameters, redirect_uri, object_error })
    }

    fn is_for_camara(&self, parameters: &Parameters) -> bool {
        self.context.settings.camara_enabled && parameters.get("scope").is_some_and(CamaraScopes::are_requested)
    }

    /// Returns the subject of an ID token that this deployment has issued to the client, even if it has expired.
    fn read_id_token_hint(&self, client: &Client, token: &str, now: Timestamp) -> Option<String> {
        let keys = self.context.keys();
        let document = serde_json::json!({ "keys": keys.published_id_token_keys(now) });
        let claims = KeySet::parse(document.to_string().as_bytes())?.verify(token).ok()?;
        let is_for_client = claims.get("aud").and_then(Value::as_str) == Some(client.credential.client_id.as_str());
        let subject = claims.get("sub").and_then(Value::as_str)?;
        is_for_client.then(|| subject.to_owned())
    }

    /// Returns the proof of the browser's session at the client's project.
    async fn session_proof(
        &self,
        client: &Client,
        token: Option<String>,
        now: Timestamp,
    ) -> Result<Option<SignInProof>, StoreError> {
        let project = &client.project;
        if project.configuration.sign_in.session.is_none_or(|lifetime| lifetime.seconds() == 0) {
            return Ok(None);
        }
        let Some(token) = token else { return Ok(None) };
        let session = self.store.find_sign_in_session(self.session_hash(project, &token)?, project.id, now).await?;
        Ok(session.and_then(|session| sealed::unseal_proof(&self.context, &token, project.mode, &session.proof)))
    }

    /// Whether the proof of a session answers a request without asking the user.
    fn is_enough(
        &self,
        project: &Project,
        request: &AuthorizationRequest,
        expected_subject: Option<&str>,
        proof: &SignInProof,
        now: Timestamp,
    ) -> Result<bool, StoreError> {
        let is_expected = match expected_subject {
            Some(expected) => self.subject(project.id, &proof.number)? == expected,
            None => true,
        };
        let is_hinted = request.hinted_number().is_none_or(|number| number == proof.number.as_str());
        // A SIM may have been changed since the proof.
        let is_complete = request.scopes.sign_in_scopes().is_some_and(|scopes| !scopes.sim_swap);
        Ok(request.prompt != Prompt::Always
            && is_recent(proof, request.max_age, now)
            && is_expected
            && is_hinted
            && is_complete)
    }

    /// Stores a sign-in. With a proof, it has ended already.
    async fn store_request(
        &self,
        client: &Client,
        request: &AuthorizationRequest,
        expected_subject: Option<String>,
        proof: Option<&SignInProof>,
        now: Timestamp,
    ) -> Result<SignInId, StoreError> {
        let record = self.new_record(client, request, expected_subject, proof, now)?;
        let id = record.id;
        self.store.create_sign_in(record).await?;
        Ok(id)
    }

    /// Builds a sign-in without a check. With a proof, it has ended already.
    pub(super) fn new_record(
        &self,
        client: &Client,
        request: &AuthorizationRequest,
        expected_subject: Option<String>,
        proof: Option<&SignInProof>,
        now: Timestamp,
    ) -> Result<SignInRecord, StoreError> {
        let id = SignInId(self.context.new_uuid(now));
        let kept = KeptRequest::new(request, expected_subject);
        let after = |duration| now.saturating_add(duration).unwrap_or(Timestamp::MAX);
        let end = match proof {
            Some(proof) => Some(SignInEnd::Proven {
                proof: sealed::seal_proof(&self.context, &id.to_string(), client.project.mode, proof)?,
                code_expires_at: after(CODE_TTL),
                redeemed_at: None,
                revoked_at: None,
            }),
            None => None,
        };
        Ok(SignInRecord {
            id,
            project: client.project.id,
            client: client.credential.client_id.clone(),
            request: kept.seal(&self.context, id)?,
            created_at: now,
            expires_at: after(match request.scopes {
                RequestedScopes::SignIn(_) => SIGN_IN_TTL,
                RequestedScopes::Camara(_) => SignedDuration::from_secs(NETWORK_AUTHENTICATION_SECONDS.into()),
            }),
            check: None,
            number: None,
            end,
        })
    }

    /// Whether a device at this address can be asked for its number.
    pub(super) fn can_discover(&self, project: &Project, address: IpAddr, sim: Option<&str>) -> bool {
        let operators = self.operators.for_mode(project.mode);
        project.products.contains(&Product::Discovery)
            && operators.may_identify_device(project, Product::Discovery, address, sim)
    }

    /// Returns the URL that leads back to the client with a code.
    pub(super) fn code_redirect_url(
        &self,
        redirect_uri: &RedirectUri,
        state: Option<&str>,
        id: SignInId,
    ) -> Result<String, StoreError> {
        let code = self.authorization_code(id)?;
        Ok(self.client_redirect_url(redirect_uri, state, &[("code", &code)]))
    }

    /// Returns the URL that leads back to the client with an error.
    pub(super) fn error_redirect_url(
        &self,
        redirect_uri: &RedirectUri,
        state: Option<&str>,
        error: &str,
        description: &str,
    ) -> String {
        self.client_redirect_url(redirect_uri, state, &[("error", error), ("error_description", description)])
    }

    /// Every response names the issuer, so that a client with several providers recognises a mix-up (RFC 9207).
    fn client_redirect_url(&self, redirect_uri: &RedirectUri, state: Option<&str>, result: &[(&str, &str)]) -> String {
        let state = state.map(|state| ("state", state));
        let issuer = ("iss", self.context.settings.base_url.as_str());
        let parameters: Vec<_> = result.iter().copied().chain(state).chain([issuer]).collect();
        redirect_uri.with_parameters(&parameters)
    }

    fn pushed_hash(&self, reference: &str) -> Result<TokenHash, StoreError> {
        self.context.keyed_hash(&[b"pushed-authorization", reference.as_bytes()]).map(TokenHash)
    }
}

fn require_sign_in_product(client: &Client) -> Result<(), AuthorizationError> {
    let refuse = |description: &str| Err(AuthorizationError::new(Code::UnauthorizedClient, description));
    if !may_sign_in(client) {
        return refuse("the client's project or credential has no product `sign_in`");
    }
    if !PROVING_PRODUCTS.iter().any(|product| client.project.products.contains(product)) {
        return refuse("the project has none of the products `reverse_sms`, `secure_sna` and `discovery`");
    }
    Ok(())
}

/// Requires that a request repeats these parameters of its request object (CAMARA Security and Interoperability Profile,
/// Signed Authentication Requests).
fn require_same_values(given: &Parameters, signed: &Parameters) -> Result<(), AuthorizationError> {
    for name in ["scope", "response_type", "client_id", "redirect_uri"] {
        if given.get(name).is_none() || given.get(name) != signed.get(name) {
            let description = format!("`{name}` must have the same value in the request and in the request object");
            return Err(AuthorizationError::new(Code::InvalidRequestObject, description));
        }
    }
    Ok(())
}

/// Whether a request object has the algorithm `none`.
fn is_unsigned(object: &str) -> bool {
    let header = BASE64_URL_SAFE_NO_PAD.decode(object.split('.').next().unwrap_or_default());
    let header = header.ok().and_then(|header| serde_json::from_slice::<Value>(&header).ok());
    header.is_some_and(|header| header.get("alg").and_then(Value::as_str) == Some("none"))
}
