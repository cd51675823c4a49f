//! Outcomes of checks, as counts, percentages and bars.

use ringtrue_domain::activity::ActivityCounts;

use crate::{
    observe::overview::View,
    page::{
        BadgeKind,
        chart::{Svg, Unit, stacked_bar},
    },
};

/// Number of checks with one outcome.
#[derive(Debug)]
pub struct Outcome {
    pub name: &'static str,
    pub css_class: &'static str,
    pub count: String,
    /// Percentage of all checks.
    pub percent: String,
}

pub fn format_percent(part: i64, whole: i64) -> String {
    if whole > 0 { format!("{} %", (part.max(0) * 200 + whole) / (2 * whole)) } else { "–".to_owned() }
}

/// Returns name, colour and number of checks for each outcome.
fn outcome_counts(view: View, counts: &ActivityCounts) -> [(&'static str, BadgeKind, i64); 5] {
    [
        (matched_name(view), BadgeKind::Match, counts.matched.max(0)),
        ("No match", BadgeKind::NoMatch, counts.unmatched()),
        ("Expired", BadgeKind::Expired, counts.expired.max(0)),
        ("Failed", BadgeKind::Failed, counts.failed.max(0)),
        ("Open", BadgeKind::Open, counts.open_checks()),
    ]
}

pub fn matched_name(view: View) -> &'static str {
    match view {
        View::Verifications => "Verified",
        View::Checks => "Match",
    }
}

pub fn outcomes(view: View, counts: &ActivityCounts) -> Vec<Outcome> {
    let outcomes = outcome_counts(view, counts);
    let percentages = percentages(outcomes.map(|(.., count)| count));
    let outcome = |((name, kind, count), percent): ((&'static str, BadgeKind, i64), Option<i64>)| Outcome {
        name,
        css_class: kind.css_class(),
        count: Unit::Count.format(count),
        percent: percent.map_or_else(|| "–".to_owned(), |percent| format!("{percent} %")),
    };
    outcomes.into_iter().zip(percentages).map(outcome).collect()
}

/// Returns the counts as whole percentages that add up to 100. The largest remainders are rounded up. `None`: all
/// counts are zero.
pub fn percentages<const N: usize>(counts: [i64; N]) -> [Option<i64>; N] {
    let total: i64 = counts.iter().sum();
    if total <= 0 {
        return [None; N];
    }
    let mut percentages = counts.map(|count| count * 100 / total);
    let mut by_remainder: [usize; N] = std::array::from_fn(|index| index);
    by_remainder.sort_by_key(|index| std::cmp::Reverse(counts[*index] * 100 % total));
    let missing = 100 - percentages.iter().sum::<i64>();
    for index in by_remainder.into_iter().take(usize::try_from(missing).unwrap_or_default()) {
        percentages[index] += 1;
    }
    percentages.map(Some)
}

/// Draws the outcomes as parts of one bar.
pub fn outcome_bar(counts: &ActivityCounts) -> Svg {
    stacked_bar(&outcome_counts(View::Checks, counts).map(|(_, kind, count)| (kind.css_class(), count)))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn outcomes_are_apart() {
        let total = ActivityCounts {
            created: 20,
            completed: 14,
            matched: 12,
            expired: 3,
            failed: 1,
            ..ActivityCounts::default()
        };
        let shown: Vec<_> =
            outcomes(View::Checks, &total).into_iter().map(|it| (it.name, it.count, it.percent)).collect();
        let expected = [
            ("Match", "12", "60 %"),
            ("No match", "2", "10 %"),
            ("Expired", "3", "15 %"),
            ("Failed", "1", "5 %"),
            ("Open", "2", "10 %"),
        ];
        assert_eq!(shown, expected.map(|(name, count, percent)| (name, count.to_owned(), percent.to_owned())));
    }

    #[test]
    fn percentages_add_up() {
        for (counts, expected) in [
            ([1, 1, 1, 0], [34, 33, 33, 0]),
            ([2, 1, 0, 0], [67, 33, 0, 0]),
            ([999, 1, 0, 0], [100, 0, 0, 0]),
            ([1, 2, 3, 4], [10, 20, 30, 40]),
        ] {
            assert_eq!(percentages(counts), expected.map(Some));
        }
        assert_eq!(percentages([0, 0]), [None, None]);
    }
}
