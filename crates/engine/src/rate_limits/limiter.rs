//! The rate limiter of a node, and its counters.

use std::{
    collections::HashMap,
    hash::{BuildHasher, BuildHasherDefault, DefaultHasher, Hash},
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
    silent::CHECK_TTL_SECONDS,
    tenancy::{ClientId, RateLimits, WorkspaceId},
};
use uuid::Uuid;

use super::{
    class::{DefaultRateLimits, RateLimitClass},
    shares::{MAX_PUBLISHED, PublishedCalls, RecentCalls, SharedCalls, SubjectKey, window_number},
};
use crate::ports::node::NodeId;

/// Outcome of counting a request. The `RateLimit` response headers show these values.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RateLimitState {
    pub admitted: bool,
    pub limit: u32,
    pub remaining: u32,
    /// Seconds until the current window ends, at least one.
    pub reset_seconds: u32,
}

/// What a limit applies to. Each subject has its own counter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum LimitSubject {
    Workspace(RateLimitClass, WorkspaceId),
    Client(ClientHash),
    /// Unauthenticated requests from an IP address.
    Address(RateLimitClass, IpAddr),
    FailedLogin(ClientHash, IpAddr),
}

impl LimitSubject {
    /// Encodes the subject, identically on all nodes. Nodes publish only a keyed hash of this text, because the text
    /// may contain an IP address.
    pub fn encode(&self) -> String {
        match self {
            LimitSubject::Workspace(class, id) => format!("workspace {} {id}", class.as_str()),
            LimitSubject::Client(client) => format!("client {client:x}"),
            LimitSubject::Address(class, address) => format!("address {} {address}", class.as_str()),
            LimitSubject::FailedLogin(client, address) => format!("failed login {client:x} {address}"),
        }
    }

    fn window_seconds(&self) -> i64 {
        if matches!(self, LimitSubject::FailedLogin(..)) { FAILED_LOGIN_SECONDS } else { 1 }
    }
}

/// A visitor of a verification's hosted page. Visitors with the same link have separate counters.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum PageVisitorKey {
    /// A browser that has begun a silent check of this verification, identified by the hash of the key in its cookie.
    Browser(Fingerprint),
    /// Any other visitor, identified by IP address.
    Address(IpAddr),
}

/// Hash of a client id, the same on all nodes. Used instead of the id to avoid an allocation. A collision only merges
/// two counters.
type ClientHash = u64;

/// Hash of a token, `state` or browser key. The hash function has a random key in each process.
type Fingerprint = u64;

/// Length of the window in which failed logins are counted.
const FAILED_LOGIN_SECONDS: i64 = 60;

/// Counts the requests of one window. The upper 40 bits are the window's number, the lower 24 bits are the count.
#[derive(Debug, Default)]
struct WindowCounter(AtomicU64);

const COUNT_BITS: u32 = 24;
const COUNT_MASK: u64 = (1 << COUNT_BITS) - 1;
/// A request that is at most this many windows older than the counter's window counts in the counter's window.
const MAX_LATE_WINDOWS: u64 = 2;

impl WindowCounter {
    /// Returns the window in which to count a request that arrives in `window`. `seen` is the value of the counter. A
    /// thread that read the clock slightly earlier must not reopen the previous window. But if a clock that was far
    /// ahead is corrected, the older window must replace the newer one.
    fn current(seen: u64, window: u64) -> u64 {
        let started = seen >> COUNT_BITS;
        if (window..=window + MAX_LATE_WINDOWS).contains(&started) { started } else { window }
    }

    /// Increments the count of `window` unless it has reached `limit`. Returns the previous count.
    fn try_increment(&self, window: u64, limit: u32) -> Result<u32, LimitReached> {
        let limit = u64::from(limit).min(COUNT_MASK);
        let mut seen = self.0.load(Ordering::Relaxed);
        loop {
            let window = Self::current(seen, window);
            let before = if seen >> COUNT_BITS == window { seen & COUNT_MASK } else { 0 };
            if before >= limit {
                return Err(LimitReached);
            }
            let next = (window << COUNT_BITS) | (before + 1);
            match self.0.compare_exchange_weak(seen, next, Ordering::Relaxed, Ordering::Relaxed) {
                Ok(_) => return Ok(u32::try_from(before).unwrap_or(u32::MAX)),
                Err(now) => seen = now,
            }
        }
    }

    fn count_in(&self, window: u64) -> u32 {
        let seen = self.0.load(Ordering::Relaxed);
        let count = if seen >> COUNT_BITS == Self::current(seen, window) { seen & COUNT_MASK } else { 0 };
        u32::try_from(count).unwrap_or(u32::MAX)
    }
}

#[derive(Clone, Copy)]
struct LimitReached;

/// Counts the calls in each of the last four windows, whether they were admitted or not.
#[derive(Debug, Default)]
struct CallCounter([WindowCounter; 4]);

impl CallCounter {
    fn counter_of_window(&self, window: u64) -> &WindowCounter {
        &self.0[(window % 4) as usize]
    }

    /// Counts a call. Returns the number of earlier calls in the window.
    fn increment(&self, window: u64) -> u32 {
        self.counter_of_window(window).try_increment(window, u32::MAX).unwrap_or(u32::MAX)
    }

    fn count_in(&self, window: u64) -> u32 {
        self.counter_of_window(window).count_in(window)
    }

    /// Returns the number of calls in each of the two previous windows and in the current one, oldest first.
    fn recent(&self, window: u64) -> RecentCalls {
        [2, 1, 0].map(|age| window.checked_sub(age).map_or(0, |window| self.count_in(window)))
    }

    /// Returns the number of calls in the newest of the three previous windows that has any call, or zero.
    fn calls_of_last_active_window(&self, window: u64) -> u32 {
        let counts = (1..=3).map(|age| window.checked_sub(age).map_or(0, |window| self.count_in(window)));
        counts.into_iter().find(|calls| *calls > 0).unwrap_or(0)
    }
}

/// Maximum number of requests per second for a verification's page, per visitor.
const PAGE_VISITS_PER_SECOND: u32 = 20;

// Capacities of the counter caches.
const MAX_AUTHENTICATED_COUNTERS: usize = 100_000;
const MAX_ADDRESS_COUNTERS: usize = 50_000;
const MAX_VISIT_COUNTERS: usize = 50_000;
/// Capacity of the caches of session tokens and of `state` values.
const MAX_CACHED_TOKENS: usize = 50_000;

/// Request counts of other nodes, as of the last exchange, for the subjects that this node has counted too.
#[derive(Debug, Default)]
struct ExchangedCalls {
    shared: HashMap<LimitSubject, SharedCalls>,
    /// The minute of the last exchange, and the number of failed logins on other nodes in that minute.
    failed_logins: HashMap<LimitSubject, (u64, u32)>,
}

#[derive(Debug)]
pub struct RateLimiter {
    limits: DefaultRateLimits,
    exchanged: ArcSwap<ExchangedCalls>,
    authenticated: Cache<LimitSubject, Arc<CallCounter>>,
    /// A separate cache, so that requests from many addresses cannot evict the counters of authenticated clients.
    by_address: Cache<LimitSubject, Arc<CallCounter>>,
    device_visits: Cache<CheckId, Arc<WindowCounter>>,
    page_visits: Cache<(Uuid, PageVisitorKey), Arc<WindowCounter>>,
    /// Starts of silent checks and other actions on a verification's page. They have their own limit, so that views of
    /// the page cannot use it up.
    page_actions: Cache<(Uuid, PageVisitorKey), Arc<WindowCounter>>,
    session_requests: Cache<Fingerprint, Arc<WindowCounter>>,
    /// Session tokens that were valid at their last lookup. Requests with them are not limited by IP address.
    valid_sessions: Cache<Fingerprint, ()>,
    /// OAuth `state` values with which devices have already returned from the operator.
    used_states: Cache<Fingerprint, ()>,
    /// The last minute in which a login failed on this node.
    last_failed_login_minute: AtomicU64,
    hasher: DefaultHashBuilder,
}

impl RateLimiter {
    pub fn new(limits: DefaultRateLimits) -> Self {
        RateLimiter {
            limits,
            exchanged: ArcSwap::default(),
            authenticated: Cache::new(MAX_AUTHENTICATED_COUNTERS),
            by_address: Cache::new(MAX_ADDRESS_COUNTERS),
            device_visits: Cache::new(MAX_VISIT_COUNTERS),
            page_visits: Cache::new(MAX_VISIT_COUNTERS),
            page_actions: Cache::new(MAX_VISIT_COUNTERS),
            session_requests: Cache::new(MAX_CACHED_TOKENS),
            valid_sessions: Cache::new(MAX_CACHED_TOKENS),
            used_states: Cache::new(MAX_CACHED_TOKENS),
            last_failed_login_minute: AtomicU64::new(0),
            hasher: DefaultHashBuilder::default(),
        }
    }

    /// Returns the subjects with the most calls in the last windows, to publish to other nodes.
    pub fn recent_calls(&self, now: Timestamp) -> Vec<(LimitSubject, RecentCalls)> {
        let mut published = vec![];
        for counters in [&self.authenticated, &self.by_address] {
            let recent = |(subject, counter): (LimitSubject, Arc<CallCounter>)| {
                (subject, counter.recent(window_number(now, subject.window_seconds())))
            };
            let mut busiest: Vec<_> = counters.iter().map(recent).filter(|(_, calls)| *calls != [0; 3]).collect();
            busiest.sort_unstable_by_key(|(_, calls)| std::cmp::Reverse(*calls.iter().max().unwrap_or(&0)));
            busiest.truncate(MAX_PUBLISHED);
            published.append(&mut busiest);
        }
        published
    }

    /// Applies the calls that other live nodes have published. `own` contains the calls that this node has published at
    /// `now`.
    pub fn apply_exchange(
        &self,
        node: NodeId,
        own: &[(LimitSubject, SubjectKey, RecentCalls)],
        others: &[PublishedCalls],
        now: Timestamp,
    ) {
        let mut exchanged = ExchangedCalls::default();
        for (subject, key, calls) in own {
            if let LimitSubject::FailedLogin(..) = subject {
                let minute = window_number(now, FAILED_LOGIN_SECONDS);
                let failed = others.iter().map(|other| other.calls_in_current(*key, minute, FAILED_LOGIN_SECONDS));
                exchanged.failed_logins.insert(*subject, (minute, failed.fold(0, u32::saturating_add)));
            } else if let Some(shared) = SharedCalls::new((node, *key), *calls, others, now) {
                exchanged.shared.insert(*subject, shared);
            }
        }
        self.exchanged.store(Arc::new(exchanged));
    }

    /// Counts a request against the limit of its workspace.
    pub fn limit_workspace(
        &self,
        class: RateLimitClass,
        id: WorkspaceId,
        overrides: &RateLimits,
        now: Timestamp,
    ) -> RateLimitState {
        let limit = self.limits.limit_for(class, overrides);
        self.limit_subject(&self.authenticated, LimitSubject::Workspace(class, id), limit, now)
    }

    fn limit_subject(
        &self,
        counters: &Cache<LimitSubject, Arc<CallCounter>>,
        subject: LimitSubject,
        limit: u32,
        now: Timestamp,
    ) -> RateLimitState {
        let second = window_number(now, 1);
        let counter = get_or_insert(counters, subject);
        let before = counter.increment(second);
        let exchanged = self.exchanged.load();
        let shared = exchanged.shared.get(&subject);
        let part =
            shared.map_or(limit, |calls| calls.part_of(limit, counter.calls_of_last_active_window(second), second));
        let counted = if before < part { Ok(before) } else { Err(LimitReached) };
        rate_limit_state(counted, part, limit)
    }

    /// Counts a token or revoke request of an authenticated client, against the client's limit and its workspace's
    /// limit.
    pub fn limit_client(
        &self,
        id: &ClientId,
        workspace: WorkspaceId,
        overrides: &RateLimits,
        now: Timestamp,
    ) -> RateLimitState {
        let limit = self.limits.limit_for(RateLimitClass::Token, overrides);
        let client = LimitSubject::Client(client_hash(id.as_str()));
        let state = self.limit_subject(&self.authenticated, client, limit, now);
        if !state.admitted {
            return state;
        }
        let workspace = LimitSubject::Workspace(RateLimitClass::Token, workspace);
        let workspace_limit = self.limits.workspace_token_limit(overrides);
        let workspace_state = self.limit_subject(&self.authenticated, workspace, workspace_limit, now);
        if workspace_state.admitted { state } else { workspace_state }
    }

    /// Counts a request whose session token must be looked up, by IP address. `None`: the session was valid at its last
    /// lookup, so the request is not counted.
    pub fn limit_session_lookup(&self, token: &str, address: IpAddr, now: Timestamp) -> Option<RateLimitState> {
        let is_valid = self.valid_sessions.get(&self.fingerprint(token)).is_some();
        (!is_valid).then(|| self.limit_by_ip(RateLimitClass::Console, address, now))
    }

    /// Counts a console request of a valid session. Nodes do not divide this limit: each admits the whole limit.
    pub fn limit_session(&self, token: &str, now: Timestamp) -> RateLimitState {
        let limit = self.limits.console_per_session;
        let counter = get_or_insert(&self.session_requests, self.fingerprint(token));
        rate_limit_state(counter.try_increment(window_number(now, 1), limit), limit, limit)
    }

    /// Remembers whether a session token was valid when it was looked up.
    pub fn record_session_lookup(&self, token: &str, is_valid: bool) {
        let token = self.fingerprint(token);
        match (is_valid, self.valid_sessions.get(&token)) {
            (true, None) => self.valid_sessions.insert(token, ()),
            (false, Some(())) => drop(self.valid_sessions.remove(&token)),
            _ => {}
        }
    }

    /// Counts the return of a device from the operator, by IP address, if the `state` in the request was used before.
    /// `None`: the `state` is new, so the return is not counted.
    pub fn limit_device_return(&self, state: &str, address: IpAddr, now: Timestamp) -> Option<RateLimitState> {
        let state = self.fingerprint(state);
        if self.used_states.get(&state).is_none() {
            self.used_states.insert(state, ());
            return None;
        }
        Some(self.limit_by_ip(RateLimitClass::DeviceReplay, address, now))
    }

    /// Counts an unauthenticated request by its IP address.
    pub fn limit_by_ip(&self, class: RateLimitClass, address: IpAddr, now: Timestamp) -> RateLimitState {
        let limit = self.limits.limit_for(class, &RateLimits::default());
        self.limit_subject(&self.by_address, LimitSubject::Address(class, ip_bucket(address)), limit, now)
    }

    /// Counts a visit of a check's device URL with a valid token. Each node admits the whole limit, because all visits
    /// of a device may reach the same node. The window begins when the check is created and lasts for the check's
    /// lifetime, so the check expires before the next window.
    pub fn limit_device_visit(&self, check: CheckId, now: Timestamp) -> RateLimitState {
        self.limit_over_lifetime(&get_or_insert(&self.device_visits, check), check.0, now)
    }

    fn limit_over_lifetime(&self, counter: &WindowCounter, id: Uuid, now: Timestamp) -> RateLimitState {
        let window_seconds = i64::from(CHECK_TTL_SECONDS);
        let created = id.get_timestamp().and_then(|created| i64::try_from(created.to_unix().0).ok());
        let age = (now.as_second() - created.unwrap_or(0)).max(0);
        let limit = self.limits.device_visits;
        let counted = counter.try_increment((age / window_seconds).unsigned_abs(), limit);
        let reset = u32::try_from(window_seconds - age % window_seconds).unwrap_or(1);
        match counted {
            Ok(before) => RateLimitState { admitted: true, limit, remaining: limit - before - 1, reset_seconds: reset },
            Err(LimitReached) => RateLimitState { admitted: false, limit, remaining: 0, reset_seconds: reset },
        }
    }

    /// Identifies a visitor of such a page by the key in the browser's cookie, or by its IP address if it has
    /// no key.
    pub fn page_visitor(&self, browser_key: Option<&str>, address: IpAddr) -> PageVisitorKey {
        match browser_key {
            Some(key) => PageVisitorKey::Browser(self.fingerprint(key)),
            None => PageVisitorKey::Address(ip_bucket(address)),
        }
    }

    /// Counts a request with a valid token for the page of a verification or a sign-in, which the page's id names.
    pub fn limit_page_visit(&self, page: Uuid, visitor: PageVisitorKey, now: Timestamp) -> RateLimitState {
        let counter = get_or_insert(&self.page_visits, (page, visitor));
        let counted = counter.try_increment(window_number(now, 1), PAGE_VISITS_PER_SECOND);
        rate_limit_state(counted, PAGE_VISITS_PER_SECOND, PAGE_VISITS_PER_SECOND)
    }

    /// Counts an action on the page of a verification or a sign-in, such as the start of a silent check. The limit is the one for device
    /// visits.
    pub fn limit_page_action(&self, page: Uuid, visitor: PageVisitorKey, now: Timestamp) -> RateLimitState {
        let counter = get_or_insert(&self.page_actions, (page, visitor));
        self.limit_over_lifetime(&counter, page, now)
    }

    /// Returns how many seconds to wait if this IP address has reached the limit of failed logins of this client in
    /// this minute. `None`: the limit is not reached.
    pub fn failed_login_delay(&self, client_id: &str, address: IpAddr, now: Timestamp) -> Option<u32> {
        let minute = window_number(now, FAILED_LOGIN_SECONDS);
        // Usually no login has failed in this minute, and the lookup is unnecessary.
        if self.last_failed_login_minute.load(Ordering::Relaxed) < minute {
            return None;
        }
        let subject = failed_login_subject(client_id, address);
        let failed = self.by_address.get(&subject).map_or(0, |count| count.count_in(minute));
        let elsewhere = self.exchanged.load().failed_logins.get(&subject).copied();
        let failed_elsewhere = elsewhere.filter(|(known, _)| *known == minute).map_or(0, |(_, failed)| failed);
        (failed.saturating_add(failed_elsewhere) >= self.limits.failed_logins)
            .then(|| seconds_left(now, FAILED_LOGIN_SECONDS))
    }

    pub fn record_failed_login(&self, client_id: &str, address: IpAddr, now: Timestamp) {
        let minute = window_number(now, FAILED_LOGIN_SECONDS);
        get_or_insert(&self.by_address, failed_login_subject(client_id, address)).increment(minute);
        self.last_failed_login_minute.fetch_max(minute, Ordering::Relaxed);
    }

    fn fingerprint(&self, text: &str) -> Fingerprint {
        self.hasher.hash_one(text)
    }
}

/// Hashes a client id without a random key, because nodes exchange counts under this hash.
fn client_hash(id: &str) -> ClientHash {
    BuildHasherDefault::<DefaultHasher>::default().hash_one(id)
}

fn failed_login_subject(client_id: &str, address: IpAddr) -> LimitSubject {
    LimitSubject::FailedLogin(client_hash(client_id), ip_bucket(address))
}

/// Returns the state for a limit of which this node may admit `part`. Scales the node's remaining calls up to the whole
/// limit, because response headers show the limit of the deployment.
fn rate_limit_state(counted: Result<u32, LimitReached>, part: u32, limit: u32) -> RateLimitState {
    let (admitted, left) = match counted {
        Ok(before) => (true, part - before - 1),
        Err(LimitReached) => (false, 0),
    };
    let scaled = u64::from(left) * u64::from(limit) / u64::from(part.max(1));
    let remaining = u32::try_from(scaled).unwrap_or(u32::MAX).min(limit.saturating_sub(u32::from(admitted)));
    RateLimitState { admitted, limit, remaining, reset_seconds: 1 }
}

fn get_or_insert<K: Copy + Eq + Hash, V: Default>(cache: &Cache<K, Arc<V>>, subject: K) -> Arc<V> {
    if let Some(window) = cache.get(&subject) {
        return window;
    }
    match cache.get_or_insert_with(&subject, || Ok::<_, std::convert::Infallible>(Arc::default())) {
        Ok(window) => window,
        Err(never) => match never {},
    }
}

/// Groups the addresses that one subscriber can use: an IPv6 address becomes its /64 network, an IPv4 address stays as
/// it is.
pub fn ip_bucket(address: IpAddr) -> IpAddr {
    match address.to_canonical() {
        IpAddr::V6(address) => {
            let [a, b, c, d, ..] = address.segments();
            IpAddr::V6(Ipv6Addr::new(a, b, c, d, 0, 0, 0, 0))
        }
        v4 @ IpAddr::V4(_) => v4,
    }
}

fn seconds_left(now: Timestamp, seconds: i64) -> u32 {
    let left = seconds - now.as_second().rem_euclid(seconds);
    u32::try_from(left).unwrap_or(1).max(1)
}

#[cfg(test)]
mod tests {
    use jiff::SignedDuration;
    use ringtrue_domain::id::uuid_v7;

    use super::*;

    fn at(millis: i64) -> Timestamp {
        Timestamp::from_millisecond(1_800_000_000_000 + millis).unwrap()
    }

    fn workspace() -> WorkspaceId {
        WorkspaceId(uuid_v7(at(0), [1; 10]))
    }

    #[test]
    fn limit_resets_every_second() {
        let limiter = RateLimiter::new(DefaultRateLimits { management: 3, ..DefaultRateLimits::default() });
        let call = |now| limiter.limit_workspace(RateLimitClass::Management, workspace(), &RateLimits::default(), now);
        let remaining: Vec<_> = (0..5).map(|i| (call(at(i)).admitted, call(at(i)).remaining)).collect();
        assert_eq!(remaining, [(true, 1), (true, 0), (false, 0), (false, 0), (false, 0)]);
        assert_eq!(call(at(1000)), RateLimitState { admitted: true, limit: 3, remaining: 2, reset_seconds: 1 });
    }

    #[test]
    fn workspace_overrides_apply() {
        let limiter = RateLimiter::new(DefaultRateLimits::default());
        let overrides = RateLimits { management: Some(1), ..RateLimits::default() };
        assert!(limiter.limit_workspace(RateLimitClass::Management, workspace(), &overrides, at(0)).admitted);
        assert!(!limiter.limit_workspace(RateLimitClass::Management, workspace(), &overrides, at(1)).admitted);
        assert!(
            limiter.limit_workspace(RateLimitClass::Read, workspace(), &overrides, at(1)).admitted,
            "another class"
        );
    }

    #[test]
    fn clients_share_the_token_limit_of_their_workspace() {
        let limiter =
            RateLimiter::new(DefaultRateLimits { token: 3, token_per_workspace: 5, ..DefaultRateLimits::default() });
        let call = |client: &str, overrides: &RateLimits, now| {
            limiter.limit_client(&client.parse().unwrap(), workspace(), overrides, now).admitted
        };
        for (second, overrides, admitted) in [
            (0, RateLimits::default(), [3, 2, 0]),
            (1, RateLimits { token: Some(2), ..RateLimits::default() }, [2, 2, 1]),
            (2, RateLimits { token: Some(9), ..RateLimits::default() }, [9, 0, 0]),
        ] {
            let counts = ["prj_1", "prj_2", "prj_3"]
                .map(|client| (0..20).filter(|_| call(client, &overrides, at(second * 1_000))).count());
            assert_eq!(counts, admitted, "{overrides:?}");
        }
    }

    #[test]
    fn session_lookups_are_limited_by_address_until_known_valid() {
        let limiter = RateLimiter::new(DefaultRateLimits { console: 2, ..DefaultRateLimits::default() });
        let address = "203.0.113.1".parse().unwrap();
        let is_looked_up =
            |token: &str| limiter.limit_session_lookup(token, address, at(0)).is_none_or(|state| state.admitted);
        limiter.record_session_lookup("good", true);
        assert_eq!(["a", "b", "c"].map(is_looked_up), [true, true, false]);
        assert!(is_looked_up("good"));
        limiter.record_session_lookup("good", false);
        assert!(!is_looked_up("good"), "the session has ended");
    }

    #[test]
    fn console_requests_are_limited_per_session() {
        let limiter = RateLimiter::new(DefaultRateLimits { console_per_session: 2, ..DefaultRateLimits::default() });
        let is_admitted = |token: &str, millis| limiter.limit_session(token, at(millis)).admitted;
        assert_eq!([(); 3].map(|()| is_admitted("one", 0)), [true, true, false]);
        assert!(is_admitted("other", 0) && is_admitted("one", 1_000));
    }

    #[test]
    fn device_returns_with_a_used_state_are_limited_by_address() {
        let limiter = RateLimiter::new(DefaultRateLimits { device: 2, ..DefaultRateLimits::default() });
        let [one, two] = ["203.0.113.1", "203.0.113.2"].map(|ip| ip.parse().unwrap());
        let is_admitted = |state: &str, address| {
            limiter.limit_device_return(state, address, at(0)).is_none_or(|state| state.admitted)
        };
        assert!((0..100).all(|device| is_admitted(&device.to_string(), one)), "each state is new");
        assert_eq!([is_admitted("1", one), is_admitted("2", one), is_admitted("3", one)], [true, true, false]);
        assert!(is_admitted("1", two) && is_admitted("new", one));
    }

    #[test]
    fn failed_logins_delay_only_their_client_and_address() {
        let limiter = RateLimiter::new(DefaultRateLimits::default());
        let [attacker, victim] = ["203.0.113.1", "203.0.113.2"].map(|ip| ip.parse().unwrap());
        for _ in 0..10 {
            assert_eq!(limiter.failed_login_delay("prj_1", attacker, at(0)), None);
            limiter.record_failed_login("prj_1", attacker, at(0));
        }
        let delay = limiter.failed_login_delay("prj_1", attacker, at(0)).unwrap();
        assert!((1..=60).contains(&delay));
        assert_eq!(limiter.failed_login_delay("prj_1", victim, at(0)), None);
        assert_eq!(limiter.failed_login_delay("prj_2", attacker, at(0)), None);
        let later = at(0) + SignedDuration::from_secs(i64::from(delay));
        assert_eq!(limiter.failed_login_delay("prj_1", attacker, later), None);
    }

    #[test]
    fn page_visits_are_limited_per_verification_and_visitor() {
        let limiter = RateLimiter::new(DefaultRateLimits::default());
        let [one, other] = [1, 2].map(|random| uuid_v7(at(0), [random; 10]));
        let address = IpAddr::from([192, 0, 2, 1]);
        let [stranger, user] = [None, Some("key")].map(|key| limiter.page_visitor(key, address));
        for millis in [0, 1_000] {
            let visits = (0..30).filter(|_| limiter.limit_page_visit(one, stranger, at(millis)).admitted);
            assert_eq!(visits.count(), 20, "after {millis} ms");
        }
        assert!(limiter.limit_page_visit(one, user, at(1_000)).admitted, "another visitor");
        assert!(limiter.limit_page_visit(other, stranger, at(1_000)).admitted, "another verification");
        let starts = (0..30).filter(|_| limiter.limit_page_action(one, stranger, at(1_000)).admitted);
        assert_eq!(starts.count(), 20, "visits do not use up the starts");
        assert!(limiter.limit_page_action(one, user, at(1_000)).admitted, "another visitor");
    }

    #[test]
    fn device_visits_are_limited_per_check_for_its_lifetime() {
        let limiter = RateLimiter::new(DefaultRateLimits { device_visits: 3, ..DefaultRateLimits::default() });
        let [one, other] = [1, 2].map(|random| CheckId(uuid_v7(at(0), [random; 10])));
        // Columns: milliseconds, how many of five visits are admitted, seconds until the next window.
        for (millis, admitted, reset) in [(0, 3, 120), (1_000, 0, 119), (119_999, 0, 1), (120_000, 3, 120)] {
            let visits: Vec<_> = (0..5).map(|_| limiter.limit_device_visit(one, at(millis))).collect();
            assert_eq!(visits.iter().filter(|visit| visit.admitted).count(), admitted, "after {millis} ms");
            assert!(visits.iter().all(|visit| (visit.limit, visit.reset_seconds) == (3, reset)), "{visits:?}");
        }
        assert_eq!(limiter.limit_device_visit(other, at(1_000)).remaining, 2, "another check");
    }

    #[test]
    fn clock_set_back_does_not_block_requests() {
        for (case, seconds, admitted) in [
            ("clock ten minutes ahead", &[600, 0, 1, 2][..], &[3, 3, 3, 3][..]),
            ("late thread", &[2, 1, 0, 2, 3], &[3, 3, 3, 0, 3]),
            ("clock three seconds ahead", &[3, 0, 1, 2, 3], &[3, 3, 3, 3, 0]),
            ("clock moving back and forth", &[0, 600, 0, 600], &[3, 3, 3, 3]),
        ] {
            let limiter = RateLimiter::new(DefaultRateLimits { create: 3, ..DefaultRateLimits::default() });
            let call = |now| {
                limiter.limit_workspace(RateLimitClass::Create, workspace(), &RateLimits::default(), now).admitted
            };
            let counts: Vec<_> =
                seconds.iter().map(|second| (0..5).filter(|_| call(at(second * 1_000))).count()).collect();
            assert_eq!(counts, admitted, "{case}");
        }
    }

    #[test]
    fn clock_set_back_neither_clears_nor_prolongs_login_delays() {
        let address = "203.0.113.1".parse().unwrap();
        for (case, minutes, accepted) in [
            ("clock an hour ahead", &[60, 0, 1, 60][..], &[3, 3, 3, 3][..]),
            ("clock a minute ahead", &[1, 0, 1, 2], &[3, 3, 0, 3]),
        ] {
            let limiter = RateLimiter::new(DefaultRateLimits { failed_logins: 3, ..DefaultRateLimits::default() });
            let is_accepted = |now| {
                let is_accepted = limiter.failed_login_delay("prj_1", address, now).is_none();
                limiter.record_failed_login("prj_1", address, now);
                is_accepted
            };
            let counts: Vec<_> =
                minutes.iter().map(|minute| (0..5).filter(|_| is_accepted(at(minute * 60_000))).count()).collect();
            assert_eq!(counts, accepted, "{case}");
        }
    }

    #[test]
    fn ipv6_addresses_of_one_subscriber_share_a_bucket() {
        let [one, two, mapped, plain] =
            ["2001:db8:1:2::1", "2001:db8:1:2:ffff::9", "::ffff:203.0.113.7", "203.0.113.7"]
                .map(|ip| ip_bucket(ip.parse().unwrap()));
        assert_eq!(one, two);
        assert_eq!(mapped, plain);
    }
}
