//! The ways in which a phone proves its SIM to its operator in a silent check, and why one gave no verdict.

use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::lifecycle::ErrorCode;

/// How a phone proves its SIM to its operator. The names are stored, and appear in metrics and in the API's usage.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum SilentWay {
    /// A redirect to the operator over the phone's mobile data connection.
    MobileData,
    /// A token that the phone's wallet got from the operator, over any connection. Secure SNA only.
    OperatorToken,
}

/// Why the phone's wallet led to no verdict. The names are stored.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, EnumString, IntoStaticStr, VariantArray)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum WalletFailure {
    /// The user declined, or closed the wallet.
    Declined,
    /// The phone has no SIM of an operator that hands out tokens.
    NoSim,
    /// The wallet did not answer in time.
    TimedOut,
    /// The wallet's answer fails a test, such as that of its signature.
    Invalid,
    /// The operator did not accept the wallet's token, or could not be asked.
    Refused,
    /// The browser or app could not ask the wallet.
    Unavailable,
}

impl WalletFailure {
    /// Returns the error code of a step that ends for this reason. `None`: the operator's error code is that of the
    /// step.
    pub fn error_code(self) -> Option<ErrorCode> {
        match self {
            WalletFailure::Declined | WalletFailure::TimedOut => Some(ErrorCode::GivenUp),
            WalletFailure::NoSim => Some(ErrorCode::MnoUserNotFound),
            WalletFailure::Invalid => Some(ErrorCode::MnoResponseError),
            WalletFailure::Unavailable => Some(ErrorCode::NotMobileIp),
            WalletFailure::Refused => None,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stored_names_are_stable() {
        let ways: Vec<_> = SilentWay::VARIANTS.iter().map(SilentWay::into_str).collect();
        assert_eq!(ways, ["mobile_data", "operator_token"]);
        let failures: Vec<_> = WalletFailure::VARIANTS.iter().map(WalletFailure::into_str).collect();
        assert_eq!(failures, ["declined", "no_sim", "timed_out", "invalid", "refused", "unavailable"]);
        assert!(ways.iter().all(|name| name.parse::<SilentWay>().is_ok()));
        assert!(failures.iter().all(|name| name.parse::<WalletFailure>().is_ok()));
    }
}
