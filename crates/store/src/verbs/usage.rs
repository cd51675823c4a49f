//! The hourly counters.

use std::collections::BTreeMap;

use async_trait::async_trait;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::Status,
    network::NetworkId,
    product::Product,
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{StoreError, UsageCount, UsageFilter, UsageGrouping, UsageRow, UsageStore};

use super::SqlStore;
use crate::{
    driver::{Database, Tx, values},
    row::{Columns, Row},
    rows,
};

/// The key of a counter, in the order that counters are changed in, so that two batches cannot wait for each other.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct CounterKey {
    pub project: ProjectId,
    pub hour: String,
    pub product: &'static str,
    pub status: &'static str,
    /// -1 when there is nothing to match.
    pub matched: i16,
    /// Empty when there is no network.
    pub network: String,
}

impl From<&UsageCount> for CounterKey {
    fn from(count: &UsageCount) -> Self {
        CounterKey {
            project: count.project,
            hour: rows::hour_of(count.at),
            product: count.product.as_str(),
            status: count.status.as_str(),
            matched: count.matched.map_or(-1, i16::from),
            network: count.network.as_ref().map(ToString::to_string).unwrap_or_default(),
        }
    }
}

/// What changes of counters come to: each counter once, in the order of their keys.
pub(crate) fn merged<'a>(
    counts: impl IntoIterator<Item = &'a UsageCount>,
) -> Result<BTreeMap<CounterKey, i64>, StoreError> {
    // Most of them are alike, and a key is dear to make: its hour is text.
    let mut alike = BTreeMap::new();
    for count in counts {
        let UsageCount { project, product, at, status, matched, network, .. } = count;
        let hour = at.as_second().div_euclid(3_600);
        let kind = (project, hour, product.as_str(), status.as_str(), matched, network.as_ref().map(NetworkId::as_str));
        let (_, change) = alike.entry(kind).or_insert((count, 0_i64));
        *change = change.checked_add(count.change).ok_or_else(overflow)?;
    }
    let changed = alike.into_values().filter(|(_, change)| *change != 0);
    Ok(changed.map(|(count, change)| (CounterKey::from(count), change)).collect())
}

pub(crate) fn overflow() -> StoreError {
    StoreError::Refused("a counter would overflow".to_owned())
}

/// The same by day.
pub(crate) fn by_day(hours: &BTreeMap<CounterKey, i64>) -> BTreeMap<CounterKey, i64> {
    let mut days = BTreeMap::new();
    for (key, change) in hours {
        let day = key.hour.get(..10).unwrap_or_default().to_owned();
        *days.entry(CounterKey { hour: day, ..key.clone() }).or_default() += change;
    }
    days
}

macro_rules! change_sql {
    ($table:literal, $period:literal, $rows:literal) => {
        concat!(
            "insert into ",
            $table,
            " (project_id, ",
            $period,
            ", product, status, matched, network_id, count, slot) ",
            $rows,
            " on conflict (project_id, ",
            $period,
            ", product, status, matched, network_id, slot)
              do update set count = ",
            $table,
            ".count + excluded.count"
        )
    };
}
pub(crate) use change_sql;

/// Changes counters in the transaction of what is counted.
pub(crate) async fn change(tx: &mut dyn Tx, counts: &[UsageCount]) -> Result<(), StoreError> {
    let hours = merged(counts)?;
    let days = by_day(&hours);
    for (sql, changes) in [
        (change_sql!("usage_counters", "hour", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), hours),
        (change_sql!("usage_days", "day", "values ($1, $2, $3, $4, $5, $6, $7, 0)"), days),
    ] {
        for (key, change) in changes {
            let matched = i64::from(key.matched);
            tx.run(sql, values![key.project, key.hour, key.product, key.status, matched, key.network, change]).await?;
        }
    }
    Ok(())
}

#[async_trait]
impl<D: Database> UsageStore for SqlStore<D> {
    async fn count(&self, counts: &[UsageCount]) -> Result<(), StoreError> {
        if counts.is_empty() {
            return Ok(());
        }
        self.database.count(counts.to_vec()).await
    }

    async fn usage(&self, workspace: WorkspaceId, filter: UsageFilter) -> Result<Vec<UsageRow>, StoreError> {
        let (from, to) = (first_hour(filter.from), first_hour(filter.to));
        let mut usage = self
            .database
            .read_list(move |tx| {
                Box::pin(async move {
                    let sql = statement(filter.grouping, filter.project.is_some());
                    let mut values = values![workspace, from, to].to_vec();
                    values.extend(filter.project.map(Into::into));
                    tx.query(sql.into(), &values).await?.into_iter().map(usage_row).collect::<Result<Vec<_>, _>>()
                })
            })
            .await?;
        usage.sort_by(|a, b| order(a).cmp(&order(b)));
        Ok(usage)
    }
}

/// Counters of one workspace's projects, summed up over a period.
fn statement(grouping: UsageGrouping, of_one_project: bool) -> String {
    // A period is the beginning of an hour's name.
    let letters = match grouping {
        UsageGrouping::Hour => 13,
        UsageGrouping::Day => 10,
        UsageGrouping::Month => 7,
    };
    let of_project = if of_one_project { "and u.project_id = $4" } else { "" };
    format!(
        "select u.project_id, substr(u.hour, 1, {letters}), u.product, u.status, u.matched, u.network_id,
                cast(sum(u.count) as bigint)
           from usage_counters u join projects p on p.id = u.project_id
          where p.workspace_id = $1 and u.hour >= $2 and u.hour < $3 {of_project}
          group by u.project_id, substr(u.hour, 1, {letters}), u.product, u.status, u.matched, u.network_id
         having sum(u.count) <> 0"
    )
}

/// The name of the first hour that begins at or after an instant.
fn first_hour(at: Timestamp) -> String {
    let hour = SignedDuration::from_hours(1);
    let into_the_hour =
        SignedDuration::from_nanos(i64::try_from(at.as_nanosecond().rem_euclid(hour.as_nanos())).unwrap_or_default());
    let begins = if into_the_hour.is_zero() { at } else { at.saturating_add(hour - into_the_hour).unwrap_or(at) };
    rows::hour_of(begins)
}

fn usage_row(row: Row) -> Result<UsageRow, StoreError> {
    let mut row = row.of("usage_counters");
    Ok(UsageRow {
        project: ProjectId(row.uuid("project_id")?),
        period_start: {
            let period = row.text("hour")?;
            rows::period_start(&period).ok_or_else(|| row.inconsistent("hour", "not an hour"))?
        },
        product: row.parsed("product")?,
        status: status(&mut row)?,
        matched: match row.int("matched")? {
            -1 => None,
            matched => Some(matched == 1),
        },
        network: {
            let network = row.text("network_id")?;
            let parsed = (!network.is_empty()).then(|| network.parse()).transpose();
            parsed.map_err(|problem| row.inconsistent("network_id", problem))?
        },
        count: row.int("count")?,
    })
}

fn status(row: &mut Columns) -> Result<Status, StoreError> {
    let name = row.text("status")?;
    let status = Status::ALL.into_iter().find(|status| status.as_str() == name);
    status.ok_or_else(|| row.inconsistent("status", "not a status"))
}

fn order(row: &UsageRow) -> (Timestamp, ProjectId, Product, Status, Option<bool>, Option<&str>) {
    let network = row.network.as_ref().map(ringtrue_domain::network::NetworkId::as_str);
    (row.period_start, row.project, row.product, row.status, row.matched, network)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn whole_hours_count() {
        for (at, hour) in [
            ("2026-11-15T02:00:00Z", "2026-11-15T02"),
            ("2026-11-15T02:00:00.001Z", "2026-11-15T03"),
            ("2026-12-31T23:59:59Z", "2027-01-01T00"),
        ] {
            assert_eq!(first_hour(at.parse().unwrap()), hour, "{at}");
        }
    }
}
