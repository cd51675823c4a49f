//! Search expressions for lists, in RSQL.
//!
//! A caller filters a list with `search=status==COMPLETED;created_at=ge=2026-01-01T00:00:00Z`. [`parse`] validates that
//! text against a closed set of [`Field`]s and returns a [`Filter`] with typed operands. A store compiles it to SQL by
//! matching on enums and binding values, so the caller's text never becomes syntax.
//!
//! Rules that all stores must implement:
//!
//! * **Absent fields.** `!=` and `=out=` also match rows without the field, like SQL's `is distinct from`. All other
//!   tests match only rows with the field. [`FieldTest::admits_absent`] implements this rule. Hence
//!   `reference_id==*` matches rows with a reference and `reference_id!=*` rows without one.
//! * **Text** is compared case-sensitively and ordered by code point. `%` and `_` in a [`Pattern`] are ordinary characters, which the store
//!   escapes for `like`.
//! * **`and` binds tighter than `or`**; parentheses are already resolved.
//!
//! Every limit is checked before the work that it limits: the length before lexing, the depth before recursion, the
//! counts before an item is stored. Errors contain the column and never a value, which may be a phone number.
//!
//! Not supported: custom operators, dates without a time. An empty expression is an error here.

mod comparison_operator;
mod error;
mod lexer;
mod operand;
mod parser;
mod pattern;

use jiff::Timestamp;
use uuid::Uuid;

pub use error::SearchError;
pub use parser::parse;
pub use pattern::{Pattern, PatternPiece};

/// Maximum length of an expression.
pub const MAX_BYTES: usize = 2_048;
/// Maximum nesting of parentheses.
pub const MAX_DEPTH: usize = 16;
pub const MAX_COMPARISONS: usize = 50;
pub const MAX_LIST_ITEMS: usize = 100;

/// A field that a list can be filtered by.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Field {
    /// Name in the API.
    pub name: &'static str,
    pub kind: FieldKind,
}

/// The type of a field, which determines its operators and values.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum FieldKind {
    /// Any text: `==` and `!=` with `*` as wildcard, all other operators with `*` as a literal star.
    Text,
    /// One of a closed set of words, case-sensitive: all operators.
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
    /// At least two conditions, all of which hold.
    And(Vec<Filter>),
    /// At least two conditions, one of which holds.
    Or(Vec<Filter>),
    /// The variant of the test matches the kind of the field.
    Comparison { field: &'static Field, test: FieldTest },
}

/// A test of a field, by the kind of the field.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum FieldTest {
    Text(TextTest),
    Keyword(SetTest<&'static str>),
    Boolean(SetTest<bool>),
    Instant(InstantTest),
    Identifier(SetTest<Uuid>),
}

/// Membership in a set of values. `==` and `!=` have one value. The set is empty if no keyword is in the wanted range.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum SetTest<T> {
    /// `==` and `=in=`.
    OneOf(Vec<T>),
    /// `!=` and `=out=`; also matches rows without the field.
    NoneOf(Vec<T>),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum TextTest {
    Set(SetTest<String>),
    /// `==` with a wildcard.
    Matches(Pattern),
    /// `!=` with a wildcard; also matches rows without the field.
    DiffersFrom(Pattern),
    /// `=lt=`, `<`
    Before(String),
    /// `=le=`, `<=`
    NotAfter(String),
    /// `=gt=`, `>`
    After(String),
    /// `=ge=`, `>=`
    NotBefore(String),
}

#[derive(Debug, Clone, PartialEq, Eq)]
pub enum InstantTest {
    Set(SetTest<Timestamp>),
    /// `=lt=`, `<`
    Before(Timestamp),
    /// `=le=`, `<=`
    NotAfter(Timestamp),
    /// `=gt=`, `>`
    After(Timestamp),
    /// `=ge=`, `>=`
    NotBefore(Timestamp),
}

impl FieldTest {
    /// Whether the test matches rows without the field. The store then adds `or field is null`, because SQL's
    /// `field <> 'x'` does not match them.
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
