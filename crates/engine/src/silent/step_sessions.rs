//! The seam between silent checks and those whose steps they are.

use async_trait::async_trait;
use ringtrue_domain::{
    lifecycle::{CheckId, Sealed},
    silent::SilentCheck,
};

use super::secrets::SilentCheckInput;
use crate::ports::store::StoreError;

/// Redirect sessions of silent checks that are steps of something else. It holds the input of its steps, and a session
/// is stored only when the device is redirected.
#[async_trait]
pub(crate) trait StepSessions: Send + Sync {
    /// The input of an open step without a session. `None`: it is not a step, or has ended meanwhile.
    async fn input(&self, step: &SilentCheck) -> Result<Option<SilentCheckInput>, StoreError>;

    /// Stores the session of a step, unless it has one. `false`: it is not a step, or is concluded.
    async fn open(&self, step: &SilentCheck, input: Sealed) -> Result<bool, StoreError>;

    /// Where the device of a step returns. `None`: the check is not a step.
    fn verification_return(&self, step: &SilentCheck) -> Option<VerificationReturn>;
}

/// Where a device returns that has ended a step of a verification.
#[derive(derive_more::Debug)]
#[debug("VerificationReturn({id})")]
pub struct VerificationReturn {
    pub id: CheckId,
    /// Token of the hosted page.
    pub page_token: String,
    /// Whether the redirects began at the hosted page. The result then goes through the page, or to the redirect URL.
    pub began_at_page: bool,
}
