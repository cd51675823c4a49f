//! Products, their static properties, and OAuth scopes.

use std::str::FromStr;

use strum::{Display, EnumString, IntoStaticStr, VariantArray};

use crate::parse_error::default_error;

/// A product of the API. The names are part of the API: they appear in scopes, project settings and callbacks.
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
    SignIn,
}

#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, thiserror::Error)]
#[error("unknown product; use {}", join_names(Product::VARIANTS.iter().map(Product::into_str)))]
pub struct InvalidProduct;

/// Joins names in backquotes, for messages: "`a`, `b` or `c`".
pub fn join_names<'a>(names: impl Iterator<Item = &'a str>) -> String {
    let names: Vec<_> = names.map(|name| format!("`{name}`")).collect();
    match names.split_last() {
        Some((last, rest)) if !rest.is_empty() => format!("{} or {last}", rest.join(", ")),
        _ => names.concat(),
    }
}

/// Static properties of a product. Code that only needs a property reads it here. Code that behaves differently for
/// each product matches on [`Product`].
#[derive(Debug)]
#[expect(clippy::struct_excessive_bools, reason = "independent columns of a table, not the states of something")]
pub struct ProductFacts {
    /// Display name.
    pub title: &'static str,
    /// Name of the product's commands in the command-line client.
    pub command: &'static str,
    /// Path segments of the product's resources in the API.
    pub api_path: &'static [&'static str],
    /// Whether checks of the product are stored.
    pub has_checks: bool,
    /// Whether checks end after the response to their create request, and then send a callback.
    pub sends_callbacks: bool,
    /// Whether the product's settings have a URL to which devices are redirected at the end.
    pub has_redirect_url: bool,
    /// Whether an operator identifies the device. Open checks of such a product have a redirect session, which holds
    /// the state of the device's redirects to the operator and back.
    pub is_silent: bool,
    /// Whether the product itself uses an operator. A verification does not: its steps do, through their own products.
    pub requires_operator: bool,
    /// Whether a create request contains the phone number.
    pub takes_number: bool,
    pub verdict: VerdictKind,
    /// Members of a check that the command-line client shows in tables, in order.
    pub columns: &'static [&'static str],
}

/// The kind of result that a completed check has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum VerdictKind {
    /// The product has no checks.
    None,
    /// Whether the number matches the claimed one.
    Match,
    /// The phone number of the device.
    Number,
    /// Whether the SIM was changed.
    SimChange,
}

const REVERSE_SMS_FACTS: ProductFacts = ProductFacts {
    title: "Reverse SMS",
    command: "reverse-sms",
    api_path: &["v1", "number-verification", "reverse-sms-checks"],
    has_checks: true,
    sends_callbacks: true,
    has_redirect_url: false,
    is_silent: false,
    requires_operator: true,
    takes_number: true,
    verdict: VerdictKind::Match,
    columns: &["check_id", "status", "match", "error_code", "reference_id", "created_at", "updated_at"],
};

const SECURE_SNA_FACTS: ProductFacts = ProductFacts {
    title: "Secure SNA",
    command: "secure-sna",
    api_path: &["v1", "number-verification", "secure-sna-checks"],
    has_checks: true,
    sends_callbacks: true,
    has_redirect_url: true,
    is_silent: true,
    requires_operator: true,
    takes_number: true,
    verdict: VerdictKind::Match,
    #[rustfmt::skip]
    columns: &["check_id", "status", "match", "network_id", "error_code", "reference_id", "created_at", "updated_at"],
};

const DISCOVERY_FACTS: ProductFacts = ProductFacts {
    title: "Discovery",
    command: "discovery",
    api_path: &["v1", "number-verification", "discovery-checks"],
    has_checks: true,
    sends_callbacks: true,
    has_redirect_url: true,
    is_silent: true,
    requires_operator: true,
    takes_number: false,
    verdict: VerdictKind::Number,
    #[rustfmt::skip]
    columns: &[
        "check_id", "status", "phone_number", "network_id", "error_code", "reference_id", "created_at", "updated_at",
    ],
};

const SIM_SWAP_FACTS: ProductFacts = ProductFacts {
    title: "SIM Swap",
    command: "sim-swap",
    api_path: &["v1", "sim-swap-checks"],
    has_checks: true,
    sends_callbacks: false,
    has_redirect_url: false,
    is_silent: false,
    requires_operator: true,
    takes_number: true,
    verdict: VerdictKind::SimChange,
    #[rustfmt::skip]
    columns: &[
        "check_id", "status", "no_sim_change", "no_sim_change_period", "sim_change_within", "network_id",
        "error_code", "reference_id", "created_at",
    ],
};

const ELIGIBILITY_FACTS: ProductFacts = ProductFacts {
    title: "Eligibility",
    command: "eligibility",
    api_path: &["v1", "eligibility"],
    has_checks: false,
    sends_callbacks: false,
    has_redirect_url: false,
    is_silent: false,
    requires_operator: false,
    takes_number: true,
    verdict: VerdictKind::None,
    columns: &[],
};

const VERIFICATION_FACTS: ProductFacts = ProductFacts {
    title: "Verification",
    command: "verification",
    api_path: &["v1", "verifications"],
    has_checks: true,
    sends_callbacks: true,
    has_redirect_url: true,
    is_silent: false,
    requires_operator: false,
    takes_number: true,
    verdict: VerdictKind::Match,
    #[rustfmt::skip]
    columns: &[
        "verification_id", "status", "match", "method", "no_sim_change", "error_code", "reference_id", "created_at",
        "updated_at",
    ],
};

const SIGN_IN_FACTS: ProductFacts = ProductFacts {
    title: "Sign-in",
    command: "sign-in",
    api_path: &["oauth2", "authorize"],
    has_checks: false,
    sends_callbacks: false,
    has_redirect_url: false,
    is_silent: false,
    requires_operator: false,
    takes_number: false,
    verdict: VerdictKind::None,
    columns: &[],
};

/// All products, in the order of lists and menus.
const MENU: [Product; Product::VARIANTS.len()] = [
    Product::Verification,
    Product::SignIn,
    Product::ReverseSms,
    Product::SecureSna,
    Product::Discovery,
    Product::SimSwap,
    Product::Eligibility,
];

/// Selects the products of [`MENU`] for which a boolean property is true, at compile time.
macro_rules! products_where {
    ($fact:ident) => {{
        const COUNT: usize = {
            let (mut count, mut index) = (0, 0);
            while index < MENU.len() {
                count += MENU[index].facts().$fact as usize;
                index += 1;
            }
            count
        };
        const SELECTED: [Product; COUNT] = {
            let (mut selected, mut count, mut index) = ([MENU[0]; COUNT], 0, 0);
            while index < MENU.len() {
                if MENU[index].facts().$fact {
                    selected[count] = MENU[index];
                    count += 1;
                }
                index += 1;
            }
            selected
        };
        &SELECTED
    }};
}

impl Product {
    /// Products whose checks are stored, in the order of lists and menus.
    pub const WITH_CHECKS: &'static [Product] = products_where!(has_checks);
    /// Products whose checks send a callback, in the order of lists and menus.
    pub const WITH_CALLBACKS: &'static [Product] = products_where!(sends_callbacks);
    /// Products that use an operator, in the order of lists and menus.
    pub const WITH_OPERATOR: &'static [Product] = products_where!(requires_operator);

    pub const fn facts(self) -> &'static ProductFacts {
        match self {
            Product::ReverseSms => &REVERSE_SMS_FACTS,
            Product::SecureSna => &SECURE_SNA_FACTS,
            Product::Discovery => &DISCOVERY_FACTS,
            Product::SimSwap => &SIM_SWAP_FACTS,
            Product::Eligibility => &ELIGIBILITY_FACTS,
            Product::Verification => &VERIFICATION_FACTS,
            Product::SignIn => &SIGN_IN_FACTS,
        }
    }

    /// Display name.
    pub fn title(self) -> &'static str {
        self.facts().title
    }

    /// Path of the product's resources in the API, such as `/v1/verifications`.
    pub fn api_path(self) -> String {
        format!("/{}", self.facts().api_path.join("/"))
    }

    pub fn requires_operator(self) -> bool {
        self.facts().requires_operator
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

    /// Scopes of access tokens. `sign_in` is none: users sign in at the authorization endpoint.
    pub fn of_access_tokens() -> impl Iterator<Item = Scope> {
        Scope::all().filter(|scope| *scope != Scope::Product(Product::SignIn))
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
    fn menu_contains_every_product() {
        let mut menu = MENU;
        menu.sort_unstable();
        assert_eq!(menu, Product::VARIANTS);
    }

    #[test]
    fn eligibility_covers_the_products_with_an_operator() {
        let sorted = |products: &[Product]| {
            let mut products = products.to_vec();
            products.sort_unstable();
            products
        };
        assert_eq!(sorted(Product::WITH_OPERATOR), sorted(&crate::eligibility::PRODUCTS));
    }

    #[test]
    fn facts_agree_with_each_other() {
        for product in Product::VARIANTS {
            let facts = product.facts();
            assert_eq!(facts.command, product.into_str().replace('_', "-"));
            assert_eq!(facts.has_checks, facts.verdict != VerdictKind::None, "{product}");
            assert_eq!(facts.has_checks, !facts.columns.is_empty(), "{product}");
            assert!(facts.has_checks || !facts.sends_callbacks, "{product}");
            assert!(facts.requires_operator || !facts.is_silent, "{product}");
        }
    }

    #[test]
    fn unknown_product_message_lists_all_products() {
        let expected = "unknown product; use `reverse_sms`, `secure_sna`, `discovery`, `sim_swap`, `eligibility`, \
                        `verification` or `sign_in`";
        assert_eq!(InvalidProduct.to_string(), expected);
    }

    #[test]
    fn scope_names_round_trip() {
        for scope in Scope::all() {
            assert_eq!((scope.into_str().parse(), scope.to_string().parse()), (Ok(scope), Ok(scope)));
        }
        assert_eq!("REVERSE_SMS".parse::<Scope>(), Err(InvalidScope));
    }
}
