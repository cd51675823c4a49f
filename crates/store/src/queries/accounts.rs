//! Stores console accounts. They are read on demand: unlike the control plane, nodes do not keep them in memory.
//!
//! Changes of permissions run one after the other, because each increments the control-plane version. Invariants such
//! as "a workspace keeps an owner" therefore hold at the commit. Transactions that begin a session or add a link lock
//! the account first. No session can therefore begin with a password that is being replaced, or while the account is
//! being disabled.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
};
use ringtrue_engine::ports::{
    accounts::{
        AccountAccess, AccountChangeOutcome, AccountRecord, AccountStore, AccountSummary, LinkedIdentity, LoginAttempt,
        MembershipGrants, NewSecondFactor, OpenIdSignIn, PasswordHash, SealedSeed, SecondFactor, SecondFactorUse,
    },
    hashes::TokenHash,
    keys::KeyId,
    row_mac::RowSigner,
    store::StoreError,
};

use super::{
    PagedQuery, SqlStore,
    account_rows::{account_columns, read_account},
    audit::{insert_audit_event, insert_audit_events},
    members::void_invitations,
    memberships::{read_grants, store_grants},
    placeholders,
    row_macs::{
        account_grants_rights, lock_and_verify_account, lock_signed_account, read_signed_account, sign_account,
        signed_account_columns,
    },
    sessions::{delete_sessions_and_links, insert_session, record_login_success, use_second_factor},
};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    list_turns::ListOwner,
    row::{Row, RowReader, Value, values},
};

/// Time after which an account is deleted if nobody has ever signed in with it.
const UNUSED_ACCOUNT_RETENTION_MILLIS: i64 = 7 * 24 * 60 * 60 * 1_000;

macro_rules! account_record_columns {
    () => {
        concat!(
            account_columns!(),
            ", accounts.password_hash, accounts.disabled_at is not null, accounts.admin_by_claim,
              accounts.identity_hash, accounts.identity_issuer, accounts.second_factor_seed,
              accounts.second_factor_step, accounts.recovery_codes_used"
        )
    };
}

#[async_trait]
impl<D: Database> AccountStore for SqlStore<D> {
    async fn add_account(&self, account: &Account, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (account, event, signer) = (account.clone(), audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            if !insert_account(tx, &account).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account.id).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn find_account(&self, id: AccountId) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!(
            "select ",
            account_record_columns!(),
            ", ",
            signed_account_columns!(),
            " from accounts where id = $1"
        );
        self.verified_account(self.query_first(select, values![id]).await?)
    }

    async fn find_account_by_email(&self, email: &Email) -> Result<Option<AccountRecord>, StoreError> {
        let select = concat!(
            "select ",
            account_record_columns!(),
            ", ",
            signed_account_columns!(),
            " from accounts where email = $1"
        );
        self.verified_account(self.query_first(select, values![email.as_str()]).await?)
    }

    async fn list_accounts(&self, page: PageRequest) -> Result<Page<AccountSummary>, StoreError> {
        let list = PagedQuery {
            columns: concat!(
                account_columns!(),
                ", accounts.password_hash is not null, accounts.disabled_at is not null,
                  accounts.identity_hash is not null, accounts.second_factor_seed is not null, accounts.signed_in_at,
                  (select count(*) from memberships where memberships.account_id = accounts.id)"
            ),
            from: "accounts".into(),
            values: vec![],
            order: "accounts.email",
            page,
        };
        self.read_page(ListOwner::Deployment, list, account_summary_from_row).await
    }

    async fn emails_of_accounts(&self, accounts: &[AccountId]) -> Result<Vec<(AccountId, Email)>, StoreError> {
        if accounts.is_empty() {
            return Ok(vec![]);
        }
        let select = format!("select id, email from accounts where id in ({})", placeholders(1, accounts.len()));
        let values: Vec<Value> = accounts.iter().map(|account| (*account).into()).collect();
        let rows = self.query(select, &values).await?;
        let id_and_email = |row: Row| {
            let mut row = row.reader("accounts");
            Ok((AccountId(row.uuid("id")?), row.parsed("email")?))
        };
        rows.into_iter().map(id_and_email).collect()
    }

    async fn make_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            lock_and_verify_account(tx, &*signer, account).await?;
            // Housekeeping deletes accounts without `signed_in_at` as unused. An account whose password is removed here
            // gets a `signed_in_at`, so that it is kept.
            let update = "update accounts set is_admin = $1, admin_by_claim = $2, password_hash = null,
                            second_factor_seed = null, signed_in_at =
                            case when password_hash is null then signed_in_at else coalesce(signed_in_at, $3) end
                           where id = $4 and (is_admin <> $1 or admin_by_claim = $1) returning id";
            if !tx.exists(update, values![true, false, event.at, account]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            delete_sessions_and_links(tx, account).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn remove_admin(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            lock_and_verify_account(tx, &*signer, account).await?;
            let update = "update accounts set is_admin = $1, admin_by_claim = $1
                           where id = $2 and is_admin <> $1 returning id";
            if !tx.exists(update, values![false, account]).await? {
                return Ok(TransactionEnd::Rollback(AccountChangeOutcome::Unchanged));
            }
            if !has_administrator(tx).await? {
                return Ok(TransactionEnd::Rollback(AccountChangeOutcome::LastAdministrator));
            }
            sign_account(tx, &*signer, account).await?;
            void_invitations_of_administrator(tx, account).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(AccountChangeOutcome::Changed))
        }))
        .await
    }

    async fn disable_account(
        &self,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<AccountChangeOutcome, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            lock_and_verify_account(tx, &*signer, account).await?;
            let update = "update accounts set disabled_at = $1 where id = $2 and disabled_at is null
                          returning is_admin";
            let Some(disabled) = tx.first(update, values![event.at, account]).await? else {
                return Ok(TransactionEnd::Rollback(AccountChangeOutcome::Unchanged));
            };
            if disabled.reader("accounts").boolean("is_admin")? && !has_administrator(tx).await? {
                return Ok(TransactionEnd::Rollback(AccountChangeOutcome::LastAdministrator));
            }
            sign_account(tx, &*signer, account).await?;
            delete_sessions_and_links(tx, account).await?;
            tx.run("delete from invitations where invited_by = $1", values![account]).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(AccountChangeOutcome::Changed))
        }))
        .await
    }

    async fn enable_account(&self, account: AccountId, audit: &AuditEvent) -> Result<AccountChangeOutcome, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        let enabled = self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, account).await?;
            let update =
                "update accounts set disabled_at = null where id = $1 and disabled_at is not null returning id";
            if !tx.exists(update, values![account]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }));
        let is_done = enabled.await?;
        Ok(if is_done { AccountChangeOutcome::Changed } else { AccountChangeOutcome::Unchanged })
    }

    async fn find_access(&self, account: AccountId) -> Result<Option<AccountAccess>, StoreError> {
        let signer = self.signer()?;
        self.database.read(work!(|tx| read_access(tx, &*signer, account).await)).await
    }

    async fn find_access_by_identity(
        &self,
        identity: TokenHash,
        email: Option<&Email>,
    ) -> Result<Option<AccountAccess>, StoreError> {
        let (email, signer) = (email.cloned(), self.signer()?);
        self.database
            .read(work!(|tx| {
                let linked = tx.first("select id from accounts where identity_hash = $1", values![identity]).await?;
                let found = match (linked, email) {
                    (Some(linked), _) => Some(linked),
                    (None, Some(email)) => {
                        tx.first("select id from accounts where email = $1", values![email.as_str()]).await?
                    }
                    (None, None) => None,
                };
                let Some(found) = found else { return Ok(None) };
                let account = AccountId(found.reader("accounts").uuid("id")?);
                read_access(tx, &*signer, account).await
            }))
            .await
    }

    async fn sign_in_with_identity(&self, sign_in: OpenIdSignIn, audit: &[AuditEvent]) -> Result<bool, StoreError> {
        let (events, signer) = (audit.to_vec(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            let OpenIdSignIn { before, after, session } = sign_in;
            let account = after.account.id;
            if before.is_some() {
                lock_and_verify_account(tx, &*signer, account).await?;
            }
            let is_expected = match &before {
                Some(before) => read_access(tx, &*signer, account).await?.as_ref() == Some(before),
                None => insert_account(tx, &after.account).await?,
            };
            if !is_expected || is_linked_to_another(tx, &after).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            if before.as_ref().is_none_or(|before| before.identity.is_none()) {
                let update = "update accounts set password_hash = null, second_factor_seed = null where id = $1";
                tx.run(update, values![account]).await?;
                delete_sessions_and_links(tx, account).await?;
            }
            update_access(tx, &*signer, before.as_ref(), &after).await?;
            tx.run("update accounts set signed_in_at = $1 where id = $2", values![session.created_at, account]).await?;
            insert_session(tx, &*signer, session).await?;
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn unlink_identity(
        &self,
        before: &AccountAccess,
        after: &AccountAccess,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError> {
        let (before, after, events) = (before.clone(), after.clone(), audit.to_vec());
        let signer = self.signer()?;
        self.change_control_plane(work!(|tx, _| {
            lock_and_verify_account(tx, &*signer, after.account.id).await?;
            if read_access(tx, &*signer, after.account.id).await?.as_ref() != Some(&before) {
                return Ok(TransactionEnd::Rollback(false));
            }
            update_access(tx, &*signer, Some(&before), &after).await?;
            delete_sessions_and_links(tx, after.account.id).await?;
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn enable_second_factor(&self, factor: NewSecondFactor, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            let NewSecondFactor { account, seed, step, password, replaces, session, attempts } = factor;
            lock_and_verify_account(tx, &*signer, account).await?;
            if let Some(used) = replaces {
                if !use_second_factor(tx, used).await? {
                    return Ok(TransactionEnd::Rollback(false));
                }
                tx.run("update accounts set second_factor_seed = null where id = $1", values![account]).await?;
            }
            let enable = "update accounts
                             set second_factor_seed = $1, second_factor_step = $2, recovery_codes_used = $3
                           where id = $4 and second_factor_seed is null and password_hash = $5
                             and disabled_at is null returning id";
            if !tx.exists(enable, values![seed.0.as_slice(), step, 0_i64, account, password.0]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            let end_others = "delete from sessions where account_id = $1 and token_hash <> $2";
            tx.run(end_others, values![account, session]).await?;
            record_login_success(tx, &attempts).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn disable_second_factor(
        &self,
        used: SecondFactorUse,
        attempt: LoginAttempt,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, used.account).await?;
            if !use_second_factor(tx, used).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            tx.run("update accounts set second_factor_seed = null where id = $1", values![used.account]).await?;
            sign_account(tx, &*signer, used.account).await?;
            record_login_success(tx, &[attempt]).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn remove_second_factor(&self, account: AccountId, audit: &AuditEvent) -> Result<bool, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.transact(work!(|tx| {
            lock_and_verify_account(tx, &*signer, account).await?;
            let update = "update accounts set second_factor_seed = null
                           where id = $1 and second_factor_seed is not null returning id";
            if !tx.exists(update, values![account]).await? {
                return Ok(TransactionEnd::Rollback(false));
            }
            sign_account(tx, &*signer, account).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn list_seeds_of_other_keys(
        &self,
        active: KeyId,
        limit: u32,
    ) -> Result<Vec<(AccountId, SealedSeed)>, StoreError> {
        // A sealed (encrypted) value begins with the id of the key that encrypted it.
        let select = "select id, second_factor_seed from accounts
                       where second_factor_seed is not null and substr(second_factor_seed, 1, 16) <> $1 limit $2";
        let rows = self.query(select, values![active.0.as_bytes().as_slice(), i64::from(limit)]).await?;
        let id_and_seed = |row: Row| {
            let mut row = row.reader("accounts");
            let id = AccountId(row.uuid("id")?);
            let seed = row.bytes("second_factor_seed")?;
            Ok((id, seed_from_bytes(seed, &row)?))
        };
        rows.into_iter().map(id_and_seed).collect()
    }

    async fn reseal_second_factor(
        &self,
        account: AccountId,
        old: SealedSeed,
        new: SealedSeed,
    ) -> Result<bool, StoreError> {
        let update =
            "update accounts set second_factor_seed = $1 where id = $2 and second_factor_seed = $3 returning id";
        let rows = self.execute(update, values![new.0.as_slice(), account, old.0.as_slice()]).await?;
        Ok(!rows.is_empty())
    }

    async fn reset_altered_account(
        &self,
        email: &Email,
        audit: &AuditEvent,
    ) -> Result<Option<(AccountId, bool)>, StoreError> {
        let (email, event, signer) = (email.clone(), audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            let found = tx.first("select id from accounts where email = $1", values![email.as_str()]).await?;
            let Some(found) = found else { return Ok(TransactionEnd::Rollback(None)) };
            let account = AccountId(found.reader("accounts").uuid("id")?);
            let signed = lock_signed_account(tx, account).await?;
            if signed.map_or(Ok(false), |signed| signed.is_valid(&*signer))? {
                return Ok(TransactionEnd::Rollback(Some((account, false))));
            }
            let update = "update accounts set is_admin = $1, admin_by_claim = $1, password_hash = null,
                            identity_hash = null, identity_issuer = null, second_factor_seed = null,
                            signed_in_at = coalesce(signed_in_at, $2) where id = $3";
            tx.run(update, values![false, event.at, account]).await?;
            tx.run("delete from memberships where account_id = $1", values![account]).await?;
            tx.run("delete from invitations where invited_by = $1", values![account]).await?;
            delete_sessions_and_links(tx, account).await?;
            sign_account(tx, &*signer, account).await?;
            let event = AuditEvent { target: account.to_string(), ..event };
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(Some((account, true))))
        }))
        .await
    }
}

impl<D: Database> SqlStore<D> {
    /// Reads an account record, followed by the columns that its MAC covers. An account whose row was altered outside
    /// Ringtrue counts as missing.
    fn verified_account(&self, row: Option<Row>) -> Result<Option<AccountRecord>, StoreError> {
        let Some(row) = row else { return Ok(None) };
        let mut row = row.reader("accounts");
        let record = read_account_record(&mut row)?;
        let is_valid = read_signed_account(&mut row)?.1.grants_rights(&*self.signer()?)?;
        Ok(is_valid.then_some(record))
    }
}

/// Inserts an account. Returns `false` if an account with this email address exists.
async fn insert_account(tx: &mut dyn Tx, account: &Account) -> Result<bool, StoreError> {
    let insert = "insert into accounts (id, email, is_admin, created_at) values ($1, $2, $3, $4)
                  on conflict (email) do nothing returning id";
    let values = values![account.id, account.email.as_str(), account.is_admin, account.created_at];
    tx.exists(insert, values).await
}

/// Reads an account with its memberships. If the row of the account was altered outside Ringtrue, it counts as missing.
/// Altered memberships are omitted.
async fn read_access(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<Option<AccountAccess>, StoreError> {
    if !account_grants_rights(tx, signer, account).await? {
        return Ok(None);
    }
    let select = concat!(
        "select ",
        account_columns!(),
        ", accounts.disabled_at is not null, accounts.admin_by_claim, accounts.identity_hash, accounts.identity_issuer
          from accounts where id = $1"
    );
    let Some(row) = tx.first(select, values![account]).await? else { return Ok(None) };
    let mut row = row.reader("accounts");
    let account = read_account(&mut row)?;
    let (is_disabled, admin_by_claim) = (row.boolean("disabled_at")?, row.boolean("admin_by_claim")?);
    let identity = read_identity(&mut row)?;
    let memberships = read_grants(tx, signer, account.id).await?;
    Ok(Some(AccountAccess { account, is_disabled, admin_by_claim, identity, memberships }))
}

async fn is_linked_to_another(tx: &mut dyn Tx, access: &AccountAccess) -> Result<bool, StoreError> {
    let Some(identity) = &access.identity else { return Ok(false) };
    let select = "select 1 from accounts where identity_hash = $1 and id <> $2";
    tx.exists(select, values![identity.hash, access.account.id]).await
}

/// Replaces the identity and the access rights of an account. Deletes invitations that the account has created, if it
/// no longer has the right to create them.
async fn update_access(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    before: Option<&AccountAccess>,
    after: &AccountAccess,
) -> Result<(), StoreError> {
    let account = after.account.id;
    tx.run(
        "update accounts set is_admin = $1, admin_by_claim = $2, identity_hash = $3, identity_issuer = $4
          where id = $5",
        values![
            after.account.is_admin,
            after.admin_by_claim,
            after.identity.as_ref().map(|identity| identity.hash),
            after.identity.as_ref().map(|identity| identity.issuer.as_str()),
            account
        ],
    )
    .await?;
    sign_account(tx, signer, account).await?;
    let old = before.map_or(&[][..], |before| &before.memberships);
    for grants in &after.memberships {
        if !old.contains(grants) {
            store_grants(tx, signer, account, *grants).await?;
        }
    }
    for grants in old {
        let now = after.memberships.iter().find(|kept| kept.workspace == grants.workspace);
        if now.is_none() {
            let delete = "delete from memberships where account_id = $1 and workspace_id = $2";
            tx.run(delete, values![account, grants.workspace]).await?;
        }
        let role_now = now.and_then(MembershipGrants::role);
        if grants.role() == Some(Role::Owner) && role_now != Some(Role::Owner) && !after.account.is_admin {
            void_invitations(tx, account, grants.workspace).await?;
        }
    }
    if before.is_some_and(|before| before.account.is_admin) && !after.account.is_admin {
        void_invitations_of_administrator(tx, account).await?;
    }
    Ok(())
}

/// Deletes the invitations that a former administrator has created, except those to workspaces that the account owns.
async fn void_invitations_of_administrator(tx: &mut dyn Tx, account: AccountId) -> Result<(), StoreError> {
    let delete = "delete from invitations where invited_by = $1 and workspace_id not in
                    (select workspace_id from memberships where account_id = $1 and role = $2)";
    tx.run(delete, values![account, Role::Owner.into_str()]).await?;
    Ok(())
}

fn read_account_record(row: &mut RowReader) -> Result<AccountRecord, StoreError> {
    Ok(AccountRecord {
        account: read_account(row)?,
        password: row.text_or_null("password_hash")?.map(PasswordHash),
        is_disabled: row.boolean("disabled_at")?,
        admin_by_claim: row.boolean("admin_by_claim")?,
        identity: read_identity(row)?,
        second_factor: read_second_factor(row)?,
    })
}

fn read_identity(row: &mut RowReader) -> Result<Option<LinkedIdentity>, StoreError> {
    let (hash, issuer) = (row.digest_or_null("identity_hash")?, row.text_or_null("identity_issuer")?);
    Ok(hash.map(|hash| LinkedIdentity { hash: TokenHash(hash), issuer: issuer.unwrap_or_default() }))
}

fn read_second_factor(row: &mut RowReader) -> Result<Option<SecondFactor>, StoreError> {
    let seed = row.bytes_or_null("second_factor_seed")?;
    let (last_step, used_recovery_codes) = (row.int("second_factor_step")?, row.int("recovery_codes_used")?);
    let Some(seed) = seed else { return Ok(None) };
    Ok(Some(SecondFactor { seed: seed_from_bytes(seed, row)?, last_step, used_recovery_codes }))
}

fn seed_from_bytes(bytes: Vec<u8>, row: &RowReader) -> Result<SealedSeed, StoreError> {
    bytes.try_into().map(SealedSeed).map_err(|_| row.corrupt("second_factor_seed", "wrong length"))
}

fn account_summary_from_row(row: Row) -> Result<AccountSummary, StoreError> {
    let mut row = row.reader("accounts");
    Ok(AccountSummary {
        account: read_account(&mut row)?,
        has_password: row.boolean("password_hash")?,
        is_disabled: row.boolean("disabled_at")?,
        has_identity: row.boolean("identity_hash")?,
        has_second_factor: row.boolean("second_factor_seed")?,
        signed_in_at: row.instant_or_null("signed_in_at")?,
        workspaces: row.int("workspaces")?.unsigned_abs(),
    })
}

/// Deletes expired invitations and unused accounts. Returns the number of deleted rows.
pub(super) async fn delete_expired(tx: &mut dyn Tx, now: Timestamp) -> Result<usize, StoreError> {
    let delete = "delete from invitations where id in
                    (select id from invitations where expires_at <= $1 order by expires_at, id limit 1000)
                  returning 1";
    let invitations = tx.run(delete, values![now]).await?;
    let created_before = now.as_millisecond().saturating_sub(UNUSED_ACCOUNT_RETENTION_MILLIS);
    let select = "select id from accounts
                   where signed_in_at is null and created_at <= $1
                     and not exists (select 1 from account_links where account_links.account_id = accounts.id)
                   order by created_at, id limit 100";
    let unused = tx.run(select, values![created_before]).await?;
    let mut deleted = invitations.len();
    for row in unused {
        let account = AccountId(row.reader("accounts").uuid("id")?);
        tx.run("delete from memberships where account_id = $1", values![account]).await?;
        let delete = "delete from accounts where id = $1 and signed_in_at is null returning id";
        let deleted_accounts = tx.run(delete, values![account]).await?;
        deleted += deleted_accounts.len();
    }
    Ok(deleted)
}

async fn has_administrator(tx: &mut dyn Tx) -> Result<bool, StoreError> {
    let select = "select 1 from accounts where is_admin = $1 and disabled_at is null limit 1";
    tx.exists(select, values![true]).await
}
