//! Filters in RSQL, as callers write them into a query.

use ringtrue_domain::search::{
    Choice, Field, Filter, InstantTest, Kind, MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS, Pattern, Piece,
    SearchError, Test, TextTest, parse,
};

use crate::{Target, texts};

/// `search::parse`: a filter within its bounds, or an error that points into the text and repeats no number.
pub const SEARCH: Target = Target { name: "search", run, seeds, short_run: 4_000 };

static FIELDS: [Field; 5] = [
    Field { name: "status", kind: Kind::Keyword(&["ACCEPTED", "COMPLETED", "ERROR"]) },
    Field { name: "verified", kind: Kind::Boolean },
    Field { name: "reference_id", kind: Kind::Text },
    Field { name: "created_at", kind: Kind::Instant },
    Field { name: "project_id", kind: Kind::Identifier },
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = texts(&[
        "status==COMPLETED;created_at=ge=2026-01-01T00:00:00Z",
        "status=in=(ACCEPTED,ERROR),verified!=true",
        "(status==ERROR or verified==false) and reference_id==\"a b\\\"*\"",
        "reference_id==*ord*er*",
        "reference_id!='it\\'s \\*'",
        "reference_id=out=(a,'b c',\"d,e\",é)",
        "created_at>2026-01-31T09:30:00.123456789+01:00;created_at<=2026-12-31T23:59:60z",
        "created_at==2026-01-31T09:30:00 01:00",
        "created_at=in=(2026-01-31T09:30:00 01:00)",
        "project_id==0198C0DE-0000-7000-8000-000000000000",
        "phone_number==+447700900123",
        "+447700900123==status",
        "status=like=ERROR",
        "status~ERROR",
        "status==\0",
    ]);
    seeds.push(format!("{}status==ERROR{}", "(".repeat(MAX_DEPTH), ")".repeat(MAX_DEPTH)).into_bytes());
    seeds.push(vec!["verified==true"; MAX_COMPARISONS].join(";").into_bytes());
    seeds.push(format!("reference_id=in=({})", vec!["a"; MAX_LIST_ITEMS].join(",")).into_bytes());
    seeds.push("é".repeat(MAX_BYTES / 2 + 1).into_bytes());
    seeds
}

fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    match parse(&text, &FIELDS) {
        Ok(filter) => is_within_bounds_and_means_what_it_says(&text, &filter),
        Err(error) => explains_itself(&text, &error),
    }
}

fn explains_itself(text: &str, error: &SearchError) {
    assert!((1..=text.chars().count() + 1).contains(&error.column()));
    assert!(error.column() <= MAX_BYTES + 1, "nothing is read behind the bound");
    let message = error.to_string();
    assert!(message.len() < 400, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?}");
    let longest_number = message.split(|c: char| !c.is_numeric()).map(str::len).max();
    assert!(longest_number <= Some(4), "a phone number may have been repeated: {message:?}");
}

fn is_within_bounds_and_means_what_it_says(text: &str, filter: &Filter) {
    assert!(text.len() <= MAX_BYTES);
    let extent = Extent::of(filter);
    assert!(extent.comparisons <= MAX_COMPARISONS);
    assert!(extent.values <= text.len());
    // One group can hold an `or` of `and`s, and the outermost needs no parentheses.
    assert!(extent.depth <= 2 * (MAX_DEPTH + 1));

    is_read_as(&format!(" \t{text}\r\n"), filter);
    is_read_as(&format!("({text})"), filter);
    is_read_as(&format!("({text});({text})"), &Filter::And(vec![filter.clone(); 2]));
    is_read_as(&format!("({text}) or ({text})"), &Filter::Or(vec![filter.clone(); 2]));
}

/// Only a bound may stand in the way.
fn is_read_as(text: &str, expected: &Filter) {
    match parse(text, &FIELDS) {
        Ok(filter) => assert_eq!(filter, *expected),
        Err(error) => {
            let message = error.to_string();
            let is_a_bound = ["more than ", "parentheses nest"].iter().any(|bound| message.starts_with(bound));
            assert!(is_a_bound, "{message}");
        }
    }
}

#[derive(Default)]
struct Extent {
    comparisons: usize,
    depth: usize,
    /// In all lists together.
    values: usize,
}

impl Extent {
    fn of(filter: &Filter) -> Self {
        match filter {
            Filter::And(parts) | Filter::Or(parts) => {
                assert!(parts.len() >= 2);
                let whole = parts.iter().map(Extent::of).fold(Extent::default(), |whole, part| Extent {
                    comparisons: whole.comparisons + part.comparisons,
                    depth: whole.depth.max(part.depth),
                    values: whole.values + part.values,
                });
                Extent { depth: whole.depth + 1, ..whole }
            }
            Filter::Comparison { field, test } => {
                let values = values(field.kind, test);
                assert!((1..=MAX_LIST_ITEMS).contains(&values));
                Extent { comparisons: 1, depth: 0, values }
            }
        }
    }
}

/// How many values a field is compared with, by a test of its own kind.
fn values(kind: Kind, test: &Test) -> usize {
    match (kind, test) {
        (Kind::Text, Test::Text(TextTest::Choice(texts))) => of_choice(texts),
        (Kind::Text, Test::Text(TextTest::Matches(pattern) | TextTest::DiffersFrom(pattern))) => of_pattern(pattern),
        (Kind::Keyword(allowed), Test::Keyword(words)) => {
            let (Choice::OneOf(found) | Choice::NoneOf(found)) = words;
            assert!(found.iter().all(|word| allowed.contains(word)));
            of_choice(words)
        }
        (Kind::Boolean, Test::Boolean(truths)) => of_choice(truths),
        (Kind::Identifier, Test::Identifier(ids)) => of_choice(ids),
        (Kind::Instant, Test::Instant(InstantTest::Choice(instants))) => of_choice(instants),
        (Kind::Instant, Test::Instant(_)) => 1,
        _ => panic!("{kind:?} has no such test: {test:?}"),
    }
}

fn of_choice<T>(choice: &Choice<T>) -> usize {
    let (Choice::OneOf(values) | Choice::NoneOf(values)) = choice;
    values.len()
}

fn of_pattern(pattern: &Pattern) -> usize {
    let pieces = pattern.pieces();
    assert!(pieces.contains(&Piece::Anything));
    assert!(!pieces.contains(&Piece::Literal(String::new())));
    let is_gap = |piece: &Piece| *piece == Piece::Anything;
    assert!(pieces.windows(2).all(|pair| is_gap(&pair[0]) != is_gap(&pair[1])), "gaps and literals take turns");
    1
}
