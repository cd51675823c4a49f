//! Silent checks: redirect sessions, and connectors to operators that identify devices.
//!
//! A redirect session is a row beside its check, from creation to conclusion. Each step is a conditional write: a
//! `state` is consumed once, and the operator's verdict is stored once.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId, ErrorCode, Sealed},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
};

use super::{
    hashes::{BrowserHash, TokenHash},
    store::StoreError,
};

/// What the operator verifies or discovers about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentOperation<'a> {
    /// Secure SNA: whether the device has this number.
    VerifyNumber(&'a Msisdn),
    /// Discovery: the number of the device.
    DiscoverNumber,
}

/// A request to redirect a device to the operator.
#[derive(Clone, Copy, derive_more::Debug)]
// Masked: `state` authenticates the returning device.
#[debug("AuthorizationRequest({check})")]
pub struct AuthorizationRequest<'a> {
    pub check: CheckId,
    pub operation: SilentOperation<'a>,
    /// OAuth `state`: single use, unguessable, at most 64 characters of `A-Z a-z 0-9 _ -`.
    pub state: &'a str,
    /// The number of the simulated SIM, in sandbox projects.
    pub simulated_sim: Option<&'a Msisdn>,
    pub device_ip: IpAddr,
    pub now: Timestamp,
}

/// The redirect for the device, with the data that the connector needs when the device returns.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("AuthorizationRedirect(…)")]
pub struct AuthorizationRedirect {
    /// Absolute URL.
    pub location: String,
    /// Private data of the connector, such as nonce and PKCE verifier. Stored sealed, passed back once.
    pub connector_data: Vec<u8>,
}

/// The request with which a device returns from the operator. Its `state` is valid and already consumed.
#[derive(Clone, Copy, derive_more::Debug)]
// Masked: query and headers may contain codes and phone numbers.
#[debug("AuthorizationResponse({check})")]
pub struct AuthorizationResponse<'a> {
    pub check: CheckId,
    pub operation: SilentOperation<'a>,
    pub connector_data: &'a [u8],
    /// IP address of the device when it was redirected.
    pub initial_ip: IpAddr,
    /// Peer of the TCP connection: the device, an operator's gateway, or a proxy of ours.
    pub peer: SocketAddr,
    /// Client address, as reported by trusted proxies.
    pub device_ip: IpAddr,
    /// Decoded query parameters in order.
    pub query: &'a [(String, String)],
    /// Request headers, names in lower case.
    pub headers: &'a [(String, Vec<u8>)],
    pub now: Timestamp,
}

/// The operator's result for a [`SilentOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SilentResult {
    Match(bool),
    Number(Msisdn),
}

/// A connector to operators that identify devices.
///
/// The [`ErrorCode`] of a failure concludes the check. Connectors log the details, without numbers, tokens or codes.
#[async_trait]
pub trait SilentConnector: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    fn supports(&self, product: Product) -> bool;

    /// Whether requests currently reach the operator. `true` if the connector cannot tell.
    fn is_reachable(&self) -> bool {
        true
    }

    async fn begin_authorization(&self, request: AuthorizationRequest<'_>) -> Result<AuthorizationRedirect, ErrorCode>;

    /// Whether the connector accepts responses from this source. Called before the device's addresses are compared: a
    /// request from elsewhere is no evidence that the device has changed its address. Operators that send devices back
    /// from any address accept all sources.
    fn check_source(&self, _response: &AuthorizationResponse<'_>) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Called at most once per authorization: operators' codes and tokens are single use.
    async fn complete_authorization(&self, response: AuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode>;
}

/// A check with its redirect session.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSessionRecord {
    pub check: AnyCheck,
    /// `None` after the conclusion of the check.
    pub session: Option<RedirectSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSession {
    pub input: Sealed,
    /// Of the last redirect, until its `state` is consumed.
    pub state_hash: Option<TokenHash>,
    /// The last redirect, also after its `state` is consumed.
    pub last_redirect: Option<BegunRedirect>,
    pub verdict: Option<SealedVerdict>,
    pub wrong_codes: u32,
}

/// When a device was redirected to its operator, and by which browser.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRedirect {
    pub at: Timestamp,
    /// `None`: it did not begin at the hosted page.
    pub browser: Option<BrowserHash>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedVerdict {
    pub code_hash: TokenHash,
    pub verdict: Sealed,
}

/// A device is redirected to its operator.
#[derive(Clone, Debug)]
pub struct BeginRedirect {
    pub check: CheckId,
    pub network: NetworkId,
    pub state_hash: TokenHash,
    /// Sealed data for the return of the device.
    pub pending_redirect: Sealed,
    /// `None`: it did not begin at the hosted page.
    pub browser: Option<BrowserHash>,
    pub at: Timestamp,
}

/// The result of a consumed `state`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedState {
    pub record: RedirectSessionRecord,
    pub pending_redirect: Sealed,
}

#[async_trait]
pub trait RedirectSessionStore: Send + Sync {
    /// Finds a check without a tenant: devices authenticate with the URL of the check.
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError>;

    /// Marks the check as pending on a network, and replaces any earlier `state`. `false`: the check is concluded or
    /// has a verdict.
    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError>;

    /// Consumes a `state`. `None`: it is invalid.
    ///
    /// Not durable on return: a crash before the next step of the check may undo it.
    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError>;

    /// Stores the operator's verdict. `false`: the check is concluded or has a verdict.
    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError>;

    /// Counts a wrong code. Returns the total, or `None` if the check is concluded.
    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError>;
}
