//! Open checks created with a profile, and the action their users must take. The server returns it only on creation.

use std::fmt;

use ringtrue_domain::{lifecycle::CheckId, product::Product};
use ringtrue_engine::ports::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    arguments::ProfileOption,
    config_dir::ConfigDir,
    profile::{ProfileName, file_name},
};
use crate::cli::{context::CommandContext, error::CliError};

const MAX_PENDING_ACTIONS: usize = 50;

/// Action that the user of a check must take, from the response to its creation.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct PendingAction {
    pub check_id: String,
    product: String,
    /// Claimed number; `None` for Discovery.
    pub number: Option<String>,
    pub task: UserAction,
    /// In seconds since 1970.
    expires_at: i64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum UserAction {
    Text { to: String, body: String },
    Open { url: String },
}

impl PendingAction {
    /// `None`: the check needs no user action.
    pub(super) fn from_created(product: Product, number: Option<&str>, created: &Value) -> Option<Self> {
        let text = |name: &str| created.get(name).and_then(Value::as_str).map(str::to_owned);
        let task = match (text("receiver_phone_number"), text("expected_sms_body"), text("url")) {
            (Some(to), Some(body), _) => UserAction::Text { to, body },
            (_, _, Some(url)) => UserAction::Open { url },
            _ => return None,
        };
        let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(0);
        Some(PendingAction {
            check_id: text("check_id")?,
            product: product.as_str().to_owned(),
            number: number.map(str::to_owned),
            task,
            expires_at: SystemClock.now().as_second() + ttl,
        })
    }

    pub(super) fn product(&self) -> Option<Product> {
        self.product.parse().ok()
    }
}

/// Masked: it holds numbers and codes.
impl fmt::Debug for PendingAction {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "PendingAction({} {})", self.product, self.check_id)
    }
}

/// Pending actions of a profile, newest last.
#[derive(Debug)]
pub(super) struct PendingActions {
    dir: ConfigDir,
    file: String,
    actions: Vec<PendingAction>,
}

impl PendingActions {
    pub(super) fn open(context: &CommandContext, profile_option: &ProfileOption) -> Result<Self, CliError> {
        let (dir, file) = (open_dir(context)?, file_name(&ProfileName::resolve(context, profile_option)?));
        let actions = dir.read(&file)?.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(PendingActions { dir, file, actions })
    }

    pub(super) fn add(mut self, action: PendingAction) -> Result<(), CliError> {
        let now = SystemClock.now().as_second();
        self.actions.retain(|earlier| earlier.expires_at > now && earlier.check_id != action.check_id);
        self.actions.push(action);
        let excess = self.actions.len().saturating_sub(MAX_PENDING_ACTIONS);
        self.actions.drain(..excess);
        self.dir.write_json(&self.file, &self.actions)
    }

    /// Returns the action of this check, or the most recent one.
    pub(super) fn find(&self, check: Option<CheckId>) -> Result<&PendingAction, CliError> {
        let check_id = check.map(|check| check.to_string());
        let found = self.actions.iter().rev().find(|action| check_id.as_ref().is_none_or(|id| *id == action.check_id));
        found.ok_or_else(|| {
            let message = match check {
                Some(_) => "this check was not created with this profile, or has expired",
                None => "no recent check in this profile",
            };
            CliError::with_hint(message, "Create one, for example: ringtrue reverse-sms create +990123456700")
        })
    }

    pub(super) fn delete(context: &CommandContext, name: &ProfileName) -> Result<(), CliError> {
        open_dir(context)?.remove(&file_name(name)).map(drop)
    }
}

fn open_dir(context: &CommandContext) -> Result<ConfigDir, CliError> {
    ConfigDir::open(&context.environment, "errands")
}
