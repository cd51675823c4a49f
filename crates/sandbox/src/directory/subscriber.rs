//! Whom a directory knows: numbers, the networks that serve them, and whether their phones are on.

use std::{collections::BTreeMap, fmt, str::FromStr};

use thiserror::Error;

use crate::camara::PhoneNumber;

/// A number, and what is known of it. Written in words: `+447700900124 23410 ported-from 23430 absent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub number: PhoneNumber,
    /// Who serves it.
    pub network: NetworkCodes,
    /// Whose range it is of, if that is another network.
    pub ported_from: Option<NetworkCodes>,
    pub state: State,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum State {
    Present,
    /// The phone is off. There is a subscriber all the same.
    Absent,
    /// Nobody has the number, or nobody does any more.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "a subscriber is a number and its network, such as `+447700900123 23430`, then `ported-from` and another network if \
     it was ported, then `absent` or `unknown` if it is"
)]
pub struct NotASubscriber;

impl Subscriber {
    /// One that is present, and was never ported.
    pub fn new(number: PhoneNumber, network: NetworkCodes) -> Self {
        Self { number, network, ported_from: None, state: State::Present }
    }

    pub(super) fn digits(&self) -> &str {
        self.number.as_str().trim_start_matches('+')
    }
}

impl FromStr for Subscriber {
    type Err = NotASubscriber;

    fn from_str(text: &str) -> Result<Self, NotASubscriber> {
        let mut words = text.split_ascii_whitespace().peekable();
        let number = words.next().and_then(|word| word.parse().ok()).ok_or(NotASubscriber)?;
        let network = |word: Option<&str>| word.and_then(|word| word.parse().ok()).ok_or(NotASubscriber);
        let mut subscriber = Self::new(number, network(words.next())?);
        if words.next_if_eq(&"ported-from").is_some() {
            let from = network(words.next())?;
            // Who ports a number takes it elsewhere.
            subscriber.ported_from = Some(from).filter(|from| *from != subscriber.network);
            subscriber.ported_from.as_ref().ok_or(NotASubscriber)?;
        }
        subscriber.state = match words.next() {
            None | Some("present") => State::Present,
            Some("absent") => State::Absent,
            Some("unknown") => State::Unknown,
            Some(_) => return Err(NotASubscriber),
        };
        if words.next().is_none() { Ok(subscriber) } else { Err(NotASubscriber) }
    }
}

/// A network by its mobile country code and its mobile network code, written in a row. `02` and `002` are not the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NetworkCodes {
    country: Box<str>,
    network: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("a network is a country code of three digits and a network code of two or three, in a row")]
pub struct NotANetwork;

impl FromStr for NetworkCodes {
    type Err = NotANetwork;

    fn from_str(text: &str) -> Result<Self, NotANetwork> {
        let are_digits = text.bytes().all(|octet| octet.is_ascii_digit());
        match text.split_at_checked(3) {
            Some((country, network)) if are_digits && (2..=3).contains(&network.len()) => {
                Ok(Self { country: country.into(), network: network.into() })
            }
            _ => Err(NotANetwork),
        }
    }
}

impl NetworkCodes {
    pub fn mcc(&self) -> &str {
        &self.country
    }

    pub fn mnc(&self) -> &str {
        &self.network
    }
}

impl fmt::Display for NetworkCodes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.country)?;
        f.write_str(&self.network)
    }
}

/// The subscribers by their digits. A number whose state is unknown is as good as one that was never heard of.
pub(super) struct Register(BTreeMap<String, Subscriber>);

impl Register {
    pub(super) fn new(subscribers: &[Subscriber]) -> Self {
        let are_there = subscribers.iter().filter(|subscriber| subscriber.state != State::Unknown);
        Self(are_there.map(|subscriber| (subscriber.digits().to_owned(), subscriber.clone())).collect())
    }

    pub(super) fn find(&self, digits: &str) -> Option<&Subscriber> {
        self.0.get(digits)
    }

    /// Whether some number begins so.
    pub(super) fn has_beginning(&self, digits: &str) -> bool {
        self.0.range(digits.to_owned()..).next().is_some_and(|(number, _)| number.starts_with(digits))
    }
}

/// Full of numbers.
impl fmt::Debug for Register {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Register({} subscribers)", self.0.len())
    }
}

/// The digits of an ENUM name, which stand there backwards.
pub(super) fn digits_of<'a>(labels: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<String> {
    let mut digits = String::new();
    for label in labels.rev() {
        match label {
            [digit] if digit.is_ascii_digit() => digits.push(char::from(*digit)),
            _ => return None,
        }
    }
    Some(digits)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscribers_are_written_in_words() {
        for (text, network, ported_from, state) in [
            ("+447700900123 23430", "23430", None, State::Present),
            ("  +447700900123\t23430  present ", "23430", None, State::Present),
            ("+447700900124 23410 ported-from 23430", "23410", Some("23430"), State::Present),
            ("+447700900125 23430 absent", "23430", None, State::Absent),
            ("+12015550123 310260 ported-from 31026 unknown", "310260", Some("31026"), State::Unknown),
        ] {
            let subscriber: Subscriber = text.parse().unwrap();
            assert_eq!(subscriber.network.to_string(), network, "{text}");
            assert_eq!(subscriber.ported_from.map(|from| from.to_string()).as_deref(), ported_from, "{text}");
            assert_eq!(subscriber.state, state, "{text}");
        }
        for text in [
            "",
            "+447700900123",
            "447700900123 23430",
            "+447700900123 2343",
            "+447700900123 2343012",
            "+447700900123 234é",
            "+447700900123 23430 ported-from",
            "+447700900123 23430 ported-from absent",
            "+447700900123 23430 ported-from 23430",
            "+447700900123 23430 absent ported-from 23410",
            "+447700900123 23430 off",
            "+447700900123 23430 absent absent",
        ] {
            assert_eq!(text.parse::<Subscriber>(), Err(NotASubscriber), "{text}");
        }
    }

    #[test]
    fn numbers_are_masked() {
        let subscriber: Subscriber = "+447700900123 23430".parse().unwrap();
        let register = Register::new(std::slice::from_ref(&subscriber));
        assert_eq!(format!("{register:?}"), "Register(1 subscribers)");
        assert!(!format!("{subscriber:?}").contains("77009"));
    }

    #[test]
    fn names_are_numbers_backwards() {
        let digits = |labels: &[&str]| digits_of(labels.iter().map(|label| label.as_bytes()));
        assert_eq!(digits(&["3", "2", "1"]).as_deref(), Some("123"));
        assert_eq!(digits(&[]).as_deref(), Some(""));
        for labels in [&["12"][..], &["x"], &["1", ""], &["é"]] {
            assert_eq!(digits(labels), None, "{labels:?}");
        }
    }
}
