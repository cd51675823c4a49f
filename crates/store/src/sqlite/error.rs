//! Which of `SQLite`'s errors pass by themselves.

use ringtrue_engine::ports::StoreError;
use rusqlite::ErrorCode;

pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let Some(code) = error.sqlite_error_code() else { return StoreError::Refused(error.to_string()) };
    let away = |why: &str| StoreError::Unavailable(format!("{why} ({error})"));
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            away("another process is writing to the file")
        }
        ErrorCode::DiskFull => away("the disk is full"),
        ErrorCode::ReadOnly => away("the file cannot be written to"),
        ErrorCode::SystemIoFailure => away("the disk fails"),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => away("the file cannot be opened"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => away("the file is damaged"),
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => {
            away("the operation was broken off")
        }
        _ => StoreError::Refused(error.to_string()),
    }
}
