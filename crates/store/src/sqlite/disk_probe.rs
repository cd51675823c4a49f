//! Detects a full disk.
//!
//! On a full disk, `SQLite` still commits small transactions while its log has room that was allocated before. Other
//! transactions fail.

use std::{
    io::{self, Write as _},
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ringtrue_engine::ports::store::StoreError;
use tokio::{sync::Mutex, time::Instant};

use super::thread_stopped_error;

/// More than the largest batch that is common.
const PROBE_BYTES: usize = 256 << 10;
/// Enough to find out whether the disk responds.
const SMALL_PROBE_BYTES: usize = 4 << 10;
/// Interval of the larger writes, which wear the disk.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct DiskProbe {
    directory: PathBuf,
    /// Time of the last larger write that succeeded. Locked by the running probe: on a disk that does not respond, only
    /// one thread waits.
    succeeded_at: Arc<Mutex<Option<Instant>>>,
}

impl DiskProbe {
    pub(super) fn new(directory: PathBuf) -> Self {
        DiskProbe { directory, succeeded_at: Arc::default() }
    }

    pub(super) async fn run(&self) -> Result<(), StoreError> {
        let mut succeeded_at = Arc::clone(&self.succeeded_at).lock_owned().await;
        let directory = self.directory.clone();
        let probe = tokio::task::spawn_blocking(move || {
            let is_recent = succeeded_at.is_some_and(|at| at.elapsed() < PROBE_INTERVAL);
            let written = write_to_disk(&directory, if is_recent { SMALL_PROBE_BYTES } else { PROBE_BYTES });
            *succeeded_at = match &written {
                Ok(()) if is_recent => *succeeded_at,
                Ok(()) => Some(Instant::now()),
                Err(_) => None,
            };
            written
        });
        probe.await.map_err(|_| thread_stopped_error())?
    }
}

/// Writes a temporary file beside the database, and waits until it is on the disk. The file has no name, so it does not
/// outlive the process.
fn write_to_disk(directory: &Path, bytes: usize) -> Result<(), StoreError> {
    let write = || -> io::Result<()> {
        let mut file = tempfile::tempfile_in(directory)?;
        file.write_all(&vec![0xA5; bytes])?;
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
