//! An SMS that an operator handed to us.

use std::{fmt, sync::Arc};

use jiff::Timestamp;

use crate::{phone::Msisdn, tenancy::Mode};

/// Who sent an SMS.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Sender {
    Number(Msisdn),
    /// The sender cannot be attributed to a subscriber: withheld, alphanumeric, a short code, or unreadable.
    Unattributed,
}

#[derive(Clone, PartialEq, Eq)]
pub struct InboundSms {
    /// Whether a real operator brought it. The simulated one reaches the checks of sandbox projects only, and a real
    /// one only those of live projects.
    pub mode: Mode,
    /// The configured name of the connector that brought it.
    pub connector: Arc<str>,
    pub from: Sender,
    pub to: Msisdn,
    pub text: String,
    pub received_at: Timestamp,
}

/// Masked: the text holds a code.
impl fmt::Debug for InboundSms {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("InboundSms")
            .field("mode", &self.mode)
            .field("connector", &self.connector)
            .field("from", &self.from)
            .field("to", &self.to)
            .field("characters", &self.text.chars().count())
            .field("received_at", &self.received_at)
            .finish()
    }
}
