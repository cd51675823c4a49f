//! Sources that look up the network of a number. Each queries one provider with that provider's protocol.
//!
//! The engine decides the order of sources and the lifetime of results. Sources log their errors, without the number,
//! and stop querying a failing provider for a while (circuit breaker).

pub mod enum_dns;
mod guard;
pub mod http_hlr;
mod known_networks;
mod lookup_client;
pub mod telco_finder;

pub use crate::{
    authentication::{Audience, ClientAuthentication, ClientSecret},
    breaker::BreakerSettings,
    jwt::{Algorithm, SigningKey, SigningKeyError},
};
pub use enum_dns::{EnumConfig, EnumDns};
pub use http_hlr::{HlrConfig, HttpHlr};
pub use known_networks::KnownNetworks;
pub use telco_finder::{TelcoFinder, TelcoFinderConfig};
