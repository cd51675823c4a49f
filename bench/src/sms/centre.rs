//! A message centre that does as little as it can: it shares the machine with what it measures.
//!
//! Messages are written down before they are needed. One client binds; it is sent as many messages at a time as the
//! window allows, and of its answers only the status is looked at.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use ringtrue_smpp::pdu::{
    self, Address, BindReply, Body, CommandId, CommandStatus, Header, MAX_PDU, Pdu, Reply, Request, ShortMessage,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinSet,
};

/// What a handset sends.
pub struct Sms {
    pub from: String,
    pub to: String,
    pub text: String,
}

/// Stops when it goes out of scope.
pub struct Centre {
    pub address: SocketAddr,
    rounds: mpsc::Sender<Round>,
    bound: Option<oneshot::Receiver<()>>,
    task: JoinSet<anyhow::Result<()>>,
}

/// Messages, and whom to tell when all were taken.
struct Round {
    messages: Vec<Bytes>,
    done: oneshot::Sender<()>,
}

impl Centre {
    pub async fn start(window: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let ((rounds, next), (is_bound, bound)) = (mpsc::channel(1), oneshot::channel());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client =
                Client { stream, received: BytesMut::new(), to_send: BytesMut::new(), is_bound: Some(is_bound) };
            client.serve(next, window).await
        });
        Ok(Centre { address, rounds, bound: Some(bound), task })
    }

    /// Until a client has bound.
    pub async fn bound(&mut self) -> anyhow::Result<()> {
        self.bound.take().context("this was waited for already")?.await.context("nobody binds")
    }

    /// Until the client has taken the last one.
    pub async fn deliver(&mut self, messages: Vec<Bytes>) -> anyhow::Result<()> {
        let (done, all) = oneshot::channel();
        let is_sent = self.rounds.send(Round { messages, done }).await.is_ok();
        if is_sent && all.await.is_ok() {
            return Ok(());
        }
        self.task.join_next().await.context("the message centre has stopped")??
    }
}

/// The SMS as they go over the wire. They are in the alphabet that needs no other name.
pub fn written_down(messages: &[Sms]) -> anyhow::Result<Vec<Bytes>> {
    let mut sequence = 0;
    let write = |sms: &Sms| {
        sequence += 1;
        let message = ShortMessage {
            source: Address::international(sms.from.trim_start_matches('+')),
            destination: Address::international(sms.to.trim_start_matches('+')),
            short_message: sms.text.clone().into_bytes(),
            ..ShortMessage::default()
        };
        let mut written = BytesMut::new();
        Pdu::request(sequence, Request::DeliverSm(message)).encode(&mut written)?;
        Ok(written.freeze())
    };
    messages.iter().map(write).collect()
}

/// Who has connected.
struct Client {
    stream: TcpStream,
    received: BytesMut,
    to_send: BytesMut,
    is_bound: Option<oneshot::Sender<()>>,
}

impl Client {
    async fn serve(mut self, mut rounds: mpsc::Receiver<Round>, window: usize) -> anyhow::Result<()> {
        loop {
            let round = tokio::select! {
                round = rounds.recv() => round,
                read = self.stream.read_buf(&mut self.received) => {
                    ensure!(read? > 0, "the client hung up");
                    self.taken()?;
                    self.send().await?;
                    continue;
                }
            };
            let Some(Round { messages, done }) = round else { return Ok(()) };
            let (mut waiting, mut open) = (messages.iter(), 0);
            loop {
                for message in waiting.by_ref().take(window - open) {
                    self.to_send.extend_from_slice(message);
                    open += 1;
                }
                if open == 0 {
                    break;
                }
                self.send().await?;
                ensure!(self.stream.read_buf(&mut self.received).await? > 0, "the client hung up");
                open -= self.taken()?;
            }
            // Who has waited in vain has gone.
            let _ = done.send(());
        }
    }

    async fn send(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.to_send).await?;
        self.to_send.clear();
        Ok(())
    }

    /// Looks at what has come: how many messages were taken. Other requests are answered.
    fn taken(&mut self) -> anyhow::Result<usize> {
        let mut taken = 0;
        while let Some((header, body)) = pdu::next(&mut self.received, MAX_PDU)? {
            if header.command == CommandId::DELIVER_SM_RESP {
                ensure!(header.status == CommandStatus::OK, "an SMS was not taken: {}", header.status);
                taken += 1;
            } else {
                self.answer(header, &body)?;
            }
        }
        Ok(taken)
    }

    fn answer(&mut self, header: Header, body: &[u8]) -> anyhow::Result<()> {
        let reply = match Pdu::decode(header, body)?.body {
            Body::Request(Request::Bind(mode, _)) => {
                if let Some(is_bound) = self.is_bound.take() {
                    // Who has waited in vain has gone.
                    let _ = is_bound.send(());
                }
                Reply::Bind(mode, BindReply { system_id: "bench".to_owned(), ..BindReply::default() })
            }
            Body::Request(Request::EnquireLink) => Reply::EnquireLink,
            other => bail!("the client says {other:?}"),
        };
        Ok(Pdu::response(header.sequence, CommandStatus::OK, reply).encode(&mut self.to_send)?)
    }
}
