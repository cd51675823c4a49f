//! The interface through which silent checks use verifications, of which they may be steps.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    silent::SilentCheck,
};

use super::secrets::SilentCheckInput;
use crate::ports::store::StoreError;

/// Redirect sessions of silent checks that are steps of a verification. The verification holds the input of its steps.
/// A step's session is stored only when the device is redirected.
#[async_trait]
pub(crate) trait StepSessions: Send + Sync {
    /// Returns the input of an open step that has no session yet. `None`: the check is not a step, or has ended
    /// meanwhile.
    async fn input(&self, step: &SilentCheck) -> Result<Option<SilentCheckInput>, StoreError>;

    /// Stores the session of a step, unless it already has one. `false`: the check is not a step, or is concluded.
    async fn open(&self, step: &SilentCheck, input: Sealed) -> Result<bool, StoreError>;

    /// Returns the hosted page to which the device of a step returns. `None`: the check is not a step.
    fn verification_return(&self, step: &SilentCheck) -> Option<VerificationReturn>;
}

/// The hosted page to which a device returns after a step of a verification.
#[derive(derive_more::Debug)]
#[debug("VerificationReturn({id})")]
pub struct VerificationReturn {
    pub id: CheckId,
    /// Token of the hosted page.
    pub page_token: String,
    /// Whether the redirect began at the hosted page. If so, the page handles the result: it sends the browser to the
    /// client's redirect URL, or redeems the code itself if there is none.
    pub began_at_page: bool,
}
