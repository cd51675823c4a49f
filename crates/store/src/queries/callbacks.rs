//! Callbacks and their attempts.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{audit::AuditEvent, lifecycle::CheckId, tenancy::ProjectId};
use ringtrue_engine::ports::{
    AttemptSettlement, CallbackRecord, CallbackState, CallbackStore, IdempotentResponse, LeasedCallback,
    MAX_LOGGED_ATTEMPTS, MAX_RESENDS, ResendOutcome, StoreError, TenantLookup,
};

use super::{SqlStore, audit, idempotency};
use crate::{
    check_row_mapping::{self, attempt_columns, callback_columns},
    driver::{Database, LeaseCallbacks, TransactionEnd, Tx, values},
    row::Row,
};

#[async_trait]
impl<D: Database> CallbackStore for SqlStore<D> {
    async fn lease_due_callbacks(
        &self,
        now: Timestamp,
        lease_until: Timestamp,
        limit: u32,
        skip: &[ProjectId],
    ) -> Result<Vec<LeasedCallback>, StoreError> {
        let skip = skip.iter().map(|project| project.0).collect();
        self.database.lease_due_callbacks(LeaseCallbacks { now, until: lease_until, limit, skip }).await
    }

    async fn next_callback_due_at(&self) -> Result<Option<Timestamp>, StoreError> {
        let row = self.read_first("select min(due_at) from callbacks where state = 'waiting'", Vec::new()).await?;
        row.map_or(Ok(None), |row| row.reader("callbacks").instant_or_null("due_at"))
    }

    async fn settle_attempt(&self, settlement: AttemptSettlement) -> Result<bool, StoreError> {
        self.database.settle(settlement).await
    }

    async fn give_up_overdue_callbacks(&self, due_before: Timestamp, limit: u32) -> Result<u64, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let given_up = tx
                        .run(
                            "update callbacks set state = 'given_up', due_at = null where check_id in
                               (select check_id from callbacks where state = 'waiting'
                                   and (due_at < $1 or exists (select 1 from checks
                                         where checks.id = callbacks.check_id and checks.expires_at < $1))
                                 order by due_at, check_id limit $2)
                               and state = 'waiting'
                             returning 1",
                            values![due_before, i64::from(limit)],
                        )
                        .await?;
                    Ok(TransactionEnd::Commit(given_up.len() as u64))
                })
            })
            .await
    }

    async fn release_leases(&self, mut leases: Vec<(CheckId, Timestamp)>, due_at: Timestamp) -> Result<(), StoreError> {
        leases.sort_unstable();
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    for (check, lease_until) in leases {
                        tx.run(
                            "update callbacks set due_at = $1 where check_id = $2 and due_at = $3",
                            values![due_at, check, lease_until],
                        )
                        .await?;
                    }
                    Ok(TransactionEnd::Commit(()))
                })
            })
            .await
    }

    async fn resend_callback(
        &self,
        project: ProjectId,
        check: CheckId,
        due_at: Timestamp,
        audit: &AuditEvent,
        response: Option<IdempotentResponse>,
    ) -> Result<TenantLookup<ResendOutcome>, StoreError> {
        let event = audit.clone();
        self.database
            .transact(move |tx| {
                Box::pin(async move { resend(tx, project, check, due_at, &event, response.as_ref()).await })
            })
            .await
    }

    async fn find_callback(
        &self,
        project: ProjectId,
        check: CheckId,
    ) -> Result<TenantLookup<CallbackRecord>, StoreError> {
        self.database
            .read(move |tx| {
                Box::pin(async move {
                    let row = tx
                        .first(
                            concat!("select ", callback_columns!(), " from callbacks where check_id = $1"),
                            values![check],
                        )
                        .await?;
                    let Some((owner, mut record)) = row.map(check_row_mapping::callback_from_row).transpose()? else {
                        return Ok(TenantLookup::NotFound);
                    };
                    if owner != project {
                        return Ok(TenantLookup::OtherTenant);
                    }
                    let attempts = tx
                        .run(
                            concat!(
                                "select ",
                                attempt_columns!(),
                                " from callback_attempts where check_id = $1 order by attempt desc limit $2"
                            ),
                            values![check, i64::from(MAX_LOGGED_ATTEMPTS)],
                        )
                        .await?;
                    let attempts = attempts.into_iter().rev();
                    record.attempts = attempts.map(check_row_mapping::attempt_from_row).collect::<Result<_, _>>()?;
                    Ok(TenantLookup::Found(record))
                })
            })
            .await
    }
}

async fn resend(
    tx: &mut dyn Tx,
    project: ProjectId,
    check: CheckId,
    due_at: Timestamp,
    event: &AuditEvent,
    response: Option<&IdempotentResponse>,
) -> Result<TransactionEnd<TenantLookup<ResendOutcome>>, StoreError> {
    let row = tx
        .first(concat!("select ", callback_columns!(), " from callbacks where check_id = $1"), values![check])
        .await?;
    let Some((owner, record)) = row.map(check_row_mapping::callback_from_row).transpose()? else {
        return Ok(TransactionEnd::Rollback(TenantLookup::NotFound));
    };
    let resends = tx.first("select resends from callbacks where check_id = $1", values![check]).await?;
    let resends = resends.map_or(Ok(0), Row::into_int)?;
    let refused = match (owner == project, record.state, record.body) {
        (false, ..) => Some(TenantLookup::OtherTenant),
        (true, CallbackState::Waiting { .. }, _) => Some(TenantLookup::Found(ResendOutcome::StillWaiting)),
        (true, _, None) => Some(TenantLookup::Found(ResendOutcome::Erased)),
        (true, _, Some(_)) if resends >= i64::from(MAX_RESENDS) => {
            Some(TenantLookup::Found(ResendOutcome::LimitReached))
        }
        (true, _, Some(_)) => None,
    };
    if let Some(refused) = refused {
        return Ok(TransactionEnd::Rollback(refused));
    }
    let attempts =
        tx.first("select coalesce(max(attempt), 0) from callback_attempts where check_id = $1", values![check]).await?;
    let attempts = attempts.map_or(Ok(0), Row::into_int)?;
    let queued = tx
        .first(
            "update callbacks set state = 'waiting', due_at = $1, failed_attempts = $2, earlier_attempts = $2,
                    resends = resends + 1
              where check_id = $3 and state <> 'waiting' and body is not null and resends < $4
             returning check_id",
            values![due_at, attempts, check, i64::from(MAX_RESENDS)],
        )
        .await?;
    if queued.is_none() {
        // A concurrent resend won.
        return Ok(TransactionEnd::Rollback(TenantLookup::Found(ResendOutcome::StillWaiting)));
    }
    idempotency::store_response(tx, response).await?;
    audit::insert_event(tx, event).await?;
    Ok(TransactionEnd::Commit(TenantLookup::Found(ResendOutcome::Queued)))
}
