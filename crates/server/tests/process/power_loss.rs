//! Tests that no check is acknowledged before it is on the disk.
//!
//! `strace` records the order of system calls. A response must follow a sync of the write-ahead log that began after
//! the commit was written: a power failure at any moment then loses no acknowledged check.

use std::{collections::BTreeMap, path::Path};

use futures_util::future::join_all;
use ringtrue_test_support::{
    database::Database,
    http_client::{self, Request},
};
use serde_json::json;
use uuid::Uuid;

use crate::deployment::{CHECKS, Deployment};

const WRITERS: usize = 6;
const CHECKS_PER_WRITER: usize = 10;
/// End of the write-ahead log's path in a trace: `-wal`, in hex like all strings.
const LOG_PATH_END: &str = r"\x2d\x77\x61\x6c>";
/// Length of a frame header in the write-ahead log. SQLite writes the page that follows it separately.
const FRAME_HEADER_LENGTH: usize = 24;

#[tokio::test]
async fn checks_are_acknowledged_after_their_sync() {
    let database = Database::sqlite().await;
    let deployment = Deployment::new(database.address());
    let folder = tempfile::tempdir().unwrap();
    let trace = folder.path().join("trace");
    let mut server = deployment.serve_traced(&trace);
    let token = deployment.product_token(&server, json!({})).await;
    let (address, token) = (server.address, &token);
    let writers = (0..WRITERS).map(|writer| async move {
        for turn in 0..CHECKS_PER_WRITER {
            let number = format!("+9901{writer:03}{turn:03}00");
            let create = Request::post(CHECKS).bearer(token).json(&json!({"phone_number": number}));
            http_client::send(address, &create).await.assert(201);
        }
    });
    join_all(writers).await;
    server.terminate();
    assert_eq!(server.wait_for_exit().await.code(), Some(0));

    let calls = parse_trace(&read_text(&trace));
    let acknowledged = acknowledged_checks(&calls);
    assert_eq!(acknowledged.len(), WRITERS * CHECKS_PER_WRITER);
    let early: Vec<_> = acknowledged.into_iter().filter(|check| !is_durable(&calls, check)).collect();
    assert!(early.is_empty(), "acknowledged before their sync: {early:?}");
}

/// A system call in the trace that matters for this test.
#[derive(Debug, PartialEq, Eq)]
enum Call {
    /// A write to the log has returned.
    LogWritten(Vec<u8>),
    SyncStarted(u32),
    /// A sync of the log has succeeded.
    SyncReturned(u32),
    /// A thread begins to send this data.
    SendStarted(Vec<u8>),
}

/// An acknowledged check, and the position of its response in the trace.
#[derive(Debug)]
struct Acknowledged {
    check: Uuid,
    response: usize,
}

fn read_text(path: &Path) -> String {
    std::fs::read_to_string(path).unwrap()
}

/// Parses the output of `strace -f -y --strings-in-hex=all`. A call that is interrupted by calls of other threads has
/// two lines.
fn parse_trace(trace: &str) -> Vec<Call> {
    let mut calls = vec![];
    let mut unfinished: BTreeMap<u32, &str> = BTreeMap::new();
    for line in trace.lines() {
        let (thread, text) = line.trim_start().split_once(' ').unwrap_or_else(|| panic!("no call: {line}"));
        let (thread, text) = (thread.parse().unwrap(), text.trim_start());
        let (start, end) = if text.starts_with("<... ") {
            (unfinished.remove(&thread), Some(text))
        } else if let Some(start) = text.strip_suffix("<unfinished ...>") {
            unfinished.insert(thread, start);
            (Some(start), None)
        } else {
            (Some(text), Some(text))
        };
        let Some(start) = start else { continue };
        let is_new = !text.starts_with("<... ");
        let (name, arguments) = start.split_once('(').unwrap_or((start, ""));
        let is_log = arguments.split([',', ')', ' ']).next().is_some_and(|file| file.ends_with(LOG_PATH_END));
        let is_successful = end.is_some_and(|end| !end.contains(") = -1 ") && !end.contains(") = ?"));
        match name {
            "pwrite64" | "write" if is_log && is_successful => calls.push(Call::LogWritten(strings(start))),
            "fdatasync" | "fsync" if is_log => {
                calls.extend(is_new.then_some(Call::SyncStarted(thread)));
                calls.extend(is_successful.then_some(Call::SyncReturned(thread)));
            }
            "write" | "writev" | "sendto" | "sendmsg" if is_new && !is_log => {
                calls.push(Call::SendStarted(strings(start)));
            }
            _ => {}
        }
    }
    calls
}

/// Returns the strings in the arguments of a call, decoded and concatenated.
fn strings(call: &str) -> Vec<u8> {
    let quoted = call.split('"').skip(1).step_by(2);
    quoted.flat_map(|text| hex::decode(text.replace(r"\x", "")).expect("a string in hex")).collect()
}

fn acknowledged_checks(calls: &[Call]) -> Vec<Acknowledged> {
    let created = |(response, call): (usize, &Call)| {
        let Call::SendStarted(bytes) = call else { return None };
        let text = String::from_utf8_lossy(bytes);
        let (_, id) = text.strip_prefix("HTTP/1.1 201 ")?.split_once("\"check_id\":\"")?;
        Some(Acknowledged { check: id.get(..36)?.parse().ok()?, response })
    };
    calls.iter().enumerate().filter_map(created).collect()
}

/// Returns whether a sync began after the check's commit was written, and returned before the response was sent.
fn is_durable(calls: &[Call], acknowledged: &Acknowledged) -> bool {
    let before = &calls[..acknowledged.response];
    let Some(commit) = commit_of(before, acknowledged.check) else { return false };
    let syncs = before.iter().enumerate().skip(commit + 1);
    syncs
        .filter_map(|(at, call)| if let Call::SyncStarted(thread) = call { Some((at, *thread)) } else { None })
        .any(|(at, thread)| before[at..].contains(&Call::SyncReturned(thread)))
}

/// Returns the position in the trace at which the transaction that first wrote this id was completely committed to the
/// log.
fn commit_of(calls: &[Call], id: Uuid) -> Option<usize> {
    let written: Vec<(usize, &[u8])> = calls
        .iter()
        .enumerate()
        .filter_map(|(at, call)| if let Call::LogWritten(bytes) = call { Some((at, bytes.as_slice())) } else { None })
        .collect();
    let first = written.iter().position(|(_, bytes)| bytes.windows(16).any(|part| part == id.as_bytes()))?;
    // The header of a commit frame contains the size of the database. In other frames this field is zero.
    let is_commit = |bytes: &[u8]| bytes.len() == FRAME_HEADER_LENGTH && bytes[4..8] != [0; 4];
    let header = (first.saturating_sub(1)..written.len()).find(|at| is_commit(written[*at].1))?;
    written.get(header + 1).map(|(at, _)| *at)
}

/// Proves that the test above can fail, with traces of servers that would lose acknowledged checks in a power failure.
mod detection {
    use super::*;

    const CHECK: Uuid = Uuid::from_u128(0x0199_d2c4_7a5e_7c3a_9d2f_1b2c_3d4e_5f60);

    const SYNC: &str = r"7 fdatasync(9<\x2f\x2d\x77\x61\x6c>) = 0 (DELAYED)";
    const SYNC_STARTS: &str = r"7 fdatasync(9<\x2f\x2d\x77\x61\x6c> <unfinished ...>";
    const SYNC_RETURNS: &str = "7 <... fdatasync resumed>) = 0";
    const SYNC_FAILS: &str = "7 <... fdatasync resumed>) = -1 EIO (Input/output error)";
    const OTHER_SYNC: &str = r"7 fdatasync(8<\x2f\x64\x62>) = 0";

    fn quoted(bytes: &[u8]) -> String {
        bytes.iter().fold(String::new(), |text, byte| text + &format!("\\x{byte:02x}"))
    }

    fn log_write(bytes: &[u8]) -> String {
        format!("6 pwrite64(5<{LOG_PATH_END}, \"{}\", {}, 32) = {}", quoted(bytes), bytes.len(), bytes.len())
    }

    fn frame(is_commit: bool, page: &[u8]) -> String {
        let mut header = [0; FRAME_HEADER_LENGTH];
        header[7] = u8::from(is_commit);
        [log_write(&header), log_write(page)].join("\n")
    }

    fn transaction() -> String {
        let page = [&b"row "[..], CHECK.as_bytes(), b" of a check"].concat();
        [frame(false, &page), frame(true, b"another page")].join("\n")
    }

    fn response() -> String {
        let body = format!("HTTP/1.1 201 Created\r\n\r\n{{\"check_id\":\"{CHECK}\"}}");
        let (head, rest) = body.as_bytes().split_at(30);
        format!(
            "4 writev(12<socket:[1]>, [{{iov_base=\"{}\"}}, {{iov_base=\"{}\"}}], 2) = 70",
            quoted(head),
            quoted(rest)
        )
    }

    fn is_safe(lines: &[&str]) -> bool {
        let calls = parse_trace(&lines.join("\n"));
        let [acknowledged] = &acknowledged_checks(&calls)[..] else { panic!("one response in {calls:?}") };
        is_durable(&calls, acknowledged)
    }

    #[test]
    fn response_after_the_sync_is_safe() {
        let (transaction, response) = (transaction(), response());
        assert!(is_safe(&[&transaction, SYNC, &response]));
        assert!(is_safe(&[SYNC, &transaction, SYNC_STARTS, SYNC_RETURNS, &response]));
    }

    #[test]
    fn response_before_its_sync_is_detected() {
        let (transaction, response) = (transaction(), response());
        assert!(!is_safe(&[&transaction, &response, SYNC]));
        assert!(!is_safe(&[&transaction, SYNC_STARTS, &response, SYNC_RETURNS]));
    }

    #[test]
    fn sync_that_began_before_the_commit_does_not_count() {
        let (transaction, response) = (transaction(), response());
        let (start, commit) = transaction.split_at(transaction.find('\n').unwrap() + 1);
        assert!(!is_safe(&[SYNC, &transaction, &response]));
        assert!(!is_safe(&[SYNC_STARTS, &transaction, SYNC_RETURNS, &response]));
        assert!(!is_safe(&[start.trim_end(), SYNC_STARTS, commit, SYNC_RETURNS, &response]));
    }

    /// A server has such a trace with `PRAGMA synchronous = OFF`, with a failing disk, or if it syncs another file.
    #[test]
    fn missing_and_failed_syncs_are_detected() {
        let (transaction, response) = (transaction(), response());
        assert!(!is_safe(&[&transaction, &response]));
        assert!(!is_safe(&[&transaction, SYNC_STARTS, SYNC_FAILS, &response]));
        assert!(!is_safe(&[&transaction, OTHER_SYNC, &response]));
        assert!(!is_safe(&[&frame(false, CHECK.as_bytes()), SYNC, &response]), "no commit");
    }
}
