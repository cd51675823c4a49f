//! Time range of a list: two fields `from` and `to` in UTC, and links for common ranges.

use jiff::{Timestamp, ToSpan, civil::DateTime, tz::TimeZone};
use ringtrue_web::problem::Problem;

/// Common ranges: title, first day and day after the last, in days from today.
const PRESETS: [(&str, i64, i64); 4] = [("Today", 0, 1), ("Yesterday", -1, 0), ("7 days", -6, 1), ("30 days", -29, 1)];

/// A range of times. An end that is `None` is open.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct TimeRange {
    pub from: Option<Timestamp>,
    /// End of the range, which does not belong to it.
    pub to: Option<Timestamp>,
}

impl TimeRange {
    /// Parses the fields. An empty field counts as absent.
    pub fn parse<'q>(get: impl Fn(&str) -> Option<&'q str>) -> Result<Self, Problem> {
        let field = |name: &str| match get(name).map(str::trim).filter(|text| !text.is_empty()) {
            None => Ok(None),
            Some(text) => parse_date_time(text)
                .map(Some)
                .ok_or_else(|| Problem::bad_request(format!("`{name}` must be a date and time in UTC"))),
        };
        let range = TimeRange { from: field("from")?, to: field("to")? };
        match (range.from, range.to) {
            (Some(from), Some(to)) if to <= from => Err(Problem::bad_request("`to` must be later than `from`")),
            _ => Ok(range),
        }
    }

    /// Returns the common ranges with their titles.
    pub fn presets(now: Timestamp) -> impl Iterator<Item = (&'static str, TimeRange)> {
        let today = now.to_zoned(TimeZone::UTC).date();
        let midnight = move |days: i64| {
            let day = today.checked_add(days.days()).ok()?;
            Some(day.to_zoned(TimeZone::UTC).ok()?.timestamp())
        };
        PRESETS
            .into_iter()
            .map(move |(title, first, end)| (title, TimeRange { from: midnight(first), to: midnight(end) }))
    }

    /// Returns the values of the fields. An open end is empty.
    pub fn fields(self) -> [String; 2] {
        [self.from, self.to].map(|at| at.map(format_date_time).unwrap_or_default())
    }
}

/// Parses the value of `<input type="datetime-local">` as UTC.
fn parse_date_time(text: &str) -> Option<Timestamp> {
    // A date without a time would parse as midnight.
    let local = text.contains('T').then(|| text.parse::<DateTime>().ok())??;
    Some(local.to_zoned(TimeZone::UTC).ok()?.timestamp())
}

/// Formats a value of `<input type="datetime-local">`, to the minute if nothing is lost.
fn format_date_time(at: Timestamp) -> String {
    let is_whole_minute = at.as_millisecond() % 60_000 == 0;
    at.strftime(if is_whole_minute { "%Y-%m-%dT%H:%M" } else { "%Y-%m-%dT%H:%M:%S%.3f" }).to_string()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn fields_round_trip() {
        for text in ["2026-11-15T13:34", "2026-11-15T13:34:05.678"] {
            let range = TimeRange::parse(|name| (name == "from").then_some(text)).unwrap();
            assert_eq!(range.fields(), [text.to_owned(), String::new()]);
        }
        assert_eq!(TimeRange::parse(|_| Some(" ")).unwrap(), TimeRange::default());
    }

    #[test]
    fn invalid_fields_are_rejected() {
        for (from, to) in [
            ("now", ""),
            ("", "2026-11-15"),
            ("2026-11-15T13:34:00Z", ""),
            ("2026-11-15T13:34", "2026-11-15T13:34"),
            ("2026-11-16T00:00", "2026-11-15T00:00"),
        ] {
            assert!(TimeRange::parse(|name| Some(if name == "from" { from } else { to })).is_err(), "{from} {to}");
        }
    }

    #[test]
    fn presets_are_whole_days() {
        let now = "2026-03-01T12:34:56Z".parse().unwrap();
        let shown: Vec<_> = TimeRange::presets(now).map(|(title, range)| (title, range.fields().join(" "))).collect();
        let expected = [
            ("Today", "2026-03-01T00:00 2026-03-02T00:00"),
            ("Yesterday", "2026-02-28T00:00 2026-03-01T00:00"),
            ("7 days", "2026-02-23T00:00 2026-03-02T00:00"),
            ("30 days", "2026-01-31T00:00 2026-03-02T00:00"),
        ];
        assert_eq!(shown, expected.map(|(title, range)| (title, range.to_owned())));
    }
}
