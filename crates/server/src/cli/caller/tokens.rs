//! Access tokens: each is used until shortly before it expires, by one command after the other.

use std::{collections::BTreeMap, sync::Mutex};

use ringtrue_domain::product::Scope;
use ringtrue_engine::ports::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::{
    drawer::Drawer,
    profile::{ProfileName, Secret, file_of},
};
use crate::cli::{desk::Desk, failure::Failure};

/// A request with the token must be through by then.
const BEFORE_EXPIRY: i64 = 60;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Token {
    pub access_token: Secret,
    /// In seconds since 1970.
    pub expires_at: i64,
}

impl Token {
    pub(super) fn remaining(&self) -> i64 {
        (self.expires_at - SystemClock.now().as_second()).max(0)
    }
}

/// By client and scope. Kept in a file of the profile, or in memory only.
#[derive(Debug)]
pub(super) struct Tokens {
    file: Option<(Drawer, String)>,
    known: Mutex<BTreeMap<String, Token>>,
}

impl Tokens {
    pub(super) fn in_memory() -> Self {
        Tokens { file: None, known: Mutex::default() }
    }

    pub(super) fn of_profile(desk: &Desk, name: &ProfileName) -> Result<Self, Failure> {
        let (drawer, file) = (Drawer::open(&desk.environment, "tokens")?, file_of(name));
        // A file that we did not write is as good as none.
        let known = drawer.read(&file)?.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Tokens { file: Some((drawer, file)), known: Mutex::new(known) })
    }

    pub(super) fn forget_all(desk: &Desk, name: &ProfileName) -> Result<(), Failure> {
        Drawer::open(&desk.environment, "tokens")?.remove(&file_of(name)).map(drop)
    }

    pub(super) fn get(&self, client_id: &str, scope: Scope) -> Option<Token> {
        let known = self.known.lock().ok()?;
        known.get(&key(client_id, scope)).filter(|token| token.remaining() > BEFORE_EXPIRY).cloned()
    }

    pub(super) fn keep(&self, client_id: &str, scope: Scope, token: Token) -> Result<(), Failure> {
        self.change(|known| {
            known.retain(|_, token| token.remaining() > BEFORE_EXPIRY);
            known.insert(key(client_id, scope), token);
        })
    }

    /// The server does not take it any more.
    pub(super) fn drop(&self, client_id: &str, scope: Scope) -> Result<(), Failure> {
        self.change(|known| {
            known.remove(&key(client_id, scope));
        })
    }

    fn change(&self, change: impl FnOnce(&mut BTreeMap<String, Token>)) -> Result<(), Failure> {
        let Ok(mut known) = self.known.lock() else { return Ok(()) };
        change(&mut known);
        match &self.file {
            Some((drawer, file)) => drawer.write_json(file, &*known),
            None => Ok(()),
        }
    }
}

fn key(client_id: &str, scope: Scope) -> String {
    format!("{client_id} {scope}")
}
