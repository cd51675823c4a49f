//! Where scales end, and how values are written.

/// What is measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unit {
    Count,
    Millis,
}

/// The ends of scales of time, in milliseconds.
const TIMES: [i64; 13] =
    [200, 500, 1_000, 2_000, 4_000, 10_000, 20_000, 40_000, 60_000, 120_000, 240_000, 600_000, 1_200_000];

impl Unit {
    /// A round number that is no less than this, and whose half is round too.
    pub fn top(self, highest: i64) -> i64 {
        match self {
            Unit::Count => {
                let mut ten = 1_i64;
                loop {
                    if let Some(top) = [2, 4, 6, 8, 10].map(|step| step * ten).into_iter().find(|top| *top >= highest) {
                        return top;
                    }
                    let Some(next) = ten.checked_mul(10).filter(|next| *next < i64::MAX / 100) else { return highest };
                    ten = next;
                }
            }
            Unit::Millis => TIMES.into_iter().find(|top| *top >= highest).unwrap_or(highest),
        }
    }

    pub fn show(self, value: i64) -> String {
        match self {
            Unit::Count => grouped(value),
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

/// Digits in groups of three.
fn grouped(value: i64) -> String {
    let digits = value.to_string();
    let (sign, digits) = digits.strip_prefix('-').map_or(("", digits.as_str()), |digits| ("−", digits));
    let mut text = sign.to_owned();
    for (place, digit) in digits.char_indices() {
        if place > 0 && (digits.len() - place).is_multiple_of(3) {
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
    fn scales_end_with_round_numbers() {
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
            assert_eq!(unit.top(highest), top, "{unit:?} {highest}");
        }
    }

    #[test]
    fn values_are_written_for_people() {
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
            assert_eq!(unit.show(value), text);
        }
    }
}
