//! Server under test: a temporary one, or the server of a profile.

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
        client::{
            api_session::ApiSession,
            arguments::ProfileOption,
            profile::{Profile, ProfileName},
            upstream::jwks_url,
        },
        context::CommandContext,
        dev,
        error::CliError,
        listen::BackgroundReceiver,
    },
    wiring::RunningNode,
};

pub(super) struct SelftestFixture {
    pub session: ApiSession,
    /// `None`: the server cannot reach this machine.
    pub receiver: Option<BackgroundReceiver>,
    pub expiry: ExpiryMethod,
    own_server: Option<OwnServer>,
}

pub(super) enum ExpiryMethod {
    AdvanceClock(Arc<AdjustableClock>),
    Wait,
    Skip,
}

struct OwnServer {
    running: RunningNode,
    shutdown: CancellationToken,
    _dir: TemporaryDir,
}

impl SelftestFixture {
    pub(super) async fn with_own_server() -> Result<Self, CliError> {
        let dir = TemporaryDir::new();
        let clock = Arc::new(AdjustableClock::default());
        let shutdown = CancellationToken::new();
        let (running, file) = dev::start_temporary(&dir.0, clock.clone(), shutdown.clone()).await?;
        let text = fs::read(file)?;
        let profile: Profile = serde_json::from_slice(&text).map_err(|error| CliError::Other(error.into()))?;
        let session = ApiSession::ephemeral(profile)?;
        let receiver = Some(open_receiver(&session).await?);
        let own_server = Some(OwnServer { running, shutdown, _dir: dir });
        Ok(SelftestFixture { session, receiver, expiry: ExpiryMethod::AdvanceClock(clock), own_server })
    }

    pub(super) async fn for_profile(
        context: &CommandContext,
        name: &ProfileName,
        slow: bool,
    ) -> Result<Self, CliError> {
        let session = ApiSession::open(context, &ProfileOption { profile: Some(name.clone()) })?;
        // The receiver listens on loopback, which only a local server can reach.
        let receiver = if is_local_server(&session) { Some(open_receiver(&session).await?) } else { None };
        let expiry = if slow { ExpiryMethod::Wait } else { ExpiryMethod::Skip };
        Ok(SelftestFixture { session, receiver, expiry, own_server: None })
    }

    pub(super) async fn shut_down(self) {
        if let Some(server) = self.own_server {
            server.shutdown.cancel();
            server.running.wait_until_stopped().await;
        }
    }
}

/// Returns a random simulated number with these last digits.
pub(super) fn random_number(suffix: &str) -> String {
    let random: [u8; 6] = (&SystemEntropy::default() as &dyn Entropy).bytes();
    let digits: String = random.iter().map(|byte| char::from(b'0' + byte % 10)).collect();
    format!("+9901{digits}{suffix}")
}

async fn open_receiver(session: &ApiSession) -> Result<BackgroundReceiver, CliError> {
    BackgroundReceiver::open(jwks_url(session)?).await
}

fn is_local_server(session: &ApiSession) -> bool {
    match session.client.base_url.host() {
        Some(Host::Ipv4(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Ipv6(ip)) => IpAddr::from(ip).is_loopback(),
        Some(Host::Domain(name)) => name == "localhost",
        None => false,
    }
}

/// System clock with an adjustable offset.
#[derive(Debug, Default)]
pub(super) struct AdjustableClock {
    ahead_millis: AtomicI64,
}

impl AdjustableClock {
    pub(super) fn advance(&self, seconds: i64) {
        self.ahead_millis.fetch_add(seconds.saturating_mul(1_000), Ordering::SeqCst);
    }
}

impl Clock for AdjustableClock {
    fn now(&self) -> Timestamp {
        let ahead = SignedDuration::from_millis(self.ahead_millis.load(Ordering::SeqCst));
        SystemClock.now().checked_add(ahead).unwrap_or(Timestamp::MAX)
    }
}

/// Directory that is deleted on drop.
struct TemporaryDir(PathBuf);

impl TemporaryDir {
    /// Only chooses the path: `dev` creates the directory with private permissions.
    fn new() -> Self {
        let random: [u8; 8] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        let name = format!("ringtrue-selftest-{:016x}", u64::from_be_bytes(random));
        TemporaryDir(std::env::temp_dir().join(name))
    }
}

impl Drop for TemporaryDir {
    fn drop(&mut self) {
        let path: &Path = &self.0;
        // Best effort: it is below the system's temporary directory.
        let _ = fs::remove_dir_all(path);
    }
}
