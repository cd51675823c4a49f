//! Backend requests of Secure SNA and Discovery.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    receiver::Receiver,
    silent::{
        scripted_operator::ScriptedOperator,
        silent_client::{BOTH, DISCOVERY, EVEN, SECURE_SNA, SilentClient},
    },
    world::World,
};

#[tokio::test]
async fn create_rejects_unknown_and_invalid_members() {
    let world = World::sqlite().await;
    let [sna, discovery] = [SilentClient::new(&world, SECURE_SNA).await, SilentClient::new(&world, DISCOVERY).await];
    discovery.post(&json!({})).await.assert(201);
    let long = "x".repeat(51);
    for (more, code) in [
        (json!({"device_ip": "1.2.3"}), "ip_invalid"),
        (json!({"device_ip": ""}), "ip_invalid"),
        (json!({"device_ip": "fe80::1%eth0"}), "ip_invalid"),
        (json!({"device_ip": "203.0.113.1:80"}), "ip_invalid"),
        (json!({"device_ip": "localhost"}), "ip_invalid"),
        (json!({"device_ip": "[2001:db8::1]"}), "ip_invalid"),
        (json!({"device_ip": " 203.0.113.10"}), "ip_invalid"),
        (json!({"device_ip": "1.2.3.04"}), "ip_invalid"),
        (json!({"device_ip": 7}), "bad_request"),
        (json!({"redirect_url": "app://back"}), "redirect_url_invalid"),
        (json!({"redirect_url": "javascript:alert(1)"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://u:p@app.example/"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/#top"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/?a=b&code=1"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/?error"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/?check%5Fid=1"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/?reference_id=1"}), "redirect_url_invalid"),
        (json!({"redirect_url": "https://app.example/?error_description=1"}), "redirect_url_invalid"),
        (json!({"callback_url": "/relative"}), "callback_url_invalid"),
        (json!({"callback_url": "ftp://shop.example/"}), "callback_url_invalid"),
        (json!({"callback_url": "http://10.0.0.1/"}), "callback_url_invalid"),
        (json!({"reference_id": long}), "bad_request"),
        (json!({"reference_id": "a\u{0}b"}), "bad_request"),
        (json!({"period": 60}), "bad_request"),
        (json!({"code": "x"}), "bad_request"),
    ] {
        for silent in [&sna, &discovery] {
            let mut body = silent.path.body();
            body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
            let response = silent.post(&body).await.assert_problem(400, code);
            let pointer = format!("`/{}`", more.as_object().unwrap().keys().next().unwrap());
            assert!(response.detail().starts_with(&pointer), "{}", response.detail());
        }
    }
    let response = discovery.post(&json!({"phone_number": EVEN})).await.assert_problem(400, "bad_request");
    assert!(response.detail().contains("`/phone_number`: unknown property"));
    for (body, code) in [
        (json!({}), "bad_request"),
        (json!({"phone_number": null}), "bad_request"),
        (json!({"phone_number": 447_700_900_123_u64}), "bad_request"),
        (json!({"phone_number": "447700900123"}), "phone_number_invalid"),
        (json!({"phone_number": "+44 7700 900123"}), "phone_number_invalid"),
        (json!({"phone_number": ""}), "phone_number_invalid"),
        (json!({"phone_number": "+990123456797"}), "mno_not_supported"),
        (json!({"phone_number": "+990123456794"}), "mno_not_supported"),
    ] {
        sna.post(&body).await.assert_problem(400, code);
    }
    let response = sna.post(&json!({"phone_number": "+990123456796"})).await.assert_problem(400, "mno_not_supported");
    assert!(response.detail().contains("Reverse SMS"), "{}", response.detail());
    let response = sna.post(&json!({"phone_number": "+990123456793"})).await.assert_problem(503, "lookup_unavailable");
    assert!(response.header("retry-after").is_some());
}

#[tokio::test]
async fn redemption_rejects_unknown_members() {
    let world = World::sqlite().await;
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let check = silent.create(json!({})).await;
        let target = format!("{}/{}", path.checks, check.id);
        let post = || Request::post(&target).bearer(&silent.token);
        for body in [json!({}), json!({"code": 7}), json!({"code": null}), json!({"code": "x", "check_id": "y"})] {
            world.send(post().json(&body)).await.assert_problem(400, "bad_request");
        }
        world.send(post().body("text/plain", "x")).await.assert_problem(415, "unsupported_media_type");
        world.send(post().body("application/json", " ".repeat(20_000))).await.assert_problem(413, "payload_too_large");
        silent.redeem("not-a-uuid", "x").await.assert_problem(400, "bad_request");
        silent.redeem("%FF", "x").await.assert_problem(400, "bad_request");
        silent.redeem("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b", "x").await.assert_problem(404, "check_not_found");
        world.send(Request::post(&target).json(&json!({"code": "x"}))).await.assert_problem(401, "unauthorized");
        silent.redeem(&check.id, "x").await.assert_problem(409, "check_not_ready");
        assert_eq!(silent.get(&check.id).await.json()["status"], "ACCEPTED", "the attempt was not counted");
    }
}

async fn check_is_visible_to_its_project_and_product_only(world: World) {
    ScriptedOperator::of(&world);
    let [sna, discovery] = [SilentClient::new(&world, SECURE_SNA).await, SilentClient::new(&world, DISCOVERY).await];
    let other = world.another_tenant().await;
    for (silent, same_products) in [(&sna, &discovery), (&discovery, &sna)] {
        let other_project = world.project_of(&other, silent.path.scope, json!({})).await;
        let other_client = SilentClient::of(&world, silent.path, other_project).await;
        let check = silent.create(json!({"reference_id": "mine"})).await;
        let code = silent.complete_redirect(&check.target).await;

        other_client.get(&check.id).await.assert_problem(403, "forbidden");
        other_client.redeem(&check.id, &code).await.assert_problem(403, "forbidden");
        assert_eq!(other_client.list("?search=reference_id==mine").await.json()["page"]["total_elements"], 0);
        // Through the API of the other silent product, the same project does not find the check.
        let other_product = SilentClient::of(&world, same_products.path, silent.project.clone()).await;
        other_product.get(&check.id).await.assert_problem(404, "check_not_found");
        other_product.redeem(&check.id, &code).await.assert_problem(404, "check_not_found");
        let other_url = check.target.replace(silent.path.checks, other_product.path.checks);
        silent.open(&other_url).await.assert_problem(404, "check_not_found");
        // A token for the other product is rejected.
        let request = Request::get(&format!("{}/{}", silent.path.checks, check.id)).bearer(&other_product.token);
        let refused = world.send(request).await.assert_problem(403, "forbidden");
        let scope = format!("scope=\"{}\"", silent.path.scope);
        assert!(refused.header("www-authenticate").unwrap().contains(&scope));

        assert_eq!(silent.get(&check.id.to_uppercase()).await.assert(200).json()["status"], "PENDING");
        silent.redeem(&check.id, &code).await.assert(200);
    }
}

async fn code_can_be_redeemed_once_for_its_check(world: World) {
    ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let [one, two] = [silent.create(json!({})).await, silent.create(json!({})).await];
        let (code_one, code_two) =
            (silent.complete_redirect(&one.target).await, silent.complete_redirect(&two.target).await);
        let response = silent.redeem(&one.id, &code_two).await.assert_problem(400, "code_invalid");
        assert!(response.detail().contains("2 attempts remain"), "{}", response.detail());
        let response = silent.redeem(&one.id, "wrong").await.assert_problem(400, "code_invalid");
        assert!(response.detail().contains("1 attempt remains"), "{}", response.detail());
        let redeemed = silent.redeem(&one.id, &code_one).await.assert(200).json();
        for code in [&code_one, "another"] {
            let response = silent.redeem(&one.id, code).await.assert_problem(409, "check_already_completed");
            assert!(!response.detail().contains("Reverse SMS"), "completed checks need no fallback");
        }
        assert_eq!(silent.get(&one.id).await.json(), redeemed);
        // The URL for the device is used up, too.
        let response = silent.open(&one.target).await.assert_problem(409, "check_already_completed").json();
        assert_eq!((&response["check_id"], &response["error"]), (&json!(one.id), &json!("check_already_completed")));
        silent.redeem(&two.id, &code_two).await.assert(200);
    }
}

async fn early_redemptions_are_not_counted(world: World) {
    ScriptedOperator::of(&world);
    let silent = SilentClient::new(&world, SECURE_SNA).await;
    let check = silent.create(json!({})).await;
    let redeem_early = async || {
        for _ in 0..5 {
            silent.redeem(&check.id, "anything").await.assert_problem(409, "check_not_ready");
        }
    };
    redeem_early().await;
    let state = silent.start_redirect(&check.target).await;
    redeem_early().await;
    let end = silent.return_from_operator(&state).await.assert(200).json();
    let redeemed = silent.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(redeemed["status"], "COMPLETED");
}

async fn third_wrong_code_fails_the_check(world: World) {
    ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let mut receiver = Receiver::start().await;
        let check = silent.create(json!({"callback_url": receiver.url("/")})).await;
        let code = silent.complete_redirect(&check.target).await;
        for (wrong, expected_detail) in
            [("", "2 attempts remain"), ("x", "1 attempt remains"), (&code[1..], "the check has failed")]
        {
            assert_eq!(silent.get(&check.id).await.json()["status"], "PENDING");
            let response = silent.redeem(&check.id, wrong).await.assert_problem(400, "code_invalid");
            assert!(response.detail().contains(expected_detail), "{}", response.detail());
        }
        let response = silent.redeem(&check.id, &code).await.assert_problem(409, "check_already_completed");
        assert!(response.detail().contains("`code_attempts_exceeded`; use Reverse SMS"), "{}", response.detail());
        let ended = silent.get(&check.id).await.json();
        assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!("code_attempts_exceeded")));
        assert_eq!(receiver.next().await.json(), ended);
        world.wait_for_callback_results().await;
        assert!(receiver.is_quiet());
    }
}

async fn create_is_idempotent(world: World) {
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let create = |key: &str, reference: &str| {
            let mut body = path.body();
            body["reference_id"] = json!(reference);
            Request::post(path.checks).bearer(&silent.token).header("Idempotency-Key", key).json(&body)
        };
        let first = world.send(create("k", "a")).await.assert(201);
        let again = world.send(create("k", "a")).await.assert(201);
        assert_eq!((first.header("idempotent-replayed"), again.header("idempotent-replayed")), (None, Some("true")));
        assert_eq!(again.body, first.body, "the URL too");
        world.send(create("k", "b")).await.assert_problem(422, "idempotency_key_reused");
        assert_eq!(silent.list("").await.json()["page"]["total_elements"], 1);
    }
}

async fn checks_can_be_searched_by_outcome(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let mut ids = vec![];
        for reference in ["open", "done", "failed"] {
            world.advance(SignedDuration::from_millis(1));
            let check = silent.create(json!({"reference_id": reference})).await;
            match reference {
                "done" => {
                    let code = silent.complete_redirect(&check.target).await;
                    silent.redeem(&check.id, &code).await.assert(200);
                }
                "failed" => {
                    operator.refuse(ringtrue_domain::lifecycle::ErrorCode::MnoTimeout);
                    silent.open(&check.target).await.assert(200);
                }
                _ => {}
            }
            ids.push(check.id);
        }
        let verified = if path == SECURE_SNA { &["done"][..] } else { &[] };
        for (search, expected) in [
            ("", &["failed", "done", "open"][..]),
            ("?search=status==COMPLETED", &["done"]),
            ("?search=status=in=(ACCEPTED,ERROR)", &["failed", "open"]),
            ("?search=error_code==mno_timeout", &["failed"]),
            ("?search=verified==true", verified),
            ("?search=network_id==00101;status==COMPLETED", &["done"]),
            ("?search=reference_id==o*", &["open"]),
            ("?size=1&page=2", &["done"]),
            ("?page=9", &[]),
        ] {
            let page = silent.list(search).await.assert(200).json();
            let found: Vec<&str> =
                page["content"].as_array().unwrap().iter().map(|c| c["reference_id"].as_str().unwrap()).collect();
            assert_eq!(found, expected, "{search}");
        }
        let shown: BTreeSet<String> = silent.list("").await.json()["content"]
            .as_array()
            .unwrap()
            .iter()
            .flat_map(|check| check.as_object().unwrap().keys().cloned())
            .collect();
        assert!(!shown.contains("url") && !shown.contains("ttl"), "{shown:?}");
        for bad in ["?search=phone_number==x", "?search=status==", "?search=status==DONE"] {
            silent.list(bad).await.assert_problem(400, "search_invalid");
        }
        for bad in ["?size=0", "?page=0", "?size=1&size=2", "?other=1"] {
            silent.list(bad).await.assert_problem(400, "bad_request");
        }
        let read = Request::get(&format!("{}/{}?x=y", path.checks, ids[0])).bearer(&silent.token);
        world.send(read).await.assert_problem(400, "bad_request");
    }
}

#[tokio::test]
async fn redemptions_count_against_the_create_limit() {
    let world = World::configured(|config| (config.rate_limits.create, config.rate_limits.read) = (3, 1_000)).await;
    let silent = SilentClient::new(&world, DISCOVERY).await;
    let check = silent.create(json!({})).await;
    let limits = |response: &crate::client::HttpResponse| -> Vec<Value> {
        ["limit", "remaining"].map(|name| json!(response.header(&format!("x-ratelimit-{name}")).unwrap())).to_vec()
    };
    let response = silent.redeem(&check.id, "x").await.assert_problem(409, "check_not_ready");
    assert_eq!(limits(&response), [json!("3"), json!("1")]);
    silent.redeem(&check.id, "x").await.assert_problem(409, "check_not_ready");
    let response = silent.redeem(&check.id, "x").await.assert_problem(429, "too_many_requests");
    assert_eq!(response.header("retry-after"), Some("1"));
    silent.get(&check.id).await.assert(200);
}

on_both_stores!(
    check_is_visible_to_its_project_and_product_only,
    code_can_be_redeemed_once_for_its_check,
    early_redemptions_are_not_counted,
    third_wrong_code_fails_the_check,
    create_is_idempotent,
    checks_can_be_searched_by_outcome,
);
