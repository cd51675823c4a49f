//! Connectors for Secure SNA and Discovery: the operator identifies a device by its mobile connection.
//!
//! The engine redirects the device to the operator. The operator redirects it back and identifies it, by CAMARA Number
//! Verification or by HTTP header enrichment.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
};

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    product::Product,
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
#[derive(Clone, Copy)]
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

/// Masked: `state` authenticates the returning device.
impl fmt::Debug for AuthorizationRequest<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationRequest").field("check", &self.check).finish_non_exhaustive()
    }
}

/// The redirect for the device, with the data that the connector needs when the device returns.
#[derive(Clone, PartialEq, Eq)]
pub struct AuthorizationRedirect {
    /// Absolute URL.
    pub location: String,
    /// Private data of the connector, such as nonce and PKCE verifier. Stored sealed, passed back once.
    pub connector_data: Vec<u8>,
}

impl fmt::Debug for AuthorizationRedirect {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("AuthorizationRedirect(…)")
    }
}

/// The request with which a device returns from the operator. Its `state` is valid and already consumed.
#[derive(Clone, Copy)]
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

/// Masked: query and headers may contain codes and phone numbers.
impl fmt::Debug for AuthorizationResponse<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("AuthorizationResponse").field("check", &self.check).finish_non_exhaustive()
    }
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

    async fn begin_authorization(
        &self,
        departure: AuthorizationRequest<'_>,
    ) -> Result<AuthorizationRedirect, ErrorCode>;

    /// Called at most once per authorization: operators' codes and tokens are single use.
    async fn complete_authorization(&self, arrival: AuthorizationResponse<'_>) -> Result<SilentResult, ErrorCode>;
}
