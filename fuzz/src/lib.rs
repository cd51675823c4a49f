//! What must hold for any bytes that come from outside.
//!
//! Each target is one function over bytes that asserts properties. They are run twice: at length under libFuzzer, which
//! looks for new paths (`make fuzz`), and for a moment in the ordinary tests, over mutations of the same seeds
//! (`tests/short.rs`). An input that once broke something is kept as a seed, and as a test where the fault was.

#![expect(clippy::unwrap_used, reason = "a property that cannot be checked does not hold")]

mod enum_answer;
mod long_message;
mod pdu;
mod phone;
mod search;
mod signature;
mod sms_text;
mod tape;
mod webhook;

pub use enum_answer::ENUM_ANSWER;
pub use long_message::LONG_MESSAGE;
pub use pdu::PDU;
pub use phone::PHONE;
pub use search::SEARCH;
pub use signature::SIGNATURE;
pub use sms_text::SMS_TEXT;
pub use webhook::WEBHOOK;

/// Something that takes bytes from outside.
#[derive(Clone, Copy, Debug)]
pub struct Target {
    pub name: &'static str,
    /// Panics when a property does not hold.
    pub run: fn(&[u8]),
    /// Inputs to begin with: each leads somewhere else.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// How many mutated inputs a short run takes.
    pub short_run: usize,
}

pub const TARGETS: [Target; 8] = [SEARCH, SMS_TEXT, PHONE, PDU, LONG_MESSAGE, SIGNATURE, WEBHOOK, ENUM_ANSWER];

fn texts(seeds: &[&str]) -> Vec<Vec<u8>> {
    seeds.iter().map(|seed| seed.as_bytes().to_vec()).collect()
}
