//! The current time, as a dependency that tests can replace.
//!
//! All nodes of a deployment use the database's time, so that they agree on what has expired and what is due. A node
//! samples that time once a second. Between samples, [`DatabaseClock`] advances with the machine's monotonic clock. The
//! machine's wall clock is only compared with the resulting time, so setting the wall clock has no effect.

use std::{
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};
use parking_lot::Mutex;

/// The only source of the current time, so that tests can control it.
pub trait Clock: Send + Sync {
    /// The current time in whole milliseconds, the resolution in which times are stored and shown.
    fn now(&self) -> Timestamp;

    /// The machine's wall clock, uncorrected. Embedded databases use it as their time. With a database server, it is
    /// only compared with [`now`](Clock::now), to report clock skew.
    fn machine_now(&self) -> Timestamp {
        self.now()
    }

    /// Corrects the clock with a sample of the database's time. Clocks that do not follow a database ignore the sample.
    fn apply_sample(&self, _sample: TimeSample) {}
}

/// A reading of the database's time, with the monotonic instants before and after it.
#[derive(Clone, Copy, Debug)]
pub struct TimeSample {
    pub requested_at: Instant,
    pub received_at: Instant,
    /// The database server's clock. It may have been set back.
    pub clock: Timestamp,
    /// Latest time that any node has recorded in the database.
    pub latest_recorded: Timestamp,
}

/// The machine's wall clock.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        timestamp_from_millis(Timestamp::now().as_millisecond())
    }
}

/// A clock for tests. It moves only when [`advance`](ManualClock::advance) is called.
#[derive(Debug)]
pub struct ManualClock {
    millis: AtomicI64,
}

impl ManualClock {
    pub fn at(start: Timestamp) -> Self {
        ManualClock { millis: AtomicI64::new(start.as_millisecond()) }
    }

    pub fn advance(&self, by: SignedDuration) {
        let millis = i64::try_from(by.as_millis()).unwrap_or(i64::MAX);
        self.millis.fetch_add(millis, Ordering::SeqCst);
    }
}

impl Clock for ManualClock {
    fn now(&self) -> Timestamp {
        timestamp_from_millis(self.millis.load(Ordering::SeqCst))
    }
}

/// A clock that follows the database's time and never goes back.
///
/// It steps forward to a sample that is ahead. It slews back to a sample that is behind: it runs at nine tenths of
/// normal speed, so that no instant repeats and timeouts are off by at most a tenth. After a gap without samples it
/// goes back by at most a fifth of a second per sample, so that it never stands still for longer than that.
#[derive(derive_more::Debug)]
#[debug("DatabaseClock({offset:?})")]
pub struct DatabaseClock {
    machine: Arc<dyn Clock>,
    /// Instant from which the monotonic clock is measured.
    origin: Instant,
    /// Database time at `origin`, in microseconds since 1970.
    offset: AtomicI64,
    /// Latest time that this clock has returned or sampled, in milliseconds since 1970. Keeps the clock from going
    /// back.
    latest: AtomicI64,
    /// When the last sample was received. `None`: no sample yet.
    sampled_at: Mutex<Option<Instant>>,
}

impl DatabaseClock {
    /// Returns a clock that shows the machine's time until its first sample.
    pub fn new(machine: Arc<dyn Clock>) -> Self {
        let now = machine.now();
        DatabaseClock {
            machine,
            origin: Instant::now(),
            offset: AtomicI64::new(now.as_microsecond()),
            latest: AtomicI64::new(i64::MIN),
            sampled_at: Mutex::new(None),
        }
    }

    fn since_origin(&self, at: Instant) -> i64 {
        as_micros(at.saturating_duration_since(self.origin))
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let now = self.since_origin(Instant::now()).saturating_add(self.offset.load(Ordering::Relaxed));
        let now = now.div_euclid(MICROS_PER_MILLI);
        let latest = self.latest.load(Ordering::Relaxed);
        // At most one write per millisecond: all threads share this cache line.
        let now = if latest < now { now.max(self.latest.fetch_max(now, Ordering::Relaxed)) } else { latest };
        timestamp_from_millis(now)
    }

    fn machine_now(&self) -> Timestamp {
        self.machine.now()
    }

    fn apply_sample(&self, sample: TimeSample) {
        let mut sampled_at = self.sampled_at.lock();
        let previous = sampled_at.replace(sample.received_at);
        let clock = sample.clock.as_microsecond();
        // The server read its clock, in whole milliseconds, at some instant between `requested_at` and `received_at`.
        let least = clock - self.since_origin(sample.received_at);
        let most = clock + MICROS_PER_MILLI - self.since_origin(sample.requested_at);
        let current = self.offset.load(Ordering::Relaxed);
        let offset = match previous {
            // Until the first sample, the clock shows the machine's time, which may be wrong. A clock that is ahead
            // ends waits early and cannot step back, so the first sample sets the clock to the earliest time within the
            // sample's bounds.
            None => least,
            // A sample with a long round trip is imprecise, so it only corrects an offset outside its bounds.
            Some(previous) => {
                let elapsed = sample.received_at.saturating_duration_since(previous).min(MAX_SLEW_INTERVAL);
                current.clamp(least, most).max(current - as_micros(elapsed) / SLEW_DIVISOR)
            }
        };
        let latest = sample.latest_recorded.as_microsecond();
        self.offset.store(offset.max(latest - self.since_origin(sample.received_at)), Ordering::Relaxed);
        let seen = latest.max(clock).div_euclid(MICROS_PER_MILLI);
        match previous {
            None => self.latest.store(seen, Ordering::Relaxed),
            Some(_) => drop(self.latest.fetch_max(seen, Ordering::Relaxed)),
        }
    }
}

const MICROS_PER_MILLI: i64 = 1_000;
/// While the clock is ahead of the database, it goes back by at most this fraction (1/10) of the time since the last
/// sample.
const SLEW_DIVISOR: i64 = 10;
/// Upper bound of the time since the last sample, for slewing. A correction is applied in one step, and the clock
/// stands still until real time has caught up, so the bound limits how long it stands still.
const MAX_SLEW_INTERVAL: Duration = Duration::from_secs(2);

fn as_micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn timestamp_from_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn noon() -> Timestamp {
        "2026-11-14T12:00:00Z".parse().unwrap()
    }

    /// Returns a database clock on a machine whose wall clock is wrong by `skew`, and that wall clock.
    fn skewed(skew: SignedDuration) -> (DatabaseClock, Arc<ManualClock>) {
        let machine = Arc::new(ManualClock::at(noon() + skew));
        (DatabaseClock::new(Arc::clone(&machine) as _), machine)
    }

    /// Returns a sample received `seconds` after the clock's creation, with a round trip in milliseconds.
    fn sample(clock: &DatabaseClock, seconds: u64, round_trip: u64, database: Timestamp) -> TimeSample {
        let received_at = clock.origin + Duration::from_secs(seconds);
        let requested_at = received_at.checked_sub(Duration::from_millis(round_trip)).unwrap();
        TimeSample { requested_at, received_at, clock: database, latest_recorded: Timestamp::UNIX_EPOCH }
    }

    /// Returns the clock's time `seconds` after its creation, relative to noon, computed from its offset alone.
    fn time_at(clock: &DatabaseClock, seconds: i64) -> SignedDuration {
        let offset = Timestamp::from_microsecond(clock.offset.load(Ordering::Relaxed)).unwrap();
        (offset + SignedDuration::from_secs(seconds)).duration_since(noon())
    }

    fn is_near(actual: SignedDuration, expected: SignedDuration) -> bool {
        (actual - expected).abs() <= SignedDuration::from_millis(2)
    }

    #[test]
    fn first_sample_replaces_machine_time() {
        for skew in [HOUR, -HOUR] {
            let (clock, machine) = skewed(skew);
            assert_eq!(clock.machine_now(), machine.now());
            clock.apply_sample(sample(&clock, 0, 0, noon()));
            assert!(is_near(clock.now().duration_since(noon()), SignedDuration::ZERO), "{skew}: {}", clock.now());
        }
    }

    #[test]
    fn machine_clock_steps_have_no_effect() {
        let (clock, machine) = skewed(SignedDuration::ZERO);
        clock.apply_sample(sample(&clock, 0, 0, noon()));
        for step in [HOUR, -2 * HOUR, 2 * HOUR] {
            machine.advance(step);
            assert!(clock.now().duration_since(noon()).abs() < SignedDuration::from_mins(1), "{step}");
        }
    }

    #[test]
    fn clock_steps_forward_and_slews_back() {
        let (clock, _) = skewed(SignedDuration::ZERO);
        clock.apply_sample(sample(&clock, 0, 0, noon()));
        clock.apply_sample(sample(&clock, 1, 0, noon() + HOUR));
        assert!(is_near(time_at(&clock, 1), HOUR));
        let before = clock.now();
        clock.apply_sample(sample(&clock, 2, 0, noon()));
        assert!(is_near(time_at(&clock, 2), HOUR + SignedDuration::from_millis(900)), "the clock slews by 100 ms");
        clock.apply_sample(sample(&clock, 12, 0, noon()));
        let after_gap = HOUR + SignedDuration::from_millis(10_700);
        assert!(is_near(time_at(&clock, 12), after_gap), "only two seconds of a long gap count");
        assert!(before <= clock.now());
        clock.apply_sample(sample(&clock, 13, 0, noon() + HOUR + SignedDuration::from_millis(11_650)));
        assert!(
            is_near(time_at(&clock, 13), HOUR + SignedDuration::from_millis(11_650)),
            "small corrections apply immediately"
        );
    }

    #[test]
    fn slow_sample_corrects_only_offsets_outside_its_bounds() {
        let (clock, _) = skewed(SignedDuration::ZERO);
        clock.apply_sample(sample(&clock, 10, 0, noon()));
        clock.apply_sample(sample(&clock, 20, 4_000, noon() + SignedDuration::from_secs(7)));
        assert!(is_near(time_at(&clock, 20), SignedDuration::from_secs(10)));
        clock.apply_sample(sample(&clock, 30, 4_000, noon() + SignedDuration::from_secs(25)));
        assert!(is_near(time_at(&clock, 30), SignedDuration::from_secs(25)), "by as little as possible");
    }

    #[test]
    fn slow_first_sample_does_not_put_the_clock_ahead() {
        let (clock, _) = skewed(HOUR);
        clock.apply_sample(sample(&clock, 10, 4_000, noon()));
        assert!(is_near(time_at(&clock, 10), SignedDuration::ZERO));
        clock.apply_sample(sample(&clock, 11, 0, noon() + SignedDuration::from_secs(3)));
        assert!(is_near(time_at(&clock, 11), SignedDuration::from_secs(3)), "it steps forward");
    }

    #[test]
    fn clock_is_never_behind_the_recorded_time() {
        let (clock, _) = skewed(-HOUR);
        let behind = TimeSample { latest_recorded: noon(), ..sample(&clock, 0, 0, noon() - HOUR) };
        clock.apply_sample(behind);
        assert!(noon() <= clock.now() && clock.now() < noon() + SignedDuration::from_mins(1));
    }
}
