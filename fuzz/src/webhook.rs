//! Arbitrary requests to the SMS webhooks of every driver.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::Arc,
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use parking_lot::Mutex;
use ringtrue_domain::{phone::Msisdn, reverse_sms::InboundSms, tenancy::Mode};
use ringtrue_engine::ports::{
    clock::ManualClock,
    sms::{CompleteSms, Inbox, PartOutcome, PartialSms, Reassembly, SmsOutcome, SmsPart},
    store::StoreError,
};
use ringtrue_operators::sms_http::{
    Bird, FieldMap, Generic, GenericSignature, Infobip, Jasmin, Kannel, MessageBird, PathSecret, Plivo, PlivoSignature,
    Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageCredential, Webhook, WebhookConfig,
    WebhookDriver, WebhookRequest,
};

use crate::{Target, text_seeds};

/// `Webhook::handle`: drivers with signatures reject unsigned requests; drivers without do not panic.
pub const WEBHOOK: Target = Target { name: "webhook", run, seeds, short_run_inputs: 1_000 };

const PATH: &str = "/southbound/sms/webhook/Zm9vYmFyYmF6cXV4";
const RECEIVER: &str = "+447700900999";

/// Method and query, headers, an empty line, body.
fn seeds() -> Vec<Vec<u8>> {
    const FORM: &str = "content-type: application/x-www-form-urlencoded\n";
    const JSON: &str = "content-type: application/json\n";
    let fields = "From=%2B447700900123&To=%2B447700900999&Body=VERIFY+7K3QX9M20D&MessageSid=SM1&Text=x&MessageUUID=1";
    let mut seeds = text_seeds(&[
        "GET from=%2B447700900123&to=%2B447700900999&text=VERIFY+7K3QX9M20D&coding=0&charset=UTF-8&id=1&udh=%05%00%03%07%02%01\n",
        "GET from=07700900123&to=00447700900999&text=%00V&coding=2\n",
        "GET msisdn=447700900123&to=447700900999&messageId=1&type=text&text=VERIFY&concat=true&concat-ref=7&concat-total=2&concat-part=1&sig=00&timestamp=1\n",
        "GET msisdn=447700900123&to=447700900999&messageId=1&type=binary&data=00ff&udh=050003070201\n",
        "GET id=1&from=447700900123&to=447700900999&binary=00560045&coding=8\n",
        "POST id=1\nx-kannel-from: 447700900123\nx-kannel-to: 447700900999\nx-kannel-udh: 050003070201\ncontent-type: text/plain; charset=\"UTF-16BE\"\n\n\0V",
    ]);
    for (content_type, body) in [
        (FORM, fields),
        (FORM, "id=1&from=447700900123&to=447700900999&content=%FEx&coding=3&text=x"),
        (
            JSON,
            r#"{"data":{"event_type":"message.received","payload":{"id":"1","text":"x","from":{"phone_number":"+447700900123"},"to":[{"phone_number":"+447700900999"}]}}}"#,
        ),
        (
            JSON,
            r#"{"type":"mo_binary","id":"1","from":"447700900123","to":"447700900999","body":"AAEC","udh":"050003070201"}"#,
        ),
        (
            JSON,
            r#"{"results":[{"messageId":"1","from":"447700900123","to":"447700900999","text":"x"},{"messageId":"1","from":"","to":"447700900999"}]}"#,
        ),
        (JSON, r#"{"type":"mo_text","id":"1","from":"447700900123","to":"447700900999","body":"VERIFY"}"#),
        (JSON, r#"{"message_uuid":"1","channel":"sms","from":"447700900123","to":"447700900999","text":"VERIFY"}"#),
        (FORM, "id=1&originator=447700900123&recipient=447700900999&body=VERIFY"),
        (
            JSON,
            r#"{"event":"sms.inbound","payload":{"id":"1","sender":{"contact":{"identifierValue":"+447700900123"}},"receiver":{"connector":{"identifierValue":"+447700900999"}},"body":{"text":{"text":"VERIFY"}}}}"#,
        ),
        (JSON, r#"{"from":"447700900123","to":447700900999,"text":"VERIFY","id":"1"}"#),
    ] {
        let signed = "x-twilio-signature: AAAA\nx-plivo-signature-v2: AAAA,AAAA\nx-plivo-signature-v2-nonce: 1\n\
            telnyx-signature-ed25519: AAAA\ntelnyx-timestamp: 1794700000\nx-signature: 00ff\nauthorization: Bearer e30.e30.AAAA\n\
            messagebird-signature: AAAA\nmessagebird-request-timestamp: 1794700000\nmessagebird-signature-jwt: e30.e30.AAAA\n";
        seeds.push(format!("POST bodySHA256=00\n{content_type}\n{body}").into_bytes());
        seeds.push(format!("POST \n{content_type}{signed}\n{body}").into_bytes());
    }
    seeds
}

fn run(data: &[u8]) {
    let request = RawRequest::parse(data);
    for driver in signed_drivers() {
        let fixture = WebhookFixture::new(driver);
        let status = fixture.handle(&request);
        assert!([StatusCode::FORBIDDEN, StatusCode::BAD_REQUEST].contains(&status), "{status}");
        assert_eq!(fixture.received(), 0, "accepted without a signature");
    }
    for driver in unsigned_drivers() {
        let has_message_id = !matches!(driver, WebhookDriver::Kannel(_) | WebhookDriver::MessageBird(_));
        let fixture = WebhookFixture::new(driver);
        let status = fixture.handle(&request);
        let is_expected = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        assert!(is_expected, "{status}");
        let received = fixture.received();
        assert!(status != StatusCode::BAD_REQUEST || received == 0, "a rejected request has an effect");
        let repeated = fixture.handle(&request);
        assert_eq!(repeated, status, "a repeated request gets a different response");
        assert!(!has_message_id || fixture.received() == received, "a repeated request has another effect");
    }
}

struct RawRequest {
    method: Method,
    path_and_query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl RawRequest {
    /// Skips invalid headers.
    fn parse(data: &[u8]) -> Self {
        let split = |data: &'_ [u8], at: &[u8]| {
            let found = data.windows(at.len()).position(|window| window == at);
            found.map_or((data.to_vec(), vec![]), |index| (data[..index].to_vec(), data[index + at.len()..].to_vec()))
        };
        let (head, body) = split(data, b"\n\n");
        let (first, head) = split(&head, b"\n");
        let first = String::from_utf8_lossy(&first).into_owned();
        let (method, query) = first.split_once(' ').unwrap_or(("POST", &first));
        let mut headers = HeaderMap::new();
        for line in head.split(|byte| *byte == b'\n') {
            let (name, value) = split(line, b": ");
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&name), HeaderValue::from_bytes(&value)) {
                headers.append(name, value);
            }
        }
        RawRequest {
            method: if method == "GET" { Method::GET } else { Method::POST },
            path_and_query: format!("{PATH}?{query}"),
            headers,
            body,
        }
    }
}

struct WebhookFixture {
    webhook: Webhook,
    inbox: Arc<RecordingInbox>,
}

#[derive(Default)]
struct RecordingInbox(Mutex<Vec<InboundSms>>);

#[async_trait]
impl Inbox for RecordingInbox {
    async fn receive(&self, sms: InboundSms) -> Result<SmsOutcome, StoreError> {
        self.0.lock().push(sms);
        Ok(SmsOutcome::Unmatched)
    }

    async fn receive_partial(&self, _: PartialSms) -> Result<(), StoreError> {
        Ok(())
    }
}

/// Joins nothing: each part is stored, and its message stays incomplete.
struct IncompleteParts;

#[async_trait]
impl Reassembly for IncompleteParts {
    async fn add_part(&self, _: SmsPart) -> Result<PartOutcome, StoreError> {
        Ok(PartOutcome::Stored { first: true })
    }

    async fn mark_processed(&self, _: &CompleteSms) -> Result<(), StoreError> {
        Ok(())
    }

    async fn discard_expired(&self, _: &str) -> Result<u64, StoreError> {
        Ok(0)
    }
}

impl WebhookFixture {
    fn new(driver: WebhookDriver) -> Self {
        let inbox = Arc::<RecordingInbox>::default();
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_794_700_000).unwrap()));
        let config = WebhookConfig {
            name: "webhook".into(),
            driver,
            public_url: "https://nv.example.com/southbound/sms/webhook".parse().unwrap(),
            path_secret: Some(PathSecret::new("Zm9vYmFyYmF6cXV4").unwrap()),
            allowed_addresses: vec![],
            max_skew: WebhookConfig::DEFAULT_MAX_SKEW,
            country: "GB".parse().ok(),
            receivers: vec![Msisdn::parse(RECEIVER, Mode::Live).unwrap()],
        };
        let webhook = Webhook::new(config, inbox.clone(), Arc::new(IncompleteParts), clock).unwrap();
        WebhookFixture { webhook, inbox }
    }

    fn handle(&self, RawRequest { method, path_and_query, headers, body }: &RawRequest) -> StatusCode {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let response =
            self.webhook.handle(WebhookRequest { method, path_and_query, headers, body, peer }).now_or_never();
        let max_characters = path_and_query.len() + body.len();
        for sms in &*self.inbox.0.lock() {
            assert_eq!(sms.to.as_str(), RECEIVER);
            assert!(sms.text.chars().count() <= max_characters, "text is longer than the request");
        }
        response.unwrap().status
    }

    fn received(&self) -> usize {
        self.inbox.0.lock().len()
    }
}

fn secret() -> Secret {
    Secret::new("correct horse").unwrap()
}

fn signed_drivers() -> Vec<WebhookDriver> {
    let sig =
        |method| WebhookDriver::Vonage(Vonage { signature: Some(VonageCredential::Sig { method, secret: secret() }) });
    let plivo = |signature| WebhookDriver::Plivo(Plivo { signature: Some(signature) });
    let tag = GenericSignature {
        secret: secret(),
        header: HeaderName::from_static("x-signature"),
        encoding: TagEncoding::Hex,
        prefix: String::new(),
        timestamp: None,
    };
    vec![
        WebhookDriver::Twilio(Twilio { auth_token: Some(secret()) }),
        sig(SigMethod::Md5Hash),
        sig(SigMethod::HmacMd5),
        sig(SigMethod::HmacSha256),
        WebhookDriver::Vonage(Vonage { signature: Some(VonageCredential::Bearer(secret())) }),
        // Public key of the first test vector of RFC 8032.
        WebhookDriver::Telnyx(Telnyx {
            public_key: Some(TelnyxKey::from_base64("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").unwrap()),
        }),
        WebhookDriver::Sinch(Sinch { secret: Some(secret()) }),
        WebhookDriver::Bird(Bird { secret: Some(secret()), channels: BTreeMap::new() }),
        WebhookDriver::MessageBird(MessageBird { secret: Some(secret()) }),
        plivo(PlivoSignature::V2(secret())),
        plivo(PlivoSignature::V3(secret())),
        WebhookDriver::Generic(Generic { fields: field_map(), signature: Some(tag) }),
    ]
}

fn unsigned_drivers() -> Vec<WebhookDriver> {
    vec![
        WebhookDriver::Twilio(Twilio { auth_token: None }),
        WebhookDriver::Vonage(Vonage { signature: None }),
        WebhookDriver::Telnyx(Telnyx { public_key: None }),
        WebhookDriver::Sinch(Sinch { secret: None }),
        WebhookDriver::Bird(Bird { secret: None, channels: BTreeMap::new() }),
        WebhookDriver::MessageBird(MessageBird { secret: None }),
        WebhookDriver::Infobip(Infobip),
        WebhookDriver::Plivo(Plivo { signature: None }),
        WebhookDriver::Kannel(Kannel),
        WebhookDriver::Jasmin(Jasmin),
        WebhookDriver::Generic(Generic { fields: field_map(), signature: None }),
    ]
}

fn field_map() -> FieldMap {
    let [from, to, text, id] = ["from", "/to", "text", "id"].map(str::to_owned);
    FieldMap { from, to, text, id: Some(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_accepts_a_seed() {
        let requests: Vec<RawRequest> = seeds().iter().map(|seed| RawRequest::parse(seed)).collect();
        for driver in unsigned_drivers() {
            let name = driver.into_str();
            let fixture = WebhookFixture::new(driver);
            for request in &requests {
                fixture.handle(request);
            }
            assert!(fixture.received() > 0, "{name}");
        }
    }
}
