//! Where things are tried: on a server that is there for this alone, or on the one of a profile.

use std::{
    fs,
    net::IpAddr,
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI64, Ordering},
    },
};

use jiff::{SignedDuration, Timestamp};
use ringtrue_engine::ports::{Clock, Entropy, SystemClock, SystemEntropy};
use tokio_util::sync::CancellationToken;
use url::Host;

use crate::{
    cli::{
        caller::{
            arguments::Identity,
            profile::{Profile, ProfileName},
            session::Session,
            upstream::jwks,
        },
        desk::Desk,
        dev,
        failure::Failure,
        listen::Mailbox,
    },
    wiring::Running,
};

pub(super) struct Ground {
    pub session: Session,
    /// Where callbacks come in, if the server can reach us.
    pub mailbox: Option<Mailbox>,
    /// How a check is made to expire.
    pub expiry: Expiry,
    own: Option<Own>,
}

pub(super) enum Expiry {
    ByClock(Arc<MovableClock>),
    ByWaiting,
    NotAtAll,
}

/// A server and its folder, both gone at the end.
struct Own {
    running: Running,
    shutdown: CancellationToken,
    _folder: PassingFolder,
}

impl Ground {
    pub(super) async fn own() -> Result<Self, Failure> {
        let folder = PassingFolder::make();
        let clock = Arc::new(MovableClock::default());
        let shutdown = CancellationToken::new();
        let (running, file) = dev::start_apart(&folder.0, clock.clone(), shutdown.clone()).await?;
        let text = fs::read(file)?;
        let profile: Profile = serde_json::from_slice(&text).map_err(|problem| Failure::Failed(problem.into()))?;
        let session = Session::passing(profile)?;
        let mailbox = Some(open_mailbox(&session).await?);
        let own = Some(Own { running, shutdown, _folder: folder });
        Ok(Ground { session, mailbox, expiry: Expiry::ByClock(clock), own })
    }

    pub(super) async fn of_profile(desk: &Desk, name: &ProfileName, slow: bool) -> Result<Self, Failure> {
        let session = Session::open(desk, &Identity { profile: Some(name.clone()) })?;
        // Nobody else can send a callback to this machine.
        let mailbox = if is_here(&session) { Some(open_mailbox(&session).await?) } else { None };
        let expiry = if slow { Expiry::ByWaiting } else { Expiry::NotAtAll };
        Ok(Ground { session, mailbox, expiry, own: None })
    }

    pub(super) async fn leave(self) {
        if let Some(own) = self.own {
            own.shutdown.cancel();
            own.running.finished().await;
        }
    }
}

/// A simulated number that nobody has used, with these last digits.
pub(super) fn number(suffix: &str) -> String {
    let random: [u8; 6] = (&SystemEntropy::default() as &dyn Entropy).bytes();
    let digits: String = random.iter().map(|byte| char::from(b'0' + byte % 10)).collect();
    format!("+9901{digits}{suffix}")
}

async fn open_mailbox(session: &Session) -> Result<Mailbox, Failure> {
    Mailbox::open(jwks(session)?).await
}

fn is_here(session: &Session) -> bool {
    match session.server.base_url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// The machine's clock, and how far it was put forward.
#[derive(Debug, Default)]
pub(super) struct MovableClock {
    ahead_millis: AtomicI64,
}

impl MovableClock {
    pub(super) fn advance(&self, seconds: i64) {
        self.ahead_millis.fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for MovableClock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead_millis.load(Ordering::SeqCst));
        SystemClock.now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }
}

/// A folder that is removed with all that is in it.
struct PassingFolder(PathBuf);

impl PassingFolder {
    /// `dev` makes it, and closes it to others.
    fn make() -> Self {
        let random: [u8; 8] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        let name = format!("ringtrue-selftest-{:016x}", u64::from_be_bytes(random));
        PassingFolder(std::env::temp_dir().join(name))
    }
}

impl Drop for PassingFolder {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        // What is left is the system's to clear away.
        let _ = fs::remove_dir_all(path);
    }
}
