//! RSQL search expressions of API clients.

use ringtrue_domain::search::{
    Field, FieldKind, FieldTest, Filter, InstantTest, MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS, Pattern,
    PatternPiece, SearchError, SetTest, TextTest, parse,
};

use crate::{Target, text_seeds};

/// `search::parse`: a filter within its limits, or an error with a valid position and without phone numbers.
pub const SEARCH: Target = Target { name: "search", run, seeds, short_run_inputs: 4_000 };

static FIELDS: [Field; 5] = [
    Field { name: "status", kind: FieldKind::Keyword(&["ACCEPTED", "COMPLETED", "ERROR"]) },
    Field { name: "verified", kind: FieldKind::Boolean },
    Field { name: "reference_id", kind: FieldKind::Text },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "project_id", kind: FieldKind::Identifier },
];

fn seeds() -> Vec<Vec<u8>> {
    let mut seeds = text_seeds(&[
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
        Ok(filter) => check_filter(&text, &filter),
        Err(error) => check_error(&text, &error),
    }
}

fn check_error(text: &str, error: &SearchError) {
    assert!((1..=text.chars().count() + 1).contains(&error.column()));
    assert!(error.column() <= MAX_BYTES + 1, "position beyond the limit");
    let message = error.to_string();
    assert!(message.len() < 400, "{message:?}");
    assert!(!message.contains(char::is_control), "{message:?}");
    let longest_number = message.split(|c: char| !c.is_numeric()).map(str::len).max();
    assert!(longest_number <= Some(4), "the message may contain a phone number: {message:?}");
}

fn check_filter(text: &str, filter: &Filter) {
    assert!(text.len() <= MAX_BYTES);
    let size = FilterSize::of(filter);
    assert!(size.comparisons <= MAX_COMPARISONS);
    assert!(size.values <= text.len());
    // A group can contain an `or` of `and`s, and the outermost has no parentheses.
    assert!(size.depth <= 2 * (MAX_DEPTH + 1));

    assert_parses_as(&format!(" \t{text}\r\n"), filter);
    assert_parses_as(&format!("({text})"), filter);
    assert_parses_as(&format!("({text});({text})"), &Filter::And(vec![filter.clone(); 2]));
    assert_parses_as(&format!("({text}) or ({text})"), &Filter::Or(vec![filter.clone(); 2]));
}

/// Parses as `expected`, or exceeds a limit.
fn assert_parses_as(text: &str, expected: &Filter) {
    match parse(text, &FIELDS) {
        Ok(filter) => assert_eq!(filter, *expected),
        Err(error) => {
            let message = error.to_string();
            let is_limit = ["more than ", "parentheses nest"].iter().any(|prefix| message.starts_with(prefix));
            assert!(is_limit, "{message}");
        }
    }
}

#[derive(Default)]
struct FilterSize {
    comparisons: usize,
    depth: usize,
    /// Total of all lists.
    values: usize,
}

impl FilterSize {
    fn of(filter: &Filter) -> Self {
        match filter {
            Filter::And(parts) | Filter::Or(parts) => {
                assert!(parts.len() >= 2);
                let whole = parts.iter().map(FilterSize::of).fold(FilterSize::default(), |whole, part| FilterSize {
                    comparisons: whole.comparisons + part.comparisons,
                    depth: whole.depth.max(part.depth),
                    values: whole.values + part.values,
                });
                FilterSize { depth: whole.depth + 1, ..whole }
            }
            Filter::Comparison { field, test } => {
                let values = value_count(field.kind, test);
                assert!((1..=MAX_LIST_ITEMS).contains(&values));
                FilterSize { comparisons: 1, depth: 0, values }
            }
        }
    }
}

/// Number of compared values; the test must match the field type.
fn value_count(kind: FieldKind, test: &FieldTest) -> usize {
    match (kind, test) {
        (FieldKind::Text, FieldTest::Text(TextTest::Set(texts))) => choice_len(texts),
        (FieldKind::Text, FieldTest::Text(TextTest::Matches(pattern) | TextTest::DiffersFrom(pattern))) => {
            check_pattern(pattern)
        }
        (FieldKind::Keyword(allowed), FieldTest::Keyword(words)) => {
            let (SetTest::OneOf(found) | SetTest::NoneOf(found)) = words;
            assert!(found.iter().all(|word| allowed.contains(word)));
            choice_len(words)
        }
        (FieldKind::Boolean, FieldTest::Boolean(truths)) => choice_len(truths),
        (FieldKind::Identifier, FieldTest::Identifier(ids)) => choice_len(ids),
        (FieldKind::Instant, FieldTest::Instant(InstantTest::Set(instants))) => choice_len(instants),
        (FieldKind::Instant, FieldTest::Instant(_)) => 1,
        _ => panic!("{test:?} does not match {kind:?}"),
    }
}

fn choice_len<T>(choice: &SetTest<T>) -> usize {
    let (SetTest::OneOf(values) | SetTest::NoneOf(values)) = choice;
    values.len()
}

fn check_pattern(pattern: &Pattern) -> usize {
    let pieces = pattern.pieces();
    assert!(pieces.contains(&PatternPiece::Anything));
    assert!(!pieces.contains(&PatternPiece::Literal(String::new())));
    let is_gap = |piece: &PatternPiece| *piece == PatternPiece::Anything;
    assert!(pieces.windows(2).all(|pair| is_gap(&pair[0]) != is_gap(&pair[1])), "gaps and literals must alternate");
    1
}
