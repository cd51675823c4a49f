//! Stores the activity counts of projects, by minute and by hour.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{activity::ActivityCounts, product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{
    activity::{
        ActivityDelta, ActivityFilter, ActivityStore, CompletionTime, NetworkActivity, PeriodActivity, WaitingCallbacks,
    },
    store::StoreError,
};
use strum::VariantArray as _;

use super::{SqlStore, placeholders};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, RowReader, Value, values},
    time_span::{HOUR_MILLIS, Span},
};

/// The count columns, in the order of [`to_columns`].
const COUNT_COLUMNS: [&str; 29] = [
    "created",
    "seen",
    "completed",
    "matched",
    "expired",
    "failed",
    "attempts_delivered",
    "attempts_failed",
    "given_up",
    "within_1_ms",
    "within_2_ms",
    "within_4_ms",
    "within_8_ms",
    "within_16_ms",
    "within_32_ms",
    "within_64_ms",
    "within_125_ms",
    "within_250_ms",
    "within_500_ms",
    "within_1000_ms",
    "within_2000_ms",
    "within_4000_ms",
    "within_8000_ms",
    "within_15000_ms",
    "within_30000_ms",
    "within_60000_ms",
    "within_120000_ms",
    "within_300000_ms",
    "over_300000_ms",
];
const FIRST_LATENCY_COLUMN: usize = 9;

/// Maximum number of rows in an insert. Both databases limit the number of parameters of a statement.
const ROWS_PER_STATEMENT: usize = 200;
/// Maximum number of rows that one housekeeping transaction rolls up or deletes.
const MAX_ROWS_PER_TRANSACTION: i64 = 1_000;
/// Replaces the completion time in query results for checks that are not completed.
const NOT_COMPLETED: i64 = -1;

/// Key of an activity row. Rows are written in the order of their keys, so that nodes cannot deadlock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct ActivityKey {
    project: ProjectId,
    start: i64,
    minutes: i64,
    product: &'static str,
    /// Empty if the row has no network.
    network: String,
}

impl From<&ActivityDelta> for ActivityKey {
    fn from(count: &ActivityDelta) -> Self {
        ActivityKey {
            project: count.project,
            start: count.minute.as_millisecond(),
            minutes: 1,
            product: count.product.into_str(),
            network: count.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

#[async_trait]
impl<D: Database> ActivityStore for SqlStore<D> {
    async fn add_activity(&self, counts: Vec<ActivityDelta>) -> Result<(), StoreError> {
        self.transact(work!(|tx| {
            let rows = counts.iter().map(|count| (ActivityKey::from(count), count.counts)).collect();
            upsert_counts(tx, rows).await.map(TransactionEnd::Commit)
        }))
        .await
    }

    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<PeriodActivity>, StoreError> {
        let (sql, values) = activity_sql(project, &filter);
        let rows = self.read_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let period = |row: Row| {
            let mut row = row.reader("activity");
            Ok(PeriodActivity { start: row.instant("start_at")?, counts: counts_from_row(&mut row)? })
        };
        rows.into_iter().map(period).collect()
    }

    async fn activity_by_network(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<NetworkActivity>, StoreError> {
        let sql = format!(
            "select product, network_id, {} from activity where project_id = $1 and start_at >= $2 and start_at < $3
              group by product, network_id order by product, network_id",
            sums()
        );
        let values = values![project, from, to].to_vec();
        let rows = self.read_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let network = |row: Row| {
            let mut row = row.reader("activity");
            Ok(NetworkActivity {
                product: row.parsed("product")?,
                // The text is empty if the row has no network.
                network: row.text("network_id")?.parse().ok(),
                counts: counts_from_row(&mut row)?,
            })
        };
        rows.into_iter().map(network).collect()
    }

    async fn completion_times(
        &self,
        project: ProjectId,
        filter: ActivityFilter,
        scan_limit: u32,
    ) -> Result<Option<Vec<CompletionTime>>, StoreError> {
        let (sql, values) = completion_times_sql(project, &filter, scan_limit);
        let rows = self.read_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let time = |row: Row| {
            let mut row = row.reader("checks");
            Ok(CompletionTime { millis: row.int("millis")?, count: row.int("count")? })
        };
        let mut times = rows.into_iter().map(time).collect::<Result<Vec<_>, StoreError>>()?;
        if times.iter().map(|time| time.count).sum::<i64>() >= i64::from(scan_limit) {
            return Ok(None);
        }
        times.retain(|time| time.millis != NOT_COMPLETED);
        Ok(Some(times))
    }

    async fn waiting_callbacks(
        &self,
        project: ProjectId,
        product: Option<Product>,
        among: u32,
    ) -> Result<WaitingCallbacks, StoreError> {
        let sql =
            "select count(*), coalesce(sum(case when project_id = $1 and $2 in ('', product) then 1 else 0 end), 0)
                     from (select project_id, product from callbacks
                            where state = 'waiting' order by due_at limit $3) waiting";
        let product = product.map_or("", |product| product.into_str());
        let values = values![project, product, i64::from(among)].to_vec();
        let row = self.read_list(project, work!(|tx| tx.first(sql, &values).await)).await?;
        let Some(row) = row else { return Ok(WaitingCallbacks::default()) };
        let mut row = row.reader("callbacks");
        let examined = row.int("count")?;
        Ok(WaitingCallbacks { count: row.int("sum")?.unsigned_abs(), is_truncated: examined >= i64::from(among) })
    }

    async fn roll_up_activity(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.transact(work!(|tx| {
            let minutes = delete_minutes(tx, before).await?;
            let count = minutes.len() as u64;
            let mut hours = BTreeMap::<ActivityKey, ActivityCounts>::new();
            for (key, counts) in minutes {
                let start = key.start.div_euclid(HOUR_MILLIS) * HOUR_MILLIS;
                *hours.entry(ActivityKey { start, minutes: 60, ..key }).or_default() += &counts;
            }
            upsert_counts(tx, hours).await?;
            Ok(TransactionEnd::Commit(count))
        }))
        .await
    }

    async fn delete_activity_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        let delete = "delete from activity where (project_id, start_at, minutes, product, network_id) in
                        (select project_id, start_at, minutes, product, network_id from activity
                          where minutes = 60 and start_at < $1
                          order by start_at, project_id, product, network_id limit $2)
                      returning 1";
        Ok(self.write(delete, values![before, MAX_ROWS_PER_TRANSACTION]).await?.len() as u64)
    }
}

/// Adds counts to existing rows, and inserts the missing ones.
async fn upsert_counts(tx: &mut dyn Tx, counts: BTreeMap<ActivityKey, ActivityCounts>) -> Result<(), StoreError> {
    let counts: Vec<_> = counts.into_iter().collect();
    for chunk in counts.chunks(ROWS_PER_STATEMENT) {
        let mut values = Vec::new();
        let mut rows = Vec::new();
        for (key, counts) in chunk {
            let first = values.len() + 1;
            values.extend_from_slice(values![key.project, key.start, key.minutes, key.product, key.network.as_str()]);
            values.extend(to_columns(counts).map(Value::from));
            rows.push(format!("({})", placeholders(first, values.len() + 1 - first)));
        }
        let sums = COUNT_COLUMNS.map(|count| format!("{count} = activity.{count} + excluded.{count}"));
        let sql = format!(
            "insert into activity (project_id, start_at, minutes, product, network_id, {})
             values {}
             on conflict (project_id, start_at, minutes, product, network_id) do update set {}",
            COUNT_COLUMNS.join(", "),
            rows.join(", "),
            sums.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}

/// Deletes old per-minute rows, and returns their counts. Each row is returned to one caller only, even if calls are
/// concurrent.
async fn delete_minutes(tx: &mut dyn Tx, before: Timestamp) -> Result<Vec<(ActivityKey, ActivityCounts)>, StoreError> {
    let sql = format!(
        "delete from activity where (project_id, start_at, minutes, product, network_id) in
           (select project_id, start_at, minutes, product, network_id from activity
             where minutes = 1 and start_at < $1
             order by start_at, project_id, product, network_id limit $2)
         returning project_id, start_at, product, network_id, {}",
        COUNT_COLUMNS.join(", ")
    );
    let minute = |row: Row| {
        let mut row = row.reader("activity");
        let key = ActivityKey {
            project: ProjectId(row.uuid("project_id")?),
            start: row.int("start_at")?,
            minutes: 1,
            product: row.parsed::<Product>("product")?.into_str(),
            network: row.text("network_id")?,
        };
        Ok((key, counts_from_row(&mut row)?))
    };
    tx.query(sql.into(), values![before, MAX_ROWS_PER_TRANSACTION]).await?.into_iter().map(minute).collect()
}

/// Returns the query that sums up a project's counts by period, and its parameters.
fn activity_sql(project: ProjectId, filter: &ActivityFilter) -> (String, Vec<Value>) {
    let millis = i64::try_from(filter.period.as_millis()).unwrap_or(i64::MAX).max(1);
    let mut values = values![project, filter.from, filter.to].to_vec();
    let mut conditions = vec!["project_id = $1 and start_at >= $2 and start_at < $3".to_owned()];
    if let Some(product) = filter.product {
        values.push(product.into_str().into());
        conditions.push(format!("product = ${}", values.len()));
    }
    if let Some(network) = &filter.network {
        values.push(network.into());
        conditions.push(format!("network_id = ${}", values.len()));
    }
    let sums = sums();
    let sql = format!(
        "select start_at / {millis} * {millis}, {sums} from activity where {}
          group by start_at / {millis} * {millis} order by 1",
        conditions.join(" and ")
    );
    (sql, values)
}

/// Returns the query that counts the checks of a time span by completion time, and its parameters. The result includes
/// all scanned checks, so that the caller sees whether `scan_limit` was reached.
fn completion_times_sql(project: ProjectId, filter: &ActivityFilter, scan_limit: u32) -> (String, Vec<Value>) {
    let span = Span::since(filter.from.as_millisecond()).intersect(Span::before(filter.to.as_millisecond()));
    let mut values = values![project, span.first_id(), span.end_id(), i64::from(scan_limit)].to_vec();
    let products = filter.product.map_or_else(|| Product::VARIANTS.to_vec(), |product| vec![product]);
    let first = values.len() + 1;
    values.extend(products.iter().map(|product| Value::from(product.into_str())));
    let products = placeholders(first, products.len());
    let mut condition = "status = 'COMPLETED'".to_owned();
    if let Some(network) = &filter.network {
        values.push(network.into());
        condition = format!("{condition} and network_id = ${}", values.len());
    }
    let sql = format!(
        "select millis, count(*) from
           (select case when {condition} then concluded_at - created_at else {NOT_COMPLETED} end as millis
              from (select status, network_id, created_at, concluded_at from checks
                     where project_id = $1 and product in ({products}) and id >= $2 and id < $3
                     limit $4) as scanned) as times
          group by millis order by millis"
    );
    (sql, values)
}

fn sums() -> String {
    COUNT_COLUMNS.map(|count| format!("cast(sum({count}) as bigint)")).join(", ")
}

fn to_columns(counts: &ActivityCounts) -> [i64; COUNT_COLUMNS.len()] {
    let before_latency = [
        counts.created,
        counts.seen,
        counts.completed,
        counts.matched,
        counts.expired,
        counts.failed,
        counts.attempts_delivered,
        counts.attempts_failed,
        counts.given_up,
    ];
    let mut numbers = [0; COUNT_COLUMNS.len()];
    let all = before_latency.into_iter().chain(counts.latency);
    for (column, number) in numbers.iter_mut().zip(all) {
        *column = number;
    }
    numbers
}

fn counts_from_row(row: &mut RowReader) -> Result<ActivityCounts, StoreError> {
    let mut number = |column: usize| row.int(COUNT_COLUMNS[column]);
    Ok(ActivityCounts {
        created: number(0)?,
        seen: number(1)?,
        completed: number(2)?,
        matched: number(3)?,
        expired: number(4)?,
        failed: number(5)?,
        attempts_delivered: number(6)?,
        attempts_failed: number(7)?,
        given_up: number(8)?,
        latency: {
            let mut latency = ActivityCounts::default().latency;
            for (bucket, column) in latency.iter_mut().zip(FIRST_LATENCY_COLUMN..) {
                *bucket = number(column)?;
            }
            latency
        },
    })
}
