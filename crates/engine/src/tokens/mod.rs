//! Issues, verifies and revokes access tokens.
//!
//! A token is a JWT (`at+jwt`, RFC 9068), signed with an HMAC key of the deployment. Verification also looks up the
//! credential, the project and revocations, which are cached in memory. Only revoking a token accesses the database.

mod camara_token;
mod last_use;
mod verified_token_cache;

use std::{
    borrow::Cow,
    sync::{Arc, LazyLock},
};

use aws_lc_rs::{constant_time, digest, hmac};
use base64::engine::{Engine as _, Simd, general_purpose::NO_PAD};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Actor,
    product::{Product, Scope},
    region::Region,
    tenancy::{ClientId, Credential, CredentialOwner, Project, SecretDigest, WorkspaceId},
};
use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::{
    context::Context,
    ports::{
        combined::TokenStore,
        store::StoreError,
        tokens::{Revocation, TokenId},
    },
};
pub(crate) use camara_token::CamaraGrant;
pub use camara_token::{CamaraBearer, CamaraPermissionError, CamaraSubject};
use last_use::LastUseTracker;
use verified_token_cache::{JwtParts, VerifiedToken, VerifiedTokenCache};

/// Lifetime of a token in seconds, unless its credential expires earlier.
pub const TOKEN_LIFETIME_SECONDS: i64 = 3600;

/// Seconds for which a revocation is kept after its token has expired, to tolerate clock skew.
const REVOCATION_RETENTION_SECONDS: i64 = 6 * 3600;

/// Base64url codec that uses SIMD instructions.
static BASE64_URL: LazyLock<Simd> = LazyLock::new(|| Simd::url_safe(NO_PAD));

#[derive(Clone, derive_more::Debug)]
pub struct AccessToken {
    #[debug(skip)]
    pub token: String,
    pub expires_in: i64,
    pub scope: Scope,
}

/// Reason why a client could not be authenticated.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ClientAuthError {
    /// The same error for an unknown client and for a wrong secret, so that it does not reveal whether the client
    /// exists.
    #[error("invalid client id or client secret")]
    InvalidClient,
    #[error("the credential has been deleted or has expired")]
    CredentialRevoked,
    #[error("the project is disabled")]
    ProjectDisabled,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum ScopeError {
    #[error("the management scope requires a workspace credential; this is a project credential")]
    NeedsWorkspaceCredential,
    #[error("product scopes require a project credential; this is a workspace credential")]
    NeedsProjectCredential,
    #[error("the credential does not have this scope")]
    NotGranted,
    #[error("the project is not enabled for this product")]
    ProductNotEnabled,
    #[error("`sign_in` is no scope of access tokens; users sign in at the authorization endpoint")]
    SignIn,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum AccessTokenError {
    #[error("the access token is invalid or was not issued by this service")]
    Invalid,
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

/// The credential and project that a valid token identifies.
#[derive(Clone, Debug)]
pub struct TokenBearer {
    pub credential: Arc<Credential>,
    /// `None`: the token belongs to a workspace credential.
    pub project: Option<Arc<Project>>,
    pub scope: Scope,
    /// Whether the credential and its project still permit the token's scope.
    pub granted: Result<(), ScopeError>,
}

impl TokenBearer {
    pub fn owner(&self) -> CredentialOwner {
        self.credential.owner
    }
}

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

/// Authenticates clients and issues, verifies and revokes their tokens.
#[derive(derive_more::Debug)]
#[debug("Tokens")]
pub struct Tokens {
    context: Arc<Context>,
    store: Arc<dyn TokenStore>,
    /// First part of the claims JSON, which is the same in all tokens.
    shared_claims: String,
    verified: VerifiedTokenCache,
    last_uses: LastUseTracker,
}

impl Tokens {
    pub(crate) fn new(context: &Arc<Context>, store: Arc<dyn TokenStore>) -> Self {
        Tokens {
            context: Arc::clone(context),
            store,
            shared_claims: build_shared_claims(&context.settings.base_url, context.settings.region),
            verified: VerifiedTokenCache::default(),
            last_uses: LastUseTracker::default(),
        }
    }

    /// Authenticates a client by its secret. Rejecting an unknown client takes as long as rejecting a wrong secret, so
    /// that timing does not reveal which clients exist.
    pub fn authenticate_client(
        &self,
        client_id: &str,
        secret: &str,
        now: Timestamp,
    ) -> Result<Arc<Credential>, ClientAuthError> {
        let credential = self.context.control_plane.credential(client_id);
        let is_secret_correct = is_correct_secret(credential.as_deref().unwrap_or(&DUMMY_CREDENTIAL), secret);
        let credential = credential.filter(|_| is_secret_correct).ok_or(ClientAuthError::InvalidClient)?;
        if !credential.is_active(now) {
            return Err(ClientAuthError::CredentialRevoked);
        }
        if self.is_project_disabled(credential.owner) {
            return Err(ClientAuthError::ProjectDisabled);
        }
        self.last_uses.record(&credential.client_id, now);
        Ok(credential)
    }

    pub fn mint_token(&self, credential: &Credential, scope: Scope, now: Timestamp) -> Result<AccessToken, MintError> {
        self.authorize_scope(credential, scope)?;
        let expires_in = credential
            .valid_until()
            .map_or(TOKEN_LIFETIME_SECONDS, |at| (at.as_second() - now.as_second()).clamp(1, TOKEN_LIFETIME_SECONDS));
        let payload = build_claims(
            &self.shared_claims,
            &credential.client_id,
            scope,
            now.as_second(),
            expires_in,
            self.context.new_uuid(now),
        );
        let keys = self.context.keys();
        let (header, key) = keys.token_signer(now).ok_or(MintError::NoKey)?;
        Ok(AccessToken { token: sign(header, key, &payload), expires_in, scope })
    }

    /// Verifies a token, and that its credential and project are still active. [`TokenBearer::granted`] says whether
    /// they still permit the token's scope.
    pub fn verify_token(&self, token: &[u8], now: Timestamp) -> Result<TokenBearer, AccessTokenError> {
        let token = match self.verified.find(token) {
            // If the key of a cached token is no longer valid, the token is verified again and rejected.
            Some(cached) if self.context.keys().token_verifier(cached.header(), now).is_some() => cached,
            _ => self.verify_uncached(std::str::from_utf8(token).map_err(|_| AccessTokenError::Invalid)?, now)?,
        };
        if token.expires_at <= now.as_second() {
            return Err(AccessTokenError::Expired);
        }
        if self.context.control_plane.is_revoked(token.id) {
            return Err(AccessTokenError::Revoked);
        }
        let credential = self.context.control_plane.credential(token.client_id.as_str());
        let credential = credential.ok_or(AccessTokenError::CredentialRevoked)?;
        if !credential.is_active(now) {
            return Err(AccessTokenError::CredentialRevoked);
        }
        let project = credential.owner.project().map(|id| {
            let project = self.context.control_plane.project(id).filter(|project| !project.disabled);
            project.ok_or(AccessTokenError::ProjectDisabled)
        });
        let project = project.transpose()?;
        let has_product =
            |product: Product| project.as_ref().is_some_and(|project| project.products.contains(&product));
        let granted = require_granted_scope(&credential, token.scope, has_product);
        self.last_uses.record(&credential.client_id, now);
        Ok(TokenBearer { credential, project, scope: token.scope, granted })
    }

    /// Verifies a token's signature and claims, and caches it.
    fn verify_uncached(&self, token: &str, now: Timestamp) -> Result<Arc<VerifiedToken>, AccessTokenError> {
        let parts = JwtParts::split(token).ok_or(AccessTokenError::Invalid)?;
        let payload = self.verify_signature(token, now)?;
        let claims = parse_claims(&payload).ok_or(AccessTokenError::Invalid)?;
        // If a deployment was set up from a copy of another region's database, both have the same keys. The signature
        // therefore does not show the region.
        if claims.region != self.context.settings.region.into_str() {
            return Err(self.unverifiable_token_error(&payload));
        }
        let client_id = claims.client_id.parse().map_err(|_| AccessTokenError::Invalid)?;
        let scope = claims.scope.parse().map_err(|_| AccessTokenError::Invalid)?;
        let verified = VerifiedToken::new(parts, client_id, claims.exp, TokenId(claims.jti), scope);
        Ok(self.verified.insert(parts, verified))
    }

    /// Returns the credential of a token that this deployment has issued, even if the token has expired or was revoked.
    pub fn credential_of_token(&self, token: &[u8]) -> Option<Arc<Credential>> {
        let payload = self.verify_signature(std::str::from_utf8(token).ok()?, self.context.now()).ok()?;
        self.context.control_plane.credential(&parse_claims(&payload)?.client_id)
    }

    /// Revokes a token of this client. Ignores invalid tokens and tokens of other clients (RFC 7009).
    pub async fn revoke_token(&self, client: &Credential, token: &str) -> Result<(), StoreError> {
        let now = self.context.now();
        let Ok(payload) = self.verify_signature(token, now) else { return Ok(()) };
        let Some(claims) = parse_claims(&payload) else { return Ok(()) };
        let is_own = claims.client_id == client.client_id.as_str();
        let has_expired = claims.exp <= now.as_second();
        if !is_own || has_expired || self.context.control_plane.is_revoked(TokenId(claims.jti)) {
            return Ok(());
        }
        let expires_at = Timestamp::from_second(claims.exp).unwrap_or(Timestamp::MAX);
        self.revoke_by_id(TokenId(claims.jti), expires_at).await
    }

    /// Revokes the token with this id, which expires at this time.
    pub(crate) async fn revoke_by_id(&self, token: TokenId, expires_at: Timestamp) -> Result<(), StoreError> {
        let kept_until = expires_at.saturating_add(SignedDuration::from_secs(REVOCATION_RETENTION_SECONDS));
        let revocation = Revocation { token, expires_at: kept_until.unwrap_or(Timestamp::MAX) };
        self.store.revoke_token(revocation).await?;
        self.context.control_plane.apply_revocation(revocation);
        Ok(())
    }

    fn authorize_scope(&self, credential: &Credential, scope: Scope) -> Result<(), ScopeError> {
        let project = credential.owner.project();
        require_granted_scope(credential, scope, |product| {
            project.is_some_and(|id| {
                self.context.control_plane.has_project_where(id, |project| project.products.contains(&product))
            })
        })
    }

    /// Verifies a token's signature. Returns its decoded payload.
    fn verify_signature(&self, token: &str, now: Timestamp) -> Result<Vec<u8>, AccessTokenError> {
        let JwtParts { signed, header, claims, signature } = JwtParts::split(token).ok_or(AccessTokenError::Invalid)?;
        let decode = |part: &str| BASE64_URL.decode(part).map_err(|_| AccessTokenError::Invalid);
        let signature = decode(signature)?;
        let payload = decode(claims)?;
        let keys = self.context.keys();
        let is_ours = keys
            .token_verifier(header, now)
            .is_some_and(|key| hmac::verify(key, signed.as_bytes(), &signature).is_ok());
        if is_ours { Ok(payload) } else { Err(self.unverifiable_token_error(&payload)) }
    }

    /// Returns the error for a token with a wrong signature or region. The region claim may be forged, and is used only
    /// to name the region in the message.
    fn unverifiable_token_error(&self, payload: &[u8]) -> AccessTokenError {
        let ours = self.context.settings.region;
        let theirs = parse_claims(payload).and_then(|claims| claims.region.parse().ok());
        match theirs {
            Some(theirs) if theirs != ours => AccessTokenError::WrongRegion { theirs, ours },
            _ => AccessTokenError::Invalid,
        }
    }

    /// Writes the last uses that this node has recorded in memory to the database.
    pub(crate) async fn flush_credential_uses(&self) -> Result<(), StoreError> {
        let unstored = self.last_uses.unstored();
        if !unstored.is_empty() {
            self.store.record_credential_uses(&unstored).await?;
            self.last_uses.mark_stored(&unstored);
        }
        self.last_uses.evict_idle(self.context.now());
        Ok(())
    }

    fn is_project_disabled(&self, owner: CredentialOwner) -> bool {
        owner
            .project()
            .is_some_and(|project| !self.context.control_plane.has_project_where(project, |project| !project.disabled))
    }
}

/// Claims of an access token for the userinfo endpoint.
pub(crate) struct UserInfoToken<'a> {
    /// The id of the sign-in.
    pub id: Uuid,
    pub client: &'a Credential,
    pub subject: &'a str,
    pub scope: &'a str,
}

#[derive(Serialize)]
struct NewUserInfoClaims<'a> {
    iss: &'a str,
    aud: &'a str,
    region: &'a str,
    sub: &'a str,
    client_id: &'a str,
    iat: i64,
    exp: i64,
    jti: Uuid,
    scope: &'a str,
}

#[derive(Deserialize)]
struct UserInfoClaims {
    aud: String,
    exp: i64,
    jti: Uuid,
    region: String,
}

impl Tokens {
    /// Signs an access token for the userinfo endpoint. Its audience and scope keep it from opening the API. `None`: no
    /// key is active.
    pub(crate) fn mint_userinfo_token(
        &self,
        token: &UserInfoToken<'_>,
        now: Timestamp,
        lifetime: SignedDuration,
    ) -> Option<String> {
        let settings = &self.context.settings;
        let claims = NewUserInfoClaims {
            iss: &settings.base_url,
            aud: &self.userinfo_audience(),
            region: settings.region.into_str(),
            sub: token.subject,
            client_id: token.client.client_id.as_str(),
            iat: now.as_second(),
            exp: now.as_second() + lifetime.as_secs(),
            jti: token.id,
            scope: token.scope,
        };
        let claims = serde_json::to_string(&claims).ok()?;
        let keys = self.context.keys();
        let (header, key) = keys.token_signer(now)?;
        Some(sign(header, key, &claims))
    }

    /// Returns the id of the sign-in that a userinfo token belongs to. `None`: the token is for something else, invalid,
    /// expired or revoked.
    pub(crate) fn verify_userinfo_token(&self, token: &str, now: Timestamp) -> Option<Uuid> {
        let payload = self.verify_signature(token, now).ok()?;
        let claims: UserInfoClaims = serde_json::from_slice(&payload).ok()?;
        let is_valid = claims.aud == self.userinfo_audience()
            && claims.region == self.context.settings.region.into_str()
            && claims.exp > now.as_second()
            && !self.context.control_plane.is_revoked(TokenId(claims.jti));
        is_valid.then_some(claims.jti)
    }

    fn userinfo_audience(&self) -> String {
        format!("{}/oauth2/userinfo", self.context.settings.base_url)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum MintError {
    #[error(transparent)]
    Scope(#[from] ScopeError),
    #[error("no active token key")]
    NoKey,
}

/// Fails unless a credential permits a scope. `has_product` tells whether a product is enabled in the credential's
/// project.
fn require_granted_scope(
    credential: &Credential,
    scope: Scope,
    has_product: impl FnOnce(Product) -> bool,
) -> Result<(), ScopeError> {
    match (credential.owner, scope) {
        (_, Scope::Product(Product::SignIn)) => Err(ScopeError::SignIn),
        (CredentialOwner::Project(..), Scope::Management) => Err(ScopeError::NeedsWorkspaceCredential),
        (CredentialOwner::Workspace(_), Scope::Product(_)) => Err(ScopeError::NeedsProjectCredential),
        _ if !credential.scopes.contains(&scope) => Err(ScopeError::NotGranted),
        (CredentialOwner::Workspace(_), Scope::Management) => Ok(()),
        (CredentialOwner::Project(..), Scope::Product(product)) if has_product(product) => Ok(()),
        (CredentialOwner::Project(..), Scope::Product(_)) => Err(ScopeError::ProductNotEnabled),
    }
}

/// Stands in for the credential of an unknown client, so that rejecting that client takes as long as rejecting a wrong
/// secret.
static DUMMY_CREDENTIAL: LazyLock<Credential> = LazyLock::new(|| Credential {
    #[expect(clippy::expect_used, reason = "the constant is a valid client id")]
    client_id: "nobody".parse().expect("a client id"),
    owner: CredentialOwner::Workspace(WorkspaceId(Uuid::nil())),
    secret_digest: SecretDigest([0; 32]),
    scopes: vec![Scope::Management],
    label: None,
    created_at: Timestamp::UNIX_EPOCH,
    created_by: Actor::System,
    expires_at: None,
    retires_at: None,
    deleted_at: None,
    last_used_at: None,
});

pub fn is_correct_secret(credential: &Credential, secret: &str) -> bool {
    let SecretDigest(computed) = digest_secret(secret);
    constant_time::verify_slices_are_equal(&computed, &credential.secret_digest.0).is_ok()
}

/// Hashes a client secret. Secrets have 256 random bits, so they need no slow password hash. The MAC of the
/// credential's row protects the hash from being replaced in the database.
pub(crate) fn digest_secret(secret: &str) -> SecretDigest {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest::digest(&digest::SHA256, secret.as_bytes()).as_ref());
    SecretDigest(hash)
}

/// Builds the first part of the claims JSON, which is the same in all tokens of a deployment.
fn build_shared_claims(base_url: &str, region: Region) -> String {
    let base_url = serde_json::Value::from(base_url);
    format!(r#"{{"iss":{base_url},"aud":{base_url},"region":"{region}""#)
}

/// Builds the claims by concatenating JSON text, which is faster than serializing. None of the values needs escaping.
fn build_claims(shared: &str, client: &ClientId, scope: Scope, issued_at: i64, expires_in: i64, id: Uuid) -> String {
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
        scope.into_str(),
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
    BASE64_URL.encode_string(payload, &mut token);
    let signature = hmac::sign(key, token.as_bytes());
    token.push('.');
    BASE64_URL.encode_string(signature, &mut token);
    token
}

fn parse_claims(payload: &[u8]) -> Option<Claims<'_>> {
    serde_json::from_slice(payload).ok()
}

#[cfg(test)]
mod tests {
    use jsonwebtoken::{Algorithm, DecodingKey, Validation, decode, decode_header};
    use ringtrue_domain::id::uuid_v7;
    use serde_json::Value;

    use super::*;

    #[test]
    fn token_is_accepted_by_another_jwt_library() {
        let secret = [7; 32];
        let header = BASE64_URL.encode(r#"{"alg":"HS256","typ":"at+jwt","kid":"k1"}"#);
        let base_url = "https://eu.api.example.com/\"quoted\"";
        let id = uuid_v7(Timestamp::UNIX_EPOCH, [1; 10]);
        let client: ClientId = "prj_abc-DEF".parse().unwrap();
        let shared = build_shared_claims(base_url, Region::Eu);
        let payload = build_claims(&shared, &client, Scope::Management, 4_000_000_000, 3600, id);
        let token = sign(&header, &hmac::Key::new(hmac::HMAC_SHA256, &secret), &payload);

        let mut validation = Validation::new(Algorithm::HS256);
        validation.set_audience(&[base_url]);
        validation.set_issuer(&[base_url]);
        let decoded = decode::<Value>(&token, &DecodingKey::from_secret(&secret), &validation).unwrap().claims;
        assert_eq!(decoded["exp"], 4_000_003_600_i64);
        assert_eq!(decoded["sub"], "prj_abc-DEF");
        assert_eq!(decoded["jti"], id.to_string());
        assert_eq!(decoded["scope"], "management");
        assert_eq!(decode_header(&token).unwrap().kid.as_deref(), Some("k1"));
        assert!(decode::<Value>(&token, &DecodingKey::from_secret(&[8; 32]), &validation).is_err());
        assert_eq!(parse_claims(payload.as_bytes()).unwrap().client_id, "prj_abc-DEF");
    }
}
