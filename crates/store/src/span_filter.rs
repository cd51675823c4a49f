//! Splits a filter into a span of `created_at` and a remainder.

use ringtrue_domain::search::{FieldTest, Filter, InstantTest, SetTest, TextTest};

use crate::{
    filter::{ceil_millis, floor_millis},
    time_span::Span,
};

/// A filter as a span of `created_at` and a remainder. Both must hold.
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

    /// Number of comparisons of the remainder, one for each operand.
    pub(crate) fn comparison_count(&self) -> u64 {
        self.remainder.as_ref().map_or(0, comparison_count)
    }

    /// The part of the remainder that requires one reference.
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

    /// Whether the counters can answer the remainder.
    pub(crate) fn is_covered_by_counters(&self) -> bool {
        self.remainder.as_ref().is_none_or(is_covered_by_counters)
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

fn is_covered_by_counters(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().all(is_covered_by_counters),
        Filter::Comparison { field, .. } => matches!(field.name, "status" | "verified" | "network_id"),
    }
}

/// The span of a comparison of `created_at`. Stored instants are whole milliseconds.
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
            // Empty for an instant between two milliseconds.
            [at] => Span::since(ceil_millis(at)).intersect(Span::before(floor_millis(at).saturating_add(1))),
            _ => return None,
        },
        InstantTest::Set(SetTest::NoneOf(_)) => return None,
    })
}
