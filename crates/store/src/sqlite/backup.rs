//! Backs up a `SQLite` file while servers use it.
//!
//! The backup reads one snapshot in a read transaction. In WAL mode, the readers and the writer of the source do not
//! wait for it. The transaction stays open to keep the snapshot: without it, every commit of a running server would
//! restart the backup. The write-ahead log of the source grows until the backup ends.

use std::{fs::File, io, path::Path};

use rusqlite::{
    Connection,
    backup::{Backup, StepResult},
};

use super::{
    connection::{Access, open, store_error},
    schema::select_applied,
};
use crate::{BackupError, BackupProgress};

/// Number of pages that are copied between two progress reports: four megabytes.
const PAGES_PER_STEP: i32 = 1_024;

/// Copies the database to a new file, which gets its final name only when it is complete. Returns the size of the file
/// in bytes.
pub(crate) fn back_up(
    source: &Path,
    target: &Path,
    report: &mut dyn FnMut(BackupProgress),
) -> Result<u64, BackupError> {
    let file_error = |error: io::Error| BackupError::File { path: target.to_owned(), error };
    let database_error = |error: rusqlite::Error| BackupError::Store(store_error(&error));
    if !source.try_exists().is_ok_and(|exists| exists) {
        return Err(BackupError::Empty);
    }
    if target.try_exists().map_err(file_error)? {
        return Err(BackupError::Exists { path: target.to_owned() });
    }
    let source = open(source, Access::Read)?;
    source.execute_batch("begin").map_err(database_error)?;
    if select_applied(&source).map_err(database_error)?.migrations.is_empty() {
        return Err(BackupError::Empty);
    }

    let folder = match target.parent() {
        Some(folder) if !folder.as_os_str().is_empty() => folder,
        _ => Path::new("."),
    };
    // A temporary file is readable only by its owner.
    let copy = tempfile::Builder::new().prefix(".ringtrue-backup-").tempfile_in(folder).map_err(file_error)?;
    let mut connection = Connection::open(copy.path()).map_err(database_error)?;
    let backup = Backup::new(&source, &mut connection).map_err(database_error)?;
    loop {
        match backup.step(PAGES_PER_STEP).map_err(database_error)? {
            StepResult::Done => break,
            StepResult::Busy | StepResult::Locked => return Err(BackupError::Locked),
            // `StepResult::More`. A wildcard, because the enum is not exhaustive.
            _ => {
                let progress = backup.progress();
                let pages = |count: i32| u64::try_from(count).unwrap_or(0);
                report(BackupProgress {
                    copied_pages: pages(progress.pagecount) - pages(progress.remaining),
                    total_pages: pages(progress.pagecount),
                });
            }
        }
    }
    drop(backup);
    connection.close().map_err(|(_, error)| database_error(error))?;
    copy.as_file().sync_all().map_err(file_error)?;
    let bytes = copy.as_file().metadata().map_err(file_error)?.len();
    copy.persist_noclobber(target).map_err(|error| match error.error.kind() {
        io::ErrorKind::AlreadyExists => BackupError::Exists { path: target.to_owned() },
        _ => file_error(error.error),
    })?;
    // Syncs the directory, so that the file's name is durable too.
    File::open(folder).and_then(|folder| folder.sync_all()).map_err(file_error)?;
    Ok(bytes)
}
