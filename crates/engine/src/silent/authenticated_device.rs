//! What clients of the authorization endpoint read before a check is concluded: the number that Discovery has found, and
//! devices that the operator has recognised for Secure SNA, whose number follows later (CAMARA's network
//! authentication). Clients may also bring an operator token, which they got from the phone's wallet themselves.

use std::time::Duration;

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    camara::NETWORK_AUTHENTICATION_SECONDS,
    lifecycle::{Check, CheckId, ErrorCode, Lifecycle, OpenState},
    phone::Msisdn,
    product::Product,
    silent::{OperatorVerdict, SilentCheck, SilentWay},
    tenancy::{Project, ProjectId},
};
use tokio::time::timeout;

use super::{
    RedeemError, SilentFlow,
    secrets::{SilentCheckInput, corrupt_session_error, seal_input},
};
use crate::{
    checks::{CreateError, downcast, require_enabled_project},
    ports::{
        checks::{ConcludeOutcome, Expectation, NewCheck},
        silent::{AuthenticatedDevice, DeviceQuestion, NumberQuestion, SilentResult, TakenVerdict},
        store::StoreError,
    },
};

/// Maximum time for the operator's response. The API client waits for its own response during that time.
const OPERATOR_TIMEOUT: Duration = Duration::from_secs(10);

#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyDeviceError {
    /// The check has expired, was concluded, or belongs to a project that has gone live since.
    #[error("the device is no longer authenticated")]
    NotAuthenticated,
    /// The check is concluded with this error.
    #[error("the operator could not verify the number: {0}")]
    Failed(ErrorCode),
    #[error(transparent)]
    Store(#[from] StoreError),
}

#[derive(Debug, thiserror::Error)]
pub(crate) enum VerifyTokenError {
    #[error(transparent)]
    Create(#[from] CreateError),
    /// The check is concluded with this error.
    #[error("the operator could not verify the number: {0}")]
    Failed(ErrorCode),
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl SilentFlow {
    /// Returns the number that the operator has found for an open Discovery check, if `code` is the one that the device
    /// got. Does not conclude the check.
    pub(crate) async fn discovered_number(
        &self,
        project: ProjectId,
        check: CheckId,
        code: &str,
    ) -> Result<Msisdn, RedeemError> {
        match self.unseal_verdict(project, Product::Discovery, check, code).await? {
            (_, SilentResult::Number(number), _) => Ok(number),
            _ => Err(corrupt_session_error(check).into()),
        }
    }

    /// Whether the operator has recognised the device of a check, and `code` is the one that the device got.
    pub(crate) async fn is_device_recognised(
        &self,
        project: ProjectId,
        check: CheckId,
        code: &str,
    ) -> Result<bool, RedeemError> {
        let (_, result, _) = self.unseal_verdict(project, Product::SecureSna, check, code).await?;
        Ok(matches!(result, SilentResult::Device(_)))
    }

    /// Asks the operator whether a device that it has recognised has a number, and concludes the check. This is done
    /// once for a device: further calls fail with [`NotAuthenticated`](VerifyDeviceError::NotAuthenticated).
    pub(crate) async fn verify_device(
        &self,
        project: ProjectId,
        id: CheckId,
        number: &NumberQuestion,
    ) -> Result<(SilentCheck, bool), VerifyDeviceError> {
        let taken = self.store.take_verdict(id).await?.filter(|TakenVerdict { check, .. }| {
            let is_own = check.project == project && check.product == Product::SecureSna;
            is_own && !check.is_overdue(self.context.now()) && !self.context.has_left_sandbox(project, check.mode)
        });
        let Some(TakenVerdict { check, verdict }) = taken else { return Err(VerifyDeviceError::NotAuthenticated) };
        let check: SilentCheck = downcast(check)?;
        let (SilentResult::Device(device), way) = self.unseal_result(id, check.mode, &verdict)? else {
            return Err(corrupt_session_error(id).into());
        };
        let answer = self.ask_about_device(id, &device, number).await;
        let now = self.context.now();
        let concluded = match answer {
            Ok(matched) => check.clone().conclude_with_verdict(OperatorVerdict::Match(matched), now),
            Err(code) => check.clone().conclude_with_error(code, now),
        };
        let Ok(concluded) = concluded else { return Err(VerifyDeviceError::NotAuthenticated) };
        let check = concluded.check().clone();
        match (self.checks.conclude_with_provenance(concluded, way.into()).await?, answer) {
            (ConcludeOutcome::Concluded { .. }, Ok(matched)) => Ok((check, matched)),
            (_, Err(code)) => Err(VerifyDeviceError::Failed(code)),
            (_, Ok(_)) => Err(VerifyDeviceError::NotAuthenticated),
        }
    }

    /// Makes a Secure SNA check by asking a number's operator about a token that a phone's wallet has handed out to the
    /// project's own request. Whether the phone has this SIM is for the operator to say, which accepts a token once.
    pub(crate) async fn verify_operator_token(
        &self,
        project: &Project,
        number: &Msisdn,
        token: &str,
    ) -> Result<(SilentCheck, bool), VerifyTokenError> {
        require_enabled_project(project)?;
        let operators = self.operators.for_mode(project.mode);
        let network = operators.silent_network(project, Product::SecureSna, number).await.map_err(CreateError::from)?;
        let connector = operators.operator_token_connector(&network).ok_or(CreateError::MnoNotSupported)?;
        let verifier = connector.operator_token_verifier().ok_or(CreateError::MnoNotSupported)?;
        let now = self.context.now();
        let claimed = self.context.hash_number_with_tail(number)?;
        let id = CheckId(self.context.new_uuid(now));
        let lifetime = SignedDuration::from_secs(NETWORK_AUTHENTICATION_SECONDS.into());
        let check: SilentCheck = Check {
            id,
            project: project.id,
            product: Product::SecureSna,
            mode: project.mode,
            verification: None,
            network: Some(network),
            claimed: Some(claimed),
            reference: None,
            callback_url: None,
            redirect_url: None,
            created_at: now,
            expires_at: now.saturating_add(lifetime).unwrap_or(Timestamp::MAX),
            state: Lifecycle::Open(OpenState::Accepted),
        };
        let input = SilentCheckInput { number: Some(number.clone()), expected_address: None };
        let new = NewCheck {
            check: check.clone().map(Into::into),
            expectation: Expectation::Device { input: seal_input(&self.context, id, &input)? },
            number_limit: None,
            idempotent_response: None,
            verification: None,
        };
        self.checks.store_check(new).await?;
        let answer = timeout(OPERATOR_TIMEOUT, verifier.verify_number_with_token(id, number, token)).await;
        let answer = answer.unwrap_or(Err(ErrorCode::MnoTimeout));
        let now = self.context.now();
        let concluded = match answer {
            Ok(matched) => check.clone().conclude_with_verdict(OperatorVerdict::Match(matched), now),
            Err(code) => check.clone().conclude_with_error(code, now),
        };
        // The operator answers long before the check expires.
        let concluded = concluded.map_err(|problem| StoreError::Refused(problem.to_string()))?;
        let check = concluded.check().clone();
        match (self.checks.conclude_with_provenance(concluded, SilentWay::OperatorToken.into()).await?, answer) {
            (ConcludeOutcome::Concluded { .. }, Ok(matched)) => Ok((check, matched)),
            (_, Err(code)) => Err(VerifyTokenError::Failed(code)),
            (_, Ok(_)) => Err(VerifyTokenError::Failed(ErrorCode::InternalError)),
        }
    }

    async fn ask_about_device(
        &self,
        check: CheckId,
        device: &AuthenticatedDevice,
        number: &NumberQuestion,
    ) -> Result<bool, ErrorCode> {
        let connector = self.operators.silent_connector(&device.connector).ok_or(ErrorCode::MnoRedirectUnsupported)?;
        let question = DeviceQuestion { check, device_data: &device.data, number };
        timeout(OPERATOR_TIMEOUT, connector.verify_device(question)).await.unwrap_or(Err(ErrorCode::MnoTimeout))
    }
}
