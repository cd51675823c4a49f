//! SMS webhooks, from request to response.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod concatenated_messages;
mod configuration;
mod every_vendor;
mod fixture;
mod known_signatures;
mod properties;
mod vendor_specifics;
mod vendors;
mod vonage;
