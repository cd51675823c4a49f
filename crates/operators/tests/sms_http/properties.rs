//! Whatever comes, nothing breaks.

use http::Method;
use proptest::prelude::*;
use tokio::runtime::Builder;

use crate::{
    vendors::{Covers, SECRET, VENDORS},
    world::{Door, Letter},
};

fn strange() -> impl Strategy<Value = (Vec<u8>, String, String, usize)> {
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
    fn any_octets_are_survived_and_never_believed((body, query, value, kind) in strange()) {
        let runtime = Builder::new_current_thread().build().unwrap();
        for vendor in VENDORS {
            let door = Door::new((vendor.config)(SECRET));
            let mut call = (vendor.write)(&Letter::PLAIN);
            call.body.clone_from(&body);
            let path = call.path_and_query.split('?').next().unwrap().to_owned();
            call.path_and_query = format!("{path}?{query}");
            call.method = if kind % 2 == 0 { Method::POST } else { Method::GET };
            if kind / 2 == 0 {
                for (_, header) in call.headers.iter_mut().skip(1) {
                    header.clone_from(&value);
                }
            }
            let reply = runtime.block_on(door.call(&call));
            prop_assert!(reply.status.as_u16() < 500);
            let is_signed = !matches!(vendor.covers, Covers::Nothing | Covers::UrlOnly);
            prop_assert!(!is_signed || door.texts().is_empty(), "{}", vendor.name);
        }
    }
}
