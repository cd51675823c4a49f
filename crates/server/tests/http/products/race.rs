//! Concurrency on two nodes: a check concludes once, and reads stay consistent.

use futures_util::future::{join_all, try_join_all};
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::CheckId,
    phone::Msisdn,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{
    clock::Clock,
    sms::{Inbox, SmsOutcome},
};
use ringtrue_server::wiring::RunningNode;
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    products::reverse_sms::{CHECKS, EVEN, InvitedCheck, ReverseSmsClient},
    receiver::Receiver,
    world::{World, send_to, wait_for_callback_results},
};

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Sandbox).unwrap()
}

fn sms(backend: &ReverseSmsClient<'_>, from: &str, check: &InvitedCheck) -> InboundSms {
    InboundSms {
        environment: SmsEnvironment::Sandbox(backend.project.project_id.parse().unwrap()),
        connector: "sandbox".into(),
        from: SmsSender::Number(number(from)),
        to: number(&check.receiver),
        text: check.body.clone(),
        received_at: backend.world.clock.now(),
    }
}

/// Codes are bound to the mode: an SMS from a real operator does not conclude a sandbox check.
async fn code_of_the_other_mode_matches_nothing(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let check = backend.create(json!({"phone_number": EVEN})).await;
    let simulated = sms(&backend, EVEN, &check);
    let real = InboundSms { environment: SmsEnvironment::Operator, connector: "smsc".into(), ..simulated.clone() };
    assert_eq!(world.node.engine.checks.receive(real).await.unwrap(), SmsOutcome::Unmatched);
    assert_eq!(backend.get(&check.id).await.json()["status"], "ACCEPTED");
    assert_eq!(world.node.engine.checks.receive(simulated).await.unwrap(), SmsOutcome::Concluded);
}

async fn wait_for_results(nodes: [&RunningNode; 2]) {
    for node in nodes {
        wait_for_callback_results(node).await;
    }
}

/// Asserts that the next callback is that of a later check, so no earlier one is still on its way.
async fn no_further_callback_arrives(backend: &ReverseSmsClient<'_>, second: &RunningNode, receiver: &mut Receiver) {
    wait_for_results([&backend.world.node, second]).await;
    let last = backend.create(json!({"phone_number": "+990123456798", "callback_url": receiver.url("/last")})).await;
    backend.world.advance(SignedDuration::from_secs(300));
    let callback = receiver.next().await;
    assert_eq!((callback.target.as_str(), &callback.json()["check_id"]), ("/last", &json!(last.id)));
    assert!(receiver.is_quiet());
}

async fn duplicate_sms_on_two_nodes_conclude_once(world: World) {
    let second = world.second_node().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let faults = json!({"extra_copies": 4});
    let body = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": faults});
    let text = Request::post("/v1/sandbox/inbound-sms").bearer(&backend.token).json(&body);
    let addresses = [world.node.address, second.address];
    let all = (0..20).map(|index| send_to(addresses[index % 2], text.clone()));
    for response in join_all(all).await {
        response.assert(202);
    }
    let ended = backend.get(&check.id).await.json();
    assert_eq!((&ended["status"], &ended["match"]), (&json!("COMPLETED"), &json!(true)));
    assert_eq!(receiver.next().await.json(), ended);
    no_further_callback_arrives(&backend, &second, &mut receiver).await;
}

/// The SMS arrive concurrently and have different senders.
async fn one_of_many_concurrent_sms_concludes_the_check(world: World) {
    let second = world.second_node().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let engines = [&world.node.engine, &second.engine];
    let senders = [EVEN, "+990777777700"];
    let all = (0..100).map(|index| engines[index % 2].checks.receive(sms(&backend, senders[index / 50], &check)));
    let dispositions = try_join_all(all).await.unwrap();
    let decisive: Vec<_> = (0..100).filter(|index| dispositions[*index] == SmsOutcome::Concluded).collect();
    assert_eq!(decisive.len(), 1, "{dispositions:?}");
    assert!(dispositions.iter().filter(|disposition| **disposition == SmsOutcome::TooLate).count() == 99);
    let ended = backend.get(&check.id).await.json();
    assert_eq!(ended["match"], json!(decisive[0] < 50), "the first SMS decides");
    assert_eq!(receiver.next().await.json(), ended);
    no_further_callback_arrives(&backend, &second, &mut receiver).await;
}

/// An SMS received in the last millisecond before the expiry is processed while other requests observe the expiry.
async fn sms_and_expiry_race(world: World) {
    let second = world.second_node().await;
    let backend = ReverseSmsClient::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    let mut receiver = Receiver::start().await;
    let project = ProjectId(backend.project.project_id.parse().unwrap());
    let (one, other) = (&world.node.engine, &second.engine);
    for round in 0..20 {
        let from = format!("+99012345{round:02}00");
        let check = backend.create(json!({"phone_number": from, "callback_url": receiver.url("/")})).await;
        world.advance(SignedDuration::from_millis(59_999));
        let sms = sms(&backend, &from, &check);
        world.advance(SignedDuration::from_millis(1));
        let id = CheckId(check.id.parse().unwrap());
        let (first, swept, again, here, there) = tokio::join!(
            one.checks.receive(sms.clone()),
            other.checks.sweep(),
            other.checks.receive(sms),
            one.checks.reverse_sms_check(project, id),
            other.checks.reverse_sms_check(project, id),
        );
        swept.unwrap();
        let (here, there) = (here.unwrap(), there.unwrap());
        assert_eq!(here, there, "both nodes return the same");
        let concluded = backend.get(&check.id).await.json();
        assert_eq!(concluded["status"], here.status().into_str());
        let decisive = [first.unwrap(), again.unwrap()].iter().filter(|it| **it == SmsOutcome::Concluded).count();
        assert_eq!(decisive, usize::from(concluded["status"] == "COMPLETED"), "{concluded}");
        let mut callback = receiver.next().await.json();
        callback.as_object_mut().unwrap().remove("error_code");
        assert_eq!(callback, concluded);
        assert_eq!(backend.get(&check.id).await.json(), concluded, "the conclusion is final");
        wait_for_results([&world.node, &second]).await;
    }
    assert!(receiver.is_quiet());
}

/// Like `sms_and_expiry_race`, but uses only the public interfaces.
async fn expired_status_is_never_revised(world: World) {
    let second = world.second_node().await;
    let backend = ReverseSmsClient::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    second.engine.node.refresh().await.unwrap();
    let mut receiver = Receiver::start().await;
    for round in 0..8 {
        let from = format!("+99012346{round:02}00");
        let check = backend.create(json!({"phone_number": from, "callback_url": receiver.url("/")})).await;
        world.advance(SignedDuration::from_millis(59_999));
        let body = json!({"from": from, "to": check.receiver, "body": check.body});
        let text = Request::post("/v1/sandbox/inbound-sms").bearer(&backend.token).json(&body);
        let read = Request::get(&format!("{CHECKS}/{}", check.id)).bearer(&backend.token);
        let reads = (0..10).map(|index| {
            let (address, read) = ([world.node.address, second.address][index % 2], read.clone());
            async move { send_to(address, read).await.assert(200).json() }
        });
        let expiry = async { world.advance(SignedDuration::from_millis(1)) };
        let (_, _, seen, ()) =
            tokio::join!(send_to(second.address, text.clone()), world.send(text), join_all(reads), expiry);
        let concluded = world.send(read).await.assert(200).json();
        let is_open = |read: &Value| ["ACCEPTED", "PENDING"].contains(&read["status"].as_str().unwrap());
        assert!(!is_open(&concluded), "{concluded}");
        for read in seen {
            assert!(is_open(&read) || read == concluded, "{read} was read before {concluded}");
        }
        assert_eq!(receiver.next().await.json()["status"], concluded["status"]);
        wait_for_results([&world.node, &second]).await;
    }
    assert!(receiver.is_quiet());
}

on_both_stores!(
    code_of_the_other_mode_matches_nothing,
    duplicate_sms_on_two_nodes_conclude_once,
    one_of_many_concurrent_sms_concludes_the_check,
    sms_and_expiry_race,
    expired_status_is_never_revised,
);
