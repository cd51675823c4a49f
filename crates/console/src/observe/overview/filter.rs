//! Filter of the overview: what it counts, in which time span, for which network.

use jiff::{Timestamp, civil::DateTime, tz::TimeZone};
use ringtrue_domain::{network::NetworkId, product::Product};
use ringtrue_engine::{
    activity::{OverviewFilter, OverviewSpan},
    ports::activity::ActivityScope,
};
use ringtrue_web::{parameters::Query, problem::Problem};

use crate::page::error::ConsoleError;

/// Format of values of `<input type="datetime-local">`.
pub const DATE_TIME_FORMAT: &str = "%Y-%m-%dT%H:%M";

/// Parses the filter, and whether the query chooses between verifications and checks. An empty parameter counts as
/// absent.
pub fn parse_filter(query: Option<&str>) -> Result<(OverviewFilter, bool), ConsoleError> {
    let query = Query::parse(query, &["view", "span", "from", "to", "product", "network"])?;
    let parameter = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let span = match parameter("span") {
        None => OverviewSpan::Hour,
        Some("custom") => {
            let instant = |name| {
                parse_date_time(parameter(name).unwrap_or_default())
                    .ok_or_else(|| Problem::bad_request(format!("`{name}` must be a date and time in UTC")))
            };
            let (from, to) = (instant("from")?, instant("to")?);
            if to <= from {
                return Err(Problem::bad_request("`to` must be later than `from`").into());
            }
            OverviewSpan::Custom { from, to }
        }
        Some(name) => {
            let found = OverviewSpan::CURRENT.into_iter().find(|span| span_name(*span) == name);
            let problem = "`span` must be `hour`, `day`, `week`, `month` or `custom`";
            found.ok_or_else(|| Problem::bad_request(problem))?
        }
    };
    let product = match parameter("product") {
        None => None,
        Some(name) => {
            let found = products_with_checks().find(|product| product.into_str() == name);
            Some(found.ok_or_else(|| Problem::bad_request("`product` must be a product with checks"))?)
        }
    };
    let scope = match (parameter("view"), product) {
        (Some("verifications"), Some(_)) => {
            return Err(Problem::bad_request("`product` applies to checks only").into());
        }
        (Some("checks"), product) | (None, product @ Some(_)) => ActivityScope::Checks(product),
        (Some("verifications") | None, None) => ActivityScope::Verifications,
        (Some(_), _) => return Err(Problem::bad_request("`view` must be `verifications` or `checks`").into()),
    };
    let has_view = parameter("view").is_some() || product.is_some();
    let network = parameter("network").map(str::parse::<NetworkId>).transpose();
    let network = network.map_err(|error| Problem::bad_request(format!("`network`: {error}")))?;
    Ok((OverviewFilter { span, scope, network }, has_view))
}

/// Returns the products whose checks the user can select. Verifications have a view of their own.
pub fn products_with_checks() -> impl Iterator<Item = Product> {
    Product::WITH_CHECKS.iter().copied().filter(|product| *product != Product::Verification)
}

/// Parses the value of `<input type="datetime-local">` as UTC.
fn parse_date_time(text: &str) -> Option<Timestamp> {
    let local = DateTime::strptime(DATE_TIME_FORMAT, text).ok()?;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

pub fn span_name(span: OverviewSpan) -> &'static str {
    match span {
        OverviewSpan::Hour => "hour",
        OverviewSpan::Day => "day",
        OverviewSpan::Week => "week",
        OverviewSpan::Month => "month",
        OverviewSpan::Custom { .. } => "custom",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn date_times_of_the_form_are_utc() {
        let at = parse_date_time("2026-11-15T13:34").unwrap();
        assert_eq!(at.to_string(), "2026-11-15T13:34:00Z");
        for wrong in ["", "2026-11-15", "2026-11-15T13:34:00Z", "now"] {
            assert_eq!(parse_date_time(wrong), None, "{wrong}");
        }
    }
}
