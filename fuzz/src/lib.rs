//! Fuzz targets for untrusted input.
//!
//! Each target is a function over bytes that asserts properties. It runs for a long time under libFuzzer (`make fuzz`),
//! and for a short time in the ordinary tests, with mutations of the same seeds (`tests/short.rs`). An input that has
//! found an error is kept as a seed, and as a unit test of the fixed code.

#![expect(clippy::unwrap_used, reason = "a failed check is a finding")]

mod concatenated_message;
mod enum_response;
mod input_reader;
mod operator_token;
mod pdu;
mod phone;
mod search;
mod signature;
mod sms_text;
mod webhook;

pub use concatenated_message::CONCATENATED_MESSAGE;
pub use enum_response::ENUM_RESPONSE;
pub use operator_token::OPERATOR_TOKEN;
pub use pdu::PDU;
pub use phone::PHONE;
pub use search::SEARCH;
pub use signature::SIGNATURE;
pub use sms_text::SMS_TEXT;
pub use webhook::WEBHOOK;

/// A function with untrusted input.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Panics if a property is violated.
    pub run: fn(&[u8]),
    /// Initial inputs for different code paths.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// Number of mutated inputs of a short run.
    pub short_run_inputs: usize,
}

pub const TARGETS: [Target; 9] =
    [SEARCH, SMS_TEXT, PHONE, PDU, CONCATENATED_MESSAGE, SIGNATURE, WEBHOOK, ENUM_RESPONSE, OPERATOR_TOKEN];

fn text_seeds(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
