//! Checks.

use std::sync::Arc;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckId, Concluded, Ending as CheckEnding, Lifecycle, NumberHash, Open, Status},
    page::Page,
    phone::Msisdn,
    product::Product,
    reverse_sms::Origin,
    tenancy::ProjectId,
};
use ringtrue_engine::{
    ports::{
        Admitted, CheckQuery, CheckStore, CodeHash, Completion, Course, Found, MarkedPending, NewCallback, NewCheck,
        Recorded, StoreError, UsageCount,
    },
    search_limit::SearchLimiter,
};
use uuid::Uuid;

use super::{SqlStore, check_list::CheckList, usage};
use crate::{
    check_rows::{self, check_columns},
    driver::{Conclusion, Database, Ending, NewEnded, Tx, Value, values},
    guard,
    row::Row,
};

#[async_trait]
impl<D: Database> CheckStore for SqlStore<D> {
    async fn create_check(&self, new: NewCheck) -> Result<Admitted, StoreError> {
        // Lists find the hour of a check by its id.
        if millis_of(new.check.id.0) != Some(new.check.created_at.as_millisecond()) {
            return Err(StoreError::Refused("a check's id tells another instant than its creation".to_owned()));
        }
        if !matches!(new.check.state, Lifecycle::Open(Open::Accepted)) {
            return Err(StoreError::Refused("a new check is an accepted one".to_owned()));
        }
        if let Some(guard) = new.guard.filter(|guard| guard.creates == 0) {
            let until = new.check.created_at.as_millisecond().saturating_add(guard::window_millis(guard));
            return Ok(Admitted::TooOften { until: Timestamp::from_millisecond(until).unwrap_or(Timestamp::MAX) });
        }
        self.database.create_check(new).await
    }

    async fn create_ended(
        &self,
        concluded: Concluded<AnyVerdict>,
        completion: Option<Completion>,
    ) -> Result<(), StoreError> {
        self.database.create_ended(NewEnded::new(concluded, completion)).await
    }

    async fn find_check(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
    ) -> Result<Found<AnyCheck>, StoreError> {
        Ok(match self.database.find_check(id).await?.filter(|check| check.product == product) {
            None => Found::Nothing,
            Some(check) if check.project == project => Found::Mine(check),
            Some(_) => Found::SomeoneElses,
        })
    }

    async fn course_of(&self, project: ProjectId, product: Product, id: CheckId) -> Result<Option<Course>, StoreError> {
        let select = "select id, pending_at, connector from checks where id = $1 and project_id = $2 and product = $3";
        let row = self.read_first(select, values![id, project, product.as_str()].to_vec()).await?;
        row.map(|row| {
            let mut row = row.of("checks");
            row.uuid("id")?;
            let pending_at = row.instant_or_null("pending_at")?;
            Ok(Course { pending_at, connector: row.text_or_null("connector")? })
        })
        .transpose()
    }

    async fn check_by_code(&self, codes: Vec<CodeHash>) -> Result<Option<AnyCheck>, StoreError> {
        if codes.is_empty() {
            return Ok(None);
        }
        self.database.check_by_code(codes).await
    }

    async fn conclude(&self, ending: CheckEnding, callback: Option<NewCallback>) -> Result<Recorded, StoreError> {
        self.database.conclude(Conclusion { ending, callback }).await
    }

    async fn mark_pending(
        &self,
        origin: Origin,
        number: NumberHash,
        receiver: &Msisdn,
        connector: &str,
        at: Timestamp,
    ) -> Result<Vec<MarkedPending>, StoreError> {
        let mut waits = values![number, receiver.as_str(), origin.mode().as_str(), at].to_vec();
        let waiting = match origin {
            Origin::Operator => WAITING,
            Origin::Sandbox(project) => {
                waits.extend(values![project].to_vec());
                WAITING_OF_PROJECT
            }
        };
        let connector = connector.to_owned();
        self.database
            .transact(move |tx| Box::pin(async move { mark_pending(tx, waiting, &waits, &connector, at).await }))
            .await
    }

    async fn overdue(&self, now: Timestamp, limit: u32) -> Result<Vec<AnyCheck>, StoreError> {
        self.checks(
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

    async fn overdue_of(
        &self,
        project: ProjectId,
        product: Product,
        now: Timestamp,
        limit: u32,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        self.checks(
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
        let list = Arc::new(CheckList::new(query, D::MIN_ID));
        let small = Arc::clone(&list);
        let page =
            self.database.read_list(move |tx| Box::pin(async move { small.read_within_budget(tx).await })).await?;
        if let Some(page) = page {
            return Ok(page);
        }
        let permit = limiter.try_acquire(workspace)?;
        self.database.search(permit, move |tx| Box::pin(async move { list.read(tx).await })).await
    }
}

impl<D: Database> SqlStore<D> {
    async fn checks(&self, sql: &'static str, values: Vec<Value>) -> Result<Vec<AnyCheck>, StoreError> {
        let rows = self.database.read(move |tx| Box::pin(async move { tx.run(sql, &values).await })).await?;
        rows.into_iter().map(check_rows::check).collect()
    }
}

/// The instant in an id.
fn millis_of(id: Uuid) -> Option<i64> {
    let (seconds, nanos) = id.get_timestamp()?.to_unix();
    i64::try_from(seconds).ok()?.checked_mul(1_000)?.checked_add(i64::from(nanos / 1_000_000))
}

const WAITING: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
      order by id";
const WAITING_OF_PROJECT: &str = "select id from checks
      where number_hash = $1 and receiver = $2 and mode = $3 and status = 'ACCEPTED' and expires_at > $4
        and project_id = $5
      order by id";

/// Checks are changed one after the other, in the order of their ids, as ends are: whoever changes several in another
/// order could wait for someone who waits for them.
async fn mark_pending(
    tx: &mut dyn Tx,
    waiting: &'static str,
    waits: &[Value],
    connector: &str,
    at: Timestamp,
) -> Result<Ending<Vec<MarkedPending>>, StoreError> {
    let waiting = tx.run(waiting, waits).await?;
    let mut pending = Vec::new();
    for id in waiting {
        let id = id.of("checks").uuid("id")?;
        let marked = tx
            .first(
                "update checks set pending_at = case when created_at < $1 then $1 else created_at end, connector = $2, status = 'PENDING'
                  where id = $3 and status = 'ACCEPTED'
                 returning id, project_id, product, created_at, network_id",
                values![at, connector, id],
            )
            .await?;
        if let Some(row) = marked {
            pending.push(marked_pending(row)?);
        }
    }
    if pending.is_empty() {
        return Ok(Ending::Rollback(pending));
    }
    let counts: Vec<_> = pending.iter().flat_map(moved_to_pending).collect();
    usage::change(tx, &counts).await?;
    Ok(Ending::Commit(pending))
}

fn marked_pending(row: Row) -> Result<MarkedPending, StoreError> {
    let mut row = row.of("checks");
    row.uuid("id")?;
    Ok(MarkedPending {
        project: ProjectId(row.uuid("project_id")?),
        product: row.parsed("product")?,
        created_at: row.instant("created_at")?,
        network: row.parsed_or_null("network_id")?,
    })
}

fn moved_to_pending(check: &MarkedPending) -> [UsageCount; 2] {
    let pending = UsageCount {
        project: check.project,
        product: check.product,
        at: check.created_at,
        status: Status::Pending,
        matched: None,
        network: check.network.clone(),
        change: 1,
    };
    [UsageCount { status: Status::Accepted, change: -1, ..pending.clone() }, pending]
}
