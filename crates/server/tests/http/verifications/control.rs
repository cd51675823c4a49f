//! Tests what a backend can do with an open verification: give up a method, repeat requests and cancel. Also tests
//! races with the user.

use futures_util::future::join_all;
use jiff::SignedDuration;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    receiver::Receiver,
    silent::scripted_operator::ScriptedOperator,
    verifications::api::{VERIFICATIONS, VerificationClient, assert_completed, id, is_open, path, steps, text},
    world::{World, send_to},
};

const EVEN: &str = "+990123456700";
const OTHER: &str = "+990777777702";
const ROUNDS: usize = 50;

impl VerificationClient<'_> {
    async fn give_up(&self, id: &str, method: &str) -> HttpResponse {
        self.world.send(self.next_request(id).json(&json!({"method": method}))).await
    }

    fn cancel_request(&self, id: &str) -> Request {
        Request::post(&format!("{}/cancel", path(id))).bearer(&self.token)
    }
}

async fn named_method_is_given_up_once(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    client.give_up(id(&created), "reverse_sms").await.assert(200);
    assert_eq!(client.get(id(&created)).await["next_step"], created["next_step"], "another method is current");
    for _ in 0..3 {
        let next = client.give_up(id(&created), "secure_sna").await.assert(200).json();
        assert_eq!(steps(&next), [("secure_sna", "ERROR", "given_up"), ("reverse_sms", "ACCEPTED", "")]);
        assert_eq!(next, client.get(id(&created)).await);
    }
    for _ in 0..2 {
        let ended = client.give_up(id(&created), "reverse_sms").await.assert(200).json();
        assert_eq!(text(&ended, "error_code"), "methods_exhausted");
    }
    world.advance(SignedDuration::from_secs(1));
    client.next(id(&created)).await.assert_problem(409, "check_already_completed");
    let ended = client.give_up(id(&created), "reverse_sms").await.assert(200).json();
    assert_eq!(ended, client.get(id(&created)).await, "a repeated request gets the end that it caused");
}

async fn repeated_next_with_a_key_is_replayed(world: World) {
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let keyed = |key: &str| client.next_request(id(&created)).header("Idempotency-Key", key);
    let first = world.send(keyed("a")).await.assert(200);
    assert_eq!(first.json()["next_step"]["method"], "reverse_sms");
    assert_eq!(first.json(), client.get(id(&created)).await);
    for request in [keyed("a"), keyed("a").json(&json!({})), keyed("a").body("application/json", "")] {
        let again = send_to(second.address, request).await.assert(200);
        assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    }
    let other_body = keyed("a").json(&json!({"method": "secure_sna"}));
    world.send(other_body).await.assert_problem(422, "idempotency_key_reused");
    assert!(is_open(&client.get(id(&created)).await));

    // A request that changed nothing is replayed, too.
    let unchanged = || keyed("b").json(&json!({"method": "secure_sna"}));
    let first = world.send(unchanged()).await.assert(200);
    let again = world.send(unchanged()).await.assert(200);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &first.body));
    // With another key, the same request is processed again.
    let ended = world.send(keyed("c")).await.assert(200);
    assert_eq!(text(&ended.json(), "error_code"), "methods_exhausted");
    let again = world.send(keyed("c")).await.assert(200);
    assert_eq!((again.header("idempotent-replayed"), &again.body), (Some("true"), &ended.body));
    // The caller is authorised before its idempotency key is looked up.
    let stranger = VerificationClient::of(&world, world.project("Other", json!({})).await).await;
    let foreign = Request::post(&format!("{}/next", path(id(&created)))).bearer(&stranger.token);
    world.send(foreign.header("Idempotency-Key", "a")).await.assert_problem(403, "forbidden");
}

async fn burst_of_next_gives_up_one_step(world: World) {
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    for round in 0..ROUNDS {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let nodes = [world.node.address, second.address].into_iter().cycle().take(6);
        let answers = join_all(nodes.map(|node| send_to(node, client.next_request(id(&created))))).await;
        for answer in answers {
            answer.assert(200);
        }
        let now = client.get(id(&created)).await;
        assert_eq!(steps(&now), [("secure_sna", "ERROR", "given_up"), ("reverse_sms", "ACCEPTED", "")], "{round}");
        world.advance(SignedDuration::from_secs(2));
        // If concurrent requests give up the last step, all of them get the concluded verification.
        let nodes = [world.node.address, second.address].into_iter().cycle().take(6);
        for answer in join_all(nodes.map(|node| send_to(node, client.next_request(id(&created))))).await {
            assert_eq!(text(&answer.assert(200).json(), "error_code"), "methods_exhausted", "{round}");
        }
        world.advance(SignedDuration::from_secs(2));
    }
}

async fn read_status(stream: &mut TcpStream) -> String {
    let mut answer = vec![0; 4096];
    let length = stream.read(&mut answer).await.unwrap();
    String::from_utf8_lossy(&answer[..length]).chars().take("HTTP/1.1 200".len()).collect()
}

/// The request is sent during the first step, but its body is received when a later step has begun.
async fn delayed_next_gives_up_no_later_step(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let request = client.next_request(id(&created)).header("Expect", "100-continue").json(&json!({}));
    let request = request.bytes(world.node.address);
    let (head, body) = request.split_at(request.len() - "{}".len());
    let mut stream = TcpStream::connect(world.node.address).await.unwrap();
    stream.write_all(head).await.unwrap();
    assert_eq!(read_status(&mut stream).await, "HTTP/1.1 100", "the request waits for its body");
    client.next(id(&created)).await.assert(200);
    world.advance(SignedDuration::from_secs(5));
    stream.write_all(body).await.unwrap();
    assert_eq!(read_status(&mut stream).await, "HTTP/1.1 200");
    let now = client.get(id(&created)).await;
    assert_eq!(steps(&now), [("secure_sna", "ERROR", "given_up"), ("reverse_sms", "ACCEPTED", "")]);
}

async fn every_node_waits_for_the_answer_about_sim_changes(world: World) {
    ScriptedOperator::of(&world);
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    for _ in 0..10 {
        let created = client.create(&json!({"phone_number": EVEN, "sim_swap_period": 60})).await;
        let code = client.complete_redirect(&created, EVEN).await;
        let redeem = || Request::post(&path(id(&created))).bearer(&client.token).json(&json!({"code": code}));
        let nodes = [world.node.address, second.address].into_iter().cycle().take(4);
        for answer in join_all(nodes.map(|node| send_to(node, redeem()))).await {
            let redeemed = answer.assert(200).json();
            assert_completed(&redeemed, true, "secure_sna");
            assert_eq!(redeemed["no_sim_change"], true, "{redeemed}");
        }
    }
}

async fn verdict_wins_over_next(world: World) {
    ScriptedOperator::of(&world);
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    for round in 0..ROUNDS {
        let created = client.create(&json!({"phone_number": EVEN})).await;
        let code = client.complete_redirect(&created, EVEN).await;
        let unchanged = client.next(id(&created)).await.assert(200).json();
        assert_eq!(unchanged["next_step"]["method"], "secure_sna", "{round}");
        let give_up = client.next_request(id(&created)).json(&json!({"method": "secure_sna"}));
        let redeem = Request::post(&path(id(&created))).bearer(&client.token).json(&json!({"code": code}));
        let (given_up, redeemed, again, plain) = tokio::join!(
            send_to(second.address, give_up),
            send_to(world.node.address, redeem.clone()),
            send_to(world.node.address, redeem),
            client.next(id(&created)),
        );
        for redeemed in [redeemed, again] {
            assert_completed(&redeemed.assert(200).json(), true, "secure_sna");
        }
        given_up.assert(200);
        // The request may arrive after the verification has ended.
        assert!([200, 409].contains(&plain.status), "{round}: {}", plain.text());
        assert_completed(&client.get(id(&created)).await, true, "secure_sna");
        world.advance(SignedDuration::from_secs(2));
    }
}

async fn cancelled_verification_ends_at_once(world: World) {
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let code = client.complete_redirect(&created, EVEN).await;
    let cancelled = world.send(client.cancel_request(id(&created))).await.assert(200).json();
    assert_eq!((text(&cancelled, "status"), text(&cancelled, "error_code")), ("ERROR", "cancelled"));
    assert_eq!(steps(&cancelled), [("secure_sna", "ERROR", "given_up")]);
    assert_eq!(receiver.next().await.json(), cancelled);
    client.redeem(id(&created), &code).await.assert_problem(409, "check_already_completed");
    // Cancelling can be repeated. It does not change a verification that has ended otherwise.
    assert_eq!(world.send(client.cancel_request(id(&created))).await.assert(200).json(), cancelled);
    let created = client.create(&json!({"phone_number": EVEN})).await;
    let code = client.complete_redirect(&created, EVEN).await;
    let completed = client.redeem(id(&created), &code).await.assert(200).json();
    assert_eq!(world.send(client.cancel_request(id(&created))).await.assert(200).json(), completed);
    let found = client.list("?search=error_code==cancelled").await.assert(200).json();
    assert_eq!(found["content"], json!([cancelled]));
    world.wait_for_callback_results().await;
    assert!(receiver.is_quiet());
}

/// A code or an SMS arrives while the backend cancels the verification.
async fn cancel_and_a_result_end_a_verification_once(world: World) {
    ScriptedOperator::of(&world);
    let second = world.second_node().await;
    let client = VerificationClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    let callback_url = receiver.url("/");
    for round in 0..ROUNDS / 2 {
        let number = format!("+99012345{round:02}00");
        for method in ["secure_sna", "reverse_sms"] {
            let body = json!({"phone_number": number, "methods": [method], "callback_url": callback_url});
            let created = client.create(&body).await;
            let cancel = send_to(second.address, client.cancel_request(id(&created)));
            let (cancelled, redeemed) = if method == "secure_sna" {
                let code = client.complete_redirect(&created, &number).await;
                let (cancelled, redeemed) = tokio::join!(cancel, client.redeem(id(&created), &code));
                (cancelled, Some(redeemed))
            } else {
                (tokio::join!(cancel, client.send_sms(&created, &number)).0, None)
            };
            let ended = client.get(id(&created)).await;
            assert_eq!(cancelled.assert(200).json(), ended, "{round}");
            let is_completed = ended["status"] == "COMPLETED";
            if is_completed {
                assert_completed(&ended, true, method);
            } else {
                assert_eq!((text(&ended, "status"), text(&ended, "error_code")), ("ERROR", "cancelled"));
            }
            match redeemed {
                Some(redeemed) if is_completed => assert_eq!(redeemed.assert(200).json(), ended),
                Some(redeemed) => drop(redeemed.assert_problem(409, "check_already_completed")),
                None => {}
            }
            assert_eq!(receiver.next().await.json(), ended, "one end, one callback");
        }
        world.advance(SignedDuration::from_secs(2));
    }
    assert!(receiver.is_quiet());
}

async fn text_from_another_number_is_sent_once_more(world: World) {
    let client = VerificationClient::configured(&world, json!({"methods": ["reverse_sms"]})).await;
    let mut receiver = Receiver::start().await;
    for (second, matched) in [(EVEN, true), (OTHER, false)] {
        let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
        client.send_sms(&created, OTHER).await;
        let again = client.get(id(&created)).await;
        assert_eq!(steps(&again), [("reverse_sms", "COMPLETED", ""), ("reverse_sms", "ACCEPTED", "")]);
        assert_eq!(again["steps"][0]["match"], false);
        assert_ne!(again["next_step"]["expected_sms_body"], created["next_step"]["expected_sms_body"]);
        // The second step expects another code, so it does not accept the SMS of the first step.
        client.send_sms(&created, OTHER).await;
        assert_eq!(client.get(id(&created)).await["next_step"], again["next_step"]);
        assert!(receiver.is_quiet());
        client.send_sms(&again, second).await;
        let ended = client.get(id(&created)).await;
        assert_completed(&ended, matched, "reverse_sms");
        assert_eq!(steps(&ended).len(), 2);
        assert_eq!(receiver.next().await.json(), ended);
        world.wait_for_callback_results().await;
        assert!(receiver.is_quiet());
    }
}

async fn calls_without_a_body_accept_an_empty_object(world: World) {
    let client = VerificationClient::configured(&world, json!({"methods": ["reverse_sms"]})).await;
    let mut receiver = Receiver::start().await;
    let bodies = |request: &Request| {
        let plain = request.clone();
        [
            (plain.clone(), true),
            (plain.clone().body("application/json", ""), true),
            (plain.clone().json(&json!({})), true),
            (plain.clone().body("text/plain", " { } "), true),
            (plain.clone().json(&json!({"a": 1})), false),
            (plain.clone().json(&json!([])), false),
            (plain.clone().json(&Value::Null), false),
            (plain.body("text/plain", "a"), false),
        ]
    };
    let created = client.create(&json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    for (request, is_accepted) in bodies(&client.cancel_request(id(&created))) {
        let response = world.send(request).await;
        if is_accepted { drop(response.assert(200)) } else { drop(response.assert_problem(400, "bad_request")) }
    }
    receiver.next().await;
    let resend = Request::post(&format!("{}/callback-resends", path(id(&created)))).bearer(&client.token);
    for (request, is_accepted) in bodies(&resend) {
        world.wait_for_callback_results().await;
        let response = world.send(request).await;
        if is_accepted {
            response.assert(202);
            receiver.next().await;
        } else {
            response.assert_problem(400, "bad_request");
        }
    }
    let credentials = format!("{}/credentials", client.project.path);
    let manager = world.management_token().await;
    for is_accepted in [true, false] {
        let new = Request::post(&credentials).bearer(&manager).json(&json!({}));
        let new = world.send(new).await.assert(201).json();
        let delete = Request::delete(&format!("{credentials}/{}", text(&new, "client_id"))).bearer(&manager);
        if is_accepted {
            world.send(delete.json(&json!({}))).await.assert(204);
        } else {
            world.send(delete.json(&json!({"a": 1}))).await.assert_problem(400, "bad_request");
        }
    }
}

async fn numbers_may_be_written_as_people_write_them(world: World) {
    let client = VerificationClient::sandbox(&world).await;
    for body in [
        json!({"phone_number": " +990 (1234) 567-00 "}),
        json!({"phone_number": "07700 900123", "country": "GB", "methods": ["reverse_sms"]}),
        json!({"phone_number": "+44 (0)7700.900-124", "country": "DE", "locale": "pt-br", "methods": ["reverse_sms"]}),
    ] {
        let created = client.create(&body).await;
        let token = text(&created, "url").rsplit('/').next().unwrap();
        let view = world.node.engine.verifications.page(token, &[]).await.unwrap().expect("a page");
        let digits: String = body["phone_number"].as_str().unwrap().chars().filter(char::is_ascii_digit).collect();
        assert_eq!(view.number_ending.as_deref(), digits.get(digits.len() - 4..), "{body}");
        let locale = body.get("locale").map(|_| "pt-BR");
        assert_eq!(view.locale.as_ref().map(ringtrue_domain::verification::Locale::as_str), locale, "{body}");
    }
    // Only verifications accept numbers with spaces. The other products require E.164.
    let token = world.token(&client.project.client_id, &client.project.client_secret, "reverse_sms").await;
    let body = json!({"phone_number": "+990 1234 567 00"});
    let request = Request::post("/v1/number-verification/reverse-sms-checks").bearer(&token).json(&body);
    world.send(request).await.assert_problem(400, "phone_number_invalid");
}

async fn address_that_is_not_mobile_leaves_secure_sna_out(world: World) {
    // An operator that accepts no tokens of wallets, which work over any connection.
    ScriptedOperator::of(&world);
    let client = VerificationClient::sandbox(&world).await;
    let both = json!(["secure_sna", "reverse_sms"]);
    for (device_ip, methods) in [
        ("198.51.100.7", &json!(["reverse_sms"])),
        ("203.0.113.7", &both),
        // An address of an unknown network may be mobile, so Secure SNA is kept.
        ("192.0.2.7", &both),
    ] {
        let created = client.create(&json!({"phone_number": EVEN, "device_ip": device_ip})).await;
        assert_eq!(&created["methods"], methods, "{device_ip}");
    }
    let body = json!({"phone_number": EVEN, "device_ip": "198.51.100.7", "methods": ["secure_sna"]});
    client.post(&body).await.assert_problem(400, "mno_not_supported");
}

async fn redirect_origins_restrict_redirect_urls(world: World) {
    let origins = json!(["HTTPS://Shop.example:443/", "http://localhost:8080", "https://shop.example"]);
    let client = VerificationClient::configured(&world, json!({"redirect_origins": origins})).await;
    let (project, manager) = (client.project.path.clone(), world.management_token().await);
    let configured = world.send(Request::get(&project).bearer(&manager)).await.assert(200).json();
    let settings = &configured["configuration"]["verification"];
    assert_eq!(settings["redirect_origins"], json!(["https://shop.example", "http://localhost:8080"]), "normalised");
    for (url, is_allowed) in [
        ("https://shop.example/back?cart=7", true),
        ("http://localhost:8080/back", true),
        ("https://shop.example.evil.example/", false),
        ("https://evil.example/https://shop.example", false),
        ("http://shop.example/back", false),
    ] {
        let response = client.post(&json!({"phone_number": EVEN, "redirect_url": url})).await;
        if is_allowed {
            response.assert(201);
        } else {
            let problem = response.assert_problem(400, "redirect_url_invalid");
            assert!(problem.detail().contains("redirect_origins"), "{}", problem.detail());
        }
    }
    let patch = async |settings: Value| {
        let body = json!({"configuration": {"verification": settings}});
        world.send(Request::patch(&project).bearer(&manager).json(&body)).await
    };
    patch(json!({"redirect_url": "https://evil.example/"})).await.assert_problem(400, "redirect_url_invalid");
    patch(json!({"redirect_url": "https://shop.example/back"})).await.assert(200);
    let problem = patch(json!({"redirect_origins": ["https://other.example"]})).await;
    problem.assert_problem(400, "redirect_url_invalid");
    for (origin, culprit) in
        [("https://a.example/path", "redirect_origins/0"), ("ftp://a.example", "redirect_origins/0")]
    {
        let problem = patch(json!({"redirect_origins": [origin]})).await.assert_problem(400, "redirect_url_invalid");
        assert!(problem.detail().contains(culprit), "{}", problem.detail());
    }
    let many: Vec<_> = (0..21).map(|number| format!("https://shop{number}.example")).collect();
    patch(json!({"redirect_origins": many})).await.assert_problem(400, "redirect_url_invalid");
    patch(json!({"redirect_origins": []})).await.assert_problem(400, "bad_request");
    let cleared = patch(json!({"redirect_origins": null})).await.assert(200).json();
    assert_eq!(cleared["configuration"]["verification"].get("redirect_origins"), None);
    let body = json!({"phone_number": EVEN, "redirect_url": "https://evil.example/"});
    world.send(Request::post(VERIFICATIONS).bearer(&client.token).json(&body)).await.assert(201);
}

async fn frame_origins_are_validated_as_redirect_origins_are(world: World) {
    let origins = json!(["HTTPS://Shop.example:443/", "http://localhost:8080", "https://shop.example"]);
    let client = VerificationClient::configured(&world, json!({"frame_origins": origins})).await;
    let (project, manager) = (client.project.path.clone(), world.management_token().await);
    let configured = world.send(Request::get(&project).bearer(&manager)).await.assert(200).json();
    let settings = &configured["configuration"]["verification"];
    assert_eq!(settings["frame_origins"], json!(["https://shop.example", "http://localhost:8080"]), "normalised");
    let patch = async |settings: Value| {
        let body = json!({"configuration": {"verification": settings}});
        world.send(Request::patch(&project).bearer(&manager).json(&body)).await
    };
    for origin in ["https://a.example/path", "ftp://a.example", "https://*.a.example", "*"] {
        let problem = patch(json!({"frame_origins": [origin]})).await.assert_problem(400, "redirect_url_invalid");
        assert!(problem.detail().contains("frame_origins/0"), "{}", problem.detail());
    }
    let many: Vec<_> = (0..21).map(|number| format!("https://shop{number}.example")).collect();
    patch(json!({"frame_origins": many})).await.assert_problem(400, "redirect_url_invalid");
    patch(json!({"frame_origins": []})).await.assert_problem(400, "bad_request");
    let cleared = patch(json!({"frame_origins": null})).await.assert(200).json();
    assert_eq!(cleared["configuration"]["verification"].get("frame_origins"), None);
}

on_both_stores!(
    named_method_is_given_up_once,
    repeated_next_with_a_key_is_replayed,
    burst_of_next_gives_up_one_step,
    delayed_next_gives_up_no_later_step,
    every_node_waits_for_the_answer_about_sim_changes,
    verdict_wins_over_next,
    cancelled_verification_ends_at_once,
    cancel_and_a_result_end_a_verification_once,
    text_from_another_number_is_sent_once_more,
    calls_without_a_body_accept_an_empty_object,
    numbers_may_be_written_as_people_write_them,
    address_that_is_not_mobile_leaves_secure_sna_out,
    redirect_origins_restrict_redirect_urls,
    frame_origins_are_validated_as_redirect_origins_are,
);
