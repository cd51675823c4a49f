//! SMS from operators by SMPP: a client that binds to a message centre and takes what handsets sent.
//!
//! A [`Connector`] keeps a few binds up, and everything that comes over any of them goes one way: [`desk`] tells an SMS
//! from a receipt and reads who sent it to whom, [`long`] puts the parts of a longer one together, and the engine's
//! inbox deals with it. The message centre is answered after the inbox has answered, many at a time and in any order,
//! so that the store's group commit gets its batches.
//!
//! Nothing that is acknowledged is lost, nothing that cannot be used is refused for ever:
//!
//! - the inbox failed: `ESME_RX_T_APPN`, and the message centre sends again;
//! - not an SMS, not to a number of ours, in a coding of which nothing can be read: acknowledged and counted;
//! - a part of an SMS whose others are missing: see `docs/decisions/0008-parts-of-an-sms.md`.
//!
//! Deliberately absent: sending, and any judgement on what an SMS says.

mod address;
mod back_off;
mod bind;
mod config;
mod connector;
mod counters;
mod desk;
mod long;
mod presence;

pub use ringtrue_smpp::{pdu::Tag, text::DefaultAlphabet};

pub use self::{
    config::{AddressRange, Direction, InterfaceVersion, Password, Reach, SmppConfig, Succession, Tls},
    connector::{Connector, Surroundings},
    counters::{Counters, Outcome},
    presence::{LastError, Status},
};
