//! Who has guessed wrong waits.
//!
//! Guesses are counted in the store, for all nodes together. A node remembers who has to wait, so that those who do not
//! cost it nothing.

use std::net::IpAddr;

use jiff::Timestamp;
use quick_cache::sync::Cache;

use super::SignInError;
use crate::{
    Engine,
    ports::{Guess, Guesser, StoreError, Wait},
    rate_limit::subscriber,
};

/// How many are remembered.
const REMEMBERED: usize = 20_000;

/// Remembers who has to wait until when.
#[derive(Debug)]
pub struct SignInDelays {
    waits: Cache<Guesser, Timestamp>,
}

impl Default for SignInDelays {
    fn default() -> Self {
        SignInDelays { waits: Cache::new(REMEMBERED) }
    }
}

impl SignInDelays {
    /// Until when somebody has to wait who guesses now, as far as this node knows.
    fn until(&self, guess: &Guess) -> Option<Timestamp> {
        let known = [guess.account, guess.address].into_iter().filter_map(|guesser| self.waits.get(&guesser));
        known.max().filter(|until| *until > guess.at)
    }
}

impl Engine {
    /// Counts a guess as wrong before anybody has looked at it, so that guesses at the same time count, too. Who has to
    /// wait is not counted.
    pub(super) async fn begin_guess(&self, email: &str, address: IpAddr) -> Result<Guess, SignInError> {
        let guess = self.guess(email, address)?;
        let until = match self.sign_in_delays().until(&guess) {
            Some(until) => Some(until),
            None => self.store().count_guess(guess).await?.map(|Wait { who, until }| {
                self.sign_in_delays().waits.insert(who, until);
                until
            }),
        };
        until.map_or(Ok(guess), |until| Err(SignInError::Wait { seconds: seconds_between(guess.at, until) }))
    }

    /// Whether there is such an account makes no difference.
    fn guess(&self, email: &str, address: IpAddr) -> Result<Guess, StoreError> {
        let email = email.trim().to_lowercase();
        let address = subscriber(address).to_string();
        Ok(Guess {
            account: self.hash(&[b"guess-account", email.as_bytes(), address.as_bytes()]).map(Guesser)?,
            address: self.hash(&[b"guess-address", address.as_bytes()]).map(Guesser)?,
            at: self.clock().now(),
        })
    }
}

/// Whole seconds, and never none.
fn seconds_between(now: Timestamp, until: Timestamp) -> u32 {
    let millis = until.as_millisecond() - now.as_millisecond();
    u32::try_from(((millis + 999) / 1000).max(1)).unwrap_or(u32::MAX)
}
