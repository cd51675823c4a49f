//! Maintains one bind: connects, binds, runs the session and reconnects.

use std::{future::pending, io, time::Duration};

use ringtrue_smpp::{
    pdu::CommandStatus,
    session::{BindError, Link, Session, SessionError, UnboundBy},
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::{TlsConnector, client::TlsStream};

use super::{
    SharedState, SmppConfig, SmppTls,
    inbound::{BindHandler, InboundContext},
    lease::{BindLease, LeaseUser, UNBIND_TIMEOUT},
};

/// Why a bind attempt failed or a bind ended.
#[derive(Debug, Error)]
enum LinkFailure {
    #[error("connection failed: {0}")]
    Connect(io::Error),
    #[error("connection timed out")]
    ConnectTimedOut,
    #[error("TLS handshake failed: {0}")]
    Tls(io::Error),
    #[error("bind failed: {0}")]
    Bind(BindError),
    #[error("link lost: {0}")]
    Lost(SessionError),
    #[error("unbound by the SMSC")]
    Unbound,
    #[error("another node binds")]
    LeaseLost,
}

impl LinkFailure {
    /// Whether the SMSC rejects our credentials, so that retrying soon does not help.
    fn is_credentials_rejected(&self) -> bool {
        matches!(
            self,
            Self::Bind(BindError::Rejected(
                CommandStatus::INVALID_PASSWORD | CommandStatus::INVALID_SYSTEM_ID | CommandStatus::INVALID_SYSTEM_TYPE
            ))
        )
    }

    /// Whether retrying soon is pointless: the next attempt then waits for the maximum delay.
    fn is_persistent(&self) -> bool {
        let throttled = matches!(self, Self::Bind(BindError::Rejected(CommandStatus::THROTTLED)));
        throttled || self.is_credentials_rejected() || matches!(self, Self::Bind(BindError::Encode(_)))
    }
}

pub(super) async fn maintain_bind(shared: &SharedState, number: usize) {
    let SharedState { context, bind_status, entropy, .. } = shared;
    let SmppConfig { name, reconnect_min, reconnect_max, .. } = &*context.config;
    let mut backoff = Backoff::new(*reconnect_min, *reconnect_max);
    loop {
        let lease = shared.lease.as_ref().map(BindLease::add_user);
        if let Some(lease) = &lease
            && context.stop.run_until_cancelled(lease.wait_until_held()).await.is_none()
        {
            return;
        }
        let started_at = Instant::now();
        let Some(failure) = connect_and_run(shared, number, lease.as_ref()).await else { return };
        if matches!(failure, LinkFailure::LeaseLost) {
            continue;
        }
        // If no other bind of this node needs the lease, this releases it, so that another node can try during the
        // delay.
        drop(lease);
        let was_bound = matches!(failure, LinkFailure::Lost(_) | LinkFailure::Unbound);
        if was_bound && started_at.elapsed() >= *reconnect_max {
            backoff.reset();
        }
        let jitter = u16::from_ne_bytes(entropy.bytes());
        let delay = if failure.is_persistent() { backoff.longest_delay(jitter) } else { backoff.next_delay(jitter) };
        log_failure(name, number, &failure, delay, backoff.failures());
        // The timer starts before the failure is published, because tests advance the paused clock as soon as they see
        // the failure.
        let delay = sleep(delay);
        bind_status.record_failure(failure.to_string(), failure.is_credentials_rejected());
        if context.stop.run_until_cancelled(delay).await.is_none() {
            return;
        }
    }
}

/// Logs a failure. Warns only at the first, second, fourth, … consecutive failure; rejected credentials are always
/// errors.
fn log_failure(name: &str, number: usize, failure: &LinkFailure, delay: Duration, failures: u32) {
    let retry = delay.as_millis();
    if failure.is_credentials_rejected() {
        tracing::error!(
            connector.name = name, bind.number = number, bind.error = %failure, retry.millis = retry,
            "SMPP bind rejected: invalid credentials; retrying at the longest interval"
        );
    } else if failures.is_power_of_two() {
        tracing::warn!(
            connector.name = name, bind.number = number, bind.error = %failure, bind.failures = failures,
            retry.millis = retry, "SMPP bind failed"
        );
    } else {
        tracing::debug!(
            connector.name = name, bind.number = number, bind.error = %failure, bind.failures = failures,
            retry.millis = retry, "SMPP bind still failing"
        );
    }
}

/// Connects, binds, and runs the session to its end. `None`: the connector stopped.
async fn connect_and_run(shared: &SharedState, number: usize, lease: Option<&LeaseUser<'_>>) -> Option<LinkFailure> {
    let bound = tokio::select! {
        biased;
        () = wait_until_lease_lost(lease) => return Some(LinkFailure::LeaseLost),
        bound = shared.context.stop.run_until_cancelled(connect(shared)) => bound?,
    };
    match bound {
        Ok(BoundSession::Plain(session, link)) => run_session(shared, number, session, link, lease).await,
        Ok(BoundSession::Tls(session, link)) => run_session(shared, number, *session, link, lease).await,
        Err(failure) => Some(failure),
    }
}

/// Waits until the lease is lost. Without a lease, it waits for ever.
async fn wait_until_lease_lost(lease: Option<&LeaseUser<'_>>) {
    match lease {
        Some(lease) => lease.wait_until_lost().await,
        None => pending().await,
    }
}

/// A bound session over plain TCP or TLS.
enum BoundSession {
    Plain(Session<TcpStream>, Link),
    Tls(Box<Session<TlsStream<TcpStream>>>, Link),
}

async fn connect(shared: &SharedState) -> Result<BoundSession, LinkFailure> {
    let SmppConfig { host, port, tls, response_timeout, .. } = &*shared.context.config;
    let stream = timeout(*response_timeout, open_tcp(host, *port)).await;
    let stream = stream.map_err(|_| LinkFailure::ConnectTimedOut)?.map_err(LinkFailure::Connect)?;
    let Some(SmppTls { config, server_name }) = tls else {
        let (session, link) = bind(shared, stream).await?;
        return Ok(BoundSession::Plain(session, link));
    };
    let handshake = TlsConnector::from(config.clone()).connect(server_name.clone(), stream);
    let stream = timeout(*response_timeout, handshake).await;
    let stream = stream.map_err(|_| LinkFailure::ConnectTimedOut)?.map_err(LinkFailure::Tls)?;
    let (session, link) = bind(shared, stream).await?;
    Ok(BoundSession::Tls(Box::new(session), link))
}

async fn bind<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &SharedState,
    stream: S,
) -> Result<(Session<S>, Link), LinkFailure> {
    let config = &shared.context.config;
    let (mut session, link) = Session::new(stream, config.session_config());
    let (mode, request) = config.bind_request();
    session.bind(mode, request).await.map_err(LinkFailure::Bind)?;
    Ok((session, link))
}

async fn open_tcp(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Responses are small; Nagle's algorithm would only delay them.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn run_session<S: AsyncRead + AsyncWrite + Unpin>(
    shared: &SharedState,
    number: usize,
    session: Session<S>,
    link: Link,
    lease: Option<&LeaseUser<'_>>,
) -> Option<LinkFailure> {
    let context: &InboundContext = &shared.context;
    let bind_up = shared.bind_status.mark_up();
    tracing::info!(connector.name = %context.config.name, bind.number = number, "SMPP bind up");

    let handler = BindHandler(context);
    let unbind_on_stop = async {
        context.stop.cancelled().await;
        // The timeout covers both steps: pending deliveries are answered, and the SMSC responds to the unbind.
        let unbind_timeout = context.config.answer_timeout + context.config.response_timeout;
        let _ = timeout(unbind_timeout, link.unbind()).await;
    };
    let unbind_on_lease_loss = async {
        wait_until_lease_lost(lease).await;
        // The timeout is short, because another node may bind soon.
        let _ = timeout(UNBIND_TIMEOUT, link.unbind()).await;
    };
    let ended = tokio::select! {
        biased;
        ended = session.run(&handler) => ended,
        () = unbind_on_lease_loss => Ok(UnboundBy::Us),
        () = unbind_on_stop => Ok(UnboundBy::Us),
    };
    drop(bind_up);
    match ended {
        Ok(UnboundBy::Us) if context.stop.is_cancelled() => None,
        Ok(UnboundBy::Us) => Some(LinkFailure::LeaseLost),
        Ok(UnboundBy::Peer) => Some(LinkFailure::Unbound),
        Err(fault) => Some(LinkFailure::Lost(fault)),
    }
}

/// Delay before a reconnect. It doubles with every consecutive failure, from `min_delay` to `max_delay`.
#[derive(Clone, Copy, Debug)]
pub(super) struct Backoff {
    min_delay: Duration,
    max_delay: Duration,
    failures: u32,
}

impl Backoff {
    pub(super) fn new(min_delay: Duration, max_delay: Duration) -> Self {
        Self { min_delay: min_delay.min(max_delay), max_delay, failures: 0 }
    }

    pub(super) fn reset(&mut self) {
        self.failures = 0;
    }

    /// Returns the delay before the next attempt. `jitter` spreads it over its upper half, so that binds lost together
    /// do not reconnect together.
    pub(super) fn next_delay(&mut self, jitter: u16) -> Duration {
        let doubled = self.min_delay.saturating_mul(2_u32.saturating_pow(self.failures));
        self.failures = self.failures.saturating_add(1);
        apply_jitter(doubled.min(self.max_delay), jitter)
    }

    /// Returns the longest delay, for errors that will not go away soon.
    pub(super) fn longest_delay(&mut self, jitter: u16) -> Duration {
        self.failures = self.failures.saturating_add(1);
        apply_jitter(self.max_delay, jitter)
    }

    pub(super) fn failures(&self) -> u32 {
        self.failures
    }
}

fn apply_jitter(delay: Duration, jitter: u16) -> Duration {
    delay / 2 + delay.mul_f64(f64::from(jitter) / f64::from(u16::MAX) / 2.0)
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECOND: Duration = Duration::from_secs(1);

    #[test]
    fn delays_double_up_to_the_maximum() {
        let mut backoff = Backoff::new(SECOND, 60 * SECOND);
        let delays: Vec<_> = (0..8).map(|_| backoff.next_delay(u16::MAX).as_secs()).collect();
        assert_eq!(delays, [1, 2, 4, 8, 16, 32, 60, 60]);
        backoff.reset();
        assert_eq!(backoff.next_delay(u16::MAX), SECOND);
        assert_eq!(backoff.longest_delay(u16::MAX), 60 * SECOND);
        assert_eq!(backoff.failures(), 2);
    }

    #[test]
    fn jitter_is_at_most_half_of_the_delay() {
        let delay = |jitter| Backoff::new(8 * SECOND, 60 * SECOND).next_delay(jitter);
        assert_eq!(delay(0), 4 * SECOND);
        assert!(delay(1) > delay(0) && delay(u16::MAX / 2) < delay(u16::MAX));
    }

    #[test]
    fn failure_count_does_not_overflow() {
        let mut backoff = Backoff { failures: u32::MAX, ..Backoff::new(SECOND, 60 * SECOND) };
        assert_eq!(backoff.next_delay(u16::MAX), 60 * SECOND);
    }
}
