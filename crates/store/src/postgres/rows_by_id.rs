//! Rows indexed by the UUID in their first column.

use tokio_postgres::Row;
use uuid::Uuid;

use super::batch_queue::BatchError;

/// Sorted by id, which is cheaper than hashing for the size of a batch.
pub(super) struct RowsById<'a>(Vec<(Uuid, &'a Row)>);

impl<'a> RowsById<'a> {
    pub(super) fn index(rows: &'a [Row]) -> Result<Self, BatchError> {
        let mut sorted = Vec::with_capacity(rows.len());
        for row in rows {
            sorted.push((row.try_get(0)?, row));
        }
        sorted.sort_unstable_by_key(|(id, _)| *id);
        Ok(RowsById(sorted))
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&'a Row> {
        let position = self.0.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        self.0.get(position).map(|(_, row)| *row)
    }
}
