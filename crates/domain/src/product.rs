//! Products, and the OAuth scopes that open them.

use std::{fmt, str::FromStr};

/// What a project can be enabled for.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Product {
    ReverseSms,
    SecureSna,
    Discovery,
    SimSwap,
    Eligibility,
}

impl Product {
    pub const ALL: [Product; 5] =
        [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap, Product::Eligibility];

    /// The name in scopes, in project settings and in callbacks.
    pub fn as_str(self) -> &'static str {
        match self {
            Product::ReverseSms => "reverse_sms",
            Product::SecureSna => "secure_sna",
            Product::Discovery => "discovery",
            Product::SimSwap => "sim_swap",
            Product::Eligibility => "eligibility",
        }
    }

    /// The name for people.
    pub fn title(self) -> &'static str {
        match self {
            Product::ReverseSms => "Reverse SMS",
            Product::SecureSna => "Secure SNA",
            Product::Discovery => "Discovery",
            Product::SimSwap => "SIM Swap",
            Product::Eligibility => "Eligibility",
        }
    }

    /// Whether an operator takes part. Eligibility only tells about the others.
    pub fn asks_an_operator(self) -> bool {
        self != Product::Eligibility
    }
}

impl fmt::Display for Product {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a product: `reverse_sms`, `secure_sna`, `discovery`, `sim_swap` and `eligibility` are")]
pub struct NotAProduct;

impl FromStr for Product {
    type Err = NotAProduct;

    fn from_str(text: &str) -> Result<Self, NotAProduct> {
        Product::ALL.into_iter().find(|product| product.as_str() == text).ok_or(NotAProduct)
    }
}

/// What an access token may be used for: one product, or the Management API.
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

impl fmt::Display for Scope {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("not a scope")]
pub struct NotAScope;

impl FromStr for Scope {
    type Err = NotAScope;

    fn from_str(text: &str) -> Result<Self, NotAScope> {
        Scope::all().find(|scope| scope.as_str() == text).ok_or(NotAScope)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_lead_back_to_what_they_name() {
        for scope in Scope::all() {
            assert_eq!(scope.as_str().parse(), Ok(scope));
        }
        assert_eq!("REVERSE_SMS".parse::<Scope>(), Err(NotAScope));
        assert_eq!("management".parse::<Product>(), Err(NotAProduct));
    }
}
