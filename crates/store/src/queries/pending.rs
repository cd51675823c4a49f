//! Marks verifications as pending, and computes the counter changes of checks that become pending.

use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{activity::UsageDelta, checks::MarkedPending, store::StoreError};

use super::bucket::bucket_condition;
use crate::{
    driver::{Database, Sql, Tx},
    row::{Row, values},
};

/// Marks a verification as pending. `None`: it was pending already, or is concluded.
pub(super) async fn mark_verification_pending<D: Database>(
    tx: &mut dyn Tx,
    verification: CheckId,
    at: Timestamp,
) -> Result<Option<MarkedPending>, StoreError> {
    let mut values = values![at, verification].to_vec();
    let update = format!(
        "update checks set pending_at = case when created_at < $1 then $1 else created_at end, status = 'PENDING'
          where id = $2 and status = 'ACCEPTED' {}
         returning id, project_id, product, created_at, network_id, verification_id",
        bucket_condition::<D>(verification.bucket(), &mut values)
    );
    let row = tx.query(Sql::cached(update), &values).await?.pop();
    row.map(marked_pending_from_row).transpose()
}

pub(super) fn marked_pending_from_row(row: Row) -> Result<MarkedPending, StoreError> {
    let mut row = row.reader("checks");
    row.uuid("id")?;
    Ok(MarkedPending {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        created_at: row.instant("created_at")?,
        network: row.parsed_or_null("network_id")?,
        verification: row.uuid_or_null("verification_id")?.map(CheckId),
    })
}

pub(super) fn pending_usage_changes(check: &MarkedPending) -> [UsageDelta; 2] {
    let pending = UsageDelta {
        project: check.project,
        product: check.product,
        at: check.created_at,
        status: CheckStatus::Pending,
        matched: None,
        network: check.network.clone(),
        via: None,
        delta: 1,
    };
    [UsageDelta { status: CheckStatus::Accepted, delta: -1, ..pending.clone() }, pending]
}
