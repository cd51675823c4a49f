//! Many hands at once, on two nodes: a check still ends once, and what was read stays true.

use futures_util::future::{join_all, try_join_all};
use jiff::SignedDuration;
use ringtrue_domain::{
    lifecycle::CheckId,
    phone::Msisdn,
    reverse_sms::{InboundSms, Origin, Sender},
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::ports::{Clock, Disposition, Inbox};
use serde_json::{Value, json};

use crate::{
    client::Request,
    on_both_stores,
    receiver::Receiver,
    reverse_sms::{Asker, CHECKS, EVEN, Invited},
    world::{World, eventually, send_to},
};

fn number(text: &str) -> Msisdn {
    Msisdn::parse(text, Mode::Sandbox).unwrap()
}

fn sms(asker: &Asker<'_>, from: &str, check: &Invited) -> InboundSms {
    InboundSms {
        origin: Origin::Sandbox(asker.project.project_id.parse().unwrap()),
        connector: "sandbox".into(),
        from: Sender::Number(number(from)),
        to: number(&check.receiver),
        text: check.body.clone(),
        received_at: asker.world.clock.now(),
    }
}

/// What is simulated never meets what is real, whoever knows the code.
async fn the_right_code_in_the_other_mode_matches_nothing(world: World) {
    let asker = Asker::sandbox(&world).await;
    let check = asker.create(json!({"phone_number": EVEN})).await;
    let simulated = sms(&asker, EVEN, &check);
    let real = InboundSms { origin: Origin::Operator, connector: "smsc".into(), ..simulated.clone() };
    assert_eq!(world.node.engine.receive(real).await.unwrap(), Disposition::Unmatched);
    assert_eq!(asker.get(&check.id).await.json()["status"], "ACCEPTED");
    assert_eq!(world.node.engine.receive(simulated).await.unwrap(), Disposition::Concluded);
}

/// Another check's whole way on each node: whatever else was to come would have come before.
async fn nothing_else_came(asker: &Asker<'_>, receiver: &mut Receiver) {
    let last = asker.create(json!({"phone_number": "+990123456798", "callback_url": receiver.url("/last")})).await;
    asker.world.advance(SignedDuration::from_secs(300));
    let callback = receiver.next().await;
    assert_eq!((callback.target.as_str(), &callback.json()["check_id"]), ("/last", &json!(last.id)));
    assert!(receiver.is_quiet());
}

async fn one_sms_a_hundred_times_on_two_nodes(world: World) {
    let second = world.second_node().await;
    let asker = Asker::sandbox(&world).await;
    eventually("the token is good there", async || {
        let request = Request::get(CHECKS).bearer(&asker.token);
        send_to(second.address, request).await.status == 200
    })
    .await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let faults = json!({"extra_copies": 4});
    let body = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": faults});
    let text = Request::post("/v1/sandbox/inbound-sms").bearer(&asker.token).json(&body);
    let addresses = [world.node.address, second.address];
    let all = (0..20).map(|index| send_to(addresses[index % 2], text.clone()));
    for answer in join_all(all).await {
        answer.assert(202);
    }
    let ended = asker.get(&check.id).await.json();
    assert_eq!((&ended["status"], &ended["match"]), (&json!("COMPLETED"), &json!(true)));
    assert_eq!(receiver.next().await.json(), ended);
    nothing_else_came(&asker, &mut receiver).await;
}

/// As above, but all hundred really at the same time, and of two minds about who sent it.
async fn of_a_hundred_at_once_one_decides(world: World) {
    let second = world.second_node().await;
    let asker = Asker::sandbox(&world).await;
    let mut receiver = Receiver::start().await;
    let check = asker.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/")})).await;
    let engines = [&world.node.engine, &second.engine];
    let senders = [EVEN, "+990777777700"];
    let all = (0..100).map(|index| engines[index % 2].receive(sms(&asker, senders[index / 50], &check)));
    let dispositions = try_join_all(all).await.unwrap();
    let decisive: Vec<_> = (0..100).filter(|index| dispositions[*index] == Disposition::Concluded).collect();
    assert_eq!(decisive.len(), 1, "{dispositions:?}");
    assert!(dispositions.iter().filter(|disposition| **disposition == Disposition::TooLate).count() == 99);
    let ended = asker.get(&check.id).await.json();
    assert_eq!(ended["match"], json!(decisive[0] < 50), "as the one that was first says");
    assert_eq!(receiver.next().await.json(), ended);
    nothing_else_came(&asker, &mut receiver).await;
}

/// An SMS that came in the last millisecond is dealt with while everybody else finds that the time is up.
async fn an_sms_and_the_deadline_race(world: World) {
    let second = world.second_node().await;
    let asker = Asker::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    let mut receiver = Receiver::start().await;
    let project = ProjectId(asker.project.project_id.parse().unwrap());
    let (one, other) = (&world.node.engine, &second.engine);
    for round in 0..20 {
        let from = format!("+99012345{round:02}00");
        let check = asker.create(json!({"phone_number": from, "callback_url": receiver.url("/")})).await;
        world.advance(SignedDuration::from_millis(59_999));
        let sms = sms(&asker, &from, &check);
        world.advance(SignedDuration::from_millis(1));
        let id = CheckId(check.id.parse().unwrap());
        let (first, swept, again, here, there) = tokio::join!(
            one.receive(sms.clone()),
            other.sweep(),
            other.receive(sms),
            one.reverse_sms(project, id),
            other.reverse_sms(project, id),
        );
        swept.unwrap();
        let (here, there) = (here.unwrap(), there.unwrap());
        assert_eq!(here, there, "two readers are told the same");
        let told = asker.get(&check.id).await.json();
        assert_eq!(told["status"], here.status().as_str());
        let decisive = [first.unwrap(), again.unwrap()].iter().filter(|it| **it == Disposition::Concluded).count();
        assert_eq!(decisive, usize::from(told["status"] == "COMPLETED"), "{told}");
        let mut callback = receiver.next().await.json();
        callback.as_object_mut().unwrap().remove("error_code");
        assert_eq!(callback, told);
        assert_eq!(asker.get(&check.id).await.json(), told, "and it stays so");
    }
    assert!(receiver.is_quiet());
}

/// The same through the doors: handsets, readers and the clock.
async fn what_was_read_at_the_deadline_stays_true(world: World) {
    let second = world.second_node().await;
    let asker = Asker::new(&world, json!({"configuration": {"reverse_sms": {"ttl": 60}}})).await;
    eventually("the token is good there", async || {
        send_to(second.address, Request::get(CHECKS).bearer(&asker.token)).await.status == 200
    })
    .await;
    let mut receiver = Receiver::start().await;
    for round in 0..8 {
        let from = format!("+99012346{round:02}00");
        let check = asker.create(json!({"phone_number": from, "callback_url": receiver.url("/")})).await;
        world.advance(SignedDuration::from_millis(59_999));
        let body = json!({"from": from, "to": check.receiver, "body": check.body});
        let text = Request::post("/v1/sandbox/inbound-sms").bearer(&asker.token).json(&body);
        let read = Request::get(&format!("{CHECKS}/{}", check.id)).bearer(&asker.token);
        let reads = (0..10).map(|index| {
            let (address, read) = ([world.node.address, second.address][index % 2], read.clone());
            async move { send_to(address, read).await.assert(200).json() }
        });
        let time_is_up = async { world.advance(SignedDuration::from_millis(1)) };
        let (_, _, seen, ()) =
            tokio::join!(send_to(second.address, text.clone()), world.send(text), join_all(reads), time_is_up);
        let told = world.send(read).await.assert(200).json();
        let is_open = |read: &Value| ["ACCEPTED", "PENDING"].contains(&read["status"].as_str().unwrap());
        assert!(!is_open(&told), "{told}");
        for read in seen {
            assert!(is_open(&read) || read == told, "{read} was read, and then {told}");
        }
        assert_eq!(receiver.next().await.json()["status"], told["status"]);
    }
    assert!(receiver.is_quiet());
}

on_both_stores!(
    the_right_code_in_the_other_mode_matches_nothing,
    one_sms_a_hundred_times_on_two_nodes,
    of_a_hundred_at_once_one_decides,
    an_sms_and_the_deadline_race,
    what_was_read_at_the_deadline_stays_true,
);
