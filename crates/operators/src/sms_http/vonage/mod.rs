//! Vonage: the SMS API by GET, form or JSON, and the Messages API by JSON.
//!
//! Requests of the SMS API are unsigned unless Vonage's support enables signatures; then `sig` covers all other fields.
//! Requests of the Messages API carry a token that covers the body. Vonage retries for a day until it gets a 2xx.
//!
//! The SMS API delivers the parts of a concatenated message one by one; see [`parts`](super::parts).

mod signature;

use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::{text::DataCoding, udh::Segment};
use serde::Deserialize;
use serde_json::Value;

pub use self::signature::{SigMethod, VonageSignature};
use super::{
    request::{Fields, VendorRequest},
    secret::{decode_hex, digest_parts},
    vendor::{
        InvalidSignature, MalformedRequest, MessagePart, MessageText, VendorMessage, VerifiedSignature, WebhookVendor,
        deserialize_sender,
    },
};

#[derive(Clone, Debug)]
pub struct Vonage {
    pub signature: Option<VonageSignature>,
}

/// Body of the Messages API.
#[derive(Deserialize)]
struct Inbound {
    message_uuid: String,
    channel: String,
    #[serde(default, deserialize_with = "deserialize_sender")]
    from: String,
    to: String,
    #[serde(default)]
    text: String,
}

impl WebhookVendor for Vonage {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        match &self.signature {
            None => Ok(VerifiedSignature::default()),
            Some(signature) => signature.verify(request),
        }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        if request.method == Method::POST && request.is_json() {
            let json = request.json()?;
            if json.get("message_uuid").is_some() {
                return parse_messages_api(json);
            }
        }
        parse_sms_api(&request.fields()?)
    }
}

fn parse_messages_api(json: Value) -> Result<Vec<VendorMessage>, MalformedRequest> {
    // Status reports of outbound messages.
    if json.get("status").is_some() {
        return Ok(vec![]);
    }
    let inbound: Inbound = serde_json::from_value(json).map_err(|_| MalformedRequest)?;
    if inbound.channel != "sms" {
        return Ok(vec![]);
    }
    Ok(vec![VendorMessage {
        id: Some(inbound.message_uuid),
        from: inbound.from,
        to: inbound.to,
        kind: AddressKind::International,
        text: MessageText::Complete(inbound.text),
    }])
}

fn parse_sms_api(fields: &Fields<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    // Status reports of outbound messages.
    if fields.text("status").is_some() && fields.text("type").is_none() {
        return Ok(vec![]);
    }
    let text = match fields.required("type")? {
        "text" | "unicode" => {
            let text = fields.required("text")?;
            let part = |segment| MessagePart { segment, data_coding: DataCoding::OCTETS, octets: text.into() };
            parse_segment(fields)
                .map_or_else(|| MessageText::Complete(text.to_owned()), |segment| MessageText::Part(part(segment)))
        }
        "binary" => {
            let octets = decode_hex(fields.required("data")?).ok_or(MalformedRequest)?;
            let header = decode_hex(fields.text("udh").unwrap_or_default()).ok_or(MalformedRequest)?;
            match parse_segment(fields) {
                Some(segment) => MessageText::Part(MessagePart { segment, data_coding: DataCoding::OCTETS, octets }),
                None => MessageText::from_user_data(&header, DataCoding::OCTETS, octets),
            }
        }
        _ => return Ok(vec![]),
    };
    Ok(vec![VendorMessage {
        id: Some(fields.required("messageId")?.to_owned()),
        from: fields.sender("msisdn")?,
        to: fields.required("to")?.to_owned(),
        kind: AddressKind::International,
        text,
    }])
}

/// References that do not fit 16 bits are hashed: they only need to be equal for all parts.
fn parse_segment(fields: &Fields<'_>) -> Option<Segment> {
    if fields.text("concat") != Some("true") {
        return None;
    }
    let reference = fields.text("concat-ref")?;
    let [high, low, ..] = digest_parts(&[reference.as_bytes()]);
    Some(Segment {
        reference: reference.parse().unwrap_or(u16::from_be_bytes([high, low])),
        total: fields.text("concat-total")?.parse().ok()?,
        sequence: fields.text("concat-part")?.parse().ok()?,
    })
}
