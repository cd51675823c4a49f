//! Products and their OAuth scopes.

use std::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::parse_error::default_error;

/// The names are part of the API: scopes, project settings, callbacks.
#[derive(
    Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str, parse_err_ty = InvalidProduct, parse_err_fn = default_error)]
pub enum Product {
    ReverseSms,
    SecureSna,
    Discovery,
    SimSwap,
    Eligibility,
    Verification,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown product; use `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility` or `verification`")]
pub struct InvalidProduct;

impl Product {
    /// Display name.
    pub fn title(self) -> &'static str {
        match self {
            Product::ReverseSms => "Reverse SMS",
            Product::SecureSna => "Secure SNA",
            Product::Discovery => "Discovery",
            Product::SimSwap => "SIM Swap",
            Product::Eligibility => "Eligibility",
            Product::Verification => "Verification",
        }
    }

    /// Whether the product involves an operator. The steps of a verification do, by their own products.
    pub fn requires_operator(self) -> bool {
        !matches!(self, Product::Eligibility | Product::Verification)
    }
}

/// The scope of an access token: one product, or the Management API.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord, Display, IntoStaticStr)]
#[strum(serialize_all = "snake_case")]
pub enum Scope {
    #[strum(transparent)]
    Product(Product),
    Management,
}

impl Scope {
    pub fn into_str(self) -> &'static str {
        self.into()
    }

    pub fn all() -> impl Iterator<Item = Scope> {
        Product::VARIANTS.iter().copied().map(Scope::Product).chain([Scope::Management])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope")]
pub struct InvalidScope;

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        Scope::all().find(|scope| scope.into_str() == text).ok_or(InvalidScope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_names_round_trip() {
        for scope in Scope::all() {
            assert_eq!((scope.into_str().parse(), scope.to_string().parse()), (Ok(scope), Ok(scope)));
        }
        assert_eq!("REVERSE_SMS".parse::<Scope>(), Err(InvalidScope));
    }
}
