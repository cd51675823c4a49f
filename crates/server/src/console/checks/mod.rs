//! A project's checks: the list with its search, and a check's own page.

mod list;
mod one;
mod row;
mod timeline;

pub use list::{Tab, list};
pub use one::{one, resend};
pub use row::CheckRow;

use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, ErrorCode, Status, Verdict},
    product::Product,
    sim_swap::{LONGER_AGO, SimSwap},
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
fn result_of(check: &AnyCheck) -> String {
    if let Some(code) = check.error_code() {
        return ErrorCode::as_str(code).to_owned();
    }
    let Some(verdict) = check.verdict() else { return String::new() };
    if let AnyVerdict::Sim(swap) = verdict {
        return if swap.no_sim_change { "no SIM change" } else { "SIM changed" }.to_owned();
    }
    match (verdict.matched(), verdict.discovered()) {
        (Some(true), _) => "match".to_owned(),
        (Some(false), _) => "no match".to_owned(),
        (None, Some(found)) => {
            found.number.map_or_else(|| "number found".to_owned(), |number| format!("number …{}", number.tail))
        }
        (None, None) => String::new(),
    }
}

/// What a completed SIM Swap check says, in a sentence.
pub fn swap_words(swap: &SimSwap) -> String {
    let last = match swap.change_within {
        Some(LONGER_AGO) => "; the last one was more than a year ago".to_owned(),
        Some(minutes) => format!("; the last one was within the last {}", span(minutes)),
        None => "; when the last one was is not known".to_owned(),
    };
    let whether = if swap.no_sim_change { "no change of the SIM" } else { "the SIM was changed" };
    format!("{whether} in the last {}{last}", span(swap.covered))
}

/// So many minutes, in the largest whole unit.
fn span(minutes: u32) -> String {
    let units = [(1_440, "day"), (60, "hour"), (1, "minute")];
    let (size, unit) = units.into_iter().find(|(size, _)| minutes.is_multiple_of(*size)).unwrap_or((1, "minute"));
    match minutes / size {
        1 => unit.to_owned(),
        several => format!("{several} {unit}s"),
    }
}

/// How a status is coloured.
fn tone(check: &AnyCheck) -> &'static str {
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
fn number_of(check: &AnyCheck) -> String {
    check.claimed.map(|claimed| format!("…{}", claimed.tail)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_sim_swap_is_told_in_words() {
        for (no_sim_change, covered, change_within, words) in [
            (
                true,
                10_080,
                Some(525_601),
                "no change of the SIM in the last 7 days; the last one was more than a year ago",
            ),
            (
                false,
                10_080,
                Some(1_440),
                "the SIM was changed in the last 7 days; the last one was within the last day",
            ),
            (false, 90, Some(60), "the SIM was changed in the last 90 minutes; the last one was within the last hour"),
            (true, 60, None, "no change of the SIM in the last hour; when the last one was is not known"),
        ] {
            assert_eq!(swap_words(&SimSwap { no_sim_change, covered, change_within }), words);
        }
    }
}
