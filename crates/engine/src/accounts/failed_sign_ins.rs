//! Writes audit events for rejected sign-ins.
//!
//! Anybody can cause these events. To keep strangers from filling the audit log, at most a few per minute are written
//! for each account, and the same number for all sign-ins to unknown accounts together. An event never contains what
//! the user typed.

use std::sync::Arc;

use jiff::SignedDuration;
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor, AuditEvent},
};

use super::Accounts;
use crate::ports::audit::{AuditCap, AuditCapScope};

const MAX_EVENTS_PER_WINDOW: u32 = 5;
const WINDOW: SignedDuration = SignedDuration::from_mins(1);
/// [`AuditEvent::target`] of a rejected sign-in that named no existing account.
const UNKNOWN_ACCOUNT: &str = "unknown";

/// The part of a sign-in that was wrong. The audit log stores the name of the variant.
#[derive(Clone, Copy, Debug, PartialEq, Eq, strum::IntoStaticStr)]
#[strum(const_into_str, serialize_all = "snake_case")]
pub enum RejectedFactor {
    Password,
    SecondFactor,
    #[strum(serialize = "openid_connect")]
    OpenIdConnect,
}

impl Accounts {
    /// Records a rejected sign-in in the background. If the request waited for the write, its response time would
    /// reveal whether an event was written, and so whether the account exists.
    pub fn record_failed_sign_in(&self, account: Option<AccountId>, factor: RejectedFactor) {
        let target = account.map_or_else(|| UNKNOWN_ACCOUNT.to_owned(), |account| account.to_string());
        let event = self.context.new_audit_event(Actor::System, Action::AccountSignInFailed, None, target);
        let audit = AuditEvent { changes: vec![factor.into_str().to_owned()], ..event };
        let since = audit.at.saturating_sub(WINDOW).unwrap_or(audit.at);
        let cap = AuditCap { limit: MAX_EVENTS_PER_WINDOW, since, scope: AuditCapScope::Target };
        let store = Arc::clone(&self.store);
        self.tasks.spawn(async move {
            if let Err(error) = store.add_audit_event(&audit, cap).await {
                tracing::warn!(%error, "failed to record a rejected sign-in");
            }
        });
    }

    /// Waits until all rejected sign-ins are recorded.
    pub async fn wait_until_idle(&self) {
        self.tasks.wait().await;
    }
}
