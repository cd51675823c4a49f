//! Spans of time, as lists of checks cut them: into days and hours that counters know, and what is left at the ends.

use jiff::Timestamp;
use uuid::Uuid;

use crate::rows;

pub(crate) const HOUR: i64 = 60 * 60 * 1_000;
pub(crate) const DAY: i64 = 24 * HOUR;

/// From one millisecond since 1970 until before another.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: i64,
    to: i64,
}

/// A piece of a span: whole days or hours, or less than an hour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Part {
    pub span: Span,
    pub is_whole: bool,
}

impl Span {
    /// All instants that an id can tell and that have a year of four digits. It begins and ends with a day.
    pub(crate) const EVER: Span = Span { from: 0, to: 253_402_300_800_000 };

    pub(crate) fn since(from: i64) -> Self {
        Span { from, ..Span::EVER }.and(Span::EVER)
    }

    pub(crate) fn before(to: i64) -> Self {
        Span { to, ..Span::EVER }.and(Span::EVER)
    }

    /// What both have in common.
    pub(crate) fn and(self, other: Span) -> Self {
        let from = self.from.max(other.from);
        Span { from, to: self.to.min(other.to).max(from) }
    }

    pub(crate) fn of_period(name: &str) -> Option<Self> {
        let length = if name.len() == "2026-11-15".len() { DAY } else { HOUR };
        let from = rows::period_start(name)?.as_millisecond();
        Some(Span { from, to: from + length })
    }

    pub(crate) fn millis(self) -> i64 {
        self.to - self.from
    }

    pub(crate) fn is_whole_days(self) -> bool {
        self.from % DAY == 0 && self.to % DAY == 0
    }

    /// The smallest id of the span.
    pub(crate) fn first_id(self) -> Uuid {
        id_from(self.from)
    }

    /// The smallest id after the span.
    pub(crate) fn end_id(self) -> Uuid {
        id_from(self.to)
    }

    /// The name of the period that begins with the span.
    pub(crate) fn name_of_start(self, length: i64) -> String {
        name(self.from, length)
    }

    /// The name of the period that begins where the span ends.
    pub(crate) fn name_of_end(self, length: i64) -> String {
        name(self.to, length)
    }

    /// The pieces of the span that are not empty, the newest first.
    pub(crate) fn parts(self) -> Vec<Part> {
        let within = |at: i64| at.clamp(self.from, self.to);
        let up = |length: i64| within(self.from.saturating_add(length - 1).div_euclid(length) * length);
        // What begins in a later hour or day than it ends in has none that is whole.
        let down = |length: i64| within(self.to.div_euclid(length) * length);
        let (first_hour, first_day) = (up(HOUR), up(DAY));
        let (last_hour, last_day) = (down(HOUR).max(first_hour), down(DAY).max(first_day));
        let cuts = [self.from, first_hour, first_day.min(last_hour), last_day.min(last_hour), last_hour, self.to];
        let mut parts: Vec<Part> = cuts
            .windows(2)
            .map(|ends| Span { from: ends[0], to: ends[1] })
            .filter(|span| span.from < span.to)
            .map(|span| Part { span, is_whole: span.from % HOUR == 0 && span.to % HOUR == 0 })
            .collect();
        parts.reverse();
        parts
    }
}

/// The smallest UUID of an instant.
fn id_from(millis: i64) -> Uuid {
    Uuid::from_u128(u128::from(millis.max(0).unsigned_abs()) << 80)
}

fn name(millis: i64, length: i64) -> String {
    // The end of all days has a year of five digits, which would sort before the others.
    let hour = Timestamp::from_millisecond(millis).ok().filter(|_| millis < Span::EVER.to).map(rows::hour_of);
    let mut hour = hour.unwrap_or_else(|| "9999-12-31T99".to_owned());
    if length == DAY {
        hour.truncate(if hour.ends_with("99") { 13 } else { 10 });
    }
    hour
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(from: i64, to: i64) -> Vec<(i64, i64, bool)> {
        let span = Span { from, to };
        span.parts().into_iter().map(|part| (part.span.from, part.span.to, part.is_whole)).collect()
    }

    #[test]
    fn a_span_is_cut_at_whole_hours_and_days() {
        let (first, last) = (2 * HOUR + 5, 3 * DAY + 4 * HOUR + 7);
        let expected = [
            (3 * DAY + 4 * HOUR, last, false),
            (3 * DAY, 3 * DAY + 4 * HOUR, true),
            (DAY, 3 * DAY, true),
            (3 * HOUR, DAY, true),
            (first, 3 * HOUR, false),
        ];
        assert_eq!(parts(first, last), expected);
        assert_eq!(parts(5, 7), [(5, 7, false)]);
        assert_eq!(parts(5, HOUR + 7), [(HOUR, HOUR + 7, false), (5, HOUR, false)]);
        assert_eq!(parts(0, HOUR), [(0, HOUR, true)]);
        assert_eq!(parts(DAY - HOUR, DAY + HOUR), [(DAY, DAY + HOUR, true), (DAY - HOUR, DAY, true)]);
        assert_eq!(parts(7, 7), []);
        assert_eq!(Span::EVER.parts().len(), 1);
    }

    /// Whatever the ends: the pieces are the span, and whole ones of more than a day are whole days.
    #[test]
    fn nothing_is_lost_between_the_pieces() {
        let ends: Vec<i64> = [0, 1, HOUR - 1, HOUR, HOUR + 1, DAY - HOUR, DAY - 1, DAY, DAY + 1, DAY + HOUR, 2 * DAY]
            .into_iter()
            .flat_map(|at| [at, at + 5 * DAY])
            .collect();
        for &from in &ends {
            for &to in ends.iter().filter(|to| **to > from) {
                let parts = parts(from, to);
                let mut end = to;
                for &(start, stop, is_whole) in &parts {
                    assert_eq!(stop, end, "{from} {to} {parts:?}");
                    assert!(is_whole || stop - start < HOUR, "{from} {to} {parts:?}");
                    let hours_only = stop - start < DAY || (start % DAY == 0 && stop % DAY == 0);
                    assert!(hours_only, "{from} {to} {parts:?}");
                    end = start;
                }
                assert_eq!(end, from);
            }
        }
    }

    #[test]
    fn names_sort_as_periods_do() {
        assert_eq!(name(HOUR, HOUR), "1970-01-01T01");
        assert_eq!(name(DAY, DAY), "1970-01-02");
        assert!(name(Span::EVER.to, DAY).as_str() > "9999-12-31");
        assert!(name(Span::EVER.to, HOUR).as_str() > "9999-12-31T23");
        assert_eq!(Span::of_period("1970-01-02"), Some(Span { from: DAY, to: 2 * DAY }));
        assert_eq!(Span::of_period("1970-01-01T01"), Some(Span { from: HOUR, to: 2 * HOUR }));
    }

    #[test]
    fn a_span_of_time_is_a_range_of_ids() {
        let at = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
        let span = Span::since(at.as_millisecond()).and(Span::before(at.as_millisecond() + 1));
        for randomness in [[0; 10], [255; 10]] {
            let id = ringtrue_domain::id::time_ordered(at, randomness);
            assert!(span.first_id() <= id && id < span.end_id());
        }
    }
}
