//! Detects a full disk.
//!
//! On a full disk, `SQLite` still commits small transactions while the log file has allocated space left. Larger
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

/// Size of the larger probe. Exceeds the size of all common batches.
const PROBE_BYTES: usize = 256 << 10;
/// Size of the small probe, which only tests whether the disk responds.
const SMALL_PROBE_BYTES: usize = 4 << 10;
/// Interval between larger probes, which would wear the disk if they were frequent.
const PROBE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub(super) struct DiskProbe {
    directory: PathBuf,
    /// Time of the last larger probe that succeeded. The running probe holds the lock, so that only one thread waits
    /// for a disk that does not respond.
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

/// Writes a temporary file beside the database, and syncs it to the disk. The file has no name, so the system deletes
/// it when the process ends.
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
