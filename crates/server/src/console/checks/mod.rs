//! Checks of a project: list, search and detail page.

mod check_row;
mod detail;
mod list;
mod timeline;

pub use check_row::CheckRow;
pub use detail::{detail, resend};
pub use list::{Tab, list};

use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckStatus, ErrorCode, Verdict},
    product::Product,
    sim_swap::{OLDER_CHANGE_BUCKET_MINUTES, SimSwapVerdict},
};

use super::error::ConsoleError;
use crate::http::path::PathParameters;

pub const PRODUCTS: [Product; 4] = [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::SimSwap];

fn parse_product(ids: &PathParameters) -> Result<Product, ConsoleError> {
    let named = ids.get("product").and_then(|name| name.parse().ok());
    named.filter(|product| PRODUCTS.contains(product)).ok_or_else(ConsoleError::not_found)
}

fn result_label(check: &AnyCheck) -> String {
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

pub fn describe_sim_swap(swap: &SimSwapVerdict) -> String {
    let last_change = match swap.changed_within_minutes {
        Some(OLDER_CHANGE_BUCKET_MINUTES) => "; last change more than a year ago".to_owned(),
        Some(minutes) => format!("; last change within the last {}", format_minutes(minutes)),
        None => "; time of the last change unknown".to_owned(),
    };
    let change = if swap.no_sim_change { "SIM not changed" } else { "SIM changed" };
    format!("{change} in the last {}{last_change}", format_minutes(swap.covered_minutes))
}

/// Formats minutes in the largest whole unit.
fn format_minutes(minutes: u32) -> String {
    let units = [(1_440, "day"), (60, "hour"), (1, "minute")];
    let (size, unit) = units.into_iter().find(|(size, _)| minutes.is_multiple_of(*size)).unwrap_or((1, "minute"));
    match minutes / size {
        1 => unit.to_owned(),
        several => format!("{several} {unit}s"),
    }
}

/// CSS class of a status badge.
fn status_class(check: &AnyCheck) -> &'static str {
    let failed = check.verdict().and_then(Verdict::matched) == Some(false);
    match check.status() {
        CheckStatus::Accepted | CheckStatus::Pending => "s3",
        CheckStatus::Completed if failed => "s4",
        CheckStatus::Completed => "s2",
        CheckStatus::Expired => "s4",
        CheckStatus::Error => "s5",
    }
}

/// The last digits of the claimed number; the others are not stored.
fn masked_number(check: &AnyCheck) -> String {
    check.claimed.map(|claimed| format!("…{}", claimed.tail)).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sim_swap_verdict_is_described() {
        for (no_sim_change, covered_minutes, changed_within_minutes, description) in [
            (true, 10_080, Some(525_601), "SIM not changed in the last 7 days; last change more than a year ago"),
            (false, 10_080, Some(1_440), "SIM changed in the last 7 days; last change within the last day"),
            (false, 90, Some(60), "SIM changed in the last 90 minutes; last change within the last hour"),
            (true, 60, None, "SIM not changed in the last hour; time of the last change unknown"),
        ] {
            assert_eq!(
                describe_sim_swap(&SimSwapVerdict { no_sim_change, covered_minutes, changed_within_minutes }),
                description
            );
        }
    }
}
