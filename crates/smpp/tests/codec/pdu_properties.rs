use bytes::BytesMut;
use proptest::{collection::vec, prelude::*};
use ringtrue_smpp::{
    esm_class::EsmClass,
    pdu::{
        Address, BindMode, BindResponseBody, Body, CommandStatus, DataSm, DecodeError, MAX_PDU_OCTETS, MalformedBody,
        MessageResponseBody, Npi, Pdu, Request, ResponseBody, ShortMessage, TlvTag, Tlvs, Ton, next_frame,
    },
    text::DataCoding,
};

fn any_text(max: usize) -> impl Strategy<Value = String> {
    vec(1_u8..=255, 0..max).prop_map(|octets| octets.into_iter().map(char::from).collect())
}

fn any_address(max: usize) -> impl Strategy<Value = Address> {
    (any::<u8>(), any::<u8>(), any_text(max)).prop_map(|(ton, npi, value)| Address {
        ton: Ton(ton),
        npi: Npi(npi),
        value,
    })
}

fn any_tlvs() -> impl Strategy<Value = Tlvs> {
    vec((any::<u16>().prop_map(TlvTag), vec(any::<u8>(), 0..40)), 0..4).prop_map(|items| items.into_iter().collect())
}

fn any_message() -> impl Strategy<Value = ShortMessage> {
    let texts = (any_text(6), any_text(17), any_text(17));
    let octets = (any::<[u8; 7]>(), vec(any::<u8>(), 0..=254));
    (texts, any_address(21), any_address(21), octets, any_tlvs()).prop_map(
        |((service_type, schedule_delivery_time, validity_period), source, destination, (flags, text), tlvs)| {
            ShortMessage {
                service_type,
                source,
                destination,
                esm_class: EsmClass(flags[0]),
                protocol_id: flags[1],
                priority_flag: flags[2],
                schedule_delivery_time,
                validity_period,
                registered_delivery: flags[3],
                replace_if_present: flags[4],
                data_coding: DataCoding(flags[5]),
                default_message_id: flags[6],
                short_message: text,
                tlvs,
            }
        },
    )
}

fn any_body() -> impl Strategy<Value = Body> {
    let status = prop_oneof![Just(CommandStatus::OK), any::<u32>().prop_map(CommandStatus)];
    let response =
        || (any_text(65), any_tlvs()).prop_map(|(message_id, tlvs)| MessageResponseBody { message_id, tlvs });
    let response = prop_oneof![
        response().prop_map(ResponseBody::SubmitSm),
        response().prop_map(ResponseBody::DeliverSm),
        response().prop_map(ResponseBody::DataSm),
        (any_text(16), any_tlvs())
            .prop_map(|(system_id, tlvs)| ResponseBody::Bind(BindMode::Receiver, BindResponseBody { system_id, tlvs })),
    ];
    let data = (any_text(6), any_address(65), any_address(65), any::<[u8; 3]>(), any_tlvs()).prop_map(
        |(service_type, source, destination, [class, registered_delivery, coding], tlvs)| DataSm {
            service_type,
            source,
            destination,
            esm_class: EsmClass(class),
            registered_delivery,
            data_coding: DataCoding(coding),
            tlvs,
        },
    );
    prop_oneof![
        any_message().prop_map(|message| Body::Request(Request::DeliverSm(message))),
        any_message().prop_map(|message| Body::Request(Request::SubmitSm(message))),
        data.prop_map(|data| Body::Request(Request::DataSm(data))),
        (status, response).prop_map(|(status, response)| Pdu::response(1, status, response).body),
    ]
}

proptest! {
    #[test]
    fn encoded_pdu_decodes_to_itself(sequence in 1..=0x7FFF_FFFF_u32, body in any_body()) {
        let pdu = Pdu { sequence, body };
        let mut octets = BytesMut::new();
        pdu.encode(&mut octets).unwrap();
        let (header, body) = next_frame(&mut octets, MAX_PDU_OCTETS).unwrap().unwrap();
        prop_assert_eq!(Pdu::decode(header, &body), Ok(pdu));
    }

    #[test]
    fn decoding_any_octets_does_not_panic(command in prop_oneof![0_u32..0x30, 0x100_u32..0x110], response: bool, body in vec(any::<u8>(), 0..300)) {
        let command = if response { command | 0x8000_0000 } else { command };
        let mut frame = BytesMut::new();
        for word in [u32::try_from(body.len() + 16).unwrap(), command, 0, 5] {
            frame.extend_from_slice(&word.to_be_bytes());
        }
        frame.extend_from_slice(&body);
        let (header, body) = next_frame(&mut frame, MAX_PDU_OCTETS).unwrap().unwrap();
        match Pdu::decode(header, &body) {
            Ok(pdu) => prop_assert_eq!(pdu.sequence, 5),
            Err(DecodeError { command: reported, sequence, reason }) => {
                prop_assert_eq!((reported.0, sequence), (command, 5));
                prop_assert!(!matches!(reason, MalformedBody::FieldTooLong(field) if field.max_octets > body.len()));
            }
        }
    }

    #[test]
    fn framing_any_octets_does_not_panic(octets in vec(any::<u8>(), 0..200)) {
        let mut buffer = BytesMut::from(&octets[..]);
        while let Ok(Some((header, body))) = next_frame(&mut buffer, MAX_PDU_OCTETS) {
            drop(Pdu::decode(header, &body));
        }
    }
}
