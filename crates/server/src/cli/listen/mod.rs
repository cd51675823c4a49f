//! `ringtrue listen`: a receiver for callbacks, to develop with.
//!
//! It says of every callback what is in it, whether its signature is good, and if not, what differs. It needs no
//! database and no engine, only the public keys. What it receives is printed, numbers included, and kept nowhere.
//!
//! Deliberately absent: TLS, and doing without repetitions. A repeated callback is shown again, since seeing that is
//! what one listens for.

mod endpoint;
mod exchange;
mod key_set;
mod mailbox;
mod reception;
mod report;
mod verdict;

use std::{
    fmt::Write as _,
    fs, io,
    net::{Ipv4Addr, Ipv6Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use serde::Deserialize;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{OwnedSemaphorePermit, Semaphore, mpsc},
    time::{Instant, sleep, timeout_at},
};
use tokio_util::task::TaskTracker;

pub(super) use self::{endpoint::Endpoint, mailbox::Mailbox};
use self::{
    key_set::KeySet,
    reception::Reception,
    report::{Event, Tally, say},
};
use super::{arguments::ListenArguments, desk::Desk, failure::Failure, printer::Printer, signals::Signals};

const MOST_CONNECTIONS: usize = 64;
/// How long requests under way may take to end once we are told to stop.
const FAREWELL: Duration = Duration::from_secs(2);
/// When the process has no file descriptors left, waiting helps and trying again at once does not.
const AFTER_FAILED_ACCEPT: Duration = Duration::from_millis(50);

pub(super) async fn listen(desk: &Desk, arguments: ListenArguments) -> Result<(), Failure> {
    let mut signals = Signals::listen().map_err(|problem| Failure::Failed(problem.into()))?;
    let keys = KeySet::new(key_set_of(&arguments)?);
    let (listener, address) = bind(arguments.listen).await?;
    announce(desk.printer, &arguments, address, &keys).await?;

    let (sender, mut events) = mpsc::channel(MOST_CONNECTIONS);
    let reception = Arc::new(Reception {
        keys,
        port: address.port(),
        answer: arguments.answer,
        forward: arguments.forward,
        events: sender,
    });
    let enough = arguments.once.map_or(u64::MAX, |count| count.get().into());
    let tasks = TaskTracker::new();
    let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
    let mut tally = Tally::default();
    while tally.callbacks() < enough {
        tokio::select! {
            () = signals.stop() => break,
            Some(event) = events.recv() => tally.take(desk.printer, &event)?,
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
    finish(desk.printer, events, tally).await
}

/// Lets requests under way be answered: the channel closes with the last of them.
async fn finish(printer: Printer, mut events: mpsc::Receiver<Event>, mut tally: Tally) -> Result<(), Failure> {
    let deadline = Instant::now() + FAREWELL;
    while let Ok(Some(event)) = timeout_at(deadline, events.recv()).await {
        tally.take(printer, &event)?;
    }
    Ok(say(printer, &format!("\n{}", tally.summary()))?)
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
    if let Some(to) = &arguments.forward {
        let _ = writeln!(text, "  forwarded to   {to}");
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
