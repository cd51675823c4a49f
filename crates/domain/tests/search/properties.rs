use jiff::Timestamp;
use proptest::prelude::*;
use proptest::sample::select;
use ringtrue_domain::search::{MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS};
use uuid::Uuid;

use super::{
    FIELDS, Field, FieldKind, FieldTest, Filter, InstantTest, Pattern, PatternPiece, SetTest, TextTest, parse,
};

/// Selects among the equivalent spellings that RSQL has for quotes, connectives, operators and lists.
#[derive(Debug, Clone)]
struct Style {
    quote: char,
    spelled_out: bool,
    symbols: bool,
    lists_of_one: bool,
}

impl Style {
    fn write(&self, filter: &Filter) -> String {
        let group = |connectives: [&str; 2], parts: &[Filter]| {
            let parts: Vec<_> = parts.iter().map(|part| self.write_part(part)).collect();
            parts.join(connectives[usize::from(self.spelled_out)])
        };
        match filter {
            Filter::And(parts) => group([";", " and "], parts),
            Filter::Or(parts) => group([",", " or "], parts),
            Filter::Comparison { field, test } => format!("{}{}", field.name, self.write_test(test)),
        }
    }

    fn write_part(&self, part: &Filter) -> String {
        match part {
            Filter::And(_) | Filter::Or(_) => format!("({})", self.write(part)),
            Filter::Comparison { .. } => self.write(part),
        }
    }

    fn write_test(&self, test: &FieldTest) -> String {
        let order =
            |operators: [&str; 2], instant: &Timestamp| format!("{}{instant}", operators[usize::from(self.symbols)]);
        let text_order = |operators: [&str; 2], text: &str| {
            format!("{}{}", operators[usize::from(self.symbols)], self.quoted(&self.escaped(text)))
        };
        match test {
            FieldTest::Text(TextTest::Set(texts)) => {
                self.write_set_test(texts, |text| self.quoted(&self.escaped(text)))
            }
            FieldTest::Text(TextTest::Matches(pattern)) => format!("=={}", self.write_pattern(pattern)),
            FieldTest::Text(TextTest::DiffersFrom(pattern)) => format!("!={}", self.write_pattern(pattern)),
            FieldTest::Text(TextTest::Before(text)) => text_order(["=lt=", "<"], text),
            FieldTest::Text(TextTest::NotAfter(text)) => text_order(["=le=", "<="], text),
            FieldTest::Text(TextTest::After(text)) => text_order(["=gt=", ">"], text),
            FieldTest::Text(TextTest::NotBefore(text)) => text_order(["=ge=", ">="], text),
            FieldTest::Keyword(keywords) => self.write_set_test(keywords, |&keyword| keyword.to_owned()),
            FieldTest::Boolean(booleans) => self.write_set_test(booleans, bool::to_string),
            FieldTest::Identifier(ids) => self.write_set_test(ids, Uuid::to_string),
            FieldTest::Instant(InstantTest::Set(instants)) => {
                self.write_set_test(instants, |instant| self.quoted(&instant.to_string()))
            }
            FieldTest::Instant(InstantTest::Before(instant)) => order(["=lt=", "<"], instant),
            FieldTest::Instant(InstantTest::NotAfter(instant)) => order(["=le=", "<="], instant),
            FieldTest::Instant(InstantTest::After(instant)) => order(["=gt=", ">"], instant),
            FieldTest::Instant(InstantTest::NotBefore(instant)) => order(["=ge=", ">="], instant),
        }
    }

    fn write_set_test<T>(&self, choice: &SetTest<T>, write: impl Fn(&T) -> String) -> String {
        let (single, list, values) = match choice {
            SetTest::OneOf(values) => ("==", "=in=", values),
            SetTest::NoneOf(values) => ("!=", "=out=", values),
        };
        match values.as_slice() {
            [value] if !self.lists_of_one => format!("{single}{}", write(value)),
            _ => format!("{list}({})", values.iter().map(write).collect::<Vec<_>>().join(",")),
        }
    }

    fn write_pattern(&self, pattern: &Pattern) -> String {
        let pieces = pattern.pieces().iter().map(|piece| match piece {
            PatternPiece::Literal(text) => self.escaped(text),
            PatternPiece::Anything => "*".to_owned(),
        });
        self.quoted(&pieces.collect::<String>())
    }

    fn quoted(&self, text: &str) -> String {
        format!("{0}{text}{0}", self.quote)
    }

    fn escaped(&self, text: &str) -> String {
        text.chars()
            .flat_map(|c| {
                let is_special = c == self.quote || matches!(c, '\\' | '*');
                is_special.then_some('\\').into_iter().chain([c])
            })
            .collect()
    }
}

fn any_style() -> impl Strategy<Value = Style> {
    (select(vec!['"', '\'']), any::<bool>(), any::<bool>(), any::<bool>())
        .prop_map(|(quote, spelled_out, symbols, lists_of_one)| Style { quote, spelled_out, symbols, lists_of_one })
}

fn any_text() -> impl Strategy<Value = String> {
    let special = "\"'();,=!~<>\\* %_\n\t".chars().collect::<Vec<_>>();
    let c = prop_oneof![any::<char>(), select(special), proptest::char::range('a', 'z')];
    prop::collection::vec(c.prop_filter("cannot be searched for", |&c| c != '\0'), 0..6).prop_map(String::from_iter)
}

fn any_pattern() -> impl Strategy<Value = Pattern> {
    prop::collection::vec(any_text(), 2..4).prop_filter_map("has a gap", |literals| {
        let mut text = String::new();
        let mut gaps = Vec::new();
        for (index, literal) in literals.iter().enumerate() {
            if index > 0 {
                gaps.push(text.len());
                text.push('*');
            }
            text.push_str(literal);
        }
        Pattern::from_wildcards(&text, &gaps)
    })
}

fn any_set_test<T: std::fmt::Debug + Clone>(value: impl Strategy<Value = T>) -> impl Strategy<Value = SetTest<T>> {
    (prop::collection::vec(value, 1..4), any::<bool>())
        .prop_map(|(values, negated)| if negated { SetTest::NoneOf(values) } else { SetTest::OneOf(values) })
}

/// Generates instants that RFC 3339 can express.
fn any_instant() -> impl Strategy<Value = Timestamp> {
    (-62_167_219_200_i64..253_402_207_200, 0..1_000_000_000_i32)
        .prop_filter_map("is an instant", |(second, nanosecond)| Timestamp::new(second, nanosecond).ok())
}

fn any_test(kind: FieldKind) -> BoxedStrategy<FieldTest> {
    match kind {
        FieldKind::Text => prop_oneof![
            any_set_test(any_text()).prop_map(TextTest::Set),
            any_pattern().prop_map(TextTest::Matches),
            any_pattern().prop_map(TextTest::DiffersFrom),
            any_text().prop_map(TextTest::Before),
            any_text().prop_map(TextTest::NotAfter),
            any_text().prop_map(TextTest::After),
            any_text().prop_map(TextTest::NotBefore),
        ]
        .prop_map(FieldTest::Text)
        .boxed(),
        FieldKind::Keyword(allowed) => any_set_test(select(allowed)).prop_map(FieldTest::Keyword).boxed(),
        FieldKind::Boolean => any_set_test(any::<bool>()).prop_map(FieldTest::Boolean).boxed(),
        FieldKind::Identifier => {
            any_set_test(any::<u128>().prop_map(Uuid::from_u128)).prop_map(FieldTest::Identifier).boxed()
        }
        FieldKind::Instant => prop_oneof![
            any_set_test(any_instant()).prop_map(InstantTest::Set),
            any_instant().prop_map(InstantTest::Before),
            any_instant().prop_map(InstantTest::NotAfter),
            any_instant().prop_map(InstantTest::After),
            any_instant().prop_map(InstantTest::NotBefore),
        ]
        .prop_map(FieldTest::Instant)
        .boxed(),
    }
}

fn any_filter() -> impl Strategy<Value = Filter> {
    let comparison = select(FIELDS.iter().collect::<Vec<&'static Field>>())
        .prop_flat_map(|field| any_test(field.kind).prop_map(move |test| Filter::Comparison { field, test }));
    comparison.prop_recursive(4, 12, 3, |part| {
        let parts = prop::collection::vec(part, 2..4);
        prop_oneof![parts.clone().prop_map(Filter::And), parts.prop_map(Filter::Or)]
    })
}

/// Generates tokens in any order. The results are mostly invalid, and often nearly valid.
fn any_fragments() -> impl Strategy<Value = String> {
    let fragments = vec![
        "status",
        "verified",
        "reference_id",
        "created_at",
        "project_id",
        "phone_number",
        "==",
        "!=",
        "=gt=",
        ">",
        "=in=",
        "=out=",
        "=",
        "~",
        "(",
        "(",
        ")",
        ")",
        ",",
        ";",
        " and ",
        " or ",
        " ",
        "\"",
        "'",
        "\\",
        "*",
        "ERROR",
        "true",
        "2026-01-31T09:30:00Z",
        "2026-01-31T09:30:00 01:00",
        "é",
        "\u{7}",
        "\0",
        "status==ERROR",
        "reference_id=in=(a,b)",
        "created_at=ge=2026-01-31T09:30:00Z",
    ];
    prop::collection::vec(select(fragments), 0..60).prop_map(|fragments| fragments.concat())
}

/// Returns the number of comparisons, the nesting depth and the length of the longest list of a filter.
fn extent(filter: &Filter) -> (usize, usize, usize) {
    fn items(test: &FieldTest) -> usize {
        match test {
            FieldTest::Text(TextTest::Set(SetTest::OneOf(texts) | SetTest::NoneOf(texts))) => texts.len(),
            _ => 1,
        }
    }
    match filter {
        Filter::And(parts) | Filter::Or(parts) => {
            let parts = parts.iter().map(extent);
            let (count, depth, items) =
                parts.fold((0, 0, 0), |all, part| (all.0 + part.0, all.1.max(part.1), all.2.max(part.2)));
            (count, depth + 1, items)
        }
        Filter::Comparison { test, .. } => (1, 0, items(test)),
    }
}

fn assert_parse_is_sound(text: &str) -> Result<(), TestCaseError> {
    match parse(text, &FIELDS) {
        Ok(filter) => {
            let (comparisons, depth, items) = extent(&filter);
            prop_assert!(text.len() <= MAX_BYTES);
            prop_assert!(comparisons <= MAX_COMPARISONS);
            prop_assert!(items <= MAX_LIST_ITEMS);
            // Each group can contain an `or` of `and`s, which are two levels. The outermost level needs no parentheses.
            prop_assert!(depth <= 2 * (MAX_DEPTH + 1));
        }
        Err(error) => {
            let message = error.to_string();
            prop_assert!((1..=text.chars().count() + 1).contains(&error.column()));
            let position = format!(" at column {}", error.column());
            prop_assert!(message.contains(&position), "{message:?}");
            prop_assert!(!message.contains(char::is_control), "{message:?}");
            prop_assert!(message.chars().count() < 250, "{message:?}");
        }
    }
    Ok(())
}

proptest! {
    #[test]
    fn written_filters_parse_back(filter in any_filter(), style in any_style()) {
        let text = style.write(&filter);
        prop_assume!(text.len() <= MAX_BYTES);
        prop_assert_eq!(parse(&text, &FIELDS), Ok(filter), "{}", text);
    }

    #[test]
    fn any_text_parses_soundly(text in any::<String>()) {
        assert_parse_is_sound(&text)?;
    }

    #[test]
    fn any_fragments_parse_soundly(text in any_fragments()) {
        assert_parse_is_sound(&text)?;
    }

    #[test]
    fn any_ascii_value_parses_soundly(value in "[ -~]{0,80}", field in select(FIELDS.to_vec())) {
        assert_parse_is_sound(&format!("{}=={value}", field.name))?;
    }

    #[test]
    fn long_text_is_rejected(text in "[(),;=a\\\\\"]{2049,2100}") {
        let error = parse(&text, &FIELDS).expect_err("the text is too long");
        prop_assert_eq!(error.column(), MAX_BYTES + 1);
    }
}
