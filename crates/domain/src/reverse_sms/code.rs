//! The code that an end-user sends, and how it is found in what they really sent.
//!
//! People retype codes, phones correct them, mail gateways sign them. So the text is read with patience: case, spaces
//! and dashes do not count, `O` is a zero, `I` and `L` are ones, and what stands before or after the code is passed
//! over. What is found is a handful of candidates; only the one that hashes to an open check's code means anything.

use std::fmt;

/// Crockford's base 32: no I, L, O or U.
const ALPHABET: &[u8; 32] = b"0123456789ABCDEFGHJKMNPQRSTVWXYZ";
const LENGTH: usize = 10;
/// How much of a text is looked at: three full segments.
const MAX_TEXT: usize = 480;
/// How many candidates are tried at most.
const MAX_CANDIDATES: usize = 32;

/// Ten symbols, fifty bits.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Code([u8; LENGTH]);

impl Code {
    /// A code from randomness that the caller brings.
    pub fn from_random(bytes: [u8; LENGTH]) -> Self {
        Code(bytes.map(|byte| ALPHABET[usize::from(byte % 32)]))
    }

    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }

    fn of_symbols(symbols: &[u8]) -> Option<Self> {
        symbols.try_into().ok().map(Code)
    }
}

/// Masked: who knows the code can end the check.
impl fmt::Debug for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Code(…)")
    }
}

/// Everything in a text that may be a code, the likeliest first, each once.
pub fn candidates(text: &str) -> Vec<Code> {
    let words = words(text);
    let mut found = Vec::new();
    let mut add = |symbols: &[u8]| {
        if let Some(code) = Code::of_symbols(symbols)
            && found.len() < MAX_CANDIDATES
            && !found.contains(&code)
        {
            found.push(code);
        }
    };
    for word in &words {
        add(word);
    }
    // Written in groups: `7K3Q-X9M2-PD`.
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
    // Run into the word before it or after it.
    for word in words.iter().filter(|word| word.len() > LENGTH) {
        add(&word[word.len() - LENGTH..]);
        add(&word[..LENGTH]);
    }
    found
}

/// Runs of symbols. Whatever is no symbol separates them, as a space does.
fn words(text: &str) -> Vec<Vec<u8>> {
    let mut words = vec![Vec::new()];
    for letter in text.chars().take(MAX_TEXT) {
        match (symbol(letter), words.last_mut()) {
            (Some(symbol), Some(word)) => word.push(symbol),
            _ => words.push(Vec::new()),
        }
    }
    words.retain(|word| !word.is_empty());
    words
}

fn symbol(letter: char) -> Option<u8> {
    let symbol = match u8::try_from(letter).ok()?.to_ascii_uppercase() {
        b'O' => b'0',
        b'I' | b'L' => b'1',
        other => other,
    };
    ALPHABET.contains(&symbol).then_some(symbol)
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const CODE: &str = "7K3QX9M20D";

    fn finds(text: &str) -> bool {
        candidates(text).iter().any(|code| code.as_str() == CODE)
    }

    #[test]
    fn a_code_is_found_however_people_send_it() {
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
        ] {
            assert!(finds(text), "{text}");
        }
        assert_eq!(candidates("O1IL234567")[0].as_str(), "0111234567");
    }

    #[test]
    fn what_is_no_code_is_not_found() {
        for text in ["", "VERIFY", "VERIFY 7K3QX9M20", "VERIFY 7K3QX9M20E", "７Ｋ３ＱＸ９Ｍ２０Ｄ", "💥"] {
            assert!(!finds(text), "{text}");
        }
    }

    #[test]
    fn the_likeliest_candidate_comes_first() {
        assert_eq!(candidates("AB CD EF GH JK 7K3QX9M20D")[0].as_str(), CODE);
    }

    proptest! {
        #[test]
        fn any_text_gives_few_candidates(text in "\\PC{0,2000}|[A-Z0-9 ]{0,2000}") {
            prop_assert!(candidates(&text).len() <= MAX_CANDIDATES);
        }

        #[test]
        fn every_code_is_found_in_its_message(bytes: [u8; LENGTH], prefix in "[A-Z0-9]{1,20}", lower: bool) {
            let code = Code::from_random(bytes);
            let message = format!("{prefix} {}", code.as_str());
            let message = if lower { message.to_lowercase() } else { message };
            prop_assert!(candidates(&message).contains(&code));
        }
    }
}
