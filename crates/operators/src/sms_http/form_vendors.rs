//! Vendors that post a form, or send the same fields in the query of a GET: Twilio, Plivo and Vonage.

use std::collections::BTreeSet;

use aws_lc_rs::hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA512};
use hmac::{Hmac, KeyInit, Mac};
use http::{Method, header::AUTHORIZATION};
use jsonwebtoken::Algorithm;
use md5::{Digest as _, Md5};
use ringtrue_domain::phone::SmsAddressKind;
use ringtrue_smpp::{
    text::DataCoding,
    udh::{ConcatenationReference, Segment},
};
use serde::Deserialize;
use serde_json::Value;
use url::Url;

use super::{
    config::Secret,
    vendor::{
        Fields, InvalidSignature, MalformedRequest, MessagePart, MessageText, VendorMessage, VendorRequest,
        VerifiedSignature, WebhookResponse, WebhookVendor, constant_time_eq, decode_base64, decode_hex,
        deserialize_sender, digest_parts, sha256,
    },
};

/// Twilio.
///
/// The signature is an HMAC-SHA1 over the URL including its query, and the sorted form fields. Twilio signs the URL
/// sometimes with and sometimes without its port, so both are tried. If the body is not a form, the signed query
/// contains its SHA-256 (`bodySHA256`). There is no timestamp: an old request stays valid but has no effect, because
/// codes are single-use.
///
/// Twilio joins the parts of concatenated messages. It calls our URL once, and after a failure the fallback URL, if one
/// is configured.
#[derive(Clone, Debug)]
pub struct Twilio {
    pub auth_token: Option<Secret>,
}

impl WebhookVendor for Twilio {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(token) = &self.auth_token else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("x-twilio-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let fields = signed_fields(request)?;
        let is_signed = signed_url_variants(request).into_iter().any(|url| {
            let mut data = url.into_bytes();
            data.extend_from_slice(&fields);
            token.verify_hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &data, &tag)
        });
        if is_signed { Ok(VerifiedSignature::default()) } else { Err(InvalidSignature) }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        // Twilio posts status reports of outbound messages in the same format. They contain no inbound SMS.
        if fields.text("SmsStatus").or(fields.text("MessageStatus")).is_some_and(|status| status != "received") {
            return Ok(vec![]);
        }
        Ok(vec![VendorMessage {
            id: Some(fields.required("MessageSid")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            address_kind: SmsAddressKind::International,
            text: MessageText::Complete(fields.required("Body")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::ok("text/xml", "<Response></Response>")
    }
}

/// Returns the signed text that follows the URL: the sorted names and values of the form, without duplicates.
fn signed_fields(request: &VendorRequest<'_>) -> Result<Vec<u8>, InvalidSignature> {
    if request.method == Method::GET {
        return Ok(vec![]);
    }
    if request.is_form() {
        let fields = Fields::parse_form(request.body).map_err(|_| InvalidSignature)?;
        let sorted: BTreeSet<(&str, &[u8])> = fields.iter().collect();
        return Ok(sorted.into_iter().flat_map(|(name, value)| [name.as_bytes(), value].concat()).collect());
    }
    let query = request.query_fields().map_err(|_| InvalidSignature)?;
    let body_hash = query.text("bodySHA256").and_then(decode_hex).ok_or(InvalidSignature)?;
    if constant_time_eq(&body_hash, &sha256(request.body)) { Ok(vec![]) } else { Err(InvalidSignature) }
}

fn signed_url_variants(request: &VendorRequest<'_>) -> [String; 2] {
    let url: &Url = request.url;
    let query = request.query.map(|query| format!("?{query}")).unwrap_or_default();
    let port = url.port_or_known_default().map(|port| format!(":{port}")).unwrap_or_default();
    ["", &port]
        .map(|port| format!("{}://{}{port}{}{query}", url.scheme(), url.host_str().unwrap_or_default(), url.path()))
}

/// Plivo.
///
/// Version 2 of Plivo's signature is an HMAC-SHA256 over the URL without its query and a nonce. It does not cover the
/// message, so anyone who has seen one request could forge another. The configuration therefore requires known
/// addresses or a path secret, and a nonce is accepted for one request only. Version 3 also covers the fields.
///
/// The signature may be that of the main account or that of the number's subaccount.
#[derive(Clone, Debug)]
pub struct Plivo {
    pub signature: Option<PlivoSignature>,
}

/// Signature version, with the account's auth token.
#[derive(Clone, Debug)]
pub enum PlivoSignature {
    V2(Secret),
    V3(Secret),
}

impl PlivoSignature {
    pub(super) fn covers_message(&self) -> bool {
        matches!(self, PlivoSignature::V3(_))
    }
}

impl WebhookVendor for Plivo {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(signature) = &self.signature else { return Ok(VerifiedSignature::default()) };
        let (token, names) = match signature {
            PlivoSignature::V2(token) => (token, ["x-plivo-signature-v2", "x-plivo-signature-ma-v2"]),
            PlivoSignature::V3(token) => (token, ["x-plivo-signature-v3", "x-plivo-signature-ma-v3"]),
        };
        let nonce = request.header(format!("{}-nonce", names[0])).ok_or(InvalidSignature)?;
        let signed_data = match signature {
            PlivoSignature::V2(_) => [request.url.as_str().as_bytes(), nonce.as_bytes()].concat(),
            PlivoSignature::V3(_) => [&v3_signed_data(request)?, &b"."[..], nonce.as_bytes()].concat(),
        };
        let tags = names.iter().filter_map(|name| request.header(*name)).flat_map(|list| list.split(','));
        let is_signed = tags
            .filter_map(|tag| decode_base64(tag.trim()))
            .any(|tag| token.verify_hmac(HMAC_SHA256, &signed_data, &tag));
        if is_signed { Ok(VerifiedSignature::default().with_nonce(nonce)) } else { Err(InvalidSignature) }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let fields = request.fields()?;
        // Status reports of outbound messages have no text.
        if fields.text("Text").is_none() && fields.text("Status").is_some() {
            return Ok(vec![]);
        }
        Ok(vec![VendorMessage {
            id: Some(fields.required("MessageUUID")?.to_owned()),
            from: fields.sender("From")?,
            to: fields.required("To")?.to_owned(),
            address_kind: SmsAddressKind::International,
            text: MessageText::Complete(fields.required("Text")?.to_owned()),
        }])
    }

    fn acknowledgement(&self) -> WebhookResponse {
        WebhookResponse::ok("application/xml", "<Response></Response>")
    }
}

/// Returns the signed text: URL, sorted query as `name=value`, a full stop, and the sorted form fields.
fn v3_signed_data(request: &VendorRequest<'_>) -> Result<Vec<u8>, InvalidSignature> {
    let query = request.query_fields().map_err(|_| InvalidSignature)?;
    let form = match *request.method {
        Method::GET => Fields::parse_form(b""),
        _ if request.is_form() => Fields::parse_form(request.body),
        _ => return Err(InvalidSignature),
    };
    let form = form.map_err(|_| InvalidSignature)?;

    let mut signed_data = request.url.as_str().as_bytes().to_vec();
    if !query.is_empty() || !form.is_empty() {
        signed_data.push(b'?');
    }
    signed_data.extend(sorted_pairs(&query, b"=").join(&b'&'));
    if !query.is_empty() && !form.is_empty() {
        signed_data.push(b'.');
    }
    signed_data.extend(sorted_pairs(&form, b"").concat());
    Ok(signed_data)
}

fn sorted_pairs(fields: &Fields<'_>, separator: &[u8]) -> Vec<Vec<u8>> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().collect();
    pairs.sort_unstable();
    pairs.into_iter().map(|(name, value)| [name.as_bytes(), separator, value].concat()).collect()
}

/// Vonage: the SMS API by GET, form or JSON, and the Messages API by JSON.
///
/// Requests of the SMS API are unsigned unless Vonage's support enables signatures; then `sig` covers all other fields.
/// Requests of the Messages API carry a token that covers the body. Vonage retries for a day until it gets a 2xx.
///
/// The SMS API delivers the parts of a concatenated message one by one.
#[derive(Clone, Debug)]
pub struct Vonage {
    pub signature: Option<VonageCredential>,
}

/// Body of the Messages API.
#[derive(Deserialize)]
struct VonageMessage {
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
        let Some(signature) = &self.signature else { return Ok(VerifiedSignature::default()) };
        signature.verify(request)
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
    // Status reports of outbound messages contain no inbound SMS.
    if json.get("status").is_some() {
        return Ok(vec![]);
    }
    let inbound: VonageMessage = serde_json::from_value(json).map_err(|_| MalformedRequest)?;
    if inbound.channel != "sms" {
        return Ok(vec![]);
    }
    Ok(vec![VendorMessage {
        id: Some(inbound.message_uuid),
        from: inbound.from,
        to: inbound.to,
        address_kind: SmsAddressKind::International,
        text: MessageText::Complete(inbound.text),
    }])
}

fn parse_sms_api(fields: &Fields<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    // Status reports of outbound messages contain no inbound SMS.
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
        address_kind: SmsAddressKind::International,
        text,
    }])
}

/// Returns the part numbers of a message. Vonage does not document the width of references. A reference that does not
/// fit 16 bits is hashed, because it only has to be the same in all parts of a message.
fn parse_segment(fields: &Fields<'_>) -> Option<Segment> {
    if fields.text("concat") != Some("true") {
        return None;
    }
    let reference = fields.text("concat-ref")?;
    let [high, low, ..] = digest_parts(&[reference.as_bytes()]);
    Some(Segment {
        reference: ConcatenationReference::SixteenBit(reference.parse().unwrap_or(u16::from_be_bytes([high, low]))),
        total: fields.text("concat-total")?.parse().ok()?,
        sequence: fields.text("concat-part")?.parse().ok()?,
    })
}

/// Signature scheme, with the account's signature secret.
///
/// `sig` covers all other fields, sorted by name, each as `&name=value` with `&` and `=` in the value replaced by `_`.
/// MD5 is broken, and the oldest method only appends the secret to the data instead of computing an HMAC. Both MD5
/// methods are supported because existing accounts use them. New accounts should use SHA-256.
#[derive(Clone, Debug)]
pub enum VonageCredential {
    /// The SMS API's `sig`.
    Sig { method: SigMethod, secret: Secret },
    /// The Messages API's bearer token.
    Bearer(Secret),
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum SigMethod {
    Md5Hash,
    HmacMd5,
    HmacSha1,
    HmacSha256,
    HmacSha512,
}

#[derive(Deserialize)]
struct VonageClaims {
    iat: i64,
    jti: String,
    payload_hash: String,
}

impl VonageCredential {
    fn verify(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        match self {
            VonageCredential::Sig { method, secret } => {
                verify_sig(*method, secret, &request.fields().map_err(|_| InvalidSignature)?)
            }
            VonageCredential::Bearer(secret) => verify_bearer(secret, request),
        }
    }
}

fn verify_sig(method: SigMethod, secret: &Secret, fields: &Fields<'_>) -> Result<VerifiedSignature, InvalidSignature> {
    let sig = fields.text("sig").ok_or(InvalidSignature)?;
    let tag = decode_hex(sig).ok_or(InvalidSignature)?;
    let signed_data = signed_data(fields);
    let is_signed = match method {
        SigMethod::Md5Hash => constant_time_eq(&Md5::digest([&signed_data, secret.octets()].concat()), &tag),
        SigMethod::HmacMd5 => {
            let mac = Hmac::<Md5>::new_from_slice(secret.octets()).map_err(|_| InvalidSignature)?;
            mac.chain_update(&signed_data).verify_slice(&tag).is_ok()
        }
        SigMethod::HmacSha1 => secret.verify_hmac(HMAC_SHA1_FOR_LEGACY_USE_ONLY, &signed_data, &tag),
        SigMethod::HmacSha256 => secret.verify_hmac(HMAC_SHA256, &signed_data, &tag),
        SigMethod::HmacSha512 => secret.verify_hmac(HMAC_SHA512, &signed_data, &tag),
    };
    if !is_signed {
        return Err(InvalidSignature);
    }
    let timestamp = fields.text("timestamp").ok_or(InvalidSignature)?;
    Ok(VerifiedSignature::parse_signed_at(timestamp)?.with_nonce(fields.text("nonce").unwrap_or(sig)))
}

fn signed_data(fields: &Fields<'_>) -> Vec<u8> {
    let mut pairs: Vec<(&str, &[u8])> = fields.iter().filter(|(name, _)| *name != "sig").collect();
    pairs.sort_unstable();
    let mut data = vec![];
    for (name, value) in pairs {
        data.push(b'&');
        data.extend(name.as_bytes());
        data.push(b'=');
        data.extend(value.iter().map(|byte| if b"&=".contains(byte) { b'_' } else { *byte }));
    }
    data
}

/// Verifies an HS256 token whose `payload_hash` covers the body. It does not cover the query, so only JSON POSTs are
/// accepted.
fn verify_bearer(secret: &Secret, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
    if request.method != Method::POST || !request.is_json() {
        return Err(InvalidSignature);
    }
    let authorization = request.header(AUTHORIZATION).ok_or(InvalidSignature)?;
    let (scheme, token) = authorization.split_once(' ').ok_or(InvalidSignature)?;
    let VonageClaims { iat, jti, payload_hash } = secret.verify_jwt(token, &[Algorithm::HS256])?;
    let body_is_covered = decode_hex(&payload_hash).is_some_and(|hash| constant_time_eq(&hash, &sha256(request.body)));
    if !scheme.eq_ignore_ascii_case("bearer") || !body_is_covered {
        return Err(InvalidSignature);
    }
    Ok(VerifiedSignature::parse_signed_at(&iat.to_string())?.with_nonce(&jti))
}
