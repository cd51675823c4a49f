//! What a filter says about time, and what else it says.

use ringtrue_domain::search::{Choice, Filter, InstantTest, Test, TextTest};

use crate::{
    filter::{millis_down, millis_up},
    period::Span,
};

/// A filter as bounds of `created_at` and a rest, both of which must hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct SpanFilter {
    pub span: Span,
    pub rest: Option<Filter>,
}

impl SpanFilter {
    pub(crate) fn of(filter: Option<Filter>) -> Self {
        let parts = match filter {
            None => Vec::new(),
            Some(Filter::And(parts)) => parts,
            Some(other) => vec![other],
        };
        let (mut span, mut rest) = (Span::EVER, Vec::new());
        for part in parts {
            match bounds(&part) {
                Some(bounds) => span = span.and(bounds),
                None => rest.push(part),
            }
        }
        let rest = if rest.len() > 1 { Some(Filter::And(rest)) } else { rest.pop() };
        SpanFilter { span, rest }
    }

    /// How many comparisons the rest makes, an operand each.
    pub(crate) fn comparisons(&self) -> u64 {
        self.rest.as_ref().map_or(0, comparisons)
    }

    /// The part of the rest that only checks with a certain reference pass, if there is one.
    pub(crate) fn reference(&self) -> Option<&Filter> {
        let parts = match self.rest.as_ref()? {
            Filter::And(parts) => parts,
            other => std::slice::from_ref(other),
        };
        parts.iter().find(|part| {
            matches!(part, Filter::Comparison { field, test: Test::Text(TextTest::Choice(Choice::OneOf(texts))) }
                if field.name == "reference_id" && texts.len() == 1)
        })
    }

    /// Whether the counters know everything that the rest asks for.
    pub(crate) fn is_counted(&self) -> bool {
        self.rest.as_ref().is_none_or(is_counted)
    }
}

fn comparisons(filter: &Filter) -> u64 {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().map(comparisons).sum(),
        Filter::Comparison { test, .. } => match test {
            Test::Text(TextTest::Choice(choice)) => operands(choice),
            Test::Keyword(choice) => operands(choice),
            Test::Identifier(choice) => operands(choice),
            Test::Instant(InstantTest::Choice(choice)) => operands(choice),
            Test::Boolean(_) | Test::Text(_) | Test::Instant(_) => 1,
        },
    }
}

fn operands<T>(choice: &Choice<T>) -> u64 {
    let (Choice::OneOf(operands) | Choice::NoneOf(operands)) = choice;
    operands.len() as u64
}

fn is_counted(filter: &Filter) -> bool {
    match filter {
        Filter::And(parts) | Filter::Or(parts) => parts.iter().all(is_counted),
        Filter::Comparison { field, .. } => matches!(field.name, "status" | "verified" | "network_id"),
    }
}

/// The span that a comparison of `created_at` leaves. Instants that are stored are whole milliseconds.
fn bounds(part: &Filter) -> Option<Span> {
    let Filter::Comparison { field, test: Test::Instant(test) } = part else { return None };
    if field.name != "created_at" {
        return None;
    }
    Some(match test {
        InstantTest::Before(at) => Span::before(millis_up(*at)),
        InstantTest::NotAfter(at) => Span::before(millis_down(*at).saturating_add(1)),
        InstantTest::After(at) => Span::since(millis_down(*at).saturating_add(1)),
        InstantTest::NotBefore(at) => Span::since(millis_up(*at)),
        InstantTest::Choice(Choice::OneOf(instants)) => match instants[..] {
            // Between two milliseconds this is empty, as it should be.
            [at] => Span::since(millis_up(at)).and(Span::before(millis_down(at).saturating_add(1))),
            _ => return None,
        },
        InstantTest::Choice(Choice::NoneOf(_)) => return None,
    })
}
