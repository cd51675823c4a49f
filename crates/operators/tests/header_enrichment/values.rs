use aws_lc_rs::{
    cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey},
    hmac,
    iv::FixedLength,
};
use proptest::prelude::*;
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

fn encrypt_and_sign(text: &str, iv: [u8; 16]) -> String {
    let filling = [b' '; 16];
    let mut block = [text.as_bytes(), &filling[text.len() % 16..]].concat();
    let key = EncryptingKey::cbc(UnboundCipherKey::new(&AES_256, &[7; 32]).unwrap()).unwrap();
    key.less_safe_encrypt(&mut block, EncryptionContext::Iv128(FixedLength::from(iv))).unwrap();
    let signed = [&iv[..], &block].concat();
    let tag = hmac::sign(&hmac::Key::new(hmac::HMAC_SHA256, &[8; 32]), &signed);
    tag.as_ref().iter().chain(&signed).flat_map(|byte| [byte >> 4, byte & 0xf]).map(hex_digit).collect()
}

fn hex_digit(digit: u8) -> char {
    char::from_digit(u32::from(digit), 16).unwrap()
}

fn encrypted() -> HeaderEnrichmentConfig {
    let cipher = Cipher::aes256_cbc_hmac_sha256(vec![7; 32].into(), vec![8; 32].into()).unwrap();
    HeaderEnrichmentConfig { encoding: Encoding::Hex, cipher, ..config() }
}

proptest! {
    #[test]
    fn number_round_trips(national in "7[1-9][0-9]{8}", iv in any::<[u8; 16]>()) {
        let digits = format!("44{national}");
        let expected = Ok(format!("+{digits}"));
        prop_assert_eq!(RoundTrip::with_value(&digits).found_number(config()), expected.clone());
        prop_assert_eq!(RoundTrip::with_value(&encrypt_and_sign(&digits, iv)).found_number(encrypted()), expected);
    }

    #[test]
    fn arbitrary_values_do_not_panic(value in proptest::collection::vec(any::<u8>(), 0..120), hex in "[0-9a-f]{0,260}") {
        let ciphers = [Encoding::Plain, Encoding::Hex, Encoding::Base64].map(|encoding| {
            HeaderEnrichmentConfig { encoding, ..config() }
        });
        for config in ciphers.into_iter().chain([encrypted()]) {
            let _ = RoundTrip::with(&[("x-msisdn", &value)]).found_number(config.clone());
            let _ = RoundTrip::with_value(&hex).found_number(config);
        }
    }

    #[test]
    fn unsigned_values_are_rejected(hex in "([0-9a-f]{32}){4,8}") {
        prop_assert_eq!(RoundTrip::with_value(&hex).found_number(encrypted()), Err(ErrorCode::MnoResponseError));
    }

    #[test]
    fn pattern_finds_digits_or_nothing(text in "\\PC{0,40}", digits in "[1-9][0-9]{6,14}") {
        let format = ValueFormat::Pattern("n={number};".parse().unwrap());
        let config = || HeaderEnrichmentConfig { format: format.clone(), ..config() };
        let _ = RoundTrip::with_value(&text).found_number(config());
        if let Ok(found_number) = RoundTrip::with_value(&format!("n={digits};")).found_number(config()) {
            prop_assert_eq!(found_number, format!("+{digits}"));
        }
    }
}
