//! Requests to the webhooks for SMS: any bytes to each driver.

use std::{
    collections::BTreeMap,
    net::{IpAddr, Ipv4Addr},
    sync::{Arc, Mutex},
};

use async_trait::async_trait;
use futures_util::FutureExt as _;
use http::{HeaderMap, HeaderName, HeaderValue, Method, StatusCode};
use jiff::Timestamp;
use ringtrue_domain::{phone::Msisdn, reverse_sms::InboundSms, tenancy::Mode};
use ringtrue_engine::ports::{Disposition, Glimpse, Inbox, ManualClock, StoreError};
use ringtrue_operators::sms_http::{
    Bird, Driver, FieldMap, Generic, GenericSignature, Incoming, Infobip, Jasmin, Kannel, MessageBird, PathSecret,
    Plivo, PlivoSignature, Secret, SigMethod, Sinch, TagEncoding, Telnyx, TelnyxKey, Twilio, Vonage, VonageSignature,
    Webhook, WebhookConfig,
};

use crate::{Target, texts};

/// `Webhook::handle`: where there is a signature, nothing without one is believed; where there is none, nothing breaks.
pub const WEBHOOK: Target = Target { name: "webhook", run, seeds, short_run: 1_000 };

const PATH: &str = "/southbound/sms/door/Zm9vYmFyYmF6cXV4";
const RECEIVER: &str = "+447700900999";

/// Method and query, headers, an empty line, a body.
fn seeds() -> Vec<Vec<u8>> {
    const FORM: &str = "content-type: application/x-www-form-urlencoded\n";
    const JSON: &str = "content-type: application/json\n";
    let fields = "From=%2B447700900123&To=%2B447700900999&Body=VERIFY+7K3QX9M20D&MessageSid=SM1&Text=x&MessageUUID=1";
    let mut seeds = texts(&[
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
    let call = Call::read(data);
    for driver in signed() {
        let door = Door::new(driver);
        let status = door.takes(&call);
        assert!([StatusCode::FORBIDDEN, StatusCode::BAD_REQUEST].contains(&status), "{status}");
        assert_eq!(door.received(), 0, "nobody signed this");
    }
    for driver in unsigned() {
        let always_has_an_id = !matches!(driver, Driver::Kannel(_) | Driver::MessageBird(_));
        let door = Door::new(driver);
        let status = door.takes(&call);
        let is_known = [StatusCode::OK, StatusCode::BAD_REQUEST, StatusCode::SERVICE_UNAVAILABLE].contains(&status);
        assert!(is_known, "{status}");
        let received = door.received();
        assert!(status != StatusCode::BAD_REQUEST || received == 0, "what cannot be read has no effect");
        let again = door.takes(&call);
        assert_eq!(again, status, "the same request gets the same answer");
        assert!(!always_has_an_id || door.received() == received, "and has no second effect");
    }
}

struct Call {
    method: Method,
    path_and_query: String,
    headers: HeaderMap,
    body: Vec<u8>,
}

impl Call {
    /// Whatever HTTP cannot carry is left out.
    fn read(data: &[u8]) -> Self {
        let cut = |data: &'_ [u8], at: &[u8]| {
            let found = data.windows(at.len()).position(|window| window == at);
            found.map_or((data.to_vec(), vec![]), |place| (data[..place].to_vec(), data[place + at.len()..].to_vec()))
        };
        let (head, body) = cut(data, b"\n\n");
        let (first, head) = cut(&head, b"\n");
        let first = String::from_utf8_lossy(&first).into_owned();
        let (method, query) = first.split_once(' ').unwrap_or(("POST", &first));
        let mut headers = HeaderMap::new();
        for line in head.split(|byte| *byte == b'\n') {
            let (name, value) = cut(line, b": ");
            if let (Ok(name), Ok(value)) = (HeaderName::from_bytes(&name), HeaderValue::from_bytes(&value)) {
                headers.append(name, value);
            }
        }
        Call {
            method: if method == "GET" { Method::GET } else { Method::POST },
            path_and_query: format!("{PATH}?{query}"),
            headers,
            body,
        }
    }
}

struct Door {
    webhook: Webhook,
    inbox: Arc<Notebook>,
}

#[derive(Default)]
struct Notebook(Mutex<Vec<InboundSms>>);

#[async_trait]
impl Inbox for Notebook {
    async fn receive(&self, sms: InboundSms) -> Result<Disposition, StoreError> {
        self.0.lock().unwrap().push(sms);
        Ok(Disposition::Unmatched)
    }

    async fn glimpse(&self, _: Glimpse) -> Result<(), StoreError> {
        Ok(())
    }
}

impl Door {
    fn new(driver: Driver) -> Self {
        let inbox = Arc::<Notebook>::default();
        let clock = Arc::new(ManualClock::at(Timestamp::from_second(1_794_700_000).unwrap()));
        let config = WebhookConfig {
            name: "door".into(),
            driver,
            public_url: "https://nv.example.com/southbound/sms/door".parse().unwrap(),
            path_secret: Some(PathSecret::new("Zm9vYmFyYmF6cXV4").unwrap()),
            allowed: vec![],
            max_skew: WebhookConfig::MAX_SKEW,
            country: "GB".parse().ok(),
            receivers: vec![Msisdn::parse(RECEIVER, Mode::Live).unwrap()],
        };
        Door { webhook: Webhook::new(config, inbox.clone(), clock).unwrap(), inbox }
    }

    fn takes(&self, Call { method, path_and_query, headers, body }: &Call) -> StatusCode {
        let peer = IpAddr::V4(Ipv4Addr::LOCALHOST);
        let answered = self.webhook.handle(Incoming { method, path_and_query, headers, body, peer }).now_or_never();
        let most = path_and_query.len() + body.len();
        for sms in &*self.inbox.0.lock().unwrap() {
            assert_eq!(sms.to.as_str(), RECEIVER);
            assert!(sms.text.chars().count() <= most, "no text is longer than its request");
        }
        answered.unwrap().status
    }

    fn received(&self) -> usize {
        self.inbox.0.lock().unwrap().len()
    }
}

fn secret() -> Secret {
    Secret::new("correct horse").unwrap()
}

fn signed() -> Vec<Driver> {
    let sig = |method| Driver::Vonage(Vonage { signature: Some(VonageSignature::Sig { method, secret: secret() }) });
    let plivo = |signature| Driver::Plivo(Plivo { signature: Some(signature) });
    let tag = GenericSignature {
        secret: secret(),
        header: HeaderName::from_static("x-signature"),
        encoding: TagEncoding::Hex,
        prefix: String::new(),
        timestamp: None,
    };
    vec![
        Driver::Twilio(Twilio { auth_token: Some(secret()) }),
        sig(SigMethod::Md5Hash),
        sig(SigMethod::HmacMd5),
        sig(SigMethod::HmacSha256),
        Driver::Vonage(Vonage { signature: Some(VonageSignature::Bearer(secret())) }),
        // The key of RFC 8032's first test, whose other half signs nothing here.
        Driver::Telnyx(Telnyx {
            public_key: Some(TelnyxKey::from_base64("11qYAYKxCrfVS/7TyWQHOg7hcvPapiMlrwIaaPcHURo=").unwrap()),
        }),
        Driver::Sinch(Sinch { secret: Some(secret()) }),
        Driver::Bird(Bird { secret: Some(secret()), channels: BTreeMap::new() }),
        Driver::MessageBird(MessageBird { secret: Some(secret()) }),
        plivo(PlivoSignature::V2(secret())),
        plivo(PlivoSignature::V3(secret())),
        Driver::Generic(Generic { fields: names(), signature: Some(tag) }),
    ]
}

fn unsigned() -> Vec<Driver> {
    vec![
        Driver::Twilio(Twilio { auth_token: None }),
        Driver::Vonage(Vonage { signature: None }),
        Driver::Telnyx(Telnyx { public_key: None }),
        Driver::Sinch(Sinch { secret: None }),
        Driver::Bird(Bird { secret: None, channels: BTreeMap::new() }),
        Driver::MessageBird(MessageBird { secret: None }),
        Driver::Infobip(Infobip),
        Driver::Plivo(Plivo { signature: None }),
        Driver::Kannel(Kannel),
        Driver::Jasmin(Jasmin),
        Driver::Generic(Generic { fields: names(), signature: None }),
    ]
}

fn names() -> FieldMap {
    let [from, to, text, id] = ["from", "/to", "text", "id"].map(str::to_owned);
    FieldMap { from, to, text, id: Some(id) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_driver_has_a_seed_that_it_takes() {
        let calls: Vec<Call> = seeds().iter().map(|seed| Call::read(seed)).collect();
        for driver in unsigned() {
            let name = driver.as_str();
            let door = Door::new(driver);
            for call in &calls {
                door.takes(call);
            }
            assert!(door.received() > 0, "{name}");
        }
    }
}
