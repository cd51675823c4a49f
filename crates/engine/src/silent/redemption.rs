//! Redeeming a redirect code, which turns the sealed operator verdict into the check's verdict.

use aws_lc_rs::constant_time::verify_slices_are_equal;
use ringtrue_domain::{
    lifecycle::{CheckId, CheckStatus, ClaimedNumber, DiscoveredNumber, ErrorCode},
    product::Product,
    silent::{MAX_WRONG_CODES, OperatorVerdict, SilentCheck},
    tenancy::ProjectId,
};

use crate::{
    Engine,
    checks::{ReadError, downcast, truncate_to_millis},
    ports::{ConcludeOutcome, RedirectSessionRecord, SilentResult, StoreError},
};

#[derive(Debug, thiserror::Error)]
pub enum RedeemError {
    #[error("wrong code")]
    WrongCode { remaining_attempts: u32 },
    #[error("the device has not completed its redirects yet")]
    NotReady,
    #[error("the check is already concluded")]
    AlreadyCompleted {
        error_code: Option<ErrorCode>,
        /// Reverse SMS is available to this end-user.
        may_use_reverse_sms: bool,
    },
    #[error("the check has expired")]
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
    /// Concludes a check with its operator's verdict, if the code is right.
    pub async fn redeem(
        &self,
        project: ProjectId,
        product: Product,
        id: CheckId,
        code: &str,
    ) -> Result<SilentCheck, RedeemError> {
        let record = self.store().redirect_session(id).await?.filter(|RedirectSessionRecord { check, .. }| {
            let is_own = check.project == project && check.product == product;
            is_own && !check.is_overdue(self.clock().now())
        });
        // `redeem_error` reads the check as the client and distinguishes foreign, unknown, expired and concluded
        // checks.
        let Some(RedirectSessionRecord { check, session: Some(progress) }) = record else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let check: SilentCheck = downcast(check)?;
        if self.has_left_sandbox(project, check.mode) {
            self.conclude_with_error(check, ErrorCode::InternalError).await?;
            return Err(self.redeem_error(project, product, id).await);
        }
        let Some(decision) = progress.verdict else { return Err(RedeemError::NotReady) };
        if progress.wrong_codes >= MAX_WRONG_CODES {
            // The request that counted the last wrong code did not conclude the check.
            self.conclude_with_error(check, ErrorCode::CodeAttemptsExceeded).await?;
            return Err(self.redeem_error(project, product, id).await);
        }
        let given = self.redirect_code_hash(id, code)?;
        if verify_slices_are_equal(&given.0, &decision.code_hash.0).is_err() {
            return Err(self.count_wrong_code(check).await?);
        }
        let proof = match self.open_reply(id, check.mode, &decision.verdict)? {
            SilentResult::Match(matched) => OperatorVerdict::Match(matched),
            SilentResult::Number(number) => OperatorVerdict::Number(DiscoveredNumber {
                number: Some(ClaimedNumber { hash: self.hash_number(&number)?, tail: number.tail() }),
                sealed: Some(self.seal_number(id, &number)?),
            }),
        };
        let Ok(concluded) = check.conclude_with_verdict(proof, truncate_to_millis(self.clock().now())) else {
            return Err(self.redeem_error(project, product, id).await);
        };
        let redeemed = concluded.check().clone();
        match (self.conclude(concluded).await?, redeemed.status()) {
            (ConcludeOutcome::Concluded { .. }, CheckStatus::Completed) => Ok(redeemed),
            // The check expired, or another request concluded it first.
            _ => Err(self.redeem_error(project, product, id).await),
        }
    }

    async fn count_wrong_code(&self, check: SilentCheck) -> Result<RedeemError, StoreError> {
        let (project, product, id) = (check.project, check.product, check.id);
        let Some(wrong) = self.store().count_wrong_code(id).await? else {
            return Ok(self.redeem_error(project, product, id).await);
        };
        let remaining_attempts = MAX_WRONG_CODES.saturating_sub(wrong);
        if remaining_attempts == 0 {
            self.conclude_with_error(check, ErrorCode::CodeAttemptsExceeded).await?;
        }
        Ok(RedeemError::WrongCode { remaining_attempts })
    }

    async fn conclude_with_error(&self, check: SilentCheck, code: ErrorCode) -> Result<(), StoreError> {
        match check.conclude_with_error(code, truncate_to_millis(self.clock().now())) {
            Ok(concluded) => self.conclude(concluded).await.map(drop),
            Err(_) => Ok(()),
        }
    }

    /// The error for a check that cannot be redeemed, by its current status.
    async fn redeem_error(&self, project: ProjectId, product: Product, id: CheckId) -> RedeemError {
        let check = match self.silent_check(project, product, id).await {
            Ok(check) => check,
            Err(error) => return error.into(),
        };
        match check.status() {
            CheckStatus::Accepted | CheckStatus::Pending => RedeemError::NotReady,
            CheckStatus::Expired => RedeemError::Expired,
            CheckStatus::Completed | CheckStatus::Error => {
                let error_code = check.error_code();
                let project = self.control_plane().project(project);
                let may_use_reverse_sms = match (error_code, project, &check.network) {
                    (Some(_), Some(project), Some(network)) => self.supports_reverse_sms_fallback(&project, network),
                    _ => false,
                };
                RedeemError::AlreadyCompleted { error_code, may_use_reverse_sms }
            }
        }
    }
}
