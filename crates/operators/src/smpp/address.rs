//! From the addresses of SMPP to those of the domain.

use ringtrue_domain::phone::{self, AddressKind, Country, Msisdn};
use ringtrue_smpp::pdu::{Address, Ton};

/// The number that a message centre wrote, if it is certain which.
pub(super) fn number(address: &Address, country: Option<Country>) -> Option<Msisdn> {
    phone::Address { text: &address.value, kind: kind(address.ton), country }.number()
}

fn kind(ton: Ton) -> AddressKind {
    match ton {
        Ton::INTERNATIONAL => AddressKind::International,
        Ton::NATIONAL => AddressKind::National,
        Ton::UNKNOWN => AddressKind::Unknown,
        _ => AddressKind::NoSubscriber,
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_smpp::pdu::Npi;

    use super::*;

    #[test]
    fn the_type_of_number_decides() {
        for (ton, value, expected) in [
            (1, "447700900123", Some("+447700900123")),
            (2, "07700900123", Some("+447700900123")),
            (0, "+447700900123", Some("+447700900123")),
            (0, "00447700900123", Some("+447700900123")),
            (0, "447700900123", Some("+447700900123")),
            (0, "60999", None),
            (3, "447700900123", None),
            (4, "447700900123", None),
            (5, "447700900123", None),
            (5, "Bank", None),
            (6, "447700900123", None),
            (7, "447700900123", None),
            (255, "447700900123", None),
        ] {
            let address = Address { ton: Ton(ton), npi: Npi::ISDN, value: value.to_owned() };
            let read = number(&address, "GB".parse().ok());
            assert_eq!(read.as_ref().map(Msisdn::as_str), expected, "{ton} {value}");
        }
    }
}
