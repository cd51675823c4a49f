//! Products and their OAuth scopes.

use std::str::FromStr;

crate::named_enum! {
    /// The names are part of the API: scopes, project settings, callbacks.
    #[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
    pub enum Product {
        ReverseSms = "reverse_sms",
        SecureSna = "secure_sna",
        Discovery = "discovery",
        SimSwap = "sim_swap",
        Eligibility = "eligibility",
        Verification = "verification",
    }

    #[error("unknown product; use `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility` or `verification`")]
    pub struct InvalidProduct;
}

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
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Scope {
    Product(Product),
    Management,
}

impl Scope {
    pub fn as_str(self) -> &'static str {
        match self {
            Scope::Product(product) => product.as_str(),
            Scope::Management => "management",
        }
    }

    pub fn all() -> impl Iterator<Item = Scope> {
        Product::ALL.into_iter().map(Scope::Product).chain([Scope::Management])
    }
}

crate::named_enum::display_as_str!(Scope);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown scope")]
pub struct InvalidScope;

impl FromStr for Scope {
    type Err = InvalidScope;

    fn from_str(text: &str) -> Result<Self, InvalidScope> {
        Scope::all().find(|scope| scope.as_str() == text).ok_or(InvalidScope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn as_str_round_trips() {
        for scope in Scope::all() {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert_eq!("REVERSE_SMS".parse::<Scope>(), Err(InvalidScope));
        assert_eq!("management".parse::<Product>(), Err(InvalidProduct));
    }
}
