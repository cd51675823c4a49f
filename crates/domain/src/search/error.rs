//! Errors of search expressions, for API clients.

use strum::VariantArray as _;

use super::{Field, MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS, comparison_operator::ComparisonOperator};

/// Maximum number of characters that a message quotes from the expression.
const EXCERPT_CHARS: usize = 40;

/// A syntax or type error in a search expression. The message is shown to API clients.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("{reason} at column {column}{}", reason.advice())]
pub struct SearchError {
    reason: Reason,
    column: usize,
}

impl SearchError {
    /// Position of the error: the first character is column 1.
    pub const fn column(&self) -> usize {
        self.column
    }
}

/// An error with its byte offset in the expression. [`SyntaxError::locate`] converts the offset to a column.
#[derive(Debug)]
pub(super) struct SyntaxError {
    pub reason: Reason,
    pub at: usize,
}

impl SyntaxError {
    pub fn locate(self, text: &str) -> SearchError {
        SearchError { reason: self.reason, column: text[..self.at].chars().count() + 1 }
    }
}

/// Reason for a syntax or type error. No variant contains a compared value, because a value may be a phone number and
/// errors are logged.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Reason {
    #[error("expected a comparison")]
    ExpectedComparison,
    #[error("expected an operator")]
    ExpectedOperator,
    #[error("expected a value")]
    ExpectedValue,
    #[error("expected `;`, `,` or the end")]
    ExpectedConnective,
    #[error("expected `;`, `,` or `)`")]
    ExpectedConnectiveInGroup,
    #[error("expected `,` or `)`")]
    ExpectedListSeparator,
    #[error("unclosed `(`")]
    UnclosedParenthesis,
    #[error("unclosed quote")]
    UnclosedQuote,
    #[error("a NUL character cannot be searched for")]
    Nul,
    #[error("`{0}` is not an operator")]
    UnknownOperator(String),
    #[error("{} is not a filterable field", name.as_ref().map_or("this".to_owned(), |name| format!("`{name}`")))]
    UnknownField {
        /// The unknown field. `None`: the text does not look like a field name.
        name: Option<String>,
        filterable: &'static [Field],
    },
    #[error("`{}` does not apply to `{}`", operator.symbol(), field.name)]
    OperatorDoesNotApply { operator: ComparisonOperator, field: &'static Field },
    #[error("`{}` takes one value", .0.symbol())]
    TakesOneValue(ComparisonOperator),
    #[error("invalid value for `{}`", field.name)]
    NotAKeyword { field: &'static Field, allowed: &'static [&'static str] },
    #[error("invalid value for `{}`", .0.name)]
    NotABoolean(&'static Field),
    #[error("invalid value for `{}`", .0.name)]
    NotAnInstant(&'static Field),
    #[error("the date-time has a space instead of `+`")]
    LostPlus,
    #[error("invalid value for `{}`", .0.name)]
    NotAnIdentifier(&'static Field),
    #[error("more than {MAX_BYTES} bytes")]
    TooLong,
    #[error("parentheses nest deeper than {MAX_DEPTH}")]
    TooDeep,
    #[error("more than {MAX_COMPARISONS} comparisons")]
    TooManyComparisons,
    #[error("more than {MAX_LIST_ITEMS} values in a list")]
    TooManyItems,
}

impl Reason {
    pub fn unknown_field(name: &str, filterable: &'static [Field]) -> Self {
        // A name has only letters, so that the message never contains a misplaced phone number.
        let looks_like_a_name = name.chars().all(|c| c.is_ascii_alphabetic() || matches!(c, '_' | '-' | '.'));
        Self::UnknownField { name: looks_like_a_name.then(|| excerpt(name)), filterable }
    }

    pub fn unknown_operator(symbol: &str) -> Self {
        Self::UnknownOperator(excerpt(symbol))
    }

    pub fn at(self, at: usize) -> SyntaxError {
        SyntaxError { reason: self, at }
    }

    /// Returns the end of the message, which says how to correct the error.
    fn advice(&self) -> String {
        match self {
            Self::ExpectedConnective | Self::ExpectedConnectiveInGroup => {
                "; a value with spaces or reserved characters needs quotes".to_owned()
            }
            Self::UnknownOperator(_) => {
                let symbols = ComparisonOperator::VARIANTS.iter().map(|operator| operator.symbol());
                format!("; operators are {}", quoted(symbols))
            }
            Self::UnknownField { filterable, .. } => {
                format!("; filterable are {}", quoted(filterable.iter().map(|field| field.name)))
            }
            Self::OperatorDoesNotApply { .. } => "; use `==`, `!=`, `=in=` or `=out=`".to_owned(),
            Self::TakesOneValue(_) => "; for a list use `=in=` or `=out=`".to_owned(),
            Self::NotAKeyword { allowed, .. } => format!("; allowed are {}", quoted(allowed.iter().copied())),
            Self::NotABoolean(_) => "; allowed are `true`, `false`".to_owned(),
            Self::NotAnInstant(_) => "; give an RFC 3339 date-time such as `2026-01-31T09:30:00Z`".to_owned(),
            Self::LostPlus => "; send it as `%2B`".to_owned(),
            Self::NotAnIdentifier(_) => "; give a UUID".to_owned(),
            Self::ExpectedComparison
            | Self::ExpectedOperator
            | Self::ExpectedValue
            | Self::ExpectedListSeparator
            | Self::UnclosedParenthesis
            | Self::UnclosedQuote
            | Self::Nul
            | Self::TooLong
            | Self::TooDeep
            | Self::TooManyComparisons
            | Self::TooManyItems => String::new(),
        }
    }
}

fn quoted(words: impl Iterator<Item = &'static str>) -> String {
    words.map(|word| format!("`{word}`")).collect::<Vec<_>>().join(", ")
}

fn excerpt(text: &str) -> String {
    match text.char_indices().nth(EXCERPT_CHARS) {
        Some((end, _)) => format!("{}…", &text[..end]),
        None => text.to_owned(),
    }
}
