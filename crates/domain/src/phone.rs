//! Phone numbers in E.164 form, and sender and receiver addresses of SMS in operators' notations.
//!
//! Clients must send E.164: a `+`, an existing country code, and a length that is possible in that country. Other
//! notations are rejected, not repaired. Only verifications also accept numbers as people write them
//! ([`Msisdn::parse_written`]). Number ranges are not checked, because tables of ranges are always behind new
//! assignments. [`SmsAddress::to_msisdn`] normalises operators' notations of SMS addresses.

use std::{
    borrow::{Borrow, Cow},
    fmt,
    str::FromStr,
};

use rlibphonenumber::{
    NumberLengthType, PHONE_NUMBER_UTIL, PhoneNumber, PhoneNumberType, Region, get_national_significant_number_owned,
};

use crate::tenancy::Mode;

/// Prefix of the simulated numbers of sandbox projects. It is an unassigned country code.
const SIMULATED_PREFIX: &str = "+990";
/// Possible lengths of a number, including the `+`.
const E164_LENGTHS: std::ops::RangeInclusive<usize> = 8..=16;
/// Maximum length of a number with separators, as people write it.
const MAX_WRITTEN_BYTES: usize = 64;

/// A phone number in E.164 form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord, derive_more::Debug)]
// Hides most digits, so that phone numbers never appear in logs.
#[debug("Msisdn({}…{})", &self.0[..3], self.tail())]
pub struct Msisdn(Box<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum InvalidPhoneNumber {
    #[error("a phone number is a `+` and 7 to 15 digits without separators")]
    Shape,
    #[error("a phone number is a `+` and 7 to 15 digits; spaces, dashes, dots, slashes and parentheses are ignored")]
    WrittenShape,
    #[error("unknown country code")]
    CountryCode,
    #[error("wrong number of digits for this country")]
    Length,
    #[error("numbers that begin with {SIMULATED_PREFIX} are simulated, for sandbox projects only")]
    Simulated,
    #[error("a number without `+` needs a `country`")]
    CountryMissing,
    #[error("not a phone number of this `country`")]
    National,
}

impl Msisdn {
    /// Parses E.164. Simulated numbers are valid in sandbox mode only.
    pub fn parse(text: &str, mode: Mode) -> Result<Self, InvalidPhoneNumber> {
        let digits = text.strip_prefix('+').ok_or(InvalidPhoneNumber::Shape)?;
        let is_well_formed = E164_LENGTHS.contains(&text.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !is_well_formed {
            return Err(InvalidPhoneNumber::Shape);
        }
        match (text.starts_with(SIMULATED_PREFIX), mode) {
            (true, Mode::Sandbox) => Ok(Msisdn(text.into())),
            (true, Mode::Live) => Err(InvalidPhoneNumber::Simulated),
            (false, _) => parse_real_number(text).map(Msisdn),
        }
    }

    /// Parses a number as people write it, paste it or type it on their keyboards: with separators, in the digits of other
    /// scripts, with `00` for `+`, and in national form if the country is known.
    pub fn parse_written(text: &str, country: Option<Country>, mode: Mode) -> Result<Self, InvalidPhoneNumber> {
        if text.len() > MAX_WRITTEN_BYTES {
            return Err(InvalidPhoneNumber::WrittenShape);
        }
        let text: String = text.chars().filter(|character| !is_invisible(*character)).map(to_ascii).collect();
        let is_international = text.trim_start_matches(is_separator).starts_with('+');
        // In `+44 (0)7700 900123`, the digit in parentheses is only dialled within the country.
        let text = if is_international { text.replacen("(0)", "", 1) } else { text };
        let compact: String = text.chars().filter(|character| !is_separator(*character)).collect();
        if is_international {
            return Msisdn::parse(&compact, mode).map_err(|error| match error {
                InvalidPhoneNumber::Shape => InvalidPhoneNumber::WrittenShape,
                other => other,
            });
        }
        if compact.is_empty() || !compact.bytes().all(|byte| byte.is_ascii_digit()) {
            return Err(InvalidPhoneNumber::WrittenShape);
        }
        let national = match country {
            Some(_) => SmsAddress { text: &compact, kind: SmsAddressKind::National, country }.to_msisdn(),
            None => None,
        };
        // `00` stands for `+` in most countries, and people write it in the others, too.
        let international = || Msisdn::parse(&format!("+{}", compact.strip_prefix("00")?), mode).ok();
        let problem = country.map_or(InvalidPhoneNumber::CountryMissing, |_| InvalidPhoneNumber::National);
        national.or_else(international).ok_or(problem)
    }

    /// The number with the `+`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// The number without the `+`.
    pub fn digits(&self) -> &str {
        &self.0[1..]
    }

    pub fn is_simulated(&self) -> bool {
        self.0.starts_with(SIMULATED_PREFIX)
    }

    /// The last two digits, which may be shown and logged.
    pub fn tail(&self) -> NumberTail {
        let bytes = self.0.as_bytes();
        NumberTail([bytes[bytes.len() - 2] - b'0', bytes[bytes.len() - 1] - b'0'])
    }

    /// Returns the country of the number. If several countries share the country code and the number is ambiguous,
    /// returns the main country. `None`: the number belongs to no country.
    pub fn country(&self) -> Option<Country> {
        let number = PHONE_NUMBER_UTIL.parse(&self.0, None).ok()?;
        let exact = PHONE_NUMBER_UTIL.get_region_for_number(&number);
        let region = exact.or_else(|| PHONE_NUMBER_UTIL.get_region_for_country_code(number.country_code))?;
        // Satellite phones and similar services have no country.
        (region != Region::World).then_some(Country(region))
    }
}

impl Borrow<str> for Msisdn {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn parse_real_number(text: &str) -> Result<Box<str>, InvalidPhoneNumber> {
    let number = PHONE_NUMBER_UTIL.parse(text, None).map_err(|_| InvalidPhoneNumber::CountryCode)?;
    // The library repairs some numbers, for example by dropping a national prefix. A number that the library had to
    // repair is rejected.
    if format_e164(&number) != text {
        return Err(InvalidPhoneNumber::Length);
    }
    match PHONE_NUMBER_UTIL.is_possible_number_with_reason(&number) {
        Ok(NumberLengthType::IsPossible) => Ok(text.into()),
        Ok(NumberLengthType::IsPossibleLocalOnly) | Err(_) => Err(InvalidPhoneNumber::Length),
    }
}

fn format_e164(number: &PhoneNumber) -> String {
    format!("+{}{}", number.country_code, get_national_significant_number_owned(number))
}

/// The last two digits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberTail([u8; 2]);

impl NumberTail {
    pub fn value(self) -> u8 {
        self.0[0] * 10 + self.0[1]
    }
}

impl fmt::Display for NumberTail {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}{}", self.0[0], self.0[1])
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("expected two digits")]
pub struct InvalidNumberTail;

impl FromStr for NumberTail {
    type Err = InvalidNumberTail;

    fn from_str(text: &str) -> Result<Self, InvalidNumberTail> {
        match text.as_bytes() {
            &[a, b] if a.is_ascii_digit() && b.is_ascii_digit() => Ok(NumberTail([a - b'0', b - b'0'])),
            _ => Err(InvalidNumberTail),
        }
    }
}

/// A country that has a dialling code. Displayed as its ISO 3166 code.
#[derive(Clone, Copy, PartialEq, Eq, Hash, derive_more::Debug)]
#[debug("Country({_0})")]
pub struct Country(Region);

impl Country {
    /// All countries, in no particular order.
    pub fn all() -> impl Iterator<Item = Self> {
        PHONE_NUMBER_UTIL.get_supported_regions().filter(|region| *region != Region::World).map(Country)
    }

    /// Returns the country of a dialling code, given without the `+`. If several countries share it, returns the main
    /// country.
    pub fn of_dialing_code(code: i32) -> Option<Self> {
        let region = PHONE_NUMBER_UTIL.get_region_for_country_code(code)?;
        (region != Region::World).then_some(Country(region))
    }

    /// Returns the dialling code without the `+`.
    pub fn dialing_code(self) -> Option<i32> {
        PHONE_NUMBER_UTIL.get_country_code_for_region(self.0)
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a country is an ISO 3166 code of two capital letters, such as GB")]
pub struct InvalidCountry;

impl FromStr for Country {
    type Err = InvalidCountry;

    fn from_str(text: &str) -> Result<Self, InvalidCountry> {
        let country = Region::from_str(text).map(Country).map_err(|_| InvalidCountry)?;
        let is_valid = country.to_string() == text && country.0 != Region::World && country.dialing_code().is_some();
        if is_valid { Ok(country) } else { Err(InvalidCountry) }
    }
}

/// The notation of an SMS address (`ton`, type of number, in SMPP).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SmsAddressKind {
    International,
    National,
    /// The operator does not specify the notation.
    Unknown,
    /// An alphanumeric sender, a short code, or another address that does not identify a subscriber.
    NoSubscriber,
}

/// The sender or receiver of an SMS in an operator's notation.
#[derive(Clone, Copy, derive_more::Debug)]
#[debug("Address({:?}, {} characters)", self.kind, self.text.chars().count())]
pub struct SmsAddress<'a> {
    pub text: &'a str,
    pub kind: SmsAddressKind,
    /// Country of numbers in national format. `None`: national numbers cannot be normalised.
    pub country: Option<Country>,
}

impl SmsAddress<'_> {
    /// Normalises the address to E.164, ignoring separators between digits. `None`: the address is ambiguous or is not
    /// a number. A wrong number would be worse than none.
    pub fn to_msisdn(&self) -> Option<Msisdn> {
        let text: Cow<'_, str> = if self.text.contains(is_separator) {
            self.text.chars().filter(|character| !is_separator(*character)).collect::<String>().into()
        } else {
            self.text.into()
        };
        let (has_plus, digits) = text.strip_prefix('+').map_or((false, &*text), |digits| (true, digits));
        let digits_only = !digits.is_empty() && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !digits_only {
            return None;
        }
        let international = |digits: &str| Msisdn::parse(&format!("+{digits}"), Mode::Sandbox).ok();
        match self.kind {
            SmsAddressKind::NoSubscriber => None,
            _ if has_plus => international(digits),
            SmsAddressKind::International => international(digits.strip_prefix("00").unwrap_or(digits)),
            SmsAddressKind::National => self.parse_national(digits),
            // An international number never begins with a zero.
            SmsAddressKind::Unknown => match digits.strip_prefix("00") {
                Some(digits) => international(digits),
                None if digits.starts_with('0') => self.parse_national(digits),
                None => pick_unambiguous(international(digits), self.parse_national(digits)),
            },
        }
    }

    fn parse_national(&self, digits: &str) -> Option<Msisdn> {
        let country = self.country?;
        let parsed = PHONE_NUMBER_UTIL.parse(digits, Some(country.0)).ok()?;
        let number = Msisdn::parse(&format_e164(&parsed), Mode::Live).ok()?;
        // Digits that begin with an international call prefix must end with the full number. Otherwise the library has
        // changed the digits, and the result is uncertain.
        let is_certain = country.dialing_code() == Some(parsed.country_code) || digits.ends_with(number.digits());
        is_certain.then_some(number)
    }
}

fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, '-' | '.' | '/' | '(' | ')' | '\u{2010}'..='\u{2015}')
}

/// Whether a character only controls how text is displayed. Address books put such characters around numbers.
fn is_invisible(character: char) -> bool {
    matches!(
        character,
        '\u{ad}' | '\u{feff}' | '\u{200b}'..='\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2060}'..='\u{2069}'
    )
}

/// Returns the ASCII form of digits and signs that keyboards of other scripts write.
fn to_ascii(character: char) -> char {
    /// The digits zero of the Arabic (two forms), Devanagari and full-width digits.
    const ZEROS: [char; 4] = ['\u{660}', '\u{6f0}', '\u{966}', '\u{ff10}'];
    let code = u32::from(character);
    let digit = ZEROS.iter().find_map(|zero| code.checked_sub(u32::from(*zero)).filter(|value| *value < 10));
    match (digit.and_then(|value| char::from_digit(value, 10)), character) {
        (Some(digit), _) => digit,
        (None, '\u{ff0b}') => '+',
        (None, '\u{ff08}') => '(',
        (None, '\u{ff09}') => ')',
        (None, '\u{ff0d}' | '\u{30fc}' | '\u{2212}') => '-',
        (None, other) => other,
    }
}

/// Chooses between the international and the national reading of the same digits. If both are valid and differ, the one
/// that is a mobile number wins. `None`: neither is valid, or they differ and both or neither are mobile numbers.
fn pick_unambiguous(international: Option<Msisdn>, national: Option<Msisdn>) -> Option<Msisdn> {
    let is_mobile = |number: &Msisdn| {
        let kind = PHONE_NUMBER_UTIL.parse(&number.0, None).map(|number| PHONE_NUMBER_UTIL.get_number_type(&number));
        matches!(kind, Ok(PhoneNumberType::Mobile | PhoneNumberType::FixedLineOrMobile))
    };
    match (international, national) {
        (Some(one), Some(other)) if one != other => match (is_mobile(&one), is_mobile(&other)) {
            (true, false) => Some(one),
            (false, true) => Some(other),
            _ => None,
        },
        (one, other) => one.or(other),
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn only_e164_is_accepted() {
        for good in ["+447700900123", "+12015550123", "+4915112345678", "+6799012345", "+870773123456"] {
            assert_eq!(Msisdn::parse(good, Mode::Live).map(|number| number.as_str().to_owned()), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("447700900123", InvalidPhoneNumber::Shape),
            ("", InvalidPhoneNumber::Shape),
            ("+", InvalidPhoneNumber::Shape),
            ("+0447700900123", InvalidPhoneNumber::Shape),
            ("+44 7700 900123", InvalidPhoneNumber::Shape),
            ("+4477009001234567", InvalidPhoneNumber::Shape),
            ("＋４４７７００９００１２３", InvalidPhoneNumber::Shape),
            ("+٤٤٧٧٠٠٩٠٠١٢٣", InvalidPhoneNumber::Shape),
            ("+44\0", InvalidPhoneNumber::Shape),
            ("tel:+447700900123", InvalidPhoneNumber::Shape),
            ("+447700900123;ext=1", InvalidPhoneNumber::Shape),
            ("+21012345678", InvalidPhoneNumber::CountryCode),
            ("+4407700900123", InvalidPhoneNumber::Length),
            ("+44770090", InvalidPhoneNumber::Length),
            ("+990123456700", InvalidPhoneNumber::Simulated),
        ] {
            assert_eq!(Msisdn::parse(bad, Mode::Live), Err(why), "{bad}");
        }
        assert!(Msisdn::parse("+990123456700", Mode::Sandbox).is_ok());
        assert_eq!(Msisdn::parse("+9901", Mode::Sandbox), Err(InvalidPhoneNumber::Shape));
    }

    #[test]
    fn numbers_are_read_as_people_write_them() {
        for (text, country, number) in [
            ("+447700900123", None, Ok("+447700900123")),
            (" +44 7700-900.123 ", None, Ok("+447700900123")),
            ("+44 (0)7700 900123", None, Ok("+447700900123")),
            ("(+44) 7700 900123", None, Ok("+447700900123")),
            ("+44 7700 900123", Some("DE"), Ok("+447700900123")),
            ("+990 1234 567-00", None, Ok("+990123456700")),
            ("07700 900123", Some("GB"), Ok("+447700900123")),
            ("(201) 555-0123", Some("US"), Ok("+12015550123")),
            ("00 44 7700 900123", Some("DE"), Ok("+447700900123")),
            ("00 44 7700 900123", Some("US"), Ok("+447700900123")),
            ("0044 7700 900123", None, Ok("+447700900123")),
            ("00990 123 456 700", None, Ok("+990123456700")),
            ("00 44 77", None, Err(InvalidPhoneNumber::CountryMissing)),
            ("\u{202a}+44 7700\u{a0}900123\u{202c}", None, Ok("+447700900123")),
            ("\u{2066}\u{200e}07700 900123\u{2069}", Some("GB"), Ok("+447700900123")),
            ("＋４４（０）７７００ー９００１２３", None, Ok("+447700900123")),
            ("٠٧٧٠٠ ٩٠٠١٢٣", Some("GB"), Ok("+447700900123")),
            ("+۴۴۷۷۰۰۹۰۰۱۲۳", None, Ok("+447700900123")),
            ("०७७०० ९००१२३", Some("GB"), Ok("+447700900123")),
            ("07700 900123", None, Err(InvalidPhoneNumber::CountryMissing)),
            ("12", Some("GB"), Err(InvalidPhoneNumber::National)),
            ("", Some("GB"), Err(InvalidPhoneNumber::WrittenShape)),
            ("call me", Some("GB"), Err(InvalidPhoneNumber::WrittenShape)),
            ("+44 7700 900123 ext 5", None, Err(InvalidPhoneNumber::WrittenShape)),
            ("+44", None, Err(InvalidPhoneNumber::WrittenShape)),
        ] {
            let country = country.map(|country| country.parse().unwrap());
            let parsed = Msisdn::parse_written(text, country, Mode::Sandbox);
            assert_eq!(parsed.as_ref().map(Msisdn::as_str), number.as_ref().copied(), "{text}");
        }
        assert_eq!(Msisdn::parse_written("+990 123 456 700", None, Mode::Live), Err(InvalidPhoneNumber::Simulated));
        assert_eq!(Msisdn::parse_written(&" ".repeat(65), None, Mode::Live), Err(InvalidPhoneNumber::WrittenShape));
    }

    #[test]
    fn debug_output_is_masked() {
        let number = Msisdn::parse("+447700900123", Mode::Live).unwrap();
        assert_eq!(format!("{number:?}"), "Msisdn(+44…23)");
        assert_eq!(number.tail().value(), 23);
        assert_eq!("07".parse::<NumberTail>().unwrap().value(), 7);
        assert_eq!("7".parse::<NumberTail>(), Err(InvalidNumberTail));
    }

    #[test]
    fn country_follows_the_dialing_code() {
        for (number, country) in [
            ("+447700900123", Some("GB")),
            ("+12015550123", Some("US")),
            ("+14165550123", Some("CA")),
            ("+870773123456", None),
            ("+990123456700", None),
        ] {
            let number = Msisdn::parse(number, Mode::Sandbox).unwrap();
            assert_eq!(number.country().map(|country| country.to_string()).as_deref(), country, "{number:?}");
        }
        for bad in ["", "gb", "GBR", "XX", "001"] {
            assert_eq!(bad.parse::<Country>(), Err(InvalidCountry), "{bad}");
        }
        assert_eq!("GB".parse::<Country>().unwrap().dialing_code(), Some(44));
    }

    #[test]
    fn all_countries_have_a_dialing_code() {
        let all: Vec<_> = Country::all().collect();
        assert!(all.len() > 240, "{}", all.len());
        for country in all {
            assert_eq!(country.to_string().parse(), Ok(country));
        }
        for (code, main) in [(44, Some("GB")), (1, Some("US")), (7, Some("RU")), (870, None), (990, None)] {
            let country = Country::of_dialing_code(code).map(|country| country.to_string());
            assert_eq!(country.as_deref(), main, "{code}");
        }
    }

    #[test]
    fn senders_are_normalised_from_operator_notations() {
        use SmsAddressKind::{International, National, NoSubscriber, Unknown};
        for (text, kind, country, number) in [
            ("447700900123", International, None, Some("+447700900123")),
            ("+447700900123", International, None, Some("+447700900123")),
            ("00447700900123", International, None, Some("+447700900123")),
            ("07700900123", National, Some("GB"), Some("+447700900123")),
            ("7700900123", National, Some("GB"), Some("+447700900123")),
            ("07700900123", National, None, None),
            ("+447700900123", Unknown, None, Some("+447700900123")),
            ("00447700900123", Unknown, None, Some("+447700900123")),
            ("447700900123", Unknown, None, Some("+447700900123")),
            ("07700900123", Unknown, Some("GB"), Some("+447700900123")),
            ("07700900123", Unknown, None, None),
            ("07700900123", Unknown, Some("DE"), Some("+497700900123")),
            ("2015550123", National, Some("US"), Some("+12015550123")),
            ("2015550123", Unknown, Some("US"), Some("+12015550123")),
            ("12015550123", Unknown, Some("US"), Some("+12015550123")),
            ("011447700900123", Unknown, Some("US"), Some("+447700900123")),
            ("00447700900123", National, Some("DE"), Some("+447700900123")),
            ("004407700900123", National, Some("DE"), None),
            ("008401455099", National, Some("AR"), None),
            ("990123456700", International, None, Some("+990123456700")),
            ("VODAFONE", NoSubscriber, Some("GB"), None),
            ("VODAFONE", Unknown, Some("GB"), None),
            ("60999", Unknown, Some("GB"), None),
            ("60999", NoSubscriber, Some("GB"), None),
            ("447700900123", NoSubscriber, Some("GB"), None),
            ("", Unknown, Some("GB"), None),
            ("+", Unknown, Some("GB"), None),
            ("07700 900123", National, Some("GB"), Some("+447700900123")),
            ("07700 900123", Unknown, Some("GB"), Some("+447700900123")),
            ("44 7700 900123", Unknown, Some("GB"), Some("+447700900123")),
            ("(07700) 900-123", Unknown, Some("GB"), Some("+447700900123")),
            ("+44.7700.900.123", Unknown, None, Some("+447700900123")),
            ("0151/123\u{2011}456\u{a0}78", Unknown, Some("DE"), Some("+4915112345678")),
            ("+44 (0)7700 900123", Unknown, Some("GB"), None),
            ("07700 900123 x7", Unknown, Some("GB"), None),
            ("07700_900123", Unknown, Some("GB"), None),
            ("07700 900123", NoSubscriber, Some("GB"), None),
            ("6-0-9-9-9", Unknown, Some("GB"), None),
            ("- -", Unknown, Some("GB"), None),
        ] {
            let country = country.map(|country| country.parse().unwrap());
            let read = SmsAddress { text, kind, country }.to_msisdn();
            assert_eq!(read.as_ref().map(Msisdn::as_str), number, "{text} {kind:?}");
        }
    }

    proptest! {
        #[test]
        fn parsed_number_equals_its_text(text in "\\PC{0,20}|\\+[0-9]{0,18}") {
            if let Ok(number) = Msisdn::parse(&text, Mode::Sandbox) {
                prop_assert_eq!(number.as_str(), text);
            }
        }

        #[test]
        fn all_notations_normalise_to_the_same_number(national in "7[1-9][0-9]{8}") {
            let number = Msisdn::parse(&format!("+44{national}"), Mode::Live).unwrap();
            let country = "GB".parse().ok();
            let (head, tail) = national.split_at(4);
            for text in [
                format!("+44{national}"),
                format!("0044{national}"),
                format!("0{national}"),
                format!("0{head} {tail}"),
                format!("+44 {head}-{tail}"),
            ] {
                let read = SmsAddress { text: &text, kind: SmsAddressKind::Unknown, country }.to_msisdn();
                prop_assert_eq!(read.as_ref(), Some(&number));
            }
        }

        #[test]
        fn normalisation_never_panics(text in "\\PC{0,24}", kind in 0..4) {
            let kind = [
                SmsAddressKind::International,
                SmsAddressKind::National,
                SmsAddressKind::Unknown,
                SmsAddressKind::NoSubscriber,
            ][usize::try_from(kind).unwrap()];
            let _ = SmsAddress { text: &text, kind, country: "DE".parse().ok() }.to_msisdn();
        }
    }
}
