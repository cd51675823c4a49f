//! Creation, lookup and lifecycle of checks.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{
        AnyCheck, AnyVerdict, CheckConclusion, CheckId, CheckStatus, Concluded, Lifecycle, NumberHash, OpenState,
    },
    page::Page,
    phone::Msisdn,
    product::Product,
    reverse_sms::SmsOrigin,
    tenancy::ProjectId,
};
use ringtrue_engine::{
    ports::{
        CheckHistory, CheckQuery, CheckStore, CodeHash, ConcludeOutcome, CreateCheckOutcome, IdempotentResponse,
        MarkedPending, NewCallback, NewCheck, StoreError, TenantLookup, UsageDelta,
    },
    search_limit::SearchLimiter,
};
use uuid::Uuid;

use super::{SqlStore, check_list::CheckList, usage};
use crate::{
    check_row_mapping::{self, check_columns},
    driver::{ConcludeCheck, Database, NewConcludedCheck, TransactionEnd, Tx, Value, values},
    number_limit,
    row::Row,
};

#[async_trait]
impl<D: Database> CheckStore for SqlStore<D> {
    async fn create_check(&self, new: NewCheck) -> Result<CreateCheckOutcome, StoreError> {
        // Lists derive the hour of a check from its id.
        if id_millis(new.check.id.0) != Some(new.check.created_at.as_millisecond()) {
            return Err(StoreError::Refused("the id of a check must contain its creation time".to_owned()));
        }
        if !matches!(new.check.state, Lifecycle::Open(OpenState::Accepted)) {
            return Err(StoreError::Refused("a new check must have the status ACCEPTED".to_owned()));
        }
        if let Some(limit) = new.number_limit.filter(|limit| limit.max_checks == 0) {
            let until = new.check.created_at.as_millisecond().saturating_add(number_limit::window_millis(limit));
            return Ok(CreateCheckOutcome::TooManyChecks {
                retry_at: Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX),
            });
        }
        self.database.create_check(new).await
    }

    async fn create_concluded_check(
        &self,
        concluded: Concluded<AnyVerdict>,
        response: Option<IdempotentResponse>,
    ) -> Result<(), StoreError> {
        self.database.create_concluded_check(NewConcludedCheck::new(concluded, response)).await
    }

    async fn find_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<TenantLookup<AnyCheck>, StoreError> {
        Ok(match self.database.find_check(id).await?.filter(|check| check.product == product) {
            None => TenantLookup::NotFound,
            Some(check) if check.project == project => TenantLookup::Found(check),
            Some(_) => TenantLookup::OtherTenant,
        })
    }

    async fn check_history(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Option<CheckHistory>, StoreError> {
        let select = "select id, pending_at, connector from checks where id = $1 and project_id = $2 and product = $3";
        let row = self.read_first(select, values![id, project, product.as_str()].to_vec()).await?;
        row.map(|row| {
            let mut row = row.reader("checks");
            row.uuid("id")?;
            let pending_at = row.instant_or_null("pending_at")?;
            Ok(CheckHistory { pending_at, connector: row.text_or_null("connector")? })
        })
        .transpose()
    }

    async fn find_check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        if codes.is_empty() {
            return Ok(None);
        }
        self.database.find_check_by_code(codes).await
    }

    async fn conclude(
        &self,
        conclusion: CheckConclusion,
        callback: Option<NewCallback>,
    ) -> Result<ConcludeOutcome, StoreError> {
        self.database.conclude(ConcludeCheck { conclusion, callback }).await
    }

    async fn mark_pending(
        &self,
        origin: SmsOrigin,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError> {
        let mut parameters = values![number, receiver.as_str(), origin.mode().as_str(), at].to_vec();
        let select = match origin {
            SmsOrigin::Operator => SELECT_AWAITING_SMS,
            SmsOrigin::Sandbox(project) => {
                parameters.extend(values![project].to_vec());
                SELECT_AWAITING_SMS_OF_PROJECT
            }
        };
        let connector = connector.to_owned();
        self.database
            .transact(move |tx| Box::pin(async move { mark_pending(tx, select, &parameters, &connector, at).await }))
            .await
    }

    async fn overdue_checks(&self, now: Timestamp, limit: u32) -> Result<Vec<AnyCheck>, StoreError> {
        self.read_checks(
            concat!(
                "select ",
                check_columns!(),
                " from deadlines join checks on id = check_id where due_at <= $1
                  order by due_at, check_id limit $2"
            ),
            values![now, i64::from(limit)].to_vec(),
        )
        .await
    }

    async fn overdue_checks_of_project(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        self.read_checks(
            concat!(
                "select ",
                check_columns!(),
                " from deadlines join checks on id = check_id
                  where due_at <= $1 and project_id = $2 and product = $3
                  order by due_at, check_id limit $4"
            ),
            values![now, project, product.as_str(), i64::from(limit)].to_vec(),
        )
        .await
    }

    async fn list_checks(&self, query: CheckQuery, limiter: &SearchLimiter) -> Result<Page<AnyCheck>, StoreError> {
        let workspace = query.workspace;
        let list = Arc::new(CheckList::new(query, D::MIN_ID_SQL));
        let cheap = Arc::clone(&list);
        let page =
            self.database.read_list(move |tx| Box::pin(async move { cheap.read_within_budget(tx).await })).await?;
        if let Some(page) = page {
            return Ok(page);
        }
        let permit = limiter.try_acquire(workspace)?;
        self.database.search(permit, move |tx| Box::pin(async move { list.read(tx).await })).await
    }
}

impl<D: Database> SqlStore<D> {
    async fn read_checks(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<AnyCheck>, StoreError> {
        let rows = self.database.read(move |tx| Box::pin(async move { tx.run(sql, &values).await })).await?;
        rows.into_iter().map(check_row_mapping::check_from_row).collect()
    }
}

/// The timestamp of a version 7 UUID.
fn id_millis(id: Uuid) -> Option<i64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    i64::try_from(seconds).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000))
}

const SELECT_AWAITING_SMS: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
      order by id";
const SELECT_AWAITING_SMS_OF_PROJECT: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
        and project_id = $5
      order by id";

/// Updates checks one by one in the order of ids, as conclusions do: another order could deadlock.
async fn mark_pending(
    tx: &mut dyn Tx,
    select: &'static str,
    parameters: &[Value],
    connector: &str,
    at: Timestamp,
) -> Result<TransactionEnd<Vec<MarkedPending>>, StoreError> {
    let awaiting = tx.run(select, parameters).await?;
    let mut pending = Vec::new();
    for row in awaiting {
        let id = row.reader("checks").uuid("id")?;
        let marked = tx
            .first(
                "update checks set pending_at = case when created_at < $1 then $1 else created_at end, connector = $2, status = 'PENDING'
                  where id = $3 and status = 'ACCEPTED'
                 returning id, project_id, product, created_at, network_id",
                values![at, connector, id],
            )
            .await?;
        if let Some(row) = marked {
            pending.push(marked_pending_from_row(row)?);
        }
    }
    if pending.is_empty() {
        return Ok(TransactionEnd::Rollback(pending));
    }
    let counts: Vec<_> = pending.iter().flat_map(pending_usage_changes).collect();
    usage::apply_changes(tx, &counts).await?;
    Ok(TransactionEnd::Commit(pending))
}

fn marked_pending_from_row(row: Row) -> Result<MarkedPending, StoreError> {
    let mut row = row.reader("checks");
    row.uuid("id")?;
    Ok(MarkedPending {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        created_at: row.instant("created_at")?,
        network: row.parsed_or_null("network_id")?,
    })
}

fn pending_usage_changes(check: &MarkedPending) -> [UsageDelta; 2] {
    let pending = UsageDelta {
        project: check.project,
        product: check.product,
        at: check.created_at,
        status: CheckStatus::Pending,
        matched: None,
        network: check.network.clone(),
        delta: 1,
    };
    [UsageDelta { status: CheckStatus::Accepted, delta: -1, ..pending.clone() }, pending]
}
