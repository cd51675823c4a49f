//! Maps `SQLite` errors to temporary (`Unavailable`) and permanent (`Refused`) store errors.

use ringtrue_engine::ports::StoreError;
use rusqlite::ErrorCode;

pub(super) fn store_error(error: &rusqlite::Error) -> StoreError {
    let Some(code) = error.sqlite_error_code() else { return StoreError::Refused(error.to_string()) };
    let unavailable = |why: &str| StoreError::Unavailable(format!("{why} ({error})"));
    match code {
        ErrorCode::DatabaseBusy | ErrorCode::DatabaseLocked | ErrorCode::FileLockingProtocolFailed => {
            unavailable("database locked by another process")
        }
        ErrorCode::DiskFull => unavailable("disk full"),
        ErrorCode::ReadOnly => unavailable("database file cannot be written"),
        ErrorCode::SystemIoFailure => unavailable("disk I/O error"),
        ErrorCode::CannotOpen | ErrorCode::PermissionDenied => unavailable("cannot open the database file"),
        ErrorCode::DatabaseCorrupt | ErrorCode::NotADatabase => unavailable("database file is corrupt"),
        ErrorCode::OutOfMemory | ErrorCode::OperationInterrupted | ErrorCode::OperationAborted => {
            unavailable("operation interrupted")
        }
        _ => StoreError::Refused(error.to_string()),
    }
}
