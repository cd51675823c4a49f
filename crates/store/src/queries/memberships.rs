//! Reads and writes memberships. A membership is an account's role in a workspace, granted manually or by an OpenID
//! claim.

use ringtrue_domain::{
    account::{AccountId, Role},
    tenancy::WorkspaceId,
};
use ringtrue_engine::ports::{accounts::MembershipGrants, row_mac::RowSigner, store::StoreError};

use super::row_macs::{membership_fields, read_mac, signed_membership};
use crate::{
    driver::Tx,
    row::{Row, RowReader, values},
};

macro_rules! grants_columns {
    () => {
        "workspace_id, role, claim_role, manual_role"
    };
}
pub(super) use grants_columns;

/// Reads the memberships of an account. Omits those whose row was altered outside Ringtrue.
pub(super) async fn read_grants(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<Vec<MembershipGrants>, StoreError> {
    let select =
        concat!("select row_mac, ", grants_columns!(), " from memberships where account_id = $1 order by workspace_id");
    let rows = tx.run(select, values![account]).await?;
    let verified = rows.into_iter().map(|row| verified_grants(row, signer, account));
    verified.filter_map(Result::transpose).collect()
}

/// Reads `row_mac` and the grants of a membership. `None`: the row was altered outside Ringtrue.
fn verified_grants(
    row: Row,
    signer: &dyn RowSigner,
    account: AccountId,
) -> Result<Option<MembershipGrants>, StoreError> {
    let mut row = row.reader("memberships");
    let mac = read_mac(&mut row)?;
    let (grants, role) = grants_from_reader(&mut row)?;
    let is_valid = signed_membership(account, &grants, role, mac).grants_rights(signer)?;
    Ok(is_valid.then_some(grants))
}

/// Reads the grants of a membership, and the column `role`. If no OpenID claim grants a role, `manual_role` is null,
/// and `role` is the manual one.
pub(super) fn grants_from_reader(row: &mut RowReader) -> Result<(MembershipGrants, Role), StoreError> {
    grants_or_null(row)?.ok_or_else(|| row.corrupt("workspace_id", "null"))
}

/// As [`grants_from_reader`], for the result of an outer join. `None`: the join found no membership.
pub(super) fn grants_or_null(row: &mut RowReader) -> Result<Option<(MembershipGrants, Role)>, StoreError> {
    let (workspace, role) = (row.uuid_or_null("workspace_id")?.map(WorkspaceId), row.parsed_or_null("role")?);
    let (claimed, manual) = (row.parsed_or_null("claim_role")?, row.parsed_or_null("manual_role")?);
    let (Some(workspace), Some(role)) = (workspace, role) else { return Ok(None) };
    let manual = if claimed.is_some() { manual } else { Some(role) };
    Ok(Some((MembershipGrants { workspace, manual, claimed }, role)))
}

/// Finds the membership of an account in a workspace. `None`: the account is not a member, or the row was altered.
pub(super) async fn find_grants(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
    workspace: WorkspaceId,
) -> Result<Option<MembershipGrants>, StoreError> {
    let select =
        concat!("select row_mac, ", grants_columns!(), " from memberships where account_id = $1 and workspace_id = $2");
    let row = tx.first(select, values![account, workspace]).await?;
    row.map_or(Ok(None), |row| verified_grants(row, signer, account))
}

/// Inserts or replaces a membership. Does nothing if it grants no role.
pub(super) async fn store_grants(
    tx: &mut dyn Tx,
    signer: &dyn RowSigner,
    account: AccountId,
    grants: MembershipGrants,
) -> Result<(), StoreError> {
    let Some(role) = grants.role() else { return Ok(()) };
    let manual = grants.manual.filter(|_| grants.claimed.is_some());
    let mac = signer.sign(&membership_fields(account, &grants, role))?;
    let [claimed, manual] = [grants.claimed, manual].map(|role| role.map(|role| role.into_str()));
    tx.run(
        "insert into memberships (account_id, workspace_id, role, claim_role, manual_role, row_mac)
         values ($1, $2, $3, $4, $5, $6)
         on conflict (account_id, workspace_id) do update
           set role = excluded.role, claim_role = excluded.claim_role, manual_role = excluded.manual_role,
               row_mac = excluded.row_mac",
        values![account, grants.workspace, role.into_str(), claimed, manual, mac.0],
    )
    .await?;
    Ok(())
}
