//! The codes of Reverse SMS, and how they are found in the text of an SMS.
//!
//! End-users retype codes, phones autocorrect them, and mail gateways append signatures. The parser therefore ignores
//! case, spaces, dashes and other text. It reads full-width characters as their plain forms, `O` as zero, and `I` and
//! `L` as one. It returns candidates, and the engine looks up their hashes.

use std::ops::RangeInclusive;

/// The alphabet of Crockford's base 32, which has no I, L, O or U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 10;
/// Length of three full SMS segments. Further text is ignored.
const MAX_TEXT_CHARS: usize = 480;
const MAX_CANDIDATES: usize = 32;

/// A code of ten symbols, which have five random bits each.
#[derive(Clone, Copy, PartialEq, Eq, Hash, derive_more::Debug)]
// Keeps the code out of logs: an SMS with the code concludes the check.
#[debug("Code(…)")]
pub struct SmsCode([u8; LENGTH]);

impl SmsCode {
    pub fn from_random(bytes: [u8; LENGTH]) -> Self {
        SmsCode(bytes.map(|byte| ALPHABET[usize::from(byte % 32)]))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn from_symbols(symbols: &[u8]) -> Option<Self> {
        symbols.try_into().ok().map(SmsCode)
    }
}

/// Finds the distinct substrings of an SMS that may be codes, most likely first.
pub fn find_code_candidates(text: &str) -> Vec<SmsCode> {
    let words = split_words(text);
    let mut found = Vec::new();
    let mut add = |symbols: &[u8]| {
        if let Some(code) = SmsCode::from_symbols(symbols)
            && found.len() < MAX_CANDIDATES
            && !found.contains(&code)
        {
            found.push(code);
        }
    };
    for word in &words {
        add(word);
    }
    // Codes that are written in groups: `7K3Q-X9M2-PD`.
    for start in 0..words.len() {
        let mut joined = Vec::with_capacity(LENGTH);
        for word in &words[start..] {
            if joined.len() + word.len() > LENGTH {
                break;
            }
            joined.extend_from_slice(word);
        }
        add(&joined);
    }
    // Codes that are not separated from the word before or after them.
    for word in words.iter().filter(|word| word.len() > LENGTH) {
        add(&word[word.len() - LENGTH..]);
        add(&word[..LENGTH]);
    }
    found
}

/// Splits a text into runs of symbols that can occur in a code.
fn split_words(text: &str) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    for letter in text.chars().take(MAX_TEXT_CHARS) {
        match (normalize_symbol(letter), words.last_mut()) {
            (Some(symbol), Some(word)) => word.push(symbol),
            _ => words.push(Vec::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn normalize_symbol(letter: char) -> Option<u8> {
    let symbol = match u8::try_from(plain_form(letter)).ok()?.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    };
    ALPHABET.contains(&symbol).then_some(symbol)
}

/// Full-width letters, digits and punctuation, as typed on East Asian keyboards.
const FULL_WIDTH_FORMS: RangeInclusive<char> = '\u{FF01}'..='\u{FF5E}';
/// Distance of full-width characters from their plain forms `!` to `~` in Unicode.
const FULL_WIDTH_OFFSET: u32 = 0xFEE0;
const IDEOGRAPHIC_SPACE: char = '\u{3000}';

/// Returns the plain form of a full-width character (as in Unicode's NFKC). Returns other characters unchanged.
fn plain_form(letter: char) -> char {
    match letter {
        IDEOGRAPHIC_SPACE => ' ',
        _ if FULL_WIDTH_FORMS.contains(&letter) => {
            char::from_u32(u32::from(letter) - FULL_WIDTH_OFFSET).unwrap_or(letter)
        }
        _ => letter,
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODE: &str = "7K3QX9M20D";

    fn contains_code(text: &str) -> bool {
        find_code_candidates(text).iter().any(|code| code.as_str() == CODE)
    }

    #[test]
    fn code_is_found_in_common_spellings() {
        for text in [
            "VERIFY 7K3QX9M20D",
            "verify 7k3qx9m20d",
            "  Verify   7K3QX9M20D  ",
            "VERIFY 7K3QX9M2OD",
            "VERIFY 7K3Q-X9M2-0D",
            "VERIFY 7K3Q X9M2 0D",
            "VERIFY 7K3Q–X9M2–0D",
            "VERIFY\u{a0}7K3QX9M20D",
            "VERIFY7K3QX9M20D",
            "7K3QX9M20D",
            "“VERIFY 7K3QX9M20D”",
            "Re: VERIFY 7K3QX9M20D",
            "VERIFY 7K3QX9M20D\n-- \nSent from my phone",
            "VERIFY 7K3QX9M20D.",
            "my code is 7K3QX9M20D thanks",
            "VERIFY: ‘7K3QX9M20D’ 👍",
            "ＶＥＲＩＦＹ　７Ｋ３ＱＸ９Ｍ２０Ｄ",
            "ｖｅｒｉｆｙ　７ｋ３ｑｘ９ｍ２０ｄ",
            "VERIFY ７Ｋ３ＱＸ９Ｍ２ＯＤ",
            "VERIFY 7K3Q－Ｘ９Ｍ２－0D",
            "「７Ｋ３Ｑ　Ｘ９Ｍ２　０Ｄ」",
            "VERIFY：7K3QX9M20D。",
            "本人確認７Ｋ３ＱＸ９Ｍ２０Ｄ",
        ] {
            assert!(contains_code(text), "{text}");
        }
        assert_eq!(find_code_candidates("O1IL234567")[0].as_str(), "0111234567");
    }

    #[test]
    fn other_text_is_not_a_code() {
        for text in ["", "VERIFY", "VERIFY 7K3QX9M20", "VERIFY 7K3QX9M20E", "７Ｋ３ＱＸ９Ｍ２０Ｅ", "⑦K3QX9M20D", "💥"]
        {
            assert!(!contains_code(text), "{text}");
        }
    }

    #[test]
    fn most_likely_candidate_comes_first() {
        assert_eq!(find_code_candidates("AB CD EF GH JK 7K3QX9M20D")[0].as_str(), CODE);
    }

    proptest! {
        #[test]
        fn candidates_are_limited_for_any_text(text in "\\PC{0,2000}|[A-Z0-9 ]{0,2000}") {
            prop_assert!(find_code_candidates(&text).len() <= MAX_CANDIDATES);
        }

        /// Texts in which plain and full-width characters are mixed in any way.
        #[test]
        fn full_width_forms_are_read_as_plain_ones(text in "[ -~]{0,60}", is_wide: [bool; 60]) {
            let widen = |(letter, is_wide): (char, bool)| match letter {
                _ if !is_wide => letter,
                ' ' => IDEOGRAPHIC_SPACE,
                _ => char::from_u32(u32::from(letter) + FULL_WIDTH_OFFSET).unwrap(),
            };
            let widened: String = text.chars().zip(is_wide).map(widen).collect();
            prop_assert_eq!(find_code_candidates(&widened), find_code_candidates(&text));
            prop_assert_eq!(widened.chars().map(plain_form).collect::<String>(), text);
        }

        #[test]
        fn other_characters_have_no_plain_form(letter: char) {
            let is_wide = FULL_WIDTH_FORMS.contains(&letter) || letter == IDEOGRAPHIC_SPACE;
            prop_assert_eq!(plain_form(letter) != letter, is_wide);
        }

        #[test]
        fn generated_code_is_found_in_its_message(bytes: [u8; LENGTH], prefix in "[A-Z0-9]{1,20}", lower: bool) {
            let code = SmsCode::from_random(bytes);
            let message = format!("{prefix} {}", code.as_str());
            let message = if lower { message.to_lowercase() } else { message };
            prop_assert!(find_code_candidates(&message).contains(&code));
        }
    }
}
