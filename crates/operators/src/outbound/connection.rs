//! An HTTP/1.1 client connection that sends one request at a time.
//!
//! The task that waits for a response also drives hyper's connection. A separate task per connection would cost two
//! extra wake-ups per request.

use std::{
    future::poll_fn,
    pin::{Pin, pin},
    task::{Context, Poll, Waker},
};

use bytes::Bytes;
use http_body_util::Full;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use ringtrue_engine::ports::TransportError;
use tokio::{
    task::coop::has_budget_remaining,
    time::{Instant, Sleep, sleep_until},
};

use super::connect::Stream;

/// Limits for the head of a response.
const MAX_HEAD_BYTES: usize = 16 * 1_024;
const MAX_HEADERS: usize = 100;
const MAX_BUFFER_BYTES: usize = 32 * 1_024;

pub struct HttpConnection {
    pub sender: SendRequest<Full<Bytes>>,
    pub driver: ConnectionDriver,
}

/// Drives a hyper connection while a request waits.
pub struct ConnectionDriver {
    /// `None` after the connection ended; pending requests then fail. Boxed because it is moved with every request.
    connection: Option<Box<HyperConnection>>,
    /// Kept with the connection: resetting a timer is cheaper than creating one per request.
    deadline_timer: Pin<Box<Sleep>>,
}

type HyperConnection = http1::Connection<TokioIo<Box<dyn Stream>>, Full<Bytes>>;

impl HttpConnection {
    pub async fn handshake(stream: Box<dyn Stream>) -> Result<Self, TransportError> {
        let connecting = http1::Builder::new()
            .max_headers(MAX_HEADERS)
            .max_header_size(MAX_HEAD_BYTES)
            .max_buf_size(MAX_BUFFER_BYTES)
            // Requests are small: copying head and body into one buffer is cheaper than a vectored write.
            .writev(false)
            .handshake(TokioIo::new(stream));
        let (sender, connection) = connecting.await.map_err(|_| TransportError::Connection)?;
        let driver = ConnectionDriver {
            connection: Some(Box::new(connection)),
            deadline_timer: Box::pin(sleep_until(Instant::now())),
        };
        Ok(HttpConnection { sender, driver })
    }

    /// Whether another request can be sent: the last one is complete, and the peer has not closed the connection.
    pub fn is_ready(&mut self) -> bool {
        self.driver.poll_connection(&mut Context::from_waker(Waker::noop()));
        self.sender.is_ready()
    }
}

impl ConnectionDriver {
    /// Drives the connection until the future resolves. `None`: the deadline passed.
    pub async fn drive_until<T>(&mut self, deadline: Instant, future: impl Future<Output = T>) -> Option<T> {
        self.deadline_timer.as_mut().reset(deadline);
        let mut future = pin!(future);
        poll_fn(|cx| match self.poll_future(future.as_mut(), cx) {
            Poll::Ready(output) => Poll::Ready(Some(output)),
            Poll::Pending => self.deadline_timer.as_mut().poll(cx).map(|()| None),
        })
        .await
    }

    fn poll_future<T>(&mut self, mut future: Pin<&mut impl Future<Output = T>>, cx: &mut Context<'_>) -> Poll<T> {
        // The future is polled after every poll of the connection, so it needs no waker.
        let mut no_wake = Context::from_waker(Waker::noop());
        if let Poll::Ready(output) = future.as_mut().poll(&mut no_wake) {
            return Poll::Ready(output);
        }
        self.poll_connection(cx);
        let output = future.poll(&mut no_wake);
        // With tokio's coop budget used up, `Pending` does not mean that a wake-up will follow.
        if output.is_pending() && !has_budget_remaining() {
            cx.waker().wake_by_ref();
        }
        output
    }

    fn poll_connection(&mut self, cx: &mut Context<'_>) {
        // A pending request reports the error; without one it is irrelevant.
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

    const TIMEOUT: Duration = Duration::from_secs(8);

    /// Responds to each request after the given delay in seconds, then never again.
    async fn respond(mut stream: DuplexStream, delays: &[u64]) {
        let mut request = [0; 1_024];
        for seconds in delays {
            assert_ne!(stream.read(&mut request).await.unwrap(), 0);
            sleep(Duration::from_secs(*seconds)).await;
            stream.write_all(b"HTTP/1.1 204 No Content\r\n\r\n").await.unwrap();
        }
        std::future::pending::<()>().await;
    }

    #[tokio::test(start_paused = true)]
    async fn each_request_gets_the_full_timeout() {
        let (client, server) = duplex(1_024);
        let delays = [0, 7, 1, 7];
        let requests = async {
            let mut connection = HttpConnection::handshake(Box::new(client)).await.unwrap();
            let mut statuses = vec![];
            loop {
                assert!(connection.is_ready());
                let deadline = Instant::now() + TIMEOUT;
                match connection
                    .driver
                    .drive_until(deadline, connection.sender.send_request(Request::new(Full::default())))
                    .await
                {
                    Some(response) => statuses.push(response.unwrap().status().as_u16()),
                    None => break statuses,
                }
                // Sometimes longer than the previous request had left.
                sleep(Duration::from_secs(5 * statuses.len() as u64)).await;
            }
        };
        tokio::select! {
            statuses = requests => assert_eq!(statuses, delays.map(|_| 204)),
            () = respond(server, &delays) => unreachable!("respond never returns"),
        }
    }
}
