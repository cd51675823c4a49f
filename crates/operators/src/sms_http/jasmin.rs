//! Jasmin: a GET or a form, from its `httpccm` connector.
//!
//! Requests are unsigned. Jasmin accepts only one acknowledgement and resends after any other response, so malformed
//! requests are acknowledged too, and counted. Jasmin joins the parts of concatenated messages.

use http::Method;
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::{DataCoding, DefaultAlphabet, TextCoding};

use super::{
    request::{Fields, VendorRequest, WebhookResponse},
    secret::decode_hex,
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Copy, Debug)]
pub struct Jasmin;

impl WebhookVendor for Jasmin {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn verify_signature(&self, _: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        Ok(VerifiedSignature::default())
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        Ok(vec![VendorMessage {
            id: Some(fields.required("id")?.to_owned()),
            from: fields.sender("from")?,
            to: fields.required("to")?.to_owned(),
            kind: AddressKind::Unknown,
            text: MessageText::Complete(decode_text(&fields)?),
        }])
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::ok("text/plain", "ACK/Jasmin")
    }

    fn malformed_response(&self) -> WebhookResponse {
        self.acknowledgement()
    }
}

/// `content` holds the octets received over SMPP; `binary` holds them in hexadecimal, which proxies do not alter.
fn decode_text(fields: &Fields<'_>) -> Result<String, MalformedRequest> {
    let octets = match fields.text("binary") {
        Some(digits) => decode_hex(digits).ok_or(MalformedRequest)?,
        None => fields.octets("content").ok_or(MalformedRequest)?.to_vec(),
    };
    let coding = match fields.text("coding").filter(|coding| !coding.is_empty()) {
        Some(number) => {
            DataCoding(number.parse().map_err(|_| MalformedRequest)?).text_coding(DefaultAlphabet::default())
        }
        None => TextCoding::Octets,
    };
    Ok(coding.decode(&octets))
}
