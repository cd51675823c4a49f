//! Axis ranges and value formats.

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Millis,
}

const TIME_AXIS_MAXIMA_MILLIS: [i64; 13] =
    [200, 500, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 60_000, 120_000, 240_000, 600_000, 1_200_000];

impl Unit {
    /// The axis maximum: a round number of at least `highest` with a round half.
    pub fn axis_max(self, highest: i64) -> i64 {
        match self {
            Unit::Count => {
                let mut magnitude = 1_i64;
                loop {
                    if let Some(top) =
                        [2, 4, 6, 8, 10].map(|step| step * magnitude).into_iter().find(|top| *top >= highest)
                    {
                        return top;
                    }
                    let Some(next) = magnitude.checked_mul(10).filter(|next| *next < i64::MAX / 100) else {
                        return highest;
                    };
                    magnitude = next;
                }
            }
            Unit::Millis => TIME_AXIS_MAXIMA_MILLIS.into_iter().find(|top| *top >= highest).unwrap_or(highest),
        }
    }

    pub fn format(self, value: i64) -> String {
        match self {
            Unit::Count => group_thousands(value),
            Unit::Millis => match value {
                ..1_000 => format!("{value} ms"),
                1_000..10_000 if value % 1_000 >= 100 => format!("{}.{} s", value / 1_000, value % 1_000 / 100),
                1_000..60_000 => format!("{} s", value / 1_000),
                _ if value % 60_000 < 1_000 => format!("{} min", value / 60_000),
                _ => format!("{} min {} s", value / 60_000, value % 60_000 / 1_000),
            },
        }
    }
}

fn group_thousands(value: i64) -> String {
    let digits = value.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("−", digits));
    let mut text = sign.to_owned();
    for (access, digit) in digits.char_indices() {
        if access > 0 && (digits.len() - access).is_multiple_of(3) {
            text.push(',');
        }
        text.push(digit);
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn axis_max_is_round() {
        for (unit, highest, top) in [
            (Unit::Count, 0, 2),
            (Unit::Count, 2, 2),
            (Unit::Count, 3, 4),
            (Unit::Count, 5, 6),
            (Unit::Count, 9, 10),
            (Unit::Count, 11, 20),
            (Unit::Count, 401, 600),
            (Unit::Count, i64::MAX, i64::MAX),
            (Unit::Millis, 0, 200),
            (Unit::Millis, 1_900, 2_000),
            (Unit::Millis, 41_000, 60_000),
            (Unit::Millis, 2_000_000, 2_000_000),
        ] {
            assert_eq!(unit.axis_max(highest), top, "{unit:?} {highest}");
        }
    }

    #[test]
    fn values_are_formatted_with_units() {
        for (unit, value, text) in [
            (Unit::Count, 0, "0"),
            (Unit::Count, 999, "999"),
            (Unit::Count, 1_000, "1,000"),
            (Unit::Count, -1_234_567, "−1,234,567"),
            (Unit::Millis, 250, "250 ms"),
            (Unit::Millis, 1_000, "1 s"),
            (Unit::Millis, 1_580, "1.5 s"),
            (Unit::Millis, 15_900, "15 s"),
            (Unit::Millis, 60_000, "1 min"),
            (Unit::Millis, 90_000, "1 min 30 s"),
        ] {
            assert_eq!(unit.format(value), text);
        }
    }
}
