//! `ringtrue listen`: a callback receiver for development.
//!
//! Prints every callback, verifies its signature and explains failures. Needs only the public keys, no database or
//! engine. Callbacks are printed with phone numbers, and their bodies are not stored.
//!
//! With a profile, missed callbacks are replayed (see [`mod@replay`]) and duplicates are acknowledged without being
//! printed. Without one, duplicates are printed, since retries are what developers want to see.
//!
//! TLS is deliberately not supported.

mod background_receiver;
mod http_client;
mod key_set;
mod receiver;
mod replay;
mod report;
mod secure_url;
mod verification;

use std::{
    convert::Infallible,
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    pin::pin,
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::tenancy::Mode;
use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::task::TaskTracker;

pub(super) use self::{
    background_receiver::BackgroundReceiver,
    http_client::HttpResponse,
    secure_url::{InvalidSecureUrl, SecureUrl},
};
use self::{
    key_set::KeySet,
    receiver::CallbackReceiver,
    replay::MissedCallbackReplay,
    report::{CallbackCounts, ListenEvent, print_status},
};
use super::{
    arguments::ListenArguments,
    client::{ListenJournal, Upstream},
    context::CommandContext,
    error::CliError,
    printer::Printer,
    signals::Signals,
};

const MAX_CONNECTIONS: usize = 64;
/// Time for requests in flight to finish after a stop signal.
const DRAIN_TIMEOUT: Duration = Duration::from_secs(2);
/// Avoids a busy loop when the process has run out of file descriptors.
const ACCEPT_RETRY_DELAY: Duration = Duration::from_millis(50);

pub(super) async fn listen(context: &CommandContext, arguments: ListenArguments) -> Result<(), CliError> {
    let mut signals = Signals::listen().map_err(|error| CliError::Other(error.into()))?;
    let upstream = arguments.profile.as_ref().map(|profile| Upstream::open(context, profile)).transpose()?;
    let upstream = upstream.map(Arc::new);
    let keys = match &upstream {
        Some(upstream) => KeySet::for_upstream(Arc::clone(upstream))?,
        None => KeySet::new(key_set_url(&arguments)?),
    };
    let journal = arguments.profile.as_ref().map(|profile| ListenJournal::open(context, profile, receiver::now()));
    let journal = journal.transpose()?.map(Arc::new);
    let (listener, address) = bind(arguments.listen).await?;
    print_startup(context.printer, &arguments, address, &keys).await?;

    let (sender, mut events) = mpsc::channel(MAX_CONNECTIONS);
    let receiver = Arc::new(CallbackReceiver {
        keys,
        mode: expected_mode(&arguments),
        port: address.port(),
        response_status: arguments.answer,
        forward: arguments.forward,
        forward_unverified: arguments.forward_unverified,
        journal: journal.clone(),
        events: sender,
    });
    // The listener is bound, so resends can be requested.
    let mut replay = pin!(replay_missed(context.printer, upstream, journal.clone()));
    let max_callbacks = arguments.once.map_or(u64::MAX, |count| count.get().into());
    let tasks = TaskTracker::new();
    let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
    let mut sink = EventSink { printer: context.printer, journal, counts: CallbackCounts::default() };
    while sink.counts.callbacks() < max_callbacks {
        tokio::select! {
            () = signals.wait_for_stop() => break,
            Some(event) = events.recv() => sink.handle(event)?,
            ended = &mut replay => match ended? {},
            (stream, permit) = accept(&listener, &permits) => {
                let receiver = Arc::clone(&receiver);
                tasks.spawn(async move {
                    receiver.serve(stream).await;
                    drop(permit);
                });
            }
        }
    }
    drop((listener, receiver));
    sink.drain(events).await
}

/// Never returns without a profile.
async fn replay_missed(
    printer: Printer,
    upstream: Option<Arc<Upstream>>,
    journal: Option<Arc<ListenJournal>>,
) -> Result<Infallible, CliError> {
    match (upstream, journal) {
        (Some(upstream), Some(journal)) => MissedCallbackReplay::new(upstream, journal, printer).run().await,
        _ => std::future::pending().await,
    }
}

/// Prints and journals callbacks, one at a time.
struct EventSink {
    printer: Printer,
    journal: Option<Arc<ListenJournal>>,
    counts: CallbackCounts,
}

impl EventSink {
    /// Prints and journals a callback before its response is sent.
    fn handle(&mut self, mut event: ListenEvent) -> Result<(), CliError> {
        self.counts.report(self.printer, &event)?;
        if let ListenEvent::Callback(callback) = &mut event {
            if let (Some(journal), Some(entry)) = (&self.journal, callback.entry.take()) {
                journal.record(entry)?;
            }
            if let Some(journaled) = callback.journaled.take() {
                // The client may have disconnected.
                let _ = journaled.send(());
            }
        }
        Ok(())
    }

    /// Waits for requests in flight: the channel closes with the last of them.
    async fn drain(mut self, mut events: mpsc::Receiver<ListenEvent>) -> Result<(), CliError> {
        let deadline = Instant::now() + DRAIN_TIMEOUT;
        while let Ok(Some(event)) = timeout_at(deadline, events.recv()).await {
            self.handle(event)?;
        }
        Ok(print_status(self.printer, &format!("\n{}", self.counts.summary()))?)
    }
}

async fn accept(listener: &TcpListener, permits: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let permit = Arc::clone(permits).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, permit),
            Err(_) => sleep(ACCEPT_RETRY_DELAY).await,
        }
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), CliError> {
    let listener = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listener.await.map_err(|error: io::Error| {
        CliError::with_hint(
            format!("failed to listen on {address}: {error}"),
            "Use another address: `--listen 127.0.0.1:0` picks a free port.",
        )
    })
}

async fn print_startup(
    printer: Printer,
    arguments: &ListenArguments,
    address: SocketAddr,
    keys: &KeySet,
) -> Result<(), CliError> {
    let url = keys.url();
    let loaded = match keys.fetch().await {
        Ok(keys) => format!("{} from {url}", keys.len()),
        Err(error) => format!("none yet: {url}: {error}. Retrying at the first callback."),
    };
    let target = arguments.forward.as_ref().filter(|to| to.has_path()).map(SecureUrl::request_target);
    let target = target.unwrap_or_else(|| "/callbacks".to_owned());
    let mut text =
        format!("\n  callback_url   http://{}{target}\n  keys           {loaded}\n", reachable_address(address));
    if expected_mode(arguments) == Mode::Sandbox {
        text.push_str("  accepted       callbacks of live and sandbox checks\n");
    }
    if let Some(to) = &arguments.forward {
        let which = if arguments.forward_unverified { ", including invalid signatures" } else { "" };
        let _ = writeln!(text, "  forwarded to   {to}{which}");
    }
    if let Some(profile) = &arguments.profile {
        let _ = writeln!(text, "  resumes        profile `{profile}`: missed callbacks are resent");
    }
    text.push_str("  To stop        Ctrl+C\n");
    Ok(print_status(printer, &text)?)
}

/// Replaces an unspecified address with the loopback address.
fn reachable_address(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        ip if ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// Part of the `dev.json` of `ringtrue dev`.
#[derive(Deserialize)]
struct DevFile {
    base_url: String,
}

/// `ringtrue dev` has sandbox projects only. For other servers, sandbox callbacks need `--accept-sandbox`.
fn expected_mode(arguments: &ListenArguments) -> Mode {
    let is_dev = arguments.jwks.is_none() && arguments.profile.is_none();
    if is_dev || arguments.accept_sandbox { Mode::Sandbox } else { Mode::Live }
}

/// Uses `--jwks`, or the server of `ringtrue dev`.
fn key_set_url(arguments: &ListenArguments) -> Result<SecureUrl, CliError> {
    if let Some(jwks) = &arguments.jwks {
        return Ok(jwks.clone());
    }
    let path = arguments.data.join("dev.json");
    let not_found = |error: String| {
        CliError::with_hint(
            format!("cannot locate the public keys: {}: {error}", path.display()),
            "Start `ringtrue dev`, set its data directory with --data DIR, or set a key set with --jwks URL.",
        )
    };
    let text = fs::read(&path).map_err(|error| not_found(error.to_string()))?;
    let dev_file: DevFile = serde_json::from_slice(&text).map_err(|error| not_found(error.to_string()))?;
    let jwks_url = format!("{}/.well-known/jwks.json", dev_file.base_url);
    jwks_url.parse().map_err(|error: secure_url::InvalidSecureUrl| not_found(error.to_string()))
}
