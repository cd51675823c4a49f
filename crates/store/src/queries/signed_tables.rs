//! Reads all rows that have a MAC, to find altered rows and to sign rows with a new key.

use ringtrue_domain::{
    account::{AccountId, InvitationId},
    tenancy::{ClientId, WorkspaceId},
};
use ringtrue_engine::ports::{
    keys::HashKeyReset,
    row_mac::{RowMac, RowSigner},
    store::{AlteredRow, ControlPlaneVersion, StoreError},
};

use super::{
    members::{invitation_columns, invitation_from_reader},
    memberships::{grants_columns, grants_from_reader},
    row_macs::{
        SignedRow, read_mac, read_signed_account, sign_account, signed_account_columns, signed_credential,
        signed_invitation, signed_membership,
    },
};
use crate::{
    driver::Tx,
    row::{Row, values},
    row_mapping::credential_columns,
};

/// A table whose rows have a MAC. Its rows are read in the order of their keys.
enum SignedTable {
    Accounts,
    Memberships,
    Invitations,
    Credentials,
}

/// Key of a row, used as the parameters of an update.
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

/// Replaces the MACs by those of a new hash key, and deletes sessions, identities and other data that was hashed with
/// the old key. Rows without a valid MAC of the old key stay invalid.
pub(super) async fn rekey_hashed_data(
    tx: &mut dyn Tx,
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
            // Signs the row as it is in the database, because the account's identity may have just been deleted.
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
    Ok(reset)
}

const MACS_PER_STATEMENT: usize = 500;

/// Updates many rows in each statement: there may be thousands of credentials, and a transaction has only seconds.
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
        // The column in the `else` branch tells PostgreSQL the type of the parameters.
        let sql = format!(
            "update credentials set changed = $1, row_mac = case client_id {} else row_mac end where client_id in ({})",
            cases.join(" "),
            clients.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}
