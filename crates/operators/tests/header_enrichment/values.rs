use ringtrue_operators::header_enrichment::{BadPattern, Pattern};

use super::*;

fn reads(config: impl Fn() -> HeaderEnrichmentConfig, cases: &[(&str, Result<&str, ErrorCode>)]) {
    for (value, expected) in cases {
        let found = Trip::bringing(value).found(config());
        assert_eq!(found.as_deref().map_err(Clone::clone), expected.clone(), "{value}");
    }
}

const SENSELESS: Result<&str, ErrorCode> = Err(ErrorCode::MnoResponseError);

#[test]
fn digits_with_the_country_code() {
    reads(
        config,
        &[
            ("447700900123", Ok(NUMBER)),
            ("+447700900123", Ok(NUMBER)),
            ("00447700900123", Ok(NUMBER)),
            ("07700900123", SENSELESS),
            ("4477009001234567", SENSELESS),
            ("44 7700 900123", SENSELESS),
            ("447700900123;x", SENSELESS),
            ("tel:447700900123", SENSELESS),
            ("９９", SENSELESS),
            ("990447700900123", SENSELESS),
        ],
    );
}

#[test]
fn stand_ins_are_not_numbers() {
    reads(
        config,
        &[
            ("99999999999", SENSELESS),
            ("0000000000", SENSELESS),
            ("unknown", SENSELESS),
            ("447000000001", SENSELESS),
            ("+447000000001", SENSELESS),
            ("447000000002", Ok("+447000000002")),
        ],
    );
}

#[test]
fn national_numbers() {
    let config = || HeaderEnrichmentConfig { format: ValueFormat::National("GB".parse().unwrap()), ..config() };
    reads(
        config,
        &[
            ("07700900123", Ok(NUMBER)),
            ("7700900123", Ok(NUMBER)),
            ("+447700900123", Ok(NUMBER)),
            ("123", SENSELESS),
            ("x", SENSELESS),
        ],
    );
}

#[test]
fn a_number_among_other_things() {
    let config = |pattern: &'static str| {
        move || HeaderEnrichmentConfig { format: ValueFormat::Pattern(pattern.parse().unwrap()), ..config() }
    };
    reads(
        config("msisdn={number};"),
        &[
            ("IP=192.0.2.7;msisdn=447700900123;imsi=234100000000001", Ok(NUMBER)),
            ("msisdn=+447700900123;", Ok(NUMBER)),
            ("msisdn=447700900123;msisdn=447700900123;", Ok(NUMBER)),
            ("msisdn=447700900123;msisdn=447700900124;", SENSELESS),
            ("msisdn=447700900123", SENSELESS),
            ("msisdn=;", SENSELESS),
            ("msisdn=x;", SENSELESS),
            ("imsi=234100000000001", SENSELESS),
        ],
    );
    reads(config("tel:+{number}"), &[("tel:+447700900123", Ok(NUMBER)), ("tel:447700900123", SENSELESS)]);
    reads(
        config("{number}@example.net"),
        &[
            ("447700900123@example.net", Ok(NUMBER)),
            ("<+447700900123@example.net>", Ok(NUMBER)),
            ("447700900123@example.org", SENSELESS),
        ],
    );
}

#[test]
fn a_pattern_has_one_place_for_a_number() {
    for bad in ["", "msisdn=", "{number}", "4{number}", "{number}0", "{number}-{number}"] {
        assert_eq!(bad.parse::<Pattern>(), Err(BadPattern), "{bad}");
    }
}

#[test]
fn encodings() {
    let config = |encoding| move || HeaderEnrichmentConfig { encoding, ..config() };
    reads(
        config(Encoding::Hex),
        &[
            ("343437373030393030313233", Ok(NUMBER)),
            ("2B343437373030393030313233", Ok(NUMBER)),
            ("34343737303039303031323", SENSELESS),
            ("447700900123", SENSELESS),
            ("zz", SENSELESS),
        ],
    );
    reads(
        config(Encoding::Base64),
        &[
            ("NDQ3NzAwOTAwMTIz", Ok(NUMBER)),
            ("KzQ0NzcwMDkwMDEyMw==", Ok(NUMBER)),
            ("KzQ0NzcwMDkwMDEyMw", Ok(NUMBER)),
            ("_-", SENSELESS),
            ("!", SENSELESS),
        ],
    );
}
