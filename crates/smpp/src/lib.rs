//! SMPP 3.4 and 5.0: the subset needed to receive and send short messages.
//!
//! - [`pdu`], [`esm_class`]: PDU types and their codec.
//! - [`text`]: text encodings, and splitting of long texts.
//! - [`udh`], [`content`], [`reassembly`]: segments of concatenated messages, and their reassembly.
//! - [`session`]: requests and responses in both directions over one stream.
//!
//! Decoding is total: any octets result in a PDU or in an error with the command and sequence number, so that the
//! session can respond and keep the connection. A peer that is disconnected because of one malformed message would
//! resend that message on every new connection.
//!
//! `Debug` of addresses, messages and passwords shows only their lengths, to keep them out of logs.
//!
//! Deliberately absent: sockets and TLS (any stream works), reconnecting, logging, the broadcast, query, replace,
//! cancel and multi-destination operations (answered with `generic_nack`), and interpretation of messages.

pub mod content;
pub mod esm_class;
pub mod pdu;
pub mod reassembly;
pub mod session;
pub mod text;
pub mod udh;
