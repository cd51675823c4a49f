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
use tokio::{
    task::coop::has_budget_remaining,
    time::{Instant, Sleep, sleep_until},
};

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

/// What a connection has to do.
pub struct Work {
    /// Nothing is left of it when it ends, which whoever still waits then hears.
    ///
    /// In a box, since it is large and changes hands with every request.
    connection: Option<Box<Connection>>,
    /// For how long somebody waits. It stays with the connection: to put a timer off costs next to nothing, to make and
    /// to end one for each request does not.
    patience: Pin<Box<Sleep>>,
}

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
        let work = Work { connection: Some(Box::new(connection)), patience: Box::pin(sleep_until(Instant::now())) };
        Ok(Line { sender, work })
    }

    /// Whether another request can be sent: the last one is done with, and the other side has not hung up.
    pub fn is_ready(&mut self) -> bool {
        self.work.go_on(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }
}

impl Work {
    /// Goes on until `wanted` is there, which nothing but this work brings nearer. `None`: it was not by the deadline.
    pub async fn by<T>(&mut self, deadline: Instant, wanted: impl Future<Output = T>) -> Option<T> {
        self.patience.as_mut().reset(deadline);
        let mut wanted = pin!(wanted);
        poll_fn(|cx| match self.look(wanted.as_mut(), cx) {
            Poll::Ready(found) => Poll::Ready(Some(found)),
            Poll::Pending => self.patience.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    fn look<T>(&mut self, mut wanted: Pin<&mut impl Future<Output = T>>, cx: &mut Context<'_>) -> Poll<T> {
        // What is wanted is looked at whenever the work has gone on, and so need not wake anybody.
        let mut unheard = Context::from_waker(Waker::noop());
        if let Poll::Ready(found) = wanted.as_mut().poll(&mut unheard) {
            return Poll::Ready(found);
        }
        self.go_on(cx);
        let found = wanted.poll(&mut unheard);
        // A task that has done much is told to wait although nothing else is to come: it has to look again by itself.
        if found.is_pending() && !has_budget_remaining() {
            cx.waker().wake_by_ref();
        }
        found
    }

    fn go_on(&mut self, cx: &mut Context<'_>) {
        // Whoever waits for an answer hears of an error; nobody else needs to.
        if self.connection.as_mut().is_some_and(|connection| Pin::new(connection).poll(cx).is_ready()) {
            self.connection = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use http::Request;
    use tokio::{
        io::{AsyncReadExt, AsyncWriteExt, DuplexStream, duplex},
        time::sleep,
    };

    use super::*;

    const PATIENCE: Duration = Duration::from_secs(8);

    /// Answers each request, the first at once, others later, and the last never.
    async fn answer(mut stream: DuplexStream, late: &[u64]) {
        let mut request = [0; 1_024];
        for seconds in late {
            assert_ne!(stream.read(&mut request).await.unwrap(), 0);
            sleep(Duration::from_secs(*seconds)).await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_has_the_whole_time() {
        let (ours, theirs) = duplex(1_024);
        let late = [0, 7, 1, 7];
        let asking = async {
            let mut line = Line::over(Box::new(ours)).await.unwrap();
            let mut statuses = vec![];
            loop {
                assert!(line.is_ready());
                let deadline = Instant::now() + PATIENCE;
                match line.work.by(deadline, line.sender.send_request(Request::new(Full::default()))).await {
                    Some(response) => statuses.push(response.unwrap().status().as_u16()),
                    None => break statuses,
                }
                // Now and then longer than the last one had.
                sleep(Duration::from_secs(5 * statuses.len() as u64)).await;
            }
        };
        tokio::select! {
            statuses = asking => assert_eq!(statuses, late.map(|_| 204)),
            () = answer(theirs, &late) => unreachable!("it goes on for ever"),
        }
    }
}
