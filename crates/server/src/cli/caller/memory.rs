//! The checks that were created from here and are still open, with what their users must do: a server says it once.

use std::fmt;

use ringtrue_domain::{lifecycle::CheckId, product::Product};
use ringtrue_engine::ports::{Clock, SystemClock};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use super::{
    arguments::Identity,
    drawer::Drawer,
    profile::{ProfileName, file_of},
};
use crate::cli::{desk::Desk, failure::Failure};

/// More than anybody tries out at a time.
const MOST: usize = 50;

/// What the user of a check must do. No more than what the server said when it was created.
#[derive(Clone, Serialize, Deserialize)]
pub(super) struct Errand {
    pub check_id: String,
    product: String,
    /// The number in question; Discovery has none.
    pub number: Option<String>,
    pub task: Task,
    /// In seconds since 1970.
    expires_at: i64,
}

#[derive(Clone, Serialize, Deserialize)]
#[serde(rename_all = "snake_case")]
pub(super) enum Task {
    Text { to: String, body: String },
    Open { url: String },
}

impl Errand {
    /// `None`: nobody needs to do anything.
    pub(super) fn of(product: Product, number: Option<&str>, created: &Value) -> Option<Self> {
        let text = |name: &str| created.get(name).and_then(Value::as_str).map(str::to_owned);
        let task = match (text("receiver_phone_number"), text("expected_sms_body"), text("url")) {
            (Some(to), Some(body), _) => Task::Text { to, body },
            (_, _, Some(url)) => Task::Open { url },
            _ => return None,
        };
        let ttl = created.get("ttl").and_then(Value::as_i64).unwrap_or(0);
        Some(Errand {
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

/// Masked: there are numbers and codes in it.
impl fmt::Debug for Errand {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Errand({} {})", self.product, self.check_id)
    }
}

/// The errands of a profile, newest last.
#[derive(Debug)]
pub(super) struct Memory {
    drawer: Drawer,
    file: String,
    errands: Vec<Errand>,
}

impl Memory {
    pub(super) fn open(desk: &Desk, identity: &Identity) -> Result<Self, Failure> {
        let (drawer, file) = (drawer(desk)?, file_of(&ProfileName::of(desk, identity)?));
        let errands = drawer.read(&file)?.and_then(|text| serde_json::from_slice(&text).ok()).unwrap_or_default();
        Ok(Memory { drawer, file, errands })
    }

    pub(super) fn remember(mut self, errand: Errand) -> Result<(), Failure> {
        let now = SystemClock.now().as_second();
        self.errands.retain(|earlier| earlier.expires_at > now && earlier.check_id != errand.check_id);
        self.errands.push(errand);
        let superfluous = self.errands.len().saturating_sub(MOST);
        self.errands.drain(..superfluous);
        self.drawer.write_json(&self.file, &self.errands)
    }

    /// The errand of this check, or the last one.
    pub(super) fn recall(&self, check: Option<CheckId>) -> Result<&Errand, Failure> {
        let wanted = check.map(|check| check.to_string());
        let found = self.errands.iter().rev().find(|errand| wanted.as_ref().is_none_or(|id| *id == errand.check_id));
        found.ok_or_else(|| {
            let what = match check {
                Some(_) => "what the user of this check must do is not known here any more, or never was",
                None => "no check was created from here of late",
            };
            Failure::refused(what, "Create one, such as: ringtrue reverse-sms create +990123456700")
        })
    }

    pub(super) fn forget_all(desk: &Desk, name: &ProfileName) -> Result<(), Failure> {
        drawer(desk)?.remove(&file_of(name)).map(drop)
    }
}

fn drawer(desk: &Desk) -> Result<Drawer, Failure> {
    Drawer::open(&desk.environment, "errands")
}
