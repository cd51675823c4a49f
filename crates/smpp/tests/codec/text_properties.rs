use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use ringtrue_smpp::{
    pdu::{Address, EsmClass, ShortMessage},
    reassembly::{Limits, Outcome, Reassembly},
    text::{Coding, DataCoding, DefaultAlphabet, Part, Reference, encode, gsm, split},
};

fn any_reference() -> impl Strategy<Value = Reference> {
    prop_oneof![any::<u8>().prop_map(Reference::Eight), any::<u16>().prop_map(Reference::Sixteen)]
}

/// A text and its parts, shuffled.
fn text_in_parts() -> impl Strategy<Value = (String, Vec<Part>)> {
    let text = prop_oneof!["[a-zA-Z0-9 €{}@é]{1,900}", "[a-z ✓é😀]{1,600}"];
    (text, any_reference()).prop_flat_map(|(text, reference)| {
        let parts = split(&text, reference).unwrap();
        (Just(text), Just(parts).prop_shuffle())
    })
}

fn message(part: &Part) -> ShortMessage {
    ShortMessage {
        esm_class: part.esm_class,
        data_coding: part.data_coding,
        short_message: part.short_message.clone(),
        ..ShortMessage::default()
    }
}

proptest! {
    #[test]
    fn any_text_comes_back(text in any::<String>()) {
        let (data_coding, octets) = encode(&text);
        prop_assert_eq!(data_coding.coding(DefaultAlphabet::Gsm0338).decode(&octets), text);
    }

    #[test]
    fn the_default_alphabet_comes_back(septets in vec(0_u8..128, 0..200)) {
        let text = gsm::decode(&septets);
        if !text.contains(char::REPLACEMENT_CHARACTER) {
            prop_assert_eq!(gsm::decode(&gsm::encode(&text).unwrap()), text);
        }
    }

    #[test]
    fn no_octets_break_a_coding(data_coding: u8, header: bool, octets in vec(any::<u8>(), 0..200)) {
        let esm_class = if header { EsmClass::WITH_HEADER } else { EsmClass::default() };
        let message = ShortMessage {
            esm_class,
            data_coding: DataCoding(data_coding),
            short_message: octets.clone(),
            ..ShortMessage::default()
        };
        let content = message.content();
        prop_assert!(content.octets.len() <= octets.len());
        let text = content.text(DefaultAlphabet::Gsm0338);
        prop_assert!(text.chars().count() <= content.octets.len());
        prop_assert!(Coding::Gsm.decode(&gsm::unpack(&octets, data_coding)).chars().count() <= octets.len() * 8 / 7);
    }

    #[test]
    fn a_text_in_parts_comes_back_in_any_order(
        (text, parts) in text_in_parts(),
    ) {
        let count = parts.len();
        let mut reassembly = Reassembly::new(Limits::default());
        let address = Address::international("1");
        let mut came_back = None;
        for part in &parts {
            let message = message(part);
            let content = message.content();
            prop_assert_eq!(content.header_fault, None);
            let Some(segment) = content.segment else {
                prop_assert_eq!(count, 1);
                came_back = Some(content.text(DefaultAlphabet::Gsm0338));
                break;
            };
            match reassembly.add(&address, &address, segment, &content, Duration::ZERO).unwrap() {
                Outcome::Complete(message) => came_back = Some(message.text(DefaultAlphabet::Gsm0338)),
                Outcome::Held { .. } => prop_assert_eq!(came_back.as_deref(), None),
                Outcome::Duplicate => prop_assert!(false, "nothing was sent twice"),
            }
        }
        prop_assert_eq!(came_back.as_deref(), Some(text.as_str()));
        prop_assert_eq!(reassembly.open_messages(), 0);
    }
}
