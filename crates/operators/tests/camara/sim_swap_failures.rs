use std::{sync::Arc, time::Duration};

use ringtrue_domain::{lifecycle::ErrorCode, sim_swap::SimHistory};
use ringtrue_engine::ports::Reply;
use ringtrue_operators::{
    camara::{BreakerSettings, BreakerState, SimSwapConfig, SimSwapFlow, SimSwapOperation},
    client::{Client, ClientError, ClientSettings},
};
use serde_json::json;
use tokio::time::timeout;
use url::Url;

use super::{
    failures::{CAMARA, OAUTH, STATUSES, broken, code},
    operator::{BACKCHANNEL, CHECK, DATE, DISCOVERY, Saying, TOKEN, VERIFY},
    sim_swap::{flows, only_sim_swap},
    world::{World, impatient},
};

const PLACES: [(&str, SimSwapOperation); 2] =
    [(DATE, SimSwapOperation::RetrieveDate), (CHECK, SimSwapOperation::Check)];

/// Asks an operator that says this at this place.
async fn ends(client: &Arc<Client>, place: &'static str, saying: Saying, expected: &str, case: &str) {
    for flow in flows() {
        let is_ciba = matches!(flow, SimSwapFlow::Ciba);
        if place == BACKCHANNEL && !is_ciba {
            continue;
        }
        let world = World::of(client, |config, operator| {
            only_sim_swap(flow)(config, operator);
            if let Some(sim_swap) = config.sim_swap.as_mut().filter(|_| place == CHECK) {
                sim_swap.operations = vec![SimSwapOperation::Check];
            }
        });
        let world = world.await;
        // So that nobody waits for a decision that does not come.
        let begun = json!({ "auth_req_id": "request-of-ours", "interval": 60 });
        world.operator.says(BACKCHANNEL, Saying::Json(200, begun));
        world.operator.says(place, saying.clone());
        assert_eq!(world.sim_history(60).await, Err(code(expected)), "{case} at {place}");
        let tries = if [DATE, CHECK].contains(&place) { 1..=2 } else { 1..=1 };
        assert!(tries.contains(&world.operator.asked(place).len()), "{case} at {place}: only a read is repeated");
    }
}

#[tokio::test]
async fn errors_of_the_servers_that_give_tokens() {
    let client = Arc::new(impatient());
    for (error, expected) in OAUTH {
        let status = if *error == "invalid_client" { 401 } else { 400 };
        let saying = Saying::Json(status, json!({ "error": error, "error_description": "x" }));
        ends(&client, TOKEN, saying.clone(), expected, error).await;
        ends(&client, BACKCHANNEL, saying, expected, error).await;
    }
    for body in [json!({}), json!({ "auth_req_id": "" }), json!({ "auth_req_id": 1 }), json!([]), json!(null)] {
        ends(&client, BACKCHANNEL, Saying::Json(200, body.clone()), "mno_response_error", &body.to_string()).await;
    }
}

#[tokio::test]
async fn errors_of_the_interface() {
    let client = Arc::new(impatient());
    for (status, name, expected) in CAMARA {
        for (place, operation) in PLACES {
            let expected = match *name {
                // Neither may be asked for more than it knows, and nothing else may be asked.
                "OUT_OF_RANGE" => "mno_no_data_available",
                // There is no device here.
                "USER_NOT_AUTHENTICATED_BY_MOBILE_NETWORK" => "mno_response_error",
                // A token of ours was replaced, which did not help.
                "UNAUTHENTICATED" | "AUTHENTICATION_REQUIRED" => continue,
                _ => expected,
            };
            let body = json!({ "status": status, "code": name, "message": "x" });
            ends(&client, place, Saying::Json(*status, body), expected, &format!("{name} {operation:?}")).await;
        }
    }
}

#[tokio::test]
async fn statuses_without_a_known_word_and_answers_that_cannot_be_read() {
    let client = Arc::new(impatient());
    for (status, expected) in STATUSES.iter().filter(|(status, _)| *status != 401) {
        let body = if *status == 204 { vec![] } else { b"<html>no</html>".to_vec() };
        for place in [DATE, CHECK, BACKCHANNEL] {
            ends(&client, place, Saying::Plain(*status, "", body.clone()), expected, &status.to_string()).await;
        }
    }
    for (error, saying, expected) in broken() {
        for place in [DATE, BACKCHANNEL] {
            ends(&client, place, saying.clone(), expected, error.as_str()).await;
        }
    }
}

#[tokio::test]
async fn a_question_that_did_not_come_through_is_asked_once_more() {
    let date = Saying::Json(200, json!({ "latestSimChange": "2026-11-14T13:00:00Z" }));
    let status = |status| Saying::Json(status, json!({}));
    for (first, is_repeated) in [
        (Saying::HangUp, true),
        (status(502), true),
        (status(503), true),
        (status(504), true),
        (status(500), false),
        (status(404), false),
        (Saying::Silence, false),
    ] {
        for flow in flows() {
            let world = World::with(only_sim_swap(flow)).await;
            world.operator.says_all(DATE, vec![first.clone(), date.clone()]);
            assert_eq!(world.sim_history(60).await.is_ok(), is_repeated);
            assert_eq!(world.operator.asked(DATE).len(), if is_repeated { 2 } else { 1 });
            assert_eq!(world.operator.asked(TOKEN).len(), 1);
        }
    }
}

#[tokio::test]
async fn operators_that_cannot_be_reached() {
    let free = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap().local_addr().unwrap().port();
    for (error, root, expected) in [
        (ClientError::Refused, format!("http://127.0.0.1:{free}"), "mno_server_error"),
        (ClientError::Unresolved, "http://nobody.example".to_owned(), "mno_server_error"),
        (ClientError::ConnectTimeout, "http://silent.example".to_owned(), "mno_timeout"),
    ] {
        let world = World::with(|config, operator| {
            only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
            config.api_root = Url::parse(&root).unwrap();
        });
        assert_eq!(world.await.sim_history(60).await, Err(code(expected)), "{error:?}");
    }
}

#[tokio::test]
async fn a_server_without_a_backchannel_is_of_no_use_to_ciba() {
    let world = World::with(only_sim_swap(SimSwapFlow::Ciba)).await;
    let mut description = world.operator.description();
    description.as_object_mut().unwrap().remove("backchannel_authentication_endpoint");
    world.operator.says(DISCOVERY, Saying::Json(200, description));
    assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoServerError));
    assert!(matches!(world.camara.sim_swap_state(), BreakerState::Open { .. }));
}

/// It says how often it wants to be asked, and is asked no more often. A decision that would come too late is not
/// waited for.
#[tokio::test]
async fn a_decision_is_waited_for_as_long_as_it_is_of_use() {
    let not_yet = |error: &str| Saying::Json(400, json!({ "error": error }));
    let granted = Saying::Json(200, super::operator::granted());
    let pending = || not_yet("authorization_pending");
    for (interval, sayings, is_decided) in [
        (json!(0), vec![pending(), pending(), granted.clone()], true),
        (json!("1"), vec![pending(), granted.clone()], true),
        (json!(1), vec![pending(), not_yet("slow_down"), granted.clone()], true),
        (json!(30), vec![pending(), granted.clone()], false),
        (json!(6), vec![not_yet("slow_down"), granted.clone()], false),
    ] {
        let world = World::with(only_sim_swap(SimSwapFlow::Ciba)).await;
        let begun = json!({ "auth_req_id": "request-of-ours", "expires_in": 120, "interval": interval });
        world.operator.says(BACKCHANNEL, Saying::Json(200, begun));
        let count = if is_decided { sayings.len() } else { 1 };
        world.operator.says_all(TOKEN, sayings);
        let told = world.sim_history(60).await;
        let expected = if is_decided { told.is_ok() } else { told == Err(ErrorCode::MnoTimeout) };
        assert!(expected, "{interval}: {told:?}");
        assert_eq!(world.operator.asked(TOKEN).len(), count, "{interval}");
        assert_eq!(world.camara.sim_swap_state(), BreakerState::Closed);
    }
}

/// The client is more patient than our own caller.
#[tokio::test]
async fn an_answer_that_comes_too_late_for_our_caller_is_none() {
    let total = Duration::from_secs(30);
    let patient = Arc::new(Client::new(&ClientSettings { total, ..ClientSettings::default() }).unwrap());
    let world = World::of(&patient, |config, operator| {
        only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
        config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    });
    let world = world.await;
    world.operator.says(DATE, Saying::Silence);
    assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoTimeout));
    assert!(matches!(world.camara.sim_swap_state(), BreakerState::Open { .. }), "and the breaker knows");
}

/// Whoever asked is gone before an answer could have been too late: that says nothing of the operator.
#[tokio::test]
async fn a_question_that_is_dropped_early_is_not_the_operators_fault() {
    let world = World::with(|config, operator| {
        only_sim_swap(SimSwapFlow::ClientCredentials)(config, operator);
        config.breaker = BreakerSettings { failures: 1, ..BreakerSettings::default() };
    });
    let world = world.await;
    world.operator.says(DATE, Saying::Silence);
    assert!(timeout(Duration::from_millis(300), world.sim_history(60)).await.is_err());
    assert_eq!(world.camara.sim_swap_state(), BreakerState::Closed);
}

#[tokio::test]
async fn questions_about_sim_cards_and_about_devices_fail_apart() {
    let world = World::with(|config, _| {
        config.breaker = BreakerSettings { failures: 3, ..BreakerSettings::default() };
        config.sim_swap = Some(SimSwapConfig::new(SimSwapFlow::ClientCredentials));
    });
    let world = world.await;
    world.operator.says(DATE, Saying::Json(500, json!({})));
    for _ in 0..4 {
        assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoServerError));
    }
    assert_eq!(world.operator.asked(DATE).len(), 3, "the way is closed");
    assert_eq!(world.verify().await, Ok(Reply::Match(true)), "the other one is not");
    assert!(matches!(world.camara.sim_swap_state(), BreakerState::Open { .. }), "nor does it open this one");
    world.pass(30);
    world.operator.says(DATE, Saying::Json(404, json!({ "code": "IDENTIFIER_NOT_FOUND" })));
    assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoUserNotFound));
    assert_eq!(world.camara.sim_swap_state(), BreakerState::Closed, "who does not know a number works");
    world.operator.says(DATE, Saying::Json(200, json!({ "latestSimChange": null, "monitoredPeriod": 1 })));
    assert!(matches!(world.sim_history(60).await, Ok(SimHistory::NoChangeFor(_))));

    world.operator.says(VERIFY, Saying::Json(500, json!({})));
    for _ in 0..3 {
        assert_eq!(world.verify().await, Err(ErrorCode::MnoServerError));
    }
    assert!(matches!(world.camara.state(), BreakerState::Open { .. }));
    assert!(world.sim_history(60).await.is_ok());
}

#[tokio::test]
async fn who_is_not_asked_about_sim_cards_says_so() {
    let world = World::start().await;
    assert!(!world.camara.serves_sim_swap() && world.camara.sends_devices());
    assert_eq!(world.sim_history(60).await, Err(ErrorCode::MnoNotSupported));
    let world = World::with(only_sim_swap(SimSwapFlow::Ciba)).await;
    assert!(world.camara.serves_sim_swap() && !world.camara.sends_devices());
    assert_eq!(world.verify().await.err(), Some(ErrorCode::MnoNotSupported));
}
