//! The interface through which a silent check uses the verification that it is a step of.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    silent::SilentCheck,
};

use super::secrets::SilentCheckInput;
use crate::ports::store::StoreError;

/// Redirect sessions (stored states of OAuth flows) of silent checks that are steps of a verification. The input is
/// stored with the verification, and a step's redirect session is stored only when the device is redirected.
#[async_trait]
pub(crate) trait StepSessions: Send + Sync {
    /// Returns the input of an open step that has no redirect session yet. `None`: the check is not a step, or has
    /// ended meanwhile.
    async fn find_step_input(&self, step: &SilentCheck) -> Result<Option<SilentCheckInput>, StoreError>;

    /// Stores the redirect session of a step, unless the step already has one. `false`: the check is not a step, or is
    /// concluded.
    async fn open_session(&self, step: &SilentCheck, input: Sealed) -> Result<bool, StoreError>;

    /// Returns the hosted page to which the device of a step returns. `None`: the check is not a step.
    fn verification_return(&self, step: &SilentCheck) -> Option<VerificationReturn>;
}

/// The hosted page to which a device returns after a step of a verification.
#[derive(derive_more::Debug)]
#[debug("VerificationReturn({id})")]
pub struct VerificationReturn {
    pub id: CheckId,
    /// Token in the URL of the hosted page.
    pub page_token: String,
    /// Whether the redirect began at the hosted page. If so, the device returns to the page, which sends the browser to
    /// the client's redirect URL, or redeems the code if the client has set no redirect URL.
    pub began_at_page: bool,
}
