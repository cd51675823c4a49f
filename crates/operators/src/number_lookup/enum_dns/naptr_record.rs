//! NAPTR records (RFC 3403), as ENUM providers write them.
//!
//! A record maps the number to a URI by a regular expression. Some servers send backslashes doubled, as in zone files,
//! and escape semicolons. Neither numbers nor their URIs contain backslashes, so any run of them counts as one.

use std::fmt;

use regex::{Captures, RegexBuilder};
use ringtrue_domain::phone::Msisdn;

/// Limits for compiled expressions; typical ones take a few kilobytes.
const REGEX_SIZE_LIMIT: usize = 256 * 1_024;
const REGEX_NEST_LIMIT: u32 = 16;

/// Services whose URIs identify the network.
const SERVICES: [&str; 5] = ["pstn:tel", "pstn:sip", "pstn", "sip", "tel"];

/// Masked: the expression may contain the number.
#[derive(Clone, PartialEq, Eq)]
pub struct NaptrRecord {
    pub order: u16,
    pub preference: u16,
    flags: Box<[u8]>,
    service: Box<[u8]>,
    expression: Box<[u8]>,
}

/// A relevant record that cannot be parsed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct InvalidRecord;

impl NaptrRecord {
    /// Parses RDATA. The replacement field, unused in ENUM, is ignored.
    pub fn parse(mut data: &[u8]) -> Option<Self> {
        let number = |data: &mut &[u8]| Some(u16::from_be_bytes([*data.split_off_first()?, *data.split_off_first()?]));
        let text = |data: &mut &[u8]| {
            let length = *data.split_off_first()?;
            data.split_off(..usize::from(length)).map(Box::from)
        };
        Some(NaptrRecord {
            order: number(&mut data)?,
            preference: number(&mut data)?,
            flags: text(&mut data)?,
            service: text(&mut data)?,
            expression: text(&mut data)?,
        })
    }

    /// Whether the record maps to a URI that identifies a network.
    pub fn is_number_service(&self) -> bool {
        let service = String::from_utf8_lossy(&self.service).to_ascii_lowercase();
        let mut parts = service.split('+').map(str::trim);
        self.flags.trim_ascii().eq_ignore_ascii_case(b"u")
            && parts.clone().any(|part| part == "e2u")
            && parts.any(|part| SERVICES.contains(&part))
    }

    /// Returns the URI for a number. `None`: the expression does not match it.
    pub fn apply(&self, number: &Msisdn) -> Result<Option<String>, InvalidRecord> {
        let text = str::from_utf8(&self.expression).map_err(|_| InvalidRecord)?.trim();
        let delimiter = text.chars().next().ok_or(InvalidRecord)?;
        let is_valid_delimiter = !delimiter.is_ascii_alphanumeric() && delimiter != '\\';
        let mut parts = split_unescaped(&text[delimiter.len_utf8()..], delimiter).into_iter();
        let (Some(pattern), Some(replacement), Some(flags), None, true) =
            (parts.next(), parts.next(), parts.next(), parts.next(), is_valid_delimiter)
        else {
            return Err(InvalidRecord);
        };
        let expression = RegexBuilder::new(&with_single_backslashes(pattern))
            .case_insensitive(flags.eq_ignore_ascii_case("i"))
            .size_limit(REGEX_SIZE_LIMIT)
            .dfa_size_limit(REGEX_SIZE_LIMIT)
            .nest_limit(REGEX_NEST_LIMIT)
            .build()
            .map_err(|_| InvalidRecord)?;
        expression.captures(number.as_str()).map(|found| expand_replacement(replacement, &found)).transpose()
    }
}

/// Splits at unescaped delimiters.
fn split_unescaped(text: &str, delimiter: char) -> Vec<&str> {
    let (mut parts, mut start, mut escaped) = (vec![], 0, false);
    for (at, character) in text.char_indices() {
        if character == delimiter && !escaped {
            parts.push(&text[start..at]);
            start = at + character.len_utf8();
        }
        escaped = character == '\\';
    }
    parts.push(&text[start..]);
    parts
}

fn with_single_backslashes(pattern: &str) -> String {
    let mut single = String::with_capacity(pattern.len());
    for character in pattern.chars() {
        if character != '\\' || !single.ends_with('\\') {
            single.push(character);
        }
    }
    single
}

fn expand_replacement(replacement: &str, found: &Captures<'_>) -> Result<String, InvalidRecord> {
    let mut uri = String::with_capacity(replacement.len());
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            uri.push(character);
            continue;
        }
        match characters.find(|character| *character != '\\') {
            Some('0') => return Err(InvalidRecord),
            Some(digit) if digit.is_ascii_digit() => {
                let group = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).ok_or(InvalidRecord)?;
                uri.push_str(found.get(group).map_or("", |group| group.as_str()));
            }
            Some(escaped) => uri.push(escaped),
            None => {}
        }
    }
    Ok(uri)
}

impl fmt::Debug for NaptrRecord {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "NaptrRecord({} {}, {})", self.order, self.preference, String::from_utf8_lossy(&self.service))
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::tenancy::Mode;

    use super::*;

    fn naptr_record(flags: &str, service: &str, expression: &str) -> NaptrRecord {
        let mut data = vec![0, 10, 0, 100];
        for text in [flags, service, expression] {
            data.push(u8::try_from(text.len()).unwrap());
            data.extend_from_slice(text.as_bytes());
        }
        data.push(0);
        NaptrRecord::parse(&data).unwrap()
    }

    #[test]
    fn flags_and_service_select_records() {
        for (flags, service, is_number_service) in [
            ("u", "E2U+pstn:tel", true),
            ("U", "e2u+PSTN:SIP", true),
            ("u", "E2U+SIP", true),
            ("u", "E2U+tel", true),
            ("u", "sip+E2U", true),
            ("u", "E2U+email:mailto+pstn:tel", true),
            ("u", "E2U+email:mailto", false),
            ("u", "pstn:tel", false),
            ("u", "E2U", false),
            ("", "E2U+pstn:tel", false),
            ("s", "E2U+pstn:tel", false),
            ("us", "E2U+pstn:tel", false),
        ] {
            assert_eq!(naptr_record(flags, service, "").is_number_service(), is_number_service, "{flags} {service}");
        }
    }

    #[test]
    fn expressions_are_applied() {
        let number = Msisdn::parse("+447700900123", Mode::Live).unwrap();
        for (expression, uri) in [
            (r"!^.*$!tel:+447700900123;npdi!", Ok(Some("tel:+447700900123;npdi"))),
            (r"!^(.*)$!tel:\1;mcc=234;mnc=10!", Ok(Some("tel:+447700900123;mcc=234;mnc=10"))),
            (r"!^(.*)$!tel:\\1\;mcc=234\;mnc=10!", Ok(Some("tel:+447700900123;mcc=234;mnc=10"))),
            (r"!^(.*)$!tel:\\\\1\\;mcc=234!", Ok(Some("tel:+447700900123;mcc=234"))),
            (r"/^\+44(.*)$/tel:+44\1;rn=1/", Ok(Some("tel:+447700900123;rn=1"))),
            (r"!^\\+(44)(7[0-9]+)$!tel:+\2\1!", Ok(Some("tel:+770090012344"))),
            (r"~^(.*)$~sip:\1@a\~b~", Ok(Some("sip:+447700900123@a~b"))),
            ("é^(.*)$étel:\\1é", Ok(Some("tel:+447700900123"))),
            (r"!^\+(44|49)[[:digit:]]*$!tel:\1!i", Ok(Some("tel:44"))),
            (r" !^.*$!<TEL:+447700900123>! ", Ok(Some("<TEL:+447700900123>"))),
            (r"!^(x)?.*$!tel:\1\2\9!", Ok(Some("tel:"))),
            (r"!.!a\!", Err(InvalidRecord)),
            (r"!^.*$!a\", Err(InvalidRecord)),
            (r"!^\+49.*$!tel:1!", Ok(None)),
            ("", Err(InvalidRecord)),
            ("!", Err(InvalidRecord)),
            ("!^.*$!tel:1", Err(InvalidRecord)),
            ("!^.*$!tel:1!!", Err(InvalidRecord)),
            ("1^.*$1tel:21", Err(InvalidRecord)),
            ("!^(.*$!tel:1!", Err(InvalidRecord)),
            (r"!^.*$!\0!", Err(InvalidRecord)),
            (r"\^.*$\tel\", Err(InvalidRecord)),
            ("!(((((((((((((((((((((((x)))))))))))))))))))))))!tel:1!", Err(InvalidRecord)),
            ("!((x{900}){900}){900}!tel:1!", Err(InvalidRecord)),
        ] {
            let applied = naptr_record("u", "E2U+pstn:tel", expression).apply(&number);
            assert_eq!(applied.as_ref().map(Option::as_deref), uri.as_ref().copied(), "{expression}");
        }
    }

    #[test]
    fn truncated_data_is_rejected() {
        let whole = b"\0\x0a\0\x64\x01u\x03E2U\x02!!";
        assert!(NaptrRecord::parse(whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(NaptrRecord::parse(&whole[..length]), None, "{length}");
        }
    }
}
