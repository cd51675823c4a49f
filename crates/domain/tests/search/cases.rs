use ringtrue_domain::search::{MAX_BYTES, MAX_COMPARISONS, MAX_DEPTH, MAX_LIST_ITEMS};

use super::{FIELDS, Filter, outline, parse};

#[track_caller]
fn assert_parses(text: &str, expected: &str) {
    match parse(text, &FIELDS) {
        Ok(filter) => assert_eq!(outline(&filter), expected, "{text}"),
        Err(error) => panic!("{text}: {error}"),
    }
}

#[track_caller]
fn assert_fails(text: &str, expected: &str) {
    match parse(text, &FIELDS) {
        Ok(filter) => panic!("{text}: {}", outline(&filter)),
        Err(error) => assert_eq!(error.to_string(), expected, "{text}"),
    }
}

#[track_caller]
fn admits_absent(text: &str) -> bool {
    match parse(text, &FIELDS) {
        Ok(Filter::Comparison { test, .. }) => test.admits_absent(),
        other => panic!("{text}: {other:?}"),
    }
}

const FIELD_ADVICE: &str = "filterable are `status`, `verified`, `reference_id`, `created_at`, `project_id`, `and`";
const STATUS_ADVICE: &str = "allowed are `ACCEPTED`, `PENDING`, `COMPLETED`, `EXPIRED`, `ERROR`";
const OPERATOR_ADVICE: &str = "operators are `==`, `!=`, `=gt=`, `=ge=`, `=lt=`, `=le=`, `=in=`, `=out=`";
const INSTANT_ADVICE: &str = "give an RFC 3339 date-time such as `2026-01-31T09:30:00Z`";
const CONNECTIVE_ADVICE: &str = "a value with spaces or reserved characters needs quotes";

#[test]
fn all_operator_spellings_are_parsed() {
    assert_parses("status==ERROR", "(status one-of [ERROR])");
    assert_parses("status!=ERROR", "(status none-of [ERROR])");
    assert_parses("status=in=(ERROR,EXPIRED)", "(status one-of [ERROR|EXPIRED])");
    assert_parses("status=out=(ERROR,EXPIRED)", "(status none-of [ERROR|EXPIRED])");
    assert_parses("verified==true", "(verified one-of [true])");
    assert_parses("verified=out=(true,false)", "(verified none-of [true|false])");
    for (spellings, expected) in [
        (["=lt=", "<"], "before"),
        (["=le=", "<="], "not-after"),
        (["=gt=", ">"], "after"),
        (["=ge=", ">="], "not-before"),
    ] {
        for operator in spellings {
            let instant = "2026-01-31T09:30:00Z";
            assert_parses(&format!("created_at{operator}{instant}"), &format!("(created_at {expected} {instant})"));
        }
    }
}

#[test]
fn text_is_ordered() {
    for (spellings, expected) in [
        (["=lt=", "<"], "before"),
        (["=le=", "<="], "not-after"),
        (["=gt=", ">"], "after"),
        (["=ge=", ">="], "not-before"),
    ] {
        for operator in spellings {
            assert_parses(&format!("reference_id{operator}b*"), &format!("(reference_id {expected} b*)"));
            assert!(!admits_absent(&format!("reference_id{operator}b")), "{operator}");
        }
    }
    assert_fails("reference_id=gt=(a,b)", "`=gt=` takes one value at column 13; for a list use `=in=` or `=out=`");
}

/// Keywords are ordered by code point: `EXPIRED` is after `ERROR`, and lower case is after upper case.
#[test]
fn ordered_keywords_are_a_part_of_the_set() {
    assert_parses("status=gt=ERROR", "(status one-of [PENDING|EXPIRED])");
    assert_parses("status>=ERROR", "(status one-of [PENDING|EXPIRED|ERROR])");
    assert_parses("status=lt=C", "(status one-of [ACCEPTED])");
    assert_parses("status<=COMPLETED", "(status one-of [ACCEPTED|COMPLETED])");
    assert_parses("status>a", "(status one-of [])");
}

#[test]
fn and_binds_tighter_than_or() {
    let (a, b, c) = ("(status one-of [ERROR])", "(verified one-of [true])", "(reference_id one-of [x])");
    assert_parses("status==ERROR;verified==true;reference_id==x", &format!("(and {a} {b} {c})"));
    assert_parses("status==ERROR,verified==true,reference_id==x", &format!("(or {a} {b} {c})"));
    assert_parses("status==ERROR,verified==true;reference_id==x", &format!("(or {a} (and {b} {c}))"));
    assert_parses("status==ERROR;verified==true,reference_id==x", &format!("(or (and {a} {b}) {c})"));
    assert_parses("status==ERROR;(verified==true,reference_id==x)", &format!("(and {a} (or {b} {c}))"));
    assert_parses("status==ERROR and verified==true or reference_id==x", &format!("(or (and {a} {b}) {c})"));
    assert_parses("((status==ERROR));(verified==true)", &format!("(and {a} {b})"));
    assert_parses(" ( status == ERROR )\tand ( verified == true ) ", &format!("(and {a} {b})"));
}

#[test]
fn connectives_are_accepted_as_values() {
    assert_parses("reference_id==and", "(reference_id one-of [and])");
    assert_parses("reference_id==or or and==or", "(or (reference_id one-of [or]) (and one-of [or]))");
    assert_parses("reference_id==android", "(reference_id one-of [android])");
    assert_parses("reference_id==a and and==b", "(and (reference_id one-of [a]) (and one-of [b]))");
}

#[test]
fn quotes_and_escapes_are_parsed() {
    assert_parses(r#"reference_id=="two words""#, "(reference_id one-of [two words])");
    assert_parses(r"reference_id=='two words'", "(reference_id one-of [two words])");
    assert_parses(
        r#"reference_id=="it's";status=="ERROR""#,
        "(and (reference_id one-of [it's]) (status one-of [ERROR]))",
    );
    assert_parses(r"reference_id=='it\'s'", "(reference_id one-of [it's])");
    assert_parses(r#"reference_id=="a\"b\\c\d""#, r#"(reference_id one-of [a"b\cd])"#);
    assert_parses(r#"reference_id=="""#, "(reference_id one-of [])");
    assert_parses(r#"reference_id=="a;b,(c)==d and e""#, "(reference_id one-of [a;b,(c)==d and e])");
    assert_parses(r#"verified=="true""#, "(verified one-of [true])");
    assert_parses(r#"created_at=ge="2026-01-31T09:30:00Z""#, "(created_at not-before 2026-01-31T09:30:00Z)");
    // Outside quotes a backslash is an ordinary character.
    assert_parses(r"reference_id==a\b", r"(reference_id one-of [a\b])");
    assert_parses(r"reference_id==a\*", r"(reference_id matches <a\>...)");
    assert_parses("reference_id==zażółć🐝", "(reference_id one-of [zażółć🐝])");
    assert_parses("reference_id==\u{a0}", "(reference_id one-of [\u{a0}])");
    assert_parses("reference_id==\"line\nbreak\"", "(reference_id one-of [line\nbreak])");
}

#[test]
fn wildcards_split_patterns() {
    assert_parses("reference_id==order-*", "(reference_id matches <order->...)");
    assert_parses("reference_id!=*-test", "(reference_id differs-from ...<-test>)");
    assert_parses("reference_id==*a**b*", "(reference_id matches ...<a>...<b>...)");
    assert_parses("reference_id==*", "(reference_id matches ...)");
    assert_parses(r#"reference_id=="two words*""#, "(reference_id matches <two words>...)");
    assert_parses(r#"reference_id=="\*""#, "(reference_id one-of [*])");
    assert_parses(r#"reference_id=="5\*5*é*""#, "(reference_id matches <5*5>...<é>...)");
    // `=in=` and `=out=` have no wildcards: a star in their values is an ordinary character.
    assert_parses("reference_id=in=(a*,b)", "(reference_id one-of [a*|b])");
    assert_parses("reference_id=out=a*", "(reference_id none-of [a*])");
}

#[test]
fn sql_wildcards_are_ordinary_characters() {
    assert_parses("reference_id==%_*", "(reference_id matches <%_>...)");
    assert_parses("reference_id==%25_*", "(reference_id matches <%25_>...)");
    assert_parses("reference_id==%_", "(reference_id one-of [%_])");
    assert_fails("status==COMPLETED' OR 1=1--", "unclosed quote at column 18");
    assert_parses(r#"reference_id=="COMPLETED' OR 1=1--""#, "(reference_id one-of [COMPLETED' OR 1=1--])");
    assert_fails(
        "status==\"COMPLETED' OR 1=1--\"",
        &format!("invalid value for `status` at column 9; {STATUS_ADVICE}"),
    );
}

#[test]
fn instants_require_an_offset() {
    for (given, expected) in [
        ("2026-01-31T09:30:00Z", "2026-01-31T09:30:00Z"),
        ("2026-01-31t09:30:00z", "2026-01-31T09:30:00Z"),
        ("2026-01-31T09:30:00.123Z", "2026-01-31T09:30:00.123Z"),
        ("2026-01-31T09:30:00.123456789+01:00", "2026-01-31T08:30:00.123456789Z"),
        ("2026-01-31T09:30:00-08:00", "2026-01-31T17:30:00Z"),
        ("2026-01-31T09:30:00-00:00", "2026-01-31T09:30:00Z"),
        ("0000-01-01T00:00:00Z", "0000-01-01T00:00:00Z"),
        ("9999-12-31T23:59:59-23:59", "9999-12-30T22:00:00Z"),
    ] {
        assert_parses(&format!("created_at=gt={given}"), &format!("(created_at after {expected})"));
        assert_parses(&format!("created_at=in=({given})"), &format!("(created_at one-of [{expected}])"));
    }
    for given in [
        "yesterday",
        "2026-01-31",
        "2026-01-31T09:30Z",
        "2026-01-31T09:30:00",
        "2026-01-31T09:30:00.Z",
        "2026-01-31T09:30:00.+01:00",
        "2026-01-31T09:30:00,5Z",
        "20260131T093000Z",
        "2026-W05-6T09:30:00Z",
        "2026-02-30T09:30:00Z",
        "2026-01-31T24:00:00Z",
        "2026-01-31T09:30:00+0100",
        "2026-01-31T09:30:00+99:00",
        "2026-01-31T09:30:00Z[UTC]",
        "2026-01-31 09:30:00Z",
        "2026-01-31T09:30:00+24:00",
        "\u{664}026-01-31T09:30:00Z",
        "",
    ] {
        assert_fails(
            &format!("created_at=gt=\"{given}\""),
            &format!("invalid value for `created_at` at column 15; {INSTANT_ADVICE}"),
        );
    }
}

#[test]
fn decoded_plus_gets_a_hint() {
    let hint = |column| format!("the date-time has a space instead of `+` at column {column}; send it as `%2B`");
    assert_fails("created_at=gt=2026-01-31T09:30:00 01:00", &hint(15));
    assert_fails("created_at=gt=2026-01-31T09:30:00.5 01:00;status==ERROR", &hint(15));
    assert_fails("created_at=gt=\"2026-01-31T09:30:00 01:00\"", &hint(15));
    assert_fails("created_at=in=(2026-01-31T09:30:00Z,2026-01-31T09:30:00 01:00)", &hint(37));
    assert_fails(
        "created_at=gt=yesterday 01:00",
        &format!("invalid value for `created_at` at column 15; {INSTANT_ADVICE}"),
    );
}

#[test]
fn identifiers_are_hyphenated_uuids_in_either_case() {
    let id = "0199f1a2-b3c4-7d5e-8f90-a1b2c3d4e5f6";
    assert_parses(&format!("project_id=={id}"), &format!("(project_id one-of [{id}])"));
    assert_parses(&format!("project_id!={}", id.to_uppercase()), &format!("(project_id none-of [{id}])"));
    for given in ["not-a-uuid", "0199f1a2b3c47d5e8f90a1b2c3d4e5f6", "{0199f1a2-b3c4-7d5e-8f90-a1b2c3d4e5f6}"] {
        assert_fails(&format!("project_id=={given}"), "invalid value for `project_id` at column 13; give a UUID");
    }
}

#[test]
fn syntax_errors_have_columns() {
    assert_fails("", "expected a comparison at column 1");
    assert_fails(" \t ", "expected a comparison at column 1");
    assert_fails("status", "expected an operator at column 7");
    assert_fails("status==", "expected a value at column 9");
    assert_fails("status== ", "expected a value at column 9");
    assert_fails("==x", "expected a comparison at column 1");
    assert_fails("\"status\"==ERROR", "expected a comparison at column 1");
    assert_fails("status==ERROR;", "expected a comparison at column 15");
    assert_fails("status==ERROR,", "expected a comparison at column 15");
    assert_fails("status==ERROR;;verified==true", "expected a comparison at column 15");
    assert_fails("status==ERROR or", "expected a comparison at column 17");
    assert_fails("status=in=()", "expected a value at column 12");
    assert_fails("status=in=(ERROR,)", "expected a value at column 18");
    assert_fails("status=in=(ERROR", "unclosed `(` at column 11");
    assert_fails("status=in=(ERROR;EXPIRED)", "expected `,` or `)` at column 17");
    assert_fails("status=in=(ERROR or EXPIRED)", "expected `,` or `)` at column 18");
    assert_fails("(status==ERROR", "unclosed `(` at column 1");
    assert_fails("(status==ERROR;(verified==true)", "unclosed `(` at column 1");
    assert_fails("()", "expected a comparison at column 2");
    assert_fails("status==ERROR)", &format!("expected `;`, `,` or the end at column 14; {CONNECTIVE_ADVICE}"));
    assert_fails(
        "(status==ERROR verified==true)",
        &format!("expected `;`, `,` or `)` at column 16; {CONNECTIVE_ADVICE}"),
    );
    assert_fails("reference_id==two words", &format!("expected `;`, `,` or the end at column 19; {CONNECTIVE_ADVICE}"));
    assert_fails(
        "status==ERROR AND verified==true",
        &format!("expected `;`, `,` or the end at column 15; {CONNECTIVE_ADVICE}"),
    );
    assert_fails("status==\"ERROR", "unclosed quote at column 9");
    assert_fails("status=='ERROR\"", "unclosed quote at column 9");
    assert_fails(r"reference_id=='\'", "unclosed quote at column 15");
    assert_fails("reference_id==a\0b", "a NUL character cannot be searched for at column 16");
    assert_fails("reference_id==🐝é;status==", "expected a value at column 26");
}

#[test]
fn unknown_operators_are_quoted() {
    assert_fails("status===ERROR", &format!("`=` is not an operator at column 9; {OPERATOR_ADVICE}"));
    for (text, operator) in [
        ("status=ERROR", "="),
        ("status=like=ERROR", "=like="),
        ("status=GT=ERROR", "=GT="),
        ("status~ERROR", "~"),
        ("status!ERROR", "!"),
        ("status=", "="),
    ] {
        assert_fails(text, &format!("`{operator}` is not an operator at column 7; {OPERATOR_ADVICE}"));
    }
}

#[test]
fn unknown_fields_are_rejected() {
    assert_fails(
        "phone_number==+447700900123",
        &format!("`phone_number` is not a filterable field at column 1; {FIELD_ADVICE}"),
    );
    assert_fails("STATUS==ERROR", &format!("`STATUS` is not a filterable field at column 1; {FIELD_ADVICE}"));
    assert_fails("status==ERROR;x==y", &format!("`x` is not a filterable field at column 15; {FIELD_ADVICE}"));
    // Error messages do not repeat text that may be a phone number, or special characters.
    assert_fails("+447700900123==x", &format!("this is not a filterable field at column 1; {FIELD_ADVICE}"));
    assert_fails("a\u{1b}[31m==x", &format!("this is not a filterable field at column 1; {FIELD_ADVICE}"));
    let long = "x".repeat(1_000);
    assert_fails(
        &format!("{long}==x"),
        &format!("`{}…` is not a filterable field at column 1; {FIELD_ADVICE}", &long[..40]),
    );
}

#[test]
fn operators_and_values_must_match_the_field_kind() {
    let use_instead = "use `==`, `!=`, `=in=` or `=out=`";
    assert_fails("verified<=true", &format!("`=le=` does not apply to `verified` at column 9; {use_instead}"));
    assert_fails("project_id=ge=x", &format!("`=ge=` does not apply to `project_id` at column 11; {use_instead}"));
    assert_fails("status==FOO", &format!("invalid value for `status` at column 9; {STATUS_ADVICE}"));
    assert_fails("status==completed", &format!("invalid value for `status` at column 9; {STATUS_ADVICE}"));
    assert_fails("status==COMP*", &format!("invalid value for `status` at column 9; {STATUS_ADVICE}"));
    assert_fails("status=in=(ERROR,FOO)", &format!("invalid value for `status` at column 18; {STATUS_ADVICE}"));
    assert_fails("verified==maybe", "invalid value for `verified` at column 11; allowed are `true`, `false`");
    assert_fails("verified==TRUE", "invalid value for `verified` at column 11; allowed are `true`, `false`");
    assert_fails("created_at=gt=yesterday", &format!("invalid value for `created_at` at column 15; {INSTANT_ADVICE}"));
}

#[test]
fn multiple_values_require_a_list_operator() {
    let one =
        |operator, column| format!("`{operator}` takes one value at column {column}; for a list use `=in=` or `=out=`");
    assert_fails("status==(ERROR,EXPIRED)", &one("==", 7));
    assert_fails("reference_id!=(a,b)", &one("!=", 13));
    assert_fails("created_at>(2026-01-31T09:30:00Z,2026-01-31T09:30:00Z)", &one("=gt=", 11));
    // The grammar allows parentheses around a single value for every operator.
    assert_parses("status==(ERROR)", "(status one-of [ERROR])");
    assert_parses("status=in=ERROR", "(status one-of [ERROR])");
}

#[test]
fn only_negated_tests_match_absent_fields() {
    for text in ["reference_id!=a", "reference_id!=a*", "reference_id=out=(a,b)", "status!=ERROR", "verified!=true"] {
        assert!(admits_absent(text), "{text}");
    }
    assert!(admits_absent("created_at!=2026-01-31T09:30:00Z"));
    for text in ["reference_id==a", "reference_id==a*", "reference_id=in=(a,b)", "status==ERROR", "verified==true"] {
        assert!(!admits_absent(text), "{text}");
    }
    for operator in ["==", "<", "<=", ">", ">="] {
        assert!(!admits_absent(&format!("created_at{operator}2026-01-31T09:30:00Z")), "{operator}");
    }
}

#[test]
fn limits_are_exact() {
    let nested = |depth: usize| format!("{}status==ERROR{}", "(".repeat(depth), ")".repeat(depth));
    assert_parses(&nested(MAX_DEPTH), "(status one-of [ERROR])");
    assert_fails(&nested(MAX_DEPTH + 1), "parentheses nest deeper than 16 at column 17");
    // The depth counts only parentheses that are open at the same time.
    assert!(parse(&["(status==ERROR)"; 20].join(","), &FIELDS).is_ok());

    let repeated = |count: usize| vec!["status==ERROR"; count].join(",");
    assert!(parse(&repeated(MAX_COMPARISONS), &FIELDS).is_ok());
    assert_fails(&repeated(MAX_COMPARISONS + 1), "more than 50 comparisons at column 701");

    let list = |count: usize| format!("reference_id=in=({})", vec!["x"; count].join(","));
    assert!(parse(&list(MAX_LIST_ITEMS), &FIELDS).is_ok());
    assert_fails(&list(MAX_LIST_ITEMS + 1), "more than 100 values in a list at column 218");

    let sized = |bytes: usize| format!("reference_id=={}", "x".repeat(bytes - "reference_id==".len()));
    assert!(parse(&sized(MAX_BYTES), &FIELDS).is_ok());
    assert_fails(&sized(MAX_BYTES + 1), "more than 2048 bytes at column 2049");
    assert_fails(&"é".repeat(MAX_BYTES), "more than 2048 bytes at column 1025");
}

#[test]
fn hostile_input_is_rejected() {
    let nested = "(".repeat(1_000);
    assert_fails(&nested, "parentheses nest deeper than 16 at column 17");
    assert_fails(
        &format!("{nested}status==ERROR{}", ")".repeat(1_000)),
        "parentheses nest deeper than 16 at column 17",
    );
    assert_fails(&format!("status==ERROR{}", ",status==ERROR".repeat(10_000)), "more than 2048 bytes at column 2049");
    assert_fails(&"(".repeat(10_000_000), "more than 2048 bytes at column 2049");
    let backslashes = "\\".repeat(2_000);
    assert_fails(&backslashes, &format!("this is not a filterable field at column 1; {FIELD_ADVICE}"));
    assert_fails(&format!("reference_id==\"{backslashes}"), "unclosed quote at column 15");
    assert_fails(
        &format!("status=={backslashes}"),
        &format!("invalid value for `status` at column 9; {STATUS_ADVICE}"),
    );
    assert_fails(&format!("status{}", "=".repeat(2_000)), "expected a value at column 9");
    assert_fails(
        &format!("status={}=", "x".repeat(2_000)),
        &format!("`={}…` is not an operator at column 7; {OPERATOR_ADVICE}", "x".repeat(39)),
    );
    assert_fails(&",".repeat(2_000), "expected a comparison at column 1");
}

#[test]
fn output_of_query_builders_is_accepted() {
    for (text, expected) in [
        (r#"status=="COMPLETED";verified==true"#, "(and (status one-of [COMPLETED]) (verified one-of [true]))"),
        (r#"status=in=("ERROR","EXPIRED")"#, "(status one-of [ERROR|EXPIRED])"),
        ("status=out=(ERROR,EXPIRED)", "(status none-of [ERROR|EXPIRED])"),
        ("created_at=ge=2026-01-31T09:30:00.000Z", "(created_at not-before 2026-01-31T09:30:00Z)"),
        (r#"created_at>="2026-01-31T09:30:00.000Z""#, "(created_at not-before 2026-01-31T09:30:00Z)"),
        (
            "(status==ERROR or verified==false) and reference_id==*-eu",
            "(and (or (status one-of [ERROR]) (verified one-of [false])) (reference_id matches ...<-eu>))",
        ),
        (r#"reference_id=='say "hi"'"#, r#"(reference_id one-of [say "hi"])"#),
        (r#"reference_id=="say \"it's\"""#, r#"(reference_id one-of [say "it's"])"#),
        (r#"reference_id=="C:\\temp""#, r"(reference_id one-of [C:\temp])"),
        ("reference_id=in=(300,order-*,\"order 301\")", "(reference_id one-of [300|order-*|order 301])"),
        (r#"reference_id=="""#, "(reference_id one-of [])"),
        ("reference_id==0.15", "(reference_id one-of [0.15])"),
        ("reference_id==«o@1»", "(reference_id one-of [«o@1»])"),
    ] {
        assert_parses(text, expected);
    }
}
