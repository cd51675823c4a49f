//! Time spans. Checks in whole days and hours are counted in advance; those in partial hours at both ends are counted
//! row by row.

use jiff::Timestamp;
use uuid::Uuid;

use crate::row_mapping;

pub(crate) const HOUR_MILLIS: i64 = 60 * 60 * 1_000;
pub(crate) const DAY_MILLIS: i64 = 24 * HOUR_MILLIS;

/// A half-open time range, in milliseconds since 1970.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    from: i64,
    to: i64,
}

/// A part of a span: either whole hours, which have counters, or less than an hour, whose checks must be counted one by
/// one.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SpanPart {
    pub span: Span,
    pub is_whole_hours: bool,
}

impl Span {
    /// All times with a four-digit year since 1970. Starts and ends at midnight, so that it consists of whole days.
    pub(crate) const ALL_TIME: Span = Span { from: 0, to: 253_402_300_800_000 };

    pub(crate) fn since(from: i64) -> Self {
        Span { from, ..Span::ALL_TIME }.intersect(Span::ALL_TIME)
    }

    pub(crate) fn before(to: i64) -> Self {
        Span { to, ..Span::ALL_TIME }.intersect(Span::ALL_TIME)
    }

    pub(crate) fn intersect(self, other: Span) -> Self {
        let from = self.from.max(other.from);
        Span { from, to: self.to.min(other.to).max(from) }
    }

    pub(crate) fn parse_period(name: &str) -> Option<Self> {
        let length = if name.len() == "2026-11-15".len() { DAY_MILLIS } else { HOUR_MILLIS };
        let from = row_mapping::parse_period_start(name)?.as_millisecond();
        Some(Span { from, to: from + length })
    }

    pub(crate) fn millis(self) -> i64 {
        self.to - self.from
    }

    pub(crate) fn is_whole_days(self) -> bool {
        self.from % DAY_MILLIS == 0 && self.to % DAY_MILLIS == 0
    }

    /// Returns the smallest possible id of a check within the span. Ids begin with the creation time.
    pub(crate) fn first_id(self) -> Uuid {
        min_id_at(self.from)
    }

    /// Returns the smallest possible id of a check after the span. Ids begin with the creation time.
    pub(crate) fn end_id(self) -> Uuid {
        min_id_at(self.to)
    }

    /// Returns the key of the counter that contains the start of the span. `length` selects the counter: an hour or a
    /// day, in milliseconds.
    pub(crate) fn start_period_name(self, length: i64) -> String {
        period_name(self.from, length)
    }

    /// Returns the key of the counter that contains the end of the span, such as `2026-11-15T13` for an hour or
    /// `2026-11-15` for a day.
    pub(crate) fn end_period_name(self, length: i64) -> String {
        period_name(self.to, length)
    }

    /// Splits the span into non-empty parts, newest first.
    pub(crate) fn parts(self) -> Vec<SpanPart> {
        let within = |at: i64| at.clamp(self.from, self.to);
        let up = |length: i64| within(self.from.saturating_add(length - 1).div_euclid(length) * length);
        // Clamped, because a span within one hour or day contains no whole hour or day.
        let down = |length: i64| within(self.to.div_euclid(length) * length);
        let (first_hour, first_day) = (up(HOUR_MILLIS), up(DAY_MILLIS));
        let (last_hour, last_day) = (down(HOUR_MILLIS).max(first_hour), down(DAY_MILLIS).max(first_day));
        let cuts = [self.from, first_hour, first_day.min(last_hour), last_day.min(last_hour), last_hour, self.to];
        let mut parts: Vec<SpanPart> = cuts
            .windows(2)
            .map(|ends| Span { from: ends[0], to: ends[1] })
            .filter(|span| span.from < span.to)
            .map(|span| SpanPart { span, is_whole_hours: span.from % HOUR_MILLIS == 0 && span.to % HOUR_MILLIS == 0 })
            .collect();
        parts.reverse();
        parts
    }
}

fn min_id_at(millis: i64) -> Uuid {
    Uuid::from_u128(u128::from(millis.max(0).unsigned_abs()) << 80)
}

fn period_name(millis: i64, length: i64) -> String {
    // The end of `ALL_TIME` has a five-digit year, whose name would sort before the others. It gets a name that sorts
    // last.
    let hour =
        Timestamp::from_millisecond(millis).ok().filter(|_| millis < Span::ALL_TIME.to).map(row_mapping::format_hour);
    let mut hour = hour.unwrap_or_else(|| "9999-12-31T99".to_owned());
    if length == DAY_MILLIS {
        hour.truncate(if hour.ends_with("99") { 13 } else { 10 });
    }
    hour
}

#[cfg(test)]
mod tests {
    use super::*;

    fn parts(from: i64, to: i64) -> Vec<(i64, i64, bool)> {
        let span = Span { from, to };
        span.parts().into_iter().map(|part| (part.span.from, part.span.to, part.is_whole_hours)).collect()
    }

    #[test]
    fn span_splits_at_whole_hours_and_days() {
        let (first, last) = (2 * HOUR_MILLIS + 5, 3 * DAY_MILLIS + 4 * HOUR_MILLIS + 7);
        let expected = [
            (3 * DAY_MILLIS + 4 * HOUR_MILLIS, last, false),
            (3 * DAY_MILLIS, 3 * DAY_MILLIS + 4 * HOUR_MILLIS, true),
            (DAY_MILLIS, 3 * DAY_MILLIS, true),
            (3 * HOUR_MILLIS, DAY_MILLIS, true),
            (first, 3 * HOUR_MILLIS, false),
        ];
        assert_eq!(parts(first, last), expected);
        assert_eq!(parts(5, 7), [(5, 7, false)]);
        assert_eq!(parts(5, HOUR_MILLIS + 7), [(HOUR_MILLIS, HOUR_MILLIS + 7, false), (5, HOUR_MILLIS, false)]);
        assert_eq!(parts(0, HOUR_MILLIS), [(0, HOUR_MILLIS, true)]);
        assert_eq!(
            parts(DAY_MILLIS - HOUR_MILLIS, DAY_MILLIS + HOUR_MILLIS),
            [(DAY_MILLIS, DAY_MILLIS + HOUR_MILLIS, true), (DAY_MILLIS - HOUR_MILLIS, DAY_MILLIS, true)]
        );
        assert_eq!(parts(7, 7), []);
        assert_eq!(Span::ALL_TIME.parts().len(), 1);
    }

    #[test]
    fn parts_cover_the_span_without_gaps() {
        let ends: Vec<i64> = [
            0,
            1,
            HOUR_MILLIS - 1,
            HOUR_MILLIS,
            HOUR_MILLIS + 1,
            DAY_MILLIS - HOUR_MILLIS,
            DAY_MILLIS - 1,
            DAY_MILLIS,
            DAY_MILLIS + 1,
            DAY_MILLIS + HOUR_MILLIS,
            2 * DAY_MILLIS,
        ]
        .into_iter()
        .flat_map(|at| [at, at + 5 * DAY_MILLIS])
        .collect();
        for &from in &ends {
            for &to in ends.iter().filter(|to| **to > from) {
                let parts = parts(from, to);
                let mut end = to;
                for &(start, stop, is_whole) in &parts {
                    assert_eq!(stop, end, "{from} {to} {parts:?}");
                    assert!(is_whole || stop - start < HOUR_MILLIS, "{from} {to} {parts:?}");
                    let hours_only = stop - start < DAY_MILLIS || (start % DAY_MILLIS == 0 && stop % DAY_MILLIS == 0);
                    assert!(hours_only, "{from} {to} {parts:?}");
                    end = start;
                }
                assert_eq!(end, from);
            }
        }
    }

    #[test]
    fn period_names_sort_by_time() {
        assert_eq!(period_name(HOUR_MILLIS, HOUR_MILLIS), "1970-01-01T01");
        assert_eq!(period_name(DAY_MILLIS, DAY_MILLIS), "1970-01-02");
        assert!(period_name(Span::ALL_TIME.to, DAY_MILLIS).as_str() > "9999-12-31");
        assert!(period_name(Span::ALL_TIME.to, HOUR_MILLIS).as_str() > "9999-12-31T23");
        assert_eq!(Span::parse_period("1970-01-02"), Some(Span { from: DAY_MILLIS, to: 2 * DAY_MILLIS }));
        assert_eq!(Span::parse_period("1970-01-01T01"), Some(Span { from: HOUR_MILLIS, to: 2 * HOUR_MILLIS }));
    }

    #[test]
    fn span_is_a_range_of_ids() {
        let at = Timestamp::from_millisecond(1_800_000_000_123).unwrap();
        let span = Span::since(at.as_millisecond()).intersect(Span::before(at.as_millisecond() + 1));
        for randomness in [[0; 10], [255; 10]] {
            let id = ringtrue_domain::id::uuid_v7(at, randomness);
            assert!(span.first_id() <= id && id < span.end_id());
        }
    }
}
