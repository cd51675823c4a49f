//! Stores the audit log.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    audit::{AuditCap, AuditCapScope, AuditFilter, AuditStore},
    store::StoreError,
};

use super::{PagedQuery, SqlStore};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    list_turns::ListOwner,
    row::{Value, values},
    row_mapping::{self, audit_columns},
};

/// Inserts an audit event, in the same transaction as the change that it describes.
pub(super) async fn insert_audit_event(tx: &mut dyn Tx, event: &AuditEvent) -> Result<(), StoreError> {
    let (actor, client, account) = row_mapping::actor_columns(&event.actor);
    tx.run(
        concat!("insert into audit_events (", audit_columns!(), ") values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
        values![
            event.id,
            event.workspace,
            event.at,
            actor,
            client,
            account,
            event.action.into_str(),
            event.target.as_str(),
            row_mapping::to_json(&event.changes)?,
            event.request_id.as_deref(),
        ],
    )
    .await?;
    Ok(())
}

pub(super) async fn insert_audit_events(tx: &mut dyn Tx, events: &[AuditEvent]) -> Result<(), StoreError> {
    for event in events {
        insert_audit_event(tx, event).await?;
    }
    Ok(())
}

#[async_trait]
impl<D: Database> AuditStore for SqlStore<D> {
    async fn add_audit_event(&self, audit: &AuditEvent, cap: AuditCap) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.transact(work!(|tx| {
            let mut conditions = Conditions::default();
            let filter = AuditFilter { action: Some(event.action), actor: Some(event.actor.clone()) };
            conditions.add_filter(&filter);
            match cap.scope {
                // Locks the account, so that the events that it causes concurrently are counted one after the other.
                AuditCapScope::Actor => {
                    if let (_, _, Some(account)) = row_mapping::actor_columns(&event.actor) {
                        tx.run("update accounts set email = email where id = $1", values![account]).await?;
                    }
                }
                AuditCapScope::Target => conditions.add("target", event.target.as_str()),
            }
            conditions.add_after(cap.since);
            let (sql, values) = conditions.into_count();
            if tx.number(sql, &values).await? >= i64::from(cap.limit) {
                return Ok(TransactionEnd::Rollback(false));
            }
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn list_audit_events(
        &self,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        let mut conditions = Conditions::default();
        conditions.add("workspace_id", workspace);
        conditions.add_filter(filter);
        self.read_page(workspace, conditions.into_query(page), row_mapping::audit_event_from_row).await
    }

    async fn list_all_audit_events(
        &self,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, StoreError> {
        let mut conditions = Conditions::default();
        conditions.add_filter(filter);
        self.read_page(ListOwner::Deployment, conditions.into_query(page), row_mapping::audit_event_from_row).await
    }
}

/// Comparisons that are joined with `and`, and their parameters.
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

    fn add_filter(&mut self, AuditFilter { action, actor }: &AuditFilter) {
        if let Some(action) = action {
            self.add("action", action.into_str());
        }
        if let Some(actor) = actor {
            let (kind, client, account) = row_mapping::actor_columns(actor);
            self.add("actor", kind);
            if let Some(client) = client {
                self.add("client_id", client);
            }
            if let Some(account) = account {
                self.add("account_id", account);
            }
        }
    }

    fn add_after(&mut self, at: Timestamp) {
        self.values.push(at.into());
        self.sql.push(format!("at > ${}", self.values.len()));
    }

    fn into_count(self) -> (String, Vec<Value>) {
        (format!("select count(*) from audit_events where {}", self.sql.join(" and ")), self.values)
    }

    fn into_query(self, page: PageRequest) -> PagedQuery {
        let Conditions { sql, values } = self;
        let from = if sql.is_empty() {
            "audit_events".into()
        } else {
            format!("audit_events where {}", sql.join(" and ")).into()
        };
        PagedQuery { columns: audit_columns!(), from, values, order: "at desc, id desc", page }
    }
}
