//! What is counted for people who look after a project.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{activity::Counts, network::NetworkId, product::Product, tenancy::ProjectId};
use ringtrue_engine::ports::{
    ActivityCount, ActivityFilter, ActivityPeriod, ActivityStore, StoreError, WaitingCallbacks,
};

use super::SqlStore;
use crate::{
    driver::{Database, Ending, Tx, Value, values},
    row::{Columns, Row},
};

/// The counts, in the order of [`numbers`].
const COUNTS: [&str; 30] = [
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
    "took_500",
    "took_1000",
    "took_2000",
    "took_4000",
    "took_8000",
    "took_15000",
    "took_30000",
    "took_60000",
    "took_120000",
    "took_300000",
    "took_more",
    // Written by releases that had no classes below it.
    "took_250",
];
/// Where the classes of durations begin.
const LATENCY: usize = 9;

/// How many rows one statement writes: both databases limit its values.
const CHUNK: usize = 200;
/// How many old minutes are summed up in one transaction, or how many old rows deleted.
const BOUND: i64 = 1_000;
const HOUR_MILLIS: i64 = 3_600_000;

/// What one row is about, in the order that rows are written in, so that two nodes cannot wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
struct Key {
    project: ProjectId,
    start: i64,
    minutes: i64,
    product: &'static str,
    /// Empty when there is none.
    network: String,
}

impl From<&ActivityCount> for Key {
    fn from(count: &ActivityCount) -> Self {
        Key {
            project: count.project,
            start: count.minute.as_millisecond(),
            minutes: 1,
            product: count.product.as_str(),
            network: count.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

#[async_trait]
impl<D: Database> ActivityStore for SqlStore<D> {
    async fn add_activity(&self, counts: Vec<ActivityCount>) -> Result<(), StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let rows = counts.iter().map(|count| (Key::from(count), count.counts)).collect();
                    add(tx, rows).await.map(Ending::Commit)
                })
            })
            .await
    }

    async fn activity(&self, project: ProjectId, filter: ActivityFilter) -> Result<Vec<ActivityPeriod>, StoreError> {
        let (sql, values) = statement(project, &filter);
        let rows =
            self.database.read_list(move |tx| Box::pin(async move { tx.query(sql.into(), &values).await })).await?;
        let period = |row: Row| {
            let mut row = row.of("activity");
            Ok(ActivityPeriod { start: row.instant("start_at")?, counts: counts(&mut row)? })
        };
        rows.into_iter().map(period).collect()
    }

    async fn active_networks(
        &self,
        project: ProjectId,
        from: Timestamp,
        to: Timestamp,
    ) -> Result<Vec<NetworkId>, StoreError> {
        let sql = "select distinct network_id from activity
                    where project_id = $1 and start_at >= $2 and start_at < $3 and network_id <> ''
                    order by network_id";
        let values = values![project, from, to].to_vec();
        let rows = self.database.read_list(move |tx| Box::pin(async move { tx.run(sql, &values).await })).await?;
        rows.into_iter().map(|row| row.of("activity").parsed("network_id")).collect()
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
        let product = product.map_or("", Product::as_str);
        let row = self.read_first(sql, values![project, product, i64::from(among)].to_vec()).await?;
        let Some(row) = row else { return Ok(WaitingCallbacks::default()) };
        let mut row = row.of("callbacks");
        let looked_at = row.int("count")?;
        Ok(WaitingCallbacks { count: row.int("sum")?.unsigned_abs(), is_cut: looked_at >= i64::from(among) })
    }

    async fn sum_activity_up(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let minutes = take_minutes(tx, before).await?;
                    let count = minutes.len() as u64;
                    let mut hours = BTreeMap::<Key, Counts>::new();
                    for (key, counts) in minutes {
                        let start = key.start.div_euclid(HOUR_MILLIS) * HOUR_MILLIS;
                        *hours.entry(Key { start, minutes: 60, ..key }).or_default() += &counts;
                    }
                    add(tx, hours).await?;
                    Ok(Ending::Commit(count))
                })
            })
            .await
    }

    async fn forget_activity(&self, before: Timestamp) -> Result<u64, StoreError> {
        self.database
            .transact(move |tx| {
                Box::pin(async move {
                    let gone = tx
                        .run(
                            "delete from activity where (project_id, start_at, minutes, product, network_id) in
                               (select project_id, start_at, minutes, product, network_id from activity
                                 where minutes = 60 and start_at < $1
                                 order by start_at, project_id, product, network_id limit $2)
                             returning 1",
                            values![before, BOUND],
                        )
                        .await?;
                    Ok(Ending::Commit(gone.len() as u64))
                })
            })
            .await
    }
}

/// Adds rows to what is there, in the order of their keys.
async fn add(tx: &mut dyn Tx, rows: BTreeMap<Key, Counts>) -> Result<(), StoreError> {
    let rows: Vec<_> = rows.into_iter().collect();
    for chunk in rows.chunks(CHUNK) {
        let mut values = Vec::new();
        let mut places = Vec::new();
        for (key, counts) in chunk {
            let first = values.len() + 1;
            values.extend_from_slice(values![key.project, key.start, key.minutes, key.product, key.network.as_str()]);
            values.extend(numbers(counts).map(Value::from));
            let own: Vec<_> = (first..=values.len()).map(|number| format!("${number}")).collect();
            places.push(format!("({})", own.join(", ")));
        }
        let sums = COUNTS.map(|count| format!("{count} = activity.{count} + excluded.{count}"));
        let sql = format!(
            "insert into activity (project_id, start_at, minutes, product, network_id, {})
             values {}
             on conflict (project_id, start_at, minutes, product, network_id) do update set {}",
            COUNTS.join(", "),
            places.join(", "),
            sums.join(", ")
        );
        tx.query(sql.into(), &values).await?;
    }
    Ok(())
}

/// Deletes old minutes and gives what they were. Whoever else wants the same ones comes too late for them.
async fn take_minutes(tx: &mut dyn Tx, before: Timestamp) -> Result<Vec<(Key, Counts)>, StoreError> {
    let sql = format!(
        "delete from activity where (project_id, start_at, minutes, product, network_id) in
           (select project_id, start_at, minutes, product, network_id from activity
             where minutes = 1 and start_at < $1
             order by start_at, project_id, product, network_id limit $2)
         returning project_id, start_at, product, network_id, {}",
        COUNTS.join(", ")
    );
    let minute = |row: Row| {
        let mut row = row.of("activity");
        let key = Key {
            project: ProjectId(row.uuid("project_id")?),
            start: row.int("start_at")?,
            minutes: 1,
            product: row.parsed::<Product>("product")?.as_str(),
            network: row.text("network_id")?,
        };
        Ok((key, counts(&mut row)?))
    };
    tx.query(sql.into(), values![before, BOUND]).await?.into_iter().map(minute).collect()
}

/// A project's counts, summed up over periods.
fn statement(project: ProjectId, filter: &ActivityFilter) -> (String, Vec<Value>) {
    let millis = i64::try_from(filter.period.as_millis()).unwrap_or(i64::MAX).max(1);
    let mut values = values![project, filter.from, filter.to].to_vec();
    let mut conditions = vec!["project_id = $1 and start_at >= $2 and start_at < $3".to_owned()];
    if let Some(product) = filter.product {
        values.push(product.as_str().into());
        conditions.push(format!("product = ${}", values.len()));
    }
    if let Some(network) = &filter.network {
        values.push(network.into());
        conditions.push(format!("network_id = ${}", values.len()));
    }
    let sums = COUNTS.map(|count| format!("cast(sum({count}) as bigint)")).join(", ");
    let sql = format!(
        "select start_at / {millis} * {millis}, {sums} from activity where {}
          group by start_at / {millis} * {millis} order by 1",
        conditions.join(" and ")
    );
    (sql, values)
}

fn numbers(counts: &Counts) -> [i64; COUNTS.len()] {
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
    let mut numbers = [0; COUNTS.len()];
    let all = before_latency.into_iter().chain(counts.latency).chain([counts.unresolved_latency]);
    for (place, number) in numbers.iter_mut().zip(all) {
        *place = number;
    }
    numbers
}

fn counts(row: &mut Columns) -> Result<Counts, StoreError> {
    let mut number = |column: usize| row.int(COUNTS[column]);
    Ok(Counts {
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
            let mut latency = Counts::default().latency;
            for (bucket, column) in latency.iter_mut().zip(LATENCY..) {
                *bucket = number(column)?;
            }
            latency
        },
        unresolved_latency: number(COUNTS.len() - 1)?,
    })
}
