//! Journal of the callbacks that `ringtrue listen` has handled for a profile, so that it can resume after any exit.
//!
//! A JSON Lines file: a header with the cursor, then one entry per handled callback with its check id and body digest.
//! An entry is synced to disk before the callback is acknowledged. A truncated entry is ignored: its callback was not
//! acknowledged, so the server retries it.

use std::{
    collections::{HashMap, HashSet},
    fs::File,
    sync::{Mutex, MutexGuard, PoisonError},
};

use aws_lc_rs::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{config_dir::ConfigDir, profile::ProfileName};
use crate::{
    cli::{context::CommandContext, error::CliError},
    http::time,
};

/// Conclusions do not become visible in time order: an expired check gets its deadline as the time of conclusion.
const REPLAY_OVERLAP: SignedDuration = SignedDuration::from_hours(1);
/// How long entries before the cursor are kept.
const ENTRY_RETENTION: SignedDuration = SignedDuration::from_hours(2);
const JOURNAL_DIR: &str = "listen";

#[derive(Debug)]
pub(in crate::cli) struct ListenJournal {
    dir: ConfigDir,
    file: String,
    state: Mutex<JournalState>,
    /// Holds the lock while open.
    _lock: File,
}

#[derive(Debug)]
struct JournalState {
    /// Time of the first `listen`; earlier callbacks are not replayed.
    began_at: Timestamp,
    /// All checks that concluded before this time are handled.
    cursor: Timestamp,
    handled: HashMap<String, Vec<JournalEntry>>,
    in_progress: HashSet<(String, String)>,
}

/// First line of the file.
#[derive(Serialize, Deserialize)]
struct JournalHeader {
    began_at: String,
    cursor: String,
}

/// Identity of a callback: check id and body digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct JournalEntry {
    check_id: String,
    /// `None`: no callback is expected.
    digest: Option<String>,
    /// Time of conclusion, in milliseconds since 1970.
    ended_at: i64,
}

impl JournalEntry {
    /// `None`: the body has no check id.
    pub(in crate::cli) fn from_body(body: &[u8], now: Timestamp) -> Option<Self> {
        let document: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let ended_at = text("updated_at").and_then(time::parse).unwrap_or(now).as_millisecond();
        let digest = digest::digest(&digest::SHA256, body);
        let digest = Some(BASE64_STANDARD.encode(digest));
        Some(JournalEntry { check_id: text("check_id")?.to_owned(), digest, ended_at })
    }

    fn key(&self) -> (String, String) {
        (self.check_id.clone(), self.digest.clone().unwrap_or_default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Claim {
    /// The caller must handle the callback, then call `record` or `release`.
    Acquired,
    AlreadyHandled,
    /// Another request is handling it.
    InProgress,
}

impl ListenJournal {
    pub(in crate::cli) fn open(
        context: &CommandContext,
        profile: &ProfileName,
        now: Timestamp,
    ) -> Result<Self, CliError> {
        let (dir, file) = (ConfigDir::open(&context.environment, JOURNAL_DIR)?, file_name(profile));
        let lock = dir.lock(&format!("{profile}.lock"))?.ok_or_else(|| {
            CliError::with_hint(
                format!("another `ringtrue listen` is using the profile `{profile}`"),
                "Stop it, or create another profile: ringtrue login --profile NAME",
            )
        })?;
        let state =
            dir.read(&file)?.and_then(|text| JournalState::parse(&text)).unwrap_or_else(|| JournalState::new(now));
        dir.write(&file, &state.serialize()?)?;
        Ok(ListenJournal { dir, file, state: Mutex::new(state), _lock: lock })
    }

    pub(super) fn delete(context: &CommandContext, profile: &ProfileName) -> Result<(), CliError> {
        ConfigDir::open(&context.environment, JOURNAL_DIR)?.remove(&file_name(profile)).map(drop)
    }

    /// Start of the period that may contain unhandled callbacks.
    pub(in crate::cli) fn replay_start(&self) -> Timestamp {
        let state = self.state();
        state.cursor.checked_sub(REPLAY_OVERLAP).unwrap_or(state.began_at).max(state.began_at)
    }

    /// Returns whether a callback of the check was handled, with any body.
    pub(in crate::cli) fn contains_check(&self, check_id: &str) -> bool {
        self.state().handled.contains_key(check_id)
    }

    pub(in crate::cli) fn claim(&self, entry: &JournalEntry) -> Claim {
        let mut state = self.state();
        let entries = state.handled.get(&entry.check_id);
        if entries.is_some_and(|entries| entries.iter().any(|earlier| earlier.digest == entry.digest)) {
            return Claim::AlreadyHandled;
        }
        if state.in_progress.insert(entry.key()) { Claim::Acquired } else { Claim::InProgress }
    }

    /// Gives up a claim: the callback was not handled and may be retried.
    pub(in crate::cli) fn release(&self, entry: &JournalEntry) {
        self.state().in_progress.remove(&entry.key());
    }

    /// Records a handled callback. The entry is on disk when this returns.
    pub(in crate::cli) fn record(&self, entry: JournalEntry) -> Result<(), CliError> {
        let line = json_line(&entry)?;
        let mut state = self.state();
        self.dir.append(&self.file, &line)?;
        state.in_progress.remove(&entry.key());
        state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        Ok(())
    }

    /// Records that no callback is expected for this check.
    pub(in crate::cli) fn record_without_callback(&self, check_id: &str, ended_at: Timestamp) -> Result<(), CliError> {
        let ended_at = ended_at.as_millisecond();
        self.record(JournalEntry { check_id: check_id.to_owned(), digest: None, ended_at })
    }

    /// Marks everything that concluded before `cursor` as handled, and drops entries older than the retention.
    pub(in crate::cli) fn advance_cursor(&self, cursor: Timestamp) -> Result<(), CliError> {
        let mut state = self.state();
        if cursor <= state.cursor {
            return Ok(());
        }
        state.cursor = cursor;
        let oldest = cursor.checked_sub(ENTRY_RETENTION).unwrap_or(Timestamp::UNIX_EPOCH).as_millisecond();
        state.handled.retain(|_, entries| entries.iter().any(|entry| entry.ended_at >= oldest));
        self.dir.write(&self.file, &state.serialize()?)
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl JournalState {
    fn new(now: Timestamp) -> Self {
        JournalState { began_at: now, cursor: now, handled: HashMap::new(), in_progress: HashSet::new() }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let header: JournalHeader = serde_json::from_slice(lines.next()?).ok()?;
        let mut state = JournalState::new(time::parse(&header.began_at)?);
        state.cursor = time::parse(&header.cursor)?;
        for entry in lines.filter_map(|line| serde_json::from_slice::<JournalEntry>(line).ok()) {
            state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        }
        Some(state)
    }

    fn serialize(&self) -> Result<Vec<u8>, CliError> {
        let header = JournalHeader { began_at: time::format(self.began_at), cursor: time::format(self.cursor) };
        let mut text = json_line(&header)?;
        for entry in self.handled.values().flatten() {
            text.extend(json_line(entry)?);
        }
        Ok(text)
    }
}

fn json_line(content: &impl Serialize) -> Result<Vec<u8>, CliError> {
    let mut line = serde_json::to_vec(content).map_err(|error| CliError::Other(error.into()))?;
    line.push(b'\n');
    Ok(line)
}

fn file_name(profile: &ProfileName) -> String {
    format!("{profile}.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn journal_round_trips_and_ignores_a_truncated_line() {
        let mut state = JournalState::new(at("2026-01-01T00:00:00Z"));
        state.cursor = at("2026-01-01T01:00:00Z");
        let entry =
            JournalEntry::from_body(br#"{"check_id": "a", "updated_at": "2026-01-01T00:30:00Z"}"#, state.cursor)
                .unwrap();
        assert_eq!(entry.ended_at, at("2026-01-01T00:30:00Z").as_millisecond());
        state.handled.insert("a".to_owned(), vec![entry.clone()]);
        let mut text = state.serialize().unwrap();
        text.extend_from_slice(br#"{"check_id": "b", "dig"#);
        let read = JournalState::parse(&text).unwrap();
        assert_eq!((read.began_at, read.cursor), (state.began_at, state.cursor));
        assert_eq!(read.handled, HashMap::from([("a".to_owned(), vec![entry])]));
        assert!(JournalState::parse(b"nonsense").is_none());
    }

    #[test]
    fn callbacks_are_identified_by_check_and_body() {
        let now = at("2026-01-01T00:00:00Z");
        let entry = |body: &str| JournalEntry::from_body(body.as_bytes(), now);
        assert_eq!(entry(r#"{"check_id": "a"}"#), entry(r#"{"check_id": "a"}"#));
        assert_ne!(entry(r#"{"check_id": "a"}"#), entry(r#"{"check_id": "a" }"#));
        assert_eq!(entry(r#"{"status": "a"}"#), None);
        assert_eq!(entry("nonsense"), None);
    }
}
