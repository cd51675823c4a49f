//! Tests of the simulated SMSC over loopback sockets, with our SMPP session as the receiver.
//!
//! Only the test advances the clock. Tokio's paused clock alone would advance by itself while all tasks wait for a
//! socket, which [`HeldClock`] prevents.

#![expect(clippy::unwrap_used, reason = "tests report failures by panics")]

mod bind;
mod concatenation;
mod delivery;
mod faults;
mod shutdown;

use std::{
    sync::mpsc::{Sender, channel},
    time::Duration,
};

use ringtrue_sandbox::smsc::{DeliveryHandle, FaultScript, Sms, Smsc, SmscConfig};
use ringtrue_smpp::{
    pdu::{Bind, BindMode, CommandStatus},
    session::{
        BindError, Link, MessageRequest, MessageResponse, RequestHandler, Session, SessionConfig, SessionError,
        UnboundBy,
    },
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

/// Keeps a blocking task running: meanwhile, Tokio's paused clock does not advance by itself.
///
/// The task ends after a while, so that a test that hangs runs into its timeouts and fails.
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

struct Fixture {
    smsc: Smsc,
    _clock: HeldClock,
}

impl Fixture {
    async fn start() -> Self {
        Self::with_config(SmscConfig::default()).await
    }

    async fn with_config(config: SmscConfig) -> Self {
        let clock = HeldClock::new();
        Self { smsc: Smsc::start(config).await.unwrap(), _clock: clock }
    }

    async fn connect(&self) -> TcpStream {
        TcpStream::connect(self.smsc.address()).await.unwrap()
    }

    async fn try_bind(&self, mode: BindMode, system_id: &str, password: &str) -> Result<Esme, BindError> {
        let (mut session, link) = Session::new(self.connect().await, SessionConfig::default());
        let bind = Bind { system_id: system_id.into(), password: password.into(), ..Bind::default() };
        session.bind(mode, bind).await?;
        let (to_requests, requests) = mpsc::unbounded_channel();
        let mut running = JoinSet::new();
        running.spawn(async move { session.run(&TestHandler { requests: to_requests }).await });
        Ok(Esme { link, requests, session: running })
    }

    /// Binds, and waits until the SMSC counts the bind.
    async fn bind(&self, mode: BindMode) -> Esme {
        let before = self.smsc.counts().binds;
        let esme = self.try_bind(mode, "sandbox", "sandbox").await.unwrap();
        self.smsc.observer().wait_until(|counts| counts.binds > before).await;
        esme
    }

    async fn receiver(&self) -> Esme {
        self.bind(BindMode::Receiver).await
    }

    fn send(&self, text: &str, faults: FaultScript) -> DeliveryHandle {
        self.smsc.send(Sms::new(HANDSET, SERVICE, text).with_faults(faults)).unwrap()
    }

    /// Waits until this number of attempts has failed, then advances the clock to the retry.
    async fn retry_after_failure(&self, failures: u64) {
        self.smsc.observer().wait_until(|counts| counts.failed_attempts == failures).await;
        advance(SECOND).await;
    }
}

/// A receiver whose responses the test determines.
struct Esme {
    link: Link,
    requests: mpsc::UnboundedReceiver<ReceivedRequest>,
    session: JoinSet<Result<UnboundBy, SessionError>>,
}

struct TestHandler {
    requests: mpsc::UnboundedSender<ReceivedRequest>,
}

/// A received message request that has no response yet.
struct ReceivedRequest {
    request: MessageRequest,
    response_sender: oneshot::Sender<MessageResponse>,
}

impl RequestHandler for TestHandler {
    async fn on_request(&self, request: MessageRequest) -> MessageResponse {
        let (response_sender, response) = oneshot::channel();
        if self.requests.send(ReceivedRequest { request, response_sender }).is_err() {
            return CommandStatus::SYSTEM_ERROR.into();
        }
        response.await.unwrap_or(CommandStatus::SYSTEM_ERROR.into())
    }
}

impl ReceivedRequest {
    fn respond(self, status: CommandStatus) {
        let _ = self.response_sender.send(status.into());
    }
}

fn text(request: &MessageRequest) -> String {
    request.content().decode_text(DefaultAlphabet::Gsm0338)
}

impl Esme {
    async fn receive(&mut self) -> ReceivedRequest {
        self.requests.recv().await.unwrap()
    }

    /// Receives a message and responds.
    async fn respond(&mut self, status: CommandStatus) -> MessageRequest {
        let received = self.receive().await;
        let request = received.request.clone();
        received.respond(status);
        request
    }

    async fn accept(&mut self) -> MessageRequest {
        self.respond(CommandStatus::OK).await
    }

    async fn accept_all(&mut self, count: usize) -> Vec<MessageRequest> {
        let mut accepted = vec![];
        for _ in 0..count {
            accepted.push(self.accept().await);
        }
        accepted
    }

    fn is_idle(&mut self) -> bool {
        self.requests.is_empty()
    }

    async fn wait_for_end(&mut self) -> Result<UnboundBy, SessionError> {
        self.session.join_next().await.unwrap().unwrap()
    }
}
