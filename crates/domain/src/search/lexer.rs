//! Lexer of search expressions. It reads one token at a time, so that errors are reported in text order.

use std::borrow::Cow;

use super::{
    comparison_operator::ComparisonOperator,
    error::{Reason, SyntaxError},
};

/// A token, with its range of bytes in the text.
#[derive(Debug)]
pub(super) struct Token<'a> {
    pub kind: TokenKind<'a>,
    pub start: usize,
    pub end: usize,
}

#[derive(Debug)]
pub(super) enum TokenKind<'a> {
    Open,
    Close,
    Semicolon,
    Comma,
    ComparisonOperator(ComparisonOperator),
    /// An unquoted word. Its position decides whether it is a field, a value, or `and` or `or`.
    Word(&'a str),
    Quoted(Literal<'a>),
    End,
}

/// A value, with the positions of its wildcards.
#[derive(Debug)]
pub(super) struct Literal<'a> {
    pub text: Cow<'a, str>,
    /// Byte offsets of the unescaped stars in `text`.
    pub wildcards: Vec<usize>,
}

impl<'a> Literal<'a> {
    /// Takes an unquoted word as it is. In the RSQL grammar, a backslash is an escape character only within quotes.
    pub fn from_unquoted(word: &'a str) -> Self {
        Self { text: Cow::Borrowed(word), wildcards: word.match_indices('*').map(|(at, _)| at).collect() }
    }

    /// Parses up to the closing `quote`. Returns the literal with its length in bytes, including the quote.
    fn parse_quoted(text: &str, quote: char) -> Option<(Self, usize)> {
        let mut literal = String::new();
        let mut wildcards = Vec::new();
        let mut chars = text.char_indices();
        while let Some((at, c)) = chars.next() {
            match c {
                '\\' => literal.push(chars.next()?.1),
                _ if c == quote => return Some((Self { text: Cow::Owned(literal), wildcards }, at + c.len_utf8())),
                '*' => {
                    wildcards.push(literal.len());
                    literal.push(c);
                }
                _ => literal.push(c),
            }
        }
        None
    }
}

#[derive(Debug)]
pub(super) struct Lexer<'a> {
    text: &'a str,
    at: usize,
}

impl<'a> Lexer<'a> {
    pub fn new(text: &'a str) -> Self {
        // Drops trailing blanks, so that an "expected ..." error points behind the last visible character.
        Self { text: text.trim_end_matches(is_blank), at: 0 }
    }

    pub fn next_token(&mut self) -> Result<Token<'a>, SyntaxError> {
        let rest = self.text[self.at..].trim_start_matches(is_blank);
        let start = self.text.len() - rest.len();
        let (kind, length) = read_token(rest).map_err(|reason| reason.at(start))?;
        self.at = start + length;
        Ok(Token { kind, start, end: self.at })
    }
}

/// Parses the token at the start of `text`. Returns it with its length in bytes.
fn read_token(text: &str) -> Result<(TokenKind<'_>, usize), Reason> {
    let Some(first) = text.chars().next() else {
        return Ok((TokenKind::End, 0));
    };
    match first {
        '(' => Ok((TokenKind::Open, 1)),
        ')' => Ok((TokenKind::Close, 1)),
        ';' => Ok((TokenKind::Semicolon, 1)),
        ',' => Ok((TokenKind::Comma, 1)),
        '"' | '\'' => {
            let (literal, length) = Literal::parse_quoted(&text[1..], first).ok_or(Reason::UnclosedQuote)?;
            Ok((TokenKind::Quoted(literal), 1 + length))
        }
        '=' | '!' | '~' | '<' | '>' => {
            let (operator, length) = ComparisonOperator::parse_prefix(text)
                .ok_or_else(|| Reason::unknown_operator(misspelt_operator(text)))?;
            Ok((TokenKind::ComparisonOperator(operator), length))
        }
        _ => {
            let length = text.find(is_reserved).unwrap_or(text.len());
            Ok((TokenKind::Word(&text[..length]), length))
        }
    }
}

/// Returns the text of an unknown operator for the error message: the whole operator if it has the form `=like=`,
/// otherwise the first character.
fn misspelt_operator(text: &str) -> &str {
    let after_name = text[1..].trim_start_matches(|c: char| c.is_ascii_alphabetic());
    let is_closed = text.starts_with('=') && after_name.starts_with('=');
    let last = if is_closed { text.len() - after_name.len() } else { 0 };
    &text[..=last]
}

/// Whether a character ends an unquoted word.
fn is_reserved(c: char) -> bool {
    matches!(c, '"' | '\'' | '(' | ')' | ';' | ',' | '=' | '!' | '~' | '<' | '>') || is_blank(c)
}

/// Whether a character separates tokens. In the RSQL grammar, other Unicode whitespace is text.
fn is_blank(c: char) -> bool {
    matches!(c, ' ' | '\t' | '\r' | '\n')
}
