//! Operators and the connectors to them.
//!
//! Connectors deliver inbound SMS to the [`Inbox`] and query operators. For a silent check the engine redirects the
//! device to the operator. The operator redirects it back and identifies it by its mobile connection, with CAMARA
//! Number Verification or HTTP header enrichment.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
pub use ringtrue_domain::network::IpLocation;
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    network::NetworkId,
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsOrigin, SmsSender},
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::{Mode, ProjectId},
};
use strum::IntoStaticStr;
use tokio::time::Instant;
use uuid::Uuid;

use super::{SmsKey, StoreError};

/// The outcome of a received SMS. All outcomes are final: the operator need not send the SMS again. Metrics are
/// labelled with the names.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, IntoStaticStr)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SmsOutcome {
    /// The SMS concluded a check.
    Concluded,
    /// The check was already concluded or past its deadline.
    TooLate,
    /// A check became `PENDING`: the sender matches, the code is missing or invalid.
    Pending,
    /// No open check expects the SMS.
    Unmatched,
    /// No valid code, and a sender that is not attributable to a subscriber.
    Unusable,
}

/// The first part of a concatenated SMS whose other parts are missing.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct PartialSms {
    pub origin: SmsOrigin,
    /// Name of the connector that received it.
    pub connector: Arc<str>,
    pub from: SmsSender,
    pub to: Msisdn,
    pub received_at: Timestamp,
}

#[async_trait]
pub trait Inbox: Send + Sync {
    /// Processes an SMS. `Ok`: its effect is durable, and the connector acknowledges it to the operator. `Err`: the
    /// connector requests redelivery.
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError>;

    /// Marks matching checks as pending before the SMS is complete.
    async fn receive_partial(&self, partial: PartialSms) -> Result<(), StoreError>;
}

/// A part of a concatenated SMS.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("SmsPart({connector}, {sequence} of {total})")]
pub struct SmsPart {
    pub origin: SmsOrigin,
    /// Name of the connector that received it. Parts of one SMS arrive over one connector, on any node.
    pub connector: Arc<str>,
    /// Addresses as received; the same in all parts.
    pub from: String,
    pub to: String,
    /// Octets of the reference: one or two. References of different widths differ, whatever their value.
    pub reference: Vec<u8>,
    /// At least 2.
    pub total: u8,
    /// From 1 to `total`.
    pub sequence: u8,
    /// In a format of the connector.
    pub content: Vec<u8>,
    /// Time in which all parts have to arrive.
    pub lifetime: Duration,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum PartOutcome {
    /// The part is durable: the connector acknowledges it. `first`: it is the first part of its SMS.
    Stored { first: bool },
    /// The connector passes the SMS to the inbox, and acknowledges the part if the inbox has processed it. Otherwise the
    /// operator resends the part, which completes the SMS again.
    Complete(CompleteSms),
    /// The SMS was processed before: the connector acknowledges the part.
    AlreadyProcessed,
    /// Too many SMS are incomplete. The connector requests redelivery.
    LimitReached,
}

/// A concatenated SMS with all its parts.
#[derive(Clone, PartialEq, Eq, derive_more::Debug)]
#[debug("CompleteSms({sms})")]
pub struct CompleteSms {
    pub key: SmsKey,
    pub sms: Uuid,
    /// Contents of the parts, in order.
    pub contents: Vec<Vec<u8>>,
}

/// Joins the parts of concatenated SMS. Nodes share the parts, which may arrive at several of them.
#[async_trait]
pub trait Reassembly: Send + Sync {
    async fn add_part(&self, part: SmsPart) -> Result<PartOutcome, StoreError>;

    /// Records that the inbox has processed an SMS. Without it, a resent part is processed again, to no effect.
    async fn mark_processed(&self, sms: &CompleteSms) -> Result<(), StoreError>;

    /// Discards the expired SMS of a connector. Returns the number of those with missing parts.
    async fn discard_expired(&self, connector: &str) -> Result<u64, StoreError>;
}

/// The network that serves a number, according to one source.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum LookupResult {
    /// The current network, after any porting.
    Network(NetworkId),
    /// The number is unassigned. A phone that is switched off is not.
    NoSubscriber,
    /// The number is in service on a network whose code is unknown to this deployment, and which is not the network
    /// of its prefix. Another source may identify it.
    OtherNetwork,
    /// The source has no data about the number; the next source is tried.
    NoData,
}

/// A failed lookup; the next source is tried.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, thiserror::Error)]
pub enum LookupError {
    #[error("no response within the timeout")]
    Timeout,
    #[error("unreachable")]
    Unreachable,
    #[error("request refused: check credentials and quota")]
    Refused,
    #[error("invalid response")]
    InvalidResponse,
}

/// A service that finds the network of a number: ENUM, HLR lookup, Telco Finder.
///
/// Sources log the details of failures, without the number.
#[async_trait]
pub trait LookupSource: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError>;
}

/// A request for the SIM history of a number.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("SimSwapRequest({check})")]
pub struct SimSwapRequest<'a> {
    pub check: CheckId,
    /// Simulated SIMs belong to one project.
    pub project: ProjectId,
    pub number: &'a Msisdn,
    pub period: SimSwapPeriod,
    pub now: Timestamp,
    /// The caller drops the request at this instant.
    pub deadline: Instant,
}

/// A connector to operators that report SIM changes.
#[async_trait]
pub trait SimSwapConnector: fmt::Debug + Send + Sync {
    /// Name in the configuration.
    fn name(&self) -> &str;

    async fn sim_history(&self, request: SimSwapRequest<'_>) -> Result<SimHistory, ErrorCode>;
}

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

/// IP address tables. Lookups run on hot paths: they must not block and should not allocate.
pub trait IpLocator: fmt::Debug + Send + Sync {
    fn locate(&self, address: IpAddr) -> IpLocation;
}

/// A connector that reports its status on this node, without subscribers' numbers, tokens and secrets.
pub trait MonitoredConnector: fmt::Debug + Send + Sync {
    fn connector_status(&self) -> ConnectorStatus;
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorStatus {
    /// Name in the configuration.
    pub name: Arc<str>,
    /// Display name of the protocol.
    pub kind: &'static str,
    /// `Sandbox` for connectors of the simulated operator.
    pub mode: Mode,
    pub state: ConnectorState,
    /// Networks that it serves.
    pub networks: Vec<NetworkId>,
    /// Receivers whose SMS it delivers.
    pub receivers: Vec<Msisdn>,
    /// Connectors with persistent connections only.
    pub links: Option<LinkStatus>,
    pub breakers: Vec<BreakerStatus>,
    /// Inbound messages since the start of the node or the replacement of the connector.
    pub counts: Option<MessageCounts>,
    pub health: ConnectorHealth,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ConnectorState {
    Up,
    /// Works in part, or is being retried.
    Degraded,
    Down,
    /// Another node holds the connections that only one node may have.
    Standby,
    /// Passive connector that has not received a request yet.
    Idle,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkStatus {
    pub up: usize,
    pub configured: usize,
    /// Last change between no link and at least one.
    pub since: Timestamp,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BreakerStatus {
    /// Display name of the guarded requests.
    pub operation: &'static str,
    pub position: BreakerPosition,
    /// Requests to the operator by outcome, since the start of the node or the replacement of the connector.
    pub calls: Vec<(&'static str, u64)>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum BreakerPosition {
    Closed,
    Open {
        until: Timestamp,
    },
    /// One probe request is allowed.
    HalfOpen,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct MessageCounts {
    pub accepted: u64,
    pub rejected: u64,
}

#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ConnectorHealth {
    /// Last valid message or response.
    pub last_success_at: Option<Timestamp>,
    /// Kept after recovery.
    pub last_error: Option<LastError>,
    /// Time from the arrival of the last SMS that concluded a check until the conclusion was durable.
    pub conclusion_lag: Option<SignedDuration>,
}

#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LastError {
    pub message: String,
    pub at: Timestamp,
}
