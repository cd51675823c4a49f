//! Search expressions that filter lists, in the RSQL syntax.
//!
//! A client filters a list with `search=status==COMPLETED;created_at=ge=2026-01-01T00:00:00Z`. [`parse`] validates that
//! text against a closed set of [`Field`]s, and returns a [`Filter`] with typed operands. A store compiles the filter
//! to SQL by matching on enums and binding values, so the client's text never becomes part of the SQL.
//!
//! Rules that all stores must implement:
//!
//! * **Absent fields.** `!=` and `=out=` also match rows without the field, like SQL's `is distinct from`. All other
//!   tests match only rows with the field. [`FieldTest::admits_absent`] implements this rule. Hence
//!   `reference_id==*` matches rows with a reference and `reference_id!=*` rows without one.
//! * **Text** is compared case-sensitively and ordered by code point. `%` and `_` in a [`Pattern`] are ordinary
//!   characters, which the store escapes for `like`.
//! * **`and` binds tighter than `or`**; parentheses are already resolved.
//!
//! Every limit is checked before the work that it limits: the length before lexing, the nesting depth before recursion,
//! and counts before an item is stored. Errors contain the position in the expression, but never a value, because a
//! value may be a phone number.
//!
//! Not supported: custom operators, and dates without a time. An empty expression is an error.

mod comparison_operator;
mod error;
mod lexer;
mod parser;
mod pattern;
mod unparsed_comparison;

use jiff::Timestamp;
use uuid::Uuid;

pub use error::SearchError;
pub use parser::parse;
pub use pattern::{Pattern, PatternPiece};

/// Maximum length of an expression in bytes.
pub const MAX_BYTES: usize = 2_048;
/// Maximum nesting depth of parentheses.
pub const MAX_DEPTH: usize = 16;
pub const MAX_COMPARISONS: usize = 50;
pub const MAX_LIST_ITEMS: usize = 100;

/// A field that a list can be filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name of the field in the API.
    pub name: &'static str,
    pub kind: FieldKind,
}

/// The type of a field, which determines its operators and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Any text. In `==` and `!=`, `*` is a wildcard. All other operators are allowed too, and take `*` as a literal
    /// star.
    Text,
    /// One of a closed set of case-sensitive words. All operators are allowed.
    Keyword(&'static [&'static str]),
    /// `true` or `false`. Allowed operators: `==`, `!=`, `=in=`, `=out=`.
    Boolean,
    /// An RFC 3339 date-time with any offset. All operators are allowed.
    Instant,
    /// A UUID in hyphenated form, in upper or lower case. Allowed operators: `==`, `!=`, `=in=`, `=out=`.
    Identifier,
}

/// A condition that selects rows of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Filter {
    /// At least two conditions, all of which must hold.
    And(Vec<Filter>),
    /// At least two conditions, at least one of which must hold.
    Or(Vec<Filter>),
    /// A comparison of one field. The variant of `test` is the one for the field's kind.
    Comparison { field: &'static Field, test: FieldTest },
}

/// A test of a field's value. There is one variant for each kind of field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldTest {
    Text(TextTest),
    Keyword(SetTest<&'static str>),
    Boolean(SetTest<bool>),
    Instant(InstantTest),
    Identifier(SetTest<Uuid>),
}

/// A test for membership in a set of values. `==` and `!=` have a set of one value. The set is empty if a range of
/// keywords contains none.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetTest<T> {
    /// Operators `==` and `=in=`: the value is in the set.
    OneOf(Vec<T>),
    /// Operators `!=` and `=out=`: the value is not in the set. Also matches rows without the field.
    NoneOf(Vec<T>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextTest {
    Set(SetTest<String>),
    /// Operator `==` with a wildcard.
    Matches(Pattern),
    /// Operator `!=` with a wildcard. Also matches rows without the field.
    DiffersFrom(Pattern),
    /// Operators `=lt=` and `<`.
    Before(String),
    /// Operators `=le=` and `<=`.
    NotAfter(String),
    /// Operators `=gt=` and `>`.
    After(String),
    /// Operators `=ge=` and `>=`.
    NotBefore(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantTest {
    Set(SetTest<Timestamp>),
    /// Operators `=lt=` and `<`.
    Before(Timestamp),
    /// Operators `=le=` and `<=`.
    NotAfter(Timestamp),
    /// Operators `=gt=` and `>`.
    After(Timestamp),
    /// Operators `=ge=` and `>=`.
    NotBefore(Timestamp),
}

impl FieldTest {
    /// Whether the test also matches rows without the field. If so, the store adds `or field is null`, because SQL's
    /// `field <> 'x'` does not match such rows.
    pub const fn admits_absent(&self) -> bool {
        match self {
            Self::Text(TextTest::Set(choice)) => choice.admits_absent(),
            Self::Text(TextTest::DiffersFrom(_)) => true,
            Self::Keyword(choice) => choice.admits_absent(),
            Self::Boolean(choice) => choice.admits_absent(),
            Self::Identifier(choice) => choice.admits_absent(),
            Self::Instant(InstantTest::Set(choice)) => choice.admits_absent(),
            Self::Text(
                TextTest::Matches(_)
                | TextTest::Before(_)
                | TextTest::NotAfter(_)
                | TextTest::After(_)
                | TextTest::NotBefore(_),
            )
            | Self::Instant(
                InstantTest::Before(_) | InstantTest::NotAfter(_) | InstantTest::After(_) | InstantTest::NotBefore(_),
            ) => false,
        }
    }
}

impl<T> SetTest<T> {
    const fn admits_absent(&self) -> bool {
        matches!(self, Self::NoneOf(_))
    }
}
