//! `callbacks resend`: by check, and all since a time.

use std::time::Instant;

use serde_json::{Value, json};

use super::{MATCHING, OTHER, World, text};
use crate::{
    listen::web::Web,
    process::{Done, PATIENCE},
};

const GOOD: &str = "HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n";

/// A receiver, and a check whose callback it has got.
fn delivered(world: &World, receiver: &Web, number: &str) -> String {
    let id = world.ended(number, &receiver.url("/callbacks"));
    assert!(next(receiver).contains(&id));
    id
}

#[track_caller]
fn next(receiver: &Web) -> String {
    receiver.requests.recv_timeout(PATIENCE).expect("a callback comes")
}

/// Runs a command until the server has noted what was answered to the callbacks before.
fn settled(world: &World, line: &str) -> Done {
    let begun = Instant::now();
    loop {
        let done = world.run(line);
        let is_waiting = [done.text(), done.errors()].iter().any(|said| said.contains("callback_in_progress"));
        if !is_waiting || begun.elapsed() > PATIENCE {
            return done;
        }
    }
}

#[test]
fn callbacks_are_sent_again_by_check() {
    let world = World::signed_in();
    let receiver = Web::start(GOOD.to_owned());
    let id = delivered(&world, &receiver, MATCHING);
    let sent = settled(&world, &format!("callbacks resend {id} --output json")).json();
    let scheduled_at = text(&sent[0], "scheduled_at");
    let expected = json!([{
        "check_id": id, "product": "reverse_sms", "result": "scheduled", "scheduled_at": scheduled_at, "detail": null,
    }]);
    assert_eq!(sent, expected);
    assert!(next(&receiver).contains(&id));

    // One that cannot be sent again is told as any other problem; of several, a line each.
    let open = text(&world.json(&format!("reverse-sms create {OTHER}")), "check_id").to_owned();
    let refused = world.run(&format!("callbacks resend {open}")).expect_code(1);
    assert!(refused.errors().contains("(check_still_open)"), "{}", refused.errors());
    let nobody = "0199b0a8-0000-7000-8000-000000000000";
    let refused = world.run(&format!("callbacks resend {nobody}")).expect_code(1);
    assert!(refused.errors().contains("(check_not_found)"), "{}", refused.errors());
    let several = settled(&world, &format!("callbacks resend {id} {open} {nobody} --output json")).expect_code(1);
    let several: Value = serde_json::from_str(&several.text()).unwrap();
    let results: Vec<&str> = several.as_array().unwrap().iter().map(|one| text(one, "result")).collect();
    assert_eq!(results, ["scheduled", "check_still_open", "check_not_found"]);
    assert!(next(&receiver).contains(&id));
}

#[test]
fn all_callbacks_since_a_time_are_sent_again() {
    let world = World::signed_in();
    let receiver = Web::start(GOOD.to_owned());
    let ids = [MATCHING, OTHER].map(|number| delivered(&world, &receiver, number));
    world.run("reverse-sms create +990123456702").expect_code(0);
    world.run("trigger").expect_code(0);

    for nothing in ["--since 10m --status error", "--since 10m --product discovery", "--since 2100-01-01T00:00:00Z"] {
        assert_eq!(world.json(&format!("callbacks resend {nothing}")), json!([]), "{nothing}");
    }
    let done = settled(&world, "callbacks resend --since 10m --status completed,expired --output csv").expect_code(0);
    let lines = done.text();
    assert!(lines.starts_with("check_id,product,result,scheduled_at,detail\n"), "{lines}");
    let mut came = [next(&receiver), next(&receiver)];
    for id in &ids {
        assert!(lines.contains(id), "{lines}");
        assert_eq!(came.iter_mut().filter(|callback| callback.contains(id)).count(), 1);
    }
    let rows = settled(&world, "callbacks resend --since 1h").expect_code(0);
    assert!(rows.errors().contains("of 3 checks that have ended; 1 have no callback."), "{}", rows.errors());
}

#[test]
fn nobody_sends_anything_without_a_credential() {
    World::empty().run("callbacks resend --since 1h").expect_code(6);
}
