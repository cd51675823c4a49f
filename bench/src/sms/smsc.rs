//! Minimal SMSC, because it shares the machine with the measured client.
//!
//! Messages are encoded in advance. One client binds and gets up to a window of messages at a time; only the status of
//! its responses is checked.

use std::net::SocketAddr;

use anyhow::{Context, bail, ensure};
use bytes::{Bytes, BytesMut};
use ringtrue_smpp::pdu::{
    self, Address, BindResponseBody, Body, CommandId, CommandStatus, Header, MAX_PDU_OCTETS, Pdu, Request,
    ResponseBody, ShortMessage,
};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    sync::{mpsc, oneshot},
    task::JoinSet,
};

pub struct Sms {
    pub from: String,
    pub to: String,
    pub text: String,
}

/// Stops when dropped.
pub struct BenchSmsc {
    pub address: SocketAddr,
    rounds: mpsc::Sender<Round>,
    bound: Option<oneshot::Receiver<()>>,
    task: JoinSet<anyhow::Result<()>>,
}

/// Messages of a round; `done` is notified when all are acknowledged.
struct Round {
    messages: Vec<Bytes>,
    done: oneshot::Sender<()>,
}

impl BenchSmsc {
    pub async fn start(window: usize) -> anyhow::Result<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").await?;
        let address = listener.local_addr()?;
        let ((rounds, next), (bound_sender, bound)) = (mpsc::channel(1), oneshot::channel());
        let mut task = JoinSet::new();
        task.spawn(async move {
            let (stream, _) = listener.accept().await?;
            stream.set_nodelay(true)?;
            let client = ConnectedEsme {
                stream,
                received: BytesMut::new(),
                to_send: BytesMut::new(),
                bound_sender: Some(bound_sender),
            };
            client.serve(next, window).await
        });
        Ok(BenchSmsc { address, rounds, bound: Some(bound), task })
    }

    pub async fn wait_for_bind(&mut self) -> anyhow::Result<()> {
        self.bound.take().context("wait_for_bind was already called")?.await.context("the SMSC stopped before a bind")
    }

    /// Returns when the client has acknowledged all messages.
    pub async fn deliver(&mut self, messages: Vec<Bytes>) -> anyhow::Result<()> {
        let (done, all) = oneshot::channel();
        let is_sent = self.rounds.send(Round { messages, done }).await.is_ok();
        if is_sent && all.await.is_ok() {
            return Ok(());
        }
        self.task.join_next().await.context("the SMSC has stopped")??
    }
}

/// Encodes `deliver_sm` PDUs in the default alphabet.
pub fn encode_messages(messages: &[Sms]) -> anyhow::Result<Vec<Bytes>> {
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

/// The connected client.
struct ConnectedEsme {
    stream: TcpStream,
    received: BytesMut,
    to_send: BytesMut,
    bound_sender: Option<oneshot::Sender<()>>,
}

impl ConnectedEsme {
    async fn serve(mut self, mut rounds: mpsc::Receiver<Round>, window: usize) -> anyhow::Result<()> {
        loop {
            let round = tokio::select! {
                round = rounds.recv() => round,
                read = self.stream.read_buf(&mut self.received) => {
                    ensure!(read? > 0, "the client closed the connection");
                    self.process_received()?;
                    self.flush().await?;
                    continue;
                }
            };
            let Some(Round { messages, done }) = round else { return Ok(()) };
            let (mut queued, mut pending) = (messages.iter(), 0);
            loop {
                for message in queued.by_ref().take(window - pending) {
                    self.to_send.extend_from_slice(message);
                    pending += 1;
                }
                if pending == 0 {
                    break;
                }
                self.flush().await?;
                ensure!(self.stream.read_buf(&mut self.received).await? > 0, "the client closed the connection");
                pending -= self.process_received()?;
            }
            // The waiter may have timed out.
            let _ = done.send(());
        }
    }

    async fn flush(&mut self) -> anyhow::Result<()> {
        self.stream.write_all(&self.to_send).await?;
        self.to_send.clear();
        Ok(())
    }

    /// Processes received PDUs; returns the number of acknowledged messages. Responds to other requests.
    fn process_received(&mut self) -> anyhow::Result<usize> {
        let mut acknowledged = 0;
        while let Some((header, body)) = pdu::next_frame(&mut self.received, MAX_PDU_OCTETS)? {
            if header.command == CommandId::DELIVER_SM_RESP {
                ensure!(header.status == CommandStatus::OK, "SMS was rejected: {}", header.status);
                acknowledged += 1;
            } else {
                self.respond(header, &body)?;
            }
        }
        Ok(acknowledged)
    }

    fn respond(&mut self, header: Header, body: &[u8]) -> anyhow::Result<()> {
        let response = match Pdu::decode(header, body)?.body {
            Body::Request(Request::Bind(mode, _)) => {
                if let Some(bound_sender) = self.bound_sender.take() {
                    // The waiter may have timed out.
                    let _ = bound_sender.send(());
                }
                ResponseBody::Bind(
                    mode,
                    BindResponseBody { system_id: "bench".to_owned(), ..BindResponseBody::default() },
                )
            }
            Body::Request(Request::EnquireLink) => ResponseBody::EnquireLink,
            other => bail!("unexpected PDU: {other:?}"),
        };
        Ok(Pdu::response(header.sequence, CommandStatus::OK, response).encode(&mut self.to_send)?)
    }
}
