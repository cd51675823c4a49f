//! Subscriber table: numbers, their networks and phone states.

use std::{collections::BTreeMap, fmt, str::FromStr};

use thiserror::Error;

use crate::camara::PhoneNumber;

/// A subscriber. Text format: `+447700900124 23410 ported-from 23430 absent`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Subscriber {
    pub number: PhoneNumber,
    /// The network that serves the number.
    pub network: Plmn,
    /// The network to which the number range belongs, if the number was ported.
    pub ported_from: Option<Plmn>,
    pub state: SubscriberState,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SubscriberState {
    Present,
    /// The phone is off.
    Absent,
    /// The number is not assigned.
    Unknown,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error(
    "invalid subscriber; use a number and its network, such as `+447700900123 23430`, then optionally \
     `ported-from` and another network, then optionally `absent` or `unknown`"
)]
pub struct InvalidSubscriber;

impl Subscriber {
    /// Creates a present subscriber whose number is not ported.
    pub fn new(number: PhoneNumber, network: Plmn) -> Self {
        Self { number, network, ported_from: None, state: SubscriberState::Present }
    }

    pub(super) fn digits(&self) -> &str {
        self.number.as_str().trim_start_matches('+')
    }
}

impl FromStr for Subscriber {
    type Err = InvalidSubscriber;

    fn from_str(text: &str) -> Result<Self, InvalidSubscriber> {
        let mut words = text.split_ascii_whitespace().peekable();
        let number = words.next().and_then(|word| word.parse().ok()).ok_or(InvalidSubscriber)?;
        let network = |word: Option<&str>| word.and_then(|word| word.parse().ok()).ok_or(InvalidSubscriber);
        let mut subscriber = Self::new(number, network(words.next())?);
        if words.next_if_eq(&"ported-from").is_some() {
            let from = network(words.next())?;
            // A number cannot be ported to the same network.
            subscriber.ported_from = Some(from).filter(|from| *from != subscriber.network);
            subscriber.ported_from.as_ref().ok_or(InvalidSubscriber)?;
        }
        subscriber.state = match words.next() {
            None | Some("present") => SubscriberState::Present,
            Some("absent") => SubscriberState::Absent,
            Some("unknown") => SubscriberState::Unknown,
            Some(_) => return Err(InvalidSubscriber),
        };
        if words.next().is_none() { Ok(subscriber) } else { Err(InvalidSubscriber) }
    }
}

/// MCC and MNC of a network, written without a separator. MNC `02` differs from `002`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Plmn {
    country: Box<str>,
    network: Box<str>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq, Error)]
#[error("invalid network; use a 3-digit MCC followed by a 2- or 3-digit MNC")]
pub struct InvalidPlmn;

impl FromStr for Plmn {
    type Err = InvalidPlmn;

    fn from_str(text: &str) -> Result<Self, InvalidPlmn> {
        let are_digits = text.bytes().all(|octet| octet.is_ascii_digit());
        match text.split_at_checked(3) {
            Some((country, network)) if are_digits && (2..=3).contains(&network.len()) => {
                Ok(Self { country: country.into(), network: network.into() })
            }
            _ => Err(InvalidPlmn),
        }
    }
}

impl Plmn {
    pub fn mcc(&self) -> &str {
        &self.country
    }

    pub fn mnc(&self) -> &str {
        &self.network
    }
}

impl fmt::Display for Plmn {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.country)?;
        f.write_str(&self.network)
    }
}

/// Subscribers by digits, without those whose state is `Unknown`.
#[derive(derive_more::Debug)]
#[debug("SubscriberTable({} subscribers)", _0.len())]
pub(super) struct SubscriberTable(BTreeMap<String, Subscriber>);

impl SubscriberTable {
    pub(super) fn new(subscribers: &[Subscriber]) -> Self {
        let assigned = subscribers.iter().filter(|subscriber| subscriber.state != SubscriberState::Unknown);
        Self(assigned.map(|subscriber| (subscriber.digits().to_owned(), subscriber.clone())).collect())
    }

    pub(super) fn find(&self, digits: &str) -> Option<&Subscriber> {
        self.0.get(digits)
    }

    /// Whether the number of any subscriber begins with these digits.
    pub(super) fn has_prefix(&self, digits: &str) -> bool {
        self.0.range(digits.to_owned()..).next().is_some_and(|(number, _)| number.starts_with(digits))
    }
}

/// Returns the digits of an ENUM name, whose labels are in reverse order. `None`: a label is not a digit.
pub(super) fn parse_enum_labels<'a>(labels: impl DoubleEndedIterator<Item = &'a [u8]>) -> Option<String> {
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
    fn subscribers_are_parsed() {
        for (text, network, ported_from, state) in [
            ("+447700900123 23430", "23430", None, SubscriberState::Present),
            ("  +447700900123\t23430  present ", "23430", None, SubscriberState::Present),
            ("+447700900124 23410 ported-from 23430", "23410", Some("23430"), SubscriberState::Present),
            ("+447700900125 23430 absent", "23430", None, SubscriberState::Absent),
            ("+12015550123 310260 ported-from 31026 unknown", "310260", Some("31026"), SubscriberState::Unknown),
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
            assert_eq!(text.parse::<Subscriber>(), Err(InvalidSubscriber), "{text}");
        }
    }

    #[test]
    fn debug_masks_numbers() {
        let subscriber: Subscriber = "+447700900123 23430".parse().unwrap();
        let subscribers = SubscriberTable::new(std::slice::from_ref(&subscriber));
        assert_eq!(format!("{subscribers:?}"), "SubscriberTable(1 subscribers)");
        assert!(!format!("{subscriber:?}").contains("77009"));
    }

    #[test]
    fn enum_labels_are_reversed() {
        let digits = |labels: &[&str]| parse_enum_labels(labels.iter().map(|label| label.as_bytes()));
        assert_eq!(digits(&["3", "2", "1"]).as_deref(), Some("123"));
        assert_eq!(digits(&[]).as_deref(), Some(""));
        for labels in [&["12"][..], &["x"], &["1", ""], &["é"]] {
            assert_eq!(digits(labels), None, "{labels:?}");
        }
    }
}
