use std::time::Duration;

use proptest::{collection::vec, prelude::*};
use ringtrue_smpp::{
    esm_class::EsmClass,
    pdu::{Address, DataSm, ShortMessage, TlvTag, Tlvs},
    reassembly::{PartOutcome, Reassembly, ReassemblyLimits},
    text::{DataCoding, DefaultAlphabet, MessagePart, TextCoding, encode_text, gsm, split_text},
    udh::{self, ConcatenationReference, InformationElement, MalformedUdh, Segment},
};

#[test]
fn octets_are_decoded() {
    let gsm = DefaultAlphabet::Gsm0338;
    let cases: &[(u8, DefaultAlphabet, &[u8], &str)] = &[
        (0x00, gsm, b"VERIFY 4F7K2Q", "VERIFY 4F7K2Q"),
        (0x00, gsm, b"\x00\x02\x11\x09\x1e\x20\x7f", "@$_Çß à"),
        (0x00, gsm, b"code \x00 \x1b\x28\x1b\x3c\x1b\x65\x1b\x3e\x1b\x29 \x1b\x3d", "code @ {[€]} ~"),
        (0x00, gsm, b"\x1b\x14\x1b\x2f\x1b\x40\x1b\x0a", "^\\|\u{c}"),
        // An escape before a septet outside the extension table, before another escape, and at the end.
        (0x00, gsm, b"\x1bA\x1b\x1bB\x1b", "A B\u{FFFD}"),
        (0x00, gsm, b"A\x80\xff", "A\u{FFFD}\u{FFFD}"),
        (0x00, DefaultAlphabet::Latin1, b"caf\xe9 @\x00", "café @\0"),
        (0x00, DefaultAlphabet::Ascii, b"caf\xe9 @_", "caf\u{FFFD} @_"),
        (0x01, gsm, b"@_{}\x80", "@_{}\u{FFFD}"),
        (0x03, gsm, b"\xa3 @ \xff", "£ @ ÿ"),
        (0x08, gsm, b"\0V\x27\x13\xd8\x3d\xde\x00", "V✓😀"),
        // A lone high surrogate, a lone low surrogate, and an odd octet.
        (0x08, gsm, b"\xd8\x3d\0A", "\u{FFFD}A"),
        (0x08, gsm, b"\xde\x00\0A", "\u{FFFD}A"),
        (0x08, gsm, b"\0A\0", "A\u{FFFD}"),
        (0x02, gsm, b"plain", "plain"),
        (0x04, gsm, "naïve".as_bytes(), "naïve"),
        (0x04, gsm, b"na\xefve", "naïve"),
        (0xF0, gsm, b"\x00", "@"),
        (0xF1, DefaultAlphabet::Latin1, b"\x00", "@"),
        (0xF5, gsm, b"@", "@"),
        (0x10, gsm, b"\x00", "@"),
        (0x18, gsm, b"\0A", "A"),
        (0x15, gsm, b"@", "@"),
        (0xC8, gsm, b"\x00", "@"),
        (0xE8, gsm, b"\0A", "A"),
        (0x06, gsm, b"A\xb0", "A\u{FFFD}"),
        (0x00, gsm, b"", ""),
    ];
    for (data_coding, default, octets, text) in cases {
        let coding = DataCoding(*data_coding).text_coding(*default);
        assert_eq!(coding.decode(octets), *text, "{data_coding:#x} {octets:x?}");
    }
}

#[test]
fn text_is_encoded() {
    let cases: &[(&str, DataCoding, &[u8])] = &[
        ("@£$ _", DataCoding::DEFAULT, b"\x00\x01\x02 \x11"),
        ("{€}", DataCoding::DEFAULT, b"\x1b\x28\x1b\x65\x1b\x29"),
        ("", DataCoding::DEFAULT, b""),
        ("✓", DataCoding::UCS2, b"\x27\x13"),
        ("ç", DataCoding::UCS2, b"\0\xe7"),
        ("😀", DataCoding::UCS2, b"\xd8\x3d\xde\x00"),
    ];
    for (text, data_coding, octets) in cases {
        assert_eq!(encode_text(text), (*data_coding, octets.to_vec()));
    }
}

#[test]
fn alphabet_names_are_parsed() {
    for (name, alphabet) in
        [("gsm0338", DefaultAlphabet::Gsm0338), ("latin1", DefaultAlphabet::Latin1), ("ascii", DefaultAlphabet::Ascii)]
    {
        assert_eq!(name.parse(), Ok(alphabet));
    }
    assert!("ebcdic".parse::<DefaultAlphabet>().is_err());
}

#[test]
fn packed_septets_are_unpacked() {
    let packed = [0xE8, 0x32, 0x9B, 0xFD, 0x46, 0x97, 0xD9, 0xEC, 0x37];
    assert_eq!(gsm::decode(&gsm::unpack(&packed, 0)), "hellohello");
    // The same septets after one fill bit, as after a UDH of six octets.
    let shifted = [0xD0, 0x65, 0x36, 0xFB, 0x8D, 0x2E, 0xB3, 0xD9, 0x6F];
    assert_eq!(gsm::decode(&gsm::unpack(&shifted, 1)), "hellohello");
    assert!(gsm::unpack(&[], 7).is_empty());
    assert!(gsm::unpack(&[1], 9).is_empty());
}

#[test]
fn texts_are_split_as_by_handsets() {
    let eight = ConcatenationReference::EightBit(7);
    let sixteen = ConcatenationReference::SixteenBit(0x0102);
    let cases = [
        ("a".repeat(160), eight, vec![160]),
        ("a".repeat(161), eight, vec![6 + 153, 6 + 8]),
        ("a".repeat(161), sixteen, vec![7 + 152, 7 + 9]),
        // An escape stays with its character.
        (format!("{}€{}", "a".repeat(152), "b".repeat(10)), eight, vec![6 + 152, 6 + 12]),
        ("✓".repeat(70), eight, vec![140]),
        ("✓".repeat(71), eight, vec![6 + 134, 6 + 8]),
        ("✓".repeat(71), sixteen, vec![7 + 132, 7 + 10]),
        // A surrogate pair stays together.
        (format!("{}😀{}", "✓".repeat(66), "✓".repeat(5)), eight, vec![6 + 132, 6 + 14]),
        (String::new(), eight, vec![0]),
    ];
    for (text, reference, lengths) in cases {
        let parts = split_text(&text, reference).unwrap();
        assert_eq!(parts.iter().map(|part| part.short_message.len()).collect::<Vec<_>>(), lengths, "{text}");
    }
    assert_eq!(split_text(&"a".repeat(153 * 255), eight).unwrap().len(), 255);
    assert_eq!(split_text(&"a".repeat(153 * 255 + 1), eight).unwrap_err().parts, 256);
}

fn any_reference() -> impl Strategy<Value = ConcatenationReference> {
    prop_oneof![
        any::<u8>().prop_map(ConcatenationReference::EightBit),
        any::<u16>().prop_map(ConcatenationReference::SixteenBit)
    ]
}

/// Generates a text and its parts in random order.
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
        prop_assert_eq!(reassembly.incomplete_message_count(), 0);
    }
}

#[test]
fn concatenation_element_is_found() {
    let segment = |reference: u8, total, sequence| {
        Some(Segment { reference: ConcatenationReference::EightBit(reference), total, sequence })
    };
    let sixteen = |reference, total, sequence| {
        Some(Segment { reference: ConcatenationReference::SixteenBit(reference), total, sequence })
    };
    let cases: &[(&[u8], Option<Segment>, &[u8])] = &[
        (b"\x05\x00\x03\x2a\x02\x01text", segment(42, 2, 1), b"text"),
        (b"\x06\x08\x04\x12\x34\x02\x02text", sixteen(0x1234, 2, 2), b"text"),
        (b"\x06\x08\x04\x00\x2a\x02\x02text", sixteen(42, 2, 2), b"text"),
        // The concatenation element is not first: after port addressing, and after an element without a value.
        (b"\x0b\x05\x04\x0b\x84\x23\xf0\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        (b"\x07\x24\x00\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        // The last of two concatenation elements counts.
        (b"\x0a\x00\x03\x01\x02\x01\x00\x03\x02\x02\x02", segment(2, 2, 2), b""),
        (b"\x0b\x00\x03\x01\x02\x01\x08\x04\x00\x01\x02\x02", sixteen(1, 2, 2), b""),
        (b"\x06\x05\x04\x0b\x84\x23\xf0text", None, b"text"),
        (b"\x00text", None, b"text"),
    ];
    for (octets, segment, text) in cases {
        let (header, rest) = udh::split_header(octets).unwrap();
        assert_eq!((header.segment(), rest), (Ok(*segment), *text));
    }
    let (header, _) = udh::split_header(b"\x03\x05\x01\x7f").unwrap();
    assert_eq!(header.elements().collect::<Vec<_>>(), [Ok(InformationElement { id: 5, value: &[0x7F] })]);
}

#[test]
fn malformed_header_is_reported_and_the_text_is_kept() {
    let cases: &[(&[u8], MalformedUdh, &[u8])] = &[
        (b"", MalformedUdh::Missing, b""),
        (b"\x09abc", MalformedUdh::Length { declared: 9, available: 3 }, b"\x09abc"),
        (b"\x04\x00\x09\x2a\x02text", MalformedUdh::Element { id: 0 }, b"text"),
        (b"\x01\x05text", MalformedUdh::Element { id: 5 }, b"text"),
        (b"\x04\x00\x02\x2a\x02text", MalformedUdh::Element { id: 0 }, b"text"),
    ];
    for (octets, error, text) in cases {
        let message =
            ShortMessage { esm_class: EsmClass::WITH_UDH, short_message: octets.to_vec(), ..ShortMessage::default() };
        let content = message.content();
        assert_eq!((content.udh_error, content.octets, content.segment), (Some(*error), *text, None));
    }
}

#[test]
fn content_is_read_from_short_message_and_payload() {
    let payload = Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, *b"in the payload");
    let sar = Tlvs::default()
        .with(TlvTag::SAR_MSG_REF_NUM, [0, 9])
        .with(TlvTag::SAR_TOTAL_SEGMENTS, [2])
        .with(TlvTag::SAR_SEGMENT_SEQNUM, [1]);
    let segment = Some(Segment { reference: ConcatenationReference::SixteenBit(9), total: 2, sequence: 1 });
    let default = DefaultAlphabet::Gsm0338;

    let message = ShortMessage { tlvs: payload.clone(), ..ShortMessage::default() };
    assert_eq!(message.content().decode_text(default), "in the payload");
    let both = ShortMessage { short_message: b"short".to_vec(), ..message };
    assert_eq!(both.content().decode_text(default), "in the payload");
    let emptied = ShortMessage { tlvs: Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, *b""), ..both };
    assert_eq!(emptied.content().decode_text(default), "short");
    let data = DataSm { tlvs: payload, ..DataSm::default() };
    assert_eq!(data.content().decode_text(default), "in the payload");
    assert_eq!(DataSm::default().content().decode_text(default), "");

    let by_tlvs = ShortMessage { short_message: b"part".to_vec(), tlvs: sar, ..ShortMessage::default() };
    assert_eq!((by_tlvs.content().segment, by_tlvs.content().octets), (segment, &b"part"[..]));
    // Without the UDH indicator, octets that look like a UDH are text.
    let unannounced = ShortMessage { short_message: vec![5, 0, 3, 42, 2, 1], ..ShortMessage::default() };
    assert_eq!(unannounced.content().segment, None);
}
