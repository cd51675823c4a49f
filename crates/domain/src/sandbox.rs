//! What simulated numbers do, by their last digits.
//!
//! In a sandbox project every number is simulated, whichever country it seems to be of, so that every outcome can be
//! tried on purpose. Special suffixes go first; of the rest, even numbers match and odd ones do not.

use crate::phone::NumberTail;

/// The simulated operator: the network that ITU-T E.212 keeps for tests.
pub const NETWORK_ID: &str = "00101";
/// The numbers that its subscribers text.
pub const RECEIVERS: [&str; 2] = ["+99000000001", "+99000000002"];

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
}
