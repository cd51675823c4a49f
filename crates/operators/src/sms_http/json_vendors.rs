//! Vendors that post JSON: Infobip, Sinch, Telnyx, Bird and its predecessor `MessageBird`.

use std::collections::BTreeMap;

use aws_lc_rs::{
    hmac::HMAC_SHA256,
    signature::{ED25519, UnparsedPublicKey},
};
use http::Method;
use jiff::Timestamp;
use jsonwebtoken::Algorithm;
use ringtrue_domain::phone::SmsAddressKind;
use ringtrue_smpp::text::DataCoding;
use serde::Deserialize;
use serde_json::Value;

use super::{
    config::{Secret, SecretError},
    vendor::{
        Fields, InvalidSignature, MalformedRequest, MessageText, VendorMessage, VendorRequest, VerifiedSignature,
        WebhookVendor, constant_time_eq, decode_base64, decode_hex, deserialize_sender, sha256,
    },
};

/// Maximum number of messages in a batch. A body of the accepted size does not contain more in practice.
const MAX_BATCH_MESSAGES: usize = 1000;

/// Infobip, which posts batches of messages.
///
/// Requests are unsigned. A batch is acknowledged after all of its messages are stored; otherwise Infobip resends all
/// of them, and stored ones have no second effect. The field `cleanText` is ignored, because Infobip removes the
/// keyword of the message from it.
#[derive(Clone, Copy, Debug)]
pub struct Infobip;

#[derive(Deserialize)]
struct InfobipBatch {
    results: Vec<Value>,
}

#[derive(Deserialize)]
#[serde(rename_all = "camelCase")]
struct InfobipMessage {
    message_id: String,
    #[serde(default, deserialize_with = "deserialize_sender")]
    from: String,
    to: String,
    #[serde(default)]
    text: String,
}

impl WebhookVendor for Infobip {
    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let InfobipBatch { results } = serde_json::from_value(request.json()?).map_err(|_| MalformedRequest)?;
        if results.len() > MAX_BATCH_MESSAGES {
            return Err(MalformedRequest);
        }
        let is_empty = results.is_empty();
        // Skips malformed messages: if one of them made the request fail, Infobip would resend the whole batch, and the
        // valid messages would never arrive.
        let results = results.into_iter().filter_map(|result| serde_json::from_value::<InfobipMessage>(result).ok());
        let to_message = |InfobipMessage { message_id, from, to, text }| VendorMessage {
            id: Some(message_id),
            from,
            to,
            address_kind: SmsAddressKind::International,
            text: MessageText::Complete(text),
        };
        let messages: Vec<_> = results.map(to_message).collect();
        if messages.is_empty() && !is_empty { Err(MalformedRequest) } else { Ok(messages) }
    }
}

/// The callbacks of Sinch's SMS API.
///
/// Signed, if enabled for the account, with HMAC-SHA256 over body, nonce and timestamp. Sinch retries until it gets a
/// 2xx.
#[derive(Clone, Debug)]
pub struct Sinch {
    pub secret: Option<Secret>,
}

#[derive(Deserialize)]
struct SinchMessage {
    id: String,
    #[serde(default, deserialize_with = "deserialize_sender")]
    from: String,
    to: String,
    #[serde(default)]
    body: String,
    udh: Option<String>,
}

impl WebhookVendor for Sinch {
    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("x-sinch-webhook-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let nonce = request.header("x-sinch-webhook-signature-nonce").ok_or(InvalidSignature)?;
        let timestamp = request.header("x-sinch-webhook-signature-timestamp").ok_or(InvalidSignature)?;
        let algorithm = request.header("x-sinch-webhook-signature-algorithm");
        if algorithm.is_some_and(|algorithm| !algorithm.eq_ignore_ascii_case("HmacSHA256")) {
            return Err(InvalidSignature);
        }
        let signed_data = [request.body, b".", nonce.as_bytes(), b".", timestamp.as_bytes()].concat();
        if !secret.verify_hmac(HMAC_SHA256, &signed_data, &tag) {
            return Err(InvalidSignature);
        }
        Ok(VerifiedSignature::parse_signed_at(timestamp)?.with_nonce(nonce))
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let json = request.json()?;
        let is_binary = match json.get("type").and_then(|kind| kind.as_str()) {
            Some("mo_text") => false,
            Some("mo_binary") => true,
            // Delivery reports and media messages are ignored.
            Some(_) => return Ok(vec![]),
            None => return Err(MalformedRequest),
        };
        let SinchMessage { id, from, to, body, udh } = serde_json::from_value(json).map_err(|_| MalformedRequest)?;
        let text = if is_binary {
            let header = udh.as_deref().map_or(Some(vec![]), decode_hex).ok_or(MalformedRequest)?;
            MessageText::from_user_data(&header, DataCoding::OCTETS, decode_base64(&body).ok_or(MalformedRequest)?)
        } else {
            MessageText::Complete(body)
        };
        Ok(vec![VendorMessage { id: Some(id), from, to, address_kind: SmsAddressKind::International, text }])
    }
}

/// Whether a message has this direction. A message without `direction` does, because its event type implies it.
fn has_direction(message: &Value, expected: &str) -> bool {
    message.get("direction").is_none_or(|direction| direction == expected)
}

/// Maximum number of recipients of a message: more than any group chat has members.
const MAX_RECIPIENTS: usize = 32;

/// Telnyx, which posts events.
///
/// Signed with Ed25519 over timestamp and body. Telnyx retries until it gets a 2xx; events may arrive twice and out of
/// order. Telnyx joins the parts of concatenated messages.
#[derive(Clone, Debug)]
pub struct Telnyx {
    pub public_key: Option<TelnyxKey>,
}

/// Public key of the account, as Telnyx's portal shows it.
#[derive(Clone, Copy, PartialEq, Eq, derive_more::Debug)]
#[debug("TelnyxKey")]
pub struct TelnyxKey([u8; 32]);

impl TelnyxKey {
    pub fn from_base64(text: &str) -> Result<Self, SecretError> {
        let octets = decode_base64(text).ok_or(SecretError::PublicKey)?;
        octets.try_into().map(TelnyxKey).map_err(|_| SecretError::PublicKey)
    }
}

#[derive(Deserialize)]
struct TelnyxEvent {
    data: TelnyxEventData,
}

#[derive(Deserialize)]
struct TelnyxEventData {
    event_type: String,
    payload: Value,
}

#[derive(Deserialize)]
struct TelnyxPayload {
    id: String,
    text: Option<String>,
    #[serde(default)]
    from: Value,
    to: Vec<Value>,
}

#[derive(Deserialize)]
struct SendingParty {
    #[serde(default, deserialize_with = "deserialize_sender")]
    phone_number: String,
}

#[derive(Deserialize)]
struct Party {
    phone_number: String,
}

impl WebhookVendor for Telnyx {
    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(TelnyxKey(key)) = &self.public_key else { return Ok(VerifiedSignature::default()) };
        let signature = request.header("telnyx-signature-ed25519").and_then(decode_base64).ok_or(InvalidSignature)?;
        let timestamp = request.header("telnyx-timestamp").ok_or(InvalidSignature)?;
        let signed_data = [timestamp.as_bytes(), b"|", request.body].concat();
        UnparsedPublicKey::new(&ED25519, key).verify(&signed_data, &signature).map_err(|_| InvalidSignature)?;
        VerifiedSignature::parse_signed_at(timestamp)
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let TelnyxEvent { data } = serde_json::from_value(request.json()?).map_err(|_| MalformedRequest)?;
        if data.event_type != "message.received" {
            return Ok(vec![]);
        }
        // Skips messages that the account sends, whatever the type of their event.
        if !has_direction(&data.payload, "inbound") {
            return Ok(vec![]);
        }
        let payload: TelnyxPayload = serde_json::from_value(data.payload).map_err(|_| MalformedRequest)?;
        let from =
            serde_json::from_value(payload.from).map_or_else(|_| String::new(), |from: SendingParty| from.phone_number);
        let text = payload.text.unwrap_or_default();
        // In a group chat our number may be any of the recipients. Malformed recipients are skipped, so that the
        // message still reaches our number.
        let recipients = payload.to.into_iter().filter_map(|to| serde_json::from_value::<Party>(to).ok());
        let to_message = |to: Party| VendorMessage {
            id: Some(payload.id.clone()),
            from: from.clone(),
            to: to.phone_number,
            address_kind: SmsAddressKind::International,
            text: MessageText::Complete(text.clone()),
        };
        let messages: Vec<_> = recipients.take(MAX_RECIPIENTS).map(to_message).collect();
        if messages.is_empty() { Err(MalformedRequest) } else { Ok(messages) }
    }
}

/// `MessageBird`, which sends the fields of an SMS as a form, as JSON or in the query of a GET, depending on the flow.
///
/// Signed with a JWT (`messagebird-signature-jwt`, HMAC with SHA-256, SHA-384 or SHA-512) that contains hashes of URL
/// and body, a single-use id and a validity period. Accounts migrated to Bird use [`Bird`] instead.
#[derive(Clone, Debug)]
pub struct MessageBird {
    /// The signing key of the account.
    pub secret: Option<Secret>,
}

#[derive(Deserialize)]
struct MessageBirdClaims {
    iss: String,
    jti: String,
    nbf: i64,
    exp: i64,
    url_hash: String,
    payload_hash: Option<String>,
}

impl WebhookVendor for MessageBird {
    fn methods(&self) -> &'static [Method] {
        &[Method::POST, Method::GET]
    }

    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let token = request.header("messagebird-signature-jwt").ok_or(InvalidSignature)?;
        let algorithms = [Algorithm::HS256, Algorithm::HS384, Algorithm::HS512];
        let MessageBirdClaims { iss, jti, nbf, exp, url_hash, payload_hash } = secret.verify_jwt(token, &algorithms)?;
        let is_hash_of =
            |hash: &str, data: &[u8]| decode_hex(hash).is_some_and(|hash| constant_time_eq(&hash, &sha256(data)));
        let body_is_covered = match &payload_hash {
            Some(hash) => is_hash_of(hash, request.body),
            None => request.body.is_empty(),
        };
        if iss != "MessageBird" || !is_hash_of(&url_hash, request.signed_url().as_bytes()) || !body_is_covered {
            return Err(InvalidSignature);
        }
        let expires_at = Timestamp::from_second(exp).map_err(|_| InvalidSignature)?;
        Ok(VerifiedSignature {
            expires_at: Some(expires_at),
            ..VerifiedSignature::parse_signed_at(&nbf.to_string())?.with_nonce(&jti)
        })
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        if request.method == Method::POST && request.is_json() {
            let json = request.json()?;
            return build_message(|name| match json.get(name)? {
                Value::String(text) => Some(text.clone()),
                Value::Number(number) => Some(number.to_string()),
                _ => None,
            });
        }
        let fields: Fields<'_> = request.fields()?;
        build_message(|name| fields.text(name).map(str::to_owned))
    }
}

fn build_message(field: impl Fn(&str) -> Option<String>) -> Result<Vec<VendorMessage>, MalformedRequest> {
    let text = field("body").or_else(|| field("payload"));
    // Status reports of outbound messages have no text.
    if text.is_none() && field("status").is_some() {
        return Ok(vec![]);
    }
    Ok(vec![VendorMessage {
        id: field("id").or_else(|| field("message_id")),
        from: field("originator").unwrap_or_default(),
        to: field("recipient").ok_or(MalformedRequest)?,
        address_kind: SmsAddressKind::International,
        text: MessageText::Complete(text.ok_or(MalformedRequest)?),
    }])
}

/// Events of Bird's Channels API, JSON by POST.
///
/// Signed with HMAC-SHA256 over timestamp, URL and SHA-256 of the body, separated by line feeds. Bird joins the parts
/// of concatenated messages.
///
/// An inbound SMS names its channel. Not every event contains the channel's number, so the numbers can be configured.
#[derive(Clone, Debug)]
pub struct Bird {
    /// The signing key of the webhook subscription.
    pub secret: Option<Secret>,
    /// Our numbers by channel id.
    pub channels: BTreeMap<String, String>,
}

impl WebhookVendor for Bird {
    fn verify_signature(&self, request: &VendorRequest<'_>) -> Result<VerifiedSignature, InvalidSignature> {
        let Some(secret) = &self.secret else { return Ok(VerifiedSignature::default()) };
        let tag = request.header("messagebird-signature").and_then(decode_base64).ok_or(InvalidSignature)?;
        let timestamp = request.header("messagebird-request-timestamp").ok_or(InvalidSignature)?;
        let url = request.signed_url();
        let signed_data = [timestamp.as_bytes(), b"\n", url.as_bytes(), b"\n", &sha256(request.body)].concat();
        if secret.verify_hmac(HMAC_SHA256, &signed_data, &tag) {
            VerifiedSignature::parse_signed_at(timestamp)
        } else {
            Err(InvalidSignature)
        }
    }

    fn parse_messages(&self, request: &VendorRequest<'_>) -> Result<Vec<VendorMessage>, MalformedRequest> {
        let json = request.json()?;
        if json.get("event").and_then(Value::as_str).ok_or(MalformedRequest)? != "sms.inbound" {
            return Ok(vec![]);
        }
        let payload = json.get("payload").ok_or(MalformedRequest)?;
        if !has_direction(payload, "incoming") {
            return Ok(vec![]);
        }
        let text = |pointer: &str| payload.pointer(pointer).and_then(Value::as_str).map(str::to_owned);
        let channel = text("/channelId").and_then(|channel| self.channels.get(&channel).cloned());
        let is_number = text("/sender/contact/identifierKey").is_none_or(|key| key == "phonenumber");
        Ok(vec![VendorMessage {
            id: Some(text("/id").ok_or(MalformedRequest)?),
            from: text("/sender/contact/identifierValue").filter(|_| is_number).unwrap_or_default(),
            to: channel.or_else(|| text("/receiver/connector/identifierValue")).ok_or(MalformedRequest)?,
            address_kind: SmsAddressKind::International,
            // Media messages have no text.
            text: MessageText::Complete(text("/body/text/text").unwrap_or_default()),
        }])
    }
}
