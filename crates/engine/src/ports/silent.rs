//! Ports for silent checks: stored redirect sessions, and connectors to operators that identify devices.
//!
//! A redirect session is the stored state of a silent check's OAuth flow, from creation to conclusion of the check.
//! Each step is a conditional write: a `state` is consumed once, and the operator's verdict is stored once.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use async_trait::async_trait;
use aws_lc_rs::digest::{SHA256, digest};
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, CheckId, ErrorCode, Sealed},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
};

use super::{
    hashes::{BrowserHash, TokenHash},
    operator_tokens::OperatorTokenVerifier,
    store::StoreError,
};

/// The question to the operator about a device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SilentOperation<'a> {
    /// Secure SNA: does the device have this number?
    VerifyNumber(&'a Msisdn),
    /// Discovery: which number does the device have?
    DiscoverNumber,
    /// Secure SNA, with the number to follow: which device is it? See
    /// [`verify_device`](SilentConnector::verify_device).
    AuthenticateDevice,
}

/// The number that a device is asked about after the operator has recognised it.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
pub enum NumberQuestion {
    Plain(Msisdn),
    /// SHA-256 digest of the number in E.164 form, with `+`.
    #[debug("Hashed")]
    Hashed([u8; 32]),
}

impl NumberQuestion {
    /// Asks about a text that is no valid number.
    pub fn of_text(text: &str) -> Self {
        NumberQuestion::Hashed(sha256(text))
    }

    pub fn matches(&self, number: &Msisdn) -> bool {
        match self {
            NumberQuestion::Plain(asked) => asked == number,
            NumberQuestion::Hashed(hash) => *hash == sha256(number.as_str()),
        }
    }

    /// Returns the digest of the number.
    pub fn hash(&self) -> [u8; 32] {
        match self {
            NumberQuestion::Plain(number) => sha256(number.as_str()),
            NumberQuestion::Hashed(hash) => *hash,
        }
    }
}

fn sha256(text: &str) -> [u8; 32] {
    let mut hash = [0; 32];
    hash.copy_from_slice(digest(&SHA256, text.as_bytes()).as_ref());
    hash
}

/// A request to redirect a device to the operator.
#[derive(Clone, Copy, derive_more::Debug)]
// Hides the fields: `state` authenticates the returning device.
#[debug("OperatorAuthorizationRequest({check})")]
pub struct OperatorAuthorizationRequest<'a> {
    pub check: CheckId,
    pub operation: SilentOperation<'a>,
    /// OAuth `state`: single use, unguessable, at most 64 characters of `A-Z a-z 0-9 _ -`.
    pub state: &'a str,
    /// Number of the simulated SIM in the device. Sandbox projects only.
    pub simulated_sim: Option<&'a Msisdn>,
    pub device_ip: IpAddr,
    pub now: Timestamp,
}

/// The operator's URL for the device, with the data that the connector needs when the device returns.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("AuthorizationRedirect(…)")]
pub struct AuthorizationRedirect {
    /// Absolute URL to which the device is redirected.
    pub location: String,
    /// The connector's private data, such as the nonce and the PKCE verifier. The engine stores it encrypted, and
    /// passes it to [`complete_authorization`](SilentConnector::complete_authorization) once.
    pub connector_data: Vec<u8>,
}

/// The request with which a device returns from the operator. Its `state` is valid and already consumed.
#[derive(Clone, Copy, derive_more::Debug)]
// Hides the fields: query and headers may contain codes and phone numbers.
#[debug("OperatorAuthorizationResponse({check})")]
pub struct OperatorAuthorizationResponse<'a> {
    pub check: CheckId,
    pub operation: SilentOperation<'a>,
    pub connector_data: &'a [u8],
    /// IP address of the device when it was redirected.
    pub initial_ip: IpAddr,
    /// Peer of the TCP connection: the device, an operator's gateway, or one of our proxies.
    pub peer: SocketAddr,
    /// IP address of the returning device, as reported by trusted proxies.
    pub device_ip: IpAddr,
    /// Decoded query parameters in order.
    pub query: &'a [(String, String)],
    /// Request headers, names in lower case.
    pub headers: &'a [(String, Vec<u8>)],
    pub now: Timestamp,
}

/// The operator's answer to a [`SilentOperation`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SilentResult {
    Match(bool),
    Number(Msisdn),
    /// The operator has recognised the device, and says later whether it has a number.
    Device(AuthenticatedDevice),
}

/// A device that its operator has recognised.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("AuthenticatedDevice({connector})")]
pub struct AuthenticatedDevice {
    /// Name of the connector that can ask about the device.
    pub connector: String,
    /// The connector's private data, such as the operator's access token. The engine stores it encrypted, and passes it
    /// to [`verify_device`](SilentConnector::verify_device) once.
    pub data: Vec<u8>,
}

/// A connector to operators that can identify a device by its mobile data connection.
///
/// If a method fails, the check is concluded with the returned [`ErrorCode`]. Connectors log the details, without
/// numbers, tokens or codes.
#[async_trait]
pub trait SilentConnector: fmt::Debug + Send + Sync {
    /// Name of the connector in the configuration.
    fn name(&self) -> &str;

    fn supports(&self, product: Product) -> bool;

    /// Whether requests currently reach the operator. `true` if the connector cannot tell.
    fn is_reachable(&self) -> bool {
        true
    }

    async fn begin_authorization(
        &self,
        request: OperatorAuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode>;

    /// Whether the connector accepts a response from this source. Called before the device's addresses are compared,
    /// because a request from elsewhere does not prove that the device has changed its address. The default accepts all
    /// sources, for operators that send devices back from any address.
    fn check_source(&self, _response: &OperatorAuthorizationResponse<'_>) -> Result<(), ErrorCode> {
        Ok(())
    }

    /// Redeems the operator's response. Called at most once per authorization, because operators' codes and tokens are
    /// single use.
    async fn complete_authorization(
        &self,
        response: OperatorAuthorizationResponse<'_>,
    ) -> Result<SilentResult, ErrorCode>;

    /// Asks whether a device that this connector has recognised has a number. Called at most once per device, because
    /// operators' tokens are single use.
    async fn verify_device(&self, question: DeviceQuestion<'_>) -> Result<bool, ErrorCode>;

    /// Returns the other way to verify a number, by a token from the phone's wallet. `None`: the operator accepts none.
    fn operator_token_verifier(&self) -> Option<&dyn OperatorTokenVerifier> {
        None
    }
}

/// A question about a device that its operator has recognised.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("DeviceQuestion({check})")]
pub struct DeviceQuestion<'a> {
    pub check: CheckId,
    /// Data of the [`AuthenticatedDevice`].
    pub device_data: &'a [u8],
    pub number: &'a NumberQuestion,
}

/// A check, with its redirect session if there is one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSessionRecord {
    pub check: AnyCheck,
    /// `None`: the check is concluded, or it is a step of a verification whose device has not opened its URL yet.
    pub session: Option<RedirectSession>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct RedirectSession {
    pub input: Sealed,
    /// Hash of the `state` of the last redirect. `None`: no redirect has begun, or its `state` is consumed.
    pub state_hash: Option<TokenHash>,
    /// The last redirect, also after its `state` is consumed. `None`: no redirect has begun.
    pub last_redirect: Option<BegunRedirect>,
    pub verdict: Option<SealedVerdict>,
    pub wrong_codes: u32,
}

/// A redirect of a device to its operator: its time, and the browser that began it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct BegunRedirect {
    pub at: Timestamp,
    /// `None`: the redirect did not begin at the hosted page.
    pub browser: Option<BrowserHash>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct SealedVerdict {
    pub code_hash: TokenHash,
    pub verdict: Sealed,
}

/// A redirect of a device to its operator, to be stored.
#[derive(Clone, Debug)]
pub struct BeginRedirect {
    pub check: CheckId,
    pub network: NetworkId,
    pub state_hash: TokenHash,
    /// Encrypted data that is needed when the device returns.
    pub pending_redirect: Sealed,
    /// `None`: the redirect did not begin at the hosted page.
    pub browser: Option<BrowserHash>,
    pub at: Timestamp,
}

/// The redirect session whose `state` was consumed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConsumedState {
    pub record: RedirectSessionRecord,
    pub pending_redirect: Sealed,
}

/// A verdict that was removed from the redirect session of an open check.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct TakenVerdict {
    pub check: AnyCheck,
    pub verdict: Sealed,
}

#[async_trait]
pub trait RedirectSessionStore: Send + Sync {
    /// Finds a redirect session by check alone. Takes no tenant, because devices authenticate with the check's secret
    /// URL.
    async fn redirect_session(&self, check: CheckId) -> Result<Option<RedirectSessionRecord>, StoreError>;

    /// Marks the check as pending on a network, and replaces any earlier `state`. `false`: the check is concluded or
    /// already has a verdict, and nothing was written.
    async fn begin_redirect(&self, redirect: BeginRedirect) -> Result<bool, StoreError>;

    /// Consumes a `state`. `None`: the `state` is invalid.
    ///
    /// The effect is not durable on return: a crash before the check's next write may undo it.
    async fn consume_state(&self, check: CheckId, state: TokenHash) -> Result<Option<ConsumedState>, StoreError>;

    /// Stores the operator's verdict. `false`: the check is concluded or already has a verdict, and nothing was
    /// written.
    async fn store_verdict(&self, check: CheckId, verdict: SealedVerdict) -> Result<bool, StoreError>;

    /// Takes the operator's verdict, which nobody can take or redeem any more. `None`: the check is concluded, or has no
    /// verdict.
    ///
    /// The effect is not durable on return: a crash before the check's next write may undo it.
    async fn take_verdict(&self, check: CheckId) -> Result<Option<TakenVerdict>, StoreError>;

    /// Records the error of a redirect after which an open check was left to the phone's wallet, for the check's history.
    async fn record_redirect_error(&self, check: CheckId, code: ErrorCode) -> Result<(), StoreError>;

    /// Counts a wrong redemption code. Returns the total for the check. `None`: the check is concluded.
    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError>;
}
