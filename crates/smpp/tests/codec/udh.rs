use ringtrue_smpp::{
    pdu::{DataSm, EsmClass, ShortMessage, TlvTag, Tlvs},
    text::DefaultAlphabet,
    udh::{self, InformationElement, MalformedUdh, Segment},
};

#[test]
fn concatenation_element_is_found() {
    let segment = |reference, total, sequence| Some(Segment { reference, total, sequence });
    let cases: &[(&[u8], Option<Segment>, &[u8])] = &[
        (b"\x05\x00\x03\x2a\x02\x01text", segment(42, 2, 1), b"text"),
        (b"\x06\x08\x04\x12\x34\x02\x02text", segment(0x1234, 2, 2), b"text"),
        // Not first: after port addressing, and after an element without a value.
        (b"\x0b\x05\x04\x0b\x84\x23\xf0\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        (b"\x07\x24\x00\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        // The last of two counts.
        (b"\x0a\x00\x03\x01\x02\x01\x00\x03\x02\x02\x02", segment(2, 2, 2), b""),
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
    let segment = Some(Segment { reference: 9, total: 2, sequence: 1 });
    let default = DefaultAlphabet::Gsm0338;

    let message = ShortMessage { tlvs: payload.clone(), ..ShortMessage::default() };
    assert_eq!(message.content().decode_text(default), "in the payload");
    let both = ShortMessage { short_message: b"short".to_vec(), ..message };
    assert_eq!(both.content().decode_text(default), "short");
    let data = DataSm { tlvs: payload, ..DataSm::default() };
    assert_eq!(data.content().decode_text(default), "in the payload");
    assert_eq!(DataSm::default().content().decode_text(default), "");

    let by_tlvs = ShortMessage { short_message: b"part".to_vec(), tlvs: sar, ..ShortMessage::default() };
    assert_eq!((by_tlvs.content().segment, by_tlvs.content().octets), (segment, &b"part"[..]));
    // Without the UDH indicator, octets that look like a UDH are text.
    let unannounced = ShortMessage { short_message: vec![5, 0, 3, 42, 2, 1], ..ShortMessage::default() };
    assert_eq!(unannounced.content().segment, None);
}
