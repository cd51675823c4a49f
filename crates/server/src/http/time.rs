//! Instants on the wire: RFC 3339, UTC, milliseconds, `Z`.

use jiff::{Timestamp, fmt::temporal::DateTimePrinter};

pub const EXPECTED: &str = "expected an RFC 3339 date-time such as `2026-11-14T09:30:00.123Z`";

const PRINTER: DateTimePrinter = DateTimePrinter::new().precision(Some(3));

pub fn format(instant: Timestamp) -> String {
    PRINTER.timestamp_to_string(&instant)
}

/// Takes any offset; cuts what is finer than a millisecond.
pub fn parse(text: &str) -> Option<Timestamp> {
    // jiff takes further forms of ISO 8601; on the wire there is one.
    let has_the_shape = text.len() >= 20
        && text.is_ascii()
        && text.as_bytes().iter().enumerate().all(|(at, byte)| match at {
            4 | 7 => *byte == b'-',
            13 | 16 => *byte == b':',
            10 => matches!(byte, b'T' | b't'),
            0..19 => byte.is_ascii_digit(),
            _ => matches!(byte, b'0'..=b'9' | b'.' | b':' | b'+' | b'-' | b'T' | b't' | b'Z' | b'z'),
        });
    let instant: Timestamp = if has_the_shape { text.parse().ok()? } else { return None };
    // Years that no database column or client is ready for are nobody's intention.
    let in_range = (0..253_402_300_800).contains(&instant.as_second());
    in_range.then(|| Timestamp::from_millisecond(instant.as_millisecond()).ok()).flatten()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn instants_are_written_in_milliseconds_and_utc() {
        for (given, written) in [
            ("2026-11-14T09:30:00.123Z", Some("2026-11-14T09:30:00.123Z")),
            ("2026-11-14T09:30:00Z", Some("2026-11-14T09:30:00.000Z")),
            ("2026-11-14T09:30:00.123999+02:00", Some("2026-11-14T07:30:00.123Z")),
            ("2026-11-14t09:30:00z", Some("2026-11-14T09:30:00.000Z")),
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
