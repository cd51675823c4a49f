//! What a message centre sends: PDUs in a stream, and the texts in them.

use bytes::{Bytes, BytesMut};
use ringtrue_smpp::{
    content::Content,
    pdu::{
        Address, Bind, BindMode, BindReply, Body, CommandId, CommandStatus, DataSm, EncodeError, EsmClass, Header,
        ImpossibleLength, MAX_PDU, MessageReply, Pdu, Reply, Request, ShortMessage, Tag, Tlvs, next,
    },
    text::{DataCoding, DefaultAlphabet, Reference, encode, gsm},
    udh,
};

use crate::{Target, tape::Tape};

/// `pdu::next`, `Pdu::decode` and `Pdu::encode`, `content` and `text`.
pub const PDU: Target = Target { name: "pdu", run, seeds, short_run: 4_000 };

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

/// Streams, and single bodies behind the octets that choose their command, status and sequence number.
fn seeds() -> Vec<Vec<u8>> {
    let (source, destination) = (Address::international("447700900123"), Address::international("447700900999"));
    let message = |data_coding, short_message: &[u8]| ShortMessage {
        source: source.clone(),
        destination: destination.clone(),
        data_coding,
        short_message: short_message.to_vec(),
        ..ShortMessage::default()
    };
    let part = [&udh::concatenation(Reference::Eight(7), 2, 1), &b"VERIFY 7K3Q"[..]].concat();
    let segments = Tlvs::default()
        .with(Tag::SAR_MSG_REF_NUM, [0, 7])
        .with(Tag::SAR_TOTAL_SEGMENTS, [2])
        .with(Tag::SAR_SEGMENT_SEQNUM, [2])
        .with(Tag::MESSAGE_PAYLOAD, *b"X9M20D");
    let data = DataSm { source: source.clone(), destination: destination.clone(), tlvs: segments, ..DataSm::default() };
    let bind = Bind { system_id: "ringtrue".to_owned(), password: "secret".to_owned(), ..Bind::default() };
    let reply = MessageReply { message_id: "42".to_owned(), tlvs: Tlvs::default() };
    let pdus = [
        Pdu::request(1, Request::Bind(BindMode::Transceiver, bind)),
        Pdu::response(1, CommandStatus::OK, Reply::Bind(BindMode::Transceiver, BindReply::default())),
        Pdu::request(2, Request::DeliverSm(message(DataCoding::DEFAULT, b"VERIFY \x1b\x65 7K3QX9M20D"))),
        Pdu::request(3, Request::DeliverSm(message(DataCoding::UCS2, b"\0V\xd8\x3d\xde\x00\xd8"))),
        Pdu::request(
            4,
            Request::DeliverSm(ShortMessage {
                esm_class: EsmClass::WITH_HEADER,
                ..message(DataCoding::DEFAULT, &part)
            }),
        ),
        Pdu::request(5, Request::DataSm(data)),
        Pdu::response(6, CommandStatus::OK, Reply::SubmitSm(reply)),
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
    let in_pieces = frames(data, usize::from(data.first().copied().unwrap_or_default() % 16) + 1);
    assert_eq!(whole, in_pieces, "how octets arrive does not matter");
    for (header, body) in whole.0 {
        check(header, &body);
    }

    let mut tape = Tape::new(data);
    let command = tape.pick(&COMMANDS);
    let status = CommandStatus(tape.octet().into());
    let sequence = tape.octet().into();
    check(Header { command, status, sequence }, tape.rest());
}

/// All PDUs of a stream whose octets arrive so many at a time, and what ended it.
fn frames(stream: &[u8], at_a_time: usize) -> (Vec<(Header, Bytes)>, Option<ImpossibleLength>) {
    let mut found = vec![];
    let mut buffer = BytesMut::new();
    for arrived in stream.chunks(at_a_time) {
        buffer.extend_from_slice(arrived);
        loop {
            match next(&mut buffer, MAX_PDU) {
                Ok(Some(frame)) => found.push(frame),
                Ok(None) => break,
                Err(impossible) => return (found, Some(impossible)),
            }
        }
        assert!(buffer.capacity() <= 4 * (MAX_PDU + stream.len()), "a length alone takes no more room than a PDU");
    }
    (found, None)
}

fn check(header: Header, body: &[u8]) {
    let pdu = match Pdu::decode(header, body) {
        Ok(pdu) => pdu,
        Err(error) => {
            assert_eq!((error.command, error.sequence), (header.command, header.sequence), "it can be answered");
            assert!(!error.what.status().is_ok());
            return;
        }
    };
    assert_eq!(pdu.sequence, header.sequence);
    comes_back(&pdu, body.len());
    match &pdu.body {
        Body::Request(Request::SubmitSm(message) | Request::DeliverSm(message)) => says_something(&message.content()),
        Body::Request(Request::DataSm(message)) => says_something(&message.content()),
        _ => {}
    }
}

/// What was read can be written, and is read as the same; only what is no PDU of ours cannot.
fn comes_back(pdu: &Pdu, body_length: usize) {
    let mut written = BytesMut::from(&b"before"[..]);
    if let Err(error) = pdu.encode(&mut written) {
        assert!(matches!(error, EncodeError::MessageTooLong { octets: 255 } | EncodeError::Sequence), "{error}");
        assert_eq!(&written[..], b"before", "a failure leaves nothing behind");
        return;
    }
    let mut stream = written.split_off(b"before".len());
    // A NUL that was forgotten at the end of a field, or a body that was left out, is all that is added.
    assert!(stream.len() <= 16 + body_length + 1);
    let copy = stream.clone();
    let (header, body) = next(&mut stream, MAX_PDU + 16 + 1).unwrap().unwrap();
    assert!(stream.is_empty());
    let again = Pdu::decode(header, &body).unwrap();
    assert_eq!(again, *pdu);
    again.encode(&mut stream).unwrap();
    assert_eq!(stream, copy, "writing is exact");
}

fn says_something(content: &Content<'_>) {
    for alphabet in ALPHABETS {
        let text = content.text(alphabet);
        assert!(text.chars().count() <= content.octets.len());
        let (data_coding, octets) = encode(&text);
        assert_eq!(data_coding.coding(DefaultAlphabet::Gsm0338).decode(&octets), text, "any text can be written");
    }
    let septets = gsm::unpack(content.octets, content.data_coding.0);
    assert!(septets.len() <= content.octets.len() * 8 / 7);
    assert!(septets.iter().all(|septet| *septet < 128));
}
