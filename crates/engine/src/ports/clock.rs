//! The time, as a value that comes in.
//!
//! All nodes of a deployment use the database's time, so that they agree on what has expired and what is due. A node
//! samples that time once a second; between samples [`DatabaseClock`] counts on by the monotonic clock of the machine.
//! The wall clock of the machine is compared with the result and otherwise unused, so setting it changes nothing.

use std::{
    fmt,
    sync::{
        Arc, Mutex, PoisonError,
        atomic::{AtomicI64, Ordering},
    },
    time::{Duration, Instant},
};

use jiff::{SignedDuration, Timestamp};

/// Tells the time. Everything that needs an instant asks this, so that tests can move it.
pub trait Clock: Send + Sync {
    /// Now, in whole milliseconds: the resolution that is stored and shown.
    fn now(&self) -> Timestamp;

    /// The wall clock of the machine, uncorrected. For comparison only.
    fn machine_now(&self) -> Timestamp {
        self.now()
    }

    /// Takes a sample of the database's time into account. Clocks that do not follow a database ignore it.
    fn follow(&self, _sample: TimeSample) {}
}

/// The database's time, and between which two instants of the monotonic clock it was read.
#[derive(Clone, Copy, Debug)]
pub struct TimeSample {
    pub requested_at: Instant,
    pub received_at: Instant,
    /// The clock of the database server. It may have been set back.
    pub clock: Timestamp,
    /// The latest time that any node has recorded in the database.
    pub latest: Timestamp,
}

/// The clock of the machine.
#[derive(Clone, Copy, Debug, Default)]
pub struct SystemClock;

impl Clock for SystemClock {
    #[expect(clippy::disallowed_methods, reason = "this is the one place that reads the machine's clock")]
    fn now(&self) -> Timestamp {
        whole_millis(Timestamp::now().as_millisecond())
    }
}

/// A clock that stands still until it is told to move.
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
        whole_millis(self.millis.load(Ordering::SeqCst))
    }
}

/// A clock that follows the database's time and never goes back.
///
/// It steps forward to a sample at once. Towards a sample that lies behind it, it runs at nine tenths of its speed until
/// the two agree: timeouts and retries stay within a tenth of their length, and no instant is repeated. After a time
/// without samples it gives up a fifth of a second at most, so that it does not stand still for longer than that.
pub struct DatabaseClock {
    machine: Arc<dyn Clock>,
    /// Where the monotonic clock begins to count.
    origin: Instant,
    /// The time at `origin`, in microseconds since 1970.
    offset: AtomicI64,
    /// The latest time that was returned or sampled, in milliseconds since 1970.
    latest: AtomicI64,
    /// When the last sample was received.
    sampled_at: Mutex<Option<Instant>>,
}

impl DatabaseClock {
    /// A clock that shows the machine's time until it gets its first sample.
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
        micros(at.saturating_duration_since(self.origin))
    }
}

impl Clock for DatabaseClock {
    fn now(&self) -> Timestamp {
        let now = self.since_origin(Instant::now()).saturating_add(self.offset.load(Ordering::Relaxed));
        let now = now.div_euclid(MICROS_PER_MILLI);
        let latest = self.latest.load(Ordering::Relaxed);
        // At most one write in a millisecond: all threads share this value.
        let now = if latest < now { now.max(self.latest.fetch_max(now, Ordering::Relaxed)) } else { latest };
        whole_millis(now)
    }

    fn machine_now(&self) -> Timestamp {
        self.machine.now()
    }

    fn follow(&self, sample: TimeSample) {
        let mut sampled_at = self.sampled_at.lock().unwrap_or_else(PoisonError::into_inner);
        let previous = sampled_at.replace(sample.received_at);
        let clock = sample.clock.as_microsecond();
        // The server read its clock, in whole milliseconds, at some instant between these two.
        let least = clock - self.since_origin(sample.received_at);
        let most = clock + MICROS_PER_MILLI - self.since_origin(sample.requested_at);
        let middle = least.midpoint(most);
        let current = self.offset.load(Ordering::Relaxed);
        let offset = match previous {
            // What was shown before the first sample was only the machine's time.
            None => middle,
            // A slow answer says little: it corrects only what it disproves.
            Some(_) if (least..=most).contains(&current) => current,
            Some(previous) => {
                let elapsed = sample.received_at.saturating_duration_since(previous).min(MAX_SLEW_INTERVAL);
                let elapsed = micros(elapsed);
                middle.max(current - elapsed / SLEW_DIVISOR)
            }
        };
        let latest = sample.latest.as_microsecond();
        self.offset.store(offset.max(latest - self.since_origin(sample.received_at)), Ordering::Relaxed);
        let seen = latest.max(clock).div_euclid(MICROS_PER_MILLI);
        match previous {
            None => self.latest.store(seen, Ordering::Relaxed),
            Some(_) => drop(self.latest.fetch_max(seen, Ordering::Relaxed)),
        }
    }
}

impl fmt::Debug for DatabaseClock {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("DatabaseClock").field("offset", &self.offset).finish_non_exhaustive()
    }
}

const MICROS_PER_MILLI: i64 = 1_000;
/// The clock loses at most this part of the elapsed time while the database's time lies behind it.
const SLEW_DIVISOR: i64 = 10;
/// How much of the time between two samples counts for that. What is lost is lost in one step, and the clock stands still
/// until it has caught up.
const MAX_SLEW_INTERVAL: Duration = Duration::from_secs(2);

fn micros(duration: Duration) -> i64 {
    i64::try_from(duration.as_micros()).unwrap_or(i64::MAX)
}

fn whole_millis(millis: i64) -> Timestamp {
    Timestamp::from_millisecond(millis).unwrap_or(Timestamp::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const HOUR: SignedDuration = SignedDuration::from_hours(1);

    fn noon() -> Timestamp {
        "2026-11-14T12:00:00Z".parse().unwrap()
    }

    /// A clock on a machine whose own clock is off by `skew`, and that machine's clock.
    fn skewed(skew: SignedDuration) -> (DatabaseClock, Arc<ManualClock>) {
        let machine = Arc::new(ManualClock::at(noon() + skew));
        (DatabaseClock::new(Arc::clone(&machine) as _), machine)
    }

    /// A sample received a number of seconds after the clock was made, by an answer that took `round_trip` milliseconds.
    fn sample(clock: &DatabaseClock, seconds: u64, round_trip: u64, database: Timestamp) -> TimeSample {
        let received_at = clock.origin + Duration::from_secs(seconds);
        let requested_at = received_at.checked_sub(Duration::from_millis(round_trip)).unwrap();
        TimeSample { requested_at, received_at, clock: database, latest: Timestamp::UNIX_EPOCH }
    }

    /// What the clock shows a number of seconds after it was made, as far as its offset decides.
    fn shown(clock: &DatabaseClock, seconds: i64) -> SignedDuration {
        let offset = Timestamp::from_microsecond(clock.offset.load(Ordering::Relaxed)).unwrap();
        (offset + SignedDuration::from_secs(seconds)).duration_since(noon())
    }

    fn is_near(found: SignedDuration, expected: SignedDuration) -> bool {
        (found - expected).abs() <= SignedDuration::from_millis(2)
    }

    #[test]
    fn the_first_sample_replaces_the_machines_time() {
        for skew in [HOUR, -HOUR] {
            let (clock, machine) = skewed(skew);
            assert_eq!(clock.machine_now(), machine.now());
            clock.follow(sample(&clock, 0, 0, noon()));
            assert!(is_near(clock.now().duration_since(noon()), SignedDuration::ZERO), "{skew}: {}", clock.now());
        }
    }

    #[test]
    fn steps_of_the_machines_clock_change_nothing() {
        let (clock, machine) = skewed(SignedDuration::ZERO);
        clock.follow(sample(&clock, 0, 0, noon()));
        for step in [HOUR, -2 * HOUR, 2 * HOUR] {
            machine.advance(step);
            assert!(clock.now().duration_since(noon()).abs() < SignedDuration::from_mins(1), "{step}");
        }
    }

    #[test]
    fn it_steps_forward_and_slews_back() {
        let (clock, _) = skewed(SignedDuration::ZERO);
        clock.follow(sample(&clock, 0, 0, noon()));
        clock.follow(sample(&clock, 1, 0, noon() + HOUR));
        assert!(is_near(shown(&clock, 1), HOUR));
        let before = clock.now();
        clock.follow(sample(&clock, 2, 0, noon()));
        assert!(is_near(shown(&clock, 2), HOUR + SignedDuration::from_millis(900)), "a tenth of a second is lost");
        clock.follow(sample(&clock, 12, 0, noon()));
        let after_gap = HOUR + SignedDuration::from_millis(10_700);
        assert!(is_near(shown(&clock, 12), after_gap), "of a long gap only two seconds count");
        assert!(before <= clock.now());
        clock.follow(sample(&clock, 13, 0, noon() + HOUR + SignedDuration::from_millis(11_650)));
        assert!(
            is_near(shown(&clock, 13), HOUR + SignedDuration::from_millis(11_650)),
            "what is small is taken at once"
        );
    }

    #[test]
    fn a_slow_answer_corrects_only_what_it_disproves() {
        let (clock, _) = skewed(SignedDuration::ZERO);
        clock.follow(sample(&clock, 10, 0, noon()));
        clock.follow(sample(&clock, 20, 4_000, noon() + SignedDuration::from_secs(7)));
        assert!(is_near(shown(&clock, 20), SignedDuration::from_secs(10)));
        clock.follow(sample(&clock, 30, 4_000, noon() + SignedDuration::from_secs(25)));
        assert!(is_near(shown(&clock, 30), SignedDuration::from_secs(27)));
    }

    #[test]
    fn it_never_shows_less_than_what_is_recorded() {
        let (clock, _) = skewed(-HOUR);
        let behind = TimeSample { latest: noon(), ..sample(&clock, 0, 0, noon() - HOUR) };
        clock.follow(behind);
        assert!(noon() <= clock.now() && clock.now() < noon() + SignedDuration::from_mins(1));
    }
}
