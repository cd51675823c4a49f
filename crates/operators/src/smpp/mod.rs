//! SMPP client that binds to an operator's message centre (SMSC) and receives SMS from handsets.
//!
//! A [`SmppConnector`] maintains several binds. For every received message, [`inbound`] separates SMS from receipts and
//! parses the addresses, [`concatenation`] joins the parts of longer SMS, and the engine's inbox processes the result.
//! Messages are acknowledged after the inbox has stored them, many concurrently and in any order, so that the store can
//! batch its commits.
//!
//! Acknowledged messages are never lost, and unusable ones are not rejected for ever:
//!
//! - the inbox failed: `ESME_RX_T_APPN`, so that the message centre resends;
//! - not an SMS, not to one of our numbers, or in an unsupported coding: acknowledged and counted;
//! - a part of an incomplete SMS: see `docs/decisions/0008-acknowledging-sms-parts.md`.
//!
//! Deliberately absent: sending SMS, and interpreting their text.

mod address;
mod backoff;
mod bind;
mod bind_status;
mod concatenation;
mod config;
mod connector;
mod counters;
mod inbound;

pub use ringtrue_smpp::{pdu::TlvTag, text::DefaultAlphabet};

pub use self::{
    bind_status::{LastBindError, SmppStatus},
    config::{
        AddressRange, BindDirection, InterfaceVersion, PartOrder, ProjectScope, SmppConfig, SmppPassword, SmppTls,
    },
    connector::{SmppConnector, SmppDependencies},
    counters::{SmppCounters, SmppOutcome},
};
