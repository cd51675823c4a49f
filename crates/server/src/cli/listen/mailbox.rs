//! A receiver of callbacks for another command: it judges them as `listen` does, and says nothing itself.

use std::{
    net::{Ipv4Addr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::tenancy::Mode;
use serde_json::Value;
use tokio::{
    sync::{Semaphore, mpsc},
    time::{Instant, timeout_at},
};
use tokio_util::task::TaskTracker;

use super::{Endpoint, Failure, MOST_CONNECTIONS, accept, bind, key_set::KeySet, reception::Reception, report::Event};

#[derive(Debug)]
pub(in crate::cli) struct Mailbox {
    /// Where callbacks are to be sent.
    pub url: String,
    events: mpsc::Receiver<Event>,
}

/// A callback that came.
#[derive(Debug)]
pub(in crate::cli) struct Letter {
    pub product: Option<String>,
    /// Or what is wrong with its signature.
    pub signed_by: Result<String, String>,
    pub body: Value,
}

impl Letter {
    pub(in crate::cli) fn member(&self, name: &str) -> Option<&Value> {
        self.body.get(name)
    }
}

impl Mailbox {
    /// Receives on any free port of this machine, until it is dropped.
    pub(in crate::cli) async fn open(jwks: Endpoint) -> Result<Self, Failure> {
        let (listener, address) = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let (sender, events) = mpsc::channel(MOST_CONNECTIONS);
        let closed = sender.clone();
        let (keys, port) = (KeySet::new(jwks), address.port());
        let reception = Arc::new(Reception {
            keys,
            // For commands that drive sandbox projects.
            mode: Mode::Sandbox,
            port,
            answer: None,
            forward: None,
            forwards_unverified: false,
            ledger: None,
            events: sender,
        });
        let tasks = TaskTracker::new();
        let connections = tasks.clone();
        tasks.spawn(async move {
            let places = Arc::new(Semaphore::new(MOST_CONNECTIONS));
            loop {
                tokio::select! {
                    () = closed.closed() => break,
                    (stream, place) = accept(&listener, &places) => {
                        let reception = Arc::clone(&reception);
                        connections.spawn(async move {
                            reception.serve(stream).await;
                            drop(place);
                        });
                    }
                }
            }
        });
        Ok(Mailbox { url: format!("http://{address}/callbacks"), events })
    }

    /// The next callback about this check.
    pub(in crate::cli) async fn about(&mut self, check: &str, patience: Duration) -> Option<Letter> {
        let deadline = Instant::now() + patience;
        while let Ok(Some(event)) = timeout_at(deadline, self.events.recv()).await {
            let Event::Callback(callback) = event else { continue };
            let body: Value = serde_json::from_slice(&callback.body).unwrap_or_default();
            if body.get("check_id").and_then(Value::as_str) == Some(check) {
                let signed_by = callback.verdict.map_err(|flaw| flaw.why);
                return Some(Letter { product: callback.product, signed_by, body });
            }
        }
        None
    }
}
