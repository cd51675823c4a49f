//! Compiles a filter to an SQL condition for both databases. Splits a filter into a time span of `created_at` and a
//! remainder.
//!
//! The SQL contains no text from the client: fields are mapped to known columns, and operands become parameters. Text
//! is compared by bytes, for which `PostgreSQL` needs `collate "C"`, and `SQLite` needs `case_sensitive_like`.

use jiff::Timestamp;
use ringtrue_domain::{
    product::Product,
    search::{FieldTest, Filter, InstantTest, Pattern, PatternPiece, SetTest, TextTest},
};
use ringtrue_engine::ports::store::StoreError;

use crate::{row::Value, time_span::Span};

/// Returns the SQL condition of a filter, and appends its operands to `values`.
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

/// Returns the condition for rows in which `column` is not null. The caller handles nulls.
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
        FieldTest::Text(TextTest::Before(text)) => format!("{column} < {}", bind(values, text.as_str().into())),
        FieldTest::Text(TextTest::NotAfter(text)) => format!("{column} <= {}", bind(values, text.as_str().into())),
        FieldTest::Text(TextTest::After(text)) => format!("{column} > {}", bind(values, text.as_str().into())),
        FieldTest::Text(TextTest::NotBefore(text)) => format!("{column} >= {}", bind(values, text.as_str().into())),
        FieldTest::Keyword(choice) => compile_choice(choice, column, values, |&word| Some(word.into())),
        FieldTest::Boolean(choice) => compile_choice(choice, column, values, |&boolean| Some(boolean.into())),
        FieldTest::Identifier(choice) => compile_choice(choice, column, values, |&id| Some(id.into())),
        FieldTest::Instant(InstantTest::Set(choice)) => compile_choice(choice, column, values, |&at| exact_millis(at)),
        // Stored times have whole milliseconds, but operands may be more precise. Each operand is rounded so that the
        // comparison selects the same rows.
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

/// Returns the condition for a set of values. `operand` returns `None` for a value that no row can have.
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

fn floor_millis(at: Timestamp) -> i64 {
    clamp_millis(at.as_nanosecond().div_euclid(NANOS_PER_MILLI))
}

fn ceil_millis(at: Timestamp) -> i64 {
    clamp_millis((at.as_nanosecond() + NANOS_PER_MILLI - 1).div_euclid(NANOS_PER_MILLI))
}

fn exact_millis(at: Timestamp) -> Option<Value> {
    (at.as_nanosecond().rem_euclid(NANOS_PER_MILLI) == 0).then(|| at.into())
}

fn clamp_millis(millis: i128) -> i64 {
    i64::try_from(millis).unwrap_or(i64::MAX)
}

/// A filter, split into a span of `created_at` and a remainder. A check must match both.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanFilter {
    pub span: Span,
    pub remainder: Option<Filter>,
}

impl SpanFilter {
    pub(crate) fn split(filter: Option<Filter>) -> Self {
        let parts = match filter {
            None => Vec::new(),
            Some(Filter::And(parts)) => parts,
            Some(other) => vec![other],
        };
        let (mut span, mut remainder) = (Span::ALL_TIME, Vec::new());
        for part in parts {
            match created_at_span(&part) {
                Some(bounds) => span = span.intersect(bounds),
                None => remainder.push(part),
            }
        }
        let remainder = if remainder.len() > 1 { Some(Filter::And(remainder)) } else { remainder.pop() };
        SpanFilter { span, remainder }
    }

    /// Returns the number of comparisons in the remainder. Each operand counts as one comparison.
    pub(crate) fn comparison_count(&self) -> u64 {
        self.remainder.as_ref().map_or(0, comparison_count)
    }

    /// Returns the comparison in the remainder that requires one particular `reference_id`, if there is one.
    pub(crate) fn reference_condition(&self) -> Option<&Filter> {
        let parts = match self.remainder.as_ref()? {
            Filter::And(parts) => parts,
            other => std::slice::from_ref(other),
        };
        parts.iter().find(|part| {
            matches!(part, Filter::Comparison { field, test: FieldTest::Text(TextTest::Set(SetTest::OneOf(texts))) }
                if field.name == "reference_id" && texts.len() == 1)
        })
    }

    /// Whether the usage counters of a product distinguish all fields that the remainder tests. If so, matching checks
    /// can be counted without reading them.
    pub(crate) fn is_covered_by_counters(&self, product: Product) -> bool {
        self.remainder.as_ref().is_none_or(|filter| is_covered_by_counters(filter, product))
    }
}

fn comparison_count(filter: &Filter) -> u64 {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().map(comparison_count).sum(),
        Filter::Comparison { test, .. } => match test {
            FieldTest::Text(TextTest::Set(choice)) => operand_count(choice),
            FieldTest::Keyword(choice) => operand_count(choice),
            FieldTest::Identifier(choice) => operand_count(choice),
            FieldTest::Instant(InstantTest::Set(choice)) => operand_count(choice),
            FieldTest::Boolean(_) | FieldTest::Text(_) | FieldTest::Instant(_) => 1,
        },
    }
}

fn operand_count<T>(choice: &SetTest<T>) -> u64 {
    let (SetTest::OneOf(operands) | SetTest::NoneOf(operands)) = choice;
    operands.len() as u64
}

fn is_covered_by_counters(filter: &Filter, product: Product) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().all(|part| is_covered_by_counters(part, product)),
        Filter::Comparison { field, .. } => match field.name {
            "status" | "verified" | "network_id" => true,
            // The counters distinguish the verdict only. For SIM Swap, `no_sim_change` is the verdict. For
            // verifications, it is a separate field.
            "no_sim_change" => product == Product::SimSwap,
            _ => false,
        },
    }
}

/// Returns the time span that a comparison of `created_at` selects, in whole milliseconds, as times are stored. `None`:
/// the part does not compare `created_at`, or selects more than one span.
fn created_at_span(part: &Filter) -> Option<Span> {
    let Filter::Comparison { field, test: FieldTest::Instant(test) } = part else { return None };
    if field.name != "created_at" {
        return None;
    }
    Some(match test {
        InstantTest::Before(at) => Span::before(ceil_millis(*at)),
        InstantTest::NotAfter(at) => Span::before(floor_millis(*at).saturating_add(1)),
        InstantTest::After(at) => Span::since(floor_millis(*at).saturating_add(1)),
        InstantTest::NotBefore(at) => Span::since(ceil_millis(*at)),
        InstantTest::Set(SetTest::OneOf(instants)) => match instants[..] {
            // The span is empty if the instant is between two milliseconds.
            [at] => Span::since(ceil_millis(at)).intersect(Span::before(floor_millis(at).saturating_add(1))),
            _ => return None,
        },
        InstantTest::Set(SetTest::NoneOf(_)) => return None,
    })
}
