//! Stores invitations to workspaces, and members of workspaces.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    account::{Account, AccountId, Invitation, InvitationId, Membership, Role},
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{
    accounts::{AcceptOutcome, InviteOutcome, MemberChangeOutcome, MemberStore, MembershipGrants, PasswordHash},
    row_mac::RowSigner,
    store::StoreError,
};

use super::{
    PagedQuery, SqlStore,
    account_rows::{account_columns, read_account},
    audit::{insert_audit_event, insert_audit_events},
    memberships::{find_grants, store_grants},
    row_macs::{account_grants_rights, invitation_fields, read_mac, sign_account, signed_invitation},
};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, RowReader, values},
};

macro_rules! invitation_columns {
    () => {
        "id, workspace_id, email, role, invited_by, created_at, expires_at"
    };
}
pub(super) use invitation_columns;

#[async_trait]
impl<D: Database> MemberStore for SqlStore<D> {
    async fn create_invitation(
        &self,
        invitation: &Invitation,
        limit: u32,
        audit: &AuditEvent,
    ) -> Result<InviteOutcome, StoreError> {
        let (new, event, signer) = (invitation.clone(), audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            if let Some(inviter) = new.invited_by
                && !may_invite(tx, inviter, new.workspace).await?
            {
                return Ok(TransactionEnd::Rollback(InviteOutcome::NotAllowed));
            }
            let select = "select 1 from memberships join accounts on accounts.id = memberships.account_id
                           where memberships.workspace_id = $1 and accounts.email = $2";
            if tx.exists(select, values![new.workspace, new.email.as_str()]).await? {
                return Ok(TransactionEnd::Rollback(InviteOutcome::AlreadyMember));
            }
            let delete = "delete from invitations where workspace_id = $1 and (email = $2 or expires_at <= $3)";
            tx.run(delete, values![new.workspace, new.email.as_str(), new.created_at]).await?;
            let select = "select (select count(*) from memberships where workspace_id = $1)
                               + (select count(*) from invitations where workspace_id = $1)";
            let taken = tx.number(select, values![new.workspace]).await?;
            if taken >= i64::from(limit) {
                return Ok(TransactionEnd::Rollback(InviteOutcome::LimitReached));
            }
            tx.run(
                concat!(
                    "insert into invitations (",
                    invitation_columns!(),
                    ", row_mac) values ($1, $2, $3, $4, $5, $6, $7, $8)"
                ),
                values![
                    new.id,
                    new.workspace,
                    new.email.as_str(),
                    new.role.into_str(),
                    new.invited_by,
                    new.created_at,
                    new.expires_at,
                    signer.sign(&invitation_fields(&new))?.0
                ],
            )
            .await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(InviteOutcome::Pending))
        }))
        .await
    }

    async fn find_invitation(&self, id: InvitationId, now: Timestamp) -> Result<Option<Invitation>, StoreError> {
        let signer = self.signer()?;
        self.database.read(work!(|tx| pending_invitation(tx, &*signer, id, now).await)).await
    }

    async fn list_invitations(
        &self,
        workspace: WorkspaceId,
        now: Timestamp,
        page: PageRequest,
    ) -> Result<Page<Invitation>, StoreError> {
        let list = PagedQuery {
            columns: invitation_columns!(),
            from: "invitations where workspace_id = $1 and expires_at > $2".into(),
            values: values![workspace, now].to_vec(),
            order: "email",
            page,
        };
        self.read_page(workspace, list, invitation_from_row).await
    }

    async fn withdraw_invitation(
        &self,
        workspace: WorkspaceId,
        id: InvitationId,
        audit: &AuditEvent,
    ) -> Result<bool, StoreError> {
        let delete = "delete from invitations where id = $1 and workspace_id = $2 returning id";
        self.execute_audited(delete, values![id, workspace], audit).await
    }

    async fn accept_invitation(
        &self,
        id: InvitationId,
        account: AccountId,
        audit: &AuditEvent,
    ) -> Result<AcceptOutcome, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        self.change_control_plane(work!(|tx, _| {
            let Some(invitation) = pending_invitation(tx, &*signer, id, event.at).await? else {
                return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
            };
            let select = "select id from accounts where id = $1 and email = $2 and disabled_at is null";
            if !tx.exists(select, values![account, invitation.email.as_str()]).await? {
                return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
            }
            if !account_grants_rights(tx, &*signer, account).await?
                || !accept(tx, &*signer, &invitation, account).await?
            {
                return Ok(TransactionEnd::Rollback(AcceptOutcome::NotValid));
            }
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(AcceptOutcome::Accepted))
        }))
        .await
    }

    async fn create_invited_account(
        &self,
        id: InvitationId,
        account: &Account,
        password: &PasswordHash,
        audit: &[AuditEvent],
    ) -> Result<bool, StoreError> {
        let (account, PasswordHash(password), events) = (account.clone(), password.clone(), audit.to_vec());
        let signer = self.signer()?;
        self.transact(work!(|tx| {
            let invitation = pending_invitation(tx, &*signer, id, account.created_at).await?;
            if invitation.is_none_or(|invitation| invitation.email != account.email) {
                return Ok(TransactionEnd::Rollback(false));
            }
            let insert = "insert into accounts (id, email, is_admin, password_hash, created_at)
                          values ($1, $2, $3, $4, $5)
                          on conflict (email) do nothing returning id";
            let values = values![account.id, account.email.as_str(), false, password, account.created_at];
            if !tx.exists(insert, values).await? {
                return Ok(TransactionEnd::Rollback(true));
            }
            sign_account(tx, &*signer, account.id).await?;
            insert_audit_events(tx, &events).await?;
            Ok(TransactionEnd::Commit(true))
        }))
        .await
    }

    async fn change_member_role(
        &self,
        account: AccountId,
        membership: Membership,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let (event, signer) = (audit.clone(), self.signer()?);
        let Membership { workspace, role } = membership;
        self.change_control_plane(work!(|tx, _| {
            let Some(was_owner) = is_active_owner(tx, account, workspace).await? else {
                return Ok(TransactionEnd::Rollback(MemberChangeOutcome::NotAMember));
            };
            let before = find_grants(tx, &*signer, account, workspace).await?;
            if before.is_some_and(|before| before.manual == Some(role)) {
                return Ok(TransactionEnd::Rollback(MemberChangeOutcome::Changed));
            }
            // If the row was altered outside Ringtrue, `before` is `None`, and the role that an OpenID claim granted is
            // dropped.
            let claimed = before.and_then(|before| before.claimed);
            let after = MembershipGrants { workspace, manual: Some(role), claimed };
            store_grants(tx, &*signer, account, after).await?;
            if was_owner && !has_owner(tx, workspace).await? {
                return Ok(TransactionEnd::Rollback(MemberChangeOutcome::LastOwner));
            }
            if after.role() != Some(Role::Owner) {
                void_invitations(tx, account, workspace).await?;
            }
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(MemberChangeOutcome::Changed))
        }))
        .await
    }

    async fn remove_member(
        &self,
        account: AccountId,
        workspace: WorkspaceId,
        audit: &AuditEvent,
    ) -> Result<MemberChangeOutcome, StoreError> {
        let event = audit.clone();
        self.change_control_plane(work!(|tx, _| {
            let Some(was_owner) = is_active_owner(tx, account, workspace).await? else {
                return Ok(TransactionEnd::Rollback(MemberChangeOutcome::NotAMember));
            };
            tx.run("delete from memberships where account_id = $1 and workspace_id = $2", values![account, workspace])
                .await?;
            if was_owner && !has_owner(tx, workspace).await? {
                return Ok(TransactionEnd::Rollback(MemberChangeOutcome::LastOwner));
            }
            void_invitations(tx, account, workspace).await?;
            insert_audit_event(tx, &event).await?;
            Ok(TransactionEnd::Commit(MemberChangeOutcome::Changed))
        }))
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
        self.read_page(workspace, list, member_from_row).await
    }
}

fn member_from_row(row: Row) -> Result<(Account, Role), StoreError> {
    let mut row = row.reader("memberships");
    Ok((read_account(&mut row)?, row.parsed("role")?))
}

fn invitation_from_row(row: Row) -> Result<Invitation, StoreError> {
    invitation_from_reader(&mut row.reader("invitations"))
}

pub(super) fn invitation_from_reader(row: &mut RowReader) -> Result<Invitation, StoreError> {
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

/// Whether a member is an owner who can sign in. `None`: the account is not a member.
async fn is_active_owner(
    tx: &mut dyn Tx,
    account: AccountId,
    workspace: WorkspaceId,
) -> Result<Option<bool>, StoreError> {
    let select = "select memberships.role, accounts.disabled_at is not null
                    from memberships join accounts on accounts.id = memberships.account_id
                   where memberships.account_id = $1 and memberships.workspace_id = $2";
    let row = tx.first(select, values![account, workspace]).await?;
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
            values![workspace, Role::Owner.into_str()],
        )
        .await?;
    Ok(owner.is_some())
}

/// Whether an account may invite to a workspace: it is enabled, and is an administrator or an owner of the workspace.
async fn may_invite(tx: &mut dyn Tx, account: AccountId, workspace: WorkspaceId) -> Result<bool, StoreError> {
    let select = "select 1 from accounts where id = $1 and disabled_at is null
                     and (is_admin or exists (select 1 from memberships
                                               where account_id = $1 and workspace_id = $2 and role = $3))";
    tx.exists(select, values![account, workspace, Role::Owner.into_str()]).await
}

/// Finds an invitation that can be accepted. `None`: it has expired, was altered outside Ringtrue, or does not exist.
async fn pending_invitation(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    id: InvitationId,
    now: Timestamp,
) -> Result<Option<Invitation>, StoreError> {
    let select =
        concat!("select row_mac, ", invitation_columns!(), " from invitations where id = $1 and expires_at > $2");
    let Some(row) = tx.first(select, values![id, now]).await? else { return Ok(None) };
    let mut row = row.reader("invitations");
    let mac = read_mac(&mut row)?;
    let invitation = invitation_from_reader(&mut row)?;
    let is_valid = signed_invitation(&invitation, mac).grants_rights(signer)?;
    Ok(is_valid.then_some(invitation))
}

/// Deletes the invitations to a workspace that an account has created.
pub(super) async fn void_invitations(
    tx: &mut dyn Tx,
    account: AccountId,
    workspace: WorkspaceId,
) -> Result<(), StoreError> {
    let delete = "delete from invitations where workspace_id = $1 and invited_by = $2";
    tx.run(delete, values![workspace, account]).await?;
    Ok(())
}

/// Replaces an invitation with a membership. Returns `false` if the invitation was withdrawn in the meantime.
async fn accept(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    invitation: &Invitation,
    account: AccountId,
) -> Result<bool, StoreError> {
    let claim = "delete from invitations where id = $1 returning id";
    if !tx.exists(claim, values![invitation.id]).await? {
        return Ok(false);
    }
    let (workspace, role) = (invitation.workspace, invitation.role);
    let before = find_grants(tx, signer, account, workspace).await?;
    if before.is_none_or(|before| before.manual.is_none()) {
        let claimed = before.and_then(|before| before.claimed);
        store_grants(tx, signer, account, MembershipGrants { workspace, manual: Some(role), claimed }).await?;
    }
    Ok(true)
}
