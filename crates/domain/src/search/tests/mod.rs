//! The language, as cases and as properties.

mod cases;
mod properties;

use super::{Choice, Field, Filter, InstantTest, Kind, Pattern, Piece, Test, TextTest, parse};

static FIELDS: [Field; 6] = [
    Field { name: "status", kind: Kind::Keyword(&["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"]) },
    Field { name: "verified", kind: Kind::Boolean },
    Field { name: "reference_id", kind: Kind::Text },
    Field { name: "created_at", kind: Kind::Instant },
    Field { name: "project_id", kind: Kind::Identifier },
    Field { name: "and", kind: Kind::Text },
];

/// A filter as a line of text that shows its structure.
fn outline(filter: &Filter) -> String {
    let group = |name: &str, parts: &[Filter]| {
        let parts: Vec<_> = parts.iter().map(outline).collect();
        format!("({name} {})", parts.join(" "))
    };
    match filter {
        Filter::And(parts) => group("and", parts),
        Filter::Or(parts) => group("or", parts),
        Filter::Comparison { field, test } => format!("({} {})", field.name, outline_test(test)),
    }
}

fn outline_test(test: &Test) -> String {
    fn choice<T: ToString>(choice: &Choice<T>) -> String {
        let (name, values) = match choice {
            Choice::OneOf(values) => ("one-of", values),
            Choice::NoneOf(values) => ("none-of", values),
        };
        format!("{name} [{}]", values.iter().map(T::to_string).collect::<Vec<_>>().join("|"))
    }
    match test {
        Test::Text(TextTest::Choice(texts)) => choice(texts),
        Test::Text(TextTest::Matches(pattern)) => format!("matches {}", outline_pattern(pattern)),
        Test::Text(TextTest::DiffersFrom(pattern)) => format!("differs-from {}", outline_pattern(pattern)),
        Test::Keyword(keywords) => choice(keywords),
        Test::Boolean(booleans) => choice(booleans),
        Test::Identifier(identifiers) => choice(identifiers),
        Test::Instant(InstantTest::Choice(instants)) => choice(instants),
        Test::Instant(InstantTest::Before(instant)) => format!("before {instant}"),
        Test::Instant(InstantTest::NotAfter(instant)) => format!("not-after {instant}"),
        Test::Instant(InstantTest::After(instant)) => format!("after {instant}"),
        Test::Instant(InstantTest::NotBefore(instant)) => format!("not-before {instant}"),
    }
}

fn outline_pattern(pattern: &Pattern) -> String {
    let pieces = pattern.pieces().iter().map(|piece| match piece {
        Piece::Literal(text) => format!("<{text}>"),
        Piece::Anything => "...".to_owned(),
    });
    pieces.collect()
}
