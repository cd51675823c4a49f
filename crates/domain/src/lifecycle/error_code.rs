//! Error codes of checks.

use std::{fmt, str::FromStr};

/// Reason why a check concluded with status `ERROR`. Part of the API: codes are only added.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// The service failed.
    InternalError,
    /// The IP address of the device does not belong to a mobile network.
    NotMobileIp,
    /// The device used another IP address than the announced one.
    IpMismatch,
    /// The device is on another network than the number.
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
    /// The caller or the end-user gave up this step of a verification.
    GivenUp,
    /// Too many checks of the number: this step of a verification could not begin.
    TooManyRequests,
}

impl ErrorCode {
    pub const ALL: [ErrorCode; 15] = [
        ErrorCode::InternalError,
        ErrorCode::NotMobileIp,
        ErrorCode::IpMismatch,
        ErrorCode::IpMsisdnMismatch,
        ErrorCode::MnoNotSupported,
        ErrorCode::MnoRedirectUnsupported,
        ErrorCode::MnoTimeout,
        ErrorCode::MnoUserNotFound,
        ErrorCode::MnoResponseError,
        ErrorCode::MnoServerError,
        ErrorCode::MnoNoDataAvailable,
        ErrorCode::CodeAttemptsExceeded,
        ErrorCode::MethodsExhausted,
        ErrorCode::GivenUp,
        ErrorCode::TooManyRequests,
    ];

    pub fn as_str(self) -> &'static str {
        match self {
            ErrorCode::InternalError => "internal_error",
            ErrorCode::NotMobileIp => "not_mobile_ip",
            ErrorCode::IpMismatch => "ip_mismatch",
            ErrorCode::IpMsisdnMismatch => "ip_msisdn_mismatch",
            ErrorCode::MnoNotSupported => "mno_not_supported",
            ErrorCode::MnoRedirectUnsupported => "mno_redirect_unsupported",
            ErrorCode::MnoTimeout => "mno_timeout",
            ErrorCode::MnoUserNotFound => "mno_user_not_found",
            ErrorCode::MnoResponseError => "mno_response_error",
            ErrorCode::MnoServerError => "mno_server_error",
            ErrorCode::MnoNoDataAvailable => "mno_no_data_available",
            ErrorCode::CodeAttemptsExceeded => "code_attempts_exceeded",
            ErrorCode::MethodsExhausted => "methods_exhausted",
            ErrorCode::GivenUp => "given_up",
            ErrorCode::TooManyRequests => "too_many_requests",
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown error code of a check")]
pub struct InvalidErrorCode;

impl FromStr for ErrorCode {
    type Err = InvalidErrorCode;

    fn from_str(text: &str) -> Result<Self, InvalidErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.as_str() == text).ok_or(InvalidErrorCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_str_round_trips() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
        }
    }
}
