//! How each vendor writes and signs a letter, as far as a test needs it.

use std::collections::BTreeMap;

use aws_lc_rs::{
    digest::{SHA256, digest},
    hmac,
    signature::{Ed25519KeyPair, KeyPair},
};
use base64::{Engine as _, prelude::*};
use hmac::{HMAC_SHA1_FOR_LEGACY_USE_ONLY, HMAC_SHA256, HMAC_SHA384, HMAC_SHA512};
use http::StatusCode;
use ringtrue_operators::sms_http::{
    Bird, Driver, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, Plivo, PlivoSignature,
    Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, WebhookConfig,
};
use serde_json::{Value, json};

use crate::{
    vonage::{vonage, vonage_bearer, vonage_form, vonage_get, vonage_json, vonage_messages},
    world::{Call, Letter, PATH, PATH_SECRET, URL, encoded, fenced, open},
};

pub const SECRET: &str = "correct horse";
pub const OTHER: &str = "battery staple";

/// What a vendor's signature covers.
#[derive(Clone, Copy, PartialEq, Eq)]
pub enum Covers {
    Nothing,
    UrlOnly,
    Body,
    Query,
}

pub struct Vendor {
    pub name: &'static str,
    pub config: fn(secret: &str) -> WebhookConfig,
    pub write: fn(&Letter<'_>) -> Call,
    pub covers: Covers,
    pub has_timestamp: bool,
    pub acknowledgement: (StatusCode, &'static str, &'static str),
    /// Whether what cannot be read is acknowledged too.
    pub forgives: bool,
}

const PLAIN_OK: (StatusCode, &str, &str) = (StatusCode::OK, "text/plain", "");
const TWIML: (StatusCode, &str, &str) = (StatusCode::OK, "text/xml", "<Response></Response>");
const PLIVO_XML: (StatusCode, &str, &str) = (StatusCode::OK, "application/xml", "<Response></Response>");

const fn vendor(name: &'static str, config: fn(&str) -> WebhookConfig, write: fn(&Letter<'_>) -> Call) -> Vendor {
    let covers = Covers::Body;
    Vendor { name, config, write, covers, has_timestamp: true, acknowledgement: PLAIN_OK, forgives: false }
}

pub const VENDORS: &[Vendor] = &[
    Vendor { has_timestamp: false, acknowledgement: TWIML, ..vendor("twilio", twilio, twilio_form) },
    Vendor {
        has_timestamp: false,
        acknowledgement: TWIML,
        covers: Covers::Query,
        ..vendor("twilio by GET", twilio, twilio_get)
    },
    Vendor { has_timestamp: false, acknowledgement: TWIML, ..vendor("twilio by JSON", twilio, twilio_json) },
    vendor("vonage MD5", |secret| vonage(SigMethod::Md5Hash, secret), |letter| vonage_form(SigMethod::Md5Hash, letter)),
    vendor(
        "vonage HMAC-MD5",
        |secret| vonage(SigMethod::HmacMd5, secret),
        |letter| vonage_form(SigMethod::HmacMd5, letter),
    ),
    vendor(
        "vonage SHA1",
        |secret| vonage(SigMethod::HmacSha1, secret),
        |letter| vonage_form(SigMethod::HmacSha1, letter),
    ),
    vendor(
        "vonage SHA512",
        |secret| vonage(SigMethod::HmacSha512, secret),
        |letter| vonage_form(SigMethod::HmacSha512, letter),
    ),
    Vendor {
        covers: Covers::Query,
        ..vendor("vonage by GET", |secret| vonage(SigMethod::HmacSha256, secret), vonage_get)
    },
    vendor("vonage by JSON", |secret| vonage(SigMethod::HmacSha256, secret), vonage_json),
    vendor("vonage messages", vonage_messages, vonage_bearer),
    vendor("telnyx", telnyx, telnyx_event),
    vendor("sinch", sinch, sinch_callback),
    Vendor { covers: Covers::Nothing, has_timestamp: false, ..vendor("infobip", infobip, infobip_batch) },
    Vendor {
        covers: Covers::UrlOnly,
        has_timestamp: false,
        acknowledgement: PLIVO_XML,
        ..vendor("plivo 2", plivo_2, plivo_2_form)
    },
    Vendor { has_timestamp: false, acknowledgement: PLIVO_XML, ..vendor("plivo 3", plivo_3, plivo_3_form) },
    vendor("bird", bird, bird_event),
    vendor("messagebird", messagebird, messagebird_form),
    vendor("messagebird by JSON", messagebird, messagebird_json),
    Vendor { covers: Covers::Query, ..vendor("messagebird by GET", messagebird, messagebird_get) },
    Vendor {
        covers: Covers::Nothing,
        has_timestamp: false,
        forgives: true,
        ..vendor("kannel", |_| fenced(Driver::Kannel(Kannel)), kannel_get)
    },
    Vendor {
        covers: Covers::Nothing,
        has_timestamp: false,
        forgives: true,
        ..vendor("kannel by POST", |_| fenced(Driver::Kannel(Kannel)), kannel_post)
    },
    Vendor {
        covers: Covers::Nothing,
        has_timestamp: false,
        forgives: true,
        acknowledgement: (StatusCode::OK, "text/plain", "ACK/Jasmin"),
        ..vendor("jasmin", |_| fenced(Driver::Jasmin(Jasmin)), jasmin_form)
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
    open(Driver::Twilio(Twilio { auth_token: Some(secret(token)) }))
}

fn twilio_fields<'a>(letter: &Letter<'a>, plus: &'a [String; 2]) -> Vec<(&'a str, &'a str)> {
    let Letter { id, text, .. } = *letter;
    vec![("ToCountry", "GB"), ("MessageSid", id), ("From", &plus[0]), ("To", &plus[1]), ("Body", text)]
}

/// Twilio writes numbers with their `+`.
fn plus(letter: &Letter<'_>) -> [String; 2] {
    [letter.from, letter.to].map(|text| {
        if text.starts_with(|first: char| first.is_ascii_digit()) { format!("+{text}") } else { text.to_owned() }
    })
}

fn twilio_form(letter: &Letter<'_>) -> Call {
    let plus = plus(letter);
    let mut fields = twilio_fields(letter, &plus);
    let call = Call::form(&fields);
    fields.sort_unstable();
    let signed = fields.iter().fold(URL.to_owned(), |signed, (name, value)| signed + name + value);
    call.with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn twilio_get(letter: &Letter<'_>) -> Call {
    let plus = plus(letter);
    let fields = twilio_fields(letter, &plus);
    let signed = format!("https://nv.example.com:443{PATH}?{}", encoded(&fields));
    Call::get(&fields)
        .with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn twilio_json(letter: &Letter<'_>) -> Call {
    let [from, to] = plus(letter);
    let mut call = Call::json(&json!({"MessageSid": letter.id, "From": from, "To": to, "Body": letter.text}));
    call.path_and_query = format!("{PATH}?bodySHA256={}", hex(digest(&SHA256, &call.body).as_ref()));
    let signed = format!("https://nv.example.com{}", call.path_and_query);
    call.with("X-Twilio-Signature", BASE64_STANDARD.encode(tag(HMAC_SHA1_FOR_LEGACY_USE_ONLY, signed.as_bytes())))
}

fn telnyx_pair(seed: &str) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(digest(&SHA256, seed.as_bytes()).as_ref()).unwrap()
}

fn telnyx(seed: &str) -> WebhookConfig {
    let public = BASE64_STANDARD.encode(telnyx_pair(seed).public_key());
    open(Driver::Telnyx(Telnyx { public_key: Some(TelnyxKey::from_base64(&public).unwrap()) }))
}

fn telnyx_event(letter: &Letter<'_>) -> Call {
    let [from, to] = plus(letter);
    let call = Call::json(&json!({"data": {"event_type": "message.received", "id": "event", "payload": {
        "id": letter.id, "text": letter.text, "from": {"phone_number": from, "carrier": "EE"},
        "to": [{"phone_number": to, "status": "webhook_delivered"}], "type": "SMS", "parts": 1,
    }}, "meta": {"attempt": 1}}));
    let signed = [letter.at.to_string().as_bytes(), b"|", &call.body].concat();
    call.with("telnyx-timestamp", letter.at.to_string())
        .with("telnyx-signature-ed25519", BASE64_STANDARD.encode(telnyx_pair(SECRET).sign(&signed)))
}

fn sinch(text: &str) -> WebhookConfig {
    open(Driver::Sinch(Sinch { secret: Some(secret(text)) }))
}

fn sinch_callback(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, at } = *letter;
    sinch_signed(
        &json!({"type": "mo_text", "id": id, "from": from, "to": to, "body": text}),
        &format!("nonce-{id}-{at}"),
        at,
    )
}

pub fn sinch_signed(body: &serde_json::Value, nonce: &str, at: i64) -> Call {
    let call = Call::json(body);
    let signature = tag(HMAC_SHA256, format!("{body}.{nonce}.{at}").as_bytes());
    call.with("x-sinch-webhook-signature-nonce", nonce)
        .with("x-sinch-webhook-signature-timestamp", at.to_string())
        .with("x-sinch-webhook-signature", BASE64_STANDARD.encode(signature))
}

fn infobip(_: &str) -> WebhookConfig {
    fenced(Driver::Infobip(Infobip))
}

fn infobip_batch(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    let message = json!({"messageId": id, "from": from, "to": to, "text": text, "cleanText": "", "smsCount": 1});
    Call::json(&json!({"results": [message], "messageCount": 1, "pendingMessageCount": 0})).with_path_secret()
}

fn plivo_2(token: &str) -> WebhookConfig {
    fenced(Driver::Plivo(Plivo { signature: Some(PlivoSignature::V2(secret(token))) }))
}

fn plivo_fields<'a>(letter: &Letter<'a>) -> Vec<(&'a str, &'a str)> {
    let Letter { id, from, to, text, .. } = *letter;
    vec![("From", from), ("To", to), ("Text", text), ("Type", "sms"), ("MessageUUID", id), ("Units", "1")]
}

fn plivo_2_form(letter: &Letter<'_>) -> Call {
    let nonce = format!("nonce-{}", letter.id);
    let signature = tag(HMAC_SHA256, format!("{URL}/{PATH_SECRET}{nonce}").as_bytes());
    Call::form(&plivo_fields(letter))
        .with_path_secret()
        .with("X-Plivo-Signature-V2-Nonce", nonce)
        .with("X-Plivo-Signature-V2", BASE64_STANDARD.encode(signature))
}

fn plivo_3(token: &str) -> WebhookConfig {
    open(Driver::Plivo(Plivo { signature: Some(PlivoSignature::V3(secret(token))) }))
}

fn plivo_3_form(letter: &Letter<'_>) -> Call {
    let nonce = format!("nonce-{}", letter.id);
    let mut fields = plivo_fields(letter);
    let call = Call::form(&fields);
    fields.sort_unstable();
    let fields: String = fields.iter().flat_map(|(name, value)| [*name, *value]).collect();
    let signature = tag(HMAC_SHA256, format!("{URL}?{fields}.{nonce}").as_bytes());
    call.with("X-Plivo-Signature-V3-Nonce", nonce).with("X-Plivo-Signature-V3", BASE64_STANDARD.encode(signature))
}

pub const CHANNEL: &str = "614208aa-b153-4d5d-9989-2fddfc0ce4c3";

fn bird(text: &str) -> WebhookConfig {
    open(Driver::Bird(Bird { secret: Some(secret(text)), channels: BTreeMap::new() }))
}

pub fn bird_payload(letter: &Letter<'_>, receiver: &Value) -> Value {
    let [from, _] = plus(letter);
    json!({"service": "channels", "event": "sms.inbound", "payload": {
        "id": letter.id, "channelId": CHANNEL, "direction": "incoming", "status": "delivered",
        "sender": {"contact": {"identifierKey": "phonenumber", "identifierValue": from}},
        "receiver": {"connector": receiver}, "body": {"type": "text", "text": {"text": letter.text}},
    }})
}

pub fn bird_signed(body: &Value, at: i64) -> Call {
    let call = Call::json(body);
    let hash = digest(&SHA256, &call.body);
    let signed = [format!("{at}\n{URL}\n").as_bytes(), hash.as_ref()].concat();
    call.with("messagebird-request-timestamp", at.to_string())
        .with("messagebird-signature", BASE64_STANDARD.encode(tag(HMAC_SHA256, &signed)))
}

fn bird_event(letter: &Letter<'_>) -> Call {
    let [_, to] = plus(letter);
    bird_signed(&bird_payload(letter, &json!({"id": "86cc4dc0", "identifierValue": to})), letter.at)
}

fn messagebird(text: &str) -> WebhookConfig {
    open(Driver::MessageBird(MessageBird { secret: Some(secret(text)) }))
}

fn messagebird_fields<'a>(letter: &Letter<'a>) -> Vec<(&'a str, &'a str)> {
    let Letter { id, from, to, text, .. } = *letter;
    vec![("id", id), ("originator", from), ("recipient", to), ("body", text), ("createdDatetime", "2026-11-14")]
}

/// With the token that covers its URL and its body.
pub fn messagebird_signed(call: Call, (alg, algorithm): (&str, hmac::Algorithm), claims: &Value) -> Call {
    let hash = |data: &[u8]| hex(digest(&SHA256, data).as_ref());
    let mut all = json!({"iss": "MessageBird", "jti": "jti-1"});
    all["url_hash"] = json!(hash(format!("https://nv.example.com{}", call.path_and_query).as_bytes()));
    if !call.body.is_empty() {
        all["payload_hash"] = json!(hash(&call.body));
    }
    all.as_object_mut().unwrap().extend(claims.as_object().unwrap().clone());
    let part = |json: &Value| BASE64_URL_SAFE_NO_PAD.encode(json.to_string());
    let signed = format!("{}.{}", part(&json!({"alg": alg, "typ": "JWT"})), part(&all));
    let signature = BASE64_URL_SAFE_NO_PAD.encode(tag(algorithm, signed.as_bytes()));
    call.with("MessageBird-Signature-JWT", format!("{signed}.{signature}"))
}

fn messagebird_at(call: Call, letter: &Letter<'_>, alg: (&str, hmac::Algorithm)) -> Call {
    let Letter { id, at, .. } = *letter;
    messagebird_signed(call, alg, &json!({"nbf": at, "exp": at + 600, "jti": format!("jti-{id}-{at}")}))
}

fn messagebird_form(letter: &Letter<'_>) -> Call {
    messagebird_at(Call::form(&messagebird_fields(letter)), letter, ("HS256", HMAC_SHA256))
}

fn messagebird_json(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    let sms = json!({"id": id, "originator": from, "recipient": to, "payload": text, "recipients": {"totalCount": 1}});
    messagebird_at(Call::json(&sms), letter, ("HS512", HMAC_SHA512))
}

fn messagebird_get(letter: &Letter<'_>) -> Call {
    messagebird_at(Call::get(&messagebird_fields(letter)), letter, ("HS384", HMAC_SHA384))
}

fn kannel_get(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    let fields =
        [("from", from), ("to", to), ("text", text), ("coding", "0"), ("charset", "UTF-8"), ("id", id), ("udh", "")];
    Call::get(&fields).with_path_secret()
}

fn kannel_post(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    let mut call = Call::post("text/plain; charset=\"UTF-8\"", text)
        .with_path_secret()
        .with("X-Kannel-From", from)
        .with("X-Kannel-To", to)
        .with("X-Kannel-Coding", "0");
    call.path_and_query = format!("{}?id={id}", call.path_and_query);
    call
}

fn jasmin_form(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    Call::form(&[("id", id), ("from", from), ("to", to), ("origin-connector", "smsc"), ("content", text)])
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
    open(Driver::Generic(Generic { fields: field_map(), signature: Some(signature) }))
}

fn generic_json(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, at } = *letter;
    let call = Call::json(&json!({"uid": id, "sms": {"from": from, "to": to, "body": text}}));
    let signed = [at.to_string().as_bytes(), b".", &call.body].concat();
    call.with("x-gateway-time", at.to_string())
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
    open(Driver::Generic(Generic { fields, signature: Some(signature) }))
}

fn generic_form(letter: &Letter<'_>) -> Call {
    let Letter { id, from, to, text, .. } = *letter;
    let call = Call::form(&[("uid", id), ("from", from), ("to", to), ("body", text)]);
    let signature = BASE64_STANDARD.encode(tag(HMAC_SHA256, &call.body));
    call.with("x-gateway-signature", signature)
}
