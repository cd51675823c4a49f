//! The checks of a batch that have ended when they come: rows that go in many at a time.
//!
//! A statement for each would cost as much to begin and to end as the row does.

use std::sync::LazyLock;

use ringtrue_domain::lifecycle::{ErrorCode, Reference};
use ringtrue_engine::ports::StoreError;
use rusqlite::{Connection, params_from_iter};
use uuid::Uuid;

use super::error::store_error;
use crate::driver::{NewEnded, Value};

const COLUMNS: usize = 14;
/// How many rows one statement takes, the largest first.
static INSERTS: LazyLock<[(usize, String); 3]> = LazyLock::new(|| [32, 8, 1].map(|rows| (rows, insert(rows))));

fn insert(rows: usize) -> String {
    let row = format!("({})", ["?"; COLUMNS].join(", "));
    format!(
        "insert into checks (id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, reference_id, swap_covered, swap_within)
         values {}",
        vec![row; rows].join(", ")
    )
}

/// Rows for `checks`. Nobody looks for them before they are written: their ids are told with the answer.
#[derive(Debug, Default)]
pub(super) struct EndedChecks(Vec<[Value; COLUMNS]>);

impl EndedChecks {
    pub(super) fn add(&mut self, new: &NewEnded) {
        let NewEnded { check, ending, .. } = new;
        let swap = new.swap();
        self.0.push([
            check.id.into(),
            check.project.into(),
            check.created_at.into(),
            check.expires_at.into(),
            ending.at().into(),
            check.product.as_str().into(),
            check.mode.as_str().into(),
            ending.status().as_str().into(),
            ending.matched().into(),
            ending.error_code().map(ErrorCode::as_str).into(),
            check.network.as_ref().into(),
            check.reference.as_ref().map(Reference::as_str).into(),
            swap.map(|swap| i64::from(swap.covered)).into(),
            swap.and_then(|swap| swap.change_within).map(i64::from).into(),
        ]);
    }

    pub(super) fn len(&self) -> usize {
        self.0.len()
    }

    pub(super) fn truncate(&mut self, len: usize) {
        self.0.truncate(len);
    }

    pub(super) fn write(mut self, connection: &Connection) -> Result<(), StoreError> {
        // In the order of their ids, each is put behind the last.
        self.0.sort_unstable_by_key(|row| if let Value::Uuid(id) = row[0] { id } else { Uuid::nil() });
        let mut rest = &self.0[..];
        for (rows, sql) in &*INSERTS {
            while let Some((now, later)) = rest.split_at_checked(*rows) {
                let mut statement = connection.prepare_cached(sql).map_err(|error| store_error(&error))?;
                let written = statement.execute(params_from_iter(now.iter().flatten()));
                written.map_err(|error| store_error(&error))?;
                rest = later;
            }
        }
        Ok(())
    }
}
