//! Sources that know which network serves a number: each asks one party, in that party's own way.
//!
//! A source says what it was told and nothing more. Which sources are asked, in which order, and how long an answer is
//! remembered is the engine's to decide. A fault in detail is logged here, without the number; after some in a row the
//! source is left alone for a while.

mod asking;
pub mod enum_dns;
mod guard;
pub mod http_hlr;
mod known;
pub mod telco_finder;

pub use crate::{
    authentication::{Audience, ClientAuthentication, ClientSecret},
    breaker::BreakerSettings,
    jwt::{Algorithm, BadKey, SigningKey},
};
pub use enum_dns::{EnumConfig, EnumDns};
pub use http_hlr::{HlrConfig, HttpHlr};
pub use known::KnownNetworks;
pub use telco_finder::{TelcoFinder, TelcoFinderConfig};
