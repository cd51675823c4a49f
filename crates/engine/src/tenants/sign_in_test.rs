//! Tests of a project's sign-in by its own developers, in the console.
//!
//! The console redeems the code of such a test without the client's secret, which it does not have. So a test shows what
//! the client would get: the claims about a user. Every test writes an audit event, and each account can end only a
//! limited number of tests per minute, on all nodes together.

use jiff::SignedDuration;
use ringtrue_domain::{
    audit::Action,
    tenancy::{ClientId, Project, ProjectId},
};

use super::Management;
use crate::actor::ManagementActor;
use crate::ports::{
    audit::{AuditCap, AuditCapScope},
    store::StoreError,
};

const MAX_TESTS_PER_WINDOW: u32 = 20;
const WINDOW: SignedDuration = SignedDuration::from_mins(1);

/// Permission to redeem one code of a project's client without the client's secret. It is created only after the test is
/// recorded in the audit log.
#[derive(Clone, Debug)]
pub struct SignInTestPermit {
    pub(crate) project: ProjectId,
    pub(crate) client: ClientId,
}

#[derive(Debug, thiserror::Error)]
pub enum SignInTestError {
    #[error("you have tested {MAX_TESTS_PER_WINDOW} sign-ins within a minute; try again in a minute")]
    TooMany,
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl Management {
    /// Permits a developer's test of a project's sign-in, unless the account has reached its limit. Records the test in
    /// the audit log first; the event names the client.
    pub async fn permit_sign_in_test(
        &self,
        manager: &ManagementActor,
        project: &Project,
        client: &ClientId,
    ) -> Result<SignInTestPermit, SignInTestError> {
        let (target, changes) = (project.id.to_string(), vec![format!("client={client}")]);
        let audit = manager.new_audit_event(&self.context, Action::SignInTested, target, changes);
        let since = audit.at.saturating_sub(WINDOW).unwrap_or(audit.at);
        let cap = AuditCap { limit: MAX_TESTS_PER_WINDOW, since, scope: AuditCapScope::Actor };
        if !self.store.add_audit_event(&audit, cap).await? {
            return Err(SignInTestError::TooMany);
        }
        Ok(SignInTestPermit { project: project.id, client: client.clone() })
    }
}
