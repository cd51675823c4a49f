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
    /// Products whose checks are stored, in the order of lists and menus.
    pub const WITH_CHECKS: [Product; 5] =
        [Product::Verification, Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];
    /// Products whose checks send a callback, in the order of lists and menus.
    pub const WITH_CALLBACKS: [Product; 4] =
        [Product::Verification, Product::ReverseSms, Product::SecureSna, Product::Discovery];
    /// Products that involve an operator, in the order of lists and menus.
    pub const WITH_OPERATOR: [Product; 4] =
        [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

    /// Whether checks of the product are stored.
    pub fn has_checks(self) -> bool {
        match self {
            Product::ReverseSms
            | Product::SecureSna
            | Product::Discovery
            | Product::SimSwap
            | Product::Verification => true,
            Product::Eligibility => false,
        }
    }

    /// Whether checks of the product end later than their request, and send a callback then.
    pub fn sends_callbacks(self) -> bool {
        match self {
            Product::ReverseSms | Product::SecureSna | Product::Discovery | Product::Verification => true,
            Product::SimSwap | Product::Eligibility => false,
        }
    }

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

    /// A new product must appear in each list that it belongs to.
    #[test]
    fn lists_of_products_are_complete() {
        let sorted = |products: &[Product]| {
            let mut products = products.to_vec();
            products.sort_unstable();
            products
        };
        let all_where = |is_listed: fn(Product) -> bool| {
            Product::VARIANTS.iter().copied().filter(|product| is_listed(*product)).collect::<Vec<_>>()
        };
        assert_eq!(sorted(&Product::WITH_CHECKS), all_where(Product::has_checks));
        assert_eq!(sorted(&Product::WITH_CALLBACKS), all_where(Product::sends_callbacks));
        for list in [Product::WITH_OPERATOR, crate::eligibility::PRODUCTS] {
            assert_eq!(sorted(&list), all_where(Product::requires_operator));
        }
        let unknown = InvalidProduct.to_string();
        assert!(Product::VARIANTS.iter().all(|product| unknown.contains(&format!("`{product}`"))), "{unknown}");
    }

    #[test]
    fn scope_names_round_trip() {
        for scope in Scope::all() {
            assert_eq!((scope.into_str().parse(), scope.to_string().parse()), (Ok(scope), Ok(scope)));
        }
        assert_eq!("REVERSE_SMS".parse::<Scope>(), Err(InvalidScope));
    }
}
