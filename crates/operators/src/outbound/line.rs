//! A connection to another server, on which requests go out one after the other.
//!
//! hyper leaves it to its callers who does a connection's work. A task for each would be woken for every request and
//! every answer, only to wake whoever waits for it: here those do the work who wait.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    sync::{
        Arc,
        atomic::{AtomicBool, Ordering},
    },
    task::{Context, Poll, Wake, Waker},
};

use bytes::Bytes;
use futures_util::task::AtomicWaker;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use ringtrue_engine::ports::Undelivered;

use super::dial::Stream;

/// How long the head of an answer may be, and how many headers it may have.
const HEAD: usize = 16 * 1_024;
const HEADERS: usize = 100;
/// What a connection holds in memory at most.
const BUFFER: usize = 32 * 1_024;
/// How often the work goes on before others have their turn.
const ROUNDS: usize = 8;

pub struct Line {
    pub sender: SendRequest<Full<Bytes>>,
    pub work: Work,
}

/// What a connection has to do. Nothing is left of it when the connection ends, which whoever still waits then hears.
pub struct Work {
    /// In a box, since it is large and changes hands with every request.
    connection: Option<Box<Connection>>,
    bell: Arc<Bell>,
    ringer: Waker,
}

type Connection = http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

/// Rings when a connection can go on.
#[derive(Default)]
struct Bell {
    has_rung: AtomicBool,
    /// Whoever does the work hears it by itself.
    is_at_work: AtomicBool,
    waiting: AtomicWaker,
}

impl Bell {
    fn has_rung(&self) -> bool {
        self.has_rung.load(Ordering::SeqCst)
    }
}

impl Wake for Bell {
    fn wake(self: Arc<Self>) {
        self.wake_by_ref();
    }

    fn wake_by_ref(self: &Arc<Self>) {
        self.has_rung.store(true, Ordering::SeqCst);
        if !self.is_at_work.load(Ordering::SeqCst) {
            self.waiting.wake();
        }
    }
}

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
        let bell = Arc::<Bell>::default();
        let ringer = Waker::from(Arc::clone(&bell));
        Ok(Line { sender, work: Work { connection: Some(Box::new(connection)), bell, ringer } })
    }

    /// Whether another request can be sent: the last one is done with, and the other side has not hung up.
    pub fn is_ready(&mut self) -> bool {
        self.work.go_on();
        self.sender.is_ready()
    }
}

impl Work {
    /// Goes on until `wanted` is there, which nothing but this work brings nearer.
    pub async fn until<T>(&mut self, wanted: impl Future<Output = T>) -> T {
        let mut wanted = pin!(wanted);
        // Nobody rings for what was never begun.
        let mut must_go_on = true;
        poll_fn(|cx| {
            self.bell.waiting.register(cx.waker());
            // Whoever waits may be woken for other reasons, and then there is nothing to do here.
            if !must_go_on && !self.bell.has_rung() {
                return Poll::Pending;
            }
            self.bell.is_at_work.store(true, Ordering::SeqCst);
            for _ in 0..ROUNDS {
                // It is looked at whenever the work has gone on, and so need not wake anybody.
                if let Poll::Ready(found) = wanted.as_mut().poll(&mut Context::from_waker(Waker::noop())) {
                    return Poll::Ready(found);
                }
                if !must_go_on && !self.bell.has_rung() {
                    self.bell.is_at_work.store(false, Ordering::SeqCst);
                    // Or else it has rung between the two.
                    if !self.bell.has_rung() {
                        return Poll::Pending;
                    }
                    self.bell.is_at_work.store(true, Ordering::SeqCst);
                }
                must_go_on = false;
                self.go_on();
            }
            self.bell.is_at_work.store(false, Ordering::SeqCst);
            cx.waker().wake_by_ref();
            must_go_on = true;
            Poll::Pending
        })
        .await
    }

    fn go_on(&mut self) {
        self.bell.has_rung.store(false, Ordering::SeqCst);
        let Some(connection) = &mut self.connection else { return };
        // Whoever waits for an answer hears of an error; nobody else needs to.
        if Pin::new(connection).poll(&mut Context::from_waker(&self.ringer)).is_ready() {
            self.connection = None;
        }
    }
}
