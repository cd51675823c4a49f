//! Timestamps in the API, written in RFC 3339 in UTC, with milliseconds and `Z`.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};

use crate::date_time;

pub const EXPECTED_FORMAT_MESSAGE: &str = "expected an RFC 3339 date-time such as `2026-11-14T09:30:00.123Z`";

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

pub fn format(instant: Timestamp) -> String {
    PRINTER.timestamp_to_string(&instant)
}

/// Parses an RFC 3339 date-time, and truncates it to milliseconds.
pub fn parse(text: &str) -> Option<Timestamp> {
    let millis = date_time::parse(text)?.as_microsecond().div_euclid(1_000);
    Timestamp::from_millisecond(millis).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn timestamps_are_written_in_milliseconds_and_utc() {
        for (given, written) in [
            ("2026-11-14T09:30:00.123Z", Some("2026-11-14T09:30:00.123Z")),
            ("2026-11-14T09:30:00Z", Some("2026-11-14T09:30:00.000Z")),
            ("2026-11-14T09:30:00.123999+02:00", Some("2026-11-14T07:30:00.123Z")),
            ("2026-11-14t09:30:00z", Some("2026-11-14T09:30:00.000Z")),
            ("1969-12-31T23:59:59.9999Z", Some("1969-12-31T23:59:59.999Z")),
            ("0000-01-01T00:00:00Z", Some("0000-01-01T00:00:00.000Z")),
            ("9999-12-31T23:59:59Z", Some("9999-12-30T22:00:00.000Z")),
            ("2026-11-14", None),
            ("2026-11-14T09:30Z", None),
            ("2026-11-14T09:30:00", None),
            ("2026-11-14 09:30:00Z", None),
            ("2026-11-14T09:30:00[Europe/Paris]", None),
            ("-009999-11-14T09:30:00Z", None),
            ("yesterday", None),
            ("", None),
        ] {
            assert_eq!(parse(given).map(format).as_deref(), written, "{given}");
        }
    }
}
