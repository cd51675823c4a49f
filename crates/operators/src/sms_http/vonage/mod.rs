//! Vonage: its SMS API by GET, form or JSON, and its Messages API by JSON.
//!
//! Requests of the SMS API are unsigned unless Vonage's support switches it on; then `sig` covers all other fields.
//! Those of the Messages API carry a token that covers the body. Vonage calls again for a day until it gets a 2xx.
//!
//! The SMS API hands the parts of a longer message over one by one; see [`parts`](super::parts).

mod signature;

use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::{text::DataCoding, udh::Segment};
use serde::Deserialize;
use serde_json::Value;

pub use self::signature::{SigMethod, VonageSignature};
use super::{
    request::{Fields, Request},
    secret::{digest, hex},
    vendor::{Forged, Message, Part, Proof, Text, Unreadable, Vendor, sender},
};

#[derive(Clone, Debug)]
pub struct Vonage {
    pub signature: Option<VonageSignature>,
}

/// What the Messages API calls with.
#[derive(Deserialize)]
struct Inbound {
    message_uuid: String,
    channel: String,
    #[serde(default, deserialize_with = "sender")]
    from: String,
    to: String,
    #[serde(default)]
    text: String,
}

impl Vendor for Vonage {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn authenticate(&self, request: &Request<'_>) -> Result<Proof, Forged> {
        match &self.signature {
            None => Ok(Proof::default()),
            Some(signature) => signature.check(request),
        }
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        if request.method == Method::POST && request.is_json() {
            let json = request.json()?;
            if json.get("message_uuid").is_some() {
                return of_messages_api(json);
            }
        }
        of_sms_api(&request.fields()?)
    }
}

fn of_messages_api(json: Value) -> Result<Vec<Message>, Unreadable> {
    // The states of messages that we would have sent.
    if json.get("status").is_some() {
        return Ok(vec![]);
    }
    let inbound: Inbound = serde_json::from_value(json).map_err(|_| Unreadable)?;
    if inbound.channel != "sms" {
        return Ok(vec![]);
    }
    Ok(vec![Message {
        id: Some(inbound.message_uuid),
        from: inbound.from,
        to: inbound.to,
        kind: AddressKind::International,
        text: Text::Whole(inbound.text),
    }])
}

fn of_sms_api(fields: &Fields<'_>) -> Result<Vec<Message>, Unreadable> {
    // The states of messages that we would have sent.
    if fields.text("status").is_some() && fields.text("type").is_none() {
        return Ok(vec![]);
    }
    let text = match fields.required("type")? {
        "text" | "unicode" => {
            let text = fields.required("text")?;
            let part = |segment| Part { segment, data_coding: DataCoding::OCTETS, octets: text.into() };
            segment(fields).map_or_else(|| Text::Whole(text.to_owned()), |segment| Text::Part(part(segment)))
        }
        "binary" => {
            let octets = hex(fields.required("data")?).ok_or(Unreadable)?;
            let header = hex(fields.text("udh").unwrap_or_default()).ok_or(Unreadable)?;
            match segment(fields) {
                Some(segment) => Text::Part(Part { segment, data_coding: DataCoding::OCTETS, octets }),
                None => Text::with_header(&header, DataCoding::OCTETS, octets),
            }
        }
        _ => return Ok(vec![]),
    };
    Ok(vec![Message {
        id: Some(fields.required("messageId")?.to_owned()),
        from: fields.sender("msisdn")?,
        to: fields.required("to")?.to_owned(),
        kind: AddressKind::International,
        text,
    }])
}

/// Which part it is. A reference that is no small number is still the same for all parts.
fn segment(fields: &Fields<'_>) -> Option<Segment> {
    if fields.text("concat") != Some("true") {
        return None;
    }
    let reference = fields.text("concat-ref")?;
    let [high, low, ..] = digest(&[reference.as_bytes()]);
    Some(Segment {
        reference: reference.parse().unwrap_or(u16::from_be_bytes([high, low])),
        total: fields.text("concat-total")?.parse().ok()?,
        sequence: fields.text("concat-part")?.parse().ok()?,
    })
}
