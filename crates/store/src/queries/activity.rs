//! Stores the activity counts of projects, by minute and by hour.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{activity::ActivityCounts, product::Product, tenancy::ProjectId, verification::funnel::Funnel};
use ringtrue_engine::ports::{
    activity::{
        ActivityDelta, ActivityFilter, ActivityScope, ActivityStore, CompletionDuration, FunnelDelta, NetworkActivity,
        PeriodActivity, WaitingCallbacks,
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
    /// Id of the network. Empty for checks whose network is unknown.
    network: String,
    is_step: bool,
}

/// Key of a row in a funnel. Rows are written in the order of their keys, so that nodes cannot deadlock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct FunnelKey {
    project: ProjectId,
    start: i64,
    minutes: i64,
    event: String,
}

impl From<&FunnelDelta> for FunnelKey {
    fn from(count: &FunnelDelta) -> Self {
        let (project, start) = (count.project, count.minute.as_millisecond());
        FunnelKey { project, start, minutes: 1, event: count.event.to_string() }
    }
}

impl From<&ActivityDelta> for ActivityKey {
    fn from(count: &ActivityDelta) -> Self {
        ActivityKey {
            project: count.project,
            start: count.minute.as_millisecond(),
            minutes: 1,
            product: count.product.into_str(),
            network: count.network.as_ref().map(ToString::to_string).unwrap_or_default(),
            is_step: count.is_step,
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

    async fn add_funnel(&self, counts: Vec<FunnelDelta>) -> Result<(), StoreError> {
        self.transact(work!(|tx| {
            let rows = counts.iter().map(|count| (FunnelKey::from(count), count.count)).collect();
            upsert_funnel(tx, rows).await.map(TransactionEnd::Commit)
        }))
        .await
    }

    async fn funnel(&self, project: ProjectId, from: Timestamp, to: Timestamp) -> Result<Funnel, StoreError> {
        let sql = "select event, cast(sum(count) as bigint) from funnel_counts
                    where project_id = $1 and start_at >= $2 and start_at < $3 group by event order by event";
        let values = values![project, from, to].to_vec();
        let rows = self.read_for_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let count = |row: Row| {
            let mut row = row.reader("funnel_counts");
            Ok((row.parsed("event")?, row.int("count")?))
        };
        rows.into_iter().map(count).collect::<Result<_, StoreError>>().map(Funnel)
    }

    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<PeriodActivity>, StoreError> {
        let (sql, values) = activity_sql(project, &filter);
        let rows = self.read_for_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
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
            "select product, network_id, is_step, {} from activity
              where project_id = $1 and start_at >= $2 and start_at < $3
              group by product, network_id, is_step order by product, network_id, is_step",
            sums()
        );
        let values = values![project, from, to].to_vec();
        let rows = self.read_for_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let network = |row: Row| {
            let mut row = row.reader("activity");
            Ok(NetworkActivity {
                product: row.parsed("product")?,
                // The text is empty if the row has no network.
                network: row.text("network_id")?.parse().ok(),
                is_step: row.boolean("is_step")?,
                counts: counts_from_row(&mut row)?,
            })
        };
        rows.into_iter().map(network).collect()
    }

    async fn completion_durations(
        &self,
        project: ProjectId,
        filter: ActivityFilter,
        scan_limit: u32,
    ) -> Result<Option<Vec<CompletionDuration>>, StoreError> {
        let (sql, values) = completion_durations_sql(project, &filter, scan_limit);
        let rows = self.read_for_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let time = |row: Row| {
            let mut row = row.reader("checks");
            Ok(CompletionDuration { millis: row.int("millis")?, count: row.int("count")? })
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
        scope: ActivityScope,
        among: u32,
    ) -> Result<WaitingCallbacks, StoreError> {
        // Steps have no callbacks.
        let products = products_of(scope);
        let sql = format!(
            "select count(*), coalesce(sum(case when project_id = $1 and product in ({}) then 1 else 0 end), 0)
                     from (select project_id, product from callbacks
                            where state = 'waiting' order by due_at limit $2) waiting",
            placeholders(3, products.len())
        );
        let mut values = values![project, i64::from(among)].to_vec();
        values.extend(products.iter().map(|product| Value::from(product.into_str())));
        let row = self.read_for_list(project, work!(|tx| tx.query(sql.into(), &values).await)).await?.pop();
        let Some(row) = row else { return Ok(WaitingCallbacks::default()) };
        let mut row = row.reader("callbacks");
        let examined = row.int("count")?;
        Ok(WaitingCallbacks { count: row.int("sum")?.unsigned_abs(), is_truncated: examined >= i64::from(among) })
    }

    async fn roll_up_activity(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.transact(work!(|tx| {
            let minutes = delete_minutes(tx, before).await?;
            let count = minutes.len() as u64 + roll_up_funnel(tx, before).await?;
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
        let delete = "delete from activity where (project_id, start_at, minutes, product, network_id, is_step) in
                        (select project_id, start_at, minutes, product, network_id, is_step from activity
                          where minutes = 60 and start_at < $1
                          order by start_at, project_id, product, network_id, is_step limit $2)
                      returning 1";
        let delete_funnel = "delete from funnel_counts where (project_id, start_at, minutes, event) in
                               (select project_id, start_at, minutes, event from funnel_counts
                                 where minutes = 60 and start_at < $1
                                 order by start_at, project_id, event limit $2)
                             returning 1";
        let deleted = self.execute(delete, values![before, MAX_ROWS_PER_TRANSACTION]).await?.len();
        Ok((deleted + self.execute(delete_funnel, values![before, MAX_ROWS_PER_TRANSACTION]).await?.len()) as u64)
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
            values.extend_from_slice(values![
                key.project,
                key.start,
                key.minutes,
                key.product,
                key.network.as_str(),
                key.is_step
            ]);
            values.extend(to_columns(counts).map(Value::from));
            rows.push(format!("({})", placeholders(first, values.len() + 1 - first)));
        }
        let sums = COUNT_COLUMNS.map(|count| format!("{count} = activity.{count} + excluded.{count}"));
        let sql = format!(
            "insert into activity (project_id, start_at, minutes, product, network_id, is_step, {})
             values {}
             on conflict (project_id, start_at, minutes, product, network_id, is_step) do update set {}",
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
        "delete from activity where (project_id, start_at, minutes, product, network_id, is_step) in
           (select project_id, start_at, minutes, product, network_id, is_step from activity
             where minutes = 1 and start_at < $1
             order by start_at, project_id, product, network_id, is_step limit $2)
         returning project_id, start_at, product, network_id, is_step, {}",
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
            is_step: row.boolean("is_step")?,
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
    let products = products_of(filter.scope);
    conditions.push(format!("product in ({})", placeholders(values.len() + 1, products.len())));
    values.extend(products.iter().map(|product| Value::from(product.into_str())));
    if excludes_steps(filter.scope) {
        values.push(false.into());
        conditions.push(format!("is_step = ${}", values.len()));
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
fn completion_durations_sql(project: ProjectId, filter: &ActivityFilter, scan_limit: u32) -> (String, Vec<Value>) {
    let span = Span::since(filter.from.as_millisecond()).intersect(Span::before(filter.to.as_millisecond()));
    let mut values = values![project, span.first_id(), span.end_id(), i64::from(scan_limit)].to_vec();
    let products = products_of(filter.scope);
    let first = values.len() + 1;
    values.extend(products.iter().map(|product| Value::from(product.into_str())));
    let products = placeholders(first, products.len());
    let mut condition = "status = 'COMPLETED'".to_owned();
    if filter.scope == ActivityScope::Verifications {
        values.push(true.into());
        condition = format!("{condition} and matched = ${}", values.len());
    }
    let without_steps = if excludes_steps(filter.scope) { "and verification_id is null" } else { "" };
    if let Some(network) = &filter.network {
        values.push(network.into());
        condition = format!("{condition} and network_id = ${}", values.len());
    }
    let sql = format!(
        "select millis, count(*) from
           (select case when {condition} then concluded_at - created_at else {NOT_COMPLETED} end as millis
              from (select status, matched, network_id, created_at, concluded_at from checks
                     where project_id = $1 and product in ({products}) and id >= $2 and id < $3 {without_steps}
                     limit $4) as scanned) as times
          group by millis order by millis"
    );
    (sql, values)
}

/// Returns the products whose checks a scope includes.
fn products_of(scope: ActivityScope) -> Vec<Product> {
    Product::VARIANTS.iter().copied().filter(|product| scope.includes(*product, false)).collect()
}

fn excludes_steps(scope: ActivityScope) -> bool {
    match scope {
        ActivityScope::All | ActivityScope::Verifications => false,
        ActivityScope::Checks(_) => true,
    }
}

async fn upsert_funnel(tx: &mut dyn Tx, counts: BTreeMap<FunnelKey, i64>) -> Result<(), StoreError> {
    let counts: Vec<_> = counts.into_iter().collect();
    for chunk in counts.chunks(ROWS_PER_STATEMENT) {
        let mut values = Vec::new();
        let mut rows = Vec::new();
        for (key, count) in chunk {
            rows.push(format!("({})", placeholders(values.len() + 1, 5)));
            values.extend_from_slice(values![key.project, key.start, key.minutes, key.event.as_str(), *count]);
        }
        let sql = format!(
            "insert into funnel_counts (project_id, start_at, minutes, event, count) values {}
             on conflict (project_id, start_at, minutes, event)
             do update set count = funnel_counts.count + excluded.count",
            rows.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}

/// Merges old per-minute rows of funnels into per-hour rows. Returns the number of replaced rows.
async fn roll_up_funnel(tx: &mut dyn Tx, before: Timestamp) -> Result<u64, StoreError> {
    let delete = "delete from funnel_counts where (project_id, start_at, minutes, event) in
                    (select project_id, start_at, minutes, event from funnel_counts
                      where minutes = 1 and start_at < $1
                      order by start_at, project_id, event limit $2)
                  returning project_id, start_at, event, count";
    let minutes = tx.query(delete.into(), values![before, MAX_ROWS_PER_TRANSACTION]).await?;
    let replaced = minutes.len() as u64;
    let mut hours = BTreeMap::<FunnelKey, i64>::new();
    for row in minutes {
        let mut row = row.reader("funnel_counts");
        let project = ProjectId(row.uuid("project_id")?);
        let start = row.int("start_at")?.div_euclid(HOUR_MILLIS) * HOUR_MILLIS;
        let key = FunnelKey { project, start, minutes: 60, event: row.text("event")? };
        *hours.entry(key).or_default() += row.int("count")?;
    }
    upsert_funnel(tx, hours).await?;
    Ok(replaced)
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
