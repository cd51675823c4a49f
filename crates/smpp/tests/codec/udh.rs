use ringtrue_smpp::{
    pdu::{DataSm, EsmClass, ShortMessage, Tag, Tlvs},
    text::DefaultAlphabet,
    udh::{self, Element, MalformedUdh, Segment},
};

#[test]
fn headers_are_walked_to_their_end() {
    let segment = |reference, total, sequence| Some(Segment { reference, total, sequence });
    let cases: &[(&[u8], Option<Segment>, &[u8])] = &[
        (b"\x05\x00\x03\x2a\x02\x01text", segment(42, 2, 1), b"text"),
        (b"\x06\x08\x04\x12\x34\x02\x02text", segment(0x1234, 2, 2), b"text"),
        // Not first: after port addressing, and after an element without a value.
        (b"\x0b\x05\x04\x0b\x84\x23\xf0\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        (b"\x07\x24\x00\x00\x03\x2a\x03\x02text", segment(42, 3, 2), b"text"),
        // Two of them: the last counts.
        (b"\x0a\x00\x03\x01\x02\x01\x00\x03\x02\x02\x02", segment(2, 2, 2), b""),
        (b"\x06\x05\x04\x0b\x84\x23\xf0text", None, b"text"),
        (b"\x00text", None, b"text"),
    ];
    for (octets, segment, text) in cases {
        let (header, rest) = udh::cut(octets).unwrap();
        assert_eq!((header.segment(), rest), (Ok(*segment), *text));
    }
    let (header, _) = udh::cut(b"\x03\x05\x01\x7f").unwrap();
    assert_eq!(header.elements().collect::<Vec<_>>(), [Ok(Element { id: 5, value: &[0x7F] })]);
}

#[test]
fn bad_headers_are_told_and_the_text_is_kept() {
    let cases: &[(&[u8], MalformedUdh, &[u8])] = &[
        (b"", MalformedUdh::Missing, b""),
        (b"\x09abc", MalformedUdh::Length { said: 9, left: 3 }, b"\x09abc"),
        (b"\x04\x00\x09\x2a\x02text", MalformedUdh::Element { id: 0 }, b"text"),
        (b"\x01\x05text", MalformedUdh::Element { id: 5 }, b"text"),
        (b"\x04\x00\x02\x2a\x02text", MalformedUdh::Element { id: 0 }, b"text"),
    ];
    for (octets, fault, text) in cases {
        let message = ShortMessage {
            esm_class: EsmClass::WITH_HEADER,
            short_message: octets.to_vec(),
            ..ShortMessage::default()
        };
        let content = message.content();
        assert_eq!((content.header_fault, content.octets, content.segment), (Some(*fault), *text, None));
    }
}

#[test]
fn content_is_found_wherever_it_stands() {
    let payload = Tlvs::default().with(Tag::MESSAGE_PAYLOAD, *b"in the payload");
    let sar = Tlvs::default()
        .with(Tag::SAR_MSG_REF_NUM, [0, 9])
        .with(Tag::SAR_TOTAL_SEGMENTS, [2])
        .with(Tag::SAR_SEGMENT_SEQNUM, [1]);
    let segment = Some(Segment { reference: 9, total: 2, sequence: 1 });
    let default = DefaultAlphabet::Gsm0338;

    let message = ShortMessage { tlvs: payload.clone(), ..ShortMessage::default() };
    assert_eq!(message.content().text(default), "in the payload");
    let both = ShortMessage { short_message: b"short".to_vec(), ..message };
    assert_eq!(both.content().text(default), "short");
    let data = DataSm { tlvs: payload, ..DataSm::default() };
    assert_eq!(data.content().text(default), "in the payload");
    assert_eq!(DataSm::default().content().text(default), "");

    let by_tlvs = ShortMessage { short_message: b"part".to_vec(), tlvs: sar, ..ShortMessage::default() };
    assert_eq!((by_tlvs.content().segment, by_tlvs.content().octets), (segment, &b"part"[..]));
    // Octets that look like a header are text unless one was announced.
    let unannounced = ShortMessage { short_message: vec![5, 0, 3, 42, 2, 1], ..ShortMessage::default() };
    assert_eq!(unannounced.content().segment, None);
}
