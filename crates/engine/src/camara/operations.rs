//! The operations of CAMARA's Number Verification and SIM Swap.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode},
    phone::Msisdn,
    product::Product,
    silent::SilentCheck,
    sim_swap::{SimHistory, SimSwapPeriod},
    tenancy::Project,
};

use super::Camara;
use crate::{
    checks::{CreateError, ReadError, sim_swap::CreateSimSwap},
    lookups::eligibility::EligibilityError,
    ports::{hashes::TokenHash, silent::NumberQuestion, store::StoreError},
    silent::{VerifyDeviceError, VerifyTokenError},
    tokens::{CamaraBearer, CamaraSubject},
};

/// The longest period that `check` covers, and the one that `retrieve-date` asks for: 100 days.
const MAX_AGE_MINUTES: i64 = 2_400 * 60;
/// `maxAge` of a request without one.
const DEFAULT_MAX_AGE_HOURS: u16 = 240;
const HOURS_PER_DAY: i64 = 24;

/// Why a number could not be verified or returned.
#[derive(Debug, thiserror::Error)]
pub enum VerifyError {
    /// The client got its token by another flow.
    #[error("the token does not come from network authentication")]
    NotAuthenticatedByNetwork,
    /// The token was used before, or its device is no longer authenticated.
    #[error("the access token was used before; it is valid for one request")]
    Used,
    /// The operator could not answer.
    #[error("the operator could not answer")]
    Operator(ErrorCode),
    #[error(transparent)]
    Create(#[from] CreateError),
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// A question about the SIM of a number.
#[derive(Clone, Copy, derive_more::Debug)]
pub struct SimSwapQuestion<'a> {
    /// The number in the request. `None`: the request has none.
    #[debug(skip)]
    pub number: Option<&'a str>,
    /// Hours before now within which a change counts.
    pub max_age: Option<u16>,
}

/// When the SIM of a number was last changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LatestSimChange {
    At(Timestamp),
    /// There was no change within this number of days. The operator has no older data.
    NotWithin {
        days: i64,
    },
}

#[derive(Debug, thiserror::Error)]
pub enum SimSwapError {
    #[error("the request must contain `phoneNumber`, because the token does not stand for a user")]
    MissingIdentifier,
    #[error("the request must not contain `phoneNumber`, because the token stands for a user")]
    UnnecessaryIdentifier,
    /// The token stands for a device whose number is not known.
    #[error("the token is for Number Verification only")]
    WrongToken,
    #[error("the operator monitors SIM changes for {monitored_hours} hours only")]
    MaxAgeOutOfRange { monitored_hours: i64 },
    #[error("the operator does not report when the SIM was changed")]
    NoDate,
    #[error("no active subscriber has this number")]
    NoSubscriber,
    #[error("the operator could not answer")]
    Operator(ErrorCode),
    #[error(transparent)]
    Create(#[from] CreateError),
}

impl Camara {
    /// Whether the user's device has a number. The token can be used once.
    pub async fn verify_number(
        &self,
        bearer: &CamaraBearer,
        question: &NumberQuestion,
    ) -> Result<(CheckId, bool), VerifyError> {
        let project = &*bearer.project;
        match &bearer.subject {
            CamaraSubject::Client | CamaraSubject::User { .. } => Err(VerifyError::NotAuthenticatedByNetwork),
            CamaraSubject::Device { check } => {
                let verified = self.silent.verify_device(project.id, *check, question).await;
                let (check, matched) = verified.map_err(|error| match error {
                    VerifyDeviceError::NotAuthenticated => VerifyError::Used,
                    VerifyDeviceError::Failed(code) => VerifyError::Operator(code),
                    VerifyDeviceError::Store(error) => VerifyError::Store(error),
                })?;
                Ok((check.id, matched))
            }
            CamaraSubject::Phone { operator_token } => {
                let NumberQuestion::Plain(number) = question else {
                    // Only the number leads to the operator.
                    return Err(CreateError::MnoNotSupported.into());
                };
                self.use_token(bearer).await?;
                let verified = self.silent.verify_operator_token(project, number, operator_token).await;
                let (check, matched) = verified.map_err(|error| match error {
                    VerifyTokenError::Create(error) => VerifyError::Create(error),
                    // The operator refuses the token.
                    VerifyTokenError::Failed(ErrorCode::MnoResponseError) => VerifyError::NotAuthenticatedByNetwork,
                    VerifyTokenError::Failed(code) => VerifyError::Operator(code),
                    VerifyTokenError::Store(error) => VerifyError::Store(error),
                })?;
                Ok((check.id, matched))
            }
            CamaraSubject::NetworkUser { number, check } => {
                let network = self.discovery_check(project, *check).await?.and_then(|check| check.network);
                self.use_token(bearer).await?;
                let claimed = match question {
                    NumberQuestion::Plain(claimed) => Some(claimed),
                    NumberQuestion::Hashed(_) => None,
                };
                let matched = question.matches(number);
                let check = self.checks.create_concluded_match(project, network, claimed, matched).await?;
                Ok((check.id, matched))
            }
        }
    }

    /// Returns the number of the user's device, and the Discovery check that has found it. The token can be used once.
    pub async fn device_number(&self, bearer: &CamaraBearer) -> Result<(CheckId, Msisdn), VerifyError> {
        let CamaraSubject::NetworkUser { number, check } = &bearer.subject else {
            return Err(VerifyError::NotAuthenticatedByNetwork);
        };
        self.use_token(bearer).await?;
        Ok((*check, number.clone()))
    }

    /// Whether the SIM of a number was changed within the last `max_age` hours.
    pub async fn check_sim_swap(
        &self,
        bearer: &CamaraBearer,
        question: SimSwapQuestion<'_>,
    ) -> Result<(CheckId, bool), SimSwapError> {
        let hours = i64::from(question.max_age.unwrap_or(DEFAULT_MAX_AGE_HOURS));
        let period = SimSwapPeriod::try_from(hours * 60).map_err(CreateError::from)?;
        let (id, is_unchanged, history) = self.ask_about_sim(bearer, question.number, period).await?;
        match history {
            SimHistory::NoChangeFor(monitored) if monitored < period.duration() => {
                Err(SimSwapError::MaxAgeOutOfRange { monitored_hours: monitored.as_hours() })
            }
            _ => Ok((id, !is_unchanged)),
        }
    }

    /// Returns when the SIM of a number was last changed.
    pub async fn latest_sim_change(
        &self,
        bearer: &CamaraBearer,
        question: SimSwapQuestion<'_>,
    ) -> Result<(CheckId, LatestSimChange), SimSwapError> {
        let period = SimSwapPeriod::try_from(MAX_AGE_MINUTES).map_err(CreateError::from)?;
        let (id, _, history) = self.ask_about_sim(bearer, question.number, period).await?;
        match history {
            SimHistory::ChangedAt(at) => Ok((id, LatestSimChange::At(at))),
            SimHistory::NoChangeFor(monitored) => {
                Ok((id, LatestSimChange::NotWithin { days: monitored.as_hours() / HOURS_PER_DAY }))
            }
            SimHistory::ChangedWithin(_) => Err(SimSwapError::NoDate),
        }
    }

    /// Makes a SIM Swap check. Returns its id, whether the SIM is unchanged, and the operator's report.
    async fn ask_about_sim(
        &self,
        bearer: &CamaraBearer,
        number: Option<&str>,
        period: SimSwapPeriod,
    ) -> Result<(CheckId, bool, SimHistory), SimSwapError> {
        let number = match (&bearer.subject, number) {
            (CamaraSubject::Client, Some(number)) => number,
            (CamaraSubject::Client, None) => return Err(SimSwapError::MissingIdentifier),
            (CamaraSubject::Device { .. } | CamaraSubject::Phone { .. }, _) => return Err(SimSwapError::WrongToken),
            (_, Some(_)) => return Err(SimSwapError::UnnecessaryIdentifier),
            (CamaraSubject::User { number } | CamaraSubject::NetworkUser { number, .. }, None) => number.as_str(),
        };
        let request = CreateSimSwap { phone_number: number.to_owned(), period: Some(Ok(period)), reference: None };
        let created = self.checks.create_sim_swap_with_history(&bearer.project, request, None).await;
        let (check, history) = match created {
            Ok(created) => created,
            Err(CreateError::MnoNotSupported) if self.has_no_subscriber(&bearer.project, number).await => {
                return Err(SimSwapError::NoSubscriber);
            }
            Err(error) => return Err(error.into()),
        };
        match (check.verdict(), history) {
            (Some(verdict), Some(history)) => Ok((check.id, verdict.no_sim_change, history)),
            _ => Err(SimSwapError::Operator(check.error_code().unwrap_or(ErrorCode::InternalError))),
        }
    }

    async fn has_no_subscriber(&self, project: &Project, number: &str) -> bool {
        let found = self.checks.eligibility_of_number(project, number).await;
        matches!(found, Err(EligibilityError::NoSubscriber))
    }

    /// Records the use of a token that is valid for one request.
    async fn use_token(&self, bearer: &CamaraBearer) -> Result<(), VerifyError> {
        let hash = self.context.keyed_hash(&[b"camara-token-use", bearer.token.0.as_bytes()])?;
        // Clocks of nodes differ slightly.
        let kept_until = bearer.expires_at.saturating_add(SignedDuration::from_mins(1)).unwrap_or(Timestamp::MAX);
        let is_first_use = self.store.record_assertion(TokenHash(hash), kept_until).await?;
        if is_first_use { Ok(()) } else { Err(VerifyError::Used) }
    }

    async fn discovery_check(&self, project: &Project, id: CheckId) -> Result<Option<SilentCheck>, StoreError> {
        match self.silent.silent_check(project.id, Product::Discovery, id).await {
            Ok(check) => Ok(Some(check)),
            Err(ReadError::Store(error)) => Err(error),
            Err(_) => Ok(None),
        }
    }
}
