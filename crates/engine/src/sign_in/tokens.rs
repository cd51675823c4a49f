//! The client's part of a sign-in: redeeming the code for tokens, and reading userinfo.

use std::sync::Arc;

use aws_lc_rs::{constant_time::verify_slices_are_equal, digest};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    camara::{CamaraScopes, NETWORK_AUTHENTICATION_SECONDS},
    lifecycle::Sealed,
    product::Product,
    sign_in::{
        AuthenticationContext, ClientAuthentication, CodeChallenge, RequestedScopes, SignInId, SignInProof,
        SignInScopes,
    },
    tenancy::Credential,
};
use serde_json::{Map, Value, json};

use super::{ACCESS_TOKEN_TTL, Client, SignIns, may_sign_in, sealed, sealed::KeptRequest};
use crate::{
    ports::{
        sign_in::{CodeRedemption, SignInEnd, SignInRecord},
        store::StoreError,
        tokens::TokenId,
    },
    tenants::SignInTestPermit,
    tokens::{CamaraGrant, CamaraSubject, UserInfoToken},
};

/// Lifetime of an ID token, in seconds. Clients check it once, when they get it.
const ID_TOKEN_SECONDS: i64 = 600;

/// A request to redeem an authorization code, by an authenticated client.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("RedeemCodeRequest")]
pub struct RedeemCodeRequest<'a> {
    pub code: &'a str,
    pub redirect_uri: Option<&'a str>,
    pub code_verifier: Option<&'a str>,
    /// How the client has authenticated.
    pub authentication: ClientAuthentication,
}

#[derive(derive_more::Debug)]
#[debug("IssuedTokens")]
pub struct IssuedTokens {
    pub access_token: String,
    /// `None`: a client of CAMARA's APIs has not asked for it.
    pub id_token: Option<String>,
    pub expires_in: i64,
    pub scope: String,
}

#[derive(Debug, thiserror::Error)]
pub enum RedeemCodeError {
    /// The same error for all codes that this client cannot redeem.
    #[error("{0}")]
    InvalidGrant(&'static str),
    #[error("the client must authenticate as `configuration.sign_in.token_endpoint_auth_method` says")]
    WrongAuthentication,
    #[error("the client has no product `sign_in`, and no purposes for CAMARA's APIs")]
    UnauthorizedClient,
    #[error("no key that signs ID tokens is active")]
    NoKey,
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// Claims about the user.
pub type UserInfo = Value;

#[derive(Debug, thiserror::Error)]
pub enum UserInfoError {
    #[error("the access token is invalid, expired or revoked")]
    InvalidToken,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SignIns {
    /// Redeems an authorization code for tokens. A code that is redeemed twice loses its tokens.
    pub async fn redeem_code(
        &self,
        credential: &Arc<Credential>,
        request: RedeemCodeRequest<'_>,
    ) -> Result<IssuedTokens, RedeemCodeError> {
        let now = self.context.now();
        let client = self.find_client(credential.client_id.as_str(), now);
        let client = client.filter(|client| may_sign_in(client) || self.may_use_camara(client));
        let client = client.ok_or(RedeemCodeError::UnauthorizedClient)?;
        if !client.project.configuration.sign_in.accepts_authentication(request.authentication) {
            return Err(RedeemCodeError::WrongAuthentication);
        }
        self.redeem(&client, request, now).await
    }

    /// Redeems the code of a test in the console, without the client's secret. The console gets only codes that were
    /// issued for its own redirect URI, and always uses PKCE.
    pub async fn redeem_test_code(
        &self,
        test: &SignInTestPermit,
        code: &str,
        redirect_uri: &str,
        code_verifier: &str,
    ) -> Result<IssuedTokens, RedeemCodeError> {
        let now = self.context.now();
        let client = self.find_client(test.client.as_str(), now).filter(may_sign_in);
        let client = client.filter(|client| client.project.id == test.project);
        let client = client.ok_or(RedeemCodeError::UnauthorizedClient)?;
        if !redirect_uri.starts_with(&format!("{}/console/", self.context.settings.base_url)) {
            return Err(RedeemCodeError::InvalidGrant("`redirect_uri` is not that of the console"));
        }
        let request = RedeemCodeRequest {
            code,
            redirect_uri: Some(redirect_uri),
            code_verifier: Some(code_verifier),
            authentication: ClientAuthentication::None,
        };
        self.redeem(&client, request, now).await
    }

    /// Redeems a code for a client that is authenticated, or whose project tests its sign-in.
    async fn redeem(
        &self,
        client: &Client,
        request: RedeemCodeRequest<'_>,
        now: Timestamp,
    ) -> Result<IssuedTokens, RedeemCodeError> {
        let credential = &client.credential;
        let unknown = RedeemCodeError::InvalidGrant("the code is unknown, expired, used, or for another client");
        let Some(id) = self.sign_in_of_code(request.code) else { return Err(unknown) };
        let record = self.store.find_sign_in_of_code(id).await?;
        let Some(record) = record.filter(|record| record.client == credential.client_id) else { return Err(unknown) };
        let Some(SignInEnd::Proven { proof, .. }) = &record.end else { return Err(unknown) };
        let kept = KeptRequest::unseal(&self.context, &record)?;
        if request.redirect_uri != Some(kept.redirect_uri.as_str()) {
            return Err(RedeemCodeError::InvalidGrant("`redirect_uri` is not that of the authorization request"));
        }
        check_code_verifier(kept.code_challenge.as_deref(), request.code_verifier)?;
        let scopes = match &kept.scopes {
            RequestedScopes::SignIn(scopes) => *scopes,
            RequestedScopes::Camara(scopes) => {
                return self.redeem_network_code(client, &record, &kept, scopes, proof, now).await;
            }
        };
        let Some(proof) = self.unseal_own_proof(client, id, proof) else { return Err(unknown) };
        let expires_at = now.saturating_add(ACCESS_TOKEN_TTL).unwrap_or(Timestamp::MAX);
        match self.store.redeem_sign_in_code(id, now, expires_at).await? {
            CodeRedemption::Redeemed => {}
            CodeRedemption::AlreadyRedeemed | CodeRedemption::Invalid => return Err(unknown),
        }
        let subject = self.subject(client.project.id, &proof.number)?;
        let scope = scopes.names();
        let token = UserInfoToken { id: id.0, client: credential, subject: &subject, scope: &scope };
        let access_token = self.tokens.mint_userinfo_token(&token, now, ACCESS_TOKEN_TTL);
        let access_token = access_token.ok_or(RedeemCodeError::NoKey)?;
        let mut claims = user_claims(&subject, scopes, &proof);
        add_authentication(&mut claims, proof.context, proof.at);
        let id_token = self.sign_id_token(client, claims, kept.nonce.as_deref(), &access_token, now);
        let id_token = Some(id_token.await.ok_or(RedeemCodeError::NoKey)?);
        Ok(IssuedTokens { access_token, id_token, expires_in: ACCESS_TOKEN_TTL.as_secs(), scope })
    }

    /// Redeems the code of a client of CAMARA's APIs.
    async fn redeem_network_code(
        &self,
        client: &Client,
        record: &SignInRecord,
        kept: &KeptRequest,
        scopes: &CamaraScopes,
        proof: &Sealed,
        now: Timestamp,
    ) -> Result<IssuedTokens, RedeemCodeError> {
        let unknown = RedeemCodeError::InvalidGrant("the code is unknown, expired, used, or for another client");
        if !self.may_use_camara(client) || client.project.configuration.sign_in.is_public_client() {
            return Err(RedeemCodeError::UnauthorizedClient);
        }
        let Some(check) = record.check else { return Err(unknown) };
        let (subject, authenticated_at) = if check.product == Product::SecureSna {
            let at = sealed::unseal_device(&self.context, record.id, proof)?;
            (CamaraSubject::Device { check: check.id }, at)
        } else {
            let Some(proof) = self.unseal_own_proof(client, record.id, proof) else { return Err(unknown) };
            let SignInProof { number, at, .. } = proof;
            (CamaraSubject::NetworkUser { number, check: check.id }, at)
        };
        // What the operator has said is used for no longer than this, counted from the first redirect.
        let expires_at = record
            .created_at
            .saturating_add(SignedDuration::from_secs(NETWORK_AUTHENTICATION_SECONDS.into()))
            .unwrap_or(Timestamp::MAX);
        if expires_at <= now {
            return Err(unknown);
        }
        match self.store.redeem_sign_in_code(record.id, now, expires_at).await? {
            CodeRedemption::Redeemed => {}
            CodeRedemption::AlreadyRedeemed => {
                self.tokens.revoke_by_id(TokenId(record.id.0), expires_at).await?;
                return Err(unknown);
            }
            CodeRedemption::Invalid => return Err(unknown),
        }
        let mode = client.project.mode;
        let grant = CamaraGrant { id: record.id.0, mode, scopes, subject: &subject, expires_at };
        let token =
            self.issue_camara_tokens(client, &grant, kept.nonce.as_deref(), Some(authenticated_at), now).await?;
        token.ok_or(RedeemCodeError::NoKey)
    }

    /// Issues an access token for CAMARA's APIs, and an ID token if the client has asked for one. `authenticated_at` is
    /// the time at which the operator has recognised the device. `None`: it has not. Returns `None` if no key is active.
    pub(crate) async fn issue_camara_tokens(
        &self,
        client: &Client,
        grant: &CamaraGrant<'_>,
        nonce: Option<&str>,
        authenticated_at: Option<Timestamp>,
        now: Timestamp,
    ) -> Result<Option<IssuedTokens>, StoreError> {
        let project = client.project.id;
        let subject = match grant.subject {
            CamaraSubject::Client => None,
            CamaraSubject::User { number } | CamaraSubject::NetworkUser { number, .. } => {
                Some(self.subject(project, number)?)
            }
            // The number is not known, so the subject stands for this one authentication.
            CamaraSubject::Device { .. } | CamaraSubject::Phone { .. } => {
                let authentication = match grant.subject {
                    CamaraSubject::Device { check } => check.0,
                    _ => grant.id,
                };
                let parts = [b"camara-device-subject".as_slice(), project.0.as_bytes(), authentication.as_bytes()];
                Some(BASE64_URL_SAFE_NO_PAD.encode(self.context.keyed_hash(&parts)?))
            }
        };
        let access_token = self.tokens.mint_camara_token(&client.credential, grant, subject.as_deref(), now)?;
        let Some(access_token) = access_token else { return Ok(None) };
        let id_token = match subject.filter(|_| grant.scopes.openid) {
            Some(subject) => {
                let mut claims = Map::new();
                claims.insert("sub".to_owned(), subject.into());
                if let Some(at) = authenticated_at {
                    add_authentication(&mut claims, AuthenticationContext::Silent, at);
                }
                let signed = self.sign_id_token(client, claims, nonce, &access_token, now).await;
                let Some(signed) = signed else { return Ok(None) };
                Some(signed)
            }
            None => None,
        };
        let expires_in = grant.expires_at.as_second() - now.as_second();
        Ok(Some(IssuedTokens { access_token, id_token, expires_in, scope: grant.scopes.to_string() }))
    }

    /// Whether a client may get tokens for CAMARA's APIs.
    pub(crate) fn may_use_camara(&self, Client { project, .. }: &Client) -> bool {
        self.context.settings.camara_enabled && !project.configuration.camara.purposes.is_empty()
    }

    /// Decrypts a proof. `None`: the client's project has gone live since.
    fn unseal_own_proof(&self, client: &Client, id: SignInId, proof: &Sealed) -> Option<SignInProof> {
        sealed::unseal_proof(&self.context, &id.to_string(), client.project.mode, proof)
    }

    /// Signs an ID token with these claims about the user. `None`: no key is active.
    async fn sign_id_token(
        &self,
        client: &Client,
        mut claims: Map<String, Value>,
        nonce: Option<&str>,
        access_token: &str,
        now: Timestamp,
    ) -> Option<String> {
        let algorithm = client.project.configuration.sign_in.id_token_algorithm();
        let signer = self.context.keys().id_token_signer(algorithm, now)?;
        claims.insert("iss".to_owned(), self.context.settings.base_url.as_str().into());
        claims.insert("aud".to_owned(), client.credential.client_id.as_str().into());
        claims.insert("iat".to_owned(), now.as_second().into());
        claims.insert("exp".to_owned(), (now.as_second() + ID_TOKEN_SECONDS).into());
        claims.insert("at_hash".to_owned(), left_half_hash(access_token).into());
        if let Some(nonce) = nonce {
            claims.insert("nonce".to_owned(), nonce.into());
        }
        let claims = Value::Object(claims);
        self.signing_pool.run(move || signer.sign(&claims)).await
    }

    /// Returns the claims about the user of an access token.
    pub async fn userinfo(&self, access_token: &str) -> Result<UserInfo, UserInfoError> {
        let now = self.context.now();
        let id = self.tokens.verify_userinfo_token(access_token, now).ok_or(UserInfoError::InvalidToken)?;
        let record = self.store.find_sign_in(SignInId(id)).await?;
        let record = record.ok_or(UserInfoError::InvalidToken)?;
        let claims = self.read_claims(&record, now)?;
        claims.map(Value::Object).ok_or(UserInfoError::InvalidToken)
    }

    fn read_claims(&self, record: &SignInRecord, now: Timestamp) -> Result<Option<Map<String, Value>>, StoreError> {
        let Some(SignInEnd::Proven { proof, redeemed_at: Some(redeemed_at), revoked_at: None, .. }) = &record.end
        else {
            return Ok(None);
        };
        if now.duration_since(*redeemed_at) >= ACCESS_TOKEN_TTL {
            return Ok(None);
        }
        let Some(client) = self.find_client(record.client.as_str(), now).filter(may_sign_in) else { return Ok(None) };
        let request = KeptRequest::unseal(&self.context, record)?;
        let Some(scopes) = request.scopes.sign_in_scopes() else { return Ok(None) };
        let Some(proof) = self.unseal_own_proof(&client, record.id, proof) else { return Ok(None) };
        let subject = self.subject(client.project.id, &proof.number)?;
        Ok(Some(user_claims(&subject, scopes, &proof)))
    }
}

/// The claims that both the ID token and userinfo have.
fn user_claims(subject: &str, scopes: SignInScopes, proof: &SignInProof) -> Map<String, Value> {
    let mut claims = Map::new();
    claims.insert("sub".to_owned(), subject.into());
    if scopes.phone {
        claims.insert("phone_number".to_owned(), proof.number.as_str().into());
        claims.insert("phone_number_verified".to_owned(), true.into());
    }
    if let Some(changed) = proof.sim_change.filter(|_| scopes.sim_swap) {
        claims.insert("sim_change".to_owned(), changed.into());
    }
    claims
}

/// Adds the claims about how and when the user was authenticated.
fn add_authentication(claims: &mut Map<String, Value>, context: AuthenticationContext, at: Timestamp) {
    claims.insert("auth_time".to_owned(), at.as_second().into());
    claims.insert("acr".to_owned(), context.acr().into());
    if !context.amr().is_empty() {
        claims.insert("amr".to_owned(), json!(context.amr()));
    }
}

/// Compares a code verifier with the challenge of the authorization request (RFC 7636, section 4.6).
fn check_code_verifier(challenge: Option<&str>, verifier: Option<&str>) -> Result<(), RedeemCodeError> {
    match (challenge, verifier) {
        (None, None) => Ok(()),
        // A verifier without a challenge is a sign of an attack that removed the challenge (RFC 9700, section 4.8.2).
        (None, Some(_)) => Err(RedeemCodeError::InvalidGrant("the authorization request had no `code_challenge`")),
        (Some(_), None) => Err(RedeemCodeError::InvalidGrant("missing parameter `code_verifier`")),
        (Some(challenge), Some(verifier)) => {
            let digest = digest::digest(&digest::SHA256, verifier.as_bytes());
            let computed = BASE64_URL_SAFE_NO_PAD.encode(digest);
            let is_right = CodeChallenge::has_verifier_format(verifier)
                && verify_slices_are_equal(computed.as_bytes(), challenge.as_bytes()).is_ok();
            if is_right { Ok(()) } else { Err(RedeemCodeError::InvalidGrant("wrong `code_verifier`")) }
        }
    }
}

/// Returns the claim `at_hash` for a token (OpenID Connect Core, section 3.1.3.6). Both algorithms use SHA-256.
fn left_half_hash(token: &str) -> String {
    BASE64_URL_SAFE_NO_PAD.encode(&digest::digest(&digest::SHA256, token.as_bytes()).as_ref()[..16])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn code_verifiers_are_compared_with_the_challenge() {
        // The example of RFC 7636, appendix B.
        let verifier = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
        let challenge = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";
        assert!(check_code_verifier(Some(challenge), Some(verifier)).is_ok());
        assert!(check_code_verifier(None, None).is_ok());
        for (challenge, given) in [
            (Some(challenge), None),
            (Some(challenge), Some("dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXK")),
            (Some(challenge), Some("")),
            (Some(challenge), Some(challenge)),
            (None, Some(verifier)),
        ] {
            assert!(check_code_verifier(challenge, given).is_err(), "{challenge:?} {given:?}");
        }
    }

    #[test]
    fn access_token_hash_is_that_of_the_specification() {
        let token = "jHkWEdUXMU1BwAsC4vtUsZwnNvTIxEl0z9K3vx5KF0Y";
        assert_eq!(left_half_hash(token), "77QmUPtjPfzWtF2AnpK9RQ");
    }
}
