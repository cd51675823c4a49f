//! Inbox for SMS that connectors receive from operators.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsOrigin, SmsSender},
};

use super::StoreError;

/// The outcome of a received SMS. All outcomes are final: the operator need not send the SMS again.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
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

impl SmsOutcome {
    /// Label value in metrics.
    pub fn as_str(self) -> &'static str {
        match self {
            SmsOutcome::Concluded => "concluded",
            SmsOutcome::TooLate => "too_late",
            SmsOutcome::Pending => "pending",
            SmsOutcome::Unmatched => "unmatched",
            SmsOutcome::Unusable => "unusable",
        }
    }
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
