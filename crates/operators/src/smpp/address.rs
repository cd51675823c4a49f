//! Converts SMPP addresses to phone numbers.

use ringtrue_domain::phone::{self, AddressKind, Country, Msisdn};
use ringtrue_smpp::pdu::{Address, Ton};

/// `None`: the address is not an unambiguous phone number.
pub(super) fn parse_msisdn(address: &Address, country: Option<Country>) -> Option<Msisdn> {
    phone::SmsAddress { text: &address.value, kind: address_kind(address.ton), country }.to_msisdn()
}

fn address_kind(ton: Ton) -> AddressKind {
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
    fn type_of_number_determines_the_format() {
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
            let parsed = parse_msisdn(&address, "GB".parse().ok());
            assert_eq!(parsed.as_ref().map(Msisdn::as_str), expected, "{ton} {value}");
        }
    }
}
