//! The audit log.

use async_trait::async_trait;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{AuditFilter, AuditStore, StoreError};

use super::{List, SqlStore};
use crate::{
    driver::{Database, Tx, Value, values},
    rows::{self, audit_columns},
};

/// Writes an event into the transaction of the change that it tells of.
pub(super) async fn record(tx: &mut dyn Tx, event: &AuditEvent) -> Result<(), StoreError> {
    let (actor, client, account) = rows::actor_columns(&event.actor);
    tx.run(
        concat!("insert into audit_events (", audit_columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        values![
            event.id,
            event.workspace,
            event.at,
            actor,
            client,
            account,
            event.action.as_str(),
            event.target.as_str(),
            rows::to_json(&event.changes)?,
            event.request_id.as_deref(),
        ],
    )
    .await?;
    Ok(())
}

#[async_trait]
impl<D: Database> AuditStore for SqlStore<D> {
    async fn audit_events(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        let mut wanted = Conditions::default();
        wanted.add("workspace_id", workspace);
        wanted.narrow(filter);
        self.read_page(wanted.list(page), rows::audit_event).await
    }

    async fn all_audit_events(&self, filter: &AuditFilter, page: PageRequest) -> Result<Page<AuditEvent>, StoreError> {
        let mut wanted = Conditions::default();
        wanted.narrow(filter);
        self.read_page(wanted.list(page), rows::audit_event).await
    }
}

/// What all events of a list have in common.
#[derive(Default)]
struct Conditions {
    sql: Vec<String>,
    values: Vec<Value>,
}

impl Conditions {
    fn add(&mut self, column: &str, value: impl Into<Value>) {
        self.values.push(value.into());
        self.sql.push(format!("{column} = ${}", self.values.len()));
    }

    fn narrow(&mut self, AuditFilter { action, actor }: &AuditFilter) {
        if let Some(action) = action {
            self.add("action", action.as_str());
        }
        if let Some(actor) = actor {
            let (kind, client, account) = rows::actor_columns(actor);
            self.add("actor", kind);
            if let Some(client) = client {
                self.add("client_id", client);
            }
            if let Some(account) = account {
                self.add("account_id", account);
            }
        }
    }

    fn list(self, page: PageRequest) -> List {
        let Conditions { sql, values } = self;
        let from = if sql.is_empty() {
            "audit_events".into()
        } else {
            format!("audit_events where {}", sql.join(" and ")).into()
        };
        List { columns: audit_columns!(), from, values, order: "at desc, id desc", page }
    }
}
