//! Errors that creating or reading a check can return.

use jiff::Timestamp;
use ringtrue_domain::{phone::InvalidPhoneNumber, sim_swap::InvalidSimSwapPeriod, web_url::UrlError};

use crate::{lookups::operator_access::RouteError, ports::store::StoreError};

#[derive(Debug, thiserror::Error)]
pub enum CreateError {
    #[error("the project is disabled")]
    ProjectDisabled,
    #[error("`/callback_url`: {0}")]
    CallbackUrl(UrlError),
    #[error("`/redirect_url`: {0}")]
    RedirectUrl(UrlError),
    #[error("`/phone_number`: {0}")]
    PhoneNumber(#[from] InvalidPhoneNumber),
    #[error("`/period`: {0}")]
    Period(#[from] InvalidSimSwapPeriod),
    #[error("`/device_ip`: invalid address: expected a plain IPv4 or IPv6 address")]
    DeviceIp,
    #[error("no supported operator serves this number")]
    MnoNotSupported,
    #[error("silent checks are not supported for this number; use Reverse SMS")]
    OnlyReverseSms,
    #[error("this project is not allowed to use the number's network for this product")]
    NetworkNotAllowed,
    #[error("number lookup unavailable; try again later")]
    LookupUnavailable,
    #[error("too many checks for this number in this project; retry after the given time")]
    TooManyChecks { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

impl From<RouteError> for CreateError {
    fn from(error: RouteError) -> Self {
        match error {
            RouteError::MnoNotSupported => CreateError::MnoNotSupported,
            RouteError::OnlyReverseSms => CreateError::OnlyReverseSms,
            RouteError::NetworkNotAllowed => CreateError::NetworkNotAllowed,
            RouteError::LookupUnavailable => CreateError::LookupUnavailable,
        }
    }
}

impl CreateError {
    /// Creates the error for a number that has reached its limit of checks. `until`: when the next check is permitted.
    pub(crate) fn too_many_checks(now: Timestamp, until: Timestamp) -> Self {
        let wait = (until.as_millisecond() - now.as_millisecond()).max(1);
        CreateError::TooManyChecks { retry_after: u32::try_from((wait + 999) / 1000).unwrap_or(u32::MAX) }
    }
}

#[derive(Debug, thiserror::Error)]
pub enum ReadError {
    #[error("check not found")]
    NotFound,
    #[error("this check belongs to another project")]
    OtherProject,
    #[error(transparent)]
    Store(#[from] StoreError),
}
