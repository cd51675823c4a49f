//! Parses the date-times of API requests (RFC 3339, section 5.6).
//!
//! The library `jiff` accepts more (weeks, missing seconds, time zone names), so the form is checked first. The last
//! instant that `jiff` supports is a day before the end of the year 9999, so later instants are clamped to it.

use jiff::{Timestamp, civil::DateTime, tz::Offset};

/// `0000-01-01T00:00:00Z`, the earliest instant that RFC 3339 can express in UTC.
pub const EARLIEST: Timestamp = Timestamp::constant(-62_167_219_200, 0);
/// `9999-12-30T22:00:00Z`, the last whole second that `jiff` supports. SQLite and PostgreSQL can store it.
pub const LATEST: Timestamp = Timestamp::constant(253_402_207_200, 0);

const DATE_TIME_SHAPE: &str = "0000-00-00T00:00:00";
/// Digits of nanoseconds. Further digits are ignored.
const MAX_FRACTION_DIGITS: usize = 9;
const MAX_OFFSET_HOURS: i32 = 23;

/// Parses any date-time of the years 0000 to 9999 with an offset below 24 hours.
///
/// Instants before [`EARLIEST`] or after [`LATEST`] are clamped. No stored instant is outside this range, so the
/// results of comparisons do not change.
pub fn parse(text: &str) -> Option<Timestamp> {
    let (seconds, rest) =
        text.split_at_checked(DATE_TIME_SHAPE.len()).filter(|(seconds, _)| has_shape(seconds, DATE_TIME_SHAPE))?;
    let (fraction, offset) = match rest.strip_prefix('.') {
        Some(rest) => rest.split_at(rest.find(|c: char| !c.is_ascii_digit()).filter(|digits| *digits > 0)?),
        None => ("0", rest),
    };
    let fraction = &fraction[..fraction.len().min(MAX_FRACTION_DIGITS)];
    let civil: DateTime = format!("{seconds}.{fraction}").parse().ok()?;
    let instant = parse_offset(offset)?.to_timestamp(civil).unwrap_or(LATEST);
    Some(instant.clamp(EARLIEST, LATEST))
}

fn parse_offset(text: &str) -> Option<Offset> {
    if text.eq_ignore_ascii_case("Z") {
        return Some(Offset::UTC);
    }
    let sign = match text.as_bytes().first()? {
        b'+' => 1,
        b'-' => -1,
        _ => return None,
    };
    let (hours, minutes) = text[1..].split_once(':').filter(|_| has_shape(&text[1..], "00:00"))?;
    let (hours, minutes): (i32, i32) = (hours.parse().ok()?, minutes.parse().ok()?);
    let is_in_range = hours <= MAX_OFFSET_HOURS && minutes < 60;
    Offset::from_seconds(sign * (hours * 3_600 + minutes * 60)).ok().filter(|_| is_in_range)
}

/// Whether `text` has a digit wherever `shape` has a `0`, and the same characters elsewhere, in upper or lower case.
pub(crate) fn has_shape(text: &str, shape: &str) -> bool {
    text.len() == shape.len()
        && text.bytes().zip(shape.bytes()).all(|(byte, expected)| match expected {
            b'0' => byte.is_ascii_digit(),
            _ => byte.eq_ignore_ascii_case(&expected),
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rfc_3339_date_times_are_parsed() {
        for (text, instant) in [
            ("2026-11-14T09:30:00Z", "2026-11-14T09:30:00Z"),
            ("2026-11-14t09:30:00z", "2026-11-14T09:30:00Z"),
            ("2026-11-14T09:30:00.123456789+02:00", "2026-11-14T07:30:00.123456789Z"),
            ("2026-11-14T09:30:00.1234567891234Z", "2026-11-14T09:30:00.123456789Z"),
            ("2026-11-14T09:30:00-23:59", "2026-11-15T09:29:00Z"),
            ("1969-12-31T23:59:59.999Z", "1969-12-31T23:59:59.999Z"),
            ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
            ("0000-01-01T00:00:00+23:59", "0000-01-01T00:00:00Z"),
            ("9999-12-30T22:00:00Z", "9999-12-30T22:00:00Z"),
        ] {
            assert_eq!(parse(text), Some(instant.parse().unwrap()), "{text}");
        }
        for beyond in ["9999-12-31T23:59:59Z", "9999-12-31T23:59:59.999-23:59"] {
            assert_eq!(parse(beyond), Some(LATEST), "{beyond}");
        }
    }

    #[test]
    fn other_forms_are_rejected() {
        for text in [
            "",
            "yesterday",
            "2026-11-14",
            "2026-11-14T09:30Z",
            "2026-11-14T09:30:00",
            "2026-11-14T09:30:00.Z",
            "2026-11-14T09:30:00.5",
            "2026-11-14T09:30:00,5Z",
            "2026-11-14 09:30:00Z",
            "2026-02-30T09:30:00Z",
            "2026-11-14T24:00:00Z",
            "2026-11-14T09:30:00+0100",
            "2026-11-14T09:30:00+01",
            "2026-11-14T09:30:00+24:00",
            "2026-11-14T09:30:00+01:60",
            "2026-11-14T09:30:00+é:00",
            "2026-11-14T09:30:00Z[UTC]",
            "2026-11-14T09:30:00é",
            "-009999-11-14T09:30:00Z",
            "10000-01-01T00:00:00Z",
            "\u{664}026-01-31T09:30:00Z",
        ] {
            assert_eq!(parse(text), None, "{text}");
        }
    }
}
