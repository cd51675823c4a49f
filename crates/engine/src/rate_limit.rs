//! Rate limits: how many calls a second are let through, across all nodes.
//!
//! Windows of whole seconds (minutes for failed logins) on the wall clock, counted in one atomic word each. No call waits
//! for another machine: nodes divide a workspace's limit by what each was asked for in the last second
//! ([`crate::rate_shares`]), and other limits evenly among those that are alive. What does not divide evenly
//! goes round: in each window other nodes have one call more.

use std::{
    collections::HashMap,
    hash::{BuildHasher, Hash},
    net::{IpAddr, Ipv6Addr},
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use arc_swap::ArcSwap;
use jiff::Timestamp;
use quick_cache::{DefaultHashBuilder, sync::Cache};
use ringtrue_domain::{
    lifecycle::CheckId,
    silent::WINDOW_SECONDS,
    tenancy::{ClientId, RateLimits, WorkspaceId},
};

use crate::rate_shares::{self, Demand};

/// Kinds of calls, each with a limit of its own.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum CallKind {
    /// Creating a check, or submitting a code.
    Create,
    /// Reading checks.
    Read,
    Eligibility,
    Management,
    /// Token and revoke requests.
    Token,
    /// Devices that open the URL of a check: with the right token by check, else by address.
    Device,
    /// Returns of devices with a state that was used before, by address.
    DeviceReplay,
    /// Requests to the console with a session or link that is not known to be good, by address.
    Console,
}

/// The deployment's limits: calls per second, except for failed logins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    pub create: u32,
    pub read: u32,
    pub eligibility: u32,
    pub management: u32,
    /// For each client.
    pub token: u32,
    /// Token and revoke requests of all clients of a workspace together.
    pub token_per_workspace: u32,
    /// Visits of device URLs with a wrong token, and returns with a used state, for each address.
    pub device: u32,
    /// Visits of a device URL with its token, for each check.
    pub device_visits: u32,
    /// For each address.
    pub console: u32,
    /// Failed client authentications per minute, for each client and address.
    pub failed_logins: u32,
}

impl Default for Limits {
    fn default() -> Self {
        Limits {
            create: 50,
            read: 100,
            eligibility: 50,
            management: 25,
            token: 50,
            token_per_workspace: 200,
            device: 20,
            device_visits: 20,
            console: 20,
            failed_logins: 10,
        }
    }
}

impl Limits {
    /// The limit of a kind of call, where `own` may say otherwise than the deployment.
    pub fn of(&self, kind: CallKind, own: &RateLimits) -> u32 {
        match kind {
            CallKind::Create => own.create.unwrap_or(self.create),
            CallKind::Read => own.read.unwrap_or(self.read),
            CallKind::Eligibility => own.eligibility.unwrap_or(self.eligibility),
            CallKind::Management => own.management.unwrap_or(self.management),
            CallKind::Token => own.token.unwrap_or(self.token),
            CallKind::Device | CallKind::DeviceReplay => self.device,
            CallKind::Console => self.console,
        }
    }

    /// The token limit of a workspace: never below the one of each of its clients.
    fn tokens_of_workspace(&self, own: &RateLimits) -> u32 {
        self.token_per_workspace.max(self.of(CallKind::Token, own))
    }
}

/// How a call stands to its limit: what the three headers say.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Standing {
    pub admitted: bool,
    pub limit: u32,
    pub remaining: u32,
    /// Whole seconds until the window ends, at least one.
    pub reset: u32,
}

/// Who is counted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
enum Subject {
    Workspace(CallKind, WorkspaceId),
    Client(Fingerprint),
    /// Callers that we do not know.
    Address(CallKind, IpAddr),
    FailedLogin(Fingerprint, IpAddr),
}

/// A keyed hash in place of a client id or token: counting must not cost an allocation, and a collision would only count
/// two of them together.
type Fingerprint = u64;

/// This node's place among the live ones.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Share {
    pub nodes: u32,
    pub rank: u32,
}

impl Share {
    const ALONE: Share = Share { nodes: 1, rank: 0 };

    /// This node's part of a limit in one window. Over all nodes the parts add up to the limit.
    pub fn of(self, limit: u32, window: u64) -> u32 {
        let nodes = u64::from(self.nodes.max(1));
        let left_over = u64::from(limit) % nodes;
        let has_one_more = (u64::from(self.rank) + window) % nodes < left_over;
        limit / self.nodes.max(1) + u32::from(has_one_more)
    }
}

/// A window and the count in it, in one word: 40 bits of window number, 24 bits of count.
#[derive(Debug, Default)]
struct Window(AtomicU64);

const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// How many windows late a call may be and still count into the one that others have begun.
const LATE: u64 = 2;

impl Window {
    /// Where a call of `window` counts. A thread that looked at the clock a moment ago must not bring an old window
    /// back. But a clock that was far ahead and has been put right must: all would count into one window until it came.
    fn current(seen: u64, window: u64) -> u64 {
        let begun = seen >> COUNT_BITS;
        if (window..=window + LATE).contains(&begun) { begun } else { window }
    }

    /// Counts one more in `window` unless `limit` is reached. Gives what was counted before.
    fn count(&self, window: u64, limit: u32) -> Result<u32, Full> {
        let limit = u64::from(limit).min(COUNT_MASK);
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let window = Self::current(seen, window);
            let before = if seen >> COUNT_BITS == window { seen & COUNT_MASK } else { 0 };
            if before >= limit {
                return Err(Full);
            }
            let next = (window << COUNT_BITS) | (before + 1);
            match self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(u32::try_from(before).unwrap_or(u32::MAX)),
                Err(now) => seen = now,
            }
        }
    }

    fn counted(&self, window: u64) -> u32 {
        let seen = self.0.load(Ordering::Relaxed);
        let count = if seen >> COUNT_BITS == Self::current(seen, window) { seen & COUNT_MASK } else { 0 };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Copy)]
struct Full;

/// Known callers are bounded by the number of credentials; strangers and visited checks by these caches.
const KNOWN: usize = 100_000;
const STRANGERS: usize = 50_000;
const VISITED: usize = 50_000;
/// How many session tokens and states are remembered.
const TOKENS: usize = 50_000;

/// How this node shares limits with the others.
#[derive(Debug)]
struct Shares {
    own: Share,
    /// What all nodes were asked for, where others than this one were.
    contested: HashMap<(CallKind, WorkspaceId), Box<[u32]>>,
}

#[derive(Debug)]
pub struct RateLimiter {
    limits: Limits,
    shares: ArcSwap<Shares>,
    /// Calls of workspaces, admitted or not, in even and odd seconds. Counted only while there are other nodes.
    asked: Cache<(CallKind, WorkspaceId), Arc<[Window; 2]>>,
    known: Cache<Subject, Arc<Window>>,
    /// Apart from the known ones, so that a flood of strange addresses cannot push those out.
    strangers: Cache<Subject, Arc<Window>>,
    /// Checks whose device URL was opened.
    visited: Cache<CheckId, Arc<Window>>,
    /// Session tokens that the store has found good. They are not metered.
    good_sessions: Cache<Fingerprint, ()>,
    /// States that devices have come back with.
    used_states: Cache<Fingerprint, ()>,
    /// The latest minute in which any login failed.
    failing_minute: AtomicU64,
    hasher: DefaultHashBuilder,
}

impl RateLimiter {
    pub fn new(limits: Limits) -> Self {
        RateLimiter {
            limits,
            shares: ArcSwap::from_pointee(Shares { own: Share::ALONE, contested: HashMap::new() }),
            asked: Cache::new(KNOWN),
            known: Cache::new(KNOWN),
            strangers: Cache::new(STRANGERS),
            visited: Cache::new(VISITED),
            good_sessions: Cache::new(TOKENS),
            used_states: Cache::new(TOKENS),
            failing_minute: AtomicU64::new(0),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Takes over what each live node was asked for, in the order of the nodes, and this node's place among them.
    pub fn set_shares(&self, share: Share, demands: &[Demand]) {
        let before = self.shares.load();
        let contested = rate_shares::contested(demands, share.rank as usize);
        if before.own == share && before.contested.is_empty() && contested.is_empty() {
            return;
        }
        if before.own != share {
            tracing::info!(nodes = share.nodes, rank = share.rank, "rate-limit share changed");
        }
        self.shares.store(Arc::new(Shares { own: share, contested }));
    }

    /// What this node was asked for in the last whole second.
    pub fn demand(&self, now: Timestamp) -> Demand {
        let last = window(now, 1).saturating_sub(1);
        let calls = |asked: &[Window; 2]| asked[usize::from(last % 2 == 1)].counted(last);
        let demand = self.asked.iter().map(|(subject, asked)| (subject, calls(&asked)));
        demand.filter(|(_, calls)| *calls > 0).collect()
    }

    /// Counts a call of a workspace.
    pub fn workspace(&self, kind: CallKind, id: WorkspaceId, own: &RateLimits, now: Timestamp) -> Standing {
        self.of_workspace(kind, id, self.limits.of(kind, own), now)
    }

    fn of_workspace(&self, kind: CallKind, id: WorkspaceId, limit: u32, now: Timestamp) -> Standing {
        let second = window(now, 1);
        let shares = self.shares.load();
        let mut part = limit;
        if shares.own.nodes > 1 {
            let _ = get(&self.asked, (kind, id))[usize::from(second % 2 == 1)].count(second, u32::MAX);
            if let Some(demands) = shares.contested.get(&(kind, id)) {
                part = rate_shares::part(limit, demands, shares.own.rank as usize, second);
            }
        }
        let counted = get(&self.known, Subject::Workspace(kind, id)).count(second, part);
        standing(counted, part, limit)
    }

    /// Counts a token or revoke request of a client that has shown its secret, against its own limit and that of its
    /// workspace.
    pub fn client(&self, id: &ClientId, workspace: WorkspaceId, own: &RateLimits, now: Timestamp) -> Standing {
        let client = Subject::Client(self.fingerprint(id.as_str()));
        let standing = self.second(&self.known, client, self.limits.of(CallKind::Token, own), now);
        if !standing.admitted {
            return standing;
        }
        let of_workspace = self.of_workspace(CallKind::Token, workspace, self.limits.tokens_of_workspace(own), now);
        if of_workspace.admitted { standing } else { of_workspace }
    }

    /// Counts a request that must look up a session, unless the session was good the last time.
    pub fn session_lookup(&self, token: &str, address: IpAddr, now: Timestamp) -> Option<Standing> {
        let is_good = self.good_sessions.get(&self.fingerprint(token)).is_some();
        (!is_good).then(|| self.stranger(CallKind::Console, address, now))
    }

    /// Remembers what came of looking up a session.
    pub fn session_looked_up(&self, token: &str, is_good: bool) {
        let token = self.fingerprint(token);
        match (is_good, self.good_sessions.get(&token)) {
            (true, None) => self.good_sessions.insert(token, ()),
            (false, Some(())) => drop(self.good_sessions.remove(&token)),
            _ => {}
        }
    }

    /// Counts the return of a device, unless its state is new: each is good for one return.
    pub fn device_return(&self, state: &str, address: IpAddr, now: Timestamp) -> Option<Standing> {
        let state = self.fingerprint(state);
        if self.used_states.get(&state).is_none() {
            self.used_states.insert(state, ());
            return None;
        }
        Some(self.stranger(CallKind::DeviceReplay, address, now))
    }

    /// Counts a call that shows no good token.
    pub fn stranger(&self, kind: CallKind, address: IpAddr, now: Timestamp) -> Standing {
        let limit = self.limits.of(kind, &RateLimits::default());
        self.second(&self.strangers, Subject::Address(kind, subscriber(address)), limit, now)
    }

    /// Counts a visit of a check's device URL with its token, on this node: the limit is not divided among nodes, since a
    /// device may reach one only. The window is as long as the check is open and begins with it, so a device that waits
    /// for the next one finds the check expired.
    pub fn visit(&self, check: CheckId, now: Timestamp) -> Standing {
        let window_seconds = i64::from(WINDOW_SECONDS);
        let created = check.0.get_timestamp().and_then(|created| i64::try_from(created.to_unix().0).ok());
        let age = (now.as_second() - created.unwrap_or(0)).max(0);
        let limit = self.limits.device_visits;
        let counted = get(&self.visited, check).count((age / window_seconds).unsigned_abs(), limit);
        let reset = u32::try_from(window_seconds - age % window_seconds).unwrap_or(1);
        match counted {
            Ok(before) => Standing { admitted: true, limit, remaining: limit - before - 1, reset },
            Err(Full) => Standing { admitted: false, limit, remaining: 0, reset },
        }
    }

    /// Seconds to wait, when this address has failed too often with this client in this minute.
    pub fn login_delay(&self, client_id: &str, address: IpAddr, now: Timestamp) -> Option<u32> {
        let minute = window(now, 60);
        // In most minutes no login fails, and nobody's failures need be looked up.
        if self.failing_minute.load(Ordering::Relaxed) < minute {
            return None;
        }
        let failed =
            self.strangers.get(&self.failed_login(client_id, address)).map_or(0, |count| count.counted(minute));
        (failed >= self.shares.load().own.of(self.limits.failed_logins, minute).max(1)).then(|| seconds_left(now, 60))
    }

    pub fn login_failed(&self, client_id: &str, address: IpAddr, now: Timestamp) {
        let minute = window(now, 60);
        let counted = get(&self.strangers, self.failed_login(client_id, address));
        let _ = counted.count(minute, u32::MAX);
        self.failing_minute.fetch_max(minute, Ordering::Relaxed);
    }

    fn failed_login(&self, client_id: &str, address: IpAddr) -> Subject {
        Subject::FailedLogin(self.fingerprint(client_id), subscriber(address))
    }

    fn fingerprint(&self, client_id: &str) -> Fingerprint {
        self.hasher.hash_one(client_id)
    }

    fn second(&self, cache: &Cache<Subject, Arc<Window>>, subject: Subject, limit: u32, now: Timestamp) -> Standing {
        let second = window(now, 1);
        let part = self.shares.load().own.of(limit, second);
        let counted = get(cache, subject).count(second, part);
        standing(counted, part, limit)
    }
}

/// How a call stands to a limit of which this node has a part. What is left is told as if all nodes had as much left.
fn standing(counted: Result<u32, Full>, part: u32, limit: u32) -> Standing {
    let (admitted, left) = match counted {
        Ok(before) => (true, part - before - 1),
        Err(Full) => (false, 0),
    };
    let scaled = u64::from(left) * u64::from(limit) / u64::from(part.max(1));
    let remaining = u32::try_from(scaled).unwrap_or(u32::MAX).min(limit.saturating_sub(u32::from(admitted)));
    Standing { admitted, limit, remaining, reset: 1 }
}

fn get<K: Copy + Eq + Hash, V: Default>(cache: &Cache<K, Arc<V>>, subject: K) -> Arc<V> {
    if let Some(window) = cache.get(&subject) {
        return window;
    }
    match cache.get_or_insert_with(&subject, || Ok::<_, std::convert::Infallible>(Arc::default())) {
        Ok(window) => window,
        Err(never) => match never {},
    }
}

/// Whom an address stands for. One customer of an internet provider has a whole /64 of IPv6 addresses: they count as
/// one.
pub fn subscriber(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn window(now: Timestamp, seconds: i64) -> u64 {
    u64::try_from(now.as_second() / seconds).unwrap_or(0)
}

fn seconds_left(now: Timestamp, seconds: i64) -> u32 {
    let left = seconds - now.as_second().rem_euclid(seconds);
    u32::try_from(left).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use proptest::prelude::*;
    use ringtrue_domain::id::time_ordered;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    fn workspace() -> WorkspaceId {
        WorkspaceId(time_ordered(at(0), [1; 10]))
    }

    #[test]
    fn a_limit_holds_within_its_second_and_is_fresh_in_the_next() {
        let limiter = RateLimiter::new(Limits { management: 3, ..Limits::default() });
        let call = |now| limiter.workspace(CallKind::Management, workspace(), &RateLimits::default(), now);
        let remaining: Vec<_> = (0..5).map(|i| (call(at(i)).admitted, call(at(i)).remaining)).collect();
        assert_eq!(remaining, [(true, 1), (true, 0), (false, 0), (false, 0), (false, 0)]);
        assert_eq!(call(at(1000)), Standing { admitted: true, limit: 3, remaining: 2, reset: 1 });
    }

    #[test]
    fn a_workspace_may_have_limits_of_its_own() {
        let limiter = RateLimiter::new(Limits::default());
        let own = RateLimits { management: Some(1), ..RateLimits::default() };
        assert!(limiter.workspace(CallKind::Management, workspace(), &own, at(0)).admitted);
        assert!(!limiter.workspace(CallKind::Management, workspace(), &own, at(1)).admitted);
        assert!(limiter.workspace(CallKind::Read, workspace(), &own, at(1)).admitted, "another kind of call");
    }

    #[test]
    fn clients_of_a_workspace_share_a_token_limit() {
        let limiter = RateLimiter::new(Limits { token: 3, token_per_workspace: 5, ..Limits::default() });
        let call = |client: &str, own: &RateLimits, now| {
            limiter.client(&client.parse().unwrap(), workspace(), own, now).admitted
        };
        for (second, own, admitted) in [
            (0, RateLimits::default(), [3, 2, 0]),
            (1, RateLimits { token: Some(2), ..RateLimits::default() }, [2, 2, 1]),
            (2, RateLimits { token: Some(9), ..RateLimits::default() }, [9, 0, 0]),
        ] {
            let counts = ["prj_1", "prj_2", "prj_3"]
                .map(|client| (0..20).filter(|_| call(client, &own, at(second * 1_000))).count());
            assert_eq!(counts, admitted, "{own:?}");
        }
    }

    #[test]
    fn sessions_are_metered_by_address_until_they_are_known_to_be_good() {
        let limiter = RateLimiter::new(Limits { console: 2, ..Limits::default() });
        let address = "203.0.113.1".parse().unwrap();
        let is_looked_up =
            |token: &str| limiter.session_lookup(token, address, at(0)).is_none_or(|standing| standing.admitted);
        limiter.session_looked_up("good", true);
        assert_eq!(["a", "b", "c"].map(is_looked_up), [true, true, false]);
        assert!(is_looked_up("good"));
        limiter.session_looked_up("good", false);
        assert!(!is_looked_up("good"), "it has ended");
    }

    #[test]
    fn devices_that_come_back_twice_are_metered_by_address() {
        let limiter = RateLimiter::new(Limits { device: 2, ..Limits::default() });
        let [one, two] = ["203.0.113.1", "203.0.113.2"].map(|ip| ip.parse().unwrap());
        let comes = |state: &str, address| {
            limiter.device_return(state, address, at(0)).is_none_or(|standing| standing.admitted)
        };
        assert!((0..100).all(|device| comes(&device.to_string(), one)), "each state is new");
        assert_eq!([comes("1", one), comes("2", one), comes("3", one)], [true, true, false]);
        assert!(comes("1", two) && comes("new", one));
    }

    #[test]
    fn failed_logins_delay_one_address_and_not_another() {
        let limiter = RateLimiter::new(Limits::default());
        let [attacker, victim] = ["203.0.113.1", "203.0.113.2"].map(|ip| ip.parse().unwrap());
        for _ in 0..10 {
            assert_eq!(limiter.login_delay("prj_1", attacker, at(0)), None);
            limiter.login_failed("prj_1", attacker, at(0));
        }
        let delay = limiter.login_delay("prj_1", attacker, at(0)).unwrap();
        assert!((1..=60).contains(&delay));
        assert_eq!(limiter.login_delay("prj_1", victim, at(0)), None);
        assert_eq!(limiter.login_delay("prj_2", attacker, at(0)), None);
        let later = at(0) + SignedDuration::from_secs(i64::from(delay));
        assert_eq!(limiter.login_delay("prj_1", attacker, later), None);
    }

    #[test]
    fn visits_are_counted_by_check_for_as_long_as_it_is_open() {
        let limiter = RateLimiter::new(Limits { device_visits: 3, ..Limits::default() });
        let [one, other] = [1, 2].map(|random| CheckId(time_ordered(at(0), [random; 10])));
        // Milliseconds, visits, those admitted, and the seconds until the next window.
        for (millis, admitted, reset) in [(0, 3, 120), (1_000, 0, 119), (119_999, 0, 1), (120_000, 3, 120)] {
            let visits: Vec<_> = (0..5).map(|_| limiter.visit(one, at(millis))).collect();
            assert_eq!(visits.iter().filter(|visit| visit.admitted).count(), admitted, "after {millis} ms");
            assert!(visits.iter().all(|visit| (visit.limit, visit.reset) == (3, reset)), "{visits:?}");
        }
        assert_eq!(limiter.visit(other, at(1_000)).remaining, 2, "another check");
    }

    #[test]
    fn a_clock_that_is_put_back_does_not_close_a_limit() {
        for (case, seconds, admitted) in [
            ("ten minutes ahead", &[600, 0, 1, 2][..], &[3, 3, 3, 3][..]),
            ("a thread that comes late", &[2, 1, 0, 2, 3], &[3, 0, 0, 0, 3]),
            ("three seconds ahead", &[3, 0, 1, 2, 3], &[3, 3, 3, 3, 3]),
            ("to and fro", &[0, 600, 0, 600], &[3, 3, 3, 3]),
        ] {
            let limiter = RateLimiter::new(Limits { create: 3, ..Limits::default() });
            let call = |now| limiter.workspace(CallKind::Create, workspace(), &RateLimits::default(), now).admitted;
            let counts: Vec<_> =
                seconds.iter().map(|second| (0..5).filter(|_| call(at(second * 1_000))).count()).collect();
            assert_eq!(counts, admitted, "{case}");
        }
    }

    #[test]
    fn a_clock_that_is_put_back_neither_forgives_nor_keeps_failed_logins() {
        let address = "203.0.113.1".parse().unwrap();
        for (case, minutes, taken) in [
            ("an hour ahead", &[60, 0, 1, 60][..], &[3, 3, 3, 3][..]),
            ("a minute ahead", &[1, 0, 1, 2], &[3, 0, 0, 3]),
        ] {
            let limiter = RateLimiter::new(Limits { failed_logins: 3, ..Limits::default() });
            let is_taken = |now| {
                let is_taken = limiter.login_delay("prj_1", address, now).is_none();
                limiter.login_failed("prj_1", address, now);
                is_taken
            };
            let counts: Vec<_> =
                minutes.iter().map(|minute| (0..5).filter(|_| is_taken(at(minute * 60_000))).count()).collect();
            assert_eq!(counts, taken, "{case}");
        }
    }

    #[test]
    fn addresses_of_one_ipv6_subscriber_count_as_one() {
        let [one, two, mapped, plain] =
            ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "::ffff:203.0.113.7", "203.0.113.7"]
                .map(|ip| subscriber(ip.parse().unwrap()));
        assert_eq!(one, two);
        assert_eq!(mapped, plain);
    }

    proptest! {
        #[test]
        fn the_shares_of_all_nodes_add_up_to_the_limit(limit in 0u32..10_000, nodes in 1u32..50, window in any::<u32>()) {
            let shares = (0..nodes).map(|rank| Share { nodes, rank }.of(limit, u64::from(window)));
            prop_assert_eq!(shares.sum::<u32>(), limit);
        }
    }
}
