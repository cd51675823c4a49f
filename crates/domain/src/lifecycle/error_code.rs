//! Error codes of checks.

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::parse_error::default_error;

/// Reason why a check was concluded with the status `ERROR`. The codes are part of the API: codes may be added, but
/// never changed or removed.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidErrorCode, parse_err_fn = default_error)]
pub enum ErrorCode {
    /// The service itself failed, or an SMS with a valid code has a sender that does not identify a subscriber.
    InternalError,
    /// The IP address of the device does not belong to a mobile network.
    NotMobileIp,
    /// The device used another IP address than the one that the client announced, or changed its address after the
    /// redirect.
    IpMismatch,
    /// The device is on another network than the one that serves the number.
    IpMsisdnMismatch,
    /// No connector serves the operator of the device or the number.
    MnoNotSupported,
    /// The operator's connector does not support redirects.
    MnoRedirectUnsupported,
    /// The operator did not respond in time.
    MnoTimeout,
    /// The operator cannot identify the subscriber.
    MnoUserNotFound,
    /// The operator's response is invalid.
    MnoResponseError,
    /// The operator failed or rejected our credentials.
    MnoServerError,
    /// The operator has no data, or may not disclose it.
    MnoNoDataAvailable,
    /// Too many wrong codes were submitted.
    CodeAttemptsExceeded,
    /// No method of the verification is left.
    MethodsExhausted,
    /// The client or the end-user gave up this step of a verification, or the end-user gave up the whole verification.
    GivenUp,
    /// The end-user said that the number of the verification is not theirs.
    WrongNumber,
    /// The client cancelled the verification.
    Cancelled,
    /// This step of a verification could not begin, because there were too many checks of the number.
    TooManyRequests,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code of a check")]
pub struct InvalidErrorCode;
