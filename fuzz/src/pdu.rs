//! PDUs of an SMSC and their texts.

use bytes::{Bytes, BytesMut};
use ringtrue_smpp::{
    content::MessageContent,
    esm_class::EsmClass,
    pdu::{
        Address, Bind, BindMode, BindResponseBody, Body, CommandId, CommandStatus, DataSm, EncodeError, Header,
        InvalidPduLength, MAX_PDU_OCTETS, MessageResponseBody, Pdu, Request, ResponseBody, ShortMessage, TlvTag, Tlvs,
        next_frame,
    },
    text::{DataCoding, DefaultAlphabet, encode_text, gsm},
    udh::{self, ConcatenationReference},
};

use crate::{Target, input_reader::InputReader};

/// `pdu::next_frame`, `Pdu::decode` and `Pdu::encode`, `content` and `text`.
pub const PDU: Target = Target { name: "pdu", run, seeds, short_run_inputs: 4_000 };

const COMMANDS: [CommandId; 20] = [
    CommandId::DELIVER_SM,
    CommandId::DATA_SM,
    CommandId::SUBMIT_SM,
    CommandId::BIND_RECEIVER,
    CommandId::BIND_TRANSMITTER,
    CommandId::BIND_TRANSCEIVER,
    CommandId::UNBIND,
    CommandId::ENQUIRE_LINK,
    CommandId::OUTBIND,
    CommandId::ALERT_NOTIFICATION,
    CommandId::GENERIC_NACK,
    CommandId::BIND_RECEIVER_RESP,
    CommandId::BIND_TRANSMITTER_RESP,
    CommandId::BIND_TRANSCEIVER_RESP,
    CommandId::UNBIND_RESP,
    CommandId::ENQUIRE_LINK_RESP,
    CommandId::SUBMIT_SM_RESP,
    CommandId::DELIVER_SM_RESP,
    CommandId::DATA_SM_RESP,
    CommandId(0x0000_0103),
];
const ALPHABETS: [DefaultAlphabet; 3] = [DefaultAlphabet::Gsm0338, DefaultAlphabet::Latin1, DefaultAlphabet::Ascii];

/// Streams, and single bodies after octets that select command, status and sequence number.
fn seeds() -> Vec<Vec<u8>> {
    let (source, destination) = (Address::international("447700900123"), Address::international("447700900999"));
    let message = |data_coding, short_message: &[u8]| ShortMessage {
        source: source.clone(),
        destination: destination.clone(),
        data_coding,
        short_message: short_message.to_vec(),
        ..ShortMessage::default()
    };
    let part = [&udh::encode_concatenation(ConcatenationReference::EightBit(7), 2, 1), &b"VERIFY 7K3Q"[..]].concat();
    let segments = Tlvs::default()
        .with(TlvTag::SAR_MSG_REF_NUM, [0, 7])
        .with(TlvTag::SAR_TOTAL_SEGMENTS, [2])
        .with(TlvTag::SAR_SEGMENT_SEQNUM, [2])
        .with(TlvTag::MESSAGE_PAYLOAD, *b"X9M20D");
    let data = DataSm { source: source.clone(), destination: destination.clone(), tlvs: segments, ..DataSm::default() };
    let bind = Bind { system_id: "ringtrue".to_owned(), password: "secret".to_owned(), ..Bind::default() };
    let response = MessageResponseBody { message_id: "42".to_owned(), tlvs: Tlvs::default() };
    let pdus = [
        Pdu::request(1, Request::Bind(BindMode::Transceiver, bind)),
        Pdu::response(1, CommandStatus::OK, ResponseBody::Bind(BindMode::Transceiver, BindResponseBody::default())),
        Pdu::request(2, Request::DeliverSm(message(DataCoding::DEFAULT, b"VERIFY \x1b\x65 7K3QX9M20D"))),
        Pdu::request(3, Request::DeliverSm(message(DataCoding::UCS2, b"\0V\xd8\x3d\xde\x00\xd8"))),
        Pdu::request(
            4,
            Request::DeliverSm(ShortMessage { esm_class: EsmClass::WITH_UDH, ..message(DataCoding::DEFAULT, &part) }),
        ),
        Pdu::request(5, Request::DataSm(data)),
        Pdu::response(6, CommandStatus::OK, ResponseBody::SubmitSm(response)),
        Pdu::request(7, Request::EnquireLink),
    ];
    let mut stream = BytesMut::new();
    let mut seeds = vec![];
    for (at, pdu) in (0..).zip(&pdus) {
        let start = stream.len();
        pdu.encode(&mut stream).unwrap();
        seeds.push(stream[start..].to_vec());
        let body = &stream[start + 16..];
        seeds.push([&[at, 0, 1][..], body].concat());
        seeds.push([&[0, 0, 1][..], body].concat());
    }
    seeds.push(stream.to_vec());
    seeds
}

fn run(data: &[u8]) {
    let whole = frames(data, data.len().max(1));
    let in_chunks = frames(data, usize::from(data.first().copied().unwrap_or_default() % 16) + 1);
    assert_eq!(whole, in_chunks, "framing depends on the chunk size");
    for (header, body) in whole.0 {
        check_frame(header, &body);
    }

    let mut input = InputReader::new(data);
    let command = input.pick(&COMMANDS);
    let status = CommandStatus(input.octet().into());
    let sequence = input.octet().into();
    check_frame(Header { command, status, sequence }, input.rest());
}

/// PDUs of a stream that arrives in chunks, and its final error.
fn frames(stream: &[u8], chunk_octets: usize) -> (Vec<(Header, Bytes)>, Option<InvalidPduLength>) {
    let mut found = vec![];
    let mut buffer = BytesMut::new();
    for chunk in stream.chunks(chunk_octets) {
        buffer.extend_from_slice(chunk);
        loop {
            match next_frame(&mut buffer, MAX_PDU_OCTETS) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(error) => return (found, Some(error)),
            }
        }
        assert!(buffer.capacity() <= 4 * (MAX_PDU_OCTETS + stream.len()), "buffer exceeds the maximum PDU");
    }
    (found, None)
}

fn check_frame(header: Header, body: &[u8]) {
    let pdu = match Pdu::decode(header, body) {
        Ok(pdu) => pdu,
        Err(error) => {
            assert_eq!(
                (error.command, error.sequence),
                (header.command, header.sequence),
                "the error must identify the PDU"
            );
            assert!(!error.reason.status().is_ok());
            return;
        }
    };
    assert_eq!(pdu.sequence, header.sequence);
    check_round_trip(&pdu, body.len());
    match &pdu.body {
        Body::Request(Request::SubmitSm(message) | Request::DeliverSm(message)) => check_text(&message.content()),
        Body::Request(Request::DataSm(message)) => check_text(&message.content()),
        _ => {}
    }
}

/// A decoded PDU encodes and decodes to itself, except for deviations that only decoding tolerates.
fn check_round_trip(pdu: &Pdu, body_length: usize) {
    let mut written = BytesMut::from(&b"before"[..]);
    if let Err(error) = pdu.encode(&mut written) {
        assert!(
            matches!(error, EncodeError::MessageTooLong { octets: 255 } | EncodeError::InvalidSequenceNumber),
            "{error}"
        );
        assert_eq!(&written[..], b"before", "failed encoding changed the buffer");
        return;
    }
    let mut stream = written.split_off(b"before".len());
    // Encoding adds at most a missing NUL or a missing body.
    assert!(stream.len() <= 16 + body_length + 1);
    let copy = stream.clone();
    let (header, body) = next_frame(&mut stream, MAX_PDU_OCTETS + 16 + 1).unwrap().unwrap();
    assert!(stream.is_empty());
    let again = Pdu::decode(header, &body).unwrap();
    assert_eq!(again, *pdu);
    again.encode(&mut stream).unwrap();
    assert_eq!(stream, copy, "encoding is not deterministic");
}

fn check_text(content: &MessageContent<'_>) {
    for alphabet in ALPHABETS {
        let text = content.decode_text(alphabet);
        assert!(text.chars().count() <= content.octets.len());
        let (data_coding, octets) = encode_text(&text);
        assert_eq!(data_coding.text_coding(DefaultAlphabet::Gsm0338).decode(&octets), text, "text does not round trip");
    }
    let septets = gsm::unpack(content.octets, content.data_coding.0);
    assert!(septets.len() <= content.octets.len() * 8 / 7);
    assert!(septets.iter().all(|septet| *septet < 128));
}
