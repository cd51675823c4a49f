use ringtrue_operators::header_enrichment::{InvalidNumberPattern, NumberPattern};

use super::*;

fn assert_parsed(config: impl Fn() -> HeaderEnrichmentConfig, cases: &[(&str, Result<&str, ErrorCode>)]) {
    for (value, expected) in cases {
        let found_number = RoundTrip::with_value(value).found_number(config());
        assert_eq!(found_number.as_deref().map_err(Clone::clone), expected.clone(), "{value}");
    }
}

const INVALID: Result<&str, ErrorCode> = Err(ErrorCode::MnoResponseError);

#[test]
fn e164_digits_are_parsed() {
    assert_parsed(
        config,
        &[
            ("447700900123", Ok(NUMBER)),
            ("+447700900123", Ok(NUMBER)),
            ("00447700900123", Ok(NUMBER)),
            ("07700900123", INVALID),
            ("4477009001234567", INVALID),
            ("44 7700 900123", INVALID),
            ("447700900123;x", INVALID),
            ("tel:447700900123", INVALID),
            ("９９", INVALID),
            ("990447700900123", INVALID),
        ],
    );
}

#[test]
fn placeholders_are_rejected() {
    assert_parsed(
        config,
        &[
            ("99999999999", INVALID),
            ("0000000000", INVALID),
            ("unknown", INVALID),
            ("447000000001", INVALID),
            ("+447000000001", INVALID),
            ("447000000002", Ok("+447000000002")),
        ],
    );
}

#[test]
fn national_numbers_are_parsed() {
    let config = || HeaderEnrichmentConfig { format: ValueFormat::National("GB".parse().unwrap()), ..config() };
    assert_parsed(
        config,
        &[
            ("07700900123", Ok(NUMBER)),
            ("7700900123", Ok(NUMBER)),
            ("+447700900123", Ok(NUMBER)),
            ("123", INVALID),
            ("x", INVALID),
        ],
    );
}

#[test]
fn pattern_extracts_the_number() {
    let config = |pattern: &'static str| {
        move || HeaderEnrichmentConfig { format: ValueFormat::Pattern(pattern.parse().unwrap()), ..config() }
    };
    assert_parsed(
        config("msisdn={number};"),
        &[
            ("IP=192.0.2.7;msisdn=447700900123;imsi=234100000000001", Ok(NUMBER)),
            ("msisdn=+447700900123;", Ok(NUMBER)),
            ("msisdn=447700900123;msisdn=447700900123;", Ok(NUMBER)),
            ("msisdn=447700900123;msisdn=447700900124;", INVALID),
            ("msisdn=447700900123", INVALID),
            ("msisdn=;", INVALID),
            ("msisdn=x;", INVALID),
            ("imsi=234100000000001", INVALID),
        ],
    );
    assert_parsed(config("tel:+{number}"), &[("tel:+447700900123", Ok(NUMBER)), ("tel:447700900123", INVALID)]);
    assert_parsed(
        config("{number}@example.net"),
        &[
            ("447700900123@example.net", Ok(NUMBER)),
            ("<+447700900123@example.net>", Ok(NUMBER)),
            ("447700900123@example.org", INVALID),
        ],
    );
}

#[test]
fn invalid_patterns_are_rejected() {
    for bad in ["", "msisdn=", "{number}", "4{number}", "{number}0", "{number}-{number}"] {
        assert_eq!(bad.parse::<NumberPattern>(), Err(InvalidNumberPattern), "{bad}");
    }
}

#[test]
fn encodings_are_decoded() {
    let config = |encoding| move || HeaderEnrichmentConfig { encoding, ..config() };
    assert_parsed(
        config(Encoding::Hex),
        &[
            ("343437373030393030313233", Ok(NUMBER)),
            ("2B343437373030393030313233", Ok(NUMBER)),
            ("34343737303039303031323", INVALID),
            ("447700900123", INVALID),
            ("zz", INVALID),
        ],
    );
    assert_parsed(
        config(Encoding::Base64),
        &[
            ("NDQ3NzAwOTAwMTIz", Ok(NUMBER)),
            ("KzQ0NzcwMDkwMDEyMw==", Ok(NUMBER)),
            ("KzQ0NzcwMDkwMDEyMw", Ok(NUMBER)),
            ("_-", INVALID),
            ("!", INVALID),
        ],
    );
}
