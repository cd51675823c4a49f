//! Redeeming the code that a device brought back: only then does the operator's word become the check's verdict.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ringtrue_domain::{
    lifecycle::{CheckId, ClaimedNumber, DiscoveredNumber, ErrorCode, Status},
    product::Product,
    silent::{Proof, SilentCheck, WRONG_CODES},
    tenancy::ProjectId,
};

use crate::{
    Engine,
    checks::{ReadError, narrowed, whole_millis},
    ports::{JourneyRecord, Recorded, Reply, StoreError},
};

/// Why a code reveals nothing.
#[derive(Debug, thiserror::Error)]
pub enum RedeemError {
    #[error("this is not the code of this check")]
    WrongCode {
        /// How many more wrong ones are taken.
        left: u32,
    },
    #[error("the device has not been through the redirect chain yet")]
    NotReady,
    #[error("the check has ended already")]
    AlreadyCompleted {
        error_code: Option<ErrorCode>,
        /// Whether the user can be verified by Reverse SMS instead.
        falls_back: bool,
    },
    #[error("the check's time is up")]
    Expired,
    #[error(transparent)]
    Read(#[from] ReadError),
}

impl From<StoreError> for RedeemError {
    fn from(error: StoreError) -> Self {
        RedeemError::Read(error.into())
    }
}

impl Engine {
    /// Ends a check with what its operator said, if this is its code.
    pub async fn redeem(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
        code: &str,
    ) -> Result<SilentCheck, RedeemError> {
        let record = self.store().journey(id).await?.filter(|JourneyRecord { check, .. }| {
            let is_callers = check.project == project && check.product == product;
            is_callers && !check.is_overdue(self.clock().now())
        });
        // Whoever else's it is, and however it ended, is for a reading of the caller's own to say.
        let Some(JourneyRecord { check, progress: Some(progress) }) = record else {
            return Err(self.why_not(project, product, id).await);
        };
        let check: SilentCheck = narrowed(check)?;
        if self.has_left_sandbox(project, check.mode) {
            self.end_with(check, ErrorCode::InternalError).await?;
            return Err(self.why_not(project, product, id).await);
        }
        let Some(decision) = progress.decision else { return Err(RedeemError::NotReady) };
        if progress.wrong_codes >= WRONG_CODES {
            // Whoever counted the last one did not come to record the end.
            self.end_with(check, ErrorCode::CodeAttemptsExceeded).await?;
            return Err(self.why_not(project, product, id).await);
        }
        let given = self.redirect_code_hash(id, code)?;
        if verify_slices_are_equal(&given.0, &decision.code.0).is_err() {
            return Err(self.count_wrong_code(check).await?);
        }
        let proof = match self.open_reply(id, check.mode, &decision.proof)? {
            Reply::Match(matched) => Proof::Match(matched),
            Reply::Number(number) => Proof::Number(DiscoveredNumber {
                number: Some(ClaimedNumber { hash: self.number_hash(&number)?, tail: number.tail() }),
                sealed: Some(self.seal_number(id, &number)?),
            }),
        };
        let Ok(concluded) = check.redeem(proof, whole_millis(self.clock().now())) else {
            return Err(self.why_not(project, product, id).await);
        };
        let redeemed = concluded.check().clone();
        match (self.conclude(concluded).await?, redeemed.status()) {
            (Recorded::Now { .. }, Status::Completed) => Ok(redeemed),
            // Its time ran out, or someone else was first.
            _ => Err(self.why_not(project, product, id).await),
        }
    }

    async fn count_wrong_code(&self, check: SilentCheck) -> Result<RedeemError, StoreError> {
        let (project, product, id) = (check.project, check.product, check.id);
        let Some(wrong) = self.store().count_wrong_code(id).await? else {
            return Ok(self.why_not(project, product, id).await);
        };
        let left = WRONG_CODES.saturating_sub(wrong);
        if left == 0 {
            self.end_with(check, ErrorCode::CodeAttemptsExceeded).await?;
        }
        Ok(RedeemError::WrongCode { left })
    }

    async fn end_with(&self, check: SilentCheck, code: ErrorCode) -> Result<(), StoreError> {
        match check.fail(code, whole_millis(self.clock().now())) {
            Ok(concluded) => self.conclude(concluded).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// How a check ended that nothing can be redeemed from.
    async fn why_not(&self, project: ProjectId, product: Product, id: CheckId) -> RedeemError {
        let check = match self.silent_check(project, product, id).await {
            Ok(check) => check,
            Err(error) => return error.into(),
        };
        match check.status() {
            Status::Accepted | Status::Pending => RedeemError::NotReady,
            Status::Expired => RedeemError::Expired,
            Status::Completed | Status::Error => {
                let error_code = check.error_code();
                let project = self.control_plane().project(project);
                let falls_back = match (error_code, project, &check.network) {
                    (Some(_), Some(project), Some(network)) => self.is_open_to_reverse_sms(&project, network),
                    _ => false,
                };
                RedeemError::AlreadyCompleted { error_code, falls_back }
            }
        }
    }
}
