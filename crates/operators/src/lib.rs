//! Connectors: how operators reach us, and how we reach whom callers name.
//!
//! A connector translates and decides nothing. What an operator brings becomes a value of the domain and goes to the
//! engine's [`Inbox`](ringtrue_engine::ports::Inbox); the operator is answered after the engine has answered.

mod authentication;
mod breaker;
pub mod camara;
pub mod client;
pub mod header_enrichment;
pub mod ip_routing;
mod jwt;
pub mod number_lookup;
pub mod outbound;
pub mod smpp;
pub mod sms_http;
mod token_keeper;
mod vital_signs;
