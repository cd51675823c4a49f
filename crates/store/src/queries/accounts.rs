//! Console accounts. They are read on demand, and are not part of the control plane that nodes keep in memory.
//!
//! Changes of permissions are serialised by the control-plane version, so that invariants such as "a workspace keeps an
//! owner" hold at the commit. Transactions that begin a session or add a link lock the account first: no session can
//! begin with a password that is being replaced, or while the account is being disabled.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
};
use ringtrue_engine::ports::{
    AccountChangeOutcome, AccountRecord, AccountStore, AccountSummary, PasswordHash, StoreError,
};

use super::{PagedQuery, SqlStore, deployment::insert_audit_event, placeholders};
use crate::{
    driver::{Database, TransactionEnd, Tx},
    row::{Row, RowReader, Value, values},
};

/// Retention of accounts without a password or a sign-in.
const UNUSED_ACCOUNT_RETENTION_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

macro_rules! account_columns {
    () => {
        "accounts.id, accounts.email, accounts.is_admin, accounts.created_at"
    };
}
pub(super) use account_columns;

macro_rules! account_record_columns {
    () => {
        concat!(account_columns!(), ", accounts.password_hash, accounts.disabled_at is not null")
    };
}

#[async_trait]
impl<D: Database> AccountStore for SqlStore<D> {
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError> {
        let insert = "insert into accounts (id, email, is_admin, created_at) values ($1, $2, $3, $4)
                      on conflict (email) do nothing returning id";
        let values = values![account.id, account.email.as_str(), account.is_admin, account.created_at];
        self.write_audited(insert, values, audit).await
    }

    async fn find_account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!("select ", account_record_columns!(), " from accounts where id = $1");
        self.read_first(select, values![id]).await?.map(account_record_from_row).transpose()
    }

    async fn find_account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!("select ", account_record_columns!(), " from accounts where email = $1");
        self.read_first(select, values![email.as_str()]).await?.map(account_record_from_row).transpose()
    }

    async fn list_accounts(&self, page: PageRequest) -> Result<Page<AccountSummary>, StoreError> {
        let list = PagedQuery {
            columns: concat!(
                account_columns!(),
                ", accounts.password_hash is not null, accounts.disabled_at is not null, accounts.signed_in_at,
                  (select count(*) from memberships where memberships.account_id = accounts.id)"
            ),
            from: "accounts".into(),
            values: vec![],
            order: "accounts.email",
            page,
        };
        self.read_page(list, account_summary_from_row).await
    }

    async fn emails_of_accounts(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError> {
        if accounts.is_empty() {
            return Ok(vec![]);
        }
        let select = format!("select id, email from accounts where id in ({})", placeholders(1, accounts.len()));
        let values: Vec<Value> = accounts.iter().map(|account| (*account).into()).collect();
        let rows = self.read(select, &values).await?;
        let id_and_email = |row: Row| {
            let mut row = row.reader("accounts");
            Ok((AccountId(row.uuid("id")?), row.parsed("email")?))
        };
        rows.into_iter().map(id_and_email).collect()
    }

    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                // An account that had a password counts as used.
                let update = "update accounts set is_admin = $1, password_hash = null, signed_in_at =
                                case when password_hash is null then signed_in_at else coalesce(signed_in_at, $2) end
                               where id = $3 and is_admin <> $1 returning id";
                if tx.first(update, values![true, event.at, account]).await?.is_none() {
                    return Ok(TransactionEnd::Rollback(false));
                }
                end_access(tx, account).await?;
                insert_audit_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(true))
            })
        })
        .await
    }

    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError> {
        let event = audit.clone();
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let update = "update accounts set is_admin = $1 where id = $2 and is_admin <> $1 returning id";
                if tx.first(update, values![false, account]).await?.is_none() {
                    return Ok(TransactionEnd::Rollback(AccountChangeOutcome::Unchanged));
                }
                if !has_administrator(tx).await? {
                    return Ok(TransactionEnd::Rollback(AccountChangeOutcome::LastAdministrator));
                }
                tx.run(
                    "delete from invitations where invited_by = $1 and workspace_id not in
                       (select workspace_id from memberships where account_id = $1 and role = $2)",
                    values![account, Role::Owner.as_str()],
                )
                .await?;
                insert_audit_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(AccountChangeOutcome::Changed))
            })
        })
        .await
    }

    async fn disable_account(
        &self,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<AccountChangeOutcome, StoreError> {
        let event = audit.clone();
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let update = "update accounts set disabled_at = $1 where id = $2 and disabled_at is null
                              returning is_admin";
                let Some(disabled) = tx.first(update, values![event.at, account]).await? else {
                    return Ok(TransactionEnd::Rollback(AccountChangeOutcome::Unchanged));
                };
                if disabled.reader("accounts").boolean("is_admin")? && !has_administrator(tx).await? {
                    return Ok(TransactionEnd::Rollback(AccountChangeOutcome::LastAdministrator));
                }
                end_access(tx, account).await?;
                tx.run("delete from invitations where invited_by = $1", values![account]).await?;
                insert_audit_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(AccountChangeOutcome::Changed))
            })
        })
        .await
    }

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError> {
        let update = "update accounts set disabled_at = null where id = $1 and disabled_at is not null returning id";
        let is_done = self.write_audited(update, values![account], audit).await?;
        Ok(if is_done { AccountChangeOutcome::Changed } else { AccountChangeOutcome::Unchanged })
    }
}

pub(super) fn read_account(row: &mut RowReader) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.uuid("id")?),
        email: row.parsed("email")?,
        is_admin: row.boolean("is_admin")?,
        created_at: row.instant("created_at")?,
    })
}

fn account_record_from_row(row: Row) -> Result<AccountRecord, StoreError> {
    let mut row = row.reader("accounts");
    Ok(AccountRecord {
        account: read_account(&mut row)?,
        password: row.text_or_null("password_hash")?.map(PasswordHash),
        is_disabled: row.boolean("disabled_at")?,
    })
}

fn account_summary_from_row(row: Row) -> Result<AccountSummary, StoreError> {
    let mut row = row.reader("accounts");
    Ok(AccountSummary {
        account: read_account(&mut row)?,
        has_password: row.boolean("password_hash")?,
        is_disabled: row.boolean("disabled_at")?,
        signed_in_at: row.instant_or_null("signed_in_at")?,
        workspaces: row.int("workspaces")?.unsigned_abs(),
    })
}

/// Deletes expired invitations and unused accounts. Returns the number of deleted rows.
pub(super) async fn delete_expired(tx: &mut dyn Tx, now: Timestamp) -> Result<usize, StoreError> {
    let invitations = tx
        .run(
            "delete from invitations where id in
               (select id from invitations where expires_at <= $1 order by expires_at, id limit 1000)
             returning 1",
            values![now],
        )
        .await?;
    let created_before = now.as_millisecond().saturating_sub(UNUSED_ACCOUNT_RETENTION_MILLIS);
    let unused = tx
        .run(
            "select id from accounts
              where password_hash is null and signed_in_at is null and created_at <= $1
                and not exists (select 1 from account_links where account_links.account_id = accounts.id)
              order by created_at, id limit 100",
            values![created_before],
        )
        .await?;
    let mut deleted = invitations.len();
    for row in unused {
        let account = AccountId(row.reader("accounts").uuid("id")?);
        tx.run("delete from memberships where account_id = $1", values![account]).await?;
        let deleted_accounts = tx
            .run(
                "delete from accounts where id = $1 and password_hash is null and signed_in_at is null returning id",
                values![account],
            )
            .await?;
        deleted += deleted_accounts.len();
    }
    Ok(deleted)
}

/// Ends the sessions and links of an account.
pub(super) async fn end_access(tx: &mut dyn Tx, account: AccountId) -> Result<(), StoreError> {
    tx.run("delete from sessions where account_id = $1", values![account]).await?;
    tx.run("delete from account_links where account_id = $1", values![account]).await?;
    Ok(())
}

async fn has_administrator(tx: &mut dyn Tx) -> Result<bool, StoreError> {
    let select = "select 1 from accounts where is_admin = $1 and disabled_at is null limit 1";
    Ok(tx.first(select, values![true]).await?.is_some())
}
