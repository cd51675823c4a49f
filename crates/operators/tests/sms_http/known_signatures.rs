//! Signatures by an independent implementation: Python's `hmac`, `hashlib` and `cryptography` (Ed25519).

use std::collections::BTreeMap;

use http::StatusCode;
use ringtrue_operators::sms_http::{
    Bird, MessageBird, Plivo, PlivoSignature, Secret, SigMethod, Sinch, Telnyx, TelnyxKey, Twilio, Vonage,
    VonageCredential, WebhookConfig, WebhookDriver,
};

use crate::fixture::{NOON, PHONE, RECEIVER, TestRequest, WebhookFixture, restricted, unrestricted};

fn secret(text: &str) -> Secret {
    Secret::new(text).unwrap()
}

async fn assert_accepted(config: WebhookConfig, request: TestRequest, text: &str) {
    let fixture = WebhookFixture::new(config);
    assert_eq!(fixture.send(&request).await.status, StatusCode::OK, "{request:?}");
    assert_eq!(fixture.texts(), [text]);
}

#[tokio::test]
async fn twilio() {
    let config = unrestricted(WebhookDriver::Twilio(Twilio { auth_token: Some(secret("token-1")) }));
    let text = "VERIFY 4F7K2Q9X0Z ✓";
    let request = TestRequest::form(&[
        ("To", "+447700900999"),
        ("MessageSid", "SM1"),
        ("AccountSid", "AC1"),
        ("From", "+447700900001"),
        ("Body", text),
    ]);
    assert_accepted(config, request.with("X-Twilio-Signature", "RHZT0uzbPrrEtPhmQOqQiFOc39I="), text).await;
}

#[tokio::test]
async fn vonage() {
    for (method, sig) in [
        (SigMethod::Md5Hash, "27d3dfddcbf403510acc87b1e27305c2"),
        (SigMethod::HmacMd5, "18d5122bdc1d9a36fe8f9163d8a1c8e3"),
        (SigMethod::HmacSha1, "b88eeac022d2c315595a81f3cecb58388f059eb8"),
        (SigMethod::HmacSha256, "2df6244dea16e3c1bcf3398b97c995a7784db00428abb2508788ad893353776e"),
        (
            SigMethod::HmacSha512,
            "257392b740371f73b1d92a83612da9ef04ddcf3b65b7f7a778d5fb9ae4c0b819\
             47c28e50ac8504bc2d6b9cac59dbc46256526a89997ab5cedc8bb21f61b0cfcf",
        ),
    ] {
        let signature = VonageCredential::Sig { method, secret: secret("secret-1") };
        let config = unrestricted(WebhookDriver::Vonage(Vonage { signature: Some(signature) }));
        let at = NOON.to_string();
        let request = TestRequest::form(&[
            ("msisdn", PHONE),
            ("to", RECEIVER),
            ("messageId", "V1"),
            ("text", "VERIFY a=b&c"),
            ("type", "text"),
            ("timestamp", &at),
            ("nonce", "n-1"),
            ("sig", sig),
        ]);
        assert_accepted(config, request, "VERIFY a=b&c").await;
    }
}

#[tokio::test]
async fn telnyx() {
    let key = TelnyxKey::from_base64("A6EHv/POEL4dcN0Y50vAmWfk1jCbpQ1fHdyGZBJVMbg=").unwrap();
    let body = r#"{"data":{"event_type":"message.received","payload":{"id":"T1","text":"VERIFY","from":{"phone_number":"+447700900001"},"to":[{"phone_number":"+447700900999"}]}}}"#;
    let signature = "WM2EKMuXABXJnVsGgEssSNCv/2OGHJg3nTiJiCU/4IB3DTXwYJHoydmn+nMlBowM5agilY5IgX8325oH4I6/Cg==";
    let request = TestRequest::post("application/json", body)
        .with("telnyx-timestamp", NOON.to_string())
        .with("telnyx-signature-ed25519", signature);
    assert_accepted(unrestricted(WebhookDriver::Telnyx(Telnyx { public_key: Some(key) })), request, "VERIFY").await;
}

#[tokio::test]
async fn sinch() {
    let body = r#"{"type":"mo_text","id":"S1","from":"447700900001","to":"447700900999","body":"VERIFY"}"#;
    let request = TestRequest::post("application/json; charset=utf-8", body)
        .with("x-sinch-webhook-signature-nonce", "n-1")
        .with("x-sinch-webhook-signature-timestamp", NOON.to_string())
        .with("x-sinch-webhook-signature-algorithm", "HmacSHA256")
        .with("x-sinch-webhook-signature", "Hlkt5PkuT7YJ64s4r6sSmy23xFQ2ysi5yBz/FRrz4gA=");
    assert_accepted(unrestricted(WebhookDriver::Sinch(Sinch { secret: Some(secret("secret-1")) })), request, "VERIFY")
        .await;
}

#[tokio::test]
async fn plivo() {
    let request = || TestRequest::form(&[("From", PHONE), ("To", RECEIVER), ("Text", "VERIFY"), ("MessageUUID", "P1")]);
    let version = |signature| WebhookDriver::Plivo(Plivo { signature: Some(signature) });

    let second = request()
        .with_path_secret()
        .with("X-Plivo-Signature-V2-Nonce", "n-1")
        .with("X-Plivo-Signature-V2", "4BUdf05OyQjx0m/KJmB4V/X8JYjOHj7WklWN6E21PdA=");
    assert_accepted(restricted(version(PlivoSignature::V2(secret("token-1")))), second, "VERIFY").await;

    let mut third = request()
        .with("X-Plivo-Signature-V3-Nonce", "n-1")
        .with("X-Plivo-Signature-V3", "AAAA,/tU7H7OyclOSgdsilwpEdN/6claO98dE01gzxg9IZJ8=");
    third.path_and_query += "?b=2&a=1";
    assert_accepted(unrestricted(version(PlivoSignature::V3(secret("token-1")))), third, "VERIFY").await;
}

#[tokio::test]
async fn bird() {
    let body = r#"{"service":"channels","event":"sms.inbound","payload":{"id":"B1","channelId":"614208aa-b153-4d5d-9989-2fddfc0ce4c3","sender":{"contact":{"identifierKey":"phonenumber","identifierValue":"+447700900001"}},"receiver":{"connector":{"id":"86cc4dc0-3dc0-41b7-ac43-8ec829ead56f"}},"body":{"type":"text","text":{"text":"VERIFY"}}}}"#;
    let mut request = TestRequest::post("application/json", body)
        .with("messagebird-request-timestamp", NOON.to_string())
        .with("messagebird-signature", "1I7i6x87Fd/w316x2LOXz1yCx497ikOQdyubgmhGbiI=");
    request.path_and_query += "?a=1";
    // The event lacks our number; the channel's number is configured.
    let channels = [("614208aa-b153-4d5d-9989-2fddfc0ce4c3".to_owned(), format!("+{RECEIVER}"))];
    let bird = Bird { secret: Some(secret("secret-1")), channels: BTreeMap::from(channels) };
    assert_accepted(unrestricted(WebhookDriver::Bird(bird)), request, "VERIFY").await;
}

#[tokio::test]
async fn messagebird() {
    let fields = [("id", "M1"), ("originator", PHONE), ("recipient", RECEIVER), ("body", "VERIFY")];
    let token = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiAiTWVzc2FnZUJpcmQiLCAibmJmIjogMTc5NDcwMDAwM\
             CwgImV4cCI6IDE3OTQ3MDAwNjAsICJqdGkiOiAiai0xIiwgInVybF9oYXNoIjogIjgzN2ZhNzc5M2I5ZWJiNTE3ZmZ\
             mZmYwODE5M2M5ZWIzZGI2NGU3Yzk3Njk4NzU3OTlhZTNlMDE4ZDE1OTBkMjciLCAicGF5bG9hZF9oYXNoIjogIjk0M\
             DQ4M2U2YWM4YWUzODliY2IzMjA3YjQ3ODhjODUwZTQyNGEyZWI2MWEyNDMyNjRlZTM0N2IxNDdmNmY1NDUifQ.tQUp\
             0mDBAjEWCiDp1TmxdNGPdjM9dtqbtevNSK7UNWo";
    let request = TestRequest::form(&fields).with("MessageBird-Signature-JWT", token);
    let config = || unrestricted(WebhookDriver::MessageBird(MessageBird { secret: Some(secret("secret-1")) }));
    assert_accepted(config(), request.clone(), "VERIFY").await;

    // The token's expiry applies regardless of the allowed clock skew.
    for (seconds, status) in [(64, StatusCode::OK), (65, StatusCode::FORBIDDEN)] {
        let fixture = WebhookFixture::new(config());
        fixture.advance(seconds);
        assert_eq!(fixture.send(&request).await.status, status, "{seconds}");
    }
}
