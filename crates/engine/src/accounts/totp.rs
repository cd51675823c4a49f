//! Time-based one-time passwords (RFC 6238) with the parameters that every authenticator app supports: SHA-1, six
//! digits, 30 seconds.

use aws_lc_rs::{constant_time::verify_slices_are_equal, hmac};
use jiff::Timestamp;

pub(super) const SECRET_BYTES: usize = 20;
const STEP_SECONDS: i64 = 30;
const DIGITS: usize = 6;
/// Number of time steps before and after the current one whose codes are accepted, because clocks differ and typing
/// takes time.
const SKEW_STEPS: i64 = 1;

/// Returns the time step of a code. `None`: the code is wrong, or its step is too far from `now`.
pub(super) fn find_step(secret: &[u8], code: &str, now: Timestamp) -> Option<i64> {
    let current = now.as_second().div_euclid(STEP_SECONDS);
    let is_match =
        |step: &i64| verify_slices_are_equal(code_of_step(secret, *step).as_bytes(), code.as_bytes()).is_ok();
    (current - SKEW_STEPS..=current + SKEW_STEPS).find(is_match)
}

/// Computes the code of a time step: the truncated HMAC of its number (RFC 4226, section 5.3).
fn code_of_step(secret: &[u8], step: i64) -> String {
    let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, secret);
    let tag = hmac::sign(&key, &step.to_be_bytes());
    let bytes = tag.as_ref();
    let offset = usize::from(bytes.last().copied().unwrap_or_default() & 0xf);
    let word = bytes.get(offset..offset + 4).and_then(|word| word.try_into().ok()).map_or(0, u32::from_be_bytes);
    format!("{:0DIGITS$}", (word & 0x7fff_ffff) % 10_u32.pow(6))
}

/// Encodes in Base32 (RFC 4648) without padding, the format in which authenticator apps expect secrets.
pub(super) fn base32(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 32] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567";
    let encode_chunk = |chunk: &[u8]| -> String {
        let byte = |index: usize| u64::from(chunk.get(index).copied().unwrap_or(0));
        let word = (0..5).fold(0, |word, index| (word << 8) | byte(index));
        let symbol = |index| ALPHABET[usize::try_from((word >> (35 - 5 * index)) & 31).unwrap_or(0)];
        (0..(chunk.len() * 8).div_ceil(5)).map(|index| char::from(symbol(index))).collect()
    };
    bytes.chunks(5).map(encode_chunk).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    const SECRET: &[u8] = b"12345678901234567890";

    #[test]
    fn codes_match_rfc_6238() {
        // RFC 6238, appendix B, which has codes of eight digits. These are their last six digits.
        for (second, code) in [
            (59, "287082"),
            (1_111_111_109, "081804"),
            (1_111_111_111, "050471"),
            (1_234_567_890, "005924"),
            (2_000_000_000, "279037"),
            (20_000_000_000, "353130"),
        ] {
            assert_eq!(code_of_step(SECRET, second / STEP_SECONDS), code, "{second}");
        }
    }

    #[test]
    fn codes_of_adjacent_steps_are_accepted() {
        let code = code_of_step(SECRET, 100);
        for (second, step) in [(2_969, None), (2_970, Some(100)), (3_000, Some(100)), (3_059, Some(100)), (3_060, None)]
        {
            assert_eq!(find_step(SECRET, &code, Timestamp::from_second(second).unwrap()), step, "{second}");
        }
        for wrong in ["", "1", "12345", "1234567", "abcdef"] {
            assert_eq!(find_step(SECRET, wrong, Timestamp::from_second(3_000).unwrap()), None, "{wrong}");
        }
    }

    #[test]
    fn base32_matches_rfc_4648() {
        for (plain, encoded) in [
            ("", ""),
            ("f", "MY"),
            ("fo", "MZXQ"),
            ("foo", "MZXW6"),
            ("foob", "MZXW6YQ"),
            ("fooba", "MZXW6YTB"),
            ("foobar", "MZXW6YTBOI"),
        ] {
            assert_eq!(base32(plain.as_bytes()), encoded);
        }
    }
}
