//! Rows by the id that each begins with.

use tokio_postgres::Row;
use uuid::Uuid;

use super::lane::BatchError;

/// In the order of their ids: for as few as there are in a batch that is cheaper than hashing.
pub(super) struct RowsById<'a>(Vec<(Uuid, &'a Row)>);

impl<'a> RowsById<'a> {
    pub(super) fn of(rows: &'a [Row]) -> Result<Self, BatchError> {
        let mut sorted = Vec::with_capacity(rows.len());
        for row in rows {
            sorted.push((row.try_get(0)?, row));
        }
        sorted.sort_unstable_by_key(|(id, _)| *id);
        Ok(RowsById(sorted))
    }

    pub(super) fn get(&self, id: Uuid) -> Option<&'a Row> {
        let place = self.0.binary_search_by_key(&id, |(known, _)| *known).ok()?;
        self.0.get(place).map(|(_, row)| *row)
    }
}
