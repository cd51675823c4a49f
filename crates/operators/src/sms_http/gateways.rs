//! SMS gateways that operators run themselves: Kannel, Jasmin, and any other that posts a form or JSON.

use aws_lc_rs::hmac::HMAC_SHA256;
use http::{HeaderName, Method, StatusCode, header::CONTENT_TYPE};
use ringtrue_domain::phone::SmsAddressKind;
use ringtrue_smpp::text::{DataCoding, DefaultAlphabet, TextCoding};
use serde_json::Value;

use super::{
    config::Secret,
    vendor::{
        Fields, InvalidSignature, MalformedRequest, MessageText, VendorMessage, VendorRequest, VerifiedSignature,
        WebhookResponse, WebhookVendor, decode_base64, decode_hex, decode_percent,
    },
};

/// Kannel: an `sms-service` with a `get-url` or a `post-url`.
///
/// ```text
/// get-url  = "https://…/{path secret}?from=%p&to=%P&text=%b&coding=%c&charset=%C&id=%I&udh=%u"
/// post-url = "https://…/{path secret}?id=%I"    and    send-sender = true
/// ```
///
/// Set `max-messages = 0`, so that Kannel sends no reply. Set `http-request-retry` above its default of 0, because
/// Kannel otherwise drops a message after one failure. Requests are unsigned. Malformed requests are acknowledged and
/// counted, because Kannel would resend them unchanged.
///
/// Kannel joins the parts of concatenated messages unless configured otherwise. In that case requests with parts carry
/// `udh`.
#[derive(Clone, Copy, Debug)]
pub struct Kannel;

impl WebhookVendor for Kannel {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
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
        address_kind: SmsAddressKind::Unknown,
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
        address_kind: SmsAddressKind::Unknown,
        text: MessageText::from_user_data(&udh, data_coding, request.body.to_vec()),
    }])
}

/// Determines the coding of a text. The character set takes precedence, because the numbers in `coding` differ between
/// Kannel versions.
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

/// Jasmin: a GET or a form, from its `httpccm` connector.
///
/// Requests are unsigned. Jasmin resends after every response but `ACK/Jasmin`, so malformed requests are acknowledged
/// too, and counted. Jasmin joins the parts of concatenated messages.
#[derive(Clone, Copy, Debug)]
pub struct Jasmin;

impl WebhookVendor for Jasmin {
    fn methods(&self) -> &'static [Method] {
        &[Method::GET, Method::POST]
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        Ok(vec![VendorMessage {
            id: Some(fields.required("id")?.to_owned()),
            from: fields.sender("from")?,
            to: fields.required("to")?.to_owned(),
            address_kind: SmsAddressKind::Unknown,
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

/// Decodes the text. `content` holds the octets received over SMPP; `binary` holds them in hexadecimal, which proxies
/// do not alter.
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

/// Configurable driver for any gateway that posts a form or JSON.
///
/// The signature is an HMAC-SHA256 in a header, over the body, or over `timestamp.body` if a timestamp header is
/// configured. It does not cover the query, which is therefore ignored.
#[derive(Clone, Debug)]
pub struct Generic {
    pub fields: FieldMap,
    pub signature: Option<GenericSignature>,
}

/// Field names; in JSON, a name that begins with `/` is a JSON pointer.
#[derive(Clone, Debug)]
pub struct FieldMap {
    pub from: String,
    pub to: String,
    pub text: String,
    /// Name of the message id, which stays the same when the gateway resends a message. `None`: the gateway sends no
    /// id.
    pub id: Option<String>,
}

#[derive(Clone, Debug)]
pub struct GenericSignature {
    pub secret: Secret,
    pub header: HeaderName,
    pub encoding: TagEncoding,
    /// Text before the signature in its header, such as `sha256=`.
    pub prefix: String,
    /// Header with the signing time in Unix seconds.
    pub timestamp: Option<HeaderName>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TagEncoding {
    Hex,
    Base64,
}

impl WebhookVendor for Generic {
    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(signature) = &self.signature else { return Ok(VerifiedSignature::default()) };
        signature.verify(request)
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let body_fields = if request.is_json() {
            BodyFields::Json(request.json()?)
        } else if request.is_form() {
            BodyFields::Form(Fields::parse_form(request.body)?)
        } else {
            return Err(MalformedRequest);
        };
        let required = |name: &str| body_fields.text(name).ok_or(MalformedRequest);
        Ok(vec![VendorMessage {
            id: self.fields.id.as_deref().map(required).transpose()?,
            from: body_fields.text(&self.fields.from).unwrap_or_default(),
            to: required(&self.fields.to)?,
            address_kind: SmsAddressKind::Unknown,
            text: MessageText::Complete(required(&self.fields.text)?),
        }])
    }
}

impl GenericSignature {
    fn verify(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let written =
            request.header(&self.header).and_then(|value| value.strip_prefix(&*self.prefix)).ok_or(InvalidSignature)?;
        let tag = match self.encoding {
            TagEncoding::Hex => decode_hex(written),
            TagEncoding::Base64 => decode_base64(written),
        };
        let timestamp = match &self.timestamp {
            Some(header) => Some(request.header(header).ok_or(InvalidSignature)?),
            None => None,
        };
        let signed_data = match timestamp {
            Some(timestamp) => [timestamp.as_bytes(), b".", request.body].concat(),
            None => request.body.to_vec(),
        };
        if !self.secret.verify_hmac(HMAC_SHA256, &signed_data, &tag.ok_or(InvalidSignature)?) {
            return Err(InvalidSignature);
        }
        timestamp.map_or(Ok(VerifiedSignature::default()), VerifiedSignature::parse_signed_at)
    }
}

enum BodyFields<'a> {
    Json(Value),
    Form(Fields<'a>),
}

impl BodyFields<'_> {
    fn text(&self, name: &str) -> Option<String> {
        match self {
            BodyFields::Form(fields) => fields.text(name).map(str::to_owned),
            BodyFields::Json(json) => {
                let value = if name.starts_with('/') { json.pointer(name) } else { json.get(name) };
                match value? {
                    Value::String(text) => Some(text.clone()),
                    Value::Number(number) => Some(number.to_string()),
                    _ => None,
                }
            }
        }
    }
}
