//! Sources that know which network serves a number: each asks one party, in that party's own way.
//!
//! A source says what it was told and nothing more. Which sources are asked, in which order, and how long an answer is
//! remembered is the engine's to decide. A fault in detail is logged here, without the number.

pub mod enum_dns;
mod known;

pub use enum_dns::{EnumConfig, EnumDns};
pub use known::KnownNetworks;
