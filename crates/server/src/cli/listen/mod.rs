//! `ringtrue listen`: a receiver for callbacks, to develop with.
//!
//! It says of every callback what is in it, whether its signature is good, and if not, what differs. It needs no
//! database and no engine, only the public keys. What it receives is printed, numbers included, and kept nowhere.
//!
//! With a profile it loses nothing: see [`mod@catching_up`]. Then a repeated callback is answered and not shown. Otherwise it
//! is shown again, since seeing that is what one listens for.
//!
//! Deliberately absent: TLS.

mod catching_up;
mod endpoint;
mod exchange;
mod key_set;
mod mailbox;
mod reception;
mod report;
mod verdict;

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

use self::{
    catching_up::CatchingUp,
    key_set::KeySet,
    reception::Reception,
    report::{Event, Tally, say},
};
pub(super) use self::{
    endpoint::{Endpoint, NotAnEndpoint},
    exchange::Answer,
    mailbox::Mailbox,
};
use super::{
    arguments::ListenArguments,
    caller::{Ledger, Upstream},
    desk::Desk,
    failure::Failure,
    printer::Printer,
    signals::Signals,
};

const MOST_CONNECTIONS: usize = 64;
/// How long requests under way may take to end once we are told to stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// When the process has no file descriptors left, waiting helps and trying again at once does not.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

pub(super) async fn listen(desk: &Desk, arguments: ListenArguments) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let upstream = arguments.profile.as_ref().map(|profile| Upstream::open(desk, profile)).transpose()?;
    let upstream = upstream.map(Arc::new);
    let keys = match &upstream {
        Some(upstream) => KeySet::of(Arc::clone(upstream))?,
        None => KeySet::new(key_set_of(&arguments)?),
    };
    let ledger = arguments.profile.as_ref().map(|profile| Ledger::open(desk, profile, reception::now()));
    let ledger = ledger.transpose()?.map(Arc::new);
    let (listener, address) = bind(arguments.listen).await?;
    announce(desk.printer, &arguments, address, &keys).await?;

    let (sender, mut events) = mpsc::channel(MOST_CONNECTIONS);
    let reception = Arc::new(Reception {
        keys,
        mode: expected_mode(&arguments),
        port: address.port(),
        answer: arguments.answer,
        forward: arguments.forward,
        forwards_unverified: arguments.forward_unverified,
        ledger: ledger.clone(),
        events: sender,
    });
    // From here on callbacks can come: those that are asked for, too.
    let mut catching_up = pin!(catching_up(desk.printer, upstream, ledger.clone()));
    let enough = arguments.once.map_or(u64::MAX, |count| count.get().into());
    let tasks = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut desk = FrontDesk { printer: desk.printer, ledger, tally: Tally::default() };
    while desk.tally.callbacks() < enough {
        tokio::select! {
            () = signals.stop() => break,
            Some(event) = events.recv() => desk.take(event)?,
            ended = &mut catching_up => match ended? {},
            (stream, place) = accept(&listener, &places) => {
                let reception = Arc::clone(&reception);
                tasks.spawn(async move {
                    reception.serve(stream).await;
                    drop(place);
                });
            }
        }
    }
    drop((listener, reception));
    desk.finish(events).await
}

/// For ever, unless it fails.
async fn catching_up(
    printer: Printer,
    upstream: Option<Arc<Upstream>>,
    ledger: Option<Arc<Ledger>>,
) -> Result<Infallible, Failure> {
    match (upstream, ledger) {
        (Some(upstream), Some(ledger)) => CatchingUp::new(upstream, ledger, printer).run().await,
        _ => std::future::pending().await,
    }
}

/// Where callbacks are told of and booked, one after the other.
struct FrontDesk {
    printer: Printer,
    ledger: Option<Arc<Ledger>>,
    tally: Tally,
}

impl FrontDesk {
    /// A callback is answered only when it has been printed and booked.
    fn take(&mut self, mut event: Event) -> Result<(), Failure> {
        self.tally.take(self.printer, &event)?;
        if let Event::Callback(callback) = &mut event {
            if let (Some(ledger), Some(entry)) = (&self.ledger, callback.entry.take()) {
                ledger.record(entry)?;
            }
            if let Some(done) = callback.done.take() {
                // Whoever sent it may have gone.
                let _ = done.send(());
            }
        }
        Ok(())
    }

    /// Lets requests under way be answered: the channel closes with the last of them.
    async fn finish(mut self, mut events: mpsc::Receiver<Event>) -> Result<(), Failure> {
        let deadline = Instant::now() + FAREWELL;
        while let Ok(Some(event)) = timeout_at(deadline, events.recv()).await {
            self.take(event)?;
        }
        Ok(say(self.printer, &format!("\n{}", self.tally.summary()))?)
    }
}

async fn accept(listener: &TcpListener, places: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
    // The semaphore is never closed.
    let place = Arc::clone(places).acquire_owned().await.ok();
    loop {
        match listener.accept().await {
            Ok((stream, _)) => return (stream, place),
            Err(_) => sleep(AFTER_FAILED_ACCEPT).await,
        }
    }
}

async fn bind(address: SocketAddr) -> Result<(TcpListener, SocketAddr), Failure> {
    let listening = async {
        let listener = TcpListener::bind(address).await?;
        let address = listener.local_addr()?;
        Ok((listener, address))
    };
    listening.await.map_err(|problem: io::Error| {
        Failure::refused(
            format!("{address} cannot be listened on: {problem}"),
            "Choose another address: `--listen 127.0.0.1:0` takes a free port.",
        )
    })
}

async fn announce(
    printer: Printer,
    arguments: &ListenArguments,
    address: SocketAddr,
    keys: &KeySet,
) -> Result<(), Failure> {
    let from = keys.from();
    let known = match keys.fetch().await {
        Ok(known) => format!("{} from {from}", known.len()),
        Err(problem) => format!("none yet: {from}: {problem}. The first callback tries again."),
    };
    let target = arguments.forward.as_ref().filter(|to| to.has_target()).map(Endpoint::target);
    let target = target.unwrap_or_else(|| "/callbacks".to_owned());
    let mut text = format!("\n  callback_url   http://{}{target}\n  keys           {known}\n", reachable(address));
    if expected_mode(arguments) == Mode::Sandbox {
        text.push_str("  accepted       callbacks of live and of sandbox checks\n");
    }
    if let Some(to) = &arguments.forward {
        let which = if arguments.forward_unverified { ", without a valid signature too" } else { "" };
        let _ = writeln!(text, "  forwarded to   {to}{which}");
    }
    if let Some(profile) = &arguments.profile {
        let _ = writeln!(text, "  resumes for    the profile `{profile}`: what is missed is sent again");
    }
    text.push_str("  To stop        Ctrl+C\n");
    Ok(say(printer, &text)?)
}

/// The address by which this machine reaches a listener.
fn reachable(address: SocketAddr) -> SocketAddr {
    let ip = match address.ip() {
        ip if !ip.is_unspecified() => ip,
        ip if ip.is_ipv4() => Ipv4Addr::LOCALHOST.into(),
        _ => Ipv6Addr::LOCALHOST.into(),
    };
    SocketAddr::new(ip, address.port())
}

/// What we need of the `dev.json` of `ringtrue dev`.
#[derive(Deserialize)]
struct Ready {
    base_url: String,
}

/// `ringtrue dev` makes sandbox projects. For any other server, sandbox callbacks are refused unless asked for.
fn expected_mode(arguments: &ListenArguments) -> Mode {
    let is_dev = arguments.jwks.is_none() && arguments.profile.is_none();
    if is_dev || arguments.accept_sandbox { Mode::Sandbox } else { Mode::Live }
}

/// The key set that the command line names, or the one of `ringtrue dev`.
fn key_set_of(arguments: &ListenArguments) -> Result<Endpoint, Failure> {
    if let Some(jwks) = &arguments.jwks {
        return Ok(jwks.clone());
    }
    let path = arguments.data.join("dev.json");
    let refused = |problem: String| {
        Failure::refused(
            format!("where are the public keys? {}: {problem}", path.display()),
            "Start `ringtrue dev`, say where its folder is with --data DIR, or name a key set with --jwks URL.",
        )
    };
    let text = fs::read(&path).map_err(|problem| refused(problem.to_string()))?;
    let ready: Ready = serde_json::from_slice(&text).map_err(|problem| refused(problem.to_string()))?;
    let url = format!("{}/.well-known/jwks.json", ready.base_url);
    url.parse().map_err(|problem: endpoint::NotAnEndpoint| refused(problem.to_string()))
}
