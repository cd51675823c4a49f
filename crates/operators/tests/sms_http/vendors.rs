//! Request format and signature of each vendor.

use std::collections::BTreeMap;

use ::hmac::{Hmac, KeyInit, Mac};
use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac::{self, HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA384, HMAC_SHA512},
    signature::{Ed25519KeyPair, KeyPair},
};
use base64::{Engine as _, prelude::*};
use http::StatusCode;
use md5::{Digest, Md5};
use ringtrue_operators::sms_http::{
    Bird, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, Plivo, PlivoSignature, Secret,
    SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageCredential, WebhookConfig, WebhookDriver,
};
use serde_json::{Value, json};

use crate::fixture::{PATH, PATH_SECRET, TestRequest, TestSms, URL, form_encode, restricted, unrestricted};

pub const SECRET: &str = "correct horse";
pub const WRONG_SECRET: &str = "battery staple";

/// What a vendor's signature covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum SignedPart {
    Nothing,
    UrlOnly,
    Body,
    Query,
}

pub struct Vendor {
    pub name: &'static str,
    pub config: fn(secret: &str) -> WebhookConfig,
    pub build: fn(&TestSms<'_>) -> TestRequest,
    pub signed_part: SignedPart,
    pub has_timestamp: bool,
    pub acknowledgement: (StatusCode, &'static str, &'static str),
    /// Whether malformed requests get the same acknowledgement as valid ones.
    pub acknowledges_malformed: bool,
}

const PLAIN_OK: (StatusCode, &str, &str) = (StatusCode::OK, "text/plain", "");
const TWIML: (StatusCode, &str, &str) = (StatusCode::OK, "text/xml", "<Response></Response>");
const PLIVO_XML: (StatusCode, &str, &str) = (StatusCode::OK, "application/xml", "<Response></Response>");

const fn vendor(
    name: &'static str,
    config: fn(&str) -> WebhookConfig,
    build: fn(&TestSms<'_>) -> TestRequest,
) -> Vendor {
    let signed_part = SignedPart::Body;
    Vendor {
        name,
        config,
        build,
        signed_part,
        has_timestamp: true,
        acknowledgement: PLAIN_OK,
        acknowledges_malformed: false,
    }
}

pub const VENDORS: &[Vendor] = &[
    Vendor { has_timestamp: false, acknowledgement: TWIML, ..vendor("twilio", twilio, twilio_form) },
    Vendor {
        has_timestamp: false,
        acknowledgement: TWIML,
        signed_part: SignedPart::Query,
        ..vendor("twilio by GET", twilio, twilio_get)
    },
    Vendor { has_timestamp: false, acknowledgement: TWIML, ..vendor("twilio by JSON", twilio, twilio_json) },
    vendor(
        "vonage MD5",
        |secret| vonage(SigMethod::Md5Hash, secret),
        |message| vonage_form(SigMethod::Md5Hash, message),
    ),
    vendor(
        "vonage HMAC-MD5",
        |secret| vonage(SigMethod::HmacMd5, secret),
        |message| vonage_form(SigMethod::HmacMd5, message),
    ),
    vendor(
        "vonage SHA1",
        |secret| vonage(SigMethod::HmacSha1, secret),
        |message| vonage_form(SigMethod::HmacSha1, message),
    ),
    vendor(
        "vonage SHA512",
        |secret| vonage(SigMethod::HmacSha512, secret),
        |message| vonage_form(SigMethod::HmacSha512, message),
    ),
    Vendor {
        signed_part: SignedPart::Query,
        ..vendor("vonage by GET", |secret| vonage(SigMethod::HmacSha256, secret), vonage_get)
    },
    vendor("vonage by JSON", |secret| vonage(SigMethod::HmacSha256, secret), vonage_json),
    vendor("vonage messages", vonage_messages, vonage_bearer),
    vendor("telnyx", telnyx, telnyx_event),
    vendor("sinch", sinch, sinch_callback),
    Vendor { signed_part: SignedPart::Nothing, has_timestamp: false, ..vendor("infobip", infobip, infobip_batch) },
    Vendor {
        signed_part: SignedPart::UrlOnly,
        has_timestamp: false,
        acknowledgement: PLIVO_XML,
        ..vendor("plivo 2", plivo_2, plivo_2_form)
    },
    Vendor { has_timestamp: false, acknowledgement: PLIVO_XML, ..vendor("plivo 3", plivo_3, plivo_3_form) },
    vendor("bird", bird, bird_event),
    vendor("messagebird", messagebird, messagebird_form),
    vendor("messagebird by JSON", messagebird, messagebird_json),
    Vendor { signed_part: SignedPart::Query, ..vendor("messagebird by GET", messagebird, messagebird_get) },
    Vendor {
        signed_part: SignedPart::Nothing,
        has_timestamp: false,
        acknowledges_malformed: true,
        ..vendor("kannel", |_| restricted(WebhookDriver::Kannel(Kannel)), kannel_get)
    },
    Vendor {
        signed_part: SignedPart::Nothing,
        has_timestamp: false,
        acknowledges_malformed: true,
        ..vendor("kannel by POST", |_| restricted(WebhookDriver::Kannel(Kannel)), kannel_post)
    },
    Vendor {
        signed_part: SignedPart::Nothing,
        has_timestamp: false,
        acknowledges_malformed: true,
        acknowledgement: (StatusCode::OK, "text/plain", "ACK/Jasmin"),
        ..vendor("jasmin", |_| restricted(WebhookDriver::Jasmin(Jasmin)), jasmin_form)
    },
    vendor("generic", generic, generic_json),
    Vendor { has_timestamp: false, ..vendor("generic form", generic_bare, generic_form) },
];

pub fn by_name(name: &str) -> &'static Vendor {
    VENDORS.iter().find(|vendor| vendor.name == name).unwrap()
}

pub fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

pub fn tag(algorithm: hmac::Algorithm, data: &[u8]) -> Vec<u8> {
    hmac::sign(&hmac::Key::new(algorithm, SECRET.as_bytes()), data).as_ref().to_vec()
}

pub fn hex(octets: &[u8]) -> String {
    octets.iter().fold(String::new(), |text, octet| text + &format!("{octet:02x}"))
}

fn twilio(token: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Twilio(Twilio { auth_token: Some(secret(token)) }))
}

fn twilio_fields<'a>(message: &TestSms<'a>, plus: &'a [String; 2]) -> Vec<(&'a str, &'a str)> {
    let TestSms { id, text, .. } = *message;
    vec![("ToCountry", "GB"), ("MessageSid", id), ("From", &plus[0]), ("To", &plus[1]), ("Body", text)]
}

/// Returns sender and receiver with their `+`, as Twilio writes them.
fn plus(message: &TestSms<'_>) -> [String; 2] {
    [message.from, message.to].map(|text| {
        if text.starts_with(|first: char| first.is_ascii_digit()) { format!("+{text}") } else { text.to_owned() }
    })
}

fn twilio_form(message: &TestSms<'_>) -> TestRequest {
    let plus = plus(message);
    let mut fields = twilio_fields(message, &plus);
    let request = TestRequest::form(&fields);
    fields.sort_unstable();
    let signed = fields.iter().fold(URL.to_owned(), |signed, (name, value)| signed + name + value);
    request.with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn twilio_get(message: &TestSms<'_>) -> TestRequest {
    let plus = plus(message);
    let fields = twilio_fields(message, &plus);
    let signed = format!("https://nv.example.com:443{PATH}?{}", form_encode(&fields));
    TestRequest::get(&fields)
        .with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn twilio_json(message: &TestSms<'_>) -> TestRequest {
    let [from, to] = plus(message);
    let mut request =
        TestRequest::json(&json!({"MessageSid": message.id, "From": from, "To": to, "Body": message.text}));
    request.path_and_query = format!("{PATH}?bodySHA256={}", hex(digest(&SHA256, &request.body).as_ref()));
    let signed = format!("https://nv.example.com{}", request.path_and_query);
    request.with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn telnyx_pair(seed: &str) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, seed.as_bytes()).as_ref()).unwrap()
}

fn telnyx(seed: &str) -> WebhookConfig {
    let public = BASE64_STANDARD.encode(telnyx_pair(seed).public_key());
    unrestricted(WebhookDriver::Telnyx(Telnyx { public_key: Some(TelnyxKey::from_base64(&public).unwrap()) }))
}

fn telnyx_event(message: &TestSms<'_>) -> TestRequest {
    let [from, to] = plus(message);
    let request = TestRequest::json(&json!({"data": {"event_type": "message.received", "id": "event", "payload": {
        "id": message.id, "text": message.text, "from": {"phone_number": from, "carrier": "EE"},
        "to": [{"phone_number": to, "status": "webhook_delivered"}], "type": "SMS", "parts": 1,
    }}, "meta": {"attempt": 1}}));
    let signed = [message.at.to_string().as_bytes(), b"|", &request.body].concat();
    request
        .with("telnyx-timestamp", message.at.to_string())
        .with("telnyx-signature-ed25519", BASE64_STANDARD.encode(telnyx_pair(SECRET).sign(&signed)))
}

fn sinch(text: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Sinch(Sinch { secret: Some(secret(text)) }))
}

fn sinch_callback(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, at } = *message;
    sinch_signed(
        &json!({"type": "mo_text", "id": id, "from": from, "to": to, "body": text}),
        &format!("nonce-{id}-{at}"),
        at,
    )
}

pub fn sinch_signed(body: &serde_json::Value, nonce: &str, at: i64) -> TestRequest {
    let request = TestRequest::json(body);
    let signature = tag(HMAC_SHA256, format!("{body}.{nonce}.{at}").as_bytes());
    request
        .with("x-sinch-webhook-signature-nonce", nonce)
        .with("x-sinch-webhook-signature-timestamp", at.to_string())
        .with("x-sinch-webhook-signature", BASE64_STANDARD.encode(signature))
}

fn infobip(_: &str) -> WebhookConfig {
    restricted(WebhookDriver::Infobip(Infobip))
}

fn infobip_batch(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    let message = json!({"messageId": id, "from": from, "to": to, "text": text, "cleanText": "", "smsCount": 1});
    TestRequest::json(&json!({"results": [message], "messageCount": 1, "pendingMessageCount": 0})).with_path_secret()
}

fn plivo_2(token: &str) -> WebhookConfig {
    restricted(WebhookDriver::Plivo(Plivo { signature: Some(PlivoSignature::V2(secret(token))) }))
}

fn plivo_fields<'a>(message: &TestSms<'a>) -> Vec<(&'a str, &'a str)> {
    let TestSms { id, from, to, text, .. } = *message;
    vec![("From", from), ("To", to), ("Text", text), ("Type", "sms"), ("MessageUUID", id), ("Units", "1")]
}

fn plivo_2_form(message: &TestSms<'_>) -> TestRequest {
    let nonce = format!("nonce-{}", message.id);
    let signature = tag(HMAC_SHA256, format!("{URL}/{PATH_SECRET}{nonce}").as_bytes());
    TestRequest::form(&plivo_fields(message))
        .with_path_secret()
        .with("X-Plivo-Signature-V2-Nonce", nonce)
        .with("X-Plivo-Signature-V2", BASE64_STANDARD.encode(signature))
}

fn plivo_3(token: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Plivo(Plivo { signature: Some(PlivoSignature::V3(secret(token))) }))
}

fn plivo_3_form(message: &TestSms<'_>) -> TestRequest {
    let nonce = format!("nonce-{}", message.id);
    let mut fields = plivo_fields(message);
    let request = TestRequest::form(&fields);
    fields.sort_unstable();
    let fields: String = fields.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let signature = tag(HMAC_SHA256, format!("{URL}?{fields}.{nonce}").as_bytes());
    request.with("X-Plivo-Signature-V3-Nonce", nonce).with("X-Plivo-Signature-V3", BASE64_STANDARD.encode(signature))
}

pub const CHANNEL: &str = "614208aa-b153-4d5d-9989-2fddfc0ce4c3";

fn bird(text: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Bird(Bird { secret: Some(secret(text)), channels: BTreeMap::new() }))
}

pub fn bird_payload(message: &TestSms<'_>, receiver: &Value) -> Value {
    let [from, _] = plus(message);
    json!({"service": "channels", "event": "sms.inbound", "payload": {
        "id": message.id, "channelId": CHANNEL, "direction": "incoming", "status": "delivered",
        "sender": {"contact": {"identifierKey": "phonenumber", "identifierValue": from}},
        "receiver": {"connector": receiver}, "body": {"type": "text", "text": {"text": message.text}},
    }})
}

pub fn bird_signed(body: &Value, at: i64) -> TestRequest {
    let request = TestRequest::json(body);
    let hash = digest(&SHA256, &request.body);
    let signed = [format!("{at}\n{URL}\n").as_bytes(), hash.as_ref()].concat();
    request
        .with("messagebird-request-timestamp", at.to_string())
        .with("messagebird-signature", BASE64_STANDARD.encode(tag(HMAC_SHA256, &signed)))
}

fn bird_event(message: &TestSms<'_>) -> TestRequest {
    let [_, to] = plus(message);
    bird_signed(&bird_payload(message, &json!({"id": "86cc4dc0", "identifierValue": to})), message.at)
}

fn messagebird(text: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::MessageBird(MessageBird { secret: Some(secret(text)) }))
}

fn messagebird_fields<'a>(message: &TestSms<'a>) -> Vec<(&'a str, &'a str)> {
    let TestSms { id, from, to, text, .. } = *message;
    vec![("id", id), ("originator", from), ("recipient", to), ("body", text), ("createdDatetime", "2026-11-14")]
}

/// Adds a token that covers URL and body to the request.
pub fn messagebird_signed(
    request: TestRequest,
    (alg, algorithm): (&str, hmac::Algorithm),
    claims: &Value,
) -> TestRequest {
    let hash = |data: &[u8]| hex(digest(&SHA256, data).as_ref());
    let mut all = json!({"iss": "MessageBird", "jti": "jti-1"});
    all["url_hash"] = json!(hash(format!("https://nv.example.com{}", request.path_and_query).as_bytes()));
    if !request.body.is_empty() {
        all["payload_hash"] = json!(hash(&request.body));
    }
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    let part = |json: &Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": alg, "typ": "JWT"})), part(&all));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag(algorithm, signed.as_bytes()));
    request.with("MessageBird-Signature-JWT", format!("{signed}.{signature}"))
}

fn messagebird_at(request: TestRequest, message: &TestSms<'_>, alg: (&str, hmac::Algorithm)) -> TestRequest {
    let TestSms { id, at, .. } = *message;
    messagebird_signed(request, alg, &json!({"nbf": at, "exp": at + 600, "jti": format!("jti-{id}-{at}")}))
}

fn messagebird_form(message: &TestSms<'_>) -> TestRequest {
    messagebird_at(TestRequest::form(&messagebird_fields(message)), message, ("HS256", HMAC_SHA256))
}

fn messagebird_json(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    let sms = json!({"id": id, "originator": from, "recipient": to, "payload": text, "recipients": {"totalCount": 1}});
    messagebird_at(TestRequest::json(&sms), message, ("HS512", HMAC_SHA512))
}

fn messagebird_get(message: &TestSms<'_>) -> TestRequest {
    messagebird_at(TestRequest::get(&messagebird_fields(message)), message, ("HS384", HMAC_SHA384))
}

fn kannel_get(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    let fields =
        [("from", from), ("to", to), ("text", text), ("coding", "0"), ("charset", "UTF-8"), ("id", id), ("udh", "")];
    TestRequest::get(&fields).with_path_secret()
}

fn kannel_post(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    let mut request = TestRequest::post("text/plain; charset=\"UTF-8\"", text)
        .with_path_secret()
        .with("X-Kannel-From", from)
        .with("X-Kannel-To", to)
        .with("X-Kannel-Coding", "0");
    request.path_and_query = format!("{}?id={id}", request.path_and_query);
    request
}

fn jasmin_form(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    TestRequest::form(&[("id", id), ("from", from), ("to", to), ("origin-connector", "smsc"), ("content", text)])
        .with_path_secret()
}

fn field_map() -> FieldMap {
    let [from, to, text] = ["/sms/from", "/sms/to", "/sms/body"].map(str::to_owned);
    FieldMap { from, to, text, id: Some("uid".to_owned()) }
}

fn generic(text: &str) -> WebhookConfig {
    let signature = GenericSignature {
        secret: secret(text),
        header: "x-gateway-signature".parse().unwrap(),
        encoding: TagEncoding::Hex,
        prefix: "sha256=".to_owned(),
        timestamp: Some("x-gateway-time".parse().unwrap()),
    };
    unrestricted(WebhookDriver::Generic(Generic { fields: field_map(), signature: Some(signature) }))
}

fn generic_json(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, at } = *message;
    let request = TestRequest::json(&json!({"uid": id, "sms": {"from": from, "to": to, "body": text}}));
    let signed = [at.to_string().as_bytes(), b".", &request.body].concat();
    request
        .with("x-gateway-time", at.to_string())
        .with("x-gateway-signature", format!("sha256={}", hex(&tag(HMAC_SHA256, &signed))))
}

fn generic_bare(text: &str) -> WebhookConfig {
    let signature = GenericSignature {
        secret: secret(text),
        header: "x-gateway-signature".parse().unwrap(),
        encoding: TagEncoding::Base64,
        prefix: String::new(),
        timestamp: None,
    };
    let [from, to, text, id] = ["from", "to", "body", "uid"].map(str::to_owned);
    let fields = FieldMap { from, to, text, id: Some(id) };
    unrestricted(WebhookDriver::Generic(Generic { fields, signature: Some(signature) }))
}

fn generic_form(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, .. } = *message;
    let request = TestRequest::form(&[("uid", id), ("from", from), ("to", to), ("body", text)]);
    let signature = BASE64_STANDARD.encode(tag(HMAC_SHA256, &request.body));
    request.with("x-gateway-signature", signature)
}

pub fn vonage(method: SigMethod, text: &str) -> WebhookConfig {
    let signature = VonageCredential::Sig { method, secret: secret(text) };
    unrestricted(WebhookDriver::Vonage(Vonage { signature: Some(signature) }))
}

/// Adds `sig`, the signature of the fields.
pub fn vonage_signed(method: SigMethod, fields: &[(&str, &str)]) -> Vec<(String, String)> {
    let mut fields: Vec<(String, String)> =
        fields.iter().map(|(name, value)| ((*name).to_owned(), (*value).to_owned())).collect();
    fields.sort_unstable();
    let written = |(name, value): &(String, String)| format!("&{name}={}", value.replace(['&', '='], "_"));
    let signed = fields.iter().map(written).collect::<Vec<_>>().concat();
    let sig = match method {
        SigMethod::Md5Hash => hex(&Md5::digest(signed + SECRET)),
        SigMethod::HmacMd5 => {
            let mac = Hmac::<Md5>::new_from_slice(SECRET.as_bytes()).unwrap().chain_update(signed);
            hex(&mac.finalize().into_bytes())
        }
        SigMethod::HmacSha1 => hex(&tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())),
        SigMethod::HmacSha256 => hex(&tag(HMAC_SHA256, signed.as_bytes())),
        SigMethod::HmacSha512 => hex(&tag(HMAC_SHA512, signed.as_bytes())),
    };
    fields.push(("sig".to_owned(), sig));
    fields
}

fn vonage_fields(method: SigMethod, message: &TestSms<'_>) -> Vec<(String, String)> {
    let TestSms { id, from, to, text, at } = *message;
    let at = at.to_string();
    let nonce = format!("nonce-{id}-{at}");
    vonage_signed(
        method,
        &[
            ("msisdn", from),
            ("to", to),
            ("messageId", id),
            ("text", text),
            ("type", "unicode"),
            ("keyword", "VERIFY"),
            ("timestamp", &at),
            ("nonce", &nonce),
        ],
    )
}

pub fn as_str_pairs(fields: &[(String, String)]) -> Vec<(&str, &str)> {
    fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect()
}

pub fn vonage_form(method: SigMethod, message: &TestSms<'_>) -> TestRequest {
    TestRequest::form(&as_str_pairs(&vonage_fields(method, message)))
}

pub fn vonage_get(message: &TestSms<'_>) -> TestRequest {
    TestRequest::get(&as_str_pairs(&vonage_fields(SigMethod::HmacSha256, message)))
}

pub fn vonage_json(message: &TestSms<'_>) -> TestRequest {
    let fields = vonage_fields(SigMethod::HmacSha256, message);
    TestRequest::json(
        &fields.into_iter().map(|(name, value)| (name, value.into())).collect::<serde_json::Map<_, _>>().into(),
    )
}

pub fn vonage_messages(text: &str) -> WebhookConfig {
    unrestricted(WebhookDriver::Vonage(Vonage { signature: Some(VonageCredential::Bearer(secret(text))) }))
}

pub fn vonage_bearer(message: &TestSms<'_>) -> TestRequest {
    let TestSms { id, from, to, text, at } = *message;
    let request = TestRequest::json(&json!({
        "channel": "sms", "message_uuid": id, "from": from, "to": to, "text": text, "message_type": "text",
        "timestamp": "2026-11-14T23:46:40Z", "sms": {"num_messages": "1", "keyword": "VERIFY"},
    }));
    let claims = json!({
        "iss": "Vonage", "iat": at, "jti": format!("jti-{id}-{at}"), "api_key": "abcd1234",
        "payload_hash": hex(digest(&SHA256, &request.body).as_ref()),
    });
    let part = |json: &serde_json::Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": "HS256", "typ": "JWT"})), part(&claims));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag(HMAC_SHA256, signed.as_bytes()));
    request.with("Authorization", format!("Bearer {signed}.{signature}"))
}
