//! View model of a check, for lists and for the page of the check.

use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, Lifecycle, Reference, Verdict},
    product::Product,
    reverse_sms::SEARCH_FIELDS,
    search::Field,
    sim_swap::{self, OLDER_CHANGE_BUCKET_MINUTES, SimSwapVerdict},
    verification,
};
use ringtrue_web::{app::App, parameters::PathParameters};

use crate::page::{Badge, UtcTime, error::ConsoleError, network_name::NetworkName};

#[derive(Debug)]
pub struct CheckRow {
    pub path: String,
    pub id: String,
    pub badge: Badge,
    pub product: &'static str,
    pub number: String,
    pub reference: String,
    pub network: Option<NetworkName>,
    /// Method that verified the number. Empty: the check is no verification, or has no result.
    pub method: &'static str,
    /// Time from the creation to the end. Empty: the check is open.
    pub duration: String,
    pub created_at: UtcTime,
    pub changed_at: UtcTime,
}

impl CheckRow {
    pub fn new(app: &App, project_path: &str, check: &AnyCheck) -> Self {
        CheckRow {
            path: format!("{project_path}/checks/{}/{}", check.product, check.id),
            id: check.id.to_string(),
            badge: Badge::of_check(check),
            product: check.product.title(),
            number: masked_number(check),
            reference: check.reference.as_ref().map(Reference::as_str).unwrap_or_default().to_owned(),
            network: check.network.as_ref().map(|id| NetworkName::new(app, id)),
            method: method(check),
            duration: duration(check).map(format_duration).unwrap_or_default(),
            created_at: UtcTime(check.created_at),
            changed_at: UtcTime(check.updated_at().unwrap_or(check.created_at)),
        }
    }
}

pub fn parse_product(ids: &PathParameters) -> Result<Product, ConsoleError> {
    let named = ids.get("product").and_then(|name| name.parse().ok());
    named.filter(|product: &Product| product.facts().has_checks).ok_or_else(ConsoleError::not_found)
}

pub fn result_label(check: &AnyCheck) -> String {
    if let Some(code) = check.error_code() {
        return code.into_str().to_owned();
    }
    let Some(verdict) = check.verdict() else { return String::new() };
    match verdict {
        AnyVerdict::Sim(swap) => {
            return if swap.no_sim_change { "no SIM change" } else { "SIM changed" }.to_owned();
        }
        AnyVerdict::Verification(verdict) => {
            let matched = if verdict.matched { "match" } else { "no match" };
            return format!("{matched} by {}", verdict.method.product().title());
        }
        AnyVerdict::Sender(_) | AnyVerdict::Device(_) => {}
    }
    match (verdict.matched(), verdict.discovered_number()) {
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

/// Returns the title of the method with which a verification ended. Empty: none did.
fn method(check: &AnyCheck) -> &'static str {
    match check.verdict() {
        Some(AnyVerdict::Verification(verdict)) => verdict.method.product().title(),
        _ => "",
    }
}

/// Returns the time from the creation of a check to its end. `None`: it is open.
pub fn duration(check: &AnyCheck) -> Option<SignedDuration> {
    match check.state {
        Lifecycle::Open(_) => None,
        Lifecycle::Concluded { at, .. } => Some(at.duration_since(check.created_at)),
    }
}

/// Formats a duration with about two digits.
pub fn format_duration(duration: SignedDuration) -> String {
    match duration.as_millis() {
        millis @ ..1_000 => format!("{} ms", millis.max(0)),
        millis @ 1_000..10_000 => format!("{}.{} s", millis / 1_000, millis % 1_000 / 100),
        millis @ 10_000..120_000 => format!("{} s", millis / 1_000),
        millis => format!("{} min", millis / 60_000),
    }
}

/// Formats a number of minutes as days, hours or minutes: the largest unit that gives a whole number.
fn format_minutes(minutes: u32) -> String {
    let units = [(1_440, "day"), (60, "hour"), (1, "minute")];
    let (size, unit) = units.into_iter().find(|(size, _)| minutes.is_multiple_of(*size)).unwrap_or((1, "minute"));
    match minutes / size {
        1 => unit.to_owned(),
        several => format!("{several} {unit}s"),
    }
}

/// Returns the last digits of the number to verify, after an ellipsis. The other digits are not stored.
pub fn masked_number(check: &AnyCheck) -> String {
    check.claimed.map(|claimed| format!("…{}", claimed.tail)).unwrap_or_default()
}

/// Returns the fields by which a product's checks can be searched.
pub fn search_fields(product: Product) -> &'static [Field] {
    match product {
        Product::Verification => &verification::SEARCH_FIELDS,
        Product::SimSwap => &sim_swap::SEARCH_FIELDS,
        // The fields that all checks have.
        _ => &SEARCH_FIELDS,
    }
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
