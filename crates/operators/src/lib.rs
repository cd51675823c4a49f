//! Connectors to mobile operators and SMS vendors, and the HTTP client for callback URLs.
//!
//! Connectors only translate. They turn an operator's message into a domain value, pass it to the engine's
//! [`Inbox`](ringtrue_engine::ports::sms::Inbox), and acknowledge it after the engine has processed it.

mod breaker;
pub mod camara;
pub mod client;
pub mod header_enrichment;
pub mod ip_routing;
mod jwt;
pub mod number_lookup;
mod oauth;
pub mod openid_connect;
pub mod operator_token;
pub mod outbound;
pub mod smpp;
pub mod sms_http;
mod sms_parts;
