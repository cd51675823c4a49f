//! Tests of search expressions in RSQL: cases, and properties of generated filters.

mod cases;
mod properties;

use ringtrue_domain::search::{
    Field, FieldKind, FieldTest, Filter, InstantTest, Pattern, PatternPiece, SetTest, TextTest, parse,
};

static FIELDS: [Field; 6] = [
    Field { name: "status", kind: FieldKind::Keyword(&["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"]) },
    Field { name: "verified", kind: FieldKind::Boolean },
    Field { name: "reference_id", kind: FieldKind::Text },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "project_id", kind: FieldKind::Identifier },
    Field { name: "and", kind: FieldKind::Text },
];

/// Renders the structure of a filter as text.
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

fn outline_test(test: &FieldTest) -> String {
    fn choice<T: ToString>(choice: &SetTest<T>) -> String {
        let (name, values) = match choice {
            SetTest::OneOf(values) => ("one-of", values),
            SetTest::NoneOf(values) => ("none-of", values),
        };
        format!("{name} [{}]", values.iter().map(T::to_string).collect::<Vec<_>>().join("|"))
    }
    match test {
        FieldTest::Text(TextTest::Set(texts)) => choice(texts),
        FieldTest::Text(TextTest::Matches(pattern)) => format!("matches {}", outline_pattern(pattern)),
        FieldTest::Text(TextTest::DiffersFrom(pattern)) => format!("differs-from {}", outline_pattern(pattern)),
        FieldTest::Text(TextTest::Before(text)) => format!("before {text}"),
        FieldTest::Text(TextTest::NotAfter(text)) => format!("not-after {text}"),
        FieldTest::Text(TextTest::After(text)) => format!("after {text}"),
        FieldTest::Text(TextTest::NotBefore(text)) => format!("not-before {text}"),
        FieldTest::Keyword(keywords) => choice(keywords),
        FieldTest::Boolean(booleans) => choice(booleans),
        FieldTest::Identifier(identifiers) => choice(identifiers),
        FieldTest::Instant(InstantTest::Set(instants)) => choice(instants),
        FieldTest::Instant(InstantTest::Before(instant)) => format!("before {instant}"),
        FieldTest::Instant(InstantTest::NotAfter(instant)) => format!("not-after {instant}"),
        FieldTest::Instant(InstantTest::After(instant)) => format!("after {instant}"),
        FieldTest::Instant(InstantTest::NotBefore(instant)) => format!("not-before {instant}"),
    }
}

fn outline_pattern(pattern: &Pattern) -> String {
    let pieces = pattern.pieces().iter().map(|piece| match piece {
        PatternPiece::Literal(text) => format!("<{text}>"),
        PatternPiece::Anything => "...".to_owned(),
    });
    pieces.collect()
}
