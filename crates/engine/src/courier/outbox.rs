//! Transactional outbox: prepares the callback that is stored with a check's conclusion, and sends it after the commit.

use std::sync::Arc;

use ringtrue_domain::lifecycle::Check;

use super::{Courier, sealing};
use crate::{
    context::{Context, missing_seal_key},
    ports::{
        callbacks::{LeasedCallback, NewCallback},
        store::StoreError,
    },
};

/// Prepares the callbacks of concluded checks, and passes them to the [`Courier`] after the commit. Cheap to clone.
#[derive(Clone)]
pub(crate) struct Outbox {
    context: Arc<Context>,
    courier: Courier,
}

impl Outbox {
    pub(crate) fn new(context: Arc<Context>, courier: Courier) -> Self {
        Outbox { context, courier }
    }

    /// Builds the callback to store in the transaction that concludes the check. `render` renders its body. `None`: the
    /// check has no callback URL.
    pub(crate) fn prepare<V>(
        &self,
        check: &Check<V>,
        render: impl FnOnce() -> Vec<u8>,
    ) -> Result<Option<NewCallback>, StoreError> {
        let Some(url) = check.callback_url.clone() else { return Ok(None) };
        let now = self.context.now();
        let body = sealing::seal_body(&self.context.keys(), &*self.context.entropy, now, check.id, &render());
        let body = body.ok_or_else(missing_seal_key)?;
        Ok(Some(NewCallback { url, body, due_at: self.courier.initial_due_at(check.project, now) }))
    }

    /// Passes a callback to the courier. The transaction that stores the callback must be committed.
    pub(crate) fn send<V: Clone>(&self, check: &Check<V>, callback: NewCallback) {
        let &Check { id, project, product, mode, .. } = check;
        let NewCallback { url, body, due_at } = callback;
        let (failed_attempts, earlier_attempts) = (0, 0);
        let created_at = check.updated_at().unwrap_or_else(|| self.context.now());
        let leased = LeasedCallback {
            check: id,
            project,
            product,
            mode,
            created_at,
            url,
            body,
            failed_attempts,
            earlier_attempts,
        };
        self.courier.enqueue_committed(leased, due_at);
    }
}
