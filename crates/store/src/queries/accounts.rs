//! Accounts, memberships, invitations, sessions and links. They are read on demand, and are not part of the control
//! plane that nodes keep in memory.
//!
//! Changes of permissions are serialised by the control-plane version, so that invariants such as "a workspace keeps an
//! owner" hold at the commit. Transactions that begin a session or add a link lock the account first: no session can
//! begin with a password that is being replaced, or while the account is being disabled.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, InvitationId, Membership, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    AcceptOutcome, AccountChangeOutcome, AccountRecord, AccountStore, AccountSummary, InviteOutcome, LinkPurpose,
    LoginAttempt, LoginBlocked, MemberChangeOutcome, NewOneTimeLink, NewSession, OneTimeLink, PasswordChange,
    PasswordHash, SessionAccess, SessionOrigin, SessionRecord, SessionSummary, StoreError, TokenHash,
};

use super::{PagedQuery, SqlStore, audit, login_throttle};
use crate::{
    driver::{Database, TransactionEnd, Tx, Value, values},
    row::{Row, RowReader},
};

/// Sessions per account. The least recently used ones end.
const MAX_SESSIONS: i64 = 50;

/// Retention of accounts without a password or a sign-in.
const UNUSED_ACCOUNT_RETENTION_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

macro_rules! account_columns {
    () => {
        "accounts.id, accounts.email, accounts.is_admin, accounts.created_at"
    };
}

macro_rules! account_record_columns {
    () => {
        concat!(account_columns!(), ", accounts.password_hash, accounts.disabled_at is not null")
    };
}

const INVITATION_COLUMNS: &str = "id, workspace_id, email, role, invited_by, created_at, expires_at";

fn read_account(row: &mut RowReader) -> Result<Account, StoreError> {
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

fn member_from_row(row: Row) -> Result<(Account, Role), StoreError> {
    let mut row = row.reader("memberships");
    Ok((read_account(&mut row)?, row.parsed("role")?))
}

fn invitation_from_row(row: Row) -> Result<Invitation, StoreError> {
    let mut row = row.reader("invitations");
    Ok(Invitation {
        id: InvitationId(row.uuid("id")?),
        workspace: WorkspaceId(row.uuid("workspace_id")?),
        email: row.parsed("email")?,
        role: row.parsed("role")?,
        invited_by: row.uuid_or_null("invited_by")?.map(AccountId),
        created_at: row.instant("created_at")?,
        expires_at: row.instant("expires_at")?,
    })
}

fn session_summary_from_row(row: Row) -> Result<SessionSummary, StoreError> {
    let mut row = row.reader("sessions");
    Ok(SessionSummary {
        token: TokenHash(row.digest("token_hash")?),
        origin: SessionOrigin { network: row.text("network")?, user_agent: row.text("user_agent")? },
        created_at: row.instant("created_at")?,
        seen_at: row.instant("seen_at")?,
    })
}

#[async_trait]
impl<D: Database> AccountStore for SqlStore<D> {
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError> {
        let insert = "insert into accounts (id, email, is_admin, created_at) values ($1, $2, $3, $4)
                      on conflict (email) do nothing returning id";
        let values = values![account.id, account.email.as_str(), account.is_admin, account.created_at].to_vec();
        self.write_audited(insert, values, audit).await
    }

    async fn find_account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!("select ", account_record_columns!(), " from accounts where id = $1");
        self.read_first(select, values![id].to_vec()).await?.map(account_record_from_row).transpose()
    }

    async fn find_account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!("select ", account_record_columns!(), " from accounts where email = $1");
        self.read_first(select, values![email.as_str()].to_vec()).await?.map(account_record_from_row).transpose()
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
        let rows =
            self.database.read(move |tx| Box::pin(async move { tx.query(select.into(), &values).await })).await?;
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
                audit::insert_event(tx, &event).await?;
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
                audit::insert_event(tx, &event).await?;
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
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(AccountChangeOutcome::Changed))
            })
        })
        .await
    }

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError> {
        let update = "update accounts set disabled_at = null where id = $1 and disabled_at is not null returning id";
        let is_done = self.write_audited(update, values![account].to_vec(), audit).await?;
        Ok(if is_done { AccountChangeOutcome::Changed } else { AccountChangeOutcome::Unchanged })
    }

    async fn create_invitation(
        &self,
        invitation: &Invitation,
        limit: u32,
        audit: &AuditEvent,
    ) -> Result<InviteOutcome, StoreError> {
        let (new, event) = (invitation.clone(), audit.clone());
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                if let Some(inviter) = new.invited_by
                    && !may_invite(tx, inviter, new.workspace).await?
                {
                    return Ok(TransactionEnd::Rollback(InviteOutcome::NotAllowed));
                }
                let is_member = tx
                    .first(
                        "select 1 from memberships join accounts on accounts.id = memberships.account_id
                          where memberships.workspace_id = $1 and accounts.email = $2",
                        values![new.workspace, new.email.as_str()],
                    )
                    .await?;
                if is_member.is_some() {
                    return Ok(TransactionEnd::Rollback(InviteOutcome::AlreadyMember));
                }
                tx.run(
                    "delete from invitations where workspace_id = $1 and (email = $2 or expires_at <= $3)",
                    values![new.workspace, new.email.as_str(), new.created_at],
                )
                .await?;
                let taken = tx
                    .first(
                        "select (select count(*) from memberships where workspace_id = $1)
                              + (select count(*) from invitations where workspace_id = $1)",
                        values![new.workspace],
                    )
                    .await?;
                if taken.map_or(Ok(0), Row::into_int)? >= i64::from(limit) {
                    return Ok(TransactionEnd::Rollback(InviteOutcome::LimitReached));
                }
                tx.run(
                    "insert into invitations (id, workspace_id, email, role, invited_by, created_at, expires_at)
                     values ($1, $2, $3, $4, $5, $6, $7)",
                    values![
                        new.id,
                        new.workspace,
                        new.email.as_str(),
                        new.role.as_str(),
                        new.invited_by.map_or(Value::Null, Value::from),
                        new.created_at,
                        new.expires_at
                    ],
                )
                .await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(InviteOutcome::Pending))
            })
        })
        .await
    }

    async fn find_invitation(&self, id: InvitationId, now: Timestamp) -> Result<Option<Invitation>, StoreError> {
        self.database.read(move |tx| Box::pin(async move { pending_invitation(tx, id, now).await })).await
    }

    async fn list_invitations(
        &self,
        workspace: WorkspaceId,
        now: Timestamp,
        page: PageRequest,
    ) -> Result<Page<Invitation>, StoreError> {
        let list = PagedQuery {
            columns: INVITATION_COLUMNS,
            from: "invitations where workspace_id = $1 and expires_at > $2".into(),
            values: values![workspace, now].to_vec(),
            order: "email",
            page,
        };
        self.read_page(list, invitation_from_row).await
    }

    async fn withdraw_invitation(
        &self,
        workspace: WorkspaceId,
        id: InvitationId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let delete = "delete from invitations where id = $1 and workspace_id = $2 returning id";
        self.write_audited(delete, values![id, workspace].to_vec(), audit).await
    }

    async fn accept_invitation(
        &self,
        id: InvitationId,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<AcceptOutcome, StoreError> {
        let event = audit.clone();
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let Some(invitation) = pending_invitation(tx, id, event.at).await? else {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
                };
                let invitee = tx
                    .first(
                        "select id from accounts where id = $1 and email = $2 and disabled_at is null",
                        values![account, invitation.email.as_str()],
                    )
                    .await?;
                if invitee.is_none() {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
                }
                if !accept(tx, &invitation, account).await? {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
                }
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(AcceptOutcome::Accepted))
            })
        })
        .await
    }

    async fn accept_with_new_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<AcceptOutcome, StoreError> {
        let (account, PasswordHash(password), events) = (account.clone(), password.clone(), audit.to_vec());
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let invitation = pending_invitation(tx, id, session.created_at).await?;
                let Some(invitation) = invitation.filter(|invitation| invitation.email == account.email) else {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
                };
                let created = tx
                    .first(
                        "insert into accounts (id, email, is_admin, password_hash, created_at, signed_in_at)
                         values ($1, $2, $3, $4, $5, $5)
                         on conflict (email) do nothing returning id",
                        values![account.id, account.email.as_str(), false, password, account.created_at],
                    )
                    .await?;
                if created.is_none() {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::AccountExists));
                }
                if !accept(tx, &invitation, account.id).await? {
                    return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
                }
                insert_session(tx, session).await?;
                for event in &events {
                    audit::insert_event(tx, event).await?;
                }
                Ok(TransactionEnd::Commit(AcceptOutcome::Accepted))
            })
        })
        .await
    }

    async fn change_member_role(
        &self,
        account: AccountId,
        membership: Membership,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let event = audit.clone();
        let Membership { workspace, role } = membership;
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let Some(was_owner) = is_active_owner(tx, account, workspace).await? else {
                    return Ok(TransactionEnd::Rollback(MemberChangeOutcome::NotAMember));
                };
                let update = "update memberships set role = $1
                               where account_id = $2 and workspace_id = $3 and role <> $1 returning account_id";
                if tx.first(update, values![role.as_str(), account, workspace]).await?.is_none() {
                    return Ok(TransactionEnd::Rollback(MemberChangeOutcome::Changed));
                }
                if was_owner && !has_owner(tx, workspace).await? {
                    return Ok(TransactionEnd::Rollback(MemberChangeOutcome::LastOwner));
                }
                if role != Role::Owner {
                    void_invitations(tx, account, workspace).await?;
                }
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(MemberChangeOutcome::Changed))
            })
        })
        .await
    }

    async fn remove_member(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let event = audit.clone();
        self.change_control_plane(move |tx, _| {
            Box::pin(async move {
                let Some(was_owner) = is_active_owner(tx, account, workspace).await? else {
                    return Ok(TransactionEnd::Rollback(MemberChangeOutcome::NotAMember));
                };
                tx.run(
                    "delete from memberships where account_id = $1 and workspace_id = $2",
                    values![account, workspace],
                )
                .await?;
                if was_owner && !has_owner(tx, workspace).await? {
                    return Ok(TransactionEnd::Rollback(MemberChangeOutcome::LastOwner));
                }
                void_invitations(tx, account, workspace).await?;
                audit::insert_event(tx, &event).await?;
                Ok(TransactionEnd::Commit(MemberChangeOutcome::Changed))
            })
        })
        .await
    }

    async fn list_members(
        &self,
        workspace: WorkspaceId,
        page: PageRequest,
    ) -> Result<Page<(Account, Role)>, StoreError> {
        let list = PagedQuery {
            columns: concat!(account_columns!(), ", memberships.role"),
            from: "memberships join accounts on accounts.id = memberships.account_id
                    where memberships.workspace_id = $1"
                .into(),
            values: values![workspace].to_vec(),
            order: "accounts.email",
            page,
        };
        self.read_page(list, member_from_row).await
    }

    async fn add_link(&self, link: NewOneTimeLink, audit: &AuditEvent) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let NewOneTimeLink { token, account, purpose, expires_at } = link;
                    let lock = "update accounts set email = email where id = $1 and disabled_at is null returning id";
                    if tx.first(lock, values![account]).await?.is_none() {
                        return Ok(TransactionEnd::Rollback(false));
                    }
                    tx.run("delete from account_links where account_id = $1", values![account]).await?;
                    tx.run(
                        "insert into account_links (token_hash, account_id, purpose, expires_at)
                         values ($1, $2, $3, $4)",
                        values![token, account, purpose.as_str(), expires_at],
                    )
                    .await?;
                    audit::insert_event(tx, &event).await?;
                    Ok(TransactionEnd::Commit(true))
                })
            })
            .await
    }

    async fn find_link(&self, token: TokenHash, now: Timestamp) -> Result<Option<OneTimeLink>, StoreError> {
        let select = concat!(
            "select ",
            account_columns!(),
            ", account_links.purpose, account_links.expires_at
              from account_links join accounts on accounts.id = account_links.account_id
             where account_links.token_hash = $1 and account_links.expires_at > $2 and accounts.disabled_at is null"
        );
        let row = self.read_first(select, values![token, now].to_vec()).await?;
        row.map(|row| {
            let mut row = row.reader("account_links");
            let account = read_account(&mut row)?;
            let name = row.text("purpose")?;
            let purpose = LinkPurpose::ALL.into_iter().find(|purpose| purpose.as_str() == name);
            let purpose = purpose.ok_or_else(|| row.corrupt("purpose", "not a purpose"))?;
            Ok(OneTimeLink { account, purpose, expires_at: row.instant("expires_at")? })
        })
        .transpose()
    }

    async fn redeem_link(
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
                    let enabled = tx
                        .first(
                            "update accounts set signed_in_at = $1 where id = $2 and disabled_at is null returning id",
                            values![session.created_at, session.account],
                        )
                        .await?;
                    let used = tx
                        .first(
                            "delete from account_links where token_hash = $1 and account_id = $2 and expires_at > $3
                             returning account_id",
                            values![token, session.account, session.created_at],
                        )
                        .await?;
                    if enabled.is_none() || used.is_none() {
                        return Ok(TransactionEnd::Rollback(false));
                    }
                    if let Some(PasswordHash(hash)) = password {
                        tx.run("update accounts set password_hash = $1 where id = $2", values![hash, session.account])
                            .await?;
                        end_access(tx, session.account).await?;
                    }
                    insert_session(tx, session).await?;
                    for event in &events {
                        audit::insert_event(tx, event).await?;
                    }
                    Ok(TransactionEnd::Commit(true))
                })
            })
            .await
    }

    async fn count_login_attempt(&self, attempt: LoginAttempt) -> Result<Option<LoginBlocked>, StoreError> {
        self.database.transact(move |tx| Box::pin(login_throttle::count_attempt(tx, attempt))).await
    }

    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (PasswordHash(password), event) = (password.clone(), audit.clone());
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let is_valid = tx
                        .first(
                            "update accounts set signed_in_at = $1
                              where id = $2 and coalesce(password_hash, '') = $3 and disabled_at is null returning id",
                            values![session.created_at, session.account, password],
                        )
                        .await?;
                    if is_valid.is_none() {
                        return Ok(TransactionEnd::Rollback(false));
                    }
                    login_throttle::record_success(tx, attempt).await?;
                    insert_session(tx, session).await?;
                    audit::insert_event(tx, &event).await?;
                    Ok(TransactionEnd::Commit(true))
                })
            })
            .await
    }

    async fn change_password(&self, change: PasswordChange, audit: &AuditEvent) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let PasswordChange { account, current, new, session, attempt } = change;
                    let changed = tx
                        .first(
                            "update accounts set password_hash = $1
                              where id = $2 and password_hash = $3 and disabled_at is null returning id",
                            values![new.0, account, current.0],
                        )
                        .await?;
                    if changed.is_none() {
                        return Ok(TransactionEnd::Rollback(false));
                    }
                    tx.run(
                        "delete from sessions where account_id = $1 and token_hash <> $2",
                        values![account, session],
                    )
                    .await?;
                    tx.run("delete from account_links where account_id = $1", values![account]).await?;
                    login_throttle::record_success(tx, attempt).await?;
                    audit::insert_event(tx, &event).await?;
                    Ok(TransactionEnd::Commit(true))
                })
            })
            .await
    }

    async fn find_session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError> {
        self.database.read(move |tx| Box::pin(async move { select_session(tx, token, now).await })).await
    }

    async fn list_sessions(&self, account: AccountId, now: Timestamp) -> Result<Vec<SessionSummary>, StoreError> {
        self.database
            .read(move |tx| {
                Box::pin(async move {
                    let select = "select token_hash, network, user_agent, created_at, seen_at from sessions
                                   where account_id = $1 and expires_at > $2 order by seen_at desc, token_hash";
                    tx.run(select, values![account, now]).await?.into_iter().map(session_summary_from_row).collect()
                })
            })
            .await
    }

    async fn session_access(
        &self,
        tokens: &[TokenHash],
        workspaces: &[WorkspaceId],
        now: Timestamp,
    ) -> Result<Vec<SessionAccess>, StoreError> {
        if tokens.is_empty() || workspaces.is_empty() {
            return Ok(vec![]);
        }
        let select = format!(
            "select sessions.token_hash, accounts.is_admin, memberships.workspace_id
               from sessions join accounts on accounts.id = sessions.account_id
                    left join memberships on memberships.account_id = accounts.id
                          and memberships.workspace_id in ({})
              where sessions.token_hash in ({}) and sessions.expires_at > ${} and accounts.disabled_at is null
              order by sessions.token_hash",
            placeholders(1, workspaces.len()),
            placeholders(1 + workspaces.len(), tokens.len()),
            1 + workspaces.len() + tokens.len(),
        );
        let values: Vec<Value> = workspaces
            .iter()
            .map(|workspace| Value::from(*workspace))
            .chain(tokens.iter().map(|token| Value::from(*token)))
            .chain([Value::from(now)])
            .collect();
        let rows = self
            .database
            .read_reserved(move |tx| Box::pin(async move { tx.query(select.into(), &values).await }))
            .await?;
        let mut found: Vec<SessionAccess> = vec![];
        for row in rows {
            let mut row = row.reader("sessions");
            let (token, is_admin) = (TokenHash(row.digest("token_hash")?), row.boolean("is_admin")?);
            let workspace = row.uuid_or_null("workspace_id")?.map(WorkspaceId);
            match found.last_mut() {
                Some(last) if last.token == token => last.workspaces.extend(workspace),
                _ => found.push(SessionAccess { token, is_admin, workspaces: workspace.into_iter().collect() }),
            }
        }
        Ok(found)
    }

    async fn extend_session(
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
                    Ok(TransactionEnd::Commit(()))
                })
            })
            .await
    }

    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError> {
        let delete = "delete from sessions where token_hash = $1 returning account_id";
        self.write_audited(delete, values![token].to_vec(), audit).await
    }
}

impl<D: Database> SqlStore<D> {
    /// Runs one statement and, if it changed a row, inserts the audit event. Returns whether it changed one.
    async fn write_audited(
        &self,
        sql: &'static str,
        values: Vec<Value>,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    if tx.first(sql, &values).await?.is_none() {
                        return Ok(TransactionEnd::Rollback(false));
                    }
                    audit::insert_event(tx, &event).await?;
                    Ok(TransactionEnd::Commit(true))
                })
            })
            .await
    }
}

/// Placeholders of consecutive parameters: `$3, $4, $5`.
fn placeholders(first: usize, count: usize) -> String {
    (first..first + count).map(|index| format!("${index}")).collect::<Vec<_>>().join(", ")
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
async fn end_access(tx: &mut dyn Tx, account: AccountId) -> Result<(), StoreError> {
    tx.run("delete from sessions where account_id = $1", values![account]).await?;
    tx.run("delete from account_links where account_id = $1", values![account]).await?;
    Ok(())
}

async fn has_administrator(tx: &mut dyn Tx) -> Result<bool, StoreError> {
    let select = "select 1 from accounts where is_admin = $1 and disabled_at is null limit 1";
    Ok(tx.first(select, values![true]).await?.is_some())
}

/// Whether a member is an owner who can sign in. `None`: not a member.
async fn is_active_owner(
    tx: &mut dyn Tx,
    account: AccountId,
    workspace: WorkspaceId,
) -> Result<Option<bool>, StoreError> {
    let row = tx
        .first(
            "select memberships.role, accounts.disabled_at is not null
               from memberships join accounts on accounts.id = memberships.account_id
              where memberships.account_id = $1 and memberships.workspace_id = $2",
            values![account, workspace],
        )
        .await?;
    row.map(|row| {
        let mut row = row.reader("memberships");
        let (role, is_disabled) = (row.parsed::<Role>("role")?, row.boolean("disabled_at")?);
        Ok(role == Role::Owner && !is_disabled)
    })
    .transpose()
}

async fn has_owner(tx: &mut dyn Tx, workspace: WorkspaceId) -> Result<bool, StoreError> {
    let owner = tx
        .first(
            "select 1 from memberships join accounts on accounts.id = memberships.account_id
              where memberships.workspace_id = $1 and memberships.role = $2 and accounts.disabled_at is null limit 1",
            values![workspace, Role::Owner.as_str()],
        )
        .await?;
    Ok(owner.is_some())
}

/// Whether an account is enabled, and an owner of the workspace or an administrator.
async fn may_invite(tx: &mut dyn Tx, account: AccountId, workspace: WorkspaceId) -> Result<bool, StoreError> {
    let inviter = tx
        .first(
            "select 1 from accounts where id = $1 and disabled_at is null
                and (is_admin or exists (select 1 from memberships
                                          where account_id = $1 and workspace_id = $2 and role = $3))",
            values![account, workspace, Role::Owner.as_str()],
        )
        .await?;
    Ok(inviter.is_some())
}

/// The invitation, if it has not expired.
async fn pending_invitation(
    tx: &mut dyn Tx,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<Invitation>, StoreError> {
    let select = "select id, workspace_id, email, role, invited_by, created_at, expires_at from invitations
                   where id = $1 and expires_at > $2";
    tx.first(select, values![id, now]).await?.map(invitation_from_row).transpose()
}

/// Deletes the invitations to a workspace that an account created.
async fn void_invitations(tx: &mut dyn Tx, account: AccountId, workspace: WorkspaceId) -> Result<(), StoreError> {
    let delete = "delete from invitations where workspace_id = $1 and invited_by = $2";
    tx.run(delete, values![workspace, account]).await?;
    Ok(())
}

/// Turns an invitation into a membership. `false`: it was withdrawn in the meantime.
async fn accept(tx: &mut dyn Tx, invitation: &Invitation, account: AccountId) -> Result<bool, StoreError> {
    let claim = "delete from invitations where id = $1 returning id";
    if tx.first(claim, values![invitation.id]).await?.is_none() {
        return Ok(false);
    }
    tx.run(
        "insert into memberships (account_id, workspace_id, role) values ($1, $2, $3)
         on conflict (account_id, workspace_id) do nothing",
        values![account, invitation.workspace, invitation.role.as_str()],
    )
    .await?;
    Ok(true)
}

async fn insert_session(tx: &mut dyn Tx, session: NewSession) -> Result<(), StoreError> {
    let NewSession { token, account, origin, created_at, expires_at } = session;
    tx.run(
        "insert into sessions (token_hash, account_id, network, user_agent, created_at, seen_at, expires_at)
         values ($1, $2, $3, $4, $5, $5, $6)",
        values![token, account, origin.network, origin.user_agent, created_at, expires_at],
    )
    .await?;
    tx.run(
        "delete from sessions where account_id = $1 and token_hash not in
           (select token_hash from sessions where account_id = $1 order by seen_at desc, created_at desc limit $2)",
        values![account, MAX_SESSIONS],
    )
    .await?;
    Ok(())
}

async fn select_session(
    tx: &mut dyn Tx,
    token: TokenHash,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    let select = concat!(
        "select ",
        account_columns!(),
        ", sessions.created_at, sessions.seen_at
          from sessions join accounts on accounts.id = sessions.account_id
         where sessions.token_hash = $1 and sessions.expires_at > $2 and accounts.disabled_at is null"
    );
    let Some(row) = tx.first(select, values![token, now]).await? else { return Ok(None) };
    let mut row = row.reader("sessions");
    let account = read_account(&mut row)?;
    let (created_at, seen_at) = (row.instant("created_at")?, row.instant("seen_at")?);
    let memberships = tx
        .run(
            "select workspace_id, role from memberships where account_id = $1 order by workspace_id",
            values![account.id],
        )
        .await?;
    let membership = |row: Row| {
        let mut row = row.reader("memberships");
        Ok(Membership { workspace: WorkspaceId(row.uuid("workspace_id")?), role: row.parsed("role")? })
    };
    let memberships = memberships.into_iter().map(membership).collect::<Result<_, StoreError>>()?;
    Ok(Some(SessionRecord { account, memberships, created_at, seen_at }))
}
