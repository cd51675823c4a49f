//! How long somebody must wait who has guessed wrong. The wait grows with every guess and is never for ever: nobody can
//! lock somebody else out for good.
//!
//! Counted in memory, by node: who guesses at two nodes guesses twice as often, and a restart forgets.

use std::{
    hash::BuildHasher,
    net::IpAddr,
    sync::{Arc, Mutex, PoisonError},
};

use jiff::{SignedDuration, Timestamp};
use quick_cache::{DefaultHashBuilder, sync::Cache};

use crate::rate_limit::subscriber;

/// So many wrong guesses are free: people mistype.
const FREE: u32 = 3;
/// An address that tries many accounts has some more.
const FREE_BY_ADDRESS: u32 = 20;
const LONGEST_WAIT: SignedDuration = SignedDuration::from_mins(15);
/// After so long without a guess, all is forgiven.
const FORGIVEN_AFTER: SignedDuration = SignedDuration::from_hours(1);
/// How many are remembered.
const REMEMBERED: usize = 20_000;

#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    /// An account, known by the hash of its address, from somewhere.
    Pair(u64, IpAddr),
    Address(IpAddr),
}

#[derive(Clone, Copy, Debug, Default)]
struct Guesses {
    wrong: u32,
    last: Timestamp,
}

/// Remembers who has guessed wrong.
#[derive(Debug)]
pub struct SignInDelays {
    guesses: Cache<Subject, Arc<Mutex<Guesses>>>,
    hasher: DefaultHashBuilder,
}

impl Default for SignInDelays {
    fn default() -> Self {
        SignInDelays { guesses: Cache::new(REMEMBERED), hasher: DefaultHashBuilder::default() }
    }
}

impl SignInDelays {
    /// Counts a guess as wrong before anybody has looked at it, so that guesses at the same time count, too. The error is
    /// how many seconds are left to wait; then nothing is counted.
    pub(super) fn begin(&self, email: &str, address: IpAddr, now: Timestamp) -> Result<(), u32> {
        let pair = self.of(self.pair(email, address));
        let address = self.of(Subject::Address(subscriber(address)));
        let mut pair = pair.lock().unwrap_or_else(PoisonError::into_inner);
        let mut address = address.lock().unwrap_or_else(PoisonError::into_inner);
        let left = pair.left(FREE, now).max(address.left(FREE_BY_ADDRESS, now));
        if left > SignedDuration::ZERO {
            // Whole seconds, and never none.
            return Err(u32::try_from(((left.as_millis() + 999) / 1000).max(1)).unwrap_or(u32::MAX));
        }
        pair.count(now);
        address.count(now);
        Ok(())
    }

    /// The guess was right.
    pub(super) fn forgive(&self, email: &str, address: IpAddr) {
        self.guesses.remove(&self.pair(email, address));
        let address = self.of(Subject::Address(subscriber(address)));
        let mut address = address.lock().unwrap_or_else(PoisonError::into_inner);
        address.wrong = address.wrong.saturating_sub(1);
    }

    fn pair(&self, email: &str, address: IpAddr) -> Subject {
        Subject::Pair(self.hasher.hash_one(email.trim().to_lowercase()), subscriber(address))
    }

    fn of(&self, subject: Subject) -> Arc<Mutex<Guesses>> {
        match self.guesses.get_or_insert_with(&subject, || Ok::<_, std::convert::Infallible>(Arc::default())) {
            Ok(guesses) => guesses,
            Err(never) => match never {},
        }
    }
}

impl Guesses {
    fn left(&mut self, free: u32, now: Timestamp) -> SignedDuration {
        let since = self.last.duration_until(now);
        if since > FORGIVEN_AFTER {
            self.wrong = 0;
        }
        wait_after(self.wrong, free) - since.max(SignedDuration::ZERO)
    }

    fn count(&mut self, now: Timestamp) {
        self.wrong = self.wrong.saturating_add(1);
        self.last = now;
    }
}

/// 1, 2, 4, 8 … seconds, after what is free.
fn wait_after(wrong: u32, free: u32) -> SignedDuration {
    match wrong.checked_sub(free) {
        None => SignedDuration::ZERO,
        Some(beyond) => SignedDuration::from_secs(1 << beyond.min(20)).min(LONGEST_WAIT),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 1));
    const THERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::new(192, 0, 2, 2));

    fn at(second: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + second).unwrap()
    }

    #[test]
    fn waits_grow_and_have_an_end() {
        let waits: Vec<i64> = (0..20).map(|wrong| wait_after(wrong, FREE).as_secs()).collect();
        assert_eq!(waits[..8], [0, 0, 0, 1, 2, 4, 8, 16]);
        assert_eq!(waits[19], 900);
        assert_eq!(wait_after(u32::MAX, FREE), LONGEST_WAIT);
    }

    #[test]
    fn who_guesses_wrong_waits_and_nobody_else_does() {
        let delays = SignInDelays::default();
        for _ in 0..3 {
            assert_eq!(delays.begin("a@b", HERE, at(0)), Ok(()));
        }
        assert_eq!(delays.begin("A@b ", HERE, at(0)), Err(1));
        assert_eq!(delays.begin("a@b", THERE, at(0)), Ok(()));
        assert_eq!(delays.begin("c@b", HERE, at(0)), Ok(()));
        assert_eq!(delays.begin("a@b", HERE, at(1)), Ok(()));
        assert_eq!(delays.begin("a@b", HERE, at(1)), Err(2));
        // What was refused was not counted.
        assert_eq!(delays.begin("a@b", HERE, at(2)), Err(1));
        delays.forgive("a@b", HERE);
        assert_eq!(delays.begin("a@b", HERE, at(2)), Ok(()));
    }

    #[test]
    fn an_address_that_tries_many_accounts_waits_for_all_of_them() {
        let delays = SignInDelays::default();
        for number in 0..20 {
            assert_eq!(delays.begin(&format!("{number}@b"), HERE, at(0)), Ok(()));
        }
        assert_eq!(delays.begin("new@b", HERE, at(0)), Err(1));
        assert_eq!(delays.begin("new@b", THERE, at(0)), Ok(()));
    }

    #[test]
    fn a_quiet_hour_forgives() {
        let delays = SignInDelays::default();
        for second in [0, 0, 0, 1, 3, 7] {
            assert_eq!(delays.begin("a@b", HERE, at(second)), Ok(()));
        }
        assert_eq!(delays.begin("a@b", HERE, at(8)), Err(7));
        for _ in 0..3 {
            assert_eq!(delays.begin("a@b", HERE, at(7 + 3601)), Ok(()));
        }
    }
}
