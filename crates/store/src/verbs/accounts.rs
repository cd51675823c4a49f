//! Accounts, memberships, sessions and links. They are read when somebody asks, and are no part of the control plane
//! that nodes keep in memory.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Membership, Role},
    audit::AuditEvent,
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    AccountRecord, AccountStore, Guess, LinkPurpose, LinkRecord, NewLink, NewSession, PasswordHash, SessionRecord,
    StoreError, TokenHash, Wait,
};

use super::{SqlStore, audit, guesses};
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    row::{Columns, Row},
};

macro_rules! account_columns {
    () => {
        "accounts.id, accounts.email, accounts.is_admin, accounts.created_at"
    };
}

fn account(row: &mut Columns) -> Result<Account, StoreError> {
    Ok(Account {
        id: AccountId(row.uuid("id")?),
        email: row.parsed("email")?,
        is_admin: row.boolean("is_admin")?,
        created_at: row.instant("created_at")?,
    })
}

#[async_trait]
impl<D: Database> AccountStore for SqlStore<D> {
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError> {
        let insert = "insert into accounts (id, email, is_admin, created_at) values ($1, $2, $3, $4)
                      on conflict (email) do nothing returning id";
        let values = values![account.id, account.email.as_str(), account.is_admin, account.created_at].to_vec();
        self.write(insert, values, audit).await
    }

    async fn account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!("select ", account_columns!(), ", accounts.password_hash from accounts where email = $1");
        let row = self.read_first(select, values![email.as_str()].to_vec()).await?;
        row.map(|row| {
            let mut row = row.of("accounts");
            let account = account(&mut row)?;
            Ok(AccountRecord { account, password: row.text_or_null("password_hash")?.map(PasswordHash) })
        })
        .transpose()
    }

    async fn emails(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError> {
        if accounts.is_empty() {
            return Ok(vec![]);
        }
        let places: Vec<_> = (1..=accounts.len()).map(|place| format!("${place}")).collect();
        let select = format!("select id, email from accounts where id in ({})", places.join(", "));
        let values: Vec<Value> = accounts.iter().map(|account| (*account).into()).collect();
        let rows =
            self.database.read(move |tx| Box::pin(async move { tx.query(select.into(), &values).await })).await?;
        let named = |row: Row| {
            let mut row = row.of("accounts");
            Ok((AccountId(row.uuid("id")?), row.parsed("email")?))
        };
        rows.into_iter().map(named).collect()
    }

    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError> {
        let update = "update accounts set is_admin = $1 where id = $2 and is_admin <> $1 returning id";
        self.write(update, values![true, account].to_vec(), audit).await
    }

    async fn grant(&self, account: AccountId, membership: Membership, audit: &AuditEvent) -> Result<bool, StoreError> {
        let Membership { workspace, role } = membership;
        let upsert = "insert into memberships (account_id, workspace_id, role) values ($1, $2, $3)
                      on conflict (account_id, workspace_id) do update set role = excluded.role
                       where memberships.role <> excluded.role
                      returning account_id";
        self.write(upsert, values![account, workspace, role.as_str()].to_vec(), audit).await
    }

    async fn withdraw(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let delete = "delete from memberships where account_id = $1 and workspace_id = $2 returning account_id";
        self.write(delete, values![account, workspace].to_vec(), audit).await
    }

    async fn members(&self, workspace: WorkspaceId) -> Result<Vec<(Account, Role)>, StoreError> {
        self.database
            .read(move |tx| {
                Box::pin(async move {
                    let select = concat!(
                        "select ",
                        account_columns!(),
                        ", memberships.role from memberships join accounts on accounts.id = memberships.account_id
                          where memberships.workspace_id = $1 order by accounts.email"
                    );
                    let rows = tx.run(select, values![workspace]).await?;
                    let member = |row: Row| {
                        let mut row = row.of("memberships");
                        Ok((account(&mut row)?, row.parsed("role")?))
                    };
                    rows.into_iter().map(member).collect()
                })
            })
            .await
    }

    async fn add_link(&self, link: NewLink) -> Result<(), StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let NewLink { token, account, purpose, expires_at } = link;
                    tx.run(
                        "insert into account_links (token_hash, account_id, purpose, expires_at)
                         values ($1, $2, $3, $4)",
                        values![token, account, purpose.as_str(), expires_at],
                    )
                    .await?;
                    Ok(Ending::Commit(()))
                })
            })
            .await
    }

    async fn link(&self, token: TokenHash, now: Timestamp) -> Result<Option<LinkRecord>, StoreError> {
        let select = concat!(
            "select ",
            account_columns!(),
            ", account_links.purpose
              from account_links join accounts on accounts.id = account_links.account_id
             where account_links.token_hash = $1 and account_links.expires_at > $2"
        );
        let row = self.read_first(select, values![token, now].to_vec()).await?;
        row.map(|row| {
            let mut row = row.of("account_links");
            let account = account(&mut row)?;
            let name = row.text("purpose")?;
            let purpose = LinkPurpose::ALL.into_iter().find(|purpose| purpose.as_str() == name);
            Ok(LinkRecord { account, purpose: purpose.ok_or_else(|| row.inconsistent("purpose", "not a purpose"))? })
        })
        .transpose()
    }

    async fn use_link(
        &self,
        token: TokenHash,
        password: Option<&PasswordHash>,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError> {
        let (password, events) = (password.cloned(), audit.to_vec());
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let used = tx
                        .first(
                            "delete from account_links where token_hash = $1 and account_id = $2 and expires_at > $3
                             returning account_id",
                            values![token, session.account, session.created_at],
                        )
                        .await?;
                    if used.is_none() {
                        return Ok(Ending::Rollback(false));
                    }
                    if let Some(PasswordHash(hash)) = password {
                        set_password(tx, session.account, &hash).await?;
                    }
                    begin(tx, session).await?;
                    for event in &events {
                        audit::record(tx, event).await?;
                    }
                    Ok(Ending::Commit(true))
                })
            })
            .await
    }

    async fn count_guess(&self, guess: Guess) -> Result<Option<Wait>, StoreError> {
        self.database.transact(move |tx| Box::pin(guesses::count(tx, guess))).await
    }

    async fn begin_session(&self, session: NewSession, guess: Guess, audit: &AuditEvent) -> Result<(), StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    guesses::forgive(tx, guess).await?;
                    begin(tx, session).await?;
                    audit::record(tx, &event).await?;
                    Ok(Ending::Commit(()))
                })
            })
            .await
    }

    async fn session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError> {
        self.database.read(move |tx| Box::pin(async move { session(tx, token, now).await })).await
    }

    async fn keep_session(
        &self,
        token: TokenHash,
        seen_at: Timestamp,
        expires_at: Timestamp,
    ) -> Result<(), StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    tx.run(
                        "update sessions set seen_at = $1, expires_at = $2 where token_hash = $3 and seen_at < $1",
                        values![seen_at, expires_at, token],
                    )
                    .await?;
                    Ok(Ending::Commit(()))
                })
            })
            .await
    }

    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError> {
        let delete = "delete from sessions where token_hash = $1 returning account_id";
        self.write(delete, values![token].to_vec(), audit).await
    }
}

impl<D: Database> SqlStore<D> {
    /// Runs one statement and, if it touched a row, records the event. Says whether it did.
    async fn write(&self, sql: &'static str, values: Vec<Value>, audit: &AuditEvent) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    if tx.first(sql, &values).await?.is_none() {
                        return Ok(Ending::Rollback(false));
                    }
                    audit::record(tx, &event).await?;
                    Ok(Ending::Commit(true))
                })
            })
            .await
    }
}

/// Whoever knew the old password, or had a link, is out.
async fn set_password(tx: &mut dyn Tx, account: AccountId, hash: &str) -> Result<(), StoreError> {
    tx.run("update accounts set password_hash = $1 where id = $2", values![hash, account]).await?;
    tx.run("delete from sessions where account_id = $1", values![account]).await?;
    tx.run("delete from account_links where account_id = $1", values![account]).await?;
    Ok(())
}

async fn begin(tx: &mut dyn Tx, session: NewSession) -> Result<(), StoreError> {
    let NewSession { token, account, created_at, expires_at } = session;
    tx.run(
        "insert into sessions (token_hash, account_id, created_at, seen_at, expires_at) values ($1, $2, $3, $3, $4)",
        values![token, account, created_at, expires_at],
    )
    .await?;
    Ok(())
}

async fn session(tx: &mut dyn Tx, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError> {
    let select = concat!(
        "select ",
        account_columns!(),
        ", sessions.created_at, sessions.seen_at
          from sessions join accounts on accounts.id = sessions.account_id
         where sessions.token_hash = $1 and sessions.expires_at > $2"
    );
    let Some(row) = tx.first(select, values![token, now]).await? else { return Ok(None) };
    let mut row = row.of("sessions");
    let account = account(&mut row)?;
    let (created_at, seen_at) = (row.instant("created_at")?, row.instant("seen_at")?);
    let memberships = tx
        .run(
            "select workspace_id, role from memberships where account_id = $1 order by workspace_id",
            values![account.id],
        )
        .await?;
    let membership = |row: Row| {
        let mut row = row.of("memberships");
        Ok(Membership { workspace: WorkspaceId(row.uuid("workspace_id")?), role: row.parsed("role")? })
    };
    let memberships = memberships.into_iter().map(membership).collect::<Result<_, StoreError>>()?;
    Ok(Some(SessionRecord { account, memberships, created_at, seen_at }))
}
