//! Filters of the check list. They are kept as a search expression, which the page shows and the user can edit.

use jiff::{Span, civil::Date};
use ringtrue_domain::lifecycle::CheckStatus;

const MIDNIGHT: &str = "T00:00:00Z";

/// Selected filters. `None` and empty lists match all checks.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct CheckFilters {
    pub statuses: Vec<CheckStatus>,
    pub verified: Option<bool>,
    /// First day of creation, in UTC. `to` is the last day. Both are inclusive.
    pub from: Option<Date>,
    pub to: Option<Date>,
}

impl CheckFilters {
    /// Parses a search expression. `None`: it contains comparisons that these filters cannot represent.
    pub fn parse(expression: &str) -> Option<Self> {
        let mut filters = CheckFilters::default();
        for part in expression.split(';').filter(|_| !expression.is_empty()) {
            if let Some(names) = part.strip_prefix("status=in=(").and_then(|rest| rest.strip_suffix(')')) {
                filters.statuses = names.split(',').map(str::parse).collect::<Result<_, _>>().ok()?;
            } else if let Some(name) = part.strip_prefix("status==") {
                filters.statuses = vec![name.parse().ok()?];
            } else if let Some(verified) = part.strip_prefix("verified==") {
                filters.verified = Some(verified.parse().ok()?);
            } else if let Some(from) = part.strip_prefix("created_at=ge=") {
                filters.from = Some(from.strip_suffix(MIDNIGHT)?.parse().ok()?);
            } else {
                let end: Date = part.strip_prefix("created_at=lt=")?.strip_suffix(MIDNIGHT)?.parse().ok()?;
                filters.to = Some(end.yesterday().ok()?);
            }
        }
        Some(filters)
    }

    /// Returns the filters as a search expression. Empty without filters.
    pub fn expression(&self) -> String {
        let mut parts = Vec::new();
        match &self.statuses[..] {
            [] => {}
            [one] => parts.push(format!("status=={}", one.into_str())),
            several => {
                let names: Vec<_> = several.iter().map(CheckStatus::into_str).collect();
                parts.push(format!("status=in=({})", names.join(",")));
            }
        }
        parts.extend(self.verified.map(|verified| format!("verified=={verified}")));
        parts.extend(self.from.map(|from| format!("created_at=ge={from}{MIDNIGHT}")));
        let end = self.to.and_then(|to| to.tomorrow().ok());
        parts.extend(end.map(|end| format!("created_at=lt={end}{MIDNIGHT}")));
        parts.join(";")
    }

    /// Returns the filters with a status added, or removed if it was selected.
    #[must_use]
    pub fn toggle_status(&self, status: CheckStatus) -> Self {
        let mut filters = self.clone();
        if filters.statuses.contains(&status) {
            filters.statuses.retain(|other| *other != status);
        } else {
            filters.statuses.push(status);
        }
        filters
    }

    /// Returns the filters with this result selected, or with no result selected if this one was.
    #[must_use]
    pub fn toggle_verified(&self, verified: bool) -> Self {
        let is_selected = self.verified == Some(verified);
        CheckFilters { verified: (!is_selected).then_some(verified), ..self.clone() }
    }

    /// Returns the filters limited to checks created in the last `days` days, or without limit if these days were
    /// selected.
    #[must_use]
    pub fn toggle_last_days(&self, days: i32, today: Date) -> Self {
        let from = Self::first_of_last_days(days, today);
        let is_selected = self.from == from && self.to.is_none();
        CheckFilters { from: from.filter(|_| !is_selected), to: None, ..self.clone() }
    }

    pub fn has_last_days(&self, days: i32, today: Date) -> bool {
        self.from.is_some() && self.from == Self::first_of_last_days(days, today) && self.to.is_none()
    }

    fn first_of_last_days(days: i32, today: Date) -> Option<Date> {
        today.checked_sub(Span::new().try_days(days - 1).ok()?).ok()
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{reverse_sms::SEARCH_FIELDS, search};

    use super::*;

    fn day(text: &str) -> Date {
        text.parse().unwrap()
    }

    #[test]
    fn filters_round_trip_through_valid_expressions() {
        let all = CheckFilters {
            statuses: vec![CheckStatus::Expired, CheckStatus::Error],
            verified: Some(false),
            from: Some(day("2026-01-30")),
            to: Some(day("2026-01-31")),
        };
        for (filters, expression) in [
            (CheckFilters::default(), ""),
            (CheckFilters { statuses: vec![CheckStatus::Error], ..CheckFilters::default() }, "status==ERROR"),
            (
                all,
                "status=in=(EXPIRED,ERROR);verified==false;created_at=ge=2026-01-30T00:00:00Z;\
                 created_at=lt=2026-02-01T00:00:00Z",
            ),
        ] {
            assert_eq!(filters.expression(), expression);
            assert_eq!(CheckFilters::parse(expression), Some(filters));
            assert!(expression.is_empty() || search::parse(expression, &SEARCH_FIELDS).is_ok(), "{expression}");
        }
    }

    #[test]
    fn other_expressions_are_not_filters() {
        for expression in [
            "reference_id==x",
            "status==DONE",
            "status==ERROR,verified==true",
            "created_at=ge=2026-01-01T12:00:00Z",
            ";",
        ] {
            assert_eq!(CheckFilters::parse(expression), None, "{expression}");
        }
    }

    #[test]
    fn filters_are_toggled() {
        let (none, today) = (CheckFilters::default(), day("2026-03-01"));
        let errors = none.toggle_status(CheckStatus::Error);
        assert_eq!(errors.expression(), "status==ERROR");
        assert_eq!(errors.toggle_status(CheckStatus::Error), none);
        assert_eq!(none.toggle_verified(true).toggle_verified(false).verified, Some(false));
        assert_eq!(none.toggle_verified(true).toggle_verified(true), none);
        let week = none.toggle_last_days(7, today);
        assert_eq!(week.expression(), "created_at=ge=2026-02-23T00:00:00Z");
        assert!(week.has_last_days(7, today) && !week.has_last_days(1, today));
        assert_eq!(week.toggle_last_days(7, today), none);
    }
}
