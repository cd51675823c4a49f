use aws_lc_rs::{
    cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey},
    hmac,
    iv::FixedLength,
};
use proptest::prelude::*;

use super::*;

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
