//! The comparison operators of search expressions.

use strum::VariantArray;

/// A comparison operator. Alternative spellings, such as `=gt=` and `>`, are the same variant.
#[derive(Debug, Clone, Copy, PartialEq, Eq, VariantArray)]
pub(super) enum ComparisonOperator {
    Equal,
    NotEqual,
    Greater,
    GreaterOrEqual,
    Less,
    LessOrEqual,
    In,
    Out,
}

impl ComparisonOperator {
    pub const fn symbol(self) -> &'static str {
        match self {
            Self::Equal => "==",
            Self::NotEqual => "!=",
            Self::Greater => "=gt=",
            Self::GreaterOrEqual => "=ge=",
            Self::Less => "=lt=",
            Self::LessOrEqual => "=le=",
            Self::In => "=in=",
            Self::Out => "=out=",
        }
    }

    /// Parses the operator at the start of `text`. Returns it with its length in bytes.
    pub fn parse_prefix(text: &str) -> Option<(Self, usize)> {
        // Longer spellings come first, because `>=` also starts with `>`.
        const ALTERNATIVE_SPELLINGS: [(&str, ComparisonOperator); 4] = [
            (">=", ComparisonOperator::GreaterOrEqual),
            ("<=", ComparisonOperator::LessOrEqual),
            (">", ComparisonOperator::Greater),
            ("<", ComparisonOperator::Less),
        ];
        Self::VARIANTS
            .iter()
            .map(|operator| (operator.symbol(), *operator))
            .chain(ALTERNATIVE_SPELLINGS)
            .find(|(spelling, _)| text.starts_with(spelling))
            .map(|(spelling, operator)| (operator, spelling.len()))
    }
}
