//! Recursive descent parser of search expressions.
//!
//! ```text
//! alternatives = conjunction, { ( "," | "or" ), conjunction };
//! conjunction  = constraint, { ( ";" | "and" ), constraint };
//! constraint   = "(", alternatives, ")" | field, operator, values;
//! values       = value | "(", value, { ",", value }, ")";
//! ```

use super::error::{Reason, SyntaxError};
use super::lexer::{Lexer, Literal, Token, TokenKind};
use super::unparsed_comparison::{UnparsedComparison, Value};
use super::{Field, Filter, MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS, SearchError};

/// Parses a search expression that may use `fields`. Other fields and an empty expression are errors.
pub fn parse(text: &str, fields: &'static [Field]) -> Result<Filter, SearchError> {
    check_text(text)
        .and_then(|()| {
            Parser { text, lexer: Lexer::new(text), peeked: None, fields, depth: 0, comparisons: 0 }.parse_search()
        })
        .map_err(|error| error.locate(text))
}

fn check_text(text: &str) -> Result<(), SyntaxError> {
    if text.len() > MAX_BYTES {
        return Err(Reason::TooLong.at(text.floor_char_boundary(MAX_BYTES)));
    }
    // PostgreSQL rejects NUL characters in text.
    match text.find('\0') {
        Some(at) => Err(Reason::Nul.at(at)),
        None => Ok(()),
    }
}

struct Parser<'a> {
    text: &'a str,
    lexer: Lexer<'a>,
    /// The token that was read ahead and not consumed yet.
    peeked: Option<Token<'a>>,
    fields: &'static [Field],
    depth: usize,
    comparisons: usize,
}

impl<'a> Parser<'a> {
    fn parse_search(mut self) -> Result<Filter, SyntaxError> {
        let filter = self.parse_alternatives()?;
        let token = self.next_token()?;
        match token.kind {
            TokenKind::End => Ok(filter),
            _ => Err(Reason::ExpectedConnective.at(token.start)),
        }
    }

    fn parse_alternatives(&mut self) -> Result<Filter, SyntaxError> {
        let first = self.parse_conjunction()?;
        let mut others = Vec::new();
        while self.consume_if(|kind| matches!(kind, TokenKind::Comma | TokenKind::Word("or")))? {
            others.push(self.parse_conjunction()?);
        }
        Ok(join_filters(first, others, Filter::Or))
    }

    fn parse_conjunction(&mut self) -> Result<Filter, SyntaxError> {
        let first = self.parse_constraint()?;
        let mut others = Vec::new();
        while self.consume_if(|kind| matches!(kind, TokenKind::Semicolon | TokenKind::Word("and")))? {
            others.push(self.parse_constraint()?);
        }
        Ok(join_filters(first, others, Filter::And))
    }

    fn parse_constraint(&mut self) -> Result<Filter, SyntaxError> {
        let token = self.next_token()?;
        match token.kind {
            TokenKind::Open => self.parse_group(token.start),
            TokenKind::Word(name) => self.parse_comparison(name, token.start),
            _ => Err(Reason::ExpectedComparison.at(token.start)),
        }
    }

    fn parse_group(&mut self, opened_at: usize) -> Result<Filter, SyntaxError> {
        if self.depth == MAX_DEPTH {
            return Err(Reason::TooDeep.at(opened_at));
        }
        self.depth += 1;
        let filter = self.parse_alternatives()?;
        self.depth -= 1;
        let token = self.next_token()?;
        match token.kind {
            TokenKind::Close => Ok(filter),
            TokenKind::End => Err(Reason::UnclosedParenthesis.at(opened_at)),
            _ => Err(Reason::ExpectedConnectiveInGroup.at(token.start)),
        }
    }

    fn parse_comparison(&mut self, name: &str, at: usize) -> Result<Filter, SyntaxError> {
        if self.comparisons == MAX_COMPARISONS {
            return Err(Reason::TooManyComparisons.at(at));
        }
        self.comparisons += 1;
        let field = self
            .fields
            .iter()
            .find(|field| field.name == name)
            .ok_or_else(|| Reason::unknown_field(name, self.fields).at(at))?;
        let token = self.next_token()?;
        let TokenKind::ComparisonOperator(operator) = token.kind else {
            return Err(Reason::ExpectedOperator.at(token.start));
        };
        let comparison = UnparsedComparison { field, operator, operator_at: token.start, values: self.parse_values()? };
        Ok(Filter::Comparison { field, test: comparison.build_test()? })
    }

    fn parse_values(&mut self) -> Result<Vec<Value<'a>>, SyntaxError> {
        let token = self.next_token()?;
        match token.kind {
            TokenKind::Open => self.parse_list(token.start),
            _ => Ok(vec![self.parse_value(token)?]),
        }
    }

    fn parse_list(&mut self, opened_at: usize) -> Result<Vec<Value<'a>>, SyntaxError> {
        let mut values = Vec::new();
        loop {
            let token = self.next_token()?;
            if values.len() == MAX_LIST_ITEMS {
                return Err(Reason::TooManyItems.at(token.start));
            }
            let value = self.parse_value(token)?;
            let separator = self.next_token()?;
            match separator.kind {
                TokenKind::Comma => values.push(value),
                TokenKind::Close => {
                    values.push(value);
                    return Ok(values);
                }
                TokenKind::End => return Err(Reason::UnclosedParenthesis.at(opened_at)),
                _ if value.has_lost_plus() => return Err(Reason::LostPlus.at(value.at)),
                _ => return Err(Reason::ExpectedListSeparator.at(separator.start)),
            }
        }
    }

    fn parse_value(&self, token: Token<'a>) -> Result<Value<'a>, SyntaxError> {
        let literal = match token.kind {
            TokenKind::Word(word) => Literal::from_unquoted(word),
            TokenKind::Quoted(literal) => literal,
            _ => return Err(Reason::ExpectedValue.at(token.start)),
        };
        Ok(Value { literal, at: token.start, following_text: &self.text[token.end..] })
    }

    fn next_token(&mut self) -> Result<Token<'a>, SyntaxError> {
        match self.peeked.take() {
            Some(token) => Ok(token),
            None => self.lexer.next_token(),
        }
    }

    /// Consumes the next token if it satisfies the predicate.
    fn consume_if(&mut self, predicate: impl Fn(&TokenKind<'a>) -> bool) -> Result<bool, SyntaxError> {
        let token = self.next_token()?;
        if predicate(&token.kind) {
            return Ok(true);
        }
        self.peeked = Some(token);
        Ok(false)
    }
}

fn join_filters(first: Filter, others: Vec<Filter>, join: fn(Vec<Filter>) -> Filter) -> Filter {
    if others.is_empty() {
        return first;
    }
    let mut all = vec![first];
    all.extend(others);
    join(all)
}
