//! Detects a full disk.
//!
//! On a full disk, `SQLite` still commits small transactions while its log has room that was allocated before. Other
//! transactions fail.

use std::{
    io::{self, Write as _},
    path::Path,
};

use ringtrue_engine::ports::store::StoreError;

/// More than the largest batch that is common.
const PROBE_BYTES: usize = 256 << 10;

/// Writes a temporary file beside the database, and waits until it is on the disk. The file has no name, so it does not
/// outlive the process.
pub(super) fn write_to_disk(directory: &Path) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = tempfile::tempfile_in(directory)?;
        file.write_all(&vec![0xA5; PROBE_BYTES])?;
        file.sync_data()
    };
    write().map_err(|error| {
        let reason = match error.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => "disk full",
            _ => "cannot write to the directory of the database",
        };
        StoreError::Unavailable(format!("{reason} ({error})"))
    })
}
