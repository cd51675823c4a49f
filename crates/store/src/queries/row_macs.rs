//! Signs and verifies rows that grant rights. The engine's [`RowSigner`] computes the MACs; see its documentation.
//!
//! A writer verifies a row before changing and signing it. Otherwise it would sign changes that somebody has made
//! directly in the database.

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, Invitation, Role},
    tenancy::ClientId,
};
use ringtrue_engine::ports::{
    accounts::{LinkPurpose, MembershipGrants},
    hashes::TokenHash,
    row_mac::{RowFields, RowMac, RowSigner, credential_fields},
    store::{AlteredRow, StoreError},
};

use crate::{
    driver::Tx,
    row::{Row, RowReader, values},
    row_mapping::{self, credential_columns},
};

pub(super) type Signer = Arc<dyn RowSigner>;

/// The columns that [`read_signed_account`] reads.
macro_rules! signed_account_columns {
    () => {
        "accounts.id, accounts.email, accounts.is_admin, accounts.admin_by_claim, accounts.disabled_at is not null,
         accounts.password_hash, accounts.identity_hash, accounts.identity_issuer,
         accounts.second_factor_seed is not null, accounts.row_mac"
    };
}
pub(super) use signed_account_columns;

/// The fields that the MAC of a row covers, and the MAC.
pub(super) struct SignedRow {
    table: &'static str,
    row: String,
    pub(super) fields: RowFields,
    mac: Option<RowMac>,
}

impl SignedRow {
    pub(super) fn is_valid(&self, signer: &dyn RowSigner) -> Result<bool, StoreError> {
        signer.is_valid(&self.fields, self.mac)
    }

    /// As [`is_valid`](Self::is_valid), but also logs an error if the row was altered outside Ringtrue.
    pub(super) fn grants_rights(&self, signer: &dyn RowSigner) -> Result<bool, StoreError> {
        let is_valid = self.is_valid(signer)?;
        if !is_valid {
            let (table, row) = (self.table, self.row.as_str());
            tracing::error!(table, row, "row was written or altered outside Ringtrue; it grants no rights");
        }
        Ok(is_valid)
    }

    pub(super) fn altered(self) -> AlteredRow {
        AlteredRow { table: self.table, row: self.row }
    }
}

pub(super) fn read_mac(row: &mut RowReader) -> Result<Option<RowMac>, StoreError> {
    Ok(row.digest_or_null("row_mac")?.map(RowMac))
}

/// Reads the columns listed in [`signed_account_columns`].
pub(super) fn read_signed_account(row: &mut RowReader) -> Result<(AccountId, SignedRow), StoreError> {
    let id = AccountId(row.uuid("id")?);
    let fields = RowFields::of_table("accounts")
        .with_uuid(id.0)
        .with_bytes(row.text("email")?)
        .with_flag(row.boolean("is_admin")?)
        .with_flag(row.boolean("admin_by_claim")?)
        .with_flag(row.boolean("disabled_at")?)
        .with_optional(row.text_or_null("password_hash")?)
        .with_optional(row.digest_or_null("identity_hash")?)
        .with_optional(row.text_or_null("identity_issuer")?)
        .with_flag(row.boolean("second_factor_seed")?);
    Ok((id, SignedRow { table: "accounts", row: id.to_string(), fields, mac: read_mac(row)? }))
}

/// Locks and verifies an account. Returns `false` if it does not exist. Fails if its row was altered, so that no writer
/// signs the altered row.
pub(super) async fn lock_and_verify_account(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<bool, StoreError> {
    let Some(signed) = lock_signed_account(tx, account).await? else { return Ok(false) };
    if signed.grants_rights(signer)? { Ok(true) } else { Err(StoreError::Altered(signed.altered())) }
}

pub(super) async fn lock_signed_account(tx: &mut dyn Tx, account: AccountId) -> Result<Option<SignedRow>, StoreError> {
    let lock = concat!("update accounts set email = email where id = $1 returning ", signed_account_columns!());
    let row = tx.first(lock, values![account]).await?;
    row.map(|row| Ok(read_signed_account(&mut row.reader("accounts"))?.1)).transpose()
}

/// Signs the current row of an account. The caller has verified the row with [`lock_and_verify_account`], or has
/// inserted it.
pub(super) async fn sign_account(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<(), StoreError> {
    let select = concat!("select ", signed_account_columns!(), " from accounts where id = $1");
    let Some(row) = tx.first(select, values![account]).await? else { return Ok(()) };
    let mac = signer.sign(&read_signed_account(&mut row.reader("accounts"))?.1.fields)?;
    tx.run("update accounts set row_mac = $1 where id = $2", values![mac.0, account]).await?;
    Ok(())
}

/// Whether the row of an account grants rights. `false`: the row was altered, or does not exist.
pub(super) async fn account_grants_rights(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<bool, StoreError> {
    let select = concat!("select ", signed_account_columns!(), " from accounts where id = $1");
    let Some(row) = tx.first(select, values![account]).await? else { return Ok(false) };
    read_signed_account(&mut row.reader("accounts"))?.1.grants_rights(signer)
}

/// Returns the fields that the MAC of a membership covers. Includes the column `role`, because queries read it
/// directly.
pub(super) fn membership_fields(account: AccountId, grants: &MembershipGrants, role: Role) -> RowFields {
    let name = |role: Option<Role>| role.map(|role| role.into_str());
    RowFields::of_table("memberships")
        .with_uuid(account.0)
        .with_uuid(grants.workspace.0)
        .with_bytes(role.into_str())
        .with_optional(name(grants.claimed))
        .with_optional(name(grants.manual))
}

pub(super) fn signed_membership(
    account: AccountId,
    grants: &MembershipGrants,
    role: Role,
    mac: Option<RowMac>,
) -> SignedRow {
    SignedRow {
        table: "memberships",
        row: format!("{account} {}", grants.workspace),
        fields: membership_fields(account, grants, role),
        mac,
    }
}

pub(super) fn invitation_fields(invitation: &Invitation) -> RowFields {
    RowFields::of_table("invitations")
        .with_uuid(invitation.id.0)
        .with_uuid(invitation.workspace.0)
        .with_bytes(invitation.email.as_str())
        .with_bytes(invitation.role.into_str())
        .with_optional(invitation.invited_by.map(|account| *account.0.as_bytes()))
        .with_instant(invitation.created_at)
        .with_instant(invitation.expires_at)
}

pub(super) fn signed_invitation(invitation: &Invitation, mac: Option<RowMac>) -> SignedRow {
    SignedRow { table: "invitations", row: invitation.id.to_string(), fields: invitation_fields(invitation), mac }
}

/// Returns the fields that the MAC of a session covers. Excludes `expires_at`, which each use of the session changes.
/// The engine limits the duration of a session by `created_at`.
pub(super) fn session_fields(token: TokenHash, account: AccountId, created_at: Timestamp) -> RowFields {
    RowFields::of_table("sessions").with_bytes(token.0).with_uuid(account.0).with_instant(created_at)
}

pub(super) fn signed_session(
    token: TokenHash,
    account: AccountId,
    created_at: Timestamp,
    mac: Option<RowMac>,
) -> SignedRow {
    let fields = session_fields(token, account, created_at);
    SignedRow { table: "sessions", row: format!("of account {account}"), fields, mac }
}

pub(super) fn link_fields(
    token: TokenHash,
    account: AccountId,
    purpose: LinkPurpose,
    expires_at: Timestamp,
) -> RowFields {
    RowFields::of_table("account_links")
        .with_bytes(token.0)
        .with_uuid(account.0)
        .with_bytes(purpose.into_str())
        .with_instant(expires_at)
}

pub(super) fn signed_link(
    (token, account, purpose, expires_at): (TokenHash, AccountId, LinkPurpose, Timestamp),
    mac: Option<RowMac>,
) -> SignedRow {
    let fields = link_fields(token, account, purpose, expires_at);
    SignedRow { table: "account_links", row: format!("of account {account}"), fields, mac }
}

/// Signs the current row of a credential.
pub(super) async fn sign_credential(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    client_id: &ClientId,
) -> Result<(), StoreError> {
    let select = concat!("select ", credential_columns!(), " from credentials where client_id = $1");
    let Some(row) = tx.first(select, values![client_id.as_str()]).await? else { return Ok(()) };
    let mac = signer.sign(&credential_fields(&row_mapping::credential_from_row(row)?))?;
    let update = "update credentials set row_mac = $1 where client_id = $2";
    tx.run(update, values![mac.0, client_id.as_str()]).await?;
    Ok(())
}

/// Verifies a credential. Fails if its row was altered, so that no writer signs the altered row.
pub(super) async fn verify_credential(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    client_id: &ClientId,
) -> Result<(), StoreError> {
    let select = concat!("select row_mac, ", credential_columns!(), " from credentials where client_id = $1");
    let Some(row) = tx.first(select, values![client_id.as_str()]).await? else { return Ok(()) };
    let signed = signed_credential(row)?.1;
    if signed.grants_rights(signer)? { Ok(()) } else { Err(StoreError::Altered(signed.altered())) }
}

/// Reads `row_mac`, followed by the columns of a credential.
pub(super) fn signed_credential(row: Row) -> Result<(ClientId, SignedRow), StoreError> {
    let (mac, credential) = row_mapping::credential_with_mac_from_row(row)?;
    let row = credential.client_id.to_string();
    let signed = SignedRow { table: "credentials", row, fields: credential_fields(&credential), mac };
    Ok((credential.client_id, signed))
}
