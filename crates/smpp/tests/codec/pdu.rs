use bytes::BytesMut;
use ringtrue_smpp::{
    esm_class::{EsmClass, MessageType},
    pdu::{
        Address, AlertNotification, Bind, BindMode, BindResponseBody, Body, CommandId, CommandStatus, DataSm,
        DecodeError, EncodeError, InvalidPduLength, MAX_PDU_OCTETS, MessageResponseBody, Npi, Outbind, Pdu, Request,
        ResponseBody, ShortMessage, TlvTag, Tlvs, Ton, UnknownPdu, VERSION_5_0, next_frame,
    },
    text::DataCoding,
};

fn octets(hex: &str) -> Vec<u8> {
    let digits: Vec<u8> = hex.bytes().filter(|octet| !octet.is_ascii_whitespace()).collect();
    digits.chunks(2).map(|pair| u8::from_str_radix(str::from_utf8(pair).unwrap(), 16).unwrap()).collect()
}

/// Prepends `command_length` to the rest of a PDU.
fn framed(rest: &str) -> BytesMut {
    let rest = octets(rest);
    let mut frame = BytesMut::from(&u32::try_from(rest.len() + 4).unwrap().to_be_bytes()[..]);
    frame.extend_from_slice(&rest);
    frame
}

fn decode(rest: &str) -> Result<Pdu, DecodeError> {
    let mut frame = framed(rest);
    let (header, body) = next_frame(&mut frame, MAX_PDU_OCTETS).unwrap().unwrap();
    assert!(frame.is_empty());
    Pdu::decode(header, &body)
}

fn encoded(pdu: &Pdu) -> Result<BytesMut, EncodeError> {
    let mut out = BytesMut::new();
    pdu.encode(&mut out).map(|()| out)
}

fn message() -> ShortMessage {
    ShortMessage {
        source: Address::international("447700900001"),
        destination: Address::international("447700900999"),
        short_message: b"VERIFY 4F7K2Q".to_vec(),
        ..ShortMessage::default()
    }
}

/// Encoded fields of `message()` that precede `esm_class`.
const ADDRESSES: &str = "00 0101 34343737303039303030303100 0101 34343737303039303039393900";

/// Checks encoding and decoding of a PDU with sequence number 7.
fn assert_round_trip(pdu: &Pdu, command: &str, status: &str, body: &str) {
    let hex = format!("{command} {status} 00000007 {body}");
    assert_eq!(encoded(pdu).unwrap(), framed(&hex), "{pdu:?}");
    assert_eq!(decode(&hex).unwrap(), *pdu);
}

fn assert_request(request: Request, command: &str, body: &str) {
    assert_round_trip(&Pdu::request(7, request), command, "00000000", body);
}

fn assert_response(status: CommandStatus, response: ResponseBody, command: &str, body: &str) {
    assert_round_trip(&Pdu::response(7, status, response), command, &format!("{:08x}", status.0), body);
}

fn address(ton: Ton, npi: Npi, value: &str) -> Address {
    Address { ton, npi, value: value.into() }
}

#[test]
fn session_operations_round_trip() {
    let bind = Bind {
        system_id: "esme".into(),
        password: "secret".into(),
        system_type: "VMA".into(),
        interface_version: VERSION_5_0,
        addr_ton: Ton::INTERNATIONAL,
        addr_npi: Npi::ISDN,
        address_range: "^44".into(),
    };
    let bind_body = "65736d6500 73656372657400 564d4100 50 01 01 5e343400";
    let version = Tlvs::default().with(TlvTag::SC_INTERFACE_VERSION, [0x34]);
    let response = BindResponseBody { system_id: "smsc".into(), tlvs: version };
    for (mode, command, response_command) in [
        (BindMode::Receiver, "00000001", "80000001"),
        (BindMode::Transmitter, "00000002", "80000002"),
        (BindMode::Transceiver, "00000009", "80000009"),
    ] {
        assert_request(Request::Bind(mode, bind.clone()), command, bind_body);
        assert_response(
            CommandStatus::OK,
            ResponseBody::Bind(mode, response.clone()),
            response_command,
            "736d736300 02100001 34",
        );
        assert_response(
            CommandStatus::INVALID_PASSWORD,
            ResponseBody::Bind(mode, BindResponseBody::default()),
            response_command,
            "",
        );
    }
    assert_request(Request::Unbind, "00000006", "");
    assert_response(CommandStatus::OK, ResponseBody::Unbind, "80000006", "");
    assert_request(Request::EnquireLink, "00000015", "");
    assert_response(CommandStatus::OK, ResponseBody::EnquireLink, "80000015", "");
    assert_response(CommandStatus::INVALID_COMMAND_ID, ResponseBody::GenericNack, "80000000", "");
    let outbind = Outbind { system_id: "smsc".into(), password: "pw".into() };
    assert_request(Request::Outbind(outbind), "0000000b", "736d736300 707700");
    let alert = AlertNotification {
        source: Address::international("44"),
        esme: address(Ton::UNKNOWN, Npi::UNKNOWN, "1"),
        tlvs: Tlvs::default().with(TlvTag::MS_AVAILABILITY_STATUS, [0]),
    };
    assert_request(Request::AlertNotification(alert), "00000102", "0101 343400 0000 3100 04220001 00");
    let query = UnknownPdu { command: CommandId::QUERY_SM, status: CommandStatus::OK, body: vec![0x31, 0, 0, 0, 0] };
    assert_round_trip(&Pdu { sequence: 7, body: Body::Unknown(query) }, "00000003", "00000000", "3100000000");
}

#[test]
fn message_operations_round_trip() {
    let plain = format!("{ADDRESSES} 00 00 00 00 00 00 00 00 00 0d 564552494659203446374b3251");
    assert_request(Request::DeliverSm(message()), "00000005", &plain);
    assert_request(Request::SubmitSm(message()), "00000004", &plain);
    let full = ShortMessage {
        service_type: "WAP".into(),
        esm_class: EsmClass(0x04),
        protocol_id: 1,
        priority_flag: 2,
        schedule_delivery_time: "260101120000000+".into(),
        validity_period: "000001000000000R".into(),
        registered_delivery: 3,
        replace_if_present: 4,
        data_coding: DataCoding::LATIN1,
        default_message_id: 5,
        short_message: vec![],
        tlvs: [(TlvTag::RECEIPTED_MESSAGE_ID, b"123".to_vec()), (TlvTag::MESSAGE_STATE, vec![2])].into_iter().collect(),
        ..message()
    };
    let full_body = format!(
        "57415000 {} 04 01 02 3236303130313132303030303030302b00 3030303030313030303030303030305200 \
         03 04 03 05 00 001e0003 313233 04270001 02",
        &ADDRESSES[3..]
    );
    assert_request(Request::DeliverSm(full), "00000005", &full_body);
    let data = DataSm {
        service_type: "CMT".into(),
        source: address(Ton::ALPHANUMERIC, Npi::UNKNOWN, "EVILBANK"),
        destination: Address::international("447700900999"),
        esm_class: EsmClass::WITH_UDH,
        registered_delivery: 1,
        data_coding: DataCoding::UCS2,
        tlvs: Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, *b"\0H"),
    };
    let data_body = "434d5400 0500 4556494c42414e4b00 0101 34343737303039303039393900 40 01 08 04240002 0048";
    assert_request(Request::DataSm(data), "00000103", data_body);

    let response = |id: &str| MessageResponseBody { message_id: id.into(), tlvs: Tlvs::default() };
    assert_response(CommandStatus::OK, ResponseBody::DeliverSm(response("")), "80000005", "00");
    assert_response(CommandStatus::RECEIVER_TEMPORARY_ERROR, ResponseBody::DeliverSm(response("")), "80000005", "00");
    assert_response(CommandStatus::OK, ResponseBody::SubmitSm(response("ab12")), "80000004", "6162313200");
    assert_response(CommandStatus::THROTTLED, ResponseBody::SubmitSm(response("")), "80000004", "");
    assert_response(CommandStatus::OK, ResponseBody::DataSm(response("9")), "80000103", "3900");
}

#[test]
fn known_deviations_are_tolerated() {
    let empty = MessageResponseBody::default();
    let tolerated = [
        // The body is missing, with any status.
        ("80000005 00000000 00000001", ResponseBody::DeliverSm(empty.clone())),
        ("80000004 00000000 00000001", ResponseBody::SubmitSm(empty)),
        ("80000009 00000000 00000001", ResponseBody::Bind(BindMode::Transceiver, BindResponseBody::default())),
        // The final NUL is missing.
        (
            "80000004 00000000 00000001 6162",
            ResponseBody::SubmitSm(MessageResponseBody { message_id: "ab".into(), tlvs: Tlvs::default() }),
        ),
        // Octets follow an operation that has no body.
        ("80000015 00000000 00000001 00", ResponseBody::EnquireLink),
    ];
    for (hex, response) in tolerated {
        assert_eq!(decode(hex), Ok(Pdu::response(1, CommandStatus::OK, response)), "{hex}");
    }
    let unterminated = decode("0000000b 00000000 00000001 736d736300 7077").unwrap();
    let outbind = Outbind { system_id: "smsc".into(), password: "pw".into() };
    assert_eq!(unterminated, Pdu::request(1, Request::Outbind(outbind)));
    // The status of a request is ignored.
    assert_eq!(decode("00000015 00000008 00000001"), Ok(Pdu::request(1, Request::EnquireLink)));
}

#[test]
fn decode_error_has_sequence_number_and_status() {
    let deliver = |rest: &str| format!("00000005 00000000 0000002a {rest}");
    let cases = [
        (deliver(""), "body ends before service_type", CommandStatus::INVALID_COMMAND_LENGTH),
        (deliver("00 01"), "body ends before source_addr", CommandStatus::INVALID_COMMAND_LENGTH),
        (deliver(ADDRESSES), "body ends before esm_class", CommandStatus::INVALID_COMMAND_LENGTH),
        (
            deliver("414243444546"),
            "service_type is not terminated within 6 octets",
            CommandStatus::INVALID_SERVICE_TYPE,
        ),
        (
            deliver(&format!("00 0101 {} 00", "34".repeat(21))),
            "source_addr is not terminated within 21 octets",
            CommandStatus::INVALID_SOURCE_ADDRESS,
        ),
        (
            deliver(&format!("00 0101 00 0101 {} 00", "34".repeat(21))),
            "destination_addr is not terminated within 21 octets",
            CommandStatus::INVALID_DESTINATION_ADDRESS,
        ),
        (
            deliver(&format!("{ADDRESSES} 00 00 00 00 00 00 00 00 00 05 3132")),
            "sm_length is 5, but 2 octets remain",
            CommandStatus::INVALID_MESSAGE_LENGTH,
        ),
        (
            deliver(&format!("{ADDRESSES} 00 00 00 00 00 00 00 00 00 00 0424")),
            "2 trailing octets after the last TLV",
            CommandStatus::INVALID_TLV_STREAM,
        ),
        (
            deliver(&format!("{ADDRESSES} 00 00 00 00 00 00 00 00 00 00 0424 0003 4142")),
            "length of message_payload is 3, but 2 octets remain",
            CommandStatus::INVALID_TLV_STREAM,
        ),
    ];
    for (hex, text, status) in cases {
        let error = decode(&hex).unwrap_err();
        assert_eq!((error.command, error.sequence), (CommandId::DELIVER_SM, 42));
        assert_eq!((error.reason.to_string().as_str(), error.reason.status()), (text, status));
    }
}

#[test]
fn only_an_invalid_length_is_fatal() {
    for (length, is_invalid) in [(0, true), (15, true), (16, false), (65_536, false), (65_537, true), (u32::MAX, true)]
    {
        let mut buffer = BytesMut::from(&length.to_be_bytes()[..]);
        let octets = usize::try_from(length).unwrap();
        let expected = if is_invalid { Err(InvalidPduLength { octets, max: MAX_PDU_OCTETS }) } else { Ok(None) };
        assert_eq!(next_frame(&mut buffer, MAX_PDU_OCTETS), expected);
    }
    // An incomplete PDU stays in the buffer, and so do the octets after a complete one.
    let whole = framed("00000015 00000000 00000001");
    let mut buffer = BytesMut::new();
    for (at, octet) in whole.iter().enumerate() {
        assert_eq!(next_frame(&mut buffer, MAX_PDU_OCTETS), Ok(None), "after {at} octets");
        buffer.extend_from_slice(&[*octet]);
    }
    buffer.extend_from_slice(&[1, 2]);
    assert!(next_frame(&mut buffer, MAX_PDU_OCTETS).unwrap().is_some());
    assert_eq!(&buffer[..], [1, 2]);
}

#[test]
fn failed_encoding_leaves_the_buffer_unchanged() {
    let deliver = |message| Pdu::request(1, Request::DeliverSm(message));
    let with_source = |value: &str| deliver(ShortMessage { source: Address::international(value), ..message() });
    let cases = [
        (with_source(&"4".repeat(21)), "source_addr exceeds 20 octets"),
        (with_source("44\0"), "source_addr contains a NUL or a character outside Latin-1"),
        (with_source("４４"), "source_addr contains a NUL or a character outside Latin-1"),
        (
            deliver(ShortMessage { short_message: vec![0; 255], ..message() }),
            "short_message has 255 octets, the maximum is 254; use message_payload",
        ),
        (
            deliver(ShortMessage { tlvs: Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, vec![0; 65_536]), ..message() }),
            "message_payload has 65536 octets, the maximum of a TLV is 65535",
        ),
        (Pdu::request(0, Request::Unbind), "invalid sequence_number of a request: must be 1 to 0x7fffffff"),
    ];
    for (pdu, text) in cases {
        let mut out = BytesMut::from(&b"before"[..]);
        assert_eq!(pdu.encode(&mut out).unwrap_err().to_string(), text);
        assert_eq!(&out[..], b"before");
    }
}

#[test]
fn esm_class_flags_are_decoded() {
    let cases = [
        (0x00, MessageType::Ordinary, false, false),
        (0x40, MessageType::Ordinary, true, false),
        (0xC3, MessageType::Ordinary, true, true),
        (0x04, MessageType::DeliveryReceipt, false, false),
        (0x44, MessageType::DeliveryReceipt, true, false),
        (0x08, MessageType::SmeAcknowledgement, false, false),
        (0x10, MessageType::UserAcknowledgement, false, false),
        (0x18, MessageType::ConversationAbort, false, false),
        (0x20, MessageType::IntermediateNotification, false, false),
        (0x0C, MessageType::Reserved, false, false),
    ];
    for (octet, kind, header, reply_path) in cases {
        let class = EsmClass(octet);
        assert_eq!((class.message_type(), class.has_udh(), class.has_reply_path()), (kind, header, reply_path));
    }
}

#[test]
fn tlv_getters_read_by_tag() {
    let tlvs = Tlvs::default()
        .with(TlvTag(0x1400), *b"vendor")
        .with(TlvTag::SAR_MSG_REF_NUM, [0x12, 0x34])
        .with(TlvTag::SAR_TOTAL_SEGMENTS, [3])
        .with(TlvTag::SAR_SEGMENT_SEQNUM, [2])
        .with(TlvTag::USER_MESSAGE_REFERENCE, [77])
        .with(TlvTag::RECEIPTED_MESSAGE_ID, *b"123\0")
        .with(TlvTag::MESSAGE_STATE, [2])
        .with(TlvTag::SOURCE_NETWORK_TYPE, [1, 1])
        .with(TlvTag::MESSAGE_PAYLOAD, *b"first")
        .with(TlvTag::MESSAGE_PAYLOAD, *b"second");
    assert_eq!(tlvs.iter().next().unwrap().tag, TlvTag(0x1400));
    assert_eq!(tlvs.sar_msg_ref_num(), Some(0x1234));
    assert_eq!((tlvs.sar_total_segments(), tlvs.sar_segment_seqnum()), (Some(3), Some(2)));
    assert_eq!(tlvs.user_message_reference(), Some(77), "one octet is accepted");
    assert_eq!(tlvs.receipted_message_id().as_deref(), Some("123"));
    assert_eq!(tlvs.message_state(), Some(2));
    assert_eq!(tlvs.source_network_type(), None, "two octets are too many");
    assert_eq!(tlvs.sc_interface_version(), None);
    assert_eq!(tlvs.message_payload(), Some(&b"first"[..]));
}

#[test]
fn debug_hides_private_values() {
    let bind = Bind { system_id: "esme".into(), password: "hunter2".into(), ..Bind::default() };
    let payload = Tlvs::default().with(TlvTag::MESSAGE_PAYLOAD, *b"VERIFY");
    let shown = format!(
        "{:?} {:?} {:?} {:?}",
        Request::Bind(BindMode::Receiver, bind),
        Request::DeliverSm(ShortMessage { tlvs: payload, ..message() }),
        Outbind { system_id: "smsc".into(), password: "hunter2".into() },
        UnknownPdu { command: CommandId(9), status: CommandStatus::OK, body: b"VERIFY".to_vec() },
    );
    for secret in ["hunter2", "447700900001", "VERIFY", "86, 69, 82"] {
        assert!(!shown.contains(secret), "{secret} in {shown}");
    }
    assert!(shown.contains("esme") && shown.contains("Address(international/isdn, 12 octets)"), "{shown}");
    assert_eq!(CommandStatus::RECEIVER_TEMPORARY_ERROR.to_string(), "ESME_RX_T_APPN");
    assert_eq!(CommandId(0x111).to_string(), "0x111");
}
