//! Callback receiver for use by other commands: verifies callbacks as `listen` does, and prints nothing.

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

use super::{
    CliError, MAX_CONNECTIONS, SecureUrl, accept, bind, key_set::KeySet, receiver::CallbackReceiver,
    report::ListenEvent,
};

#[derive(Debug)]
pub(in crate::cli) struct BackgroundReceiver {
    /// Callback URL.
    pub url: String,
    events: mpsc::Receiver<ListenEvent>,
}

#[derive(Debug)]
pub(in crate::cli) struct ReceivedCallback {
    pub product: Option<String>,
    /// Key id, or the reason why the signature is invalid.
    pub signed_by: Result<String, String>,
    pub body: Value,
}

impl ReceivedCallback {
    pub(in crate::cli) fn field(&self, name: &str) -> Option<&Value> {
        self.body.get(name)
    }
}

impl BackgroundReceiver {
    /// Listens on a free loopback port until dropped.
    pub(in crate::cli) async fn open(jwks: SecureUrl) -> Result<Self, CliError> {
        let (listener, address) = bind(SocketAddr::from((Ipv4Addr::LOCALHOST, 0))).await?;
        let (sender, events) = mpsc::channel(MAX_CONNECTIONS);
        let closed = sender.clone();
        let (keys, port) = (KeySet::new(jwks), address.port());
        let receiver = Arc::new(CallbackReceiver {
            keys,
            mode: Mode::Sandbox,
            port,
            response_status: None,
            forward: None,
            forward_unverified: false,
            journal: None,
            events: sender,
        });
        let tasks = TaskTracker::new();
        let connections = tasks.clone();
        tasks.spawn(async move {
            let permits = Arc::new(Semaphore::new(MAX_CONNECTIONS));
            loop {
                tokio::select! {
                    () = closed.closed() => break,
                    (stream, permit) = accept(&listener, &permits) => {
                        let receiver = Arc::clone(&receiver);
                        connections.spawn(async move {
                            receiver.serve(stream).await;
                            drop(permit);
                        });
                    }
                }
            }
        });
        Ok(BackgroundReceiver { url: format!("http://{address}/callbacks"), events })
    }

    /// Waits for the next callback of this check.
    pub(in crate::cli) async fn wait_for_check(&mut self, check: &str, timeout: Duration) -> Option<ReceivedCallback> {
        let deadline = Instant::now() + timeout;
        while let Ok(Some(event)) = timeout_at(deadline, self.events.recv()).await {
            let ListenEvent::Callback(callback) = event else { continue };
            let body: Value = serde_json::from_slice(&callback.body).unwrap_or_default();
            if body.get("check_id").and_then(Value::as_str) == Some(check) {
                let signed_by = callback.signature.map_err(|error| error.reason);
                return Some(ReceivedCallback { product: callback.product, signed_by, body });
            }
        }
        None
    }
}
