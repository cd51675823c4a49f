//! Sources that know a number's network, against servers that the tests write.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod dns;
mod enum_properties;
mod enum_records;
mod enum_servers;
mod hlr_answers;
mod hlr_faults;
mod hlr_requests;
mod sandbox_directory;
mod telco_finder;
mod vendor;
mod vendors;

use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
use ringtrue_engine::ports::{Resolved, SourceFault};
use ringtrue_operators::number_lookup::KnownNetworks;

const NUMBER: &str = "+447700900123";

fn number() -> Msisdn {
    Msisdn::parse(NUMBER, Mode::Live).unwrap()
}

fn known() -> KnownNetworks {
    ["23410", "26202", "310012", "310260"].into_iter().map(|id| id.parse().unwrap()).collect()
}

type Outcome = Result<Resolved, SourceFault>;

fn network(id: &str) -> Outcome {
    id.parse().map(Resolved::Network).map_err(|_| SourceFault::Nonsense)
}
