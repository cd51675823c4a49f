//! Secure SNA and Discovery, end to end: a backend creates a check, a device goes to its operator and back, the code is
//! redeemed, a callback comes.

use std::collections::BTreeSet;

use jiff::SignedDuration;
use ringtrue_domain::{lifecycle::ErrorCode, phone::Msisdn, tenancy::Mode};
use serde_json::{Value, json};

use crate::{
    client::Request,
    database::Database,
    on_both_stores,
    receiver::Receiver,
    scripted_operator::ScriptedOperator,
    seeker::{BOTH, DISCOVERY, EVEN, SECURE_SNA, Seeker, query},
    world::{World, send_to},
};

fn keys(body: &Value) -> BTreeSet<&str> {
    body.as_object().unwrap().keys().map(String::as_str).collect()
}

async fn the_claimed_number_is_the_devices(world: World) {
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    let mut receiver = Receiver::start().await;
    let body = json!({"phone_number": EVEN, "reference_id": "login-1", "callback_url": receiver.url("/done")});
    let created = seeker.post(&body).await.assert(201).json();
    assert_eq!(keys(&created), ["check_id", "created_at", "reference_id", "status", "ttl", "url"].into());
    assert_eq!((&created["status"], &created["ttl"]), (&json!("ACCEPTED"), &json!(120)));
    let (id, url) = (created["check_id"].as_str().unwrap(), created["url"].as_str().unwrap());
    let expected = format!("{}{}/{id}/redirect?t=", world.node.base_url, SECURE_SNA.checks);
    let token = url.strip_prefix(&expected).expect("a URL of ours");
    assert_eq!(token.len(), 22, "128 bits");

    let open = seeker.get(id).await.assert(200).json();
    assert_eq!(keys(&open), ["check_id", "created_at", "reference_id", "status"].into());

    let target = url.strip_prefix(&world.node.base_url).unwrap();
    let ticket = seeker.depart(target).await;
    assert_eq!(seeker.get(id).await.json()["status"], "PENDING");
    let end = seeker.come_back(&ticket).await.assert(200).json();
    assert_eq!(keys(&end), ["check_id", "code", "reference_id"].into());
    assert_eq!((&end["check_id"], &end["reference_id"]), (&json!(id), &json!("login-1")));

    // The operator has spoken, but nobody has been told.
    let sealed = seeker.get(id).await.json();
    assert_eq!((&sealed["status"], sealed.get("match")), (&json!("PENDING"), None));
    assert!(receiver.is_quiet());

    let redeemed = seeker.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!((&redeemed["status"], &redeemed["match"]), (&json!("COMPLETED"), &json!(true)));
    assert_eq!(redeemed["network_id"], "00101");
    assert_eq!(seeker.get(id).await.assert(200).json(), redeemed);

    let callback = receiver.next().await;
    let jwks = world.send(Request::get("/.well-known/jwks.json")).await.assert(200).json();
    callback.assert_signed_by(&jwks);
    assert_eq!(callback.header("x-service-callback"), "secure_sna");
    assert_eq!(callback.json(), redeemed, "the callback says what the check says");
}

/// The simulated operator of each node takes the others' codes.
async fn a_simulated_chain_begins_on_one_node_and_ends_on_another(database: Database) {
    let base_url = "https://eu.verify.example";
    let world = World::with(database, |config| config.base_url = Some(base_url.parse().unwrap())).await;
    let second = world.second_node().await;
    for (path, body, verdict) in [
        (SECURE_SNA, json!({"phone_number": EVEN}), ("match", json!(true))),
        (DISCOVERY, json!({}), ("phone_number", json!(EVEN))),
    ] {
        let seeker = Seeker::new(&world, path).await;
        let check = seeker.create(body).await;
        let mut target = format!("{}&sim={}", check.target, EVEN.replace('+', "%2B"));
        for address in [world.node.address, second.address] {
            let answer = send_to(address, Request::get(&target)).await.assert(302);
            target = answer.header("location").unwrap().strip_prefix(base_url).expect("our own address").to_owned();
        }
        assert!(target.starts_with("/southbound/camara/sandbox/callback?"), "{target}");
        let end = send_to(world.node.address, Request::get(&target)).await.assert(200).json();
        let redeemed = seeker.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!((&redeemed["status"], &redeemed[verdict.0]), (&json!("COMPLETED"), &verdict.1));
    }
}

#[tokio::test]
async fn a_simulated_chain_spans_nodes_on_sqlite() {
    a_simulated_chain_begins_on_one_node_and_ends_on_another(Database::sqlite().await).await;
}

#[tokio::test]
async fn a_simulated_chain_spans_nodes_on_postgres() {
    a_simulated_chain_begins_on_one_node_and_ends_on_another(Database::postgres().await).await;
}

async fn the_device_has_another_number(world: World) {
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    let check = seeker.create(json!({})).await;
    for plus in ["+", "%2B"] {
        seeker.depart(&format!("{}&sim={plus}990777777702", check.target)).await;
    }
    let code = seeker.travel(&format!("{}&sim=+990777777702", check.target)).await;
    assert_eq!(seeker.redeem(&check.id, &code).await.assert(200).json()["match"], false);
}

async fn a_number_is_discovered(world: World) {
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let mut receiver = Receiver::start().await;
    let check = seeker.create(json!({"callback_url": receiver.url("/"), "reference_id": "who"})).await;
    let code = seeker.travel(&format!("{}&sim={EVEN}", check.target)).await;
    let redeemed = seeker.redeem(&check.id, &code).await.assert(200).json();
    assert_eq!((&redeemed["status"], &redeemed["phone_number"]), (&json!("COMPLETED"), &json!(EVEN)));
    assert_eq!((&redeemed["network_id"], redeemed.get("match")), (&json!("00101"), None));
    assert_eq!(seeker.get(&check.id).await.json(), redeemed);
    assert_eq!(seeker.list("").await.assert(200).json()["content"][0], redeemed);

    let callback = receiver.next().await;
    assert_eq!(callback.header("x-service-callback"), "discovery");
    let body = callback.json();
    let expected = ["check_id", "created_at", "phone_number", "reference_id", "status", "updated_at"];
    assert_eq!(keys(&body), expected.into(), "no network");
    assert_eq!(body["phone_number"], EVEN);
}

async fn a_discovered_number_is_forgotten(world: World) {
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let check = seeker.create(json!({})).await;
    let code = seeker.travel(&check.target).await;
    let redeemed = seeker.redeem(&check.id, &code).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], "+99000000010", "the SIM of devices that were given none");
    let number = Msisdn::parse(redeemed["phone_number"].as_str().unwrap(), Mode::Sandbox).unwrap();
    world.node.engine.erase_number(&number).await.unwrap();
    let kept = seeker.get(&check.id).await.assert(200).json();
    assert_eq!((&kept["status"], kept.get("phone_number")), (&json!("COMPLETED"), None));
    assert_eq!(kept["network_id"], "00101");
}

async fn an_operators_fault_ends_the_check(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let mut receiver = Receiver::start().await;
        for code in [ErrorCode::MnoTimeout, ErrorCode::MnoServerError, ErrorCode::MnoNoDataAvailable] {
            for fails_first in [true, false] {
                let check = seeker.create(json!({"callback_url": receiver.url("/")})).await;
                let end = if fails_first {
                    operator.refuse(code);
                    seeker.open(&check.target).await
                } else {
                    operator.fail(code);
                    seeker.come_back(&seeker.depart(&check.target).await).await
                };
                let end = end.assert(200).json();
                assert_eq!(keys(&end), ["check_id", "error", "error_description"].into());
                assert_eq!((&end["check_id"], &end["error"]), (&json!(check.id), &json!(code.as_str())));
                let ended = seeker.get(&check.id).await.json();
                assert_eq!((&ended["status"], &ended["error_code"]), (&json!("ERROR"), &json!(code.as_str())));
                assert_eq!(ended.get("network_id"), None, "nobody has answered");
                assert_eq!(receiver.next().await.json()["error_code"], code.as_str());
            }
        }
    }
}

async fn a_redirect_url_gets_what_json_would_say(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let configuration = json!({"configuration": {path.scope: {"redirect_url": "https://shop.example/back"}}});
        let seeker = Seeker::with(&world, path, configuration).await;
        let own = json!({"redirect_url": "https://app.example/done?a=b%20c", "reference_id": "ü & co"});
        for (more, start, reference) in [
            (json!({}), "https://shop.example/back?check_id=", None),
            (own, "https://app.example/done?a=b%20c&check_id=", Some("ü & co")),
        ] {
            let check = seeker.create(more.clone()).await;
            let answer = seeker.come_back(&seeker.depart(&check.target).await).await.assert(302);
            let location = answer.header("location").unwrap();
            assert!(location.starts_with(start), "{location}");
            let told = query(location);
            let get = |name: &str| told.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
            assert_eq!((get("check_id"), get("reference_id")), (Some(check.id.as_str()), reference));
            seeker.redeem(&check.id, get("code").unwrap()).await.assert(200);

            // Once more, with what went wrong.
            let check = seeker.create(more).await;
            operator.fail(ErrorCode::MnoUserNotFound);
            let ticket = seeker.depart(&check.target).await;
            let faults = [seeker.come_back(&ticket).await, seeker.open(&check.target).await];
            for (answer, error) in faults.iter().zip(["mno_user_not_found", "check_already_completed"]) {
                let location = answer.clone().assert(302).header("location").unwrap().to_owned();
                assert!(location.starts_with(start), "{location}");
                let told = query(&location);
                let get = |name: &str| told.iter().find(|(key, _)| key == name).map(|(_, value)| value.as_str());
                assert_eq!((get("check_id"), get("error")), (Some(check.id.as_str()), Some(error)));
                assert!(get("error_description").is_some_and(|text| text.contains("Reverse SMS")), "{location}");
                assert_eq!((get("code"), get("reference_id")), (None, None));
            }
        }
    }
}

async fn time_ends_a_check_wherever_its_device_is(world: World) {
    ScriptedOperator::of(&world);
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let mut receiver = Receiver::start().await;
        let at_home = seeker.create(json!({})).await;
        let away = seeker.create(json!({})).await;
        let back = seeker.create(json!({"callback_url": receiver.url("/")})).await;
        let ticket = seeker.depart(&away.target).await;
        let code = seeker.travel(&back.target).await;
        world.advance(SignedDuration::from_millis(119_999));
        assert_eq!(seeker.get(&back.id).await.json()["status"], "PENDING");
        world.advance(SignedDuration::from_millis(1));

        let told = [seeker.open(&at_home.target).await, seeker.come_back(&ticket).await];
        for (answer, id) in told.into_iter().zip([&at_home.id, &away.id]) {
            let body = answer.assert_problem(410, "check_expired").json();
            assert_eq!((&body["check_id"], &body["error"]), (&json!(id), &json!("check_expired")));
            assert_eq!(body["error_description"], body["detail"]);
        }
        seeker.redeem(&back.id, &code).await.assert_problem(410, "check_expired");
        seeker.redeem(&back.id, "wrong").await.assert_problem(410, "check_expired");
        let expired = seeker.get(&back.id).await.assert(200).json();
        assert_eq!((&expired["status"], &expired["error_code"]), (&json!("EXPIRED"), &json!("check_expired")));
        assert_eq!(
            seeker.list("?search=status==EXPIRED").await.assert(200).json()["content"].as_array().unwrap().len(),
            3
        );
        for (search, found) in
            [("error_code==check_expired", 3), ("error_code!=check_expired", 0), ("error_code==mno_timeout", 0)]
        {
            let list = seeker.list(&format!("?search={search}")).await.assert(200).json();
            assert_eq!(list["page"]["total_elements"], found, "{search}");
            let codes = list["content"].as_array().unwrap().iter().map(|check| &check["error_code"]);
            assert!(codes.into_iter().all(|code| code == "check_expired"), "{list}");
        }
        assert_eq!(receiver.next().await.json()["error_code"], "check_expired");
    }
}

on_both_stores!(
    the_claimed_number_is_the_devices,
    the_device_has_another_number,
    a_number_is_discovered,
    a_discovered_number_is_forgotten,
    an_operators_fault_ends_the_check,
    a_redirect_url_gets_what_json_would_say,
    time_ends_a_check_wherever_its_device_is,
);
