//! Secure SNA and Discovery end to end: create, redirects, redemption, callback.

use ringtrue_server::config::BaseUrl;
use std::collections::BTreeSet;

use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use serde_json::{Value, json};

use crate::{
    client::Request,
    database::Database,
    on_both_stores,
    receiver::Receiver,
    silent::{
        scripted_operator::ScriptedOperator,
        silent_client::{BOTH, DISCOVERY, EVEN, SECURE_SNA, SilentClient, query},
    },
    world::{World, send_to},
};

fn keys(body: &Value) -> BTreeSet<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn claimed_number_of_the_device_matches(world: World) {
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    let mut receiver = Receiver::start().await;
    let body = json!({"phone_number": EVEN, "reference_id": "login-1", "callback_url": receiver.url("/done")});
    let created = silent.post(&body).await.assert(201).json();
    assert_eq!(keys(&created), ["check_id", "created_at", "reference_id", "status", "ttl", "url"].into());
    assert_eq!((&created["status"], &created["ttl"]), (&json!("ACCEPTED"), &json!(120)));
    let (id, url) = (created["check_id"].as_str().unwrap(), created["url"].as_str().unwrap());
    let expected = format!("{}{}/{id}/redirect?t=", world.node.base_url, SECURE_SNA.checks);
    let token = url.strip_prefix(&expected).expect("a URL of ours");
    assert_eq!(token.len(), 22, "128 bits");

    let open = silent.get(id).await.assert(200).json();
    assert_eq!(keys(&open), ["check_id", "created_at", "reference_id", "status"].into());

    let target = url.strip_prefix(&world.node.base_url).unwrap();
    let state = silent.start_redirect(target).await;
    assert_eq!(silent.get(id).await.json()["status"], "PENDING");
    let end = silent.return_from_operator(&state).await.assert(200).json();
    assert_eq!(keys(&end), ["check_id", "code", "reference_id"].into());
    assert_eq!((&end["check_id"], &end["reference_id"]), (&json!(id), &json!("login-1")));

    // The operator's verdict is stored, but not disclosed before the code is redeemed.
    let sealed = silent.get(id).await.json();
    assert_eq!((&sealed["status"], sealed.get("match")), (&json!("PENDING"), None));
    assert!(receiver.is_quiet());

    let redeemed = silent.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!((&redeemed["status"], &redeemed["match"]), (&json!("COMPLETED"), &json!(true)));
    assert_eq!(redeemed["network_id"], "00101");
    assert_eq!(silent.get(id).await.assert(200).json(), redeemed);

    let callback = receiver.next().await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    callback.assert_signed_by(&jwks);
    assert_eq!(callback.header("x-service-callback"), "secure_sna");
    assert_eq!(callback.json(), redeemed, "the callback matches the check");
}

/// Each request reaches another node, so the sandbox operator of one node must accept authorization codes from that of
/// another.
async fn sandbox_redirect_chain_spans_nodes(database: Database) {
    let base_url = "https://eu.verify.example";
    let world = World::with(database, |config| config.base_url = Some(BaseUrl::parse(base_url).unwrap())).await;
    let second = world.second_node().await;
    for (path, body, verdict) in [
        (SECURE_SNA, json!({"phone_number": EVEN}), ("match", json!(true))),
        (DISCOVERY, json!({}), ("phone_number", json!(EVEN))),
    ] {
        let silent = SilentClient::new(&world, path).await;
        let check = silent.create(body).await;
        let mut target = format!("{}&sim={}", check.target, EVEN.replace('+', "%2B"));
        for address in [world.node.address, second.address] {
            let response = send_to(address, Request::get(&target)).await.assert(302);
            target = response.header("location").unwrap().strip_prefix(base_url).expect("our own address").to_owned();
        }
        assert!(target.starts_with("/southbound/camara/sandbox/callback?"), "{target}");
        let end = send_to(world.node.address, Request::get(&target)).await.assert(200).json();
        let redeemed = silent.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!((&redeemed["status"], &redeemed[verdict.0]), (&json!("COMPLETED"), &verdict.1));
    }
}

#[tokio::test]
async fn sandbox_redirect_chain_spans_nodes_on_sqlite() {
    sandbox_redirect_chain_spans_nodes(Database::sqlite().await).await;
}

#[tokio::test]
async fn sandbox_redirect_chain_spans_nodes_on_postgres() {
    sandbox_redirect_chain_spans_nodes(Database::postgres().await).await;
}

async fn other_number_of_the_device_does_not_match(world: World) {
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    let check = silent.create(json!({})).await;
    for plus in ["+", "%2B"] {
        silent.start_redirect(&format!("{}&sim={plus}990777777702", check.target)).await;
    }
    let code = silent.complete_redirect(&format!("{}&sim=+990777777702", check.target)).await;
    assert_eq!(silent.redeem(&check.id, &code).await.assert(200).json()["match"], false);
}

async fn discovery_returns_the_number_of_the_device(world: World) {
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let mut receiver = Receiver::start().await;
    let check = silent.create(json!({"callback_url": receiver.url("/"), "reference_id": "who"})).await;
    let code = silent.complete_redirect(&format!("{}&sim={EVEN}", check.target)).await;
    let redeemed = silent.redeem(&check.id, &code).await.assert(200).json();
    assert_eq!((&redeemed["status"], &redeemed["phone_number"]), (&json!("COMPLETED"), &json!(EVEN)));
    assert_eq!((&redeemed["network_id"], redeemed.get("match")), (&json!("00101"), None));
    assert_eq!(silent.get(&check.id).await.json(), redeemed);
    assert_eq!(silent.list("").await.assert(200).json()["content"][0], redeemed);

    let callback = receiver.next().await;
    assert_eq!(callback.header("x-service-callback"), "discovery");
    let body = callback.json();
    let expected = ["check_id", "created_at", "phone_number", "reference_id", "status", "updated_at"];
    assert_eq!(keys(&body), expected.into(), "no network");
    assert_eq!(body["phone_number"], EVEN);
}

async fn discovered_number_is_erased(world: World) {
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let check = silent.create(json!({})).await;
    let code = silent.complete_redirect(&check.target).await;
    let redeemed = silent.redeem(&check.id, &code).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], "+99000000010", "devices without a SIM parameter use the default SIM");
    let number = Msisdn::parse(redeemed["phone_number"].as_str().unwrap(), Mode::Sandbox).unwrap();
    world.node.engine.node.erase_number(&number).await.unwrap();
    let kept = silent.get(&check.id).await.assert(200).json();
    assert_eq!((&kept["status"], kept.get("phone_number")), (&json!("COMPLETED"), None));
    assert_eq!(kept["network_id"], "00101");
}

async fn operator_error_fails_the_check(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let mut receiver = Receiver::start().await;
        for code in [
            ErrorCode::MnoTimeout,
            ErrorCode::MnoUserNotFound,
            ErrorCode::MnoResponseError,
            ErrorCode::MnoServerError,
            ErrorCode::MnoNoDataAvailable,
            ErrorCode::MnoNotSupported,
            ErrorCode::InternalError,
        ] {
            for fails_first in [true, false] {
                let check = silent.create(json!({"callback_url": receiver.url("/")})).await;
                world.advance(SignedDuration::from_secs(3));
                let end = if fails_first {
                    operator.refuse(code);
                    silent.open(&check.target).await
                } else {
                    operator.fail(code);
                    silent.return_from_operator(&silent.start_redirect(&check.target).await).await
                };
                let end = if fails_first && code == ErrorCode::MnoNotSupported {
                    end.assert_problem(400, "mno_not_supported").json()
                } else {
                    let end = end.assert(200).json();
                    assert_eq!(keys(&end), ["check_id", "error", "error_description"].into());
                    end
                };
                assert_eq!((&end["check_id"], &end["error"]), (&json!(check.id), &json!(code.into_str())));
                let ended = silent.get(&check.id).await.json();
                assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!(code.into_str())));
                assert_eq!(ended.get("network_id"), None, "failed checks have no network");
                assert_eq!(receiver.next().await.json(), ended, "sent at once");
                let refused = silent.redeem(&check.id, "anything").await.assert_problem(409, "check_already_completed");
                assert!(refused.detail().contains(code.into_str()), "{}", refused.detail());
                let fallback = [&refused.detail(), end["error_description"].as_str().unwrap()]
                    .map(|text| text.contains("Reverse SMS"));
                assert_eq!(
                    fallback,
                    [path == SECURE_SNA || !fails_first; 2],
                    "the network of a redirected device is known"
                );
                silent.open(&check.target).await.assert_problem(409, "check_already_completed");
                assert_eq!(silent.get(&check.id).await.json(), ended, "the conclusion is final");
            }
        }
    }
}

async fn redirect_url_gets_the_fields_of_the_json_response(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let configuration = json!({"configuration": {path.scope: {"redirect_url": "https://shop.example/back"}}});
        let silent = SilentClient::with(&world, path, configuration).await;
        let own = json!({"redirect_url": "https://app.example/done?a=b%20c", "reference_id": "ü & co"});
        for (more, start, reference) in [
            (json!({}), "https://shop.example/back?check_id=", None),
            (own, "https://app.example/done?a=b%20c&check_id=", Some("ü & co")),
        ] {
            let check = silent.create(more.clone()).await;
            let response = silent.return_from_operator(&silent.start_redirect(&check.target).await).await.assert(302);
            let location = response.header("location").unwrap();
            assert!(location.starts_with(start), "{location}");
            let parameters = query(location);
            let get = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            assert_eq!((get("check_id"), get("reference_id")), (Some(check.id.as_str()), reference));
            let again = silent.open(&check.target).await.assert(302).header("location").unwrap().to_owned();
            assert!(again.starts_with(start) && again.contains("&error=check_already_completed&"), "{again}");
            silent.redeem(&check.id, get("code").unwrap()).await.assert(200);

            // If the operator reports an error, the device is redirected to the redirect URL with that error.
            let check = silent.create(more).await;
            operator.fail(ErrorCode::MnoUserNotFound);
            let state = silent.start_redirect(&check.target).await;
            let faults = [silent.return_from_operator(&state).await, silent.open(&check.target).await];
            for (response, error) in faults.iter().zip(["mno_user_not_found", "check_already_completed"]) {
                let location = response.clone().assert(302).header("location").unwrap().to_owned();
                assert!(location.starts_with(start), "{location}");
                let parameters = query(&location);
                let get = |name: &str| parameters.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
                assert_eq!((get("check_id"), get("error")), (Some(check.id.as_str()), Some(error)));
                assert!(get("error_description").is_some_and(|text| text.contains("Reverse SMS")), "{location}");
                assert_eq!((get("code"), get("reference_id")), (None, None));
            }
        }
    }
}

async fn check_expires_at_any_step_of_the_chain(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let mut receiver = Receiver::start().await;
        let unopened = silent.create(json!({})).await;
        let redirected = silent.create(json!({})).await;
        let returned = silent.create(json!({"callback_url": receiver.url("/")})).await;
        let in_time = silent.create(json!({})).await;
        let state = silent.start_redirect(&redirected.target).await;
        let code = silent.complete_redirect(&returned.target).await;
        let code_in_time = silent.complete_redirect(&in_time.target).await;
        let before = operator.returned_devices().len();
        world.advance(SignedDuration::from_millis(119_999));
        assert_eq!(silent.get(&unopened.id).await.json()["status"], "ACCEPTED");
        assert_eq!(silent.get(&returned.id).await.json()["status"], "PENDING");
        assert_eq!(silent.redeem(&in_time.id, &code_in_time).await.assert(200).json()["status"], "COMPLETED");
        world.advance(SignedDuration::from_millis(1));

        // The expiry is final.
        let responses = [
            (silent.open(&unopened.target).await, &unopened.id),
            (silent.return_from_operator(&state).await, &redirected.id),
            (silent.open(&returned.target).await, &returned.id),
            (silent.open(&unopened.target).await, &unopened.id),
            (silent.open(&redirected.target).await, &redirected.id),
            (silent.open(&returned.target).await, &returned.id),
        ];
        for (response, id) in responses {
            let body = response.assert_problem(410, "check_expired").json();
            assert_eq!((&body["check_id"], &body["error"]), (&json!(id), &json!("check_expired")));
            assert_eq!(body["error_description"], body["detail"]);
        }
        silent.redeem(&returned.id, &code).await.assert_problem(410, "check_expired");
        silent.redeem(&returned.id, "wrong").await.assert_problem(410, "check_expired");
        let expired = silent.get(&returned.id).await.assert(200).json();
        assert_eq!((&expired["status"], &expired["error_code"]), (&json!("EXPIRED"), &json!("check_expired")));
        assert_eq!(
            silent.list("?search=status==EXPIRED").await.assert(200).json()["content"].as_array().unwrap().len(),
            3
        );
        assert_eq!(operator.returned_devices().len(), before, "no request for an expired check");
        for (search, found) in
            [("error_code==check_expired", 3), ("error_code!=check_expired", 1), ("error_code==mno_timeout", 0)]
        {
            let list = silent.list(&format!("?search={search}")).await.assert(200).json();
            assert_eq!(list["page"]["total_elements"], found, "{search}");
            let codes = list["content"].as_array().unwrap().iter().map(|check| check["error_code"].as_str());
            let expected = (search == "error_code==check_expired").then_some("check_expired");
            assert!(codes.into_iter().all(|code| code == expected), "{list}");
        }
        assert_eq!(receiver.next().await.json()["error_code"], "check_expired");
    }
}

on_both_stores!(
    claimed_number_of_the_device_matches,
    other_number_of_the_device_does_not_match,
    discovery_returns_the_number_of_the_device,
    discovered_number_is_erased,
    operator_error_fails_the_check,
    redirect_url_gets_the_fields_of_the_json_response,
    check_expires_at_any_step_of_the_chain,
);
