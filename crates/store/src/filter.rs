//! Compiles a filter to an SQL condition for both databases.
//!
//! The SQL contains no text of the client: fields are mapped to known columns, and operands become parameters. Text is
//! compared bytewise (`collate "C"` in `PostgreSQL`; the default and `case_sensitive_like` in `SQLite`).

use jiff::Timestamp;
use ringtrue_domain::search::{FieldTest, Filter, InstantTest, Pattern, PatternPiece, SetTest, TextTest};
use ringtrue_engine::ports::StoreError;

use crate::driver::Value;

/// Returns the condition, and appends its operands to `values`.
///
/// `column` maps a field to a column or expression. An unknown field is an error: the parser should have rejected it.
pub(crate) fn compile(
    filter: &Filter,
    column: fn(&str) -> Option<&'static str>,
    values: &mut Vec<Value>,
) -> Result<String, StoreError> {
    match filter {
        Filter::And(parts) => compile_parts(parts, " and ", column, values),
        Filter::Or(parts) => compile_parts(parts, " or ", column, values),
        Filter::Comparison { field, test } => {
            let unknown = || StoreError::Refused(format!("no column for the field `{}`", field.name));
            let column = column(field.name).ok_or_else(unknown)?;
            let condition = compile_test(test, column, values);
            Ok(if test.admits_absent() { format!("({column} is null or {condition})") } else { condition })
        }
    }
}

fn compile_parts(
    parts: &[Filter],
    separator: &str,
    column: fn(&str) -> Option<&'static str>,
    values: &mut Vec<Value>,
) -> Result<String, StoreError> {
    let parts = parts.iter().map(|part| compile(part, column, values)).collect::<Result<Vec<_>, _>>()?;
    Ok(format!("({})", parts.join(separator)))
}

/// The condition for a column that is not null.
fn compile_test(test: &FieldTest, column: &str, values: &mut Vec<Value>) -> String {
    match test {
        FieldTest::Text(TextTest::Set(choice)) => {
            compile_choice(choice, column, values, |text| Some(text.as_str().into()))
        }
        FieldTest::Text(TextTest::Matches(pattern)) => {
            format!("{column} like {} escape '\\'", bind(values, like_pattern(pattern).into()))
        }
        FieldTest::Text(TextTest::DiffersFrom(pattern)) => {
            format!("{column} not like {} escape '\\'", bind(values, like_pattern(pattern).into()))
        }
        FieldTest::Keyword(choice) => compile_choice(choice, column, values, |&word| Some(word.into())),
        FieldTest::Boolean(choice) => compile_choice(choice, column, values, |&boolean| Some(boolean.into())),
        FieldTest::Identifier(choice) => compile_choice(choice, column, values, |&id| Some(id.into())),
        FieldTest::Instant(InstantTest::Set(choice)) => compile_choice(choice, column, values, |&at| exact_millis(at)),
        // Stored instants are whole milliseconds, operands may be finer.
        FieldTest::Instant(InstantTest::Before(at)) => format!("{column} < {}", bind(values, ceil_millis(*at).into())),
        FieldTest::Instant(InstantTest::NotAfter(at)) => {
            format!("{column} <= {}", bind(values, floor_millis(*at).into()))
        }
        FieldTest::Instant(InstantTest::After(at)) => format!("{column} > {}", bind(values, floor_millis(*at).into())),
        FieldTest::Instant(InstantTest::NotBefore(at)) => {
            format!("{column} >= {}", bind(values, ceil_millis(*at).into()))
        }
    }
}

/// `operand` returns `None` for a value that no row can have.
fn compile_choice<T>(
    choice: &SetTest<T>,
    column: &str,
    values: &mut Vec<Value>,
    operand: impl Fn(&T) -> Option<Value>,
) -> String {
    let (operands, operator, without_operands) = match choice {
        SetTest::OneOf(operands) => (operands, "in", "1 = 0"),
        SetTest::NoneOf(operands) => (operands, "not in", "1 = 1"),
    };
    let bound: Vec<_> = operands.iter().filter_map(operand).map(|operand| bind(values, operand)).collect();
    if bound.is_empty() { without_operands.to_owned() } else { format!("{column} {operator} ({})", bound.join(", ")) }
}

fn bind(values: &mut Vec<Value>, value: Value) -> String {
    values.push(value);
    format!("${}", values.len())
}

fn like_pattern(pattern: &Pattern) -> String {
    let mut text = String::new();
    for piece in pattern.pieces() {
        match piece {
            PatternPiece::Anything => text.push('%'),
            PatternPiece::Literal(literal) => {
                for character in literal.chars() {
                    if matches!(character, '%' | '_' | '\\') {
                        text.push('\\');
                    }
                    text.push(character);
                }
            }
        }
    }
    text
}

const NANOS_PER_MILLI: i128 = 1_000_000;

pub(crate) fn floor_millis(at: Timestamp) -> i64 {
    clamp_millis(at.as_nanosecond().div_euclid(NANOS_PER_MILLI))
}

pub(crate) fn ceil_millis(at: Timestamp) -> i64 {
    clamp_millis((at.as_nanosecond() + NANOS_PER_MILLI - 1).div_euclid(NANOS_PER_MILLI))
}

fn exact_millis(at: Timestamp) -> Option<Value> {
    (at.as_nanosecond().rem_euclid(NANOS_PER_MILLI) == 0).then(|| at.into())
}

fn clamp_millis(millis: i128) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}
