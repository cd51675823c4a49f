//! NAPTR records (RFC 3403), as those who sell numbers' networks write them.
//!
//! A record turns the number into a URI by a regular expression. Backslashes come single, as they should, or doubled,
//! by servers that show what stands in their zone files; semicolons come with a backslash before them. No number and no
//! URI of a number has a backslash of its own, so any count of them means one.

use std::fmt;

use regex::{Captures, RegexBuilder};
use ringtrue_domain::phone::Msisdn;

/// What a compiled expression may take. Those in use take a few kilobytes.
const LARGEST: usize = 256 * 1_024;
const DEEPEST: u32 = 16;

/// Services whose URIs tell the network.
const SERVICES: [&str; 5] = ["pstn:tel", "pstn:sip", "pstn", "sip", "tel"];

/// Masked: its expression may hold the number.
#[derive(Clone, PartialEq, Eq)]
pub struct Record {
    pub order: u16,
    pub preference: u16,
    flags: Box<[u8]>,
    service: Box<[u8]>,
    expression: Box<[u8]>,
}

/// A record that is for us and cannot be understood.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Unreadable;

impl Record {
    /// From the data of a resource record. What replaces a name in other uses of these records is not looked at.
    pub fn read(mut data: &[u8]) -> Option<Self> {
        let number = |data: &mut &[u8]| Some(u16::from_be_bytes([*data.split_off_first()?, *data.split_off_first()?]));
        let text = |data: &mut &[u8]| {
            let length = *data.split_off_first()?;
            data.split_off(..usize::from(length)).map(Box::from)
        };
        Some(Record {
            order: number(&mut data)?,
            preference: number(&mut data)?,
            flags: text(&mut data)?,
            service: text(&mut data)?,
            expression: text(&mut data)?,
        })
    }

    /// Whether it leads to a URI that tells of a number's network.
    pub fn is_for_us(&self) -> bool {
        let service = String::from_utf8_lossy(&self.service).to_ascii_lowercase();
        let mut parts = service.split('+').map(str::trim);
        self.flags.trim_ascii().eq_ignore_ascii_case(b"u")
            && parts.clone().any(|part| part == "e2u")
            && parts.any(|part| SERVICES.contains(&part))
    }

    /// The URI that it makes of a number. `None`: it is not about this number.
    pub fn uri(&self, number: &Msisdn) -> Result<Option<String>, Unreadable> {
        let text = str::from_utf8(&self.expression).map_err(|_| Unreadable)?.trim();
        let delimiter = text.chars().next().ok_or(Unreadable)?;
        let may_delimit = !delimiter.is_ascii_alphanumeric() && delimiter != '\\';
        let mut parts = split(&text[delimiter.len_utf8()..], delimiter).into_iter();
        let (Some(pattern), Some(replacement), Some(flags), None, true) =
            (parts.next(), parts.next(), parts.next(), parts.next(), may_delimit)
        else {
            return Err(Unreadable);
        };
        let expression = RegexBuilder::new(&with_single_backslashes(pattern))
            .case_insensitive(flags.eq_ignore_ascii_case("i"))
            .size_limit(LARGEST)
            .dfa_size_limit(LARGEST)
            .nest_limit(DEEPEST)
            .build()
            .map_err(|_| Unreadable)?;
        expression.captures(number.as_str()).map(|found| replaced(replacement, &found)).transpose()
    }
}

/// Splits at a delimiter, where no backslash stands before it.
fn split(text: &str, delimiter: char) -> Vec<&str> {
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

fn replaced(replacement: &str, found: &Captures<'_>) -> Result<String, Unreadable> {
    let mut uri = String::with_capacity(replacement.len());
    let mut characters = replacement.chars();
    while let Some(character) = characters.next() {
        if character != '\\' {
            uri.push(character);
            continue;
        }
        match characters.find(|character| *character != '\\') {
            Some('0') => return Err(Unreadable),
            Some(digit) if digit.is_ascii_digit() => {
                let group = digit.to_digit(10).and_then(|digit| usize::try_from(digit).ok()).ok_or(Unreadable)?;
                uri.push_str(found.get(group).map_or("", |group| group.as_str()));
            }
            Some(escaped) => uri.push(escaped),
            None => {}
        }
    }
    Ok(uri)
}

impl fmt::Debug for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Record({} {}, {})", self.order, self.preference, String::from_utf8_lossy(&self.service))
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::tenancy::Mode;

    use super::*;

    fn record(flags: &str, service: &str, expression: &str) -> Record {
        let mut data = vec![0, 10, 0, 100];
        for text in [flags, service, expression] {
            data.push(u8::try_from(text.len()).unwrap());
            data.extend_from_slice(text.as_bytes());
        }
        data.push(0);
        Record::read(&data).unwrap()
    }

    #[test]
    fn flags_and_services_choose_records() {
        for (flags, service, is_for_us) in [
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
            assert_eq!(record(flags, service, "").is_for_us(), is_for_us, "{flags} {service}");
        }
    }

    #[test]
    fn expressions_are_applied_as_they_are_meant() {
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
            (r"!.!a\!", Err(Unreadable)),
            (r"!^.*$!a\", Err(Unreadable)),
            (r"!^\+49.*$!tel:1!", Ok(None)),
            ("", Err(Unreadable)),
            ("!", Err(Unreadable)),
            ("!^.*$!tel:1", Err(Unreadable)),
            ("!^.*$!tel:1!!", Err(Unreadable)),
            ("1^.*$1tel:21", Err(Unreadable)),
            ("!^(.*$!tel:1!", Err(Unreadable)),
            (r"!^.*$!\0!", Err(Unreadable)),
            (r"\^.*$\tel\", Err(Unreadable)),
            ("!(((((((((((((((((((((((x)))))))))))))))))))))))!tel:1!", Err(Unreadable)),
            ("!((x{900}){900}){900}!tel:1!", Err(Unreadable)),
        ] {
            let made = record("u", "E2U+pstn:tel", expression).uri(&number);
            assert_eq!(made.as_ref().map(Option::as_deref), uri.as_ref().copied(), "{expression}");
        }
    }

    #[test]
    fn data_that_ends_too_early_is_no_record() {
        let whole = b"\0\x0a\0\x64\x01u\x03E2U\x02!!";
        assert!(Record::read(whole).is_some());
        for length in 0..whole.len() {
            assert_eq!(Record::read(&whole[..length]), None, "{length}");
        }
    }
}
