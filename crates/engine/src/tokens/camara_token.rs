//! Access tokens for CAMARA's APIs. The number that a token stands for is encrypted in it.

use std::{borrow::Cow, fmt, sync::Arc};

use base64::engine::Engine as _;
use jiff::Timestamp;
use ringtrue_domain::{
    camara::{CamaraScope, CamaraScopes},
    lifecycle::CheckId,
    phone::Msisdn,
    product::Scope,
    tenancy::{Credential, Mode, Project},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;
use zeroize::Zeroizing;

use super::{AccessTokenError, BASE64_URL, ScopeError, Tokens, require_granted_scope, sign};
use crate::ports::{store::StoreError, tokens::TokenId};

/// Whom a token stands for.
#[derive(Clone, PartialEq, Eq)]
pub enum CamaraSubject {
    /// The client itself: it names the number in each request.
    Client,
    /// A user whom the client has named.
    User { number: Msisdn },
    /// A user whose number the operator has found by the device. The Discovery check has this id.
    NetworkUser { number: Msisdn, check: CheckId },
    /// A phone whose wallet has handed out an operator token. The operator is asked about it and a number.
    Phone { operator_token: Zeroizing<String> },
    /// A device that the operator has recognised, without telling its number. The open Secure SNA check has this id.
    Device { check: CheckId },
}

impl CamaraSubject {
    /// Whether the operator has recognised the user's device, or recognises it by a token of its SIM.
    pub fn is_network_authenticated(&self) -> bool {
        matches!(self, CamaraSubject::NetworkUser { .. } | CamaraSubject::Phone { .. } | CamaraSubject::Device { .. })
    }
}

impl fmt::Debug for CamaraSubject {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            CamaraSubject::Client => "Client",
            CamaraSubject::User { .. } => "User",
            CamaraSubject::NetworkUser { .. } => "NetworkUser",
            CamaraSubject::Phone { .. } => "Phone",
            CamaraSubject::Device { .. } => "Device",
        })
    }
}

/// What a token permits.
#[derive(Clone, Copy, Debug)]
pub(crate) struct CamaraGrant<'a> {
    pub id: Uuid,
    /// Mode of the client's project. A token of a sandbox project is useless after the project has gone live.
    pub mode: Mode,
    pub scopes: &'a CamaraScopes,
    pub subject: &'a CamaraSubject,
    pub expires_at: Timestamp,
}

/// The client, user and scopes that a valid token identifies.
#[derive(Clone, Debug)]
pub struct CamaraBearer {
    pub token: TokenId,
    pub credential: Arc<Credential>,
    pub project: Arc<Project>,
    pub scopes: CamaraScopes,
    pub subject: CamaraSubject,
    pub expires_at: Timestamp,
}

#[derive(Serialize)]
struct NewCamaraClaims<'a> {
    iss: &'a str,
    aud: &'a str,
    region: &'a str,
    sub: &'a str,
    client_id: &'a str,
    iat: i64,
    exp: i64,
    jti: Uuid,
    scope: &'a str,
    sealed_subject: &'a str,
}

#[derive(Deserialize)]
struct CamaraClaims<'a> {
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    exp: i64,
    jti: Uuid,
    #[serde(borrow)]
    region: Cow<'a, str>,
    #[serde(borrow)]
    scope: Cow<'a, str>,
    #[serde(borrow)]
    sealed_subject: Cow<'a, str>,
}

#[derive(Default, Serialize, Deserialize)]
struct SubjectJson {
    #[serde(default, skip_serializing_if = "Option::is_none")]
    number: Option<String>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    check: Option<Uuid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    operator_token: Option<String>,
}

impl Tokens {
    /// Signs a token. `subject` is the claim `sub`. `None`: the token stands for the client. Returns `None` if no key is
    /// active.
    pub(crate) fn mint_camara_token(
        &self,
        credential: &Credential,
        grant: &CamaraGrant<'_>,
        subject: Option<&str>,
        now: Timestamp,
    ) -> Result<Option<String>, StoreError> {
        let client_id = credential.client_id.as_str();
        let settings = &self.context.settings;
        let claims = NewCamaraClaims {
            iss: &settings.base_url,
            aud: &settings.base_url,
            region: settings.region.into_str(),
            sub: subject.unwrap_or(client_id),
            client_id,
            iat: now.as_second(),
            exp: grant.expires_at.as_second(),
            jti: grant.id,
            scope: &grant.scopes.to_string(),
            sealed_subject: &self.seal_subject(grant)?,
        };
        let claims = serde_json::to_string(&claims).map_err(|error| StoreError::Refused(error.to_string()))?;
        Ok(self.context.keys().token_signer(now).map(|(header, key)| sign(header, key, &claims)))
    }

    /// Verifies a token, and that its client is still active.
    pub fn verify_camara_token(&self, token: &[u8], now: Timestamp) -> Result<CamaraBearer, AccessTokenError> {
        let token = std::str::from_utf8(token).map_err(|_| AccessTokenError::Invalid)?;
        let payload = self.verify_signature(token, now)?;
        // Another region's database may be a copy of this one, with the same keys.
        let claims: CamaraClaims<'_> = serde_json::from_slice(&payload).map_err(|_| AccessTokenError::Invalid)?;
        if claims.region != self.context.settings.region.into_str() {
            return Err(self.unverifiable_token_error(&payload));
        }
        if claims.exp <= now.as_second() {
            return Err(AccessTokenError::Expired);
        }
        if self.context.control_plane.is_revoked(TokenId(claims.jti)) {
            return Err(AccessTokenError::Revoked);
        }
        let credential = self.context.control_plane.credential(&claims.client_id);
        let credential = credential.filter(|credential| credential.is_active(now));
        let credential = credential.ok_or(AccessTokenError::CredentialRevoked)?;
        let project = credential.owner.project().and_then(|id| self.context.control_plane.project(id));
        let project = project.filter(|project| !project.disabled).ok_or(AccessTokenError::ProjectDisabled)?;
        let scopes = CamaraScopes::parse(&claims.scope).map_err(|_| AccessTokenError::Invalid)?;
        let subject = self.unseal_subject(&claims, &project).ok_or(AccessTokenError::Invalid)?;
        let expires_at = Timestamp::from_second(claims.exp).map_err(|_| AccessTokenError::Invalid)?;
        self.last_uses.record(&credential.client_id, now);
        Ok(CamaraBearer { token: TokenId(claims.jti), credential, project, scopes, subject, expires_at })
    }

    fn seal_subject(&self, grant: &CamaraGrant<'_>) -> Result<String, StoreError> {
        let number = |number: &Msisdn| Some(number.as_str().to_owned());
        let json = match grant.subject {
            CamaraSubject::Client => SubjectJson::default(),
            CamaraSubject::User { number: user } => SubjectJson { number: number(user), ..SubjectJson::default() },
            CamaraSubject::NetworkUser { number: user, check } => {
                SubjectJson { number: number(user), check: Some(check.0), ..SubjectJson::default() }
            }
            CamaraSubject::Phone { operator_token } => {
                SubjectJson { operator_token: Some(operator_token.to_string()), ..SubjectJson::default() }
            }
            CamaraSubject::Device { check } => SubjectJson { check: Some(check.0), ..SubjectJson::default() },
        };
        let plain = serde_json::to_vec(&json).map_err(|error| StoreError::Refused(error.to_string()))?;
        let sealed = self.context.seal(seal_context(grant.id, grant.mode).as_bytes(), &plain)?;
        Ok(BASE64_URL.encode(sealed))
    }

    fn unseal_subject(&self, claims: &CamaraClaims<'_>, project: &Project) -> Option<CamaraSubject> {
        let sealed = BASE64_URL.decode(claims.sealed_subject.as_bytes()).ok()?;
        let plain = self.context.unseal(seal_context(claims.jti, project.mode).as_bytes(), &sealed)?;
        let json: SubjectJson = serde_json::from_slice(&plain).ok()?;
        let number = json.number.map(|number| Msisdn::parse(&number, project.mode)).transpose().ok()?;
        if let Some(operator_token) = json.operator_token {
            return Some(CamaraSubject::Phone { operator_token: Zeroizing::new(operator_token) });
        }
        Some(match (number, json.check.map(CheckId)) {
            (None, None) => CamaraSubject::Client,
            (Some(number), None) => CamaraSubject::User { number },
            (Some(number), Some(check)) => CamaraSubject::NetworkUser { number, check },
            (None, Some(check)) => CamaraSubject::Device { check },
        })
    }
}

fn seal_context(id: Uuid, mode: Mode) -> String {
    format!("camara-token-{}:{id}", mode.into_str())
}

/// Why a valid token does not permit an operation.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum CamaraPermissionError {
    #[error("this request needs an access token with the scope `{0}`")]
    Scope(CamaraScope),
    #[error("the project no longer declares the purpose `{0}`")]
    Purpose(String),
    #[error(transparent)]
    Credential(#[from] ScopeError),
}

impl CamaraBearer {
    /// Returns an error unless the token permits an operation, and its credential and project still do.
    pub fn require_permission(&self, operation: CamaraScope) -> Result<(), CamaraPermissionError> {
        if !self.scopes.permits(operation) {
            return Err(CamaraPermissionError::Scope(operation));
        }
        let purpose = self.scopes.purpose();
        if !self.project.configuration.camara.purposes.contains(purpose) {
            return Err(CamaraPermissionError::Purpose(purpose.to_string()));
        }
        let has_product = |product| self.project.products.contains(&product);
        Ok(require_granted_scope(&self.credential, Scope::Product(operation.product()), has_product)?)
    }
}
