//! Devices on their way to the operator and back.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed, Status},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    Decision, JourneyRecord, JourneyStore, Progress, SetOut, StoreError, TokenHash, UsageCount,
};

use super::{SqlStore, usage};
use crate::{
    check_rows::{self, check_columns},
    driver::{Database, Ending, Tx, values},
    row::{Columns, Row},
};

#[async_trait]
impl<D: Database> JourneyStore for SqlStore<D> {
    async fn journey(&self, check: CheckId) -> Result<Option<JourneyRecord>, StoreError> {
        let row = self.database.read(move |tx| Box::pin(read(tx, check))).await?;
        row.map(record).transpose()
    }

    async fn set_out(&self, step: SetOut) -> Result<bool, StoreError> {
        self.database.transact(move |tx| Box::pin(async move { set_out(tx, &step).await })).await
    }

    async fn come_back(&self, check: CheckId, ticket: TokenHash) -> Result<Option<Sealed>, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let used = tx
                        .first(
                            "select leg from journeys where check_id = $1 and ticket_hash = $2",
                            values![check, ticket],
                        )
                        .await?;
                    let Some(used) = used else { return Ok(Ending::Rollback(None)) };
                    let leg = Sealed(used.of("journeys").bytes("leg")?);
                    let voided = tx
                        .first(
                            "update journeys set ticket_hash = null, leg = null where check_id = $1 and ticket_hash = $2
                             returning check_id",
                            values![check, ticket],
                        )
                        .await?;
                    // Someone else came with the same ticket, and was first.
                    Ok(if voided.is_some() { Ending::Commit(Some(leg)) } else { Ending::Rollback(None) })
                })
            })
            .await
    }

    async fn decide(&self, check: CheckId, decision: Decision) -> Result<bool, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let decided = tx
                        .first(
                            "update journeys set code_hash = $1, proof = $2, ticket_hash = null, leg = null
                              where check_id = $3 and code_hash is null
                             returning check_id",
                            values![decision.code, &decision.proof, check],
                        )
                        .await?;
                    Ok(Ending::Commit(decided.is_some()))
                })
            })
            .await
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

async fn read(tx: &mut dyn Tx, check: CheckId) -> Result<Option<Row>, StoreError> {
    tx.first(
        concat!(
            "select ",
            check_columns!(),
            ", journeys.brief, journeys.code_hash, journeys.proof, journeys.wrong_codes
              from checks left join journeys on journeys.check_id = checks.id
             where checks.id = $1"
        ),
        values![check],
    )
    .await
}

fn record(row: Row) -> Result<JourneyRecord, StoreError> {
    let (check, mut row) = check_rows::check_and_rest(row)?;
    let Some(brief) = row.bytes_or_null("brief")?.map(Sealed) else {
        return Ok(JourneyRecord { check, progress: None });
    };
    let decision = match (row.bytes_or_null("code_hash")?, row.bytes_or_null("proof")?) {
        (Some(code), Some(proof)) => {
            let code = code.try_into().map_err(|_| row.inconsistent("code_hash", "not 32 bytes"))?;
            Some(Decision { code: TokenHash(code), proof: Sealed(proof) })
        }
        (None, None) => None,
        _ => return Err(row.inconsistent("proof", "a proof has a code")),
    };
    Ok(JourneyRecord { check, progress: Some(Progress { brief, decision, wrong_codes: wrong_codes(&mut row)? }) })
}

fn wrong_codes(row: &mut Columns) -> Result<u32, StoreError> {
    let count = row.int("wrong_codes")?;
    u32::try_from(count).map_err(|_| row.inconsistent("wrong_codes", "not a count"))
}

/// The check first, as its end does: two that lock the same rows in different orders could wait for each other.
///
/// To set a status to what it is locks the row, and gives what is in it when nobody else changes it any more: a device
/// may open its URL several times at once.
async fn set_out(tx: &mut dyn Tx, step: &SetOut) -> Result<Ending<bool>, StoreError> {
    let before = tx
        .first(
            "update checks set status = status where id = $1 and status in ('ACCEPTED', 'PENDING')
             returning id, project_id, product, created_at, status, network_id",
            values![step.check],
        )
        .await?;
    let Some(before) = before else { return Ok(Ending::Rollback(false)) };
    let before = count_before(before)?;
    let sent = tx
        .first(
            "update journeys set ticket_hash = $1, leg = $2 where check_id = $3 and code_hash is null
             returning check_id",
            values![step.ticket, &step.leg, step.check],
        )
        .await?;
    if sent.is_none() {
        return Ok(Ending::Rollback(false));
    }
    let after =
        UsageCount { status: Status::Pending, network: Some(step.network.clone()), change: 1, ..before.clone() };
    if (before.status, &before.network) != (after.status, &after.network) {
        tx.run(
            "update checks set pending_at = coalesce(pending_at, $1), status = 'PENDING', network_id = $2 where id = $3",
            values![step.at, &step.network, step.check],
        )
        .await?;
        usage::change(tx, &[before, after]).await?;
    }
    Ok(Ending::Commit(true))
}

/// The count that a check leaves.
fn count_before(row: Row) -> Result<UsageCount, StoreError> {
    let mut row = row.of("checks");
    row.uuid("id")?;
    Ok(UsageCount {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        at: row.instant("created_at")?,
        status: row.parsed("status")?,
        matched: None,
        network: row.parsed_or_null("network_id")?,
        change: -1,
    })
}
