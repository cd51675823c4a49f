//! Resumes `ringtrue listen` with a profile: keeps a journal of handled callbacks, and replays missed ones.
//!
//! The journal is a JSON Lines file, which ensures that each callback is handled once. Its header has a cursor: all
//! checks that concluded before this time are handled. Each further line is an entry for a handled callback, with the
//! check id and a digest of the body. An entry is synced to disk before the callback is acknowledged. A truncated entry
//! is ignored: its callback was not acknowledged, so the server retries it.

use std::{
    collections::{HashMap, HashSet},
    convert::Infallible,
    fs::File,
    sync::Arc,
    time::Duration,
};

use aws_lc_rs::digest;
use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::{SignedDuration, Timestamp};
use parking_lot::{Mutex, MutexGuard};
use ringtrue_domain::{product::Product, timestamp};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use tokio::time::{Instant, sleep};

use crate::{
    api::{ApiSession, id_field},
    argument_values::ProfileName,
    callbacks::{ConcludedCheck, ResendOutcome, fetch_concluded, resend},
    context::{ClientContext, ConfigDir},
    error::CommandError,
};

/// How far before the cursor a replay starts. Checks may appear late with an earlier time of conclusion: for an expired
/// check, this time is its deadline.
const REPLAY_OVERLAP: SignedDuration = SignedDuration::from_hours(1);
/// How long entries from before the cursor are kept.
const ENTRY_RETENTION: SignedDuration = SignedDuration::from_hours(2);
const JOURNAL_DIR: &str = "listen";
const FILE_SUFFIX: &str = ".jsonl";
const POLL_INTERVAL: Duration = Duration::from_secs(30);
const MAX_RETRY_DELAY: Duration = Duration::from_secs(30);
/// Time after which a requested resend counts as lost. Longer than the server retries a callback.
const RESEND_TIMEOUT: Duration = Duration::from_mins(5);

#[derive(Debug)]
pub(crate) struct ListenJournal {
    /// `None`: the journal is kept in memory.
    file: Option<JournalFile>,
    state: Mutex<JournalState>,
}

#[derive(Debug)]
struct JournalFile {
    dir: ConfigDir,
    name: String,
    /// The open file holds the lock of the journal.
    _lock: File,
}

#[derive(Debug)]
struct JournalState {
    /// Time of the first `listen` with this profile. Callbacks from before are not replayed.
    began_at: Timestamp,
    /// All checks that concluded before this time are handled.
    cursor: Timestamp,
    handled: HashMap<String, Vec<JournalEntry>>,
    in_progress: HashSet<(String, String)>,
}

/// First line of the journal file.
#[derive(Serialize, Deserialize)]
struct JournalHeader {
    began_at: String,
    cursor: String,
}

/// Identifies a callback by check id and body digest.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct JournalEntry {
    check_id: String,
    /// Digest of the body. `None`: no callback is expected for this check.
    digest: Option<String>,
    /// When the check concluded, in milliseconds since 1970.
    ended_at: i64,
}

impl JournalEntry {
    /// Creates the entry for a callback body. `None`: the body has no check id.
    pub(crate) fn from_body(body: &[u8], now: Timestamp) -> Option<Self> {
        let document: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let ended_at = text("updated_at").and_then(timestamp::parse).unwrap_or(now).as_millisecond();
        let digest = digest::digest(&digest::SHA256, body);
        let digest = Some(BASE64_STANDARD.encode(digest));
        Some(JournalEntry { check_id: id_field(&document)?.to_owned(), digest, ended_at })
    }

    fn key(&self) -> (String, String) {
        (self.check_id.clone(), self.digest.clone().unwrap_or_default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Claim {
    /// The callback is new. The caller must handle it, and then call `record` or `release`.
    Acquired,
    AlreadyHandled,
    /// Another request is handling the callback.
    InProgress,
}

impl ListenJournal {
    pub(crate) fn open(context: &ClientContext, profile: &ProfileName, now: Timestamp) -> Result<Self, CommandError> {
        ListenJournal::open_if_unlocked(context, profile.as_str(), now)?.ok_or_else(|| {
            CommandError::failed(
                format!("another `ringtrue listen` is using the profile `{profile}`"),
                "Stop it, or create another profile: ringtrue login --profile NAME",
            )
        })
    }

    /// Opens the journal of a profile for the callbacks of one project. If another `ringtrue listen` is using this
    /// journal, returns an empty one in memory.
    pub(crate) fn open_for_project(
        context: &ClientContext,
        profile: &ProfileName,
        project: &str,
        now: Timestamp,
    ) -> Result<Self, CommandError> {
        let opened = ListenJournal::open_if_unlocked(context, &format!("{profile}.{project}"), now)?;
        Ok(opened.unwrap_or_else(|| ListenJournal { file: None, state: Mutex::new(JournalState::new(now)) }))
    }

    /// Opens a journal by name. `None`: another process has locked it.
    fn open_if_unlocked(context: &ClientContext, name: &str, now: Timestamp) -> Result<Option<Self>, CommandError> {
        let (dir, file) = (ConfigDir::open(context, JOURNAL_DIR)?, file_name(name));
        let Some(lock) = dir.lock(&format!("{name}.lock"))? else { return Ok(None) };
        let state =
            dir.read(&file)?.and_then(|text| JournalState::parse(&text)).unwrap_or_else(|| JournalState::new(now));
        dir.write(&file, &state.serialize()?)?;
        let file = JournalFile { dir, name: file, _lock: lock };
        Ok(Some(ListenJournal { file: Some(file), state: Mutex::new(state) }))
    }

    /// Whether the journal is kept in memory, so that callbacks are not resumed when the command is started again.
    pub(crate) fn is_in_memory(&self) -> bool {
        self.file.is_none()
    }

    /// Returns the time of the first `listen`. Callbacks from before this time are not replayed.
    pub(crate) fn began_at(&self) -> Timestamp {
        self.state().began_at
    }

    pub(crate) fn delete(context: &ClientContext, profile: &ProfileName) -> Result<(), CommandError> {
        let dir = ConfigDir::open(context, JOURNAL_DIR)?;
        // Profile names contain no dots, so the prefix matches no other profile. Lock files stay, because the process
        // that holds a lock may be running.
        let prefix = format!("{profile}.");
        let mut journals =
            dir.files()?.into_iter().filter(|name| name.starts_with(&prefix) && name.ends_with(FILE_SUFFIX));
        journals.try_for_each(|name| dir.remove(&name).map(drop))
    }

    /// Returns the time from which on concluded checks may have unhandled callbacks.
    pub(crate) fn replay_start(&self) -> Timestamp {
        let state = self.state();
        state.cursor.checked_sub(REPLAY_OVERLAP).unwrap_or(state.began_at).max(state.began_at)
    }

    /// Whether a callback of the check was handled, whatever its body.
    pub(crate) fn contains_check(&self, check_id: &str) -> bool {
        self.state().handled.contains_key(check_id)
    }

    pub(crate) fn claim(&self, entry: &JournalEntry) -> Claim {
        let mut state = self.state();
        let entries = state.handled.get(&entry.check_id);
        if entries.is_some_and(|entries| entries.iter().any(|earlier| earlier.digest == entry.digest)) {
            return Claim::AlreadyHandled;
        }
        if state.in_progress.insert(entry.key()) { Claim::Acquired } else { Claim::InProgress }
    }

    /// Ends the handling of a callback without success, so that a retry of the callback is handled.
    pub(crate) fn release(&self, entry: &JournalEntry) {
        self.state().in_progress.remove(&entry.key());
    }

    /// Records a handled callback. The entry is on disk when this returns.
    pub(crate) fn record(&self, entry: JournalEntry) -> Result<(), CommandError> {
        let line = json_line(&entry)?;
        let mut state = self.state();
        if let Some(file) = &self.file {
            file.dir.append(&file.name, &line)?;
        }
        state.in_progress.remove(&entry.key());
        state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        Ok(())
    }

    /// Records that no callback is expected for this check.
    pub(crate) fn record_without_callback(&self, check_id: &str, ended_at: Timestamp) -> Result<(), CommandError> {
        let ended_at = ended_at.as_millisecond();
        self.record(JournalEntry { check_id: check_id.to_owned(), digest: None, ended_at })
    }

    /// Moves the cursor: all checks that concluded before it are handled. Drops entries whose retention has ended.
    pub(crate) fn advance_cursor(&self, cursor: Timestamp) -> Result<(), CommandError> {
        let mut state = self.state();
        if cursor <= state.cursor {
            return Ok(());
        }
        state.cursor = cursor;
        let oldest = cursor.checked_sub(ENTRY_RETENTION).unwrap_or(Timestamp::UNIX_EPOCH).as_millisecond();
        state.handled.retain(|_, entries| entries.iter().any(|entry| entry.ended_at >= oldest));
        match &self.file {
            Some(file) => file.dir.write(&file.name, &state.serialize()?),
            None => Ok(()),
        }
    }

    /// Like [`advance_cursor`](Self::advance_cursor), but only if the cursor moves by at least `step`.
    pub(crate) fn advance_cursor_by_at_least(
        &self,
        cursor: Timestamp,
        step: SignedDuration,
    ) -> Result<(), CommandError> {
        let current = self.state().cursor;
        if cursor.duration_since(current) < step { Ok(()) } else { self.advance_cursor(cursor) }
    }

    fn state(&self) -> MutexGuard<'_, JournalState> {
        self.state.lock()
    }
}

impl JournalState {
    fn new(now: Timestamp) -> Self {
        JournalState { began_at: now, cursor: now, handled: HashMap::new(), in_progress: HashSet::new() }
    }

    fn parse(text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let header: JournalHeader = serde_json::from_slice(lines.next()?).ok()?;
        let mut state = JournalState::new(timestamp::parse(&header.began_at)?);
        state.cursor = timestamp::parse(&header.cursor)?;
        for entry in lines.filter_map(|line| serde_json::from_slice::<JournalEntry>(line).ok()) {
            state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        }
        Some(state)
    }

    fn serialize(&self) -> Result<Vec<u8>, CommandError> {
        let header =
            JournalHeader { began_at: timestamp::format(self.began_at), cursor: timestamp::format(self.cursor) };
        let mut text = json_line(&header)?;
        for entry in self.handled.values().flatten() {
            text.extend(json_line(entry)?);
        }
        Ok(text)
    }
}

fn json_line(content: &impl Serialize) -> Result<Vec<u8>, CommandError> {
    let mut line = serde_json::to_vec(content).map_err(CommandError::other)?;
    line.push(b'\n');
    Ok(line)
}

fn file_name(name: &str) -> String {
    format!("{name}{FILE_SUFFIX}")
}

/// Polls the server for concluded checks. If the journal lacks the callback of a check, and the server is no longer
/// retrying it, requests a resend.
#[derive(Debug)]
pub(super) struct MissedCallbackReplay {
    session: ApiSession,
    journal: Arc<ListenJournal>,
    /// When a resend was requested, by check id.
    resend_requested_at: HashMap<String, Instant>,
}

/// State of a concluded check's callback.
enum MissedCallbackState {
    /// The callback was received, or is no longer expected.
    Settled,
    /// The server is still delivering the callback.
    InProgress,
    /// The callback was missed, and this poll has asked the server to send it again.
    ResendRequested,
}

impl MissedCallbackReplay {
    pub(super) fn new(session: ApiSession, journal: Arc<ListenJournal>) -> Self {
        MissedCallbackReplay { session, journal, resend_requested_at: HashMap::new() }
    }

    /// Polls until a permanent error occurs.
    pub(super) async fn run(mut self) -> Result<Infallible, CommandError> {
        let mut delay = Duration::ZERO;
        loop {
            match self.poll().await {
                Ok(()) => {
                    if !delay.is_zero() {
                        self.session.printer.print_status("The server is reachable again.")?;
                    }
                    delay = Duration::ZERO;
                    sleep(POLL_INTERVAL).await;
                }
                Err(error) if error.is_transient() => {
                    if delay.is_zero() {
                        self.session
                            .printer
                            .print_status(&format!("Cannot query missed callbacks: {error}\nRetrying."))?;
                    }
                    delay = (delay * 2).clamp(Duration::from_secs(1), MAX_RETRY_DELAY);
                    sleep(error.retry_after().unwrap_or(delay).min(MAX_RETRY_DELAY)).await;
                }
                Err(error) => return Err(error),
            }
        }
    }

    async fn poll(&mut self) -> Result<(), CommandError> {
        let mut newest = None;
        let mut oldest_unsettled: Option<Timestamp> = None;
        let mut requested = 0_u64;
        let products = self.session.permitted_products(Product::WITH_CALLBACKS).await?;
        for check in fetch_concluded(&self.session, &products, self.journal.replay_start(), &[]).await? {
            newest = newest.max(Some(check.concluded_at));
            let state = self.resend_if_missed(&check).await?;
            if matches!(state, MissedCallbackState::ResendRequested) {
                requested += 1;
            }
            if !matches!(state, MissedCallbackState::Settled) {
                // The list is sorted, oldest first, so the first check whose callback is still expected is the oldest.
                oldest_unsettled = oldest_unsettled.or(Some(check.concluded_at));
            }
        }
        if requested > 0 {
            let missed =
                if requested == 1 { "1 missed callback".to_owned() } else { format!("{requested} missed callbacks") };
            self.session.printer.print_status(&format!("Requested a resend of {missed}."))?;
        }
        match oldest_unsettled.or(newest) {
            Some(cursor) => self.journal.advance_cursor(cursor),
            None => Ok(()),
        }
    }

    /// Requests a resend of a missed callback, and records callbacks that are no longer expected in the journal.
    async fn resend_if_missed(&mut self, check: &ConcludedCheck) -> Result<MissedCallbackState, CommandError> {
        let id = &check.check_id;
        if self.journal.contains_check(id) {
            self.resend_requested_at.remove(id);
            return Ok(MissedCallbackState::Settled);
        }
        match self.resend_requested_at.get(id) {
            Some(at) if at.elapsed() < RESEND_TIMEOUT => return Ok(MissedCallbackState::InProgress),
            Some(_) => {
                self.session.printer.print_status(&format!(
                    "The callback for {id} was resent but did not arrive. Check its callback URL."
                ))?;
                self.resend_requested_at.remove(id);
                self.journal.record_without_callback(id, check.concluded_at)?;
                return Ok(MissedCallbackState::Settled);
            }
            None => {}
        }
        match resend(&self.session, check.product, id).await? {
            ResendOutcome::Scheduled(_) => {
                self.resend_requested_at.insert(id.clone(), Instant::now());
                Ok(MissedCallbackState::ResendRequested)
            }
            ResendOutcome::Rejected(problem) => match problem.error_code.as_str() {
                "callback_in_progress" => Ok(MissedCallbackState::InProgress),
                "limit_reached" => {
                    self.session
                        .printer
                        .print_status(&format!("The callback for {id} did not arrive: {}", problem.detail))?;
                    self.journal.record_without_callback(id, check.concluded_at)?;
                    Ok(MissedCallbackState::Settled)
                }
                "callback_missing" | "callback_erased" | "check_not_found" => {
                    self.journal.record_without_callback(id, check.concluded_at)?;
                    Ok(MissedCallbackState::Settled)
                }
                _ => Err(CommandError::Api(problem)),
            },
        }
    }
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
