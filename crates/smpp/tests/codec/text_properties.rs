use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use ringtrue_smpp::{
    pdu::{Address, EsmClass, ShortMessage},
    reassembly::{PartOutcome, Reassembly, ReassemblyLimits},
    text::{
        ConcatenationReference, DataCoding, DefaultAlphabet, MessagePart, TextCoding, encode_text, gsm, split_text,
    },
};

fn any_reference() -> impl Strategy<Value = ConcatenationReference> {
    prop_oneof![
        any::<u8>().prop_map(ConcatenationReference::EightBit),
        any::<u16>().prop_map(ConcatenationReference::SixteenBit)
    ]
}

/// A text and its shuffled parts.
fn text_in_parts() -> impl Strategy<Value = (String, Vec<MessagePart>)> {
    let text = prop_oneof!["[a-zA-Z0-9 €{}@é]{1,900}", "[a-z ✓é😀]{1,600}"];
    (text, any_reference()).prop_flat_map(|(text, reference)| {
        let parts = split_text(&text, reference).unwrap();
        (Just(text), Just(parts).prop_shuffle())
    })
}

fn message(part: &MessagePart) -> ShortMessage {
    ShortMessage {
        esm_class: part.esm_class,
        data_coding: part.data_coding,
        short_message: part.short_message.clone(),
        ..ShortMessage::default()
    }
}

proptest! {
    #[test]
    fn any_text_round_trips(text in any::<String>()) {
        let (data_coding, octets) = encode_text(&text);
        prop_assert_eq!(data_coding.text_coding(DefaultAlphabet::Gsm0338).decode(&octets), text);
    }

    #[test]
    fn default_alphabet_round_trips(septets in vec(0_u8..128, 0..200)) {
        let text = gsm::decode(&septets);
        if !text.contains(char::REPLACEMENT_CHARACTER) {
            prop_assert_eq!(gsm::decode(&gsm::encode(&text).unwrap()), text);
        }
    }

    #[test]
    fn decoding_any_octets_does_not_panic(data_coding: u8, header: bool, octets in vec(any::<u8>(), 0..200)) {
        let esm_class = if header { EsmClass::WITH_UDH } else { EsmClass::default() };
        let message = ShortMessage {
            esm_class,
            data_coding: DataCoding(data_coding),
            short_message: octets.clone(),
            ..ShortMessage::default()
        };
        let content = message.content();
        prop_assert!(content.octets.len() <= octets.len());
        let text = content.decode_text(DefaultAlphabet::Gsm0338);
        prop_assert!(text.chars().count() <= content.octets.len());
        prop_assert!(TextCoding::Gsm.decode(&gsm::unpack(&octets, data_coding)).chars().count() <= octets.len() * 8 / 7);
    }

    #[test]
    fn reordered_parts_are_reassembled(
        (text, parts) in text_in_parts(),
    ) {
        let count = parts.len();
        let mut reassembly = Reassembly::new(ReassemblyLimits::default());
        let address = Address::international("1");
        let mut reassembled = None;
        for part in &parts {
            let message = message(part);
            let content = message.content();
            prop_assert_eq!(content.udh_error, None);
            let Some(segment) = content.segment else {
                prop_assert_eq!(count, 1);
                reassembled = Some(content.decode_text(DefaultAlphabet::Gsm0338));
                break;
            };
            match reassembly.add(&address, &address, segment, &content, Duration::ZERO).unwrap() {
                PartOutcome::Complete(message) => reassembled = Some(message.decode_text(DefaultAlphabet::Gsm0338)),
                PartOutcome::Stored { .. } => prop_assert_eq!(reassembled.as_deref(), None),
                PartOutcome::Duplicate => prop_assert!(false, "no part is repeated"),
            }
        }
        prop_assert_eq!(reassembled.as_deref(), Some(text.as_str()));
        prop_assert_eq!(reassembly.message_count(), 0);
    }
}
