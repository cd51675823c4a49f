//! From words to values: what a field's kind makes of an operator and its operands.

use std::slice;

use jiff::Timestamp;
use uuid::Uuid;

use super::error::{Fault, Reason};
use super::lexer::{Literal, Operator};
use super::{Choice, Field, InstantTest, Kind, Pattern, Test, TextTest};
use crate::date_time::{self, has_shape};

/// A value as it was written, and where.
#[derive(Debug)]
pub(super) struct Value<'a> {
    pub literal: Literal<'a>,
    pub at: usize,
    /// The text after it.
    pub followed_by: &'a str,
}

impl Value<'_> {
    /// Whether this would be a date-time if its one space were a `+`, which is what an unencoded `+` in a query becomes.
    pub fn lost_its_plus(&self) -> bool {
        let text = &self.literal.text;
        let offset = self.followed_by.get(.." 00:00".len()).filter(|offset| has_shape(offset, " 00:00"));
        let restored = match offset {
            Some(offset) => format!("{text}{}", offset.replace(' ', "+")),
            None => text.replace(' ', "+"),
        };
        date_time::parse(&restored).is_some()
    }
}

/// The right-hand side of a comparison, still to be understood.
#[derive(Debug)]
pub(super) struct Operands<'a> {
    pub field: &'static Field,
    pub operator: Operator,
    pub operator_at: usize,
    /// At least one.
    pub values: Vec<Value<'a>>,
}

impl Operands<'_> {
    pub fn test(&self) -> Result<Test, Fault> {
        let field = self.field;
        match field.kind {
            Kind::Text => self.text_test().map(Test::Text),
            Kind::Keyword(allowed) => self
                .choice(|value| {
                    let keyword = allowed.iter().find(|&&keyword| keyword == value.literal.text);
                    keyword.copied().ok_or(Reason::NotAKeyword { field, allowed })
                })
                .map(Test::Keyword),
            Kind::Boolean => self
                .choice(|value| value.literal.text.parse().map_err(|_| Reason::NotABoolean(field)))
                .map(Test::Boolean),
            Kind::Identifier => self
                .choice(|value| uuid(&value.literal.text).ok_or(Reason::NotAnIdentifier(field)))
                .map(Test::Identifier),
            Kind::Instant => self.instant_test().map(Test::Instant),
        }
    }

    fn text_test(&self) -> Result<TextTest, Fault> {
        let shaped: fn(Pattern) -> TextTest = match self.operator {
            Operator::Equal => TextTest::Matches,
            Operator::NotEqual => TextTest::DiffersFrom,
            _ => return self.text_choice(),
        };
        let Literal { text, wildcards } = &self.single()?.literal;
        match Pattern::cut(text, wildcards) {
            Some(pattern) => Ok(shaped(pattern)),
            None => self.text_choice(),
        }
    }

    fn text_choice(&self) -> Result<TextTest, Fault> {
        self.choice(|value| Ok(value.literal.text.clone().into_owned())).map(TextTest::Choice)
    }

    fn instant_test(&self) -> Result<InstantTest, Fault> {
        let bounded_by: fn(Timestamp) -> InstantTest = match self.operator {
            Operator::Less => InstantTest::Before,
            Operator::LessOrEqual => InstantTest::NotAfter,
            Operator::Greater => InstantTest::After,
            Operator::GreaterOrEqual => InstantTest::NotBefore,
            Operator::Equal | Operator::NotEqual | Operator::In | Operator::Out => {
                return self.choice(|value| self.instant(value)).map(InstantTest::Choice);
            }
        };
        let value = self.single()?;
        self.instant(value).map(bounded_by).map_err(|reason| reason.at(value.at))
    }

    fn instant(&self, value: &Value<'_>) -> Result<Timestamp, Reason> {
        date_time::parse(&value.literal.text)
            .ok_or_else(|| if value.lost_its_plus() { Reason::LostPlus } else { Reason::NotAnInstant(self.field) })
    }

    /// The operators that every kind takes.
    fn choice<T>(&self, read: impl Fn(&Value<'_>) -> Result<T, Reason>) -> Result<Choice<T>, Fault> {
        let values = match self.operator {
            Operator::Equal | Operator::NotEqual => slice::from_ref(self.single()?),
            Operator::In | Operator::Out => self.values.as_slice(),
            operator @ (Operator::Greater | Operator::GreaterOrEqual | Operator::Less | Operator::LessOrEqual) => {
                return Err(Reason::OperatorDoesNotApply { operator, field: self.field }.at(self.operator_at));
            }
        };
        let values =
            values.iter().map(|value| read(value).map_err(|reason| reason.at(value.at))).collect::<Result<_, _>>()?;
        let is_negated = matches!(self.operator, Operator::NotEqual | Operator::Out);
        Ok(if is_negated { Choice::NoneOf(values) } else { Choice::OneOf(values) })
    }

    fn single(&self) -> Result<&Value<'_>, Fault> {
        match self.values.as_slice() {
            [value] => Ok(value),
            _ => Err(Reason::TakesOneValue(self.operator).at(self.operator_at)),
        }
    }
}

/// Only the hyphenated form: it is the one the API writes.
fn uuid(text: &str) -> Option<Uuid> {
    const HYPHENATED: usize = 36;
    if text.len() == HYPHENATED { Uuid::try_parse(text).ok() } else { None }
}
