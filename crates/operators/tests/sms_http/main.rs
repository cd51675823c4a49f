//! Webhooks of SMS vendors, from request to reply.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod configuration;
mod every_vendor;
mod known_answers;
mod longer_messages;
mod one_vendor;
mod properties;
mod vendors;
mod vonage;
mod world;
