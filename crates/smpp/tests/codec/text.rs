use ringtrue_smpp::text::{ConcatenationReference, DataCoding, DefaultAlphabet, encode_text, gsm, split_text};

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
        // High surrogate, low surrogate, odd octet.
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
