//! Tests failures of the database file and of jobs in the writer, which the contract tests cannot cause through the
//! ports.

use futures_util::future::join_all;
use ringtrue_engine::ports::store::StoreError;
use tempfile::TempDir;

use super::{
    Sqlite,
    batch_transaction::{BatchTransaction, WriteOp},
};
use crate::{
    StoreOptions,
    driver::{Database, TransactionEnd, work},
    operation::{Operation, Run},
    queries::privacy::select_erasable,
    row::values,
};

async fn open_fresh() -> (TempDir, Sqlite) {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ringtrue.db");
    super::migrate(path.clone(), jiff::Timestamp::UNIX_EPOCH).await.unwrap();
    (directory, Sqlite::open(&path, &StoreOptions::default()).await.unwrap())
}

/// Runs one statement on the writer thread.
async fn write(sqlite: &Sqlite, sql: &'static str, value: Option<i64>) -> Result<(), StoreError> {
    sqlite
        .transact(work!(|tx| {
            match value {
                None => tx.run(sql, &[]).await?,
                Some(value) => tx.run(sql, values![value]).await?,
            };
            Ok(TransactionEnd::Commit(()))
        }))
        .await
}

async fn numbers(sqlite: &Sqlite) -> Vec<i64> {
    let rows = sqlite.read(work!(|tx| tx.run("select n from numbers order by n", &[]).await));
    rows.await.unwrap().into_iter().map(|row| row.into_int().unwrap()).collect()
}

#[tokio::test]
async fn failed_transaction_leaves_rest_of_batch() {
    let (_directory, sqlite) = open_fresh().await;
    write(&sqlite, "create table numbers (n integer primary key check (n >= 0)) strict", None).await.unwrap();
    let put = |number| write(&sqlite, "insert into numbers (n) values ($1)", Some(number));
    let results = join_all([1, -1, 2, 2, 3].map(put)).await;
    let succeeded: Vec<_> = results.iter().map(Result::is_ok).collect();
    assert_eq!(succeeded, [true, false, true, false, true], "{results:?}");
    assert_eq!(numbers(&sqlite).await, [1, 2, 3]);
}

/// A write op that writes a number, and then ends in the given way.
struct Put(i64, PutEnd);

#[derive(Clone, Copy)]
enum PutEnd {
    Commit,
    Rollback,
    Error,
    Panic,
}

impl Operation for Put {
    type Output = bool;
}

impl WriteOp for Put {
    fn run(&self, tx: &mut BatchTransaction<'_>) -> Result<TransactionEnd<bool>, StoreError> {
        tx.execute("insert into numbers (n) values ($1)", values![self.0])?;
        match self.1 {
            PutEnd::Commit => Ok(TransactionEnd::Commit(true)),
            PutEnd::Rollback => Ok(TransactionEnd::Rollback(false)),
            PutEnd::Error => Err(StoreError::Refused("injected".to_owned())),
            PutEnd::Panic => panic!("injected"),
        }
    }
}

#[tokio::test]
async fn undone_write_op_leaves_rest_of_batch() {
    let (_directory, sqlite) = open_fresh().await;
    write(&sqlite, "create table numbers (n integer primary key) strict", None).await.unwrap();
    let ops = [
        (1, PutEnd::Commit),
        (2, PutEnd::Rollback),
        (3, PutEnd::Commit),
        (4, PutEnd::Error),
        (3, PutEnd::Commit),
        (5, PutEnd::Panic),
        (6, PutEnd::Commit),
    ];
    let closure = write(&sqlite, "insert into numbers (n) values ($1)", Some(7));
    let (results, closure) = futures_util::join!(join_all(ops.map(|(n, end)| sqlite.run(Put(n, end)))), closure);
    let kept: Vec<_> = results.iter().map(|result| result.as_ref().ok().copied()).collect();
    assert_eq!(kept, [Some(true), Some(false), Some(true), None, None, None, Some(true)], "{results:?}");
    closure.unwrap();
    assert_eq!(numbers(&sqlite).await, [1, 3, 6, 7]);
}

#[tokio::test]
async fn completed_writes_are_in_the_log() {
    let (directory, sqlite) = open_fresh().await;
    write(&sqlite, "create table numbers (n integer primary key) strict", None).await.unwrap();
    for n in 0..20 {
        assert!(sqlite.run(Put(n, PutEnd::Commit)).await.unwrap());
        let copy = tempfile::tempdir().unwrap();
        for name in ["ringtrue.db", "ringtrue.db-wal"] {
            std::fs::copy(directory.path().join(name), copy.path().join(name)).unwrap();
        }
        let other = rusqlite::Connection::open(copy.path().join("ringtrue.db")).unwrap();
        let count: i64 = other.query_row("select count(*) from numbers", [], |row| row.get(0)).unwrap();
        assert_eq!(count, n + 1);
    }
}

#[tokio::test]
async fn panicked_transaction_leaves_rest_of_batch() {
    let (_directory, sqlite) = open_fresh().await;
    write(&sqlite, "create table numbers (n integer primary key) strict", None).await.unwrap();
    let panics = sqlite.transact::<()>(work!(|tx| {
        tx.run("insert into numbers (n) values (7)", &[]).await?;
        panic!("injected")
    }));
    let (panicked, stored) =
        futures_util::join!(panics, write(&sqlite, "insert into numbers (n) values ($1)", Some(1)));
    assert!(matches!(panicked, Err(StoreError::Refused(_))), "{panicked:?}");
    stored.unwrap();
    assert_eq!(numbers(&sqlite).await, [1]);
}

#[tokio::test]
async fn full_disk_is_unavailable_until_space_is_freed() {
    let (_directory, sqlite) = open_fresh().await;
    write(&sqlite, "create table numbers (n integer primary key, filling blob) strict", None).await.unwrap();
    write(&sqlite, "pragma max_page_count = 60", None).await.unwrap();
    let put = |number| write(&sqlite, "insert into numbers (n, filling) values ($1, zeroblob(40000))", Some(number));
    let mut stored = Vec::new();
    let full = loop {
        let number = i64::try_from(stored.len()).unwrap();
        match put(number).await {
            Ok(()) => stored.push(number),
            Err(error) => break error,
        }
    };
    assert!(matches!(&full, StoreError::Unavailable(reason) if reason.contains("disk")), "{full}");
    assert_eq!(numbers(&sqlite).await, stored);
    write(&sqlite, "pragma max_page_count = 100000", None).await.unwrap();
    put(1_000).await.unwrap();
}

#[tokio::test]
async fn read_only_file_is_unavailable() {
    let (_directory, sqlite) = open_fresh().await;
    write(&sqlite, "pragma query_only = on", None).await.unwrap();
    let refused = write(&sqlite, "update database_state set generation = generation + 1", None).await;
    assert!(matches!(&refused, Err(StoreError::Unavailable(reason)) if reason.contains("written")), "{refused:?}");
    assert_eq!(sqlite.read(work!(|tx| tx.run("select 1", &[]).await)).await.unwrap().len(), 1);
}

#[tokio::test]
async fn database_files_are_private_to_owner() {
    use std::os::unix::fs::PermissionsExt as _;

    let (directory, sqlite) = open_fresh().await;
    write(&sqlite, "update database_state set generation = generation + 1", None).await.unwrap();
    for file in std::fs::read_dir(directory.path()).unwrap() {
        let mode = file.unwrap().metadata().unwrap().permissions().mode();
        assert_eq!(mode & 0o077, 0, "{mode:o}");
    }
}

/// Constraints of frequently written tables must not use `in` lists of more than two values, for which SQLite builds a
/// temporary table.
#[tokio::test]
async fn constraints_build_no_temporary_table() {
    let (directory, _sqlite) = open_fresh().await;
    let connection = rusqlite::Connection::open(directory.path().join("ringtrue.db")).unwrap();
    for table in [
        "checks",
        "deadlines",
        "redirect_sessions",
        "verifications",
        "callbacks",
        "callback_attempts",
        "usage_counters",
        "usage_days",
    ] {
        let mut statement = connection.prepare(&format!("explain insert into {table} default values")).unwrap();
        let steps: Vec<String> =
            statement.query_map([], |row| row.get("opcode")).unwrap().map(Result::unwrap).collect();
        assert!(steps.contains(&"IdxInsert".to_owned()), "{table}: {steps:?}");
        assert!(!steps.contains(&"OpenEphemeral".to_owned()), "{table}");
    }
}

/// The query runs every minute on the only writing connection, so it must be fast.
#[tokio::test]
async fn erasable_checks_are_found_without_scanning_checks() {
    let (directory, _sqlite) = open_fresh().await;
    let connection = rusqlite::Connection::open(directory.path().join("ringtrue.db")).unwrap();
    let mut statement = connection.prepare(&format!("explain query plan {}", select_erasable::<Sqlite>())).unwrap();
    let steps: Vec<String> = statement.query_map([500], |row| row.get("detail")).unwrap().map(Result::unwrap).collect();
    let scans: Vec<_> = steps.iter().filter(|step| step.starts_with("SCAN")).collect();
    assert_eq!(scans, ["SCAN erasures"], "{steps:?}");
}

#[tokio::test]
async fn constraints_reject_unknown_keywords() {
    let (directory, _sqlite) = open_fresh().await;
    let connection = rusqlite::Connection::open(directory.path().join("ringtrue.db")).unwrap();
    let check = |status: &str| {
        let concluded_at = if matches!(status, "ACCEPTED" | "PENDING") { "null" } else { "2" };
        let error_code = if status == "ERROR" { "'mno_timeout'" } else { "null" };
        format!(
            "insert into checks (id, project_id, created_at, expires_at, pending_at, concluded_at, product, mode, status,
                                 error_code)
             values (randomblob(16), zeroblob(16), 1, 2, 1, {concluded_at}, 'discovery', 'live', '{status}', {error_code})"
        )
    };
    let counter = |status: &str, matched: i64, network: &str| {
        format!(
            "insert into usage_counters values (zeroblob(16), 'discovery', '2026-11-15T02', '{status}', {matched}, '{network}', '', 0, 1)"
        )
    };
    let callback = |state: &str| {
        let due_at = if state == "waiting" { "1" } else { "null" };
        format!(
            "insert into callbacks (check_id, project_id, created_at, due_at, failed_attempts, state, product, url, body)
             values (randomblob(16), zeroblob(16), 1, {due_at}, 0, '{state}', 'discovery', x'00', x'00')"
        )
    };
    for status in ["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"] {
        connection.execute(&check(status), []).unwrap();
        connection.execute(&counter(status, -1, ""), []).unwrap();
    }
    for (matched, network) in [(0, "23410"), (1, "310004")] {
        connection.execute(&counter("COMPLETED", matched, network), []).unwrap();
    }
    for state in ["waiting", "delivered", "given_up"] {
        connection.execute(&callback(state), []).unwrap();
    }
    for wrong in [
        check("DONE"),
        counter("DONE", -1, ""),
        counter("COMPLETED", 2, ""),
        counter("COMPLETED", 1, "2341"),
        counter("COMPLETED", 1, "2341000"),
        callback("lost"),
    ] {
        let refused = connection.execute(&wrong, []).unwrap_err();
        assert!(refused.to_string().contains("CHECK"), "{wrong}: {refused}");
    }
}
