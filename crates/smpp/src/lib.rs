//! SMPP 3.4 and 5.0, as much of it as receiving and sending short messages needs.
//!
//! - [`pdu`]: what goes over the wire, as types, and how it is read and written.
//! - [`text`]: what the octets of a message say, and how a text becomes octets.
//! - [`udh`], [`content`], [`reassembly`]: the pieces of a longer message, and how they become one again.
//! - [`session`]: requests and answers in both directions over one stream.
//!
//! Reading is total: whatever octets arrive, the result is a PDU or an error that still knows which request it was
//! about, so that it can be answered and the link kept. A peer that loses its link over one odd message sends that
//! message again on the next link, for ever.
//!
//! `Debug` of addresses, messages and passwords tells their lengths only: what is in a log cannot be taken back.
//!
//! Deliberately absent: sockets and TLS (any stream will do), reconnecting, logging, the broadcast, query, replace,
//! cancel and multi-destination operations (answered as unknown), and any meaning given to a message.

pub mod content;
pub mod pdu;
pub mod reassembly;
pub mod session;
pub mod text;
pub mod udh;
