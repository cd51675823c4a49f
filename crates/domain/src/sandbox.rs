//! Behaviour of simulated numbers and addresses in sandbox projects.
//!
//! In a sandbox project every number is simulated, and its last two digits select the outcome: some suffixes are
//! special, other even numbers match and odd ones do not.

use std::net::IpAddr;

use crate::phone::NumberTail;

/// Network of the simulated operator: the test network of ITU-T E.212.
pub const NETWORK_ID: &str = "00101";
/// Receivers of the simulated operator.
pub const RECEIVERS: [&str; 2] = ["+99000000001", "+99000000002"];
/// Number of the SIM in a simulated device by default.
pub const DEFAULT_SIM: &str = "+99000000010";

/// Behaviour of the documentation address ranges (RFC 5737).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxAddress {
    /// `203.0.113.0/25`
    Mobile,
    /// `203.0.113.128/25`
    MobileWithoutProducts,
    /// `198.51.100.0/24`
    NotMobile,
    /// `192.0.2.0/24`
    Unknown,
}

impl SandboxAddress {
    /// `None`: not a documentation address.
    pub fn of(address: IpAddr) -> Option<Self> {
        let IpAddr::V4(address) = address.to_canonical() else { return None };
        match address.octets() {
            [203, 0, 113, last] if last < 128 => Some(SandboxAddress::Mobile),
            [203, 0, 113, _] => Some(SandboxAddress::MobileWithoutProducts),
            [198, 51, 100, _] => Some(SandboxAddress::NotMobile),
            [192, 0, 2, _] => Some(SandboxAddress::Unknown),
            _ => None,
        }
    }
}

/// Behaviour of a simulated number.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SandboxScript {
    /// 99: the operator fails.
    OperatorFault,
    /// 98: the operator never responds.
    Silence,
    /// 97: the operator supports no product.
    NothingSupported,
    /// 96: like an even number, without Secure SNA.
    NoSecureSna,
    /// 95: the operator times out. Reverse SMS, which makes no operator request, treats it as an odd number.
    OperatorTimeout,
    /// 94: the number is unassigned.
    NoSubscriber,
    /// 93: all lookup sources fail.
    LookupDown,
    Even,
    Odd,
}

impl SandboxScript {
    pub fn of(tail: NumberTail) -> Self {
        match tail.value() {
            99 => SandboxScript::OperatorFault,
            98 => SandboxScript::Silence,
            97 => SandboxScript::NothingSupported,
            96 => SandboxScript::NoSecureSna,
            95 => SandboxScript::OperatorTimeout,
            94 => SandboxScript::NoSubscriber,
            93 => SandboxScript::LookupDown,
            even if even % 2 == 0 => SandboxScript::Even,
            _ => SandboxScript::Odd,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn last_digits_select_the_script() {
        for (tail, script) in [
            ("99", SandboxScript::OperatorFault),
            ("98", SandboxScript::Silence),
            ("97", SandboxScript::NothingSupported),
            ("96", SandboxScript::NoSecureSna),
            ("95", SandboxScript::OperatorTimeout),
            ("94", SandboxScript::NoSubscriber),
            ("93", SandboxScript::LookupDown),
            ("92", SandboxScript::Even),
            ("00", SandboxScript::Even),
            ("01", SandboxScript::Odd),
            ("91", SandboxScript::Odd),
        ] {
            assert_eq!(SandboxScript::of(tail.parse().unwrap()), script, "{tail}");
        }
    }

    #[test]
    fn sandbox_addresses_are_documentation_addresses() {
        for (address, expected) in [
            ("203.0.113.0", Some(SandboxAddress::Mobile)),
            ("203.0.113.127", Some(SandboxAddress::Mobile)),
            ("::ffff:203.0.113.128", Some(SandboxAddress::MobileWithoutProducts)),
            ("198.51.100.9", Some(SandboxAddress::NotMobile)),
            ("192.0.2.1", Some(SandboxAddress::Unknown)),
            ("127.0.0.1", None),
            ("2001:db8::1", None),
        ] {
            assert_eq!(SandboxAddress::of(address.parse().unwrap()), expected, "{address}");
        }
    }
}
