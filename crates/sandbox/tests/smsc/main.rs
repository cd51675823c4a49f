//! The message centre over loopback sockets, with our own SMPP session as the receiver.
//!
//! Time stands still unless a test moves it. Tokio's paused clock alone would run ahead whenever everybody waits for
//! a socket, so it is held.

#![expect(clippy::unwrap_used, reason = "a test that cannot go on has failed")]

mod binding;
mod delivery;
mod faults;
mod long_texts;
mod observation;
mod stopping;

use std::{
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use ringtrue_sandbox::smsc::{Behaviour, Sms, Smsc, SmscConfig, Ticket};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, CommandStatus},
    session::{Answer, Application, BindError, Config, Ended, Fault, Incoming, Link, Session},
    text::DefaultAlphabet,
};
use tokio::{
    net::TcpStream,
    sync::{mpsc, oneshot},
    task::{JoinSet, spawn_blocking},
    time::advance,
};

const SECOND: Duration = Duration::from_secs(1);
const HANDSET: &str = "+990700900001";
const SERVICE: &str = "+990700900999";

/// Holds the clock: it does not move by itself while blocking work is under way.
///
/// A test that waits for something that never comes is let go after a while; then the clock runs, all patience ends,
/// and the test fails.
struct HeldClock {
    _held: Sender<()>,
}

impl HeldClock {
    fn new() -> Self {
        let (held, released) = channel::<()>();
        drop(spawn_blocking(move || released.recv_timeout(Duration::from_secs(20))));
        Self { _held: held }
    }
}

struct World {
    smsc: Smsc,
    _clock: HeldClock,
}

impl World {
    async fn start() -> Self {
        Self::with(SmscConfig::default()).await
    }

    async fn with(config: SmscConfig) -> Self {
        let clock = HeldClock::new();
        Self { smsc: Smsc::start(config).await.unwrap(), _clock: clock }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.smsc.address()).await.unwrap()
    }

    async fn try_bind(&self, mode: BindMode, system_id: &str, password: &str) -> Result<Esme, BindError> {
        let (mut session, link) = Session::new(self.connect().await, Config::default());
        let bind = Bind { system_id: system_id.into(), password: password.into(), ..Bind::default() };
        session.bind(mode, bind).await?;
        let (to_requests, requests) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        running.spawn(async move { session.run(&Desk { requests: to_requests }).await });
        Ok(Esme { link, requests, session: running })
    }

    /// Binds, and waits until the centre counts it.
    async fn bind(&self, mode: BindMode) -> Esme {
        let before = self.smsc.counts().binds;
        let esme = self.try_bind(mode, "sandbox", "sandbox").await.unwrap();
        self.smsc.observer().wait_until(|counts| counts.binds > before).await;
        esme
    }

    async fn receiver(&self) -> Esme {
        self.bind(BindMode::Receiver).await
    }

    fn send(&self, text: &str, behaviour: Behaviour) -> Ticket {
        self.smsc.send(Sms::new(HANDSET, SERVICE, text).behaving(behaviour)).unwrap()
    }

    /// Waits until so many attempts have failed, and lets the time pass until the next.
    async fn retry_after_setback(&self, setbacks: u64) {
        self.smsc.observer().wait_until(|counts| counts.setbacks == setbacks).await;
        advance(SECOND).await;
    }
}

/// A receiver whose answers the test gives.
struct Esme {
    link: Link,
    requests: mpsc::UnboundedReceiver<Received>,
    session: JoinSet<Result<Ended, Fault>>,
}

struct Desk {
    requests: mpsc::UnboundedSender<Received>,
}

/// A message that waits for its answer.
struct Received {
    request: Incoming,
    answer: oneshot::Sender<Answer>,
}

impl Application for Desk {
    async fn on_request(&self, request: Incoming) -> Answer {
        let (answer, answered) = oneshot::channel();
        if self.requests.send(Received { request, answer }).is_err() {
            return CommandStatus::SYSTEM_ERROR.into();
        }
        answered.await.unwrap_or(CommandStatus::SYSTEM_ERROR.into())
    }
}

impl Received {
    fn answer(self, status: CommandStatus) {
        let _ = self.answer.send(status.into());
    }
}

fn text(request: &Incoming) -> String {
    request.content().text(DefaultAlphabet::Gsm0338)
}

impl Esme {
    async fn receive(&mut self) -> Received {
        self.requests.recv().await.unwrap()
    }

    /// Receives a message and answers it.
    async fn answer(&mut self, status: CommandStatus) -> Incoming {
        let received = self.receive().await;
        let request = received.request.clone();
        received.answer(status);
        request
    }

    async fn take(&mut self) -> Incoming {
        self.answer(CommandStatus::OK).await
    }

    async fn take_all(&mut self, count: usize) -> Vec<Incoming> {
        let mut taken = vec![];
        for _ in 0..count {
            taken.push(self.take().await);
        }
        taken
    }

    fn has_nothing(&mut self) -> bool {
        self.requests.is_empty()
    }

    async fn ended(&mut self) -> Result<Ended, Fault> {
        self.session.join_next().await.unwrap().unwrap()
    }
}
