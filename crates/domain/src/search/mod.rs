//! Filters for lists, in RSQL.
//!
//! A caller narrows a list with `search=status==COMPLETED;created_at=ge=2026-01-01T00:00:00Z`. [`parse`] reads that
//! text against a closed set of [`Field`]s and answers a [`Filter`] whose operands are typed already: a store compiles
//! it to SQL by matching on enums and binding values, and never sees a piece of the caller's text as syntax.
//!
//! What a store must keep to, so that two stores give one answer:
//!
//! * **Absent fields.** `!=` and `=out=` also find rows that lack the field, as SQL's `is distinct from` does; every
//!   other test finds only rows that have it. [`Test::admits_absent`] is that rule. A consequence worth knowing:
//!   `reference_id==*` finds what has a reference, `reference_id!=*` what has none.
//! * **Text** is compared as written, case included. A [`Pattern`] is a list of pieces, so `%` and `_` are ordinary
//!   characters, which the store escapes for its own `like`.
//! * **`and` binds tighter than `or`**; parentheses are already resolved.
//!
//! Every bound is checked before the work that it bounds: the length before anything is read, the depth before the
//! parser recurses, the counts before another item is kept. Errors name the column and never repeat a value, since
//! a value may be someone's phone number.
//!
//! Deliberately absent: custom operators, ordering of text, dates without a time, and what an empty `search` parameter
//! means (here it is an error; the HTTP layer may know better).

mod error;
mod lexer;
mod operand;
mod parser;
mod pattern;
#[cfg(test)]
mod tests;

use jiff::Timestamp;
use uuid::Uuid;

pub use error::SearchError;
pub use parser::parse;
pub use pattern::{Pattern, Piece};

/// The longest text that is looked at.
pub const MAX_BYTES: usize = 2_048;
/// How deep parentheses may nest.
pub const MAX_DEPTH: usize = 16;
/// How many comparisons one filter may have.
pub const MAX_COMPARISONS: usize = 50;
/// How many values one list may have.
pub const MAX_LIST_ITEMS: usize = 100;

/// Something that a list can be filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// The name as the API knows it.
    pub name: &'static str,
    pub kind: Kind,
}

/// What a field holds, which decides the operators and the values that it takes.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Kind {
    /// Any text: `==` and `!=`, with `*` for "anything", and `=in=` and `=out=`, where `*` is a star.
    Text,
    /// One of a closed set of words, in this spelling: `==`, `!=`, `=in=`, `=out=`.
    Keyword(&'static [&'static str]),
    /// `true` or `false`: `==`, `!=`, `=in=`, `=out=`.
    Boolean,
    /// An RFC 3339 date-time with any offset: all operators.
    Instant,
    /// A UUID in its hyphenated form, in either case: `==`, `!=`, `=in=`, `=out=`.
    Identifier,
}

/// A condition on rows.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// All of these hold. The parser puts at least two here.
    And(Vec<Filter>),
    /// At least one of these holds. The parser puts at least two here.
    Or(Vec<Filter>),
    /// One field passes one test. The test's variant is the one of the field's kind.
    Comparison { field: &'static Field, test: Test },
}

/// What is asked of a field, by the kind of the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Test {
    Text(TextTest),
    Keyword(Choice<&'static str>),
    Boolean(Choice<bool>),
    Instant(InstantTest),
    Identifier(Choice<Uuid>),
}

/// Whether a field is among some values. `==` and `!=` are lists of one; no list is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Choice<T> {
    /// `==` and `=in=`: the field has one of these values.
    OneOf(Vec<T>),
    /// `!=` and `=out=`: the field has none of these values, or is absent.
    NoneOf(Vec<T>),
}

/// What can be asked of text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextTest {
    Choice(Choice<String>),
    /// `==` with a wildcard: the field has this shape.
    Matches(Pattern),
    /// `!=` with a wildcard: the field has another shape, or is absent.
    DiffersFrom(Pattern),
}

/// What can be asked of an instant.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantTest {
    Choice(Choice<Timestamp>),
    /// `=lt=`, `<`
    Before(Timestamp),
    /// `=le=`, `<=`
    NotAfter(Timestamp),
    /// `=gt=`, `>`
    After(Timestamp),
    /// `=ge=`, `>=`
    NotBefore(Timestamp),
}

impl Test {
    /// Whether a row passes that does not have the field at all.
    ///
    /// SQL's three-valued logic would drop such a row from `field <> 'x'`, so a store adds `or field is null` exactly
    /// where this is true.
    pub const fn admits_absent(&self) -> bool {
        match self {
            Self::Text(TextTest::Choice(choice)) => choice.admits_absent(),
            Self::Text(TextTest::DiffersFrom(_)) => true,
            Self::Keyword(choice) => choice.admits_absent(),
            Self::Boolean(choice) => choice.admits_absent(),
            Self::Identifier(choice) => choice.admits_absent(),
            Self::Instant(InstantTest::Choice(choice)) => choice.admits_absent(),
            Self::Text(TextTest::Matches(_))
            | Self::Instant(
                InstantTest::Before(_) | InstantTest::NotAfter(_) | InstantTest::After(_) | InstantTest::NotBefore(_),
            ) => false,
        }
    }
}

impl<T> Choice<T> {
    const fn admits_absent(&self) -> bool {
        matches!(self, Self::NoneOf(_))
    }
}
