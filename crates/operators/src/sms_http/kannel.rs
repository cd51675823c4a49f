//! Kannel: an `sms-service` with a `get-url` or a `post-url`.
//!
//! ```text
//! get-url  = "https://…/{path secret}?from=%p&to=%P&text=%b&coding=%c&charset=%C&id=%I&udh=%u"
//! post-url = "https://…/{path secret}?id=%I"    and    send-sender = true
//! ```
//!
//! Set `max-messages = 0`, and `http-request-retry` above its default of 0, with which Kannel drops a message after one
//! failure. Requests are unsigned. Malformed requests are acknowledged and counted: Kannel would resend them unchanged.
//!
//! Kannel joins the parts of concatenated messages unless configured otherwise; then parts carry `udh`.

use http::{Method, StatusCode, header::CONTENT_TYPE};
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::DataCoding;

use super::{
    request::{VendorRequest, WebhookResponse, decode_percent},
    secret::decode_hex,
    vendor::{InvalidSignature, MalformedRequest, MessageText, VendorMessage, VerifiedSignature, WebhookVendor},
};

#[derive(Clone, Copy, Debug)]
pub struct Kannel;

impl WebhookVendor for Kannel {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn verify_signature(&self, _: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        Ok(VerifiedSignature::default())
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        if request.method == Method::GET { parse_get(request) } else { parse_post(request) }
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::empty(StatusCode::OK)
    }

    fn malformed_response(&self) -> WebhookResponse {
        self.acknowledgement()
    }
}

fn parse_get(request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    let fields = request.query_fields()?;
    let data_coding = data_coding(fields.text("coding"), fields.text("charset"));
    let octets = fields.octets("text").ok_or(MalformedRequest)?.to_vec();
    Ok(vec![VendorMessage {
        id: fields.text("id").filter(|id| !id.is_empty()).map(str::to_owned),
        from: fields.sender("from")?,
        to: fields.required("to")?.to_owned(),
        kind: AddressKind::Unknown,
        text: MessageText::from_user_data(fields.octets("udh").unwrap_or_default(), data_coding, octets),
    }])
}

fn parse_post(request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    let fields = request.query_fields()?;
    let header = |name: &str| request.header(name).ok_or(MalformedRequest);
    let charset = request.header(CONTENT_TYPE).and_then(parse_charset);
    let data_coding = data_coding(request.header("x-kannel-coding"), charset);
    let udh = request.header("x-kannel-udh").unwrap_or_default();
    let udh = decode_hex(udh).or_else(|| decode_percent(udh.as_bytes()).map(Vec::from)).ok_or(MalformedRequest)?;
    Ok(vec![VendorMessage {
        id: fields.text("id").filter(|id| !id.is_empty()).map(str::to_owned),
        from: request.header("x-kannel-from").unwrap_or_default().to_owned(),
        to: header("x-kannel-to")?.to_owned(),
        kind: AddressKind::Unknown,
        text: MessageText::from_user_data(&udh, data_coding, request.body.to_vec()),
    }])
}

/// Prefers `parse_charset`: the numbers of `coding` differ between Kannel versions.
fn data_coding(coding: Option<&str>, charset: Option<&str>) -> DataCoding {
    match charset.map(str::to_ascii_uppercase).as_deref() {
        Some("UTF-16BE" | "UTF-16" | "UCS-2") => DataCoding::UCS2,
        Some("ISO-8859-1" | "WINDOWS-1252" | "LATIN1") => DataCoding::LATIN1,
        Some(charset) if !charset.is_empty() => DataCoding::OCTETS,
        _ if coding == Some("2") => DataCoding::UCS2,
        _ => DataCoding::OCTETS,
    }
}

fn parse_charset(content_type: &str) -> Option<&str> {
    let (_, parameters) = content_type.split_once(';')?;
    let named = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches('"'))
}
