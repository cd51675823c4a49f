//! Why checks end in an error.

use std::{fmt, str::FromStr};

/// Why a check ended in an error. Grows additively.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum ErrorCode {
    /// Our own fault.
    InternalError,
    /// The device does not come from a mobile network.
    NotMobileIp,
    /// The device comes from another address than the one that was announced.
    IpMismatch,
    /// The device comes from another network than the number's.
    IpMsisdnMismatch,
    /// No operator that we reach serves the device or the number.
    MnoNotSupported,
    /// The operator is reached, but not by sending devices to it.
    MnoRedirectUnsupported,
    /// The operator did not answer in time.
    MnoTimeout,
    /// The operator cannot tell whose the device or the number is.
    MnoUserNotFound,
    /// The operator's answer makes no sense.
    MnoResponseError,
    /// The operator failed, or does not let us ask.
    MnoServerError,
    /// The operator has, or may give, no data.
    MnoNoDataAvailable,
    /// Too many wrong codes were submitted.
    CodeAttemptsExceeded,
}

impl ErrorCode {
    pub const ALL: [ErrorCode; 12] = [
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
        }
    }
}

impl fmt::Display for ErrorCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not an error code of a check")]
pub struct NotAnErrorCode;

impl FromStr for ErrorCode {
    type Err = NotAnErrorCode;

    fn from_str(text: &str) -> Result<Self, NotAnErrorCode> {
        ErrorCode::ALL.into_iter().find(|code| code.as_str() == text).ok_or(NotAnErrorCode)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for code in ErrorCode::ALL {
            assert_eq!(code.as_str().parse(), Ok(code));
        }
    }
}
