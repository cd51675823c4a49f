use aws_lc_rs::{
    cipher::{AES_256, EncryptingKey, EncryptionContext, UnboundCipherKey},
    hmac,
    iv::FixedLength,
};
use proptest::prelude::*;

use super::*;

/// What a gateway would send.
fn sealed(text: &str, iv: [u8; 16]) -> String {
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
    fn a_number_arrives_as_it_was_sent(national in "7[1-9][0-9]{8}", iv in any::<[u8; 16]>()) {
        let digits = format!("44{national}");
        let expected = Ok(format!("+{digits}"));
        prop_assert_eq!(Trip::bringing(&digits).found(config()), expected.clone());
        prop_assert_eq!(Trip::bringing(&sealed(&digits, iv)).found(encrypted()), expected);
    }

    #[test]
    fn no_value_makes_it_panic(value in proptest::collection::vec(any::<u8>(), 0..120), hex in "[0-9a-f]{0,260}") {
        let ciphers = [Encoding::Plain, Encoding::Hex, Encoding::Base64].map(|encoding| {
            HeaderEnrichmentConfig { encoding, ..config() }
        });
        for config in ciphers.into_iter().chain([encrypted()]) {
            let _ = Trip::with(&[("x-msisdn", &value)]).found(config.clone());
            let _ = Trip::bringing(&hex).found(config);
        }
    }

    #[test]
    fn what_nobody_signed_is_never_read(hex in "([0-9a-f]{32}){4,8}") {
        prop_assert_eq!(Trip::bringing(&hex).found(encrypted()), Err(ErrorCode::MnoResponseError));
    }

    #[test]
    fn a_pattern_finds_digits_or_nothing(text in "\\PC{0,40}", digits in "[1-9][0-9]{6,14}") {
        let format = ValueFormat::Pattern("n={number};".parse().unwrap());
        let config = || HeaderEnrichmentConfig { format: format.clone(), ..config() };
        let _ = Trip::bringing(&text).found(config());
        if let Ok(found) = Trip::bringing(&format!("n={digits};")).found(config()) {
            prop_assert_eq!(found, format!("+{digits}"));
        }
    }
}
