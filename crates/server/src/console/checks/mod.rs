//! A project's checks: the list with its search, and a check's own page.

mod list;
mod one;

pub use list::{Tab, list, project};
pub use one::{one, resend};

use ringtrue_domain::{
    lifecycle::{AnyCheck, ErrorCode, Status, Verdict},
    product::Product,
};

use super::refusal::Refusal;
use crate::http::path::PathIds;

/// The products that have checks.
pub const PRODUCTS: [Product; 4] = [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

/// The product that a path names.
fn product_of(ids: &PathIds) -> Result<Product, Refusal> {
    let named = ids.get("product").and_then(|name| name.parse().ok());
    named.filter(|product| PRODUCTS.contains(product)).ok_or_else(Refusal::not_found)
}

/// How a check ended, in a word or two.
pub fn result_of(check: &AnyCheck) -> String {
    if let Some(code) = check.error_code() {
        return ErrorCode::as_str(code).to_owned();
    }
    let Some(verdict) = check.verdict() else { return String::new() };
    match (verdict.matched(), verdict.discovered()) {
        (Some(true), _) => "match".to_owned(),
        (Some(false), _) => "no match".to_owned(),
        (None, Some(found)) => {
            found.number.map_or_else(|| "number found".to_owned(), |number| format!("number …{}", number.tail))
        }
        (None, None) => String::new(),
    }
}

/// How a status is coloured.
pub fn tone(check: &AnyCheck) -> &'static str {
    let failed = check.verdict().and_then(Verdict::matched) == Some(false);
    match check.status() {
        Status::Accepted | Status::Pending => "s3",
        Status::Completed if failed => "s4",
        Status::Completed => "s2",
        Status::Expired => "s4",
        Status::Error => "s5",
    }
}

/// What is kept of the number.
pub fn number_of(check: &AnyCheck) -> String {
    check.claimed.map(|claimed| format!("…{}", claimed.tail)).unwrap_or_default()
}
