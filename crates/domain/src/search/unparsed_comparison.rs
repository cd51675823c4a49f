//! Converts a comparison operator and its values to a typed test.

use std::slice;

use jiff::Timestamp;
use uuid::Uuid;

use super::error::{Reason, SyntaxError};
use super::{Field, FieldKind, FieldTest, InstantTest, Pattern, SetTest, TextTest};
use super::{comparison_operator::ComparisonOperator, lexer::Literal};
use crate::date_time::{self, has_shape};

/// An unparsed value with its position.
#[derive(Debug)]
pub(super) struct Value<'a> {
    pub literal: Literal<'a>,
    pub at: usize,
    /// The text of the expression after the value.
    pub following_text: &'a str,
}

impl Value<'_> {
    /// Whether the value is a date-time with a space instead of a `+`. This happens if a client does not percent-encode
    /// the `+` in the query string, where it means a space.
    pub fn has_lost_plus(&self) -> bool {
        let text = &self.literal.text;
        let offset = self.following_text.get(.." 00:00".len()).filter(|offset| has_shape(offset, " 00:00"));
        let restored = match offset {
            Some(offset) => format!("{text}{}", offset.replace(' ', "+")),
            None => text.replace(' ', "+"),
        };
        date_time::parse(&restored).is_some()
    }
}

/// A field, a comparison operator and its unparsed values.
#[derive(Debug)]
pub(super) struct UnparsedComparison<'a> {
    pub field: &'static Field,
    pub operator: ComparisonOperator,
    pub operator_at: usize,
    /// At least one value.
    pub values: Vec<Value<'a>>,
}

impl UnparsedComparison<'_> {
    pub fn build_test(&self) -> Result<FieldTest, SyntaxError> {
        let field = self.field;
        match field.kind {
            FieldKind::Text => self.text_test().map(FieldTest::Text),
            FieldKind::Keyword(allowed) => self.keyword_test(allowed).map(FieldTest::Keyword),
            FieldKind::Boolean => self
                .membership_test(|value| value.literal.text.parse().map_err(|_| Reason::NotABoolean(field)))
                .map(FieldTest::Boolean),
            FieldKind::Identifier => self
                .membership_test(|value| parse_uuid(&value.literal.text).ok_or(Reason::NotAnIdentifier(field)))
                .map(FieldTest::Identifier),
            FieldKind::Instant => self.instant_test().map(FieldTest::Instant),
        }
    }

    fn text_test(&self) -> Result<TextTest, SyntaxError> {
        let bound_test: fn(String) -> TextTest = match self.operator {
            ComparisonOperator::Equal => return self.pattern_test(TextTest::Matches),
            ComparisonOperator::NotEqual => return self.pattern_test(TextTest::DiffersFrom),
            ComparisonOperator::In | ComparisonOperator::Out => return self.text_membership_test(),
            ComparisonOperator::Less => TextTest::Before,
            ComparisonOperator::LessOrEqual => TextTest::NotAfter,
            ComparisonOperator::Greater => TextTest::After,
            ComparisonOperator::GreaterOrEqual => TextTest::NotBefore,
        };
        Ok(bound_test(self.single_value()?.literal.text.clone().into_owned()))
    }

    fn pattern_test(&self, pattern_test: fn(Pattern) -> TextTest) -> Result<TextTest, SyntaxError> {
        let Literal { text, wildcards } = &self.single_value()?.literal;
        match Pattern::from_wildcards(text, wildcards) {
            Some(pattern) => Ok(pattern_test(pattern)),
            None => self.text_membership_test(),
        }
    }

    fn text_membership_test(&self) -> Result<TextTest, SyntaxError> {
        self.membership_test(|value| Ok(value.literal.text.clone().into_owned())).map(TextTest::Set)
    }

    /// Builds a test of a keyword. The set of keywords is closed, so an ordering operator such as `>` becomes the set
    /// of keywords in its range. The bound of the range need not be a keyword.
    fn keyword_test(&self, allowed: &'static [&'static str]) -> Result<SetTest<&'static str>, SyntaxError> {
        let is_selected: fn(&str, &str) -> bool = match self.operator {
            ComparisonOperator::Less => |keyword, bound| keyword < bound,
            ComparisonOperator::LessOrEqual => |keyword, bound| keyword <= bound,
            ComparisonOperator::Greater => |keyword, bound| keyword > bound,
            ComparisonOperator::GreaterOrEqual => |keyword, bound| keyword >= bound,
            ComparisonOperator::Equal
            | ComparisonOperator::NotEqual
            | ComparisonOperator::In
            | ComparisonOperator::Out => {
                return self.membership_test(|value| {
                    let keyword = allowed.iter().find(|&&keyword| keyword == value.literal.text);
                    keyword.copied().ok_or(Reason::NotAKeyword { field: self.field, allowed })
                });
            }
        };
        let bound = &*self.single_value()?.literal.text;
        Ok(SetTest::OneOf(allowed.iter().copied().filter(|keyword| is_selected(keyword, bound)).collect()))
    }

    fn instant_test(&self) -> Result<InstantTest, SyntaxError> {
        let bound_test: fn(Timestamp) -> InstantTest = match self.operator {
            ComparisonOperator::Less => InstantTest::Before,
            ComparisonOperator::LessOrEqual => InstantTest::NotAfter,
            ComparisonOperator::Greater => InstantTest::After,
            ComparisonOperator::GreaterOrEqual => InstantTest::NotBefore,
            ComparisonOperator::Equal
            | ComparisonOperator::NotEqual
            | ComparisonOperator::In
            | ComparisonOperator::Out => {
                return self.membership_test(|value| self.parse_instant(value)).map(InstantTest::Set);
            }
        };
        let value = self.single_value()?;
        self.parse_instant(value).map(bound_test).map_err(|reason| reason.at(value.at))
    }

    fn parse_instant(&self, value: &Value<'_>) -> Result<Timestamp, Reason> {
        date_time::parse(&value.literal.text)
            .ok_or_else(|| if value.has_lost_plus() { Reason::LostPlus } else { Reason::NotAnInstant(self.field) })
    }

    /// Builds a test for `==`, `!=`, `=in=` or `=out=`, which all kinds of fields support.
    fn membership_test<T>(&self, parse: impl Fn(&Value<'_>) -> Result<T, Reason>) -> Result<SetTest<T>, SyntaxError> {
        let values = match self.operator {
            ComparisonOperator::Equal | ComparisonOperator::NotEqual => slice::from_ref(self.single_value()?),
            ComparisonOperator::In | ComparisonOperator::Out => self.values.as_slice(),
            operator @ (ComparisonOperator::Greater
            | ComparisonOperator::GreaterOrEqual
            | ComparisonOperator::Less
            | ComparisonOperator::LessOrEqual) => {
                return Err(Reason::OperatorDoesNotApply { operator, field: self.field }.at(self.operator_at));
            }
        };
        let values =
            values.iter().map(|value| parse(value).map_err(|reason| reason.at(value.at))).collect::<Result<_, _>>()?;
        let is_negated = matches!(self.operator, ComparisonOperator::NotEqual | ComparisonOperator::Out);
        Ok(if is_negated { SetTest::NoneOf(values) } else { SetTest::OneOf(values) })
    }

    fn single_value(&self) -> Result<&Value<'_>, SyntaxError> {
        match self.values.as_slice() {
            [value] => Ok(value),
            _ => Err(Reason::TakesOneValue(self.operator).at(self.operator_at)),
        }
    }
}

/// Parses a UUID in hyphenated form, which is the form that the API writes.
fn parse_uuid(text: &str) -> Option<Uuid> {
    const HYPHENATED_LENGTH: usize = 36;
    if text.len() == HYPHENATED_LENGTH { Uuid::try_parse(text).ok() } else { None }
}
