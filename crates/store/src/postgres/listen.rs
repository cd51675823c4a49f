//! Hearing that another node has changed the control plane.
//!
//! A hint and no more: whoever waits for it polls as well. So a connection that breaks is made again without haste, and
//! what may have been missed meanwhile is made good by one hint.

use std::{sync::Arc, time::Duration};

use ringtrue_engine::ports::StoreError;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};

use super::{
    connect::{CONNECT_TIMEOUT, Connector},
    error::store_error,
};

/// Begins a change of the control plane. Whoever listens hears of it when it commits, and not if it does not.
pub(super) const RAISE_VERSION: &str = "update control_version set version = version + 1 where id = 1
                                        returning version, pg_notify('ringtrue_control', '')";
const LISTEN: &str = "listen ringtrue_control";

const BEFORE_RECONNECTING: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct Listener {
    hint: Arc<Notify>,
    task: AbortHandle,
}

impl Listener {
    #[expect(clippy::disallowed_methods, reason = "the task has nothing to finish: it is aborted with its listener")]
    pub(super) fn start(connector: Connector) -> Self {
        let hint = Arc::new(Notify::new());
        let task = tokio::spawn(listen(connector, Arc::clone(&hint))).abort_handle();
        Listener { hint, task }
    }

    pub(super) fn hint(&self) -> &Arc<Notify> {
        &self.hint
    }
}

impl Drop for Listener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(connector: Connector, hint: Arc<Notify>) {
    loop {
        match subscribe(&connector, &hint).await {
            Ok((client, connection)) => {
                hint.notify_one();
                // Ends when the connection breaks: the client is kept, and so nobody closes it.
                drop(connection.await);
                drop(client);
            }
            Err(error) => tracing::debug!(%error, "changes of other nodes are not heard, only polled"),
        }
        sleep(BEFORE_RECONNECTING).await;
    }
}

async fn subscribe(
    connector: &Connector,
    hint: &Arc<Notify>,
) -> Result<(tokio_postgres::Client, JoinHandle<()>), StoreError> {
    let (client, connection) = connector.connect_and_hint(Some(Arc::clone(hint))).await?;
    match timeout(CONNECT_TIMEOUT, client.batch_execute(LISTEN)).await {
        Ok(Ok(())) => Ok((client, connection)),
        Ok(Err(error)) => Err(store_error(&error)),
        Err(_) => Err(StoreError::Unavailable("the server does not answer".to_owned())),
    }
}
