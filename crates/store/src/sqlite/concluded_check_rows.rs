//! Inserts checks that are concluded on creation, together at the end of a batch.

use std::sync::LazyLock;

use ringtrue_domain::lifecycle::Reference;
use ringtrue_engine::ports::store::StoreError;
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;

use super::connection::store_error;
use crate::{operation::InsertCheck, row::Value};

const CONCLUDED_COLUMN_COUNT: usize = 14;
/// Insert statements with their number of rows, largest first.
static INSERTS: LazyLock<[(usize, String); 3]> = LazyLock::new(|| [32, 8, 1].map(|rows| (rows, insert_sql(rows))));

fn insert_sql(rows: usize) -> String {
    let row = format!("({})", ["?"; CONCLUDED_COLUMN_COUNT].join(", "));
    format!(
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, reference_id, swap_covered, swap_within)
         values {}",
        vec![row; rows].join(", ")
    )
}

/// Rows of `checks` for checks that are concluded on creation. They are collected and inserted with few statements,
/// because the overhead of a statement is as large as the insert of a row. The delay is safe: callers get the ids only
/// after the commit.
#[derive(Debug, Default)]
pub(super) struct ConcludedCheckRows(Vec<[Value; CONCLUDED_COLUMN_COUNT]>);

impl ConcludedCheckRows {
    pub(super) fn add(&mut self, new: &InsertCheck) {
        let new = new.row();
        let (check, swap) = (new.check, new.sim_swap());
        self.0.push([
            check.id.into(),
            check.project.into(),
            check.created_at.into(),
            check.expires_at.into(),
            new.concluded_at().into(),
            check.product.into_str().into(),
            check.mode.into_str().into(),
            check.status().into_str().into(),
            new.matched().into(),
            new.error_code().into(),
            check.network.as_ref().into(),
            check.reference.as_ref().map(Reference::as_str).into(),
            swap.map(|swap| i64::from(swap.covered_minutes)).into(),
            swap.and_then(|swap| swap.changed_within_minutes).map(i64::from).into(),
        ]);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(super) fn write(mut self, connection: &Connection) -> Result<(), StoreError> {
        // Inserting in ascending order of ids appends to the table's B-tree.
        self.0.sort_unstable_by_key(|row| if let Value::Uuid(id) = row[0] { id } else { Uuid::nil() });
        let mut rest = &self.0[..];
        for (rows, sql) in &*INSERTS {
            while let Some((chunk, remainder)) = rest.split_at_checked(*rows) {
                let mut statement = connection.prepare_cached(sql).map_err(|error| store_error(&error))?;
                let written = statement.execute(params_from_iter(chunk.iter().flatten()));
                written.map_err(|error| store_error(&error))?;
                rest = remainder;
            }
        }
        Ok(())
    }
}
