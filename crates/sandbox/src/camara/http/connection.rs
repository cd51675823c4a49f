//! Connections: taking them in, reading requests, and sending answers with the faults they are to have.

use std::{
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use bytes::Bytes;
use http::StatusCode;
use http_body_util::{BodyExt, Full, Limited};
use hyper::{body::Incoming, server::conn::http1, service::service_fn};
use hyper_util::rt::TokioIo;
use thiserror::Error;
use tokio::{
    net::{TcpListener, TcpStream},
    time::{sleep, timeout},
};
use tokio_util::task::TaskTracker;

use super::{Answer, Request, page};
use crate::{
    camara::{Core, Endpoint, Fault, api::CORRELATOR, routes},
    doorway::take_in,
};

const READ_PATIENCE: Duration = Duration::from_secs(10);
const LARGEST_BODY: usize = 64 * 1024;
const LARGEST_HEAD: usize = 32 * 1024;

/// Makes the server close the connection.
#[derive(Debug, Error)]
#[error("the connection is to break")]
struct Break;

/// Takes connections in until the operator stops.
pub(in crate::camara) async fn listen(listener: TcpListener, core: Arc<Core>, tasks: TaskTracker) {
    let (most, stop) = (core.config.connections, core.stop.clone());
    take_in(listener, most, stop, tasks, |stream| serve(stream, Arc::clone(&core))).await;
}

async fn serve(stream: TcpStream, core: Arc<Core>) {
    // Small answers that are waited for: the usual gathering only makes them late.
    let _ = stream.set_nodelay(true);
    let steps = AtomicU64::new(0);
    let service = service_fn(async |request| {
        steps.fetch_add(1, Ordering::Relaxed);
        let answered = exchange(&core, request).await;
        steps.fetch_add(1, Ordering::Relaxed);
        answered
    });
    let serving = http1::Builder::new()
        .max_buf_size(LARGEST_HEAD)
        .half_close(true)
        .writev(false)
        .serve_connection(TokioIo::new(stream), service);
    tokio::select! {
        biased;
        served = serving => if let Err(error) = served {
            tracing::debug!(%error, "a connection to the simulated operator broke");
        },
        () = silence(&steps) => tracing::debug!("a connection to the simulated operator was silent for too long"),
    }
}

/// Waits until nothing has happened between two requests for a while. `steps` counts them as they come and as they are
/// answered; hyper would set a timer for each.
async fn silence(steps: &AtomicU64) {
    let mut before = None;
    loop {
        let taken = steps.load(Ordering::Relaxed);
        let is_between_requests = taken.is_multiple_of(2);
        if is_between_requests && before == Some(taken) {
            return;
        }
        before = Some(taken);
        sleep(READ_PATIENCE).await;
    }
}

async fn exchange(core: &Core, request: http::Request<Incoming>) -> Result<Answer, Break> {
    let Some(endpoint) = Endpoint::at(request.uri().path()) else {
        return answer(core, None, request, &Fault::default()).await;
    };
    core.observer.came(endpoint);
    let correlator = request.headers().get(CORRELATOR).and_then(|value| value.to_str().ok()).map(str::to_owned);
    let answered = answer(core, Some(endpoint), request, &core.faults.next(endpoint)).await;
    core.observer.went(endpoint, answered.as_ref().ok().map(Answer::status), correlator);
    answered
}

async fn answer(
    core: &Core,
    endpoint: Option<Endpoint>,
    request: http::Request<Incoming>,
    fault: &Fault,
) -> Result<Answer, Break> {
    // Even a sleep of no length waits for the clock's next tick.
    if !fault.late.is_zero() {
        sleep(fault.late).await;
    }
    if fault.dropped {
        return Err(Break);
    }
    let (head, body) = request.into_parts();
    let answer = match timeout(READ_PATIENCE, Limited::new(body, LARGEST_BODY).collect()).await {
        Ok(Ok(body)) => routes::answer(core, endpoint, &Request { head, body: body.to_bytes() }, fault),
        Ok(Err(_)) => page(StatusCode::PAYLOAD_TOO_LARGE, "the body is too large, or broke off"),
        Err(_) => page(StatusCode::REQUEST_TIMEOUT, "the body comes too slowly"),
    };
    if fault.lost { Err(Break) } else { Ok(spoil(answer, fault).await) }
}

/// Does to a body what it is to suffer.
async fn spoil(answer: Answer, fault: &Fault) -> Answer {
    if !fault.garbled && fault.padded_to == 0 {
        return answer;
    }
    let (head, body) = answer.into_parts();
    // A body that is in memory cannot fail to be read.
    let mut octets = body.collect().await.map(|body| body.to_bytes().to_vec()).unwrap_or_default();
    if fault.garbled {
        octets.fill(b'}');
    }
    if octets.len() < fault.padded_to {
        octets.resize(fault.padded_to, b' ');
    }
    Answer::from_parts(head, Full::new(Bytes::from(octets)))
}
