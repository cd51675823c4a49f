//! Codec tests: table-driven cases and properties.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod pdu;
mod pdu_properties;
mod reassembly;
mod text;
mod text_properties;
mod udh;
