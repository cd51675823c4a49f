//! How operators are asked, without the user's doing, who a device is.
//!
//! A device is sent to the operator and comes back, and the operator says whose it is: by CAMARA Number Verification,
//! by a header that the network inserts, or by whatever a connector speaks.

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

/// What the operator is asked about the device.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Question<'a> {
    /// Is this its number? (Secure SNA)
    IsNumber(&'a Msisdn),
    /// Which number has it? (Discovery)
    WhichNumber,
}

/// A device that is about to be sent to the operator.
#[derive(Clone, Copy)]
pub struct Departure<'a> {
    pub check: CheckId,
    pub question: Question<'a>,
    /// Comes back with the device. Unguessable, used once, only `A-Z a-z 0-9 _ -`, at most 64 characters.
    pub ticket: &'a str,
    /// The simulated SIM that the device is to have, in a sandbox.
    pub sim: Option<&'a Msisdn>,
    pub device: IpAddr,
    pub now: Timestamp,
}

/// Masked: who knows the ticket can come back in the device's place.
impl fmt::Debug for Departure<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Departure").field("check", &self.check).finish_non_exhaustive()
    }
}

/// Where the device is sent, and what must be remembered until it is back.
#[derive(Clone, PartialEq, Eq)]
pub struct Journey {
    /// An absolute URL.
    pub location: String,
    /// The connector's own notes, such as a nonce and a PKCE verifier. Kept sealed, given back once.
    pub memory: Vec<u8>,
}

impl fmt::Debug for Journey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Journey(…)")
    }
}

/// A device that is back from the operator. Its ticket was found good, and is used up.
#[derive(Clone, Copy)]
pub struct Arrival<'a> {
    pub check: CheckId,
    pub question: Question<'a>,
    pub memory: &'a [u8],
    /// Where the device was when it left.
    pub departed_from: IpAddr,
    /// Who opened the connection that it came back on: the device, a gateway of its operator, or a proxy of ours.
    pub peer: SocketAddr,
    /// Where the request came from, by the word of proxies that are trusted.
    pub device: IpAddr,
    /// The query, decoded, in its order.
    pub query: &'a [(String, String)],
    /// The request's headers, names in lower case.
    pub headers: &'a [(String, Vec<u8>)],
    pub now: Timestamp,
}

/// Masked: query and headers may hold codes and numbers.
impl fmt::Debug for Arrival<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Arrival").field("check", &self.check).finish_non_exhaustive()
    }
}

/// What the operator says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Reply {
    Match(bool),
    Number(Msisdn),
}

/// A connector to operators that can say who a device is.
///
/// A fault is the code that the check ends with. What went wrong in detail is the connector's to log, without numbers,
/// tokens or codes.
#[async_trait]
pub trait SilentRoute: fmt::Debug + Send + Sync {
    /// The connector's name in the configuration.
    fn name(&self) -> &str;

    fn serves(&self, product: Product) -> bool;

    async fn depart(&self, departure: Departure<'_>) -> Result<Journey, ErrorCode>;

    /// Asked once for each departure at most: operators' codes and tokens are good for one use.
    async fn arrive(&self, arrival: Arrival<'_>) -> Result<Reply, ErrorCode>;
}
