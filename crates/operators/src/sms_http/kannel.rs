//! Kannel: an `sms-service` with a `get-url` or a `post-url`.
//!
//! ```text
//! get-url  = "https://…/{path secret}?from=%p&to=%P&text=%b&coding=%c&charset=%C&id=%I&udh=%u"
//! post-url = "https://…/{path secret}?id=%I"    and    send-sender = true
//! ```
//!
//! With `max-messages = 0`, and with `http-request-retry` above its default of 0, without which Kannel forgets a
//! message after one failure. Nothing is signed. What cannot be read is acknowledged, and counted: Kannel would bring
//! it again unchanged.
//!
//! Kannel puts longer messages together unless it is told otherwise; then their parts come with `udh`.

use http::{Method, StatusCode, header::CONTENT_TYPE};
use ringtrue_domain::phone::AddressKind;
use ringtrue_smpp::text::DataCoding;

use super::{
    request::{Reply, Request, unescape},
    secret::hex,
    vendor::{Forged, Message, Proof, Text, Unreadable, Vendor},
};

#[derive(Clone, Copy, Debug)]
pub struct Kannel;

impl Vendor for Kannel {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn authenticate(&self, _: &Request<'_>) -> Result<Proof, Forged> {
        Ok(Proof::default())
    }

    fn read(&self, request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
        if request.method == Method::GET { of_get(request) } else { of_post(request) }
    }

    fn acknowledgement(&self) -> Reply {
        Reply::empty(StatusCode::OK)
    }

    fn dismissal(&self) -> Reply {
        self.acknowledgement()
    }
}

fn of_get(request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
    let fields = request.query_fields()?;
    let data_coding = data_coding(fields.text("coding"), fields.text("charset"));
    let octets = fields.octets("text").ok_or(Unreadable)?.to_vec();
    Ok(vec![Message {
        id: fields.text("id").filter(|id| !id.is_empty()).map(str::to_owned),
        from: fields.sender("from")?,
        to: fields.required("to")?.to_owned(),
        kind: AddressKind::Unknown,
        text: Text::with_header(fields.octets("udh").unwrap_or_default(), data_coding, octets),
    }])
}

fn of_post(request: &Request<'_>) -> Result<Vec<Message>, Unreadable> {
    let fields = request.query_fields()?;
    let header = |name: &str| request.header(name).ok_or(Unreadable);
    let charset = request.header(CONTENT_TYPE).and_then(charset);
    let data_coding = data_coding(request.header("x-kannel-coding"), charset);
    let udh = request.header("x-kannel-udh").unwrap_or_default();
    let udh = hex(udh).or_else(|| unescape(udh.as_bytes()).map(Vec::from)).ok_or(Unreadable)?;
    Ok(vec![Message {
        id: fields.text("id").filter(|id| !id.is_empty()).map(str::to_owned),
        from: request.header("x-kannel-from").unwrap_or_default().to_owned(),
        to: header("x-kannel-to")?.to_owned(),
        kind: AddressKind::Unknown,
        text: Text::with_header(&udh, data_coding, request.body.to_vec()),
    }])
}

/// The charset says what the octets are; `coding`, only where there is no charset: its numbers changed between versions.
fn data_coding(coding: Option<&str>, charset: Option<&str>) -> DataCoding {
    match charset.map(str::to_ascii_uppercase).as_deref() {
        Some("UTF-16BE" | "UTF-16" | "UCS-2") => DataCoding::UCS2,
        Some("ISO-8859-1" | "WINDOWS-1252" | "LATIN1") => DataCoding::LATIN1,
        Some(charset) if !charset.is_empty() => DataCoding::OCTETS,
        _ if coding == Some("2") => DataCoding::UCS2,
        _ => DataCoding::OCTETS,
    }
}

fn charset(content_type: &str) -> Option<&str> {
    let (_, parameters) = content_type.split_once(';')?;
    let named = parameters.split(';').filter_map(|parameter| parameter.split_once('='));
    let (_, value) = named.into_iter().find(|(name, _)| name.trim().eq_ignore_ascii_case("charset"))?;
    Some(value.trim().trim_matches('"'))
}
