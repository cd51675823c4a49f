//! OAuth scopes: API scopes, purpose and `openid`.

use serde::{Deserialize, Serialize};

use super::openid::{OAuthError, OAuthErrorCode};

/// An API scope.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub enum Scope {
    /// `number-verification:verify`
    VerifyNumber,
    /// `number-verification:device-phone-number:read`
    ReadDeviceNumber,
    /// `sim-swap`, for both of its operations
    SimSwap,
    /// `sim-swap:check`
    CheckSimSwap,
    /// `sim-swap:retrieve-date`
    RetrieveSimSwapDate,
}

impl Scope {
    pub const ALL: [Self; 5] =
        [Self::VerifyNumber, Self::ReadDeviceNumber, Self::SimSwap, Self::CheckSimSwap, Self::RetrieveSimSwapDate];

    pub fn as_str(self) -> &'static str {
        match self {
            Self::VerifyNumber => "number-verification:verify",
            Self::ReadDeviceNumber => "number-verification:device-phone-number:read",
            Self::SimSwap => "sim-swap",
            Self::CheckSimSwap => "sim-swap:check",
            Self::RetrieveSimSwapDate => "sim-swap:retrieve-date",
        }
    }

    /// Tokens with such a scope are single-use.
    fn is_number_verification(self) -> bool {
        matches!(self, Self::VerifyNumber | Self::ReadDeviceNumber)
    }
}

/// A validated `scope` parameter.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Scopes {
    /// Text of the parameter, echoed in the token response.
    written: String,
    openid: bool,
    apis: Vec<Scope>,
}

impl Scopes {
    /// Parses `openid dpv:Purpose scope scope` and the variant `dpv:Purpose#scope` of some operators.
    pub(super) fn parse(written: &str, allowed: &[Scope]) -> Result<Self, OAuthError> {
        let mut openid = false;
        let mut apis = vec![];
        let mut purpose = None;
        for word in written.split(' ').filter(|word| !word.is_empty()) {
            let mut name = Some(word);
            if let Some(rest) = word.strip_prefix("dpv:") {
                let (value, scope) = rest.split_once('#').map_or((rest, None), |(value, scope)| (value, Some(scope)));
                if value.is_empty() || purpose.is_some_and(|known| known != value) {
                    return Err(invalid("exactly one purpose (dpv:) is required"));
                }
                purpose = Some(value);
                name = scope;
            }
            match name {
                None => {}
                Some("openid") => openid = true,
                Some(name) => match allowed.iter().find(|scope| scope.as_str() == name) {
                    Some(scope) if apis.contains(scope) => {}
                    Some(scope) => apis.push(*scope),
                    None => return Err(invalid("unknown scope, or not allowed for this client")),
                },
            }
        }
        if purpose.is_none() {
            return Err(invalid("exactly one purpose (dpv:) is required"));
        }
        Ok(Self { written: written.to_owned(), openid, apis })
    }

    pub(super) fn as_str(&self) -> &str {
        &self.written
    }

    pub(super) fn includes_openid(&self) -> bool {
        self.openid
    }

    pub(super) fn includes_any(&self, scopes: &[Scope]) -> bool {
        self.apis.iter().any(|scope| scopes.contains(scope))
    }

    pub(super) fn is_only(&self, scope: Scope) -> bool {
        self.apis == [scope]
    }

    pub(super) fn require_single_use_token(&self) -> bool {
        self.apis.iter().any(|scope| scope.is_number_verification())
    }
}

fn invalid(description: &'static str) -> OAuthError {
    OAuthError::new(OAuthErrorCode::InvalidScope, description)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[Scope] = &[Scope::VerifyNumber, Scope::SimSwap];

    #[test]
    fn both_scope_styles_are_parsed() {
        for (written, openid, apis) in [
            ("openid dpv:FraudPreventionAndDetection number-verification:verify", true, vec![Scope::VerifyNumber]),
            ("dpv:FraudPreventionAndDetection#number-verification:verify", false, vec![Scope::VerifyNumber]),
            ("dpv:A#sim-swap dpv:A#number-verification:verify", false, vec![Scope::SimSwap, Scope::VerifyNumber]),
            ("dpv:A sim-swap  sim-swap", false, vec![Scope::SimSwap]),
            ("openid dpv:A", true, vec![]),
        ] {
            let expected = Scopes { written: written.into(), openid, apis };
            assert_eq!(Scopes::parse(written, ALLOWED).unwrap(), expected, "{written}");
        }
    }

    #[test]
    fn invalid_scopes_are_rejected() {
        for written in [
            "",
            "openid sim-swap",
            "dpv: sim-swap",
            "dpv:A dpv:B sim-swap",
            "dpv:A#sim-swap dpv:B#number-verification:verify",
            "dpv:A sim-swap:check",
            "dpv:A unheard-of",
            "dpv:A#",
        ] {
            assert_eq!(Scopes::parse(written, ALLOWED).unwrap_err().code, OAuthErrorCode::InvalidScope, "{written}");
        }
    }
}
