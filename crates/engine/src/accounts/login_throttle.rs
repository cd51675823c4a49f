//! Throttles password attempts by account and by client address.
//!
//! The store counts the attempts of all nodes. Each node caches active delays, so that a throttled attempt needs no
//! query.

use std::net::IpAddr;

use jiff::Timestamp;
use quick_cache::sync::Cache;

use super::SignInError;
use crate::{
    Engine,
    ports::{LoginAttempt, LoginBlocked, LoginThrottleKey, StoreError},
    rate_limit::ip_bucket,
};

const CACHE_CAPACITY: usize = 20_000;

/// Active delays by throttle key.
#[derive(Debug)]
pub struct LoginThrottleCache {
    blocked_until: Cache<LoginThrottleKey, Timestamp>,
}

impl Default for LoginThrottleCache {
    fn default() -> Self {
        LoginThrottleCache { blocked_until: Cache::new(CACHE_CAPACITY) }
    }
}

impl LoginThrottleCache {
    /// End of the delay that applies to an attempt, as far as this node has cached it.
    fn blocked_until(&self, attempt: &LoginAttempt) -> Option<Timestamp> {
        let cached = [attempt.account, attempt.address].into_iter().filter_map(|key| self.blocked_until.get(&key));
        cached.max().filter(|until| *until > attempt.at)
    }
}

impl Engine {
    /// Counts a password attempt as failed before the password is verified, so that parallel attempts count too.
    /// Throttled attempts are not counted.
    pub(super) async fn count_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, SignInError> {
        let attempt = self.new_login_attempt(email, address)?;
        let until = match self.login_throttle().blocked_until(&attempt) {
            Some(until) => Some(until),
            None => self.store().count_login_attempt(attempt).await?.map(|LoginBlocked { key: who, until }| {
                self.login_throttle().blocked_until.insert(who, until);
                until
            }),
        };
        until.map_or(Ok(attempt), |until| {
            Err(SignInError::Throttled { seconds: whole_seconds_until(attempt.at, until) })
        })
    }

    /// The keys do not depend on whether the account exists.
    fn new_login_attempt(&self, email: &str, address: IpAddr) -> Result<LoginAttempt, StoreError> {
        let email = email.trim().to_lowercase();
        let address = ip_bucket(address).to_string();
        Ok(LoginAttempt {
            account: self
                .keyed_hash(&[b"guess-account", email.as_bytes(), address.as_bytes()])
                .map(LoginThrottleKey)?,
            address: self.keyed_hash(&[b"guess-address", address.as_bytes()]).map(LoginThrottleKey)?,
            at: self.clock().now(),
        })
    }
}

/// Rounded up to whole seconds, at least one.
fn whole_seconds_until(now: Timestamp, until: Timestamp) -> u32 {
    let millis = until.as_millisecond() - now.as_millisecond();
    u32::try_from(((millis + 999) / 1000).max(1)).unwrap_or(u32::MAX)
}
