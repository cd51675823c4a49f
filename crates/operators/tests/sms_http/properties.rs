//! Robustness against arbitrary requests.

use http::Method;
use proptest::prelude::*;
use tokio::runtime::Builder;

use crate::{
    fixture::{TestSms, WebhookFixture},
    vendors::{SECRET, SignedPart, VENDORS},
};

fn arbitrary_request() -> impl Strategy<Value = (Vec<u8>, String, String, usize)> {
    let json = r#"\{("[a-zA-Z_/]{1,12}":("[^"\\]{0,20}"|[0-9]{1,9}|null|\[\]|\{\}),?){0,6}\}?"#;
    let form = "([A-Za-z-]{1,12}=[ -~]{0,20}&?){0,8}";
    let body = prop_oneof![
        proptest::collection::vec(any::<u8>(), 0..300),
        json.prop_map(String::into_bytes),
        form.prop_map(String::into_bytes),
    ];
    (body, "[ -~]{0,80}", "[!-~]{0,60}", 0..4_usize)
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(256))]

    #[test]
    fn arbitrary_requests_do_not_panic_and_are_rejected((body, query, value, kind) in arbitrary_request()) {
        let runtime = Builder::new_current_thread().build().unwrap();
        for vendor in VENDORS {
            let fixture = WebhookFixture::new((vendor.config)(SECRET));
            let mut request = (vendor.build)(&TestSms::DEFAULT);
            request.body.clone_from(&body);
            let path = request.path_and_query.split('?').next().unwrap().to_owned();
            request.path_and_query = format!("{path}?{query}");
            request.method = if kind % 2 == 0 { Method::POST } else { Method::GET };
            if kind / 2 == 0 {
                for (_, header) in request.headers.iter_mut().skip(1) {
                    header.clone_from(&value);
                }
            }
            let reply = runtime.block_on(fixture.send(&request));
            prop_assert!(reply.status.as_u16() < 500);
            let is_signed = !matches!(vendor.signed_part, SignedPart::Nothing | SignedPart::UrlOnly);
            prop_assert!(!is_signed || fixture.texts().is_empty(), "{}", vendor.name);
        }
    }
}
