//! Searches checks by phone number.
//!
//! A search reveals whether a number was checked. To make guessing numbers slow and visible, every search writes an
//! audit event, and each account can search only a limited number of times per minute, on all nodes together.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::Action,
    lifecycle::NumberHash,
    phone::Msisdn,
    tenancy::{Project, ProjectId},
};

use super::Management;
use crate::actor::ManagementActor;
use crate::ports::{
    audit::{AuditCap, AuditCapScope},
    store::StoreError,
};

const MAX_SEARCHES_PER_WINDOW: u32 = 20;
const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// Permission to search a project's checks by one number. It is created only after the search is recorded in the audit
/// log.
#[derive(Clone, Debug)]
pub struct NumberSearchPermit {
    pub(crate) project: ProjectId,
    pub(crate) created_after: Option<Timestamp>,
    pub(crate) number: NumberHash,
}

#[derive(Debug, thiserror::Error)]
pub enum NumberSearchError {
    #[error("you have searched for {MAX_SEARCHES_PER_WINDOW} numbers within a minute; try again in a minute")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl NumberSearchError {
    /// Seconds after which another search is possible at the latest.
    pub const RETRY_AFTER_SECONDS: u32 = 60;
}

impl Management {
    /// Records a search of a project's checks by number, and permits it. The audit event names the project and the last
    /// digits of the number.
    pub async fn permit_number_search(
        &self,
        manager: &ManagementActor,
        project: &Project,
        number: &Msisdn,
    ) -> Result<NumberSearchPermit, NumberSearchError> {
        let (target, changes) = (project.id.to_string(), vec![format!("number=…{}", number.tail())]);
        let audit = manager.new_audit_event(&self.context, Action::NumberSearched, target, changes);
        let since = audit.at.saturating_sub(WINDOW).unwrap_or(audit.at);
        let cap = AuditCap { limit: MAX_SEARCHES_PER_WINDOW, since, scope: AuditCapScope::Actor };
        if !self.store.add_audit_event(&audit, cap).await? {
            return Err(NumberSearchError::TooMany);
        }
        let number = self.context.hash_number(number)?;
        Ok(NumberSearchPermit { project: project.id, created_after: project.live_since, number })
    }
}
