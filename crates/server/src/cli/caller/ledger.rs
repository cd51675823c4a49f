//! What `ringtrue listen` has handled for a profile, so that it can go on where it was ended, however that was.
//!
//! A file of lines, kept beside the profile: where it stands, and each callback that was handled since, by its check and
//! the digest of its body. A line is on the disk before the callback is answered. A line that broke off counts for
//! nothing: its callback was not answered either, and comes again.

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

use super::{drawer::Drawer, profile::ProfileName};
use crate::{
    cli::{desk::Desk, failure::Failure},
    http::time,
};

/// Ends are not seen in the order of their times: a check expires at its deadline, even if nobody looked then.
const OVERLAP: SignedDuration = SignedDuration::from_hours(1);
/// For how long a callback is known after that.
const KEPT: SignedDuration = SignedDuration::from_hours(2);
const DRAWER: &str = "listen";

#[derive(Debug)]
pub(in crate::cli) struct Ledger {
    drawer: Drawer,
    file: String,
    state: Mutex<State>,
    /// Locked for as long as it is open.
    _lock: File,
}

#[derive(Debug)]
struct State {
    /// Nobody listened before.
    began_at: Timestamp,
    /// What ended before has been handled.
    cursor: Timestamp,
    handled: HashMap<String, Vec<Entry>>,
    underway: HashSet<(String, String)>,
}

/// The first line.
#[derive(Serialize, Deserialize)]
struct Standing {
    began_at: String,
    cursor: String,
}

/// A callback by what makes it the same as another.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(in crate::cli) struct Entry {
    check_id: String,
    /// `None`: no callback is to be expected.
    digest: Option<String>,
    /// When the check ended, in milliseconds since 1970.
    ended_at: i64,
}

impl Entry {
    /// `None`: it names no check.
    pub(in crate::cli) fn of(body: &[u8], now: Timestamp) -> Option<Self> {
        let document: Value = serde_json::from_slice(body).ok()?;
        let text = |name: &str| document.get(name).and_then(Value::as_str);
        let ended_at = text("updated_at").and_then(time::parse).unwrap_or(now).as_millisecond();
        let digest = digest::digest(&digest::SHA256, body);
        let digest = Some(BASE64_STANDARD.encode(digest));
        Some(Entry { check_id: text("check_id")?.to_owned(), digest, ended_at })
    }

    fn key(&self) -> (String, String) {
        (self.check_id.clone(), self.digest.clone().unwrap_or_default())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(in crate::cli) enum Claim {
    /// It is for the one who asked to handle it, and to say how that went.
    Mine,
    Handled,
    /// Someone else is at it.
    Underway,
}

impl Ledger {
    pub(in crate::cli) fn open(desk: &Desk, profile: &ProfileName, now: Timestamp) -> Result<Self, Failure> {
        let (drawer, file) = (Drawer::open(&desk.environment, DRAWER)?, file_of(profile));
        let lock = drawer.lock(&format!("{profile}.lock"))?.ok_or_else(|| {
            Failure::refused(
                format!("another `ringtrue listen` uses the profile `{profile}`"),
                "Stop it, or sign in under another name: ringtrue login --profile NAME",
            )
        })?;
        let state = drawer.read(&file)?.and_then(|text| State::read(&text)).unwrap_or_else(|| State::new(now));
        drawer.write(&file, &state.written()?)?;
        Ok(Ledger { drawer, file, state: Mutex::new(state), _lock: lock })
    }

    pub(super) fn forget_all(desk: &Desk, profile: &ProfileName) -> Result<(), Failure> {
        Drawer::open(&desk.environment, DRAWER)?.remove(&file_of(profile)).map(drop)
    }

    /// From when on checks may have ended whose callbacks were not handled.
    pub(in crate::cli) fn since(&self) -> Timestamp {
        let state = self.state();
        state.cursor.checked_sub(OVERLAP).unwrap_or(state.began_at).max(state.began_at)
    }

    /// Whether the callback of a check was handled, whatever was in it.
    pub(in crate::cli) fn has(&self, check_id: &str) -> bool {
        self.state().handled.contains_key(check_id)
    }

    pub(in crate::cli) fn claim(&self, entry: &Entry) -> Claim {
        let mut state = self.state();
        let known = state.handled.get(&entry.check_id);
        if known.is_some_and(|known| known.iter().any(|earlier| earlier.digest == entry.digest)) {
            return Claim::Handled;
        }
        if state.underway.insert(entry.key()) { Claim::Mine } else { Claim::Underway }
    }

    /// It was not handled, and may come again.
    pub(in crate::cli) fn release(&self, entry: &Entry) {
        self.state().underway.remove(&entry.key());
    }

    /// It was handled. It is on the disk when this returns.
    pub(in crate::cli) fn record(&self, entry: Entry) -> Result<(), Failure> {
        let line = line(&entry)?;
        let mut state = self.state();
        self.drawer.append(&self.file, &line)?;
        state.underway.remove(&entry.key());
        state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        Ok(())
    }

    /// No callback of this check is to be expected.
    pub(in crate::cli) fn settle(&self, check_id: &str, ended_at: Timestamp) -> Result<(), Failure> {
        let ended_at = ended_at.as_millisecond();
        self.record(Entry { check_id: check_id.to_owned(), digest: None, ended_at })
    }

    /// Everything that ended before has been handled. What is too old to matter is forgotten.
    pub(in crate::cli) fn advance(&self, cursor: Timestamp) -> Result<(), Failure> {
        let mut state = self.state();
        if cursor <= state.cursor {
            return Ok(());
        }
        state.cursor = cursor;
        let oldest = cursor.checked_sub(KEPT).unwrap_or(Timestamp::UNIX_EPOCH).as_millisecond();
        state.handled.retain(|_, entries| entries.iter().any(|entry| entry.ended_at >= oldest));
        self.drawer.write(&self.file, &state.written()?)
    }

    fn state(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl State {
    fn new(now: Timestamp) -> Self {
        State { began_at: now, cursor: now, handled: HashMap::new(), underway: HashSet::new() }
    }

    fn read(text: &[u8]) -> Option<Self> {
        let mut lines = text.split(|byte| *byte == b'\n');
        let standing: Standing = serde_json::from_slice(lines.next()?).ok()?;
        let mut state = State::new(time::parse(&standing.began_at)?);
        state.cursor = time::parse(&standing.cursor)?;
        for entry in lines.filter_map(|line| serde_json::from_slice::<Entry>(line).ok()) {
            state.handled.entry(entry.check_id.clone()).or_default().push(entry);
        }
        Some(state)
    }

    fn written(&self) -> Result<Vec<u8>, Failure> {
        let standing = Standing { began_at: time::format(self.began_at), cursor: time::format(self.cursor) };
        let mut text = line(&standing)?;
        for entry in self.handled.values().flatten() {
            text.extend(line(entry)?);
        }
        Ok(text)
    }
}

fn line(content: &impl Serialize) -> Result<Vec<u8>, Failure> {
    let mut line = serde_json::to_vec(content).map_err(|problem| Failure::Failed(problem.into()))?;
    line.push(b'\n');
    Ok(line)
}

fn file_of(profile: &ProfileName) -> String {
    format!("{profile}.jsonl")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn at(text: &str) -> Timestamp {
        text.parse().unwrap()
    }

    #[test]
    fn what_was_written_is_read_but_for_a_line_that_broke_off() {
        let mut state = State::new(at("2026-01-01T00:00:00Z"));
        state.cursor = at("2026-01-01T01:00:00Z");
        let entry = Entry::of(br#"{"check_id": "a", "updated_at": "2026-01-01T00:30:00Z"}"#, state.cursor).unwrap();
        assert_eq!(entry.ended_at, at("2026-01-01T00:30:00Z").as_millisecond());
        state.handled.insert("a".to_owned(), vec![entry.clone()]);
        let mut text = state.written().unwrap();
        text.extend_from_slice(br#"{"check_id": "b", "dig"#);
        let read = State::read(&text).unwrap();
        assert_eq!((read.began_at, read.cursor), (state.began_at, state.cursor));
        assert_eq!(read.handled, HashMap::from([("a".to_owned(), vec![entry])]));
        assert!(State::read(b"nonsense").is_none());
    }

    #[test]
    fn callbacks_are_the_same_by_check_and_body() {
        let now = at("2026-01-01T00:00:00Z");
        let entry = |body: &str| Entry::of(body.as_bytes(), now);
        assert_eq!(entry(r#"{"check_id": "a"}"#), entry(r#"{"check_id": "a"}"#));
        assert_ne!(entry(r#"{"check_id": "a"}"#), entry(r#"{"check_id": "a" }"#));
        assert_eq!(entry(r#"{"status": "a"}"#), None);
        assert_eq!(entry("nonsense"), None);
    }
}
