//! Stores the sign-in data of console accounts: one-time links, throttling of logins, and sessions.
//!
//! The counts of failed logins, by account and by address, are shared by all nodes.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, Membership},
    audit::AuditEvent,
    login_throttle::{FREE_ATTEMPTS_PER_ACCOUNT, FREE_ATTEMPTS_PER_ADDRESS, FailedLogins, RESET_AFTER},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    accounts::{
        LoginAttempt, LoginBlocked, LoginThrottleKey, MembershipGrants, NewOneTimeLink, NewSession, OneTimeLink,
        PasswordChange, PasswordHash, SecondFactorProof, SecondFactorUse, SessionAccess, SessionOrigin, SessionRecord,
        SessionStore, SessionSummary,
    },
    hashes::TokenHash,
    row_mac::RowSigner,
    store::StoreError,
};

use super::{
    SqlStore,
    account_rows::{account_columns, read_account},
    audit::{insert_audit_event, insert_audit_events},
    memberships::{grants_or_null, read_grants},
    placeholders,
    row_macs::{
        link_fields, lock_and_verify_account, read_mac, read_signed_account, session_fields, sign_account,
        signed_account_columns, signed_link, signed_membership, signed_session,
    },
};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, RowReader, Value, values},
};

/// Maximum number of sessions per account. Beyond it, the least recently used sessions end.
const MAX_SESSIONS: i64 = 50;
/// Maximum number of throttle entries, which limits the storage that a client with many network addresses can use.
/// Beyond it, the oldest entries are deleted before they expire.
const MAX_THROTTLE_ENTRIES: i64 = 100_000;

#[async_trait]
impl<D: Database> SessionStore for SqlStore<D> {
    async fn add_link(&self, link: NewOneTimeLink, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            let NewOneTimeLink { token, account, purpose, expires_at } = link;
            lock_and_verify_account(tx, &*signer, account).await?;
            let lock = "update accounts set email = email where id = $1 and disabled_at is null returning id";
            if !tx.exists(lock, values![account]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            tx.run("delete from account_links where account_id = $1", values![account]).await?;
            let mac = signer.sign(&link_fields(token, account, purpose, expires_at))?;
            let insert = "insert into account_links (token_hash, account_id, purpose, expires_at, row_mac)
                          values ($1, $2, $3, $4, $5)";
            tx.run(insert, values![token, account, purpose.into_str(), expires_at, mac.0]).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn find_link(&self, token: TokenHash, now: Timestamp) -> Result<Option<OneTimeLink>, StoreError> {
        let select = concat!(
            "select ",
            account_columns!(),
            ", account_links.purpose, account_links.expires_at, account_links.row_mac, ",
            signed_account_columns!(),
            " from account_links join accounts on accounts.id = account_links.account_id
             where account_links.token_hash = $1 and account_links.expires_at > $2 and accounts.disabled_at is null"
        );
        let row = self.query_first(select, values![token, now]).await?;
        let Some(row) = row else { return Ok(None) };
        let mut row = row.reader("account_links");
        let account = read_account(&mut row)?;
        let link = OneTimeLink { purpose: row.parsed("purpose")?, expires_at: row.instant("expires_at")?, account };
        let fields = (token, link.account.id, link.purpose, link.expires_at);
        let signed = [signed_link(fields, read_mac(&mut row)?), read_signed_account(&mut row)?.1];
        let signer = self.signer()?;
        for signed in signed {
            if !signed.grants_rights(&*signer)? {
                return Ok(None);
            }
        }
        Ok(Some(link))
    }

    async fn redeem_link(
        &self,
        token: TokenHash,
        password: Option<&PasswordHash>,
        session: NewSession,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError> {
        let (password, events, signer) = (password.cloned(), audit.to_vec(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, session.account).await?;
            let update = "update accounts set signed_in_at = $1 where id = $2 and disabled_at is null returning id";
            let enabled = tx.first(update, values![session.created_at, session.account]).await?;
            let delete = "delete from account_links where token_hash = $1 and account_id = $2 and expires_at > $3
                          returning account_id";
            let used = tx.first(delete, values![token, session.account, session.created_at]).await?;
            if enabled.is_none() || used.is_none() {
                return Ok(TransactionEnd::Rollback(false));
            }
            if let Some(PasswordHash(hash)) = password {
                tx.run("update accounts set password_hash = $1 where id = $2", values![hash, session.account]).await?;
                sign_account(tx, &*signer, session.account).await?;
                delete_sessions_and_links(tx, session.account).await?;
            }
            insert_session(tx, &*signer, session).await?;
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn redeem_link_without_session(
        &self,
        token: TokenHash,
        account: AccountId,
        password: &PasswordHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (PasswordHash(password), event, signer) = (password.clone(), audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, account).await?;
            let update = "update accounts set password_hash = $1 where id = $2 and disabled_at is null
                          returning id";
            let enabled = tx.first(update, values![password, account]).await?;
            let redeem = "delete from account_links where token_hash = $1 and account_id = $2
                             and expires_at > $3 returning account_id";
            let redeemed = tx.first(redeem, values![token, account, event.at]).await?;
            if enabled.is_none() || redeemed.is_none() {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            delete_sessions_and_links(tx, account).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn count_login_attempt(&self, attempt: LoginAttempt) -> Result<Option<LoginBlocked>, StoreError> {
        self.transact(move |tx| Box::pin(count_attempt(tx, attempt))).await
    }

    async fn begin_session(
        &self,
        session: NewSession,
        password: &PasswordHash,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (PasswordHash(password), event, signer) = (password.clone(), audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, session.account).await?;
            let update = "update accounts set signed_in_at = $1
                           where id = $2 and coalesce(password_hash, '') = $3 and second_factor_seed is null
                             and disabled_at is null returning id";
            if !tx.exists(update, values![session.created_at, session.account, password]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            record_login_success(tx, &[attempt]).await?;
            insert_session(tx, &*signer, session).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn begin_session_with_second_factor(
        &self,
        session: NewSession,
        password: &PasswordHash,
        used: SecondFactorUse,
        attempts: [LoginAttempt; 2],
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError> {
        let (PasswordHash(password), events, signer) = (password.clone(), audit.to_vec(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, session.account).await?;
            let update = "update accounts set signed_in_at = $1
                           where id = $2 and password_hash = $3 and disabled_at is null returning id";
            let is_valid = tx.first(update, values![session.created_at, session.account, password]).await?;
            if is_valid.is_none() || !use_second_factor(tx, used).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            record_login_success(tx, &attempts).await?;
            insert_session(tx, &*signer, session).await?;
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn change_password(&self, change: PasswordChange, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            let PasswordChange { account, current, new, session, attempt } = change;
            lock_and_verify_account(tx, &*signer, account).await?;
            let update = "update accounts set password_hash = $1
                           where id = $2 and password_hash = $3 and disabled_at is null returning id";
            if !tx.exists(update, values![new.0, account, current.0]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            tx.run("delete from sessions where account_id = $1 and token_hash <> $2", values![account, session])
                .await?;
            tx.run("delete from account_links where account_id = $1", values![account]).await?;
            record_login_success(tx, &[attempt]).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn find_session(&self, token: TokenHash, now: Timestamp) -> Result<Option<SessionRecord>, StoreError> {
        let signer = self.signer()?;
        self.database.read(work!(|tx| select_session(tx, &*signer, token, now).await)).await
    }

    async fn list_sessions(&self, account: AccountId, now: Timestamp) -> Result<Vec<SessionSummary>, StoreError> {
        let select = "select token_hash, network, user_agent, created_at, seen_at from sessions
                       where account_id = $1 and expires_at > $2 order by seen_at desc, token_hash";
        self.query(select, values![account, now]).await?.into_iter().map(session_summary_from_row).collect()
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
            "select sessions.token_hash, accounts.is_admin, sessions.created_at, sessions.row_mac, {},
                    memberships.row_mac, memberships.workspace_id, memberships.role, memberships.claim_role,
                    memberships.manual_role
               from sessions join accounts on accounts.id = sessions.account_id
                    left join memberships on memberships.account_id = accounts.id
                          and memberships.workspace_id in ({})
              where sessions.token_hash in ({}) and sessions.expires_at > ${} and accounts.disabled_at is null
              order by sessions.token_hash",
            signed_account_columns!(),
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
        let signer = self.signer()?;
        let rows = self.database.read_reserved(work!(|tx| tx.query(select.into(), &values).await)).await?;
        let mut found: Vec<SessionAccess> = vec![];
        for row in rows {
            let mut row = row.reader("sessions");
            let (token, is_admin) = (TokenHash(row.digest("token_hash")?), row.boolean("is_admin")?);
            let (created_at, mac) = (row.instant("created_at")?, read_mac(&mut row)?);
            let (account, signed_account) = read_signed_account(&mut row)?;
            let session = signed_session(token, account, created_at, mac);
            if !session.grants_rights(&*signer)? || !signed_account.grants_rights(&*signer)? {
                continue;
            }
            let workspace = read_verified_workspace(&mut row, &*signer, account)?;
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
        let update = "update sessions set seen_at = $1, expires_at = $2 where token_hash = $3 and seen_at < $1";
        self.execute(update, values![seen_at, expires_at, token]).await.map(drop)
    }

    async fn end_other_sessions(
        &self,
        account: AccountId,
        current: TokenHash,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let delete = "delete from sessions where account_id = $1 and token_hash <> $2 returning account_id";
        self.execute_audited(delete, values![account, current], audit).await
    }

    async fn end_session(&self, token: TokenHash, audit: &AuditEvent) -> Result<bool, StoreError> {
        let delete = "delete from sessions where token_hash = $1 returning account_id";
        self.execute_audited(delete, values![token], audit).await
    }
}

/// Reads the workspace of a joined membership. `None`: the account is not a member, or the membership was altered.
fn read_verified_workspace(
    row: &mut RowReader,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<Option<WorkspaceId>, StoreError> {
    let mac = read_mac(row)?;
    let Some(grants) = grants_or_null(row)? else { return Ok(None) };
    let (grants, role) = grants;
    let is_valid = signed_membership(account, &grants, role, mac).grants_rights(signer)?;
    Ok(is_valid.then_some(grants.workspace))
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

pub(super) async fn insert_session(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    session: NewSession,
) -> Result<(), StoreError> {
    let NewSession { token, account, origin, created_at, expires_at } = session;
    let mac = signer.sign(&session_fields(token, account, created_at))?;
    let insert = "insert into sessions
                    (token_hash, account_id, network, user_agent, created_at, seen_at, expires_at, row_mac)
                  values ($1, $2, $3, $4, $5, $5, $6, $7)";
    tx.run(insert, values![token, account, origin.network, origin.user_agent, created_at, expires_at, mac.0]).await?;
    tx.run(
        "delete from sessions where account_id = $1 and token_hash not in
           (select token_hash from sessions where account_id = $1 order by seen_at desc, created_at desc limit $2)",
        values![account, MAX_SESSIONS],
    )
    .await?;
    Ok(())
}

/// Finds a session. `None`: it has ended, or its row or the row of its account was altered.
async fn select_session(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    token: TokenHash,
    now: Timestamp,
) -> Result<Option<SessionRecord>, StoreError> {
    let select = concat!(
        "select ",
        account_columns!(),
        ", accounts.password_hash is not null, accounts.second_factor_seed is not null,
           sessions.created_at, sessions.seen_at, sessions.row_mac, ",
        signed_account_columns!(),
        " from sessions join accounts on accounts.id = sessions.account_id
         where sessions.token_hash = $1 and sessions.expires_at > $2 and accounts.disabled_at is null"
    );
    let Some(row) = tx.first(select, values![token, now]).await? else { return Ok(None) };
    let mut row = row.reader("sessions");
    let account = read_account(&mut row)?;
    let (has_password, has_second_factor) = (row.boolean("password_hash")?, row.boolean("second_factor_seed")?);
    let (created_at, seen_at) = (row.instant("created_at")?, row.instant("seen_at")?);
    let session = signed_session(token, account.id, created_at, read_mac(&mut row)?);
    if !session.grants_rights(signer)? || !read_signed_account(&mut row)?.1.grants_rights(signer)? {
        return Ok(None);
    }
    let membership = |grants: MembershipGrants| Some(Membership { workspace: grants.workspace, role: grants.role()? });
    let memberships = read_grants(tx, signer, account.id).await?.into_iter().filter_map(membership).collect();
    Ok(Some(SessionRecord { account, has_password, has_second_factor, memberships, created_at, seen_at }))
}

/// Counts a login attempt for its account and its address. If one of them is blocked, counts nothing, and returns which
/// one and until when.
async fn count_attempt(
    tx: &mut dyn Tx,
    attempt: LoginAttempt,
) -> Result<TransactionEnd<Option<LoginBlocked>>, StoreError> {
    let mut entries = Vec::new();
    for (key, free_attempts) in throttle_keys_in_lock_order(attempt) {
        entries.push((key, free_attempts, lock_entry(tx, key, attempt.at).await?));
    }
    let blocks = entries
        .iter()
        .map(|(key, free_attempts, failed)| LoginBlocked { key: *key, until: failed.blocked_until(*free_attempts) });
    if let Some(blocked) = blocks.max_by_key(|blocked| blocked.until).filter(|blocked| blocked.until > attempt.at) {
        return Ok(TransactionEnd::Rollback(Some(blocked)));
    }
    for (key, _, failed) in entries {
        let FailedLogins { count, last_at } = failed.with_failure(attempt.at);
        let update = "update login_throttle set failed_attempts = $1, last_attempt_at = $2 where key_hash = $3";
        tx.run(update, values![i64::from(count), last_at, key.0]).await?;
    }
    Ok(TransactionEnd::Commit(None))
}

/// Marks a second-factor code as used. Returns `false` if the code was used before, or if the second factor has
/// changed.
pub(super) async fn use_second_factor(tx: &mut dyn Tx, used: SecondFactorUse) -> Result<bool, StoreError> {
    let SecondFactorUse { account, seed, proof } = used;
    let (update, value) = match proof {
        SecondFactorProof::Totp { step } => (
            "update accounts set second_factor_step = $1
              where id = $2 and second_factor_seed = $3 and second_factor_step < $1 returning id",
            step,
        ),
        SecondFactorProof::RecoveryCode { index } => (
            "update accounts set recovery_codes_used = recovery_codes_used | $1
              where id = $2 and second_factor_seed = $3 and (recovery_codes_used & $1) = 0 returning id",
            1_i64 << index.min(62),
        ),
    };
    tx.exists(update, values![value, account, seed.0.as_slice()]).await
}

/// Records a successful login. A login with a second factor has two attempts, one for each factor. Resets the counts of
/// the accounts, and subtracts the attempts from the counts of the addresses.
pub(super) async fn record_login_success(tx: &mut dyn Tx, attempts: &[LoginAttempt]) -> Result<(), StoreError> {
    // Sorted, so that concurrent transactions lock the rows in the same order.
    let mut taken_back: BTreeMap<LoginThrottleKey, i64> = BTreeMap::new();
    for attempt in attempts {
        *taken_back.entry(attempt.address).or_default() += 1;
    }
    taken_back.extend(attempts.iter().map(|attempt| (attempt.account, 0)));
    for (key, count) in taken_back {
        if count == 0 {
            tx.run("delete from login_throttle where key_hash = $1", values![key.0]).await?;
        } else {
            let update = "update login_throttle set failed_attempts =
                            case when failed_attempts > $1 then failed_attempts - $1 else 0 end
                           where key_hash = $2";
            tx.run(update, values![count, key.0]).await?;
        }
    }
    Ok(())
}

/// Deletes expired entries of the login throttle, and the oldest entries above the maximum. Each call deletes a limited
/// number of entries, and returns that number.
pub(super) async fn delete_expired_throttles(tx: &mut dyn Tx, now: Timestamp) -> Result<usize, StoreError> {
    let expired_before = now.saturating_sub(RESET_AFTER).unwrap_or(Timestamp::MIN);
    let delete = "delete from login_throttle where key_hash in
                    (select key_hash from login_throttle where last_attempt_at < $1
                      order by last_attempt_at, key_hash limit 1000)
                    and last_attempt_at < $1
                  returning 1";
    let expired = tx.run(delete, values![expired_before]).await?;
    let delete = "delete from login_throttle where key_hash in
                    (select key_hash from login_throttle
                      order by last_attempt_at desc, key_hash desc limit 1000 offset $1)
                  returning 1";
    let surplus = tx.run(delete, values![MAX_THROTTLE_ENTRIES]).await?;
    Ok(expired.len() + surplus.len())
}

/// Returns the two throttle keys of a login attempt, each with its number of free attempts. They are sorted, so that
/// concurrent transactions lock the rows in the same order.
fn throttle_keys_in_lock_order(attempt: LoginAttempt) -> [(LoginThrottleKey, u32); 2] {
    let mut keys = [(attempt.account, FREE_ATTEMPTS_PER_ACCOUNT), (attempt.address, FREE_ATTEMPTS_PER_ADDRESS)];
    keys.sort_unstable();
    keys
}

/// Returns the throttle entry of a key, and locks it until the end of the transaction.
async fn lock_entry(tx: &mut dyn Tx, key: LoginThrottleKey, now: Timestamp) -> Result<FailedLogins, StoreError> {
    let insert = "insert into login_throttle (key_hash, failed_attempts, last_attempt_at) values ($1, 0, $2)
                  on conflict (key_hash) do update set failed_attempts = login_throttle.failed_attempts
                  returning failed_attempts, last_attempt_at";
    let row = tx.first(insert, values![key.0, now]).await?;
    row.map_or(Ok(FailedLogins { count: 0, last_at: now }), failed_logins_from_row)
}

fn failed_logins_from_row(row: Row) -> Result<FailedLogins, StoreError> {
    let mut row = row.reader("login_throttle");
    let count = u32::try_from(row.int("failed_attempts")?).unwrap_or(u32::MAX);
    Ok(FailedLogins { count, last_at: row.instant("last_attempt_at")? })
}

/// Deletes the sessions and one-time links of an account.
pub(super) async fn delete_sessions_and_links(tx: &mut dyn Tx, account: AccountId) -> Result<(), StoreError> {
    tx.run("delete from sessions where account_id = $1", values![account]).await?;
    tx.run("delete from account_links where account_id = $1", values![account]).await?;
    Ok(())
}
