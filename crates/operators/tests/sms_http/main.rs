//! SMS webhooks, from request to response.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod concatenated_messages;
mod configuration;
mod every_vendor;
mod fixture;
mod known_signatures;
mod vendor_specifics;
mod vendors;
