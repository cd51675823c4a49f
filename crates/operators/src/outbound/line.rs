//! A connection to another server, on which requests go out one after the other.
//!
//! hyper leaves it to its callers who does a connection's work. A task for each would be woken for every request and
//! every answer, only to wake whoever waits for it: here those do the work who wait.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use ringtrue_engine::ports::Undelivered;
use tokio::task::coop::has_budget_remaining;

use super::dial::Stream;

/// How long the head of an answer may be, and how many headers it may have.
const HEAD: usize = 16 * 1_024;
const HEADERS: usize = 100;
/// What a connection holds in memory at most.
const BUFFER: usize = 32 * 1_024;

pub struct Line {
    pub sender: SendRequest<Full<Bytes>>,
    pub work: Work,
}

/// What a connection has to do. Nothing is left of it when the connection ends, which whoever still waits then hears.
///
/// In a box, since it is large and changes hands with every request.
pub struct Work(Option<Box<Connection>>);

type Connection = http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

impl Line {
    pub async fn over(stream: Box<dyn Stream>) -> Result<Self, Undelivered> {
        let handshake = http1::Builder::new()
            .max_headers(HEADERS)
            .max_header_size(HEAD)
            .max_buf_size(BUFFER)
            // Requests are small: it is cheaper to put a body behind its head than to hand both to the system apart.
            .writev(false)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = handshake.await.map_err(|_| Undelivered::Connection)?;
        Ok(Line { sender, work: Work(Some(Box::new(connection))) })
    }

    /// Whether another request can be sent: the last one is done with, and the other side has not hung up.
    pub fn is_ready(&mut self) -> bool {
        self.work.go_on(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }
}

impl Work {
    /// Goes on until `wanted` is there, which nothing but this work brings nearer.
    pub async fn until<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        poll_fn(|cx| {
            // What is wanted is looked at whenever the work has gone on, and so need not wake anybody. Nor need the work
            // when it goes on for the first time: it does so again at once, since when the head of an answer is there its
            // body is asked for, and mostly has come along.
            let mut unheard = Context::from_waker(Waker::noop());
            if let Poll::Ready(found) = wanted.as_mut().poll(&mut unheard) {
                return Poll::Ready(found);
            }
            self.go_on(&mut unheard);
            if let Poll::Ready(found) = wanted.as_mut().poll(&mut unheard) {
                return Poll::Ready(found);
            }
            self.go_on(cx);
            let found = wanted.as_mut().poll(&mut unheard);
            // A task that has done much is told to wait although nothing else is to come: it has to look again by itself.
            if found.is_pending() && !has_budget_remaining() {
                cx.waker().wake_by_ref();
            }
            found
        })
        .await
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        // Whoever waits for an answer hears of an error; nobody else needs to.
        if self.0.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
            self.0 = None;
        }
    }
}
