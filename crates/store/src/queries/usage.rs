//! Stores hourly and daily usage counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckStatus, ShardBucket},
    network::NetworkId,
    product::Product,
    silent::SilentWay,
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    activity::{UsageDelta, UsageFilter, UsagePeriod, UsageRow, UsageStore},
    store::StoreError,
};

use super::SqlStore;
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, Value, values},
    row_mapping,
};

/// Key of a counter. Counters are updated in the order of their keys, so that batches cannot deadlock.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CounterKey {
    pub project: ProjectId,
    pub hour: String,
    pub product: &'static str,
    pub status: &'static str,
    /// 1: match, 0: no match, -1: no verdict.
    pub matched: i16,
    /// Id of the network. Empty for checks whose network is unknown.
    pub network: String,
    /// Name of the way of a silent check. Empty without one.
    pub via: &'static str,
}

impl From<&UsageDelta> for CounterKey {
    fn from(count: &UsageDelta) -> Self {
        CounterKey {
            project: count.project,
            hour: row_mapping::format_hour(count.at),
            product: count.product.into_str(),
            status: count.status.into_str(),
            matched: count.matched.map_or(-1, i16::from),
            network: count.network.as_ref().map(ToString::to_string).unwrap_or_default(),
            via: count.via.map_or("", |way| way.into_str()),
        }
    }
}

/// Adds up the changes of each counter.
pub(crate) fn merge_counts<'a>(
    counts: impl IntoIterator<Item = &'a UsageDelta>,
) -> Result<BTreeMap<CounterKey, i64>, StoreError> {
    // Groups by cheaper keys first. Most changes have the same key, and a `CounterKey` is expensive, because it formats
    // the hour.
    let mut grouped = BTreeMap::new();
    for count in counts {
        let UsageDelta { project, product, at, status, matched, network, via, .. } = count;
        let hour = at.as_second().div_euclid(3_600);
        let network = network.as_ref().map(NetworkId::as_str);
        let group = (project, hour, product.into_str(), status.into_str(), matched, network, via);
        let (_, change) = grouped.entry(group).or_insert((count, 0_i64));
        *change = change.checked_add(count.delta).ok_or_else(overflow_error)?;
    }
    let changed = grouped.into_values().filter(|(_, change)| *change != 0);
    Ok(changed.map(|(count, change)| (CounterKey::from(count), change)).collect())
}

pub(crate) fn overflow_error() -> StoreError {
    StoreError::Refused("counter overflow".to_owned())
}

pub(crate) fn roll_up_to_days(hours: &BTreeMap<CounterKey, i64>) -> BTreeMap<CounterKey, i64> {
    let mut days = BTreeMap::new();
    for (key, change) in hours {
        let day = key.hour.get(..10).unwrap_or_default().to_owned();
        *days.entry(CounterKey { hour: day, ..key.clone() }).or_default() += change;
    }
    days
}

/// `$bucket` is `", bucket"`, or empty in a database without buckets.
macro_rules! upsert_counters_sql {
    ($table:literal, $period:literal, $bucket:literal, $rows:literal) => {
        concat!(
            "insert into ",
            $table,
            " as held (project_id, ",
            $period,
            ", product, status, matched, network_id, via, count",
            $bucket,
            ", slot) ",
            $rows,
            " on conflict (project_id, ",
            $period,
            ", product, status, matched, network_id, via, slot",
            $bucket,
            ") do update set count = held.count + excluded.count"
        )
    };
}
pub(crate) use upsert_counters_sql;

/// Statements that change one counter, of an hour and of a day.
const UPSERT_WITH_BUCKET_SQL: [&str; 2] = [
    upsert_counters_sql!("usage_counters", "hour", ", bucket", "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
    upsert_counters_sql!("usage_days", "day", ", bucket", "values ($1, $2, $3, $4, $5, $6, $7, $8, $9, $10)"),
];
/// A database without buckets has one writer, so one slot is enough.
const UPSERT_WITHOUT_BUCKET_SQL: [&str; 2] = [
    upsert_counters_sql!("usage_counters", "hour", "", "values ($1, $2, $3, $4, $5, $6, $7, $8, 0)"),
    upsert_counters_sql!("usage_days", "day", "", "values ($1, $2, $3, $4, $5, $6, $7, $8, 0)"),
];

/// Returns the statements that update the hourly and daily counters of a database without buckets, with their
/// parameters.
pub(crate) fn upsert_counters(counts: &[UsageDelta]) -> Result<Vec<(&'static str, Vec<Value>)>, StoreError> {
    upserts(UPSERT_WITHOUT_BUCKET_SQL, counts, |_| Vec::new())
}

/// `place` returns the last values of a row: its bucket and its slot, if the database has buckets.
fn upserts(
    [hour_sql, day_sql]: [&'static str; 2],
    counts: &[UsageDelta],
    place: impl Fn(ProjectId) -> Vec<Value>,
) -> Result<Vec<(&'static str, Vec<Value>)>, StoreError> {
    let hours = merge_counts(counts)?;
    let days = roll_up_to_days(&hours);
    let values = |(key, change): (CounterKey, i64)| {
        let place = place(key.project);
        let CounterKey { project, hour, product, status, matched, network, via } = key;
        let mut values = values![project, hour, product, status, i64::from(matched), network, via, change].to_vec();
        values.extend(place);
        values
    };
    let hours = hours.into_iter().map(|change| (hour_sql, values(change)));
    Ok(hours.chain(days.into_iter().map(|change| (day_sql, values(change)))).collect())
}

/// The bucket of a project's counters in a database with one server, or with one that all statements go through.
pub(crate) fn project_bucket(project: ProjectId) -> ShardBucket {
    let [.., high, low] = *project.0.as_bytes();
    ShardBucket::of([high, low])
}

/// Updates counters in the same transaction as the change that they count, in the bucket of the transaction's server.
pub(crate) async fn apply_changes<D: Database>(tx: &mut dyn Tx, counts: &[UsageDelta]) -> Result<(), StoreError> {
    let (own, slot) = (tx.counter_bucket(), tx.counter_slot());
    let upserts = if D::HAS_BUCKETS {
        upserts(UPSERT_WITH_BUCKET_SQL, counts, |project| {
            let bucket = own.unwrap_or_else(|| project_bucket(project));
            values![i64::from(bucket.number()), i64::from(slot)].to_vec()
        })?
    } else {
        upsert_counters(counts)?
    };
    // Together, because other transactions wait for the locked rows.
    tx.run_all(&upserts).await
}

#[async_trait]
impl<D: Database> UsageStore for SqlStore<D> {
    async fn add_usage(&self, counts: &[UsageDelta]) -> Result<(), StoreError> {
        let counts = counts.to_vec();
        self.transact(work!(|tx| apply_changes::<D>(tx, &counts).await.map(TransactionEnd::Commit))).await
    }

    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError> {
        let (from, to) = (first_full_hour(filter.from), first_full_hour(filter.to));
        let sql = usage_sql(filter.period, filter.project.is_some());
        let mut values = values![workspace, from, to].to_vec();
        values.extend(filter.project.map(Into::into));
        let rows = self.read_for_list(workspace, work!(|tx| tx.query(sql.into(), &values).await)).await?;
        let mut usage = rows.into_iter().map(usage_row_from_row).collect::<Result<Vec<_>, _>>()?;
        usage.sort_by(|a, b| sort_key(a).cmp(&sort_key(b)));
        Ok(usage)
    }
}

/// Returns the query that sums up the counters of a workspace's projects by period.
fn usage_sql(period: UsagePeriod, has_project: bool) -> String {
    // The name of a day or month is a prefix of the names of its hours.
    let prefix_length = match period {
        UsagePeriod::Hour => 13,
        UsagePeriod::Day => 10,
        UsagePeriod::Month => 7,
    };
    let project_condition = if has_project { "and u.project_id = $4" } else { "" };
    format!(
        "select u.project_id, substr(u.hour, 1, {prefix_length}), u.product, u.status, u.matched, u.network_id, u.via,
                cast(sum(u.count) as bigint)
           from usage_counters u join projects p on p.id = u.project_id
          where p.workspace_id = $1 and u.hour >= $2 and u.hour < $3 {project_condition}
          group by u.project_id, substr(u.hour, 1, {prefix_length}), u.product, u.status, u.matched, u.network_id, u.via
         having sum(u.count) <> 0"
    )
}

/// Returns the name of the first hour that starts at or after an instant.
fn first_full_hour(at: Timestamp) -> String {
    let hour = SignedDuration::from_hours(1);
    let since_hour_start =
        SignedDuration::from_nanos(i64::try_from(at.as_nanosecond().rem_euclid(hour.as_nanos())).unwrap_or_default());
    let start = if since_hour_start.is_zero() { at } else { at.saturating_add(hour - since_hour_start).unwrap_or(at) };
    row_mapping::format_hour(start)
}

fn usage_row_from_row(row: Row) -> Result<UsageRow, StoreError> {
    let mut row = row.reader("usage_counters");
    Ok(UsageRow {
        project: ProjectId(row.uuid("project_id")?),
        period_start: {
            let period = row.text("hour")?;
            row_mapping::parse_period_start(&period).ok_or_else(|| row.corrupt("hour", "not a period"))?
        },
        product: row.parsed("product")?,
        status: row.parsed("status")?,
        matched: match row.int("matched")? {
            -1 => None,
            matched => Some(matched == 1),
        },
        network: {
            let network = row.text("network_id")?;
            let parsed = (!network.is_empty()).then(|| network.parse()).transpose();
            parsed.map_err(|problem| row.corrupt("network_id", problem))?
        },
        via: {
            let via = row.text("via")?;
            let parsed = (!via.is_empty()).then(|| via.parse()).transpose();
            parsed.map_err(|problem| row.corrupt("via", problem))?
        },
        count: row.int("count")?,
    })
}

type SortKey<'r> = (Timestamp, ProjectId, Product, CheckStatus, Option<bool>, Option<&'r str>, Option<SilentWay>);

fn sort_key(row: &UsageRow) -> SortKey<'_> {
    let network = row.network.as_ref().map(ringtrue_domain::network::NetworkId::as_str);
    (row.period_start, row.project, row.product, row.status, row.matched, network, row.via)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn partial_hours_are_rounded_up() {
        for (at, hour) in [
            ("2026-11-15T02:00:00Z", "2026-11-15T02"),
            ("2026-11-15T02:00:00.001Z", "2026-11-15T03"),
            ("2026-12-31T23:59:59Z", "2027-01-01T00"),
        ] {
            assert_eq!(first_full_hour(at.parse().unwrap()), hour, "{at}");
        }
    }
}
