//! Text patterns with wildcards.

/// A text pattern that consists of literals and wildcards.
///
/// A pattern has at least one wildcard. Two wildcards or two literals are never adjacent, and no literal is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<PatternPiece>);

/// One part of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum PatternPiece {
    /// This exact text. No character in it has a special meaning.
    Literal(String),
    /// Any text, including the empty one.
    Anything,
}

impl Pattern {
    /// The pieces, which together must match the whole text.
    pub fn pieces(&self) -> &[PatternPiece] {
        &self.0
    }

    /// Splits `text` at the byte offsets of its wildcards. `None`: there are no wildcards.
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
