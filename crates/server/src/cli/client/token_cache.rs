//! Cache of access tokens, shared between commands until shortly before the tokens expire.

use std::{collections::BTreeMap, sync::Mutex};

use ringtrue_domain::product::Scope;
use ringtrue_engine::ports::{Clock, SystemClock};
use serde::{Deserialize, Serialize};

use super::{
    config_dir::ConfigDir,
    profile::{ProfileName, Secret, file_name},
};
use crate::cli::{context::CommandContext, error::CliError};

/// Time left for a request with the token.
const EXPIRY_MARGIN_SECONDS: i64 = 60;

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct AccessToken {
    pub access_token: Secret,
    /// Seconds since 1970.
    pub expires_at: i64,
}

impl AccessToken {
    pub(super) fn remaining_seconds(&self) -> i64 {
        (self.expires_at - SystemClock.now().as_second()).max(0)
    }
}

/// Keyed by client id and scope. Stored in a file of the profile, or in memory only.
#[derive(Debug)]
pub(super) struct TokenCache {
    file: Option<(ConfigDir, String)>,
    tokens: Mutex<BTreeMap<String, AccessToken>>,
}

impl TokenCache {
    pub(super) fn in_memory() -> Self {
        TokenCache { file: None, tokens: Mutex::default() }
    }

    pub(super) fn for_profile(context: &CommandContext, name: &ProfileName) -> Result<Self, CliError> {
        let (dir, file) = (ConfigDir::open(&context.environment, "tokens")?, file_name(name));
        // A file in another format is ignored.
        let tokens = dir.read(&file)?.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(TokenCache { file: Some((dir, file)), tokens: Mutex::new(tokens) })
    }

    pub(super) fn delete(context: &CommandContext, name: &ProfileName) -> Result<(), CliError> {
        ConfigDir::open(&context.environment, "tokens")?.remove(&file_name(name)).map(drop)
    }

    pub(super) fn get(&self, client_id: &str, scope: Scope) -> Option<AccessToken> {
        let tokens = self.tokens.lock().ok()?;
        tokens.get(&key(client_id, scope)).filter(|token| token.remaining_seconds() > EXPIRY_MARGIN_SECONDS).cloned()
    }

    pub(super) fn insert(&self, client_id: &str, scope: Scope, token: AccessToken) -> Result<(), CliError> {
        self.update(|tokens| {
            tokens.retain(|_, token| token.remaining_seconds() > EXPIRY_MARGIN_SECONDS);
            tokens.insert(key(client_id, scope), token);
        })
    }

    pub(super) fn remove(&self, client_id: &str, scope: Scope) -> Result<(), CliError> {
        self.update(|tokens| {
            tokens.remove(&key(client_id, scope));
        })
    }

    fn update(&self, update: impl FnOnce(&mut BTreeMap<String, AccessToken>)) -> Result<(), CliError> {
        let Ok(mut tokens) = self.tokens.lock() else { return Ok(()) };
        update(&mut tokens);
        match &self.file {
            Some((dir, file)) => dir.write_json(file, &*tokens),
            None => Ok(()),
        }
    }
}

fn key(client_id: &str, scope: Scope) -> String {
    format!("{client_id} {scope}")
}
