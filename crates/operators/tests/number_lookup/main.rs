//! Number lookup sources against scripted servers.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod enum_records;
mod enum_servers;
mod fake_dns;
mod fake_vendor;
mod hlr_errors;
mod hlr_requests;
mod hlr_responses;
mod sandbox_directory;
mod telco_finder;
mod vendor_configs;

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::lookups::{LookupError, LookupResult};
use ringtrue_operators::number_lookup::KnownNetworks;

const NUMBER: &str = "+447700900123";

fn number() -> Msisdn {
    Msisdn::parse(NUMBER, Mode::Live).unwrap()
}

fn known() -> KnownNetworks {
    ["23410", "26202", "310012", "310260"].into_iter().map(|id| id.parse().unwrap()).collect()
}

type LookupOutcome = Result<LookupResult, LookupError>;

fn network(id: &str) -> LookupOutcome {
    id.parse().map(LookupResult::Network).map_err(|_| LookupError::InvalidResponse)
}
