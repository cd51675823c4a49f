//! Text patterns with wildcards.

/// A pattern of literals and wildcards.
///
/// It has at least one wildcard, no two adjacent wildcards or literals, and no empty literal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<PatternPiece>);

/// One part of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternPiece {
    /// Exact text without special characters.
    Literal(String),
    /// Zero or more characters.
    Anything,
}

impl Pattern {
    /// The pieces, which match the whole text.
    pub fn pieces(&self) -> &[PatternPiece] {
        &self.0
    }

    /// Splits `text` at the byte offsets of its wildcards. `None`: no wildcards.
    pub fn from_wildcards(text: &str, wildcards: &[usize]) -> Option<Self> {
        if wildcards.is_empty() {
            return None;
        }
        let mut pieces = Vec::new();
        let mut rest = 0;
        for &wildcard in wildcards {
            push_literal(&mut pieces, &text[rest..wildcard]);
            if pieces.last() != Some(&PatternPiece::Anything) {
                pieces.push(PatternPiece::Anything);
            }
            rest = wildcard + 1;
        }
        push_literal(&mut pieces, &text[rest..]);
        Some(Self(pieces))
    }
}

fn push_literal(pieces: &mut Vec<PatternPiece>, text: &str) {
    if !text.is_empty() {
        pieces.push(PatternPiece::Literal(text.to_owned()));
    }
}
