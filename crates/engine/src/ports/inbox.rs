//! Where connectors hand over what operators brought.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, Origin, Sender},
};

use super::StoreError;

/// What became of an SMS. Whatever it is, the operator need not send it again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Disposition {
    /// It ended a check.
    Concluded,
    /// Its check had ended before, or its time was up.
    TooLate,
    /// It moved a check to `PENDING`: the right sender, without a valid code.
    Pending,
    /// No open check waits for it.
    Unmatched,
    /// It has no valid code, and its sender cannot be attributed: it can move no check to `PENDING` either.
    Unusable,
}

impl Disposition {
    /// The word in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            Disposition::Concluded => "concluded",
            Disposition::TooLate => "too_late",
            Disposition::Pending => "pending",
            Disposition::Unmatched => "unmatched",
            Disposition::Unusable => "unusable",
        }
    }
}

/// The first part of an SMS whose others are still to come.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glimpse {
    pub origin: Origin,
    /// The configured name of the connector that brought it.
    pub connector: Arc<str>,
    pub from: Sender,
    pub to: Msisdn,
    pub seen_at: Timestamp,
}

#[async_trait]
pub trait Inbox: Send + Sync {
    /// Deals with an SMS. Once this answers `Ok` its effect is durable and the operator may be told so; after an error
    /// the operator must be asked to send it again.
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError>;

    /// Notes that part of an SMS has been seen.
    async fn glimpse(&self, glimpse: Glimpse) -> Result<(), StoreError>;
}
