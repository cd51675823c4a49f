//! Deletes old checks, with all rows that belong to them.
//!
//! A deletion first moves the retention boundary in `check_retention`. From then on, lists neither show nor count
//! checks before the boundary. The rows are then deleted in small transactions. The usage counters are kept, because
//! usage is kept longer than checks.
//!
//! Where tables are partitioned by month, the boundary is the first day of a month, and the partitions before it are
//! dropped.

use std::time::{Duration, Instant};

use jiff::{Timestamp, tz::TimeZone};
use ringtrue_engine::ports::{node::DeletedChecks, store::StoreError};
use uuid::Uuid;

use super::{SqlStore, placeholders};
use crate::{
    driver::{Database, TransactionEnd, Tx, work},
    row::{Row, Value, values},
    time_span::Span,
};

/// Maximum number of checks that one statement deletes.
const MAX_CHUNK: u32 = 500;
/// Each chunk of deletions is sized to take at most a tenth of the transaction's time limit, judging by the cost of the
/// previous chunk. If the cost of a check rises tenfold, the transaction therefore takes less than twice its time
/// limit.
const CHUNKS_PER_TRANSACTION: u32 = 10;

/// Maximum number of pending erasures that one transaction examines.
const MAX_ERASURES: i64 = 1_000;

const MOVE_RETENTION_BOUNDARY_SQL: &str =
    "update check_retention set deleted_before = $1 where id = 1 and deleted_before < $1";

impl<D: Database> SqlStore<D> {
    /// See [`HousekeepingStore::delete_old_checks`](ringtrue_engine::ports::node::HousekeepingStore::delete_old_checks).
    pub(super) async fn delete_checks_before(
        &self,
        before: Timestamp,
        max_duration: Duration,
    ) -> Result<DeletedChecks, StoreError> {
        let skip_locked = self.database.skip_locked_sql();
        let before = match D::DROP_PARTITIONS_SQL {
            None => before,
            // A partition can be dropped only as a whole, so the boundary is rounded to a month.
            Some(drop) => {
                let month = first_of_month(before);
                // The boundary is committed before the drop, so that no list counts the checks of a dropped partition.
                self.execute(MOVE_RETENTION_BOUNDARY_SQL, values![month]).await?;
                self.execute(drop, values![month]).await?;
                month
            }
        };
        let deleted = self
            .transact(work!(|tx| {
                let started = Instant::now();
                let elapsed = || started.elapsed();
                let deleted = delete_checks::<D>(tx, skip_locked, before, max_duration, &elapsed).await?;
                if D::DROP_PARTITIONS_SQL.is_some() {
                    delete_orphaned_erasures(tx, end_id(before)).await?;
                }
                Ok(TransactionEnd::Commit(deleted))
            }))
            .await?;
        if deleted.deleted_rows > 0 {
            self.database.checkpoint().await?;
        }
        Ok(deleted)
    }
}

/// Returns the smallest possible id of a check that was created at `before` or later.
fn end_id(before: Timestamp) -> Uuid {
    Span::before(before.as_millisecond()).end_id()
}

fn first_of_month(at: Timestamp) -> Timestamp {
    let month = at.to_zoned(TimeZone::UTC).first_of_month();
    month.and_then(|month| month.start_of_day()).map_or(at, |start| start.timestamp())
}

/// Moves the retention boundary, and deletes checks until none is left or the time is up. `elapsed` returns the
/// duration of the transaction so far.
async fn delete_checks<D: Database>(
    tx: &mut dyn Tx,
    skip_locked: &str,
    before: Timestamp,
    max_duration: Duration,
    elapsed: &(dyn Fn() -> Duration + Sync),
) -> Result<DeletedChecks, StoreError> {
    tx.run(MOVE_RETENTION_BOUNDARY_SQL, values![before]).await?;
    let (end, mut sizer) = (end_id(before), ChunkSizer::new(max_duration));
    let mut deleted_rows = 0;
    while let Some(size) = sizer.next_chunk_size(elapsed()) {
        let chunk = delete_chunk::<D>(tx, skip_locked, end, size).await?;
        deleted_rows += chunk.deleted;
        if chunk.selected < size {
            return Ok(DeletedChecks { deleted_rows, is_complete: true });
        }
    }
    Ok(DeletedChecks { deleted_rows, is_complete: false })
}

/// Numbers of checks that a chunk has selected and deleted.
struct ChunkCounts {
    selected: u32,
    /// Less than `selected` if another node deletes the same checks: not all databases can skip locked rows.
    deleted: u64,
}

/// Deletes up to `size` concluded checks, oldest first.
///
/// Checks that are open, or whose callback is still waiting, are not deleted. Writes the tables in the same order as
/// batches do, so that the two cannot deadlock.
async fn delete_chunk<D: Database>(
    tx: &mut dyn Tx,
    skip_locked: &str,
    end: Uuid,
    size: u32,
) -> Result<ChunkCounts, StoreError> {
    let select = format!(
        "select id from checks
          where id < $1 and concluded_at is not null
            and not exists (select 1 from callbacks where check_id = checks.id {} and state = 'waiting')
          order by id limit $2 {skip_locked}",
        D::same_bucket_condition("callbacks", "checks")
    );
    let rows = tx.query(select.into(), values![end, i64::from(size)]).await?;
    let ids: Vec<_> = ids_of(rows)?.into_iter().map(Value::from).collect();
    if ids.is_empty() {
        return Ok(ChunkCounts { selected: 0, deleted: 0 });
    }
    let ids_sql = placeholders(1, ids.len());
    let deleted = tx.query(format!("delete from checks where id in ({ids_sql}) returning id").into(), &ids).await?;
    for table in ["callbacks", "callback_attempts", "verifications", "erasures"] {
        tx.query(format!("delete from {table} where check_id in ({ids_sql})").into(), &ids).await?;
    }
    Ok(ChunkCounts { selected: u32::try_from(ids.len()).unwrap_or(size), deleted: deleted.len() as u64 })
}

/// Deletes pending erasures whose checks were dropped with their partition.
async fn delete_orphaned_erasures(tx: &mut dyn Tx, end: Uuid) -> Result<(), StoreError> {
    let select = "select check_id as id from erasures where check_id < $1 order by check_id limit $2";
    let mut orphans = ids_of(tx.run(select, values![end, MAX_ERASURES]).await?)?;
    let in_sql = |ids: &[Uuid]| format!("in ({})", placeholders(1, ids.len()));
    let values = |ids: &[Uuid]| ids.iter().copied().map(Value::from).collect::<Vec<_>>();
    if orphans.is_empty() {
        return Ok(());
    }
    let select = format!("select id from checks where id {}", in_sql(&orphans));
    let stored = ids_of(tx.query(select.into(), &values(&orphans)).await?)?;
    orphans.retain(|id| !stored.contains(id));
    if !orphans.is_empty() {
        let delete = format!("delete from erasures where check_id {}", in_sql(&orphans));
        tx.query(delete.into(), &values(&orphans)).await?;
    }
    Ok(())
}

fn ids_of(rows: Vec<Row>) -> Result<Vec<Uuid>, StoreError> {
    rows.into_iter().map(|row| row.reader("checks").uuid("id")).collect()
}

/// Chooses how many checks a transaction deletes next, so that the transaction ends in time. The cost of a check
/// varies: its rows may be in the cache, or need many reads from a slow disk.
#[derive(Debug)]
struct ChunkSizer {
    max_duration: Duration,
    /// Size of the last chunk, and the elapsed time at which it began.
    last: Option<(u32, Duration)>,
}

impl ChunkSizer {
    fn new(max_duration: Duration) -> Self {
        ChunkSizer { max_duration, last: None }
    }

    /// Returns the size of the next chunk. `None`: the transaction should end. `elapsed` is the duration of the
    /// transaction so far. The first chunk is a single check, which measures the cost. Each chunk is at most twice as
    /// large as the one before.
    fn next_chunk_size(&mut self, elapsed: Duration) -> Option<u32> {
        let size = match self.last {
            None => 1,
            Some((last, began)) => {
                let left = self.max_duration.checked_sub(elapsed)?.as_nanos();
                let slice = (self.max_duration / CHUNKS_PER_TRANSACTION).as_nanos();
                let cost = (elapsed.saturating_sub(began).as_nanos() / u128::from(last)).max(1);
                let affordable = (left.min(slice) / cost).max(u128::from(left >= cost));
                u32::try_from(affordable).unwrap_or(MAX_CHUNK).min(last * 2).min(MAX_CHUNK)
            }
        };
        self.last = Some((size, elapsed));
        (size > 0).then_some(size)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const LIMIT: Duration = Duration::from_millis(10);

    /// Simulates a transaction with a manual clock. Returns its duration and the number of deleted checks.
    fn transaction(cost_of_check: impl Fn(u32) -> Duration) -> (Duration, u32) {
        let (mut now, mut checks, mut sizer) = (Duration::ZERO, 0, ChunkSizer::new(LIMIT));
        while let Some(size) = sizer.next_chunk_size(now) {
            now += (checks..checks + size).map(&cost_of_check).sum::<Duration>();
            checks += size;
        }
        (now, checks)
    }

    #[test]
    fn number_of_checks_follows_their_cost() {
        for (micros, expected) in [(10, 900..=1_000), (100, 90..=100), (1_000, 9..=10), (4_000, 2..=2)] {
            let (duration, checks) = transaction(|_| Duration::from_micros(micros));
            assert!(duration <= LIMIT, "{micros} µs: {duration:?}");
            assert!(expected.contains(&checks), "{micros} µs: {checks}");
        }
    }

    #[test]
    fn transaction_ends_in_time_when_the_cost_rises() {
        // The first checks are in the cache, the others on the disk.
        for cached in 0..250 {
            let (duration, checks) = transaction(|check| Duration::from_micros(if check < cached { 40 } else { 400 }));
            assert!(duration <= LIMIT * 2, "{cached}: {duration:?}");
            assert!(checks >= 20, "{cached}: {checks}");
        }
        // The first check of a transaction takes longer: it reads pages that the other checks then find in the cache.
        let (duration, checks) = transaction(|check| Duration::from_micros(if check == 0 { 5_000 } else { 20 }));
        assert!(duration <= LIMIT && checks > 100, "{duration:?}, {checks}");
    }

    #[test]
    fn every_transaction_deletes_something() {
        let (_, checks) = transaction(|_| LIMIT * 100);
        assert_eq!(checks, 1);
        let mut sizer = ChunkSizer::new(Duration::ZERO);
        assert_eq!(sizer.next_chunk_size(Duration::from_secs(1)), Some(1));
        assert_eq!(sizer.next_chunk_size(Duration::from_secs(2)), None);
    }
}
