//! Limits the logged requests of a project per second.

use std::sync::atomic::{AtomicU64, Ordering};

use jiff::Timestamp;

use crate::ports::StatusClass;

/// Sampler of one project on this node.
#[derive(Debug, Default)]
pub(super) struct RequestSampler {
    served: SecondCounter,
    failed: SecondCounter,
    unauthenticated: SecondCounter,
}

/// Lower than for failures, since successful requests are alike.
const MAX_SERVED_PER_SECOND: u32 = 20;
const MAX_FAILED_PER_SECOND: u32 = 50;
/// Requests that name a client without proof. Separate, since anybody can send them.
const MAX_UNAUTHENTICATED_PER_SECOND: u32 = 2;

/// The second in the upper 32 bits, the count in the lower.
#[derive(Debug, Default)]
struct SecondCounter(AtomicU64);

impl RequestSampler {
    /// Returns `Some` if the request is to be logged, with the number of requests skipped in the previous second.
    pub(super) fn sample(&self, authenticated: bool, class: StatusClass, at: Timestamp) -> Option<u32> {
        if !authenticated {
            return self.unauthenticated.sample(MAX_UNAUTHENTICATED_PER_SECOND, at);
        }
        match class {
            StatusClass::Success => self.served.sample(MAX_SERVED_PER_SECOND, at),
            StatusClass::ClientError | StatusClass::ServerError => self.failed.sample(MAX_FAILED_PER_SECOND, at),
        }
    }
}

impl SecondCounter {
    fn sample(&self, max: u32, at: Timestamp) -> Option<u32> {
        // Wraps around after more than a century.
        let second = at.as_second().cast_unsigned() & u64::from(u32::MAX);
        let mut seen = self.0.load(Ordering::Relaxed);
        while seen >> 32 != second {
            match self.0.compare_exchange_weak(seen, (second << 32) + 1, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(before) => return Some(count(before).saturating_sub(max)),
                Err(now) => seen = now,
            }
        }
        // A second never has enough requests to overflow the lower half.
        let before = self.0.fetch_add(1, Ordering::Relaxed);
        (count(before) < max).then_some(0)
    }
}

fn count(word: u64) -> u32 {
    u32::try_from(word & u64::from(u32::MAX)).unwrap_or(u32::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn second(number: i64) -> Timestamp {
        Timestamp::from_second(1_800_000_000 + number).unwrap()
    }

    #[test]
    fn sample_is_limited_per_second_and_reports_skipped_requests() {
        let sampler = RequestSampler::default();
        for (class, max) in [(StatusClass::Success, 20), (StatusClass::ClientError, 50)] {
            let sampled = (0..100).filter(|_| sampler.sample(true, class, second(1)).is_some()).count();
            assert_eq!(sampled, max, "{class:?}");
            assert_eq!(sampler.sample(true, class, second(2)), Some(100 - u32::try_from(max).unwrap()), "{class:?}");
            assert_eq!(sampler.sample(true, class, second(2)), Some(0), "{class:?}");
            assert_eq!(sampler.sample(true, class, second(3)), Some(0), "nothing was skipped: {class:?}");
        }
        assert_eq!(
            sampler.sample(true, StatusClass::ServerError, second(3)),
            Some(0),
            "server errors share the limit of client errors"
        );
    }

    #[test]
    fn unauthenticated_requests_have_their_own_limit() {
        let sampler = RequestSampler::default();
        let sampled = |authenticated| {
            (0..100).filter(|_| sampler.sample(authenticated, StatusClass::ClientError, second(1)).is_some()).count()
        };
        assert_eq!((sampled(false), sampled(true)), (2, 50));
        assert_eq!(sampler.sample(false, StatusClass::ClientError, second(2)), Some(98));
        assert_eq!(sampler.sample(true, StatusClass::ClientError, second(2)), Some(50));
    }
}
