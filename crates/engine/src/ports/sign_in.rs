//! Store port for sign-ins (OpenID Connect): authorization requests with their codes, pushed requests, sessions of
//! browsers, and used assertions.
//!
//! Every transition of a sign-in is one conditional write, so that concurrent requests and nodes cannot finish it twice
//! or redeem its code twice.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, NumberHash, Sealed},
    product::Product,
    sign_in::SignInId,
    tenancy::{ClientId, ProjectId},
};

use super::{activity::UsageDelta, hashes::TokenHash, store::StoreError};

/// A stored sign-in.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInRecord {
    pub id: SignInId,
    pub project: ProjectId,
    pub client: ClientId,
    /// The authorization request, encrypted.
    pub request: Sealed,
    pub created_at: Timestamp,
    /// When the user can no longer finish it.
    pub expires_at: Timestamp,
    /// The check that proves the number: a verification, a Discovery check, or a Secure SNA check whose number follows. `None`: none was started yet.
    pub check: Option<SignInCheck>,
    /// The number that the check is to prove, encrypted. `None`: the operator finds it, or it follows later.
    pub number: Option<Sealed>,
    pub end: Option<SignInEnd>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct SignInCheck {
    pub product: Product,
    pub id: CheckId,
}

/// How a sign-in has ended.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SignInEnd {
    /// The number is proven. The client gets a code, which it redeems for tokens.
    Proven {
        /// The proof, encrypted.
        proof: Sealed,
        code_expires_at: Timestamp,
        /// When the code was redeemed. `None`: not yet.
        redeemed_at: Option<Timestamp>,
        /// When the tokens were revoked, because the code was used again. `None`: they were not.
        revoked_at: Option<Timestamp>,
    },
    /// The client gets this OAuth error.
    Failed { error: String },
}

/// The end of a sign-in, to be stored.
#[derive(Clone, Debug)]
pub struct EndedSignIn {
    pub id: SignInId,
    pub end: SignInEnd,
    /// The session of the browser. `None`: the project has no sessions.
    pub session: Option<SignInSession>,
    /// Counts the sign-in. `None`: the request is for a token of CAMARA's APIs, whose checks count.
    pub usage: Option<UsageDelta>,
}

/// An authorization request that a client has sent in advance (RFC 9126).
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PushedAuthorization {
    /// Keyed hash of the `request_uri`.
    pub reference: TokenHash,
    pub client: ClientId,
    /// The parameters, encrypted.
    pub parameters: Sealed,
    pub expires_at: Timestamp,
}

/// A browser that stays signed in to one project.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SignInSession {
    /// Keyed hash of the token in the browser's cookie.
    pub token: TokenHash,
    pub project: ProjectId,
    /// The hash by which the number's data is erased.
    pub number: NumberHash,
    /// The proof, encrypted.
    pub proof: Sealed,
    pub expires_at: Timestamp,
}

/// Result of redeeming an authorization code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum CodeRedemption {
    /// This call redeemed the code.
    Redeemed,
    /// The code was redeemed before. The tokens that it gave are now revoked.
    AlreadyRedeemed,
    /// There is no such code, or it has expired.
    Invalid,
}

#[async_trait]
pub trait SignInStore: Send + Sync {
    /// Stores a new sign-in. It may have ended already.
    async fn create_sign_in(&self, record: SignInRecord) -> Result<(), StoreError>;

    /// Finds a sign-in by id alone. Takes no tenant, because the page's token authenticates the user.
    async fn find_sign_in(&self, id: SignInId) -> Result<Option<SignInRecord>, StoreError>;

    /// Finds the sign-in of an authorization code that the client is about to redeem. It may not be durable yet, so the
    /// caller reports nothing of it but what the browser learned before it got the code.
    async fn find_sign_in_of_code(&self, id: SignInId) -> Result<Option<SignInRecord>, StoreError>;

    /// Replaces the check of an open sign-in, and the number that it is to prove. `false`: the sign-in has ended, or its check is no longer `from`.
    async fn replace_sign_in_check(
        &self,
        id: SignInId,
        from: Option<CheckId>,
        to: SignInCheck,
        number: Option<Sealed>,
    ) -> Result<bool, StoreError>;

    /// Ends an open sign-in. `false`: it has ended before, and nothing was written.
    async fn end_sign_in(&self, ended: EndedSignIn) -> Result<bool, StoreError>;

    /// Redeems the code of a sign-in, whose tokens then work until `expires_at`. A second call revokes them.
    async fn redeem_sign_in_code(
        &self,
        id: SignInId,
        at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<CodeRedemption, StoreError>;

    async fn push_authorization(&self, pushed: PushedAuthorization) -> Result<(), StoreError>;

    /// Takes a pushed request, which can be used once. `None`: it was used, has expired, or belongs to another client.
    async fn take_pushed_authorization(
        &self,
        reference: TokenHash,
        client: &ClientId,
        now: Timestamp,
    ) -> Result<Option<Sealed>, StoreError>;

    /// Finds the session of a browser at a project. `None`: it has ended.
    async fn find_sign_in_session(
        &self,
        token: TokenHash,
        project: ProjectId,
        now: Timestamp,
    ) -> Result<Option<SignInSession>, StoreError>;

    /// Records the use of a signed assertion. `false`: it was used before.
    async fn record_assertion(&self, assertion: TokenHash, expires_at: Timestamp) -> Result<bool, StoreError>;
}
