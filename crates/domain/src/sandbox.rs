//! What simulated numbers do, by their last digits.
//!
//! In a sandbox project every number is simulated, whichever country it seems to be of, so that every outcome can be
//! tried on purpose. Special suffixes go first; of the rest, even numbers match and odd ones do not.

use std::net::IpAddr;

use crate::phone::NumberTail;

/// The simulated operator: the network that ITU-T E.212 keeps for tests.
pub const NETWORK_ID: &str = "00101";
/// The numbers that its subscribers text.
pub const RECEIVERS: [&str; 2] = ["+99000000001", "+99000000002"];
/// The SIM of a simulated device that nobody has given another one.
pub const DEFAULT_SIM: &str = "+99000000010";

/// What an address of the ranges kept for documentation is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TestAddress {
    /// `203.0.113.0/25`
    Mobile,
    /// `203.0.113.128/25`
    MobileWithoutProducts,
    /// `198.51.100.0/24`
    NotMobile,
    /// `192.0.2.0/24`
    Unknown,
}

impl TestAddress {
    /// `None`: not an address for tests.
    pub fn of(address: IpAddr) -> Option<Self> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        match address.octets() {
            [203, 0, 113, last] if last < 128 => Some(TestAddress::Mobile),
            [203, 0, 113, _] => Some(TestAddress::MobileWithoutProducts),
            [198, 51, 100, _] => Some(TestAddress::NotMobile),
            [192, 0, 2, _] => Some(TestAddress::Unknown),
            _ => None,
        }
    }
}

/// What a simulated number is there to show.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Script {
    /// 99: the operator has a fault.
    OperatorFault,
    /// 98: nothing ever comes.
    Silence,
    /// 97: the operator is known, and supports nothing.
    NothingSupported,
    /// 96: as an even number, without Secure SNA.
    NoSecureSna,
    /// 95: the operator is slow; Reverse SMS, which waits for no operator, takes it for an odd number.
    OperatorTimeout,
    /// 94: nobody has this number.
    NoSubscriber,
    /// 93: no source can tell the number's operator.
    LookupDown,
    Even,
    Odd,
}

impl Script {
    pub fn of(tail: NumberTail) -> Self {
        match tail.value() {
            99 => Script::OperatorFault,
            98 => Script::Silence,
            97 => Script::NothingSupported,
            96 => Script::NoSecureSna,
            95 => Script::OperatorTimeout,
            94 => Script::NoSubscriber,
            93 => Script::LookupDown,
            even if even % 2 == 0 => Script::Even,
            _ => Script::Odd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_last_digits_decide() {
        for (tail, script) in [
            ("99", Script::OperatorFault),
            ("98", Script::Silence),
            ("97", Script::NothingSupported),
            ("96", Script::NoSecureSna),
            ("95", Script::OperatorTimeout),
            ("94", Script::NoSubscriber),
            ("93", Script::LookupDown),
            ("92", Script::Even),
            ("00", Script::Even),
            ("01", Script::Odd),
            ("91", Script::Odd),
        ] {
            assert_eq!(Script::of(tail.parse().unwrap()), script, "{tail}");
        }
    }

    #[test]
    fn addresses_for_tests_are_those_kept_for_documentation() {
        for (address, shown) in [
            ("203.0.113.0", Some(TestAddress::Mobile)),
            ("203.0.113.127", Some(TestAddress::Mobile)),
            ("::ffff:203.0.113.128", Some(TestAddress::MobileWithoutProducts)),
            ("198.51.100.9", Some(TestAddress::NotMobile)),
            ("192.0.2.1", Some(TestAddress::Unknown)),
            ("127.0.0.1", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(TestAddress::of(address.parse().unwrap()), shown, "{address}");
        }
    }
}
