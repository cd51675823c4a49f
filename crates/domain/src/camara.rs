//! CAMARA's APIs as Ringtrue offers them: scopes of their clients, and a project's settings.

use std::{collections::BTreeSet, fmt, str::FromStr};

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::{
    parse_error::default_error,
    product::{Product, join_names},
};

/// For how long a device that its operator has recognised can be verified, in seconds. Also the lifetime of the access
/// token.
pub const NETWORK_AUTHENTICATION_SECONDS: u16 = 300;

/// A scope of an access token for CAMARA's APIs.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(const_into_str, parse_err_ty = UnknownCamaraScope, parse_err_fn = default_error)]
pub enum CamaraScope {
    #[strum(serialize = "number-verification:verify")]
    VerifyNumber,
    #[strum(serialize = "number-verification:device-phone-number:read")]
    ReadDeviceNumber,
    /// All operations of SIM Swap.
    #[strum(serialize = "sim-swap")]
    SimSwap,
    #[strum(serialize = "sim-swap:check")]
    CheckSimSwap,
    #[strum(serialize = "sim-swap:retrieve-date")]
    RetrieveSimSwapDate,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown CAMARA scope; use {}", join_names(CamaraScope::VARIANTS.iter().map(CamaraScope::into_str)))]
pub struct UnknownCamaraScope;

impl CamaraScope {
    /// The product that does the work of this scope.
    pub const fn product(self) -> Product {
        match self {
            CamaraScope::VerifyNumber => Product::SecureSna,
            CamaraScope::ReadDeviceNumber => Product::Discovery,
            CamaraScope::SimSwap | CamaraScope::CheckSimSwap | CamaraScope::RetrieveSimSwapDate => Product::SimSwap,
        }
    }

    /// Whether the operator must have recognised the device, so that a token of another flow does not suffice.
    pub const fn needs_network_authentication(self) -> bool {
        matches!(self, CamaraScope::VerifyNumber | CamaraScope::ReadDeviceNumber)
    }
}

/// Why a client needs personal data: the value of a scope `dpv:…`, from the Data Privacy Vocabulary.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Purpose(String);

impl Purpose {
    const PREFIX: &'static str = "dpv:";
    const MAX_BYTES: usize = 80;

    pub fn as_str(&self) -> &str {
        &self.0
    }

    fn is_purpose(scope: &str) -> bool {
        scope.starts_with(Self::PREFIX)
    }
}

crate::display_as_str::display_as_str!(Purpose);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a purpose is `dpv:` and a name from the Data Privacy Vocabulary, such as `dpv:FraudPreventionAndDetection`")]
pub struct InvalidPurpose;

impl FromStr for Purpose {
    type Err = InvalidPurpose;

    fn from_str(text: &str) -> Result<Self, InvalidPurpose> {
        let name = text.strip_prefix(Self::PREFIX).ok_or(InvalidPurpose)?;
        let is_name = name.starts_with(|first: char| first.is_ascii_uppercase())
            && name.bytes().all(|byte| byte.is_ascii_alphanumeric());
        if is_name && text.len() <= Self::MAX_BYTES { Ok(Purpose(text.to_owned())) } else { Err(InvalidPurpose) }
    }
}

/// A project's settings as a client of CAMARA's APIs.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CamaraSettings {
    /// Purposes that the project may declare. Empty: it gets no tokens.
    pub purposes: Vec<Purpose>,
}

impl CamaraSettings {
    pub const MAX_PURPOSES: usize = 20;
}

/// The scopes of a token for CAMARA's APIs: at least one operation, and exactly one purpose.
#[derive(Clone, PartialEq, Eq)]
pub struct CamaraScopes {
    /// The client also gets an ID token.
    pub openid: bool,
    operations: BTreeSet<CamaraScope>,
    purpose: Purpose,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidCamaraScopes {
    #[error("exactly one purpose is required, such as `dpv:FraudPreventionAndDetection`")]
    NotOnePurpose,
    #[error(transparent)]
    Purpose(#[from] InvalidPurpose),
    #[error(transparent)]
    Unknown(#[from] UnknownCamaraScope),
    #[error(
        "at least one scope of an API is required; use {}",
        join_names(CamaraScope::VARIANTS.iter().map(CamaraScope::into_str))
    )]
    NoOperation,
}

impl CamaraScopes {
    const OPENID: &'static str = "openid";
    const OFFLINE_ACCESS: &'static str = "offline_access";

    /// Whether a `scope` parameter is for CAMARA's APIs: it contains one of their scopes, or a purpose.
    pub fn are_requested(scope: &str) -> bool {
        scope.split(' ').any(|one| Purpose::is_purpose(one) || one.parse::<CamaraScope>().is_ok())
    }

    pub fn parse(scope: &str) -> Result<Self, InvalidCamaraScopes> {
        let (mut openid, mut operations, mut purpose) = (false, BTreeSet::new(), None);
        for one in scope.split(' ').filter(|one| !one.is_empty()) {
            if one == Self::OPENID {
                openid = true;
            } else if one == Self::OFFLINE_ACCESS {
                // Asks for a refresh token, which a server need not issue.
            } else if Purpose::is_purpose(one) {
                if purpose.replace(one.parse()?).is_some() {
                    return Err(InvalidCamaraScopes::NotOnePurpose);
                }
            } else {
                operations.insert(one.parse()?);
            }
        }
        let purpose = purpose.ok_or(InvalidCamaraScopes::NotOnePurpose)?;
        if operations.is_empty() {
            return Err(InvalidCamaraScopes::NoOperation);
        }
        Ok(CamaraScopes { openid, operations, purpose })
    }

    pub fn purpose(&self) -> &Purpose {
        &self.purpose
    }

    pub fn operations(&self) -> impl Iterator<Item = CamaraScope> {
        self.operations.iter().copied()
    }

    /// Whether the token permits an operation.
    pub fn permits(&self, operation: CamaraScope) -> bool {
        let is_sim_swap = operation.product() == Product::SimSwap;
        self.operations.contains(&operation) || (is_sim_swap && self.operations.contains(&CamaraScope::SimSwap))
    }

    pub fn need_network_authentication(&self) -> bool {
        self.operations().any(CamaraScope::needs_network_authentication)
    }
}

impl fmt::Display for CamaraScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.openid {
            write!(f, "{} ", Self::OPENID)?;
        }
        f.write_str(self.purpose.as_str())?;
        self.operations().try_for_each(|operation| write!(f, " {operation}"))
    }
}

impl fmt::Debug for CamaraScopes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "CamaraScopes({self})")
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const FRAUD: &str = "dpv:FraudPreventionAndDetection";

    #[test]
    fn scopes_are_read_and_written() {
        for (text, written) in [
            (format!("{FRAUD} number-verification:verify"), format!("{FRAUD} number-verification:verify")),
            (
                format!("sim-swap:check openid offline_access {FRAUD}  sim-swap:check"),
                format!("openid {FRAUD} sim-swap:check"),
            ),
            (
                format!("sim-swap number-verification:device-phone-number:read {FRAUD}"),
                format!("{FRAUD} number-verification:device-phone-number:read sim-swap"),
            ),
        ] {
            assert_eq!(CamaraScopes::parse(&text).unwrap().to_string(), written);
            assert!(CamaraScopes::are_requested(&text));
        }
        for text in ["", "openid phone", "sim_swap", "OPENID", "xdpv:A"] {
            assert!(!CamaraScopes::are_requested(text), "{text}");
        }
    }

    #[test]
    fn invalid_scopes_get_the_right_error() {
        use InvalidCamaraScopes as E;
        for (text, error) in [
            ("sim-swap:check".to_owned(), E::NotOnePurpose),
            (format!("{FRAUD} {FRAUD} sim-swap:check"), E::NotOnePurpose),
            (format!("{FRAUD} dpv:Marketing sim-swap:check"), E::NotOnePurpose),
            (FRAUD.to_owned(), E::NoOperation),
            (format!("openid {FRAUD}"), E::NoOperation),
            (format!("{FRAUD} sim-swap:check email"), E::Unknown(UnknownCamaraScope)),
            (format!("{FRAUD} sim-swap:check\tsim-swap"), E::Unknown(UnknownCamaraScope)),
            ("dpv: sim-swap:check".to_owned(), E::Purpose(InvalidPurpose)),
            ("dpv:fraud sim-swap:check".to_owned(), E::Purpose(InvalidPurpose)),
            ("dpv:A#sim-swap:check sim-swap".to_owned(), E::Purpose(InvalidPurpose)),
            (format!("dpv:{} sim-swap", "A".repeat(80)), E::Purpose(InvalidPurpose)),
        ] {
            assert_eq!(CamaraScopes::parse(&text), Err(error), "{text}");
        }
    }

    #[test]
    fn sim_swap_permits_both_operations_and_nothing_else() {
        for (granted, permitted) in [
            ("sim-swap", &[CamaraScope::SimSwap, CamaraScope::CheckSimSwap, CamaraScope::RetrieveSimSwapDate][..]),
            ("sim-swap:check", &[CamaraScope::CheckSimSwap]),
            ("number-verification:verify", &[CamaraScope::VerifyNumber]),
        ] {
            let scopes = CamaraScopes::parse(&format!("{FRAUD} {granted}")).unwrap();
            let actual: Vec<_> = CamaraScope::VARIANTS.iter().copied().filter(|one| scopes.permits(*one)).collect();
            assert_eq!(actual, permitted, "{granted}");
            assert_eq!(scopes.need_network_authentication(), granted.starts_with("number"), "{granted}");
        }
    }

    proptest! {
        #[test]
        fn every_accepted_scope_is_read_again(
            text in "(openid |dpv:A |sim-swap |sim-swap:check |number-verification:verify |\\PC{0,5}){0,6}",
        ) {
            if let Ok(scopes) = CamaraScopes::parse(&text) {
                prop_assert_eq!(CamaraScopes::parse(&scopes.to_string()), Ok(scopes));
            }
        }
    }
}
