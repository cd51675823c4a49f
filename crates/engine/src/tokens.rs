//! Access tokens: minted for clients, checked at every call, revoked.
//!
//! A token is a JWT (`at+jwt`, RFC 9068) under an HMAC key that only this deployment has. It names its credential;
//! checking it asks the control plane in memory whether that credential, its project and the token itself are still
//! good. Nothing here waits for a database, except a revocation.

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use aws_lc_rs::{constant_time, digest, hmac};
use base64::engine::{Engine as _, Simd, general_purpose::NO_PAD};
use jiff::Timestamp;
use ringtrue_domain::{
    id::time_ordered,
    product::{Product, Scope},
    region::Region,
    tenancy::{ClientId, Credential, CredentialOwner, Project, SecretDigest, WorkspaceId},
};
use serde::Deserialize;
use uuid::Uuid;

use crate::{
    Engine,
    ports::{Revocation, StoreError, TokenId},
    verified_tokens::{Parts, Verified},
};

/// Seconds that a token lives, unless its credential expires before.
pub const TOKEN_LIFETIME: i64 = 3600;

/// Seconds that a revocation is kept after its token has expired: a token must not come back to life where the time is
/// told differently for a while.
const REVOCATION_KEPT_AFTER_EXPIRY: i64 = 6 * 3600;

/// base64url, by the instructions that this machine has for it.
static BASE64: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));

/// What the token endpoint gives out.
#[derive(Clone)]
pub struct AccessToken {
    pub token: String,
    pub expires_in: i64,
    pub scope: Scope,
}

impl std::fmt::Debug for AccessToken {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "AccessToken({}, …)", self.scope)
    }
}

/// Why a client is not served.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientError {
    /// Unknown client and wrong secret are one answer.
    #[error("the client id or the client secret is not right")]
    InvalidClient,
    #[error("the credential has been deleted or has expired")]
    CredentialRevoked,
    #[error("the project is disabled")]
    ProjectDisabled,
}

/// Why a scope is not granted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("project credentials open products; the management scope needs workspace credentials")]
    NeedsWorkspaceCredential,
    #[error("workspace credentials open the management scope only; products need project credentials")]
    NeedsProjectCredential,
    #[error("the credential does not have this scope")]
    NotGranted,
    #[error("the project is not enabled for this product")]
    ProductNotEnabled,
}

/// Why a token is not accepted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum TokenRejected {
    #[error("the access token is not one of this service")]
    Foreign,
    #[error("the access token belongs to the region `{theirs}`; this is the region `{ours}`")]
    WrongRegion { theirs: Region, ours: Region },
    #[error("the access token has expired; request a new one")]
    Expired,
    #[error("the access token has been revoked")]
    Revoked,
    #[error("the credential of this access token has been deleted or has expired")]
    CredentialRevoked,
    #[error("the project of this access token is disabled")]
    ProjectDisabled,
}

/// Who is calling, as a good token says it.
#[derive(Clone, Debug)]
pub struct TokenBearer {
    pub credential: Arc<Credential>,
    /// `None` where the token is for the workspace.
    pub project: Option<Arc<Project>>,
    pub scope: Scope,
    /// Whether the credential may still have this scope.
    pub granted: Result<(), ScopeError>,
}

impl TokenBearer {
    pub fn owner(&self) -> CredentialOwner {
        self.credential.owner
    }
}

/// What is read of a token.
#[derive(Deserialize)]
struct Claims<'a> {
    #[serde(borrow)]
    client_id: Cow<'a, str>,
    exp: i64,
    jti: Uuid,
    #[serde(borrow)]
    scope: Cow<'a, str>,
    #[serde(borrow)]
    region: Cow<'a, str>,
}

impl Engine {
    /// Checks a client's id and secret, in the same time whether or not the client exists.
    pub fn authenticate_client(
        &self,
        client_id: &str,
        secret: &str,
        now: Timestamp,
    ) -> Result<Arc<Credential>, ClientError> {
        let credential = self.control_plane().credential(client_id);
        let secret_is_right = self.has_secret(credential.as_deref().unwrap_or(&NOBODY), secret);
        let credential = credential.filter(|_| secret_is_right).ok_or(ClientError::InvalidClient)?;
        if !credential.is_live(now) {
            return Err(ClientError::CredentialRevoked);
        }
        if self.project_is_disabled(credential.owner) {
            return Err(ClientError::ProjectDisabled);
        }
        self.credential_uses().note(&credential.client_id, now);
        Ok(credential)
    }

    /// Whether this is the secret of a credential.
    pub fn has_secret(&self, credential: &Credential, secret: &str) -> bool {
        let given = self.control_plane().keys().credential_digest(credential, &hash_of(secret));
        given.is_some_and(|given| constant_time::verify_slices_are_equal(&given.0, &credential.secret_digest.0).is_ok())
    }

    /// The digest under which a secret is stored.
    pub(crate) fn credential_digest(&self, credential: &Credential, secret: &str) -> Result<SecretDigest, StoreError> {
        let digest = self.control_plane().keys().credential_digest(credential, &hash_of(secret));
        digest.ok_or_else(|| StoreError::Refused("no hash key is in use".to_owned()))
    }

    pub fn mint(&self, credential: &Credential, scope: Scope, now: Timestamp) -> Result<AccessToken, MintError> {
        self.may_have(credential, scope)?;
        let expires_in = credential
            .expires_at
            .map_or(TOKEN_LIFETIME, |at| (at.as_second() - now.as_second()).clamp(1, TOKEN_LIFETIME));
        let payload = claims(
            self.token_claims(),
            &credential.client_id,
            scope,
            now.as_second(),
            expires_in,
            time_ordered(now, self.entropy().bytes()),
        );
        let keys = self.control_plane().keys();
        let (header, key) = keys.token_signer(now).ok_or(MintError::NoKey)?;
        Ok(AccessToken { token: sign(header, key, &payload), expires_in, scope })
    }

    /// Checks a token that a caller presents, whatever its bytes are.
    pub fn check_token(&self, token: &[u8], now: Timestamp) -> Result<TokenBearer, TokenRejected> {
        let token = match self.verified_tokens().find(token) {
            // A key that is gone takes with it what it has signed.
            Some(known) if self.control_plane().keys().token_verifier(known.header(), now).is_some() => known,
            _ => self.verify(std::str::from_utf8(token).map_err(|_| TokenRejected::Foreign)?, now)?,
        };
        if token.expires_at <= now.as_second() {
            return Err(TokenRejected::Expired);
        }
        if self.control_plane().is_revoked(token.id) {
            return Err(TokenRejected::Revoked);
        }
        let credential = self.control_plane().credential(token.client_id.as_str());
        let credential = credential.ok_or(TokenRejected::CredentialRevoked)?;
        if !credential.is_live(now) {
            return Err(TokenRejected::CredentialRevoked);
        }
        let project = credential.owner.project().map(|id| {
            let project = self.control_plane().project(id).filter(|project| !project.disabled);
            project.ok_or(TokenRejected::ProjectDisabled)
        });
        let project = project.transpose()?;
        let has = |product: Product| project.as_ref().is_some_and(|project| project.products.contains(&product));
        let granted = grant(&credential, token.scope, has);
        self.credential_uses().note(&credential.client_id, now);
        Ok(TokenBearer { credential, project, scope: token.scope, granted })
    }

    /// Takes a token apart that this deployment must have made, and remembers it.
    fn verify(&self, token: &str, now: Timestamp) -> Result<Arc<Verified>, TokenRejected> {
        let parts = Parts::of(token).ok_or(TokenRejected::Foreign)?;
        let payload = self.open(token, now)?;
        let claims = read(&payload).ok_or(TokenRejected::Foreign)?;
        // A deployment that was set up from a copy of another region's database has the same keys.
        if claims.region != self.region().as_str() {
            return Err(self.foreign(&payload));
        }
        let client_id = claims.client_id.parse().map_err(|_| TokenRejected::Foreign)?;
        let scope = claims.scope.parse().map_err(|_| TokenRejected::Foreign)?;
        let verified = Verified::new(parts, client_id, claims.exp, TokenId(claims.jti), scope);
        Ok(self.verified_tokens().remember(parts, verified))
    }

    /// Whose a token is that this deployment made, whether or not it is still good.
    pub fn whose_token(&self, token: &[u8]) -> Option<Arc<Credential>> {
        let payload = self.open(std::str::from_utf8(token).ok()?, self.clock().now()).ok()?;
        self.control_plane().credential(&read(&payload)?.client_id)
    }

    /// Revokes a token of this client. A token of another client, and what is no good token, are left as they are.
    pub async fn revoke_token(&self, client: &Credential, token: &str) -> Result<(), StoreError> {
        let now = self.clock().now();
        let Ok(payload) = self.open(token, now) else { return Ok(()) };
        let Some(claims) = read(&payload) else { return Ok(()) };
        let is_theirs = claims.client_id == client.client_id.as_str();
        let has_expired = claims.exp <= now.as_second();
        if !is_theirs || has_expired || self.control_plane().is_revoked(TokenId(claims.jti)) {
            return Ok(());
        }
        let kept_until = claims.exp.saturating_add(REVOCATION_KEPT_AFTER_EXPIRY);
        let expires_at = Timestamp::from_second(kept_until).unwrap_or(Timestamp::MAX);
        let revocation = Revocation { token: TokenId(claims.jti), expires_at };
        self.store().revoke(revocation).await?;
        self.control_plane().revoke(revocation);
        Ok(())
    }

    /// Whether a credential may be given a scope.
    fn may_have(&self, credential: &Credential, scope: Scope) -> Result<(), ScopeError> {
        let project = credential.owner.project();
        grant(credential, scope, |product| {
            project
                .is_some_and(|id| self.control_plane().project_has(id, |project| project.products.contains(&product)))
        })
    }

    /// The payload of a token that this deployment made.
    fn open(&self, token: &str, now: Timestamp) -> Result<Vec<u8>, TokenRejected> {
        let Parts { signed, header, claims, signature } = Parts::of(token).ok_or(TokenRejected::Foreign)?;
        let decode = |part: &str| BASE64.decode(part).map_err(|_| TokenRejected::Foreign);
        let signature = decode(signature)?;
        let payload = decode(claims)?;
        let keys = self.control_plane().keys();
        let is_ours = keys
            .token_verifier(header, now)
            .is_some_and(|key| hmac::verify(key, signed.as_bytes(), &signature).is_ok());
        if is_ours { Ok(payload) } else { Err(self.foreign(&payload)) }
    }

    /// A token of another region cannot be verified here, but it can say where it belongs.
    fn foreign(&self, payload: &[u8]) -> TokenRejected {
        let ours = self.region();
        let theirs = read(payload).and_then(|claims| claims.region.parse().ok());
        match theirs {
            Some(theirs) if theirs != ours => TokenRejected::WrongRegion { theirs, ours },
            _ => TokenRejected::Foreign,
        }
    }

    fn project_is_disabled(&self, owner: CredentialOwner) -> bool {
        owner.project().is_some_and(|project| !self.control_plane().project_has(project, |project| !project.disabled))
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("no token key is in use")]
    NoKey,
}

/// Whether a credential may have a scope, in a project that `has` some products.
fn grant(credential: &Credential, scope: Scope, has: impl FnOnce(Product) -> bool) -> Result<(), ScopeError> {
    match (credential.owner, scope) {
        (CredentialOwner::Project(..), Scope::Management) => Err(ScopeError::NeedsWorkspaceCredential),
        (CredentialOwner::Workspace(_), Scope::Product(_)) => Err(ScopeError::NeedsProjectCredential),
        _ if !credential.scopes.contains(&scope) => Err(ScopeError::NotGranted),
        (CredentialOwner::Workspace(_), Scope::Management) => Ok(()),
        (CredentialOwner::Project(..), Scope::Product(product)) if has(product) => Ok(()),
        (CredentialOwner::Project(..), Scope::Product(_)) => Err(ScopeError::ProductNotEnabled),
    }
}

/// Stands in for a client that is not known, so that it takes as long to refuse as one that is.
static NOBODY: LazyLock<Credential> = LazyLock::new(|| Credential {
    #[expect(clippy::expect_used, reason = "these are letters")]
    client_id: "nobody".parse().expect("a client id"),
    owner: CredentialOwner::Workspace(WorkspaceId(Uuid::nil())),
    secret_digest: SecretDigest([0; 32]),
    scopes: vec![Scope::Management],
    created_at: Timestamp::UNIX_EPOCH,
    expires_at: None,
    deleted_at: None,
    last_used_at: None,
});

/// The SHA-256 of a secret. Secrets are random with 256 bits, so a slow hash would only slow us down.
fn hash_of(secret: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref());
    hash
}

/// The claims that all tokens of a deployment share, as the beginning of a JSON object.
pub(crate) fn shared_claims(base_url: &str, region: Region) -> String {
    let base_url = serde_json::Value::from(base_url);
    format!(r#"{{"iss":{base_url},"aud":{base_url},"region":"{region}""#)
}

/// Written by hand: this is on the way of every token, and none of these values can need an escape.
fn claims(shared: &str, client: &ClientId, scope: Scope, issued_at: i64, expires_in: i64, id: Uuid) -> String {
    let mut claims = String::with_capacity(shared.len() + 256);
    let mut id_text = Uuid::encode_buffer();
    for part in [
        shared,
        r#","sub":""#,
        client.as_str(),
        r#"","client_id":""#,
        client.as_str(),
        r#"","iat":"#,
        &issued_at.to_string(),
        r#","exp":"#,
        &(issued_at + expires_in).to_string(),
        r#","jti":""#,
        id.hyphenated().encode_lower(&mut id_text),
        r#"","scope":""#,
        scope.as_str(),
        r#""}"#,
    ] {
        claims.push_str(part);
    }
    claims
}

fn sign(header: &str, key: &hmac::Key, payload: &str) -> String {
    let mut token = String::with_capacity(header.len() + payload.len() * 4 / 3 + 50);
    token.push_str(header);
    token.push('.');
    BASE64.encode_string(payload, &mut token);
    let signature = hmac::sign(key, token.as_bytes());
    token.push('.');
    BASE64.encode_string(signature, &mut token);
    token
}

fn read(payload: &[u8]) -> Option<Claims<'_>> {
    serde_json::from_slice(payload).ok()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
    use serde_json::Value;

    use super::*;

    /// What another library reads in a token of ours.
    #[test]
    fn a_token_is_a_jwt_as_others_know_it() {
        let secret = [7; 32];
        let header = BASE64.encode(r#"{"alg":"HS256","typ":"at+jwt","kid":"k1"}"#);
        let base_url = "https://eu.api.example.com/\"quoted\"";
        let id = time_ordered(Timestamp::UNIX_EPOCH, [1; 10]);
        let client: ClientId = "prj_abc-DEF".parse().unwrap();
        let shared = shared_claims(base_url, Region::Eu);
        let payload = claims(&shared, &client, Scope::Management, 4_000_000_000, 3600, id);
        let token = sign(&header, &hmac::Key::new(hmac::HMAC_SHA256, &secret), &payload);

        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[base_url]);
        validation.set_issuer(&[base_url]);
        let read = decode::<Value>(&token, &DecodingKey::from_secret(&secret), &validation).unwrap().claims;
        assert_eq!(read["exp"], 4_000_003_600_i64);
        assert_eq!(read["sub"], "prj_abc-DEF");
        assert_eq!(read["jti"], id.to_string());
        assert_eq!(read["scope"], "management");
        assert_eq!(decode_header(&token).unwrap().kid.as_deref(), Some("k1"));
        assert!(decode::<Value>(&token, &DecodingKey::from_secret(&[8; 32]), &validation).is_err());
        assert_eq!(self::read(payload.as_bytes()).unwrap().client_id, "prj_abc-DEF");
    }
}
