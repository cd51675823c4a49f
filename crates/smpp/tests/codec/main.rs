//! Codec tests: table-driven cases and properties.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod pdu;
mod pdu_properties;
mod reassembly;
mod text;
