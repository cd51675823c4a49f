//! From a filter to a condition in SQL.
//!
//! One text for both databases, and nothing of the caller's in it: fields become the columns that the list knows them
//! by, operands become values. Text is compared by its bytes (`collate "C"` in `PostgreSQL`; in `SQLite` by default, with
//! `case_sensitive_like` for patterns).

use jiff::Timestamp;
use ringtrue_domain::search::{Choice, Filter, InstantTest, Pattern, Piece, Test, TextTest};
use ringtrue_engine::ports::StoreError;

use crate::driver::Value;

/// The condition that a row meets when the filter finds it. Its operands are added to `values`.
///
/// `column` gives the column, or the expression, of a field. A field that the list does not have is a fault of whoever
/// parsed the filter.
pub(crate) fn compile(
    filter: &Filter,
    column: fn(&str) -> Option<&'static str>,
    values: &mut Vec<Value>,
) -> Result<String, StoreError> {
    match filter {
        Filter::And(parts) => joined(parts, " and ", column, values),
        Filter::Or(parts) => joined(parts, " or ", column, values),
        Filter::Comparison { field, test } => {
            let unknown = || StoreError::Refused(format!("`{}` has no column here", field.name));
            let column = column(field.name).ok_or_else(unknown)?;
            let condition = condition(test, column, values);
            Ok(if test.admits_absent() { format!("({column} is null or {condition})") } else { condition })
        }
    }
}

fn joined(
    parts: &[Filter],
    by: &str,
    column: fn(&str) -> Option<&'static str>,
    values: &mut Vec<Value>,
) -> Result<String, StoreError> {
    let parts = parts.iter().map(|part| compile(part, column, values)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("({})", parts.join(by)))
}

/// What holds for a row that has the column.
fn condition(test: &Test, column: &str, values: &mut Vec<Value>) -> String {
    match test {
        Test::Text(TextTest::Choice(choice)) => among(choice, column, values, |text| Some(text.as_str().into())),
        Test::Text(TextTest::Matches(pattern)) => {
            format!("{column} like {} escape '\\'", bind(values, like(pattern).into()))
        }
        Test::Text(TextTest::DiffersFrom(pattern)) => {
            format!("{column} not like {} escape '\\'", bind(values, like(pattern).into()))
        }
        Test::Keyword(choice) => among(choice, column, values, |&word| Some(word.into())),
        Test::Boolean(choice) => among(choice, column, values, |&fact| Some(fact.into())),
        Test::Identifier(choice) => among(choice, column, values, |&id| Some(id.into())),
        Test::Instant(InstantTest::Choice(choice)) => among(choice, column, values, |&at| whole_millis(at)),
        // Stored instants are whole milliseconds; an operand may lie between two of them.
        Test::Instant(InstantTest::Before(at)) => format!("{column} < {}", bind(values, millis_up(*at).into())),
        Test::Instant(InstantTest::NotAfter(at)) => format!("{column} <= {}", bind(values, millis_down(*at).into())),
        Test::Instant(InstantTest::After(at)) => format!("{column} > {}", bind(values, millis_down(*at).into())),
        Test::Instant(InstantTest::NotBefore(at)) => format!("{column} >= {}", bind(values, millis_up(*at).into())),
    }
}

/// `operand` gives nothing for what no row can be equal to.
fn among<T>(
    choice: &Choice<T>,
    column: &str,
    values: &mut Vec<Value>,
    operand: impl Fn(&T) -> Option<Value>,
) -> String {
    let (operands, word, without_operands) = match choice {
        Choice::OneOf(operands) => (operands, "in", "1 = 0"),
        Choice::NoneOf(operands) => (operands, "not in", "1 = 1"),
    };
    let bound: Vec<_> = operands.iter().filter_map(operand).map(|operand| bind(values, operand)).collect();
    if bound.is_empty() { without_operands.to_owned() } else { format!("{column} {word} ({})", bound.join(", ")) }
}

fn bind(values: &mut Vec<Value>, value: Value) -> String {
    values.push(value);
    format!("${}", values.len())
}

fn like(pattern: &Pattern) -> String {
    let mut text = String::new();
    for piece in pattern.pieces() {
        match piece {
            Piece::Anything => text.push('%'),
            Piece::Literal(literal) => {
                for letter in literal.chars() {
                    if matches!(letter, '%' | '_' | '\\') {
                        text.push('\\');
                    }
                    text.push(letter);
                }
            }
        }
    }
    text
}

const NANOS_PER_MILLI: i128 = 1_000_000;

pub(crate) fn millis_down(at: Timestamp) -> i64 {
    clamped(at.as_nanosecond().div_euclid(NANOS_PER_MILLI))
}

pub(crate) fn millis_up(at: Timestamp) -> i64 {
    clamped((at.as_nanosecond() + NANOS_PER_MILLI - 1).div_euclid(NANOS_PER_MILLI))
}

fn whole_millis(at: Timestamp) -> Option<Value> {
    (at.as_nanosecond().rem_euclid(NANOS_PER_MILLI) == 0).then(|| at.into())
}

/// No instant is that far from 1970.
fn clamped(millis: i128) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
