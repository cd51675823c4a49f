//! Listens for control-plane changes of other nodes.
//!
//! Notifications are only hints, because nodes poll as well. A broken connection is reopened after a delay, and one
//! hint then covers all notifications that may have been missed.

use std::{sync::Arc, time::Duration};

use ringtrue_engine::ports::StoreError;
use tokio::{
    sync::Notify,
    task::{AbortHandle, JoinHandle},
    time::{sleep, timeout},
};

use super::{
    connect::{CONNECT_TIMEOUT, PostgresConnector},
    error::store_error,
};

/// Begins a control-plane change. `PostgreSQL` delivers the notification with the commit.
pub(super) const INCREMENT_VERSION_SQL: &str = "update control_version set version = version + 1 where id = 1
                                        returning version, pg_notify('ringtrue_control', '')";
const LISTEN_SQL: &str = "listen ringtrue_control";

const RECONNECT_DELAY: Duration = Duration::from_secs(1);

#[derive(Debug)]
pub(super) struct ChangeListener {
    change_notification: Arc<Notify>,
    task: AbortHandle,
}

impl ChangeListener {
    #[expect(clippy::disallowed_methods, reason = "the task is aborted when the listener is dropped")]
    pub(super) fn start(connector: PostgresConnector) -> Self {
        let change_notification = Arc::new(Notify::new());
        let task = tokio::spawn(listen(connector, Arc::clone(&change_notification))).abort_handle();
        ChangeListener { change_notification, task }
    }

    pub(super) fn change_notification(&self) -> &Arc<Notify> {
        &self.change_notification
    }
}

impl Drop for ChangeListener {
    fn drop(&mut self) {
        self.task.abort();
    }
}

async fn listen(connector: PostgresConnector, hint: Arc<Notify>) {
    loop {
        match subscribe(&connector, &hint).await {
            Ok((client, connection)) => {
                hint.notify_one();
                // Ends when the connection breaks, because the client is still alive.
                drop(connection.await);
                drop(client);
            }
            Err(error) => tracing::debug!(%error, "cannot listen for control-plane changes; polling only"),
        }
        sleep(RECONNECT_DELAY).await;
    }
}

async fn subscribe(
    connector: &PostgresConnector,
    hint: &Arc<Notify>,
) -> Result<(tokio_postgres::Client, JoinHandle<()>), StoreError> {
    let (client, connection) = connector.connect_and_notify(Some(Arc::clone(hint))).await?;
    match timeout(CONNECT_TIMEOUT, client.batch_execute(LISTEN_SQL)).await {
        Ok(Ok(())) => Ok((client, connection)),
        Ok(Err(error)) => Err(store_error(&error)),
        Err(_) => Err(StoreError::Unavailable("timed out waiting for the server".to_owned())),
    }
}
