//! What a client asks for: scopes of the APIs, one purpose, and perhaps an ID token.

use serde::{Deserialize, Serialize};

use super::openid::{ErrorCode, Refusal};

/// A scope of the APIs that this operator has.
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

    /// Tokens with such a scope are good for one call.
    fn is_number_verification(self) -> bool {
        matches!(self, Self::VerifyNumber | Self::ReadDeviceNumber)
    }
}

/// What was asked for, and may be.
#[derive(Clone, Debug, PartialEq, Eq, Deserialize, Serialize)]
pub(super) struct Scopes {
    /// As it was written, which is how it is granted.
    written: String,
    openid: bool,
    apis: Vec<Scope>,
}

impl Scopes {
    /// Reads `openid dpv:Purpose scope scope` and, as some operators have it, `dpv:Purpose#scope`.
    pub(super) fn parse(written: &str, allowed: &[Scope]) -> Result<Self, Refusal> {
        let mut openid = false;
        let mut apis = vec![];
        let mut purpose = None;
        for word in written.split(' ').filter(|word| !word.is_empty()) {
            let mut name = Some(word);
            if let Some(rest) = word.strip_prefix("dpv:") {
                let (asked, scope) = rest.split_once('#').map_or((rest, None), |(asked, scope)| (asked, Some(scope)));
                if asked.is_empty() || purpose.is_some_and(|known| known != asked) {
                    return Err(invalid("exactly one purpose is needed"));
                }
                purpose = Some(asked);
                name = scope;
            }
            match name {
                None => {}
                Some("openid") => openid = true,
                Some(name) => match allowed.iter().find(|scope| scope.as_str() == name) {
                    Some(scope) if apis.contains(scope) => {}
                    Some(scope) => apis.push(*scope),
                    None => return Err(invalid("a scope is unknown, or not for this client")),
                },
            }
        }
        if purpose.is_none() {
            return Err(invalid("exactly one purpose is needed"));
        }
        Ok(Self { written: written.to_owned(), openid, apis })
    }

    pub(super) fn as_written(&self) -> &str {
        &self.written
    }

    pub(super) fn openid(&self) -> bool {
        self.openid
    }

    pub(super) fn include_any(&self, scopes: &[Scope]) -> bool {
        self.apis.iter().any(|scope| scopes.contains(scope))
    }

    pub(super) fn are_only(&self, scope: Scope) -> bool {
        self.apis == [scope]
    }

    pub(super) fn are_for_one_call(&self) -> bool {
        self.apis.iter().any(|scope| scope.is_number_verification())
    }
}

fn invalid(why: &'static str) -> Refusal {
    Refusal::new(ErrorCode::InvalidScope, why)
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALLOWED: &[Scope] = &[Scope::VerifyNumber, Scope::SimSwap];

    #[test]
    fn scopes_are_read_in_both_styles() {
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
    fn other_scopes_are_refused() {
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
            assert_eq!(Scopes::parse(written, ALLOWED).unwrap_err().code, ErrorCode::InvalidScope, "{written}");
        }
    }
}
