//! Devices on their way to the operator and back.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed, Status},
    network::NetworkId,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    CameBack, Decision, JourneyRecord, JourneyStore, Progress, SetOut, StoreError, TokenHash, UsageCount,
};

use super::SqlStore;
use crate::{
    check_rows,
    driver::{ComeBack, Database, Decide, Ending, values},
    row::{Columns, Row},
};

/// What is read of a journey, after the columns of its check.
macro_rules! journey_columns {
    () => {
        "journeys.brief, journeys.code_hash, journeys.proof, journeys.wrong_codes"
    };
}
pub(crate) use journey_columns;

#[async_trait]
impl<D: Database> JourneyStore for SqlStore<D> {
    async fn journey(&self, check: CheckId) -> Result<Option<JourneyRecord>, StoreError> {
        let row = self.database.journey(check).await?;
        row.map(|row| record(row).map(|(record, _)| record)).transpose()
    }

    async fn set_out(&self, step: SetOut) -> Result<bool, StoreError> {
        self.database.set_out(step).await
    }

    async fn come_back(&self, check: CheckId, ticket: TokenHash) -> Result<Option<CameBack>, StoreError> {
        let Some(row) = self.database.come_back(ComeBack { check, ticket }).await? else { return Ok(None) };
        let (record, mut rest) = record(row)?;
        Ok(Some(CameBack { record, leg: Sealed(rest.bytes("leg")?) }))
    }

    async fn decide(&self, check: CheckId, decision: Decision) -> Result<bool, StoreError> {
        self.database.decide(Decide { check, decision }).await
    }

    async fn count_wrong_code(&self, check: CheckId) -> Result<Option<u32>, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let row = tx
                        .first(
                            "update journeys set wrong_codes = wrong_codes + 1 where check_id = $1
                             returning wrong_codes",
                            values![check],
                        )
                        .await?;
                    row.map(|row| wrong_codes(&mut row.of("journeys"))).transpose().map(Ending::Commit)
                })
            })
            .await
    }
}

/// A check with its journey, and the columns that come after.
fn record(row: Row) -> Result<(JourneyRecord, Columns), StoreError> {
    let (check, mut row) = check_rows::check_and_rest(row)?;
    let Some(brief) = row.bytes_or_null("brief")?.map(Sealed) else {
        return Ok((JourneyRecord { check, progress: None }, row));
    };
    let decision = match (row.bytes_or_null("code_hash")?, row.bytes_or_null("proof")?) {
        (Some(code), Some(proof)) => {
            let code = code.try_into().map_err(|_| row.inconsistent("code_hash", "not 32 bytes"))?;
            Some(Decision { code: TokenHash(code), proof: Sealed(proof) })
        }
        (None, None) => None,
        _ => return Err(row.inconsistent("proof", "a proof has a code")),
    };
    let progress = Progress { brief, decision, wrong_codes: wrong_codes(&mut row)? };
    Ok((JourneyRecord { check, progress: Some(progress) }, row))
}

fn wrong_codes(row: &mut Columns) -> Result<u32, StoreError> {
    let count = row.int("wrong_codes")?;
    u32::try_from(count).map_err(|_| row.inconsistent("wrong_codes", "not a count"))
}

/// How the counters move when a device sets out, if they do. `before` is the check: `id, project_id, product, created_at,
/// status, network_id`.
pub(crate) fn has_left(before: Row, step: &SetOut) -> Result<Option<[UsageCount; 2]>, StoreError> {
    let mut row = before.of("checks");
    row.uuid("id")?;
    let before = UsageCount {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        at: row.instant("created_at")?,
        status: row.parsed("status")?,
        matched: None,
        network: row.parsed_or_null::<NetworkId>("network_id")?,
        change: -1,
    };
    let after =
        UsageCount { status: Status::Pending, network: Some(step.network.clone()), change: 1, ..before.clone() };
    let has_moved = (before.status, &before.network) != (after.status, &after.network);
    Ok(has_moved.then_some([before, after]))
}
