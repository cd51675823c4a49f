//! Fixtures for the scripted HTTP endpoints of vendors.

use std::{sync::Arc, time::Duration};

use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::clock::ManualClock;
use ringtrue_operators::{
    client::{Client, ClientSettings},
    number_lookup::BreakerSettings,
};
pub use ringtrue_test_support::http_server::{
    ANY_PATH, ReceivedRequest, ScriptedResponse, ScriptedServer as FakeVendor,
};

/// Time of the manual clock, in Unix seconds.
pub const NOW_SECS: i64 = 1_794_700_000;

/// Creates a JSON response, whose body may be malformed.
pub fn json(status: u16, body: &(impl ToString + ?Sized)) -> ScriptedResponse {
    ScriptedResponse::Plain(status, "content-type: application/json\r\n", body.to_string().into_bytes())
}

pub fn clock() -> Arc<ManualClock> {
    Arc::new(ManualClock::at(Timestamp::from_second(NOW_SECS).unwrap()))
}

/// Creates a client with a timeout that tests do not reach. Slow: it reads all system certificates.
pub fn client() -> Arc<Client> {
    client_with_timeout(Duration::from_secs(20))
}

pub fn client_with_timeout(total: Duration) -> Arc<Client> {
    let settings = ClientSettings { connect_timeout: total, timeout: total, ..ClientSettings::default() };
    Arc::new(Client::new(&settings).unwrap())
}

/// Settings with which the breaker has no effect.
pub const NO_BREAKER: BreakerSettings =
    BreakerSettings { failures: 1_000_000, open_for: SignedDuration::ZERO, max_open_for: SignedDuration::ZERO };
