//! Values that OpenSSL encrypted and signed (3.0, on the command line; GCM by Python's `cryptography`), with keys of
//! the bytes 0, 1, 2 … and 32, 33, 34 …, and an initialisation vector of the bytes 160, 161, 162 …

use ringtrue_operators::header_enrichment::{CipherKey, CipherKeyError, Integrity, IvSource};

use super::*;

const IV: &str = "a0a1a2a3a4a5a6a7a8a9aaabacadaeaf";

fn key(from: u8, length: u8) -> CipherKey {
    (from..from + length).collect::<Vec<u8>>().into()
}

fn encrypted(encoding: Encoding, cipher: Cipher) -> HeaderEnrichmentConfig {
    HeaderEnrichmentConfig { encoding, cipher, ..config() }
}

/// Returns the configuration for gateways of the Magma mobile core: a value consists of the signature, the
/// initialisation vector, and the number padded with spaces.
fn magma() -> HeaderEnrichmentConfig {
    encrypted(Encoding::Hex, Cipher::aes256_cbc_hmac_md5(key(0, 32), key(32, 32)).unwrap())
}

fn sha256() -> HeaderEnrichmentConfig {
    encrypted(Encoding::Hex, Cipher::aes256_cbc_hmac_sha256(key(0, 32), key(32, 32)).unwrap())
}

fn gcm() -> HeaderEnrichmentConfig {
    encrypted(Encoding::Base64, Cipher::aes256_gcm(key(0, 32)).unwrap())
}

fn aes128(iv: IvSource, integrity: Integrity, encoding: Encoding) -> HeaderEnrichmentConfig {
    encrypted(encoding, Cipher::aes128_cbc(key(0, 16), iv, integrity).unwrap())
}

fn fixed() -> IvSource {
    let mut iv = [0; 16];
    for (octet, value) in iv.iter_mut().zip(160..) {
        *octet = value;
    }
    IvSource::Fixed(iv)
}

const MAGMA: &str = "34dd2d661c5b86775c7c5da67f6dbce9a0a1a2a3a4a5a6a7a8a9aaabacadaeaf585a0a53bfb6305a38adf4a82bb8e780";
const SHA256: &str = "cd973789aff7bdda5262fb16b879014b6f1fbcf94bb94577447bfff2f5ab2f5aa0a1a2a3a4a5a6a7a8a9aaabacadaeaf\
                      585a0a53bfb6305a38adf4a82bb8e780";
const SHA256_PKCS7: &str = "5b3a956b032fc417070bf072a5b3d9244c462f4966c3e79c1fd7825303ff19b5\
                            a0a1a2a3a4a5a6a7a8a9aaabacadaeaf2b8c313e37450c79dfea61ccde0ffc14";
const GCM: &str = "oKGio6Slpqeoqaqr0ixLGnX7O49SVLXgNhdOheb++aoRUamKgycxRA==";
const AES128: &str = "6lew7LDc9ehUxXFqAlIQ5Q==";
const AES128_SENT: &str = "oKGio6SlpqeoqaqrrK2ur+pXsOyw3PXoVMVxagJSEOU=";
const AES128_SHA256: &str = "eddfed1402c519a0f4fb69ff10b036b94c06ffc3d43f5e556dbe1f98ca2f39f4\
                             ea57b0ecb0dcf5e854c5716a025210e5";

#[test]
fn openssl_ciphertexts_are_decrypted() {
    let signed = || Integrity::HmacSha256(key(32, 32));
    for (config, value) in [
        (magma(), MAGMA.to_owned()),
        (magma(), MAGMA.to_uppercase()),
        (sha256(), SHA256.to_owned()),
        (sha256(), SHA256_PKCS7.to_owned()),
        (gcm(), GCM.to_owned()),
        (aes128(fixed(), Integrity::Unprotected, Encoding::Base64), AES128.to_owned()),
        (aes128(IvSource::Sent, Integrity::Unprotected, Encoding::Base64), AES128_SENT.to_owned()),
        (aes128(fixed(), signed(), Encoding::Hex), AES128_SHA256.to_owned()),
        (aes128(IvSource::Sent, signed(), Encoding::Hex), AES128_SHA256.replace("ea57", &format!("{IV}ea57"))),
    ] {
        assert_eq!(RoundTrip::with_value(&value).found_number(config).as_deref(), Ok(NUMBER), "{value}");
    }
}

/// The encrypted value is 99999999999, correctly padded and signed.
#[test]
fn encrypted_placeholder_is_rejected() {
    let value = format!("a269eaa92de9108dd8ed0fafd044fd95{IV}ac4e797f5948a243a8e356c89c6d66ee");
    assert_eq!(RoundTrip::with_value(&value).found_number(magma()), Err(ErrorCode::MnoResponseError));
}

#[test]
fn modified_values_are_rejected() {
    for (config, value) in [(magma as fn() -> _, MAGMA), (sha256, SHA256), (sha256, SHA256_PKCS7)] {
        for position in 0..value.len() {
            let other = if value.as_bytes()[position] == b'0' { "1" } else { "0" };
            let changed = format!("{}{other}{}", &value[..position], &value[position + 1..]);
            assert_eq!(
                RoundTrip::with_value(&changed).found_number(config()),
                Err(ErrorCode::MnoResponseError),
                "{changed}"
            );
        }
        for end in (0..value.len()).step_by(2) {
            assert!(RoundTrip::with_value(&value[..end]).found_number(config()).is_err(), "{end}");
        }
    }
    for position in 0..GCM.len() - 3 {
        let other = if GCM.as_bytes()[position] == b'A' { "B" } else { "A" };
        let changed = format!("{}{other}{}", &GCM[..position], &GCM[position + 1..]);
        assert_eq!(RoundTrip::with_value(&changed).found_number(gcm()), Err(ErrorCode::MnoResponseError), "{changed}");
    }
}

#[test]
fn wrong_key_is_rejected() {
    let [other, long] = [key(1, 32), key(33, 32)];
    for (cipher, value) in [
        (Cipher::aes256_cbc_hmac_md5(other.clone(), key(32, 32)).unwrap(), MAGMA),
        (Cipher::aes256_cbc_hmac_md5(key(0, 32), long.clone()).unwrap(), MAGMA),
        (Cipher::aes256_cbc_hmac_sha256(key(0, 32), long).unwrap(), SHA256),
        (Cipher::aes256_cbc_hmac_sha256(key(0, 32), key(32, 32)).unwrap(), MAGMA),
    ] {
        let found_number = RoundTrip::with_value(value).found_number(encrypted(Encoding::Hex, cipher));
        assert_eq!(found_number, Err(ErrorCode::MnoResponseError));
    }
    let found_number =
        RoundTrip::with_value(GCM).found_number(encrypted(Encoding::Base64, Cipher::aes256_gcm(other).unwrap()));
    assert_eq!(found_number, Err(ErrorCode::MnoResponseError));
    // A plain number is invalid where an encrypted one is expected.
    assert_eq!(RoundTrip::with_value("447700900123").found_number(magma()), Err(ErrorCode::MnoResponseError));
}

#[test]
fn keys_are_parsed_from_hex_and_base64_and_masked() {
    let hex = CipherKey::parse("000102030405060708090A0B0C0D0E0F101112131415161718191a1b1c1d1e1f").unwrap();
    let base64 = CipherKey::parse("AAECAwQFBgcICQoLDA0ODxAREhMUFRYXGBkaGxwdHh8=").unwrap();
    for key in [hex, base64] {
        assert_eq!(format!("{key:?}"), "CipherKey(…)");
        let config = encrypted(Encoding::Base64, Cipher::aes256_gcm(key).unwrap());
        assert!(!format!("{config:?}").contains("31"), "{config:?}");
        assert_eq!(RoundTrip::with_value(GCM).found_number(config).as_deref(), Ok(NUMBER));
    }
    for bad in ["", "not a key", "abc", "ü"] {
        assert_eq!(CipherKey::parse(bad).unwrap_err(), CipherKeyError::Encoding, "{bad}");
    }
}

#[test]
fn key_length_is_checked() {
    assert_eq!(Cipher::aes256_gcm(key(0, 16)).unwrap_err(), CipherKeyError::Length(32));
    assert_eq!(Cipher::aes256_cbc_hmac_md5(key(0, 31), key(0, 32)).unwrap_err(), CipherKeyError::Length(32));
    assert_eq!(Cipher::aes256_cbc_hmac_sha256(key(0, 32), key(0, 7)).unwrap_err(), CipherKeyError::SigningKeyTooShort);
    assert_eq!(
        Cipher::aes128_cbc(key(0, 32), IvSource::Sent, Integrity::Unprotected).unwrap_err(),
        CipherKeyError::Length(16)
    );
}
