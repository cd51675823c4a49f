//! One bind: made, kept, and made again.

use std::{io, time::Duration};

use ringtrue_smpp::{
    pdu::CommandStatus,
    session::{BindError, Ended, Fault, Session},
};
use thiserror::Error;
use tokio::{
    io::{AsyncRead, AsyncWrite},
    net::TcpStream,
    time::{Instant, sleep, timeout},
};
use tokio_rustls::TlsConnector;

use super::{
    SmppConfig, Tls,
    back_off::BackOff,
    connector::Running,
    desk::{Desk, Line},
};

/// Why there is no bind, or no longer.
#[derive(Debug, Error)]
enum Failure {
    #[error("cannot connect: {0}")]
    Connect(io::Error),
    #[error("cannot connect in time")]
    ConnectTimedOut,
    #[error("no TLS: {0}")]
    Tls(io::Error),
    #[error("cannot bind: {0}")]
    Bind(BindError),
    #[error("the link was lost: {0}")]
    Lost(Fault),
    #[error("the message centre unbound")]
    Unbound,
}

impl Failure {
    /// The message centre does not know us: the same attempt will have the same answer.
    fn is_refusal(&self) -> bool {
        matches!(
            self,
            Self::Bind(BindError::Refused(
                CommandStatus::INVALID_PASSWORD | CommandStatus::INVALID_SYSTEM_ID | CommandStatus::INVALID_SYSTEM_TYPE
            ))
        )
    }

    /// There is no hurry to try again.
    fn is_lasting(&self) -> bool {
        let throttled = matches!(self, Self::Bind(BindError::Refused(CommandStatus::THROTTLED)));
        throttled || self.is_refusal() || matches!(self, Self::Bind(BindError::Unwritable(_)))
    }
}

/// Keeps a bind up until the connector stops.
pub(super) async fn keep(running: &Running, number: usize) {
    let Running { desk, presence, entropy, .. } = running;
    let SmppConfig { name, reconnect_min, reconnect_max, .. } = &*desk.config;
    let mut back_off = BackOff::new(*reconnect_min, *reconnect_max);
    loop {
        let began = Instant::now();
        let Some(failure) = make(running, number).await else { return };
        let was_bound = matches!(failure, Failure::Lost(_) | Failure::Unbound);
        if was_bound && began.elapsed() >= *reconnect_max {
            back_off.reset();
        }
        let chance = u16::from_ne_bytes(entropy.bytes());
        let pause = if failure.is_lasting() { back_off.longest(chance) } else { back_off.next(chance) };
        report(name, number, &failure, pause, back_off.failures());
        // Before anyone learns of the failure, so that who moves the clock on hearing of it moves it for us too.
        let pause = sleep(pause);
        presence.failed(failure.to_string(), failure.is_refusal());
        if desk.stop.run_until_cancelled(pause).await.is_none() {
            return;
        }
    }
}

/// The first failure in a row, the second, the fourth and so on are worth a warning.
fn report(name: &str, number: usize, failure: &Failure, pause: Duration, failures: u32) {
    let retry = pause.as_millis();
    if failure.is_refusal() {
        tracing::error!(
            connector.name = name, bind.number = number, bind.error = %failure, retry.millis = retry,
            "the message centre refuses our credentials; trying again at the longest interval"
        );
    } else if failures.is_power_of_two() {
        tracing::warn!(
            connector.name = name, bind.number = number, bind.error = %failure, bind.failures = failures,
            retry.millis = retry, "there is no bind"
        );
    } else {
        tracing::debug!(
            connector.name = name, bind.number = number, bind.error = %failure, bind.failures = failures,
            retry.millis = retry, "there is still no bind"
        );
    }
}

/// Connects, binds, and runs the session to its end. None when the connector has stopped.
async fn make(running: &Running, number: usize) -> Option<Failure> {
    let stop = &running.desk.stop;
    let SmppConfig { host, port, tls, response_timeout, .. } = &*running.desk.config;
    let connect = timeout(*response_timeout, connect(host, *port));
    let stream = match stop.run_until_cancelled(connect).await? {
        Ok(Ok(stream)) => stream,
        Ok(Err(error)) => return Some(Failure::Connect(error)),
        Err(_) => return Some(Failure::ConnectTimedOut),
    };
    let Some(Tls { config, server_name }) = tls else { return run(running, number, stream).await };
    let handshake = TlsConnector::from(config.clone()).connect(server_name.clone(), stream);
    match stop.run_until_cancelled(timeout(*response_timeout, handshake)).await? {
        Ok(Ok(stream)) => run(running, number, stream).await,
        Ok(Err(error)) => Some(Failure::Tls(error)),
        Err(_) => Some(Failure::ConnectTimedOut),
    }
}

async fn connect(host: &str, port: u16) -> io::Result<TcpStream> {
    let stream = TcpStream::connect((host, port)).await?;
    // Small answers that the peer waits for: the usual gathering only makes them late.
    stream.set_nodelay(true)?;
    Ok(stream)
}

async fn run<S: AsyncRead + AsyncWrite + Unpin>(running: &Running, number: usize, stream: S) -> Option<Failure> {
    let desk: &Desk = &running.desk;
    let (mut session, link) = Session::new(stream, desk.config.session());
    let (mode, bind) = desk.config.bind();
    if let Err(error) = desk.stop.run_until_cancelled(session.bind(mode, bind)).await? {
        return Some(Failure::Bind(error));
    }
    let up = running.presence.up();
    tracing::info!(connector.name = %desk.config.name, bind.number = number, "bound to the message centre");

    let application = Line::new(desk, link.clone());
    let farewell = async {
        desk.stop.cancelled().await;
        // What is with the inbox is answered first, and then the message centre answers.
        let patience = desk.config.answer_timeout + desk.config.response_timeout;
        let _ = timeout(patience, link.unbind()).await;
    };
    let ended = tokio::select! {
        biased;
        ended = session.run(&application) => ended,
        () = farewell => Ok(Ended::ByUs),
    };
    drop(up);
    match ended {
        Ok(Ended::ByUs) => None,
        Ok(Ended::ByPeer) => Some(Failure::Unbound),
        Err(fault) => Some(Failure::Lost(fault)),
    }
}
