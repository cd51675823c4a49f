//! MACs of rows that grant rights. The engine's [`RowSigner`] computes them; see its documentation.
//!
//! A writer verifies a row before it changes it, and signs it afterwards: signing must not turn what somebody wrote to
//! the database into what Ringtrue wrote.

use std::sync::Arc;

use jiff::Timestamp;
use ringtrue_domain::{
    account::{AccountId, Invitation, InvitationId, Role},
    tenancy::{ClientId, WorkspaceId},
};
use ringtrue_engine::ports::{
    accounts::{LinkPurpose, MembershipGrants},
    hashes::TokenHash,
    keys::{HashKeyReset, SealedKey},
    row_mac::{RowFields, RowMac, RowSigner, credential_fields},
    store::{AlteredRow, ControlPlaneVersion, StoreError},
};

use super::{
    control_plane::insert_key,
    members::{grants_columns, grants_from_reader, invitation_columns, invitation_from_reader},
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

/// The authenticated fields of a row, and its MAC.
pub(super) struct SignedRow {
    table: &'static str,
    row: String,
    fields: RowFields,
    mac: Option<RowMac>,
}

impl SignedRow {
    pub(super) fn is_valid(&self, signer: &dyn RowSigner) -> Result<bool, StoreError> {
        signer.is_valid(&self.fields, self.mac)
    }

    /// As [`is_valid`](Self::is_valid). Logs an altered row.
    pub(super) fn grants_rights(&self, signer: &dyn RowSigner) -> Result<bool, StoreError> {
        let is_valid = self.is_valid(signer)?;
        if !is_valid {
            let (table, row) = (self.table, self.row.as_str());
            tracing::error!(table, row, "row was written or altered outside Ringtrue; it grants no rights");
        }
        Ok(is_valid)
    }

    fn altered(self) -> AlteredRow {
        AlteredRow { table: self.table, row: self.row }
    }
}

pub(super) fn read_mac(row: &mut RowReader) -> Result<Option<RowMac>, StoreError> {
    Ok(row.digest_or_null("row_mac")?.map(RowMac))
}

/// Reads [`signed_account_columns`].
pub(super) fn read_signed_account(row: &mut RowReader) -> Result<(AccountId, SignedRow), StoreError> {
    let id = AccountId(row.uuid("id")?);
    let fields = RowFields::of_table("accounts")
        .uuid(id.0)
        .bytes(row.text("email")?)
        .flag(row.boolean("is_admin")?)
        .flag(row.boolean("admin_by_claim")?)
        .flag(row.boolean("disabled_at")?)
        .optional(row.text_or_null("password_hash")?)
        .optional(row.digest_or_null("identity_hash")?)
        .optional(row.text_or_null("identity_issuer")?)
        .flag(row.boolean("second_factor_seed")?);
    Ok((id, SignedRow { table: "accounts", row: id.to_string(), fields, mac: read_mac(row)? }))
}

/// Locks an account. `false`: it does not exist. An altered row is an error, so that no writer signs it.
pub(super) async fn lock_account(
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

/// Signs an account as it is now. The caller has verified it by [`lock_account`], or has inserted it.
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

/// Whether the row of an account grants rights. `false`: altered, or it does not exist.
pub(super) async fn account_grants_rights(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<bool, StoreError> {
    let select = concat!("select ", signed_account_columns!(), " from accounts where id = $1");
    let Some(row) = tx.first(select, values![account]).await? else { return Ok(false) };
    read_signed_account(&mut row.reader("accounts"))?.1.grants_rights(signer)
}

/// `role` is the column: queries read it, too.
pub(super) fn membership_fields(account: AccountId, grants: &MembershipGrants, role: Role) -> RowFields {
    let name = |role: Option<Role>| role.map(|role| role.into_str());
    RowFields::of_table("memberships")
        .uuid(account.0)
        .uuid(grants.workspace.0)
        .bytes(role.into_str())
        .optional(name(grants.claimed))
        .optional(name(grants.manual))
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
        .uuid(invitation.id.0)
        .uuid(invitation.workspace.0)
        .bytes(invitation.email.as_str())
        .bytes(invitation.role.into_str())
        .optional(invitation.invited_by.map(|account| *account.0.as_bytes()))
        .instant(invitation.created_at)
        .instant(invitation.expires_at)
}

pub(super) fn signed_invitation(invitation: &Invitation, mac: Option<RowMac>) -> SignedRow {
    SignedRow { table: "invitations", row: invitation.id.to_string(), fields: invitation_fields(invitation), mac }
}

/// `expires_at` is not covered: each use extends a session, and the engine ends it by `created_at`.
pub(super) fn session_fields(token: TokenHash, account: AccountId, created_at: Timestamp) -> RowFields {
    RowFields::of_table("sessions").bytes(token.0).uuid(account.0).instant(created_at)
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
    RowFields::of_table("account_links").bytes(token.0).uuid(account.0).bytes(purpose.into_str()).instant(expires_at)
}

pub(super) fn signed_link(
    (token, account, purpose, expires_at): (TokenHash, AccountId, LinkPurpose, Timestamp),
    mac: Option<RowMac>,
) -> SignedRow {
    let fields = link_fields(token, account, purpose, expires_at);
    SignedRow { table: "account_links", row: format!("of account {account}"), fields, mac }
}

/// Signs a credential as it is now.
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

/// An altered credential is an error, so that no writer signs it.
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

/// Reads `row_mac` and the columns of a credential.
fn signed_credential(row: Row) -> Result<(ClientId, SignedRow), StoreError> {
    let (mac, credential) = row_mapping::credential_with_mac_from_row(row)?;
    let row = credential.client_id.to_string();
    let signed = SignedRow { table: "credentials", row, fields: credential_fields(&credential), mac };
    Ok((credential.client_id, signed))
}

/// The rows of a table with their keys, in the order of the keys.
enum SignedTable {
    Accounts,
    Memberships,
    Invitations,
    Credentials,
}

/// The key of a row, as the parameters of an update.
enum RowKey {
    Account(AccountId),
    Membership(AccountId, WorkspaceId),
    Invitation(InvitationId),
    Credential(ClientId),
}

impl SignedTable {
    const ALL: [SignedTable; 4] =
        [SignedTable::Accounts, SignedTable::Memberships, SignedTable::Invitations, SignedTable::Credentials];

    fn select(&self) -> &'static str {
        match self {
            SignedTable::Accounts => concat!("select ", signed_account_columns!(), " from accounts order by id"),
            SignedTable::Memberships => concat!(
                "select account_id, row_mac, ",
                grants_columns!(),
                " from memberships order by account_id, workspace_id"
            ),
            SignedTable::Invitations => {
                concat!("select row_mac, ", invitation_columns!(), " from invitations order by id")
            }
            SignedTable::Credentials => {
                concat!("select row_mac, ", credential_columns!(), " from credentials order by client_id")
            }
        }
    }

    fn read(&self, row: Row) -> Result<(RowKey, SignedRow), StoreError> {
        Ok(match self {
            SignedTable::Accounts => {
                let (id, signed) = read_signed_account(&mut row.reader("accounts"))?;
                (RowKey::Account(id), signed)
            }
            SignedTable::Memberships => {
                let mut row = row.reader("memberships");
                let (account, mac) = (AccountId(row.uuid("account_id")?), read_mac(&mut row)?);
                let (grants, role) = grants_from_reader(&mut row)?;
                (RowKey::Membership(account, grants.workspace), signed_membership(account, &grants, role, mac))
            }
            SignedTable::Invitations => {
                let mut row = row.reader("invitations");
                let mac = read_mac(&mut row)?;
                let invitation = invitation_from_reader(&mut row)?;
                (RowKey::Invitation(invitation.id), signed_invitation(&invitation, mac))
            }
            SignedTable::Credentials => {
                let (client_id, signed) = signed_credential(row)?;
                (RowKey::Credential(client_id), signed)
            }
        })
    }
}

pub(super) async fn find_altered_rows(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    limit: usize,
) -> Result<Vec<AlteredRow>, StoreError> {
    let mut altered = vec![];
    for table in SignedTable::ALL {
        let mut of_table = vec![];
        for row in tx.run(table.select(), &[]).await? {
            let (_, signed) = table.read(row)?;
            if of_table.len() < limit && !signed.is_valid(signer)? {
                of_table.push(signed.altered());
            }
        }
        altered.append(&mut of_table);
    }
    Ok(altered)
}

/// Replaces the hash key and the MACs. Rows that the old key did not sign stay invalid.
pub(super) async fn reset_hash_key(
    tx: &mut dyn Tx,
    key: &SealedKey,
    version: ControlPlaneVersion,
    (old, new): (&dyn RowSigner, &dyn RowSigner),
) -> Result<HashKeyReset, StoreError> {
    let mut reset = HashKeyReset::default();
    let mut valid = vec![];
    for table in SignedTable::ALL {
        for row in tx.run(table.select(), &[]).await? {
            let (key, signed) = table.read(row)?;
            if signed.is_valid(old)? {
                valid.push((key, signed));
            }
        }
    }
    let sessions = tx.run("delete from sessions returning 1", &[]).await?;
    reset.sessions = sessions.len() as u64;
    for delete in [
        "delete from account_links",
        "delete from login_throttle",
        "delete from idempotency_keys",
        "delete from sms_parts",
        "delete from concatenated_sms",
        "delete from sealed_keys where purpose = 'hash'",
    ] {
        tx.run(delete, &[]).await?;
    }
    let unlink = "update accounts set identity_hash = null, identity_issuer = null where identity_hash is not null
                  returning 1";
    reset.unlinked_identities = tx.run(unlink, &[]).await?.len() as u64;
    let mut credentials = vec![];
    for (key, signed) in valid {
        reset.signed_rows += 1;
        let mac = new.sign(&signed.fields)?;
        match key {
            // Its identity may be gone.
            RowKey::Account(account) => sign_account(tx, new, account).await?,
            RowKey::Membership(account, workspace) => {
                let update = "update memberships set row_mac = $1 where account_id = $2 and workspace_id = $3";
                tx.run(update, values![mac.0, account, workspace]).await?;
            }
            RowKey::Invitation(id) => {
                tx.run("update invitations set row_mac = $1 where id = $2", values![mac.0, id]).await?;
            }
            RowKey::Credential(client_id) => credentials.push((client_id, mac)),
        }
    }
    replace_credential_macs(tx, &credentials, version).await?;
    insert_key(tx, key, version).await?;
    Ok(reset)
}

const MACS_PER_STATEMENT: usize = 500;

/// Updates many rows per statement: there may be thousands of credentials, and a transaction has only seconds.
async fn replace_credential_macs(
    tx: &mut dyn Tx,
    macs: &[(ClientId, RowMac)],
    version: ControlPlaneVersion,
) -> Result<(), StoreError> {
    for rows in macs.chunks(MACS_PER_STATEMENT) {
        let mut values = values![version.0].to_vec();
        let (mut cases, mut clients) = (Vec::new(), Vec::new());
        for (client_id, mac) in rows {
            let index = values.len() + 1;
            values.extend_from_slice(values![client_id.as_str(), mac.0]);
            cases.push(format!("when ${index} then ${}", index + 1));
            clients.push(format!("${index}"));
        }
        // The `else` column gives PostgreSQL the type of the parameters.
        let sql = format!(
            "update credentials set changed = $1, row_mac = case client_id {} else row_mac end where client_id in ({})",
            cases.join(" "),
            clients.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}
