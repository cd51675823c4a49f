//! The grammar, by recursive descent.
//!
//! ```text
//! alternatives = conjunction, { ( "," | "or" ), conjunction };
//! conjunction  = constraint, { ( ";" | "and" ), constraint };
//! constraint   = "(", alternatives, ")" | field, operator, values;
//! values       = value | "(", value, { ",", value }, ")";
//! ```

use super::error::{Fault, Reason};
use super::lexer::{Lexer, Literal, Token, TokenKind};
use super::operand::{Operands, Value};
use super::{Field, Filter, MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS, SearchError};

/// Reads a search over `fields`. Any other field is an error, and so is a blank text.
pub fn parse(text: &str, fields: &'static [Field]) -> Result<Filter, SearchError> {
    check_text(text)
        .and_then(|()| {
            Parser { text, lexer: Lexer::new(text), peeked: None, fields, depth: 0, comparisons: 0 }.search()
        })
        .map_err(|fault| fault.locate(text))
}

fn check_text(text: &str) -> Result<(), Fault> {
    if text.len() > MAX_BYTES {
        return Err(Reason::TooLong.at(text.floor_char_boundary(MAX_BYTES)));
    }
    // PostgreSQL has no text with a NUL in it and fails the statement, so the question is refused here.
    match text.find('\0') {
        Some(at) => Err(Reason::Nul.at(at)),
        None => Ok(()),
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The token that was looked at and not taken.
    peeked: Option<Token<'a>>,
    fields: &'static [Field],
    depth: usize,
    comparisons: usize,
}

impl<'a> Parser<'a> {
    fn search(mut self) -> Result<Filter, Fault> {
        let filter = self.alternatives()?;
        let token = self.next()?;
        match token.kind {
            TokenKind::End => Ok(filter),
            _ => Err(Reason::ExpectedConnective.at(token.start)),
        }
    }

    fn alternatives(&mut self) -> Result<Filter, Fault> {
        let first = self.conjunction()?;
        let mut others = Vec::new();
        while self.takes(|kind| matches!(kind, TokenKind::Comma | TokenKind::Word("or")))? {
            others.push(self.conjunction()?);
        }
        Ok(joined(first, others, Filter::Or))
    }

    fn conjunction(&mut self) -> Result<Filter, Fault> {
        let first = self.constraint()?;
        let mut others = Vec::new();
        while self.takes(|kind| matches!(kind, TokenKind::Semicolon | TokenKind::Word("and")))? {
            others.push(self.constraint()?);
        }
        Ok(joined(first, others, Filter::And))
    }

    fn constraint(&mut self) -> Result<Filter, Fault> {
        let token = self.next()?;
        match token.kind {
            TokenKind::Open => self.group(token.start),
            TokenKind::Word(name) => self.comparison(name, token.start),
            _ => Err(Reason::ExpectedComparison.at(token.start)),
        }
    }

    fn group(&mut self, opened_at: usize) -> Result<Filter, Fault> {
        if self.depth == MAX_DEPTH {
            return Err(Reason::TooDeep.at(opened_at));
        }
        self.depth += 1;
        let filter = self.alternatives()?;
        self.depth -= 1;
        let token = self.next()?;
        match token.kind {
            TokenKind::Close => Ok(filter),
            TokenKind::End => Err(Reason::UnclosedParenthesis.at(opened_at)),
            _ => Err(Reason::ExpectedConnectiveInGroup.at(token.start)),
        }
    }

    fn comparison(&mut self, name: &str, at: usize) -> Result<Filter, Fault> {
        if self.comparisons == MAX_COMPARISONS {
            return Err(Reason::TooManyComparisons.at(at));
        }
        self.comparisons += 1;
        let field = self
            .fields
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| Reason::unknown_field(name, self.fields).at(at))?;
        let token = self.next()?;
        let TokenKind::Operator(operator) = token.kind else {
            return Err(Reason::ExpectedOperator.at(token.start));
        };
        let operands = Operands { field, operator, operator_at: token.start, values: self.values()? };
        Ok(Filter::Comparison { field, test: operands.test()? })
    }

    fn values(&mut self) -> Result<Vec<Value<'a>>, Fault> {
        let token = self.next()?;
        match token.kind {
            TokenKind::Open => self.list(token.start),
            _ => Ok(vec![self.value(token)?]),
        }
    }

    fn list(&mut self, opened_at: usize) -> Result<Vec<Value<'a>>, Fault> {
        let mut values = Vec::new();
        loop {
            let token = self.next()?;
            if values.len() == MAX_LIST_ITEMS {
                return Err(Reason::TooManyItems.at(token.start));
            }
            let value = self.value(token)?;
            let separator = self.next()?;
            match separator.kind {
                TokenKind::Comma => values.push(value),
                TokenKind::Close => {
                    values.push(value);
                    return Ok(values);
                }
                TokenKind::End => return Err(Reason::UnclosedParenthesis.at(opened_at)),
                _ if value.lost_its_plus() => return Err(Reason::LostPlus.at(value.at)),
                _ => return Err(Reason::ExpectedListSeparator.at(separator.start)),
            }
        }
    }

    fn value(&self, token: Token<'a>) -> Result<Value<'a>, Fault> {
        let literal = match token.kind {
            TokenKind::Word(word) => Literal::unquoted(word),
            TokenKind::Quoted(literal) => literal,
            _ => return Err(Reason::ExpectedValue.at(token.start)),
        };
        Ok(Value { literal, at: token.start, followed_by: &self.text[token.end..] })
    }

    fn next(&mut self) -> Result<Token<'a>, Fault> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.lexer.next(),
        }
    }

    /// Takes the next token if it is a wanted one.
    fn takes(&mut self, is_wanted: impl Fn(&TokenKind<'a>) -> bool) -> Result<bool, Fault> {
        let token = self.next()?;
        if is_wanted(&token.kind) {
            return Ok(true);
        }
        self.peeked = Some(token);
        Ok(false)
    }
}

fn joined(first: Filter, others: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    if others.is_empty() {
        return first;
    }
    let mut all = vec![first];
    all.extend(others);
    join(all)
}
