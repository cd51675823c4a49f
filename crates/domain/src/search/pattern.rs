//! Text with gaps, as `*` makes them.

/// The shape of a text: literal pieces, and gaps that any characters may fill.
///
/// There is at least one gap, no two gaps and no two literals are neighbours, and no literal is empty.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Pattern(Vec<Piece>);

/// One part of a [`Pattern`].
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Piece {
    /// These characters and no others; nothing in them is special.
    Literal(String),
    /// Any number of characters, none included.
    Anything,
}

impl Pattern {
    /// The pieces, from the start of the text to its end. The first and the last are anchored there.
    pub fn pieces(&self) -> &[Piece] {
        &self.0
    }

    /// Cuts `text` at its gaps, whose byte positions are given in order. No gaps: not a pattern.
    pub(super) fn cut(text: &str, gaps: &[usize]) -> Option<Self> {
        if gaps.is_empty() {
            return None;
        }
        let mut pieces = Vec::new();
        let mut rest = 0;
        for &gap in gaps {
            push_literal(&mut pieces, &text[rest..gap]);
            if pieces.last() != Some(&Piece::Anything) {
                pieces.push(Piece::Anything);
            }
            rest = gap + 1;
        }
        push_literal(&mut pieces, &text[rest..]);
        Some(Self(pieces))
    }
}

fn push_literal(pieces: &mut Vec<Piece>, text: &str) {
    if !text.is_empty() {
        pieces.push(Piece::Literal(text.to_owned()));
    }
}
