//! Error codes of checks.

crate::named_enum! {
    /// Reason why a check concluded with status `ERROR`. Part of the API: codes are only added.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum ErrorCode {
        /// The service failed.
        InternalError = "internal_error",
        /// The IP address of the device does not belong to a mobile network.
        NotMobileIp = "not_mobile_ip",
        /// The device used another IP address than the announced one.
        IpMismatch = "ip_mismatch",
        /// The device is on another network than the number.
        IpMsisdnMismatch = "ip_msisdn_mismatch",
        /// No connector serves the operator of the device or the number.
        MnoNotSupported = "mno_not_supported",
        /// The operator's connector does not support redirects.
        MnoRedirectUnsupported = "mno_redirect_unsupported",
        /// The operator did not respond in time.
        MnoTimeout = "mno_timeout",
        /// The operator cannot identify the subscriber.
        MnoUserNotFound = "mno_user_not_found",
        /// The operator's response is invalid.
        MnoResponseError = "mno_response_error",
        /// The operator failed or rejected our credentials.
        MnoServerError = "mno_server_error",
        /// The operator has no data, or may not disclose it.
        MnoNoDataAvailable = "mno_no_data_available",
        /// Too many wrong codes were submitted.
        CodeAttemptsExceeded = "code_attempts_exceeded",
        /// No method of the verification is left.
        MethodsExhausted = "methods_exhausted",
        /// The caller or the end-user gave up this step of a verification.
        GivenUp = "given_up",
        /// Too many checks of the number: this step of a verification could not begin.
        TooManyRequests = "too_many_requests",
    }

    #[error("unknown error code of a check")]
    pub struct InvalidErrorCode;
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
