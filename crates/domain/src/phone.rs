//! Phone numbers: E.164, and what operators write instead of it.
//!
//! What a caller gives us is taken only in E.164 form: a `+`, a country code that exists, a length that is possible
//! there. Nothing is repaired. Whether the number is in use is not asked: new ranges are handed out before any table
//! knows of them. What an operator writes as the sender of an SMS is read with more patience, by [`Address::number`].

use std::{
    borrow::{Borrow, Cow},
    fmt,
    str::FromStr,
};

use rlibphonenumber::{
    NumberLengthType, PHONE_NUMBER_UTIL, PhoneNumber, PhoneNumberType, Region, get_national_significant_number_owned,
};

use crate::tenancy::Mode;

/// Belongs to no country: the simulated numbers of sandbox projects.
const SIMULATED: &str = "+990";
/// The `+` and the digits.
const LENGTHS: std::ops::RangeInclusive<usize> = 8..=16;

/// A phone number in E.164 form.
#[derive(Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub struct Msisdn(Box<str>);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
pub enum NotE164 {
    #[error("a phone number is a `+` and 7 to 15 digits, with nothing between them")]
    Shape,
    #[error("no country has this country code")]
    CountryCode,
    #[error("numbers of this country have another length")]
    Length,
    #[error("numbers that begin with {SIMULATED} are simulated ones, for sandbox projects only")]
    Simulated,
}

impl Msisdn {
    /// Reads a number as projects of a mode know it: sandbox projects know the simulated ones too.
    pub fn parse(text: &str, mode: Mode) -> Result<Self, NotE164> {
        let digits = text.strip_prefix('+').ok_or(NotE164::Shape)?;
        let shape_is_right = LENGTHS.contains(&text.len())
            && !digits.starts_with('0')
            && digits.bytes().all(|byte| byte.is_ascii_digit());
        if !shape_is_right {
            return Err(NotE164::Shape);
        }
        match (text.starts_with(SIMULATED), mode) {
            (true, Mode::Sandbox) => Ok(Msisdn(text.into())),
            (true, Mode::Live) => Err(NotE164::Simulated),
            (false, _) => real(text).map(Msisdn),
        }
    }

    /// With its `+`.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// Without its `+`.
    pub fn digits(&self) -> &str {
        &self.0[1..]
    }

    pub fn is_simulated(&self) -> bool {
        self.0.starts_with(SIMULATED)
    }

    /// All that may be shown of a number.
    pub fn tail(&self) -> NumberTail {
        let bytes = self.0.as_bytes();
        NumberTail([bytes[bytes.len() - 2] - b'0', bytes[bytes.len() - 1] - b'0'])
    }

    /// The country whose number this is; of several that share a country code, the main one unless the number tells.
    pub fn country(&self) -> Option<Country> {
        let number = PHONE_NUMBER_UTIL.parse(&self.0, None).ok()?;
        let told = PHONE_NUMBER_UTIL.get_region_for_number(&number);
        let region = told.or_else(|| PHONE_NUMBER_UTIL.get_region_for_country_code(number.country_code))?;
        // Satellite phones and their like belong to the whole world.
        (region != Region::World).then_some(Country(region))
    }
}

/// A number can be looked up by its text.
impl Borrow<str> for Msisdn {
    fn borrow(&self) -> &str {
        &self.0
    }
}

fn real(text: &str) -> Result<Box<str>, NotE164> {
    let number = PHONE_NUMBER_UTIL.parse(text, None).map_err(|_| NotE164::CountryCode)?;
    // The library puts some numbers right, by dropping a national prefix for instance. Then they were not right.
    if e164(&number) != text {
        return Err(NotE164::Length);
    }
    match PHONE_NUMBER_UTIL.is_possible_number_with_reason(&number) {
        Ok(NumberLengthType::IsPossible) => Ok(text.into()),
        Ok(NumberLengthType::IsPossibleLocalOnly) | Err(_) => Err(NotE164::Length),
    }
}

fn e164(number: &PhoneNumber) -> String {
    format!("+{}{}", number.country_code, get_national_significant_number_owned(number))
}

/// Masked, so that a number never reaches a log by accident.
impl fmt::Debug for Msisdn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Msisdn({}…{})", &self.0[..3], self.tail())
    }
}

/// The last two digits of a number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct NumberTail([u8; 2]);

impl NumberTail {
    /// The two digits as a number.
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
#[error("not two digits")]
pub struct NotATail;

impl FromStr for NumberTail {
    type Err = NotATail;

    fn from_str(text: &str) -> Result<Self, NotATail> {
        match text.as_bytes() {
            &[a, b] if a.is_ascii_digit() && b.is_ascii_digit() => Ok(NumberTail([a - b'0', b - b'0'])),
            _ => Err(NotATail),
        }
    }
}

/// A country that has phone numbers, shown as its two ISO 3166 letters.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Country(Region);

impl Country {
    /// Without a `+`.
    pub fn dialing_code(self) -> Option<i32> {
        PHONE_NUMBER_UTIL.get_country_code_for_region(self.0)
    }
}

impl fmt::Display for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.fmt(f)
    }
}

impl fmt::Debug for Country {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Country({self})")
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a country is two capital letters, such as GB")]
pub struct NotACountry;

impl FromStr for Country {
    type Err = NotACountry;

    fn from_str(text: &str) -> Result<Self, NotACountry> {
        let country = Region::from_str(text).map(Country).map_err(|_| NotACountry)?;
        let is_one = country.to_string() == text && country.0 != Region::World && country.dialing_code().is_some();
        if is_one { Ok(country) } else { Err(NotACountry) }
    }
}

/// What kind of address an operator says that it wrote (SMPP's type of number).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressKind {
    International,
    National,
    /// Not said: it may be written in any way.
    Unknown,
    /// A name, a short code, or anything else that no subscriber has.
    NoSubscriber,
}

/// The sender or the receiver of an SMS, as an operator wrote it.
#[derive(Clone, Copy)]
pub struct Address<'a> {
    pub text: &'a str,
    pub kind: AddressKind,
    /// The country in which a national number is meant.
    pub country: Option<Country>,
}

impl Address<'_> {
    /// The number that is meant, if it is certain which. Never guessed: a wrong number is worse than none. Spaces and
    /// the punctuation between groups of digits are dropped.
    pub fn number(&self) -> Option<Msisdn> {
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
            AddressKind::NoSubscriber => None,
            _ if has_plus => international(digits),
            AddressKind::International => international(digits.strip_prefix("00").unwrap_or(digits)),
            AddressKind::National => self.national(digits),
            // A leading zero is never part of an international number.
            AddressKind::Unknown => match digits.strip_prefix("00") {
                Some(digits) => international(digits),
                None if digits.starts_with('0') => self.national(digits),
                None => the_one_meant(international(digits), self.national(digits)),
            },
        }
    }

    fn national(&self, digits: &str) -> Option<Msisdn> {
        let country = self.country?;
        let read = PHONE_NUMBER_UTIL.parse(digits, Some(country.0)).ok()?;
        let number = Msisdn::parse(&e164(&read), Mode::Live).ok()?;
        // Behind the prefix for calls abroad stands a number of any country, in full: what was put right is not certain.
        let is_certain = country.dialing_code() == Some(read.country_code) || digits.ends_with(number.digits());
        is_certain.then_some(number)
    }
}

/// What people and gateways write between the groups of digits of a number.
fn is_separator(character: char) -> bool {
    character.is_whitespace() || matches!(character, '-' | '.' | '/' | '(' | ')' | '\u{2010}'..='\u{2015}')
}

/// Of two readings the one that is a mobile number by its country's plan. Where both are, or neither, nobody can tell.
fn the_one_meant(international: Option<Msisdn>, national: Option<Msisdn>) -> Option<Msisdn> {
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

/// Masked.
impl fmt::Debug for Address<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Address({:?}, {} characters)", self.kind, self.text.chars().count())
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn a_number_is_e164_and_nothing_is_repaired() {
        for good in ["+447700900123", "+12015550123", "+4915112345678", "+6799012345", "+870773123456"] {
            assert_eq!(Msisdn::parse(good, Mode::Live).map(|number| number.as_str().to_owned()), Ok(good.to_owned()));
        }
        for (bad, why) in [
            ("447700900123", NotE164::Shape),
            ("", NotE164::Shape),
            ("+", NotE164::Shape),
            ("+0447700900123", NotE164::Shape),
            ("+44 7700 900123", NotE164::Shape),
            ("+4477009001234567", NotE164::Shape),
            ("＋４４７７００９００１２３", NotE164::Shape),
            ("+٤٤٧٧٠٠٩٠٠١٢٣", NotE164::Shape),
            ("+44\0", NotE164::Shape),
            ("tel:+447700900123", NotE164::Shape),
            ("+447700900123;ext=1", NotE164::Shape),
            ("+21012345678", NotE164::CountryCode),
            ("+4407700900123", NotE164::Length),
            ("+44770090", NotE164::Length),
            ("+990123456700", NotE164::Simulated),
        ] {
            assert_eq!(Msisdn::parse(bad, Mode::Live), Err(why), "{bad}");
        }
        assert!(Msisdn::parse("+990123456700", Mode::Sandbox).is_ok());
        assert_eq!(Msisdn::parse("+9901", Mode::Sandbox), Err(NotE164::Shape));
    }

    #[test]
    fn a_number_shows_only_its_ends() {
        let number = Msisdn::parse("+447700900123", Mode::Live).unwrap();
        assert_eq!(format!("{number:?}"), "Msisdn(+44…23)");
        assert_eq!(number.tail().value(), 23);
        assert_eq!("07".parse::<NumberTail>().unwrap().value(), 7);
        assert_eq!("7".parse::<NumberTail>(), Err(NotATail));
    }

    #[test]
    fn a_number_knows_its_country() {
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
            assert_eq!(bad.parse::<Country>(), Err(NotACountry), "{bad}");
        }
        assert_eq!("GB".parse::<Country>().unwrap().dialing_code(), Some(44));
    }

    #[test]
    fn senders_are_read_as_operators_write_them() {
        use AddressKind::{International, National, NoSubscriber, Unknown};
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
            let read = Address { text, kind, country }.number();
            assert_eq!(read.as_ref().map(Msisdn::as_str), number, "{text} {kind:?}");
        }
    }

    proptest! {
        #[test]
        fn any_text_is_a_number_as_it_stands_or_none(text in "\\PC{0,20}|\\+[0-9]{0,18}") {
            if let Ok(number) = Msisdn::parse(&text, Mode::Sandbox) {
                prop_assert_eq!(number.as_str(), text);
            }
        }

        #[test]
        fn a_number_is_found_again_however_it_is_written(national in "7[1-9][0-9]{8}") {
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
                let read = Address { text: &text, kind: AddressKind::Unknown, country }.number();
                prop_assert_eq!(read.as_ref(), Some(&number));
            }
        }

        #[test]
        fn no_sender_makes_it_panic(text in "\\PC{0,24}", kind in 0..4) {
            let kind = [
                AddressKind::International, AddressKind::National, AddressKind::Unknown, AddressKind::NoSubscriber,
            ][usize::try_from(kind).unwrap()];
            let _ = Address { text: &text, kind, country: "DE".parse().ok() }.number();
        }
    }
}
