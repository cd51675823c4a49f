use futures_util::future::join_all;
use ringtrue_domain::lifecycle::ErrorCode;
use ringtrue_engine::ports::{Question, Reply};
use ringtrue_operators::camara::{BreakerState, Provider};
use serde_json::json;

use super::{
    operator::{DISCOVERY, NUMBER, Saying, TOKEN, VERIFY, granted},
    world::{World, number},
};

fn described(world: &World, headers: &'static str) -> Saying {
    Saying::Plain(200, headers, world.operator.description().to_string().into_bytes())
}

#[tokio::test]
async fn a_description_is_kept_for_as_long_as_it_says() {
    for (headers, seconds) in
        [("", 3_600), ("cache-control: max-age=120\r\n", 120), ("cache-control: no-store\r\n", 10)]
    {
        let world = World::start().await;
        world.operator.says(DISCOVERY, described(&world, headers));
        world.verify().await.unwrap();
        world.pass(seconds - 1);
        world.verify().await.unwrap();
        assert_eq!(world.operator.asked(DISCOVERY).len(), 1, "{headers}");
        world.pass(1);
        world.verify().await.unwrap();
        assert_eq!(world.operator.asked(DISCOVERY).len(), 2, "{headers}");
    }
}

#[tokio::test]
async fn an_old_description_is_better_than_none() {
    let world = World::start().await;
    world.verify().await.unwrap();
    for (count, saying) in [
        Saying::Json(500, json!({})),
        Saying::Plain(200, "", b"<html>".to_vec()),
        Saying::Json(200, json!({ "issuer": "https://other.example" })),
    ]
    .into_iter()
    .enumerate()
    {
        world.pass(3_600);
        world.operator.says(DISCOVERY, saying);
        assert_eq!(world.verify().await, Ok(Reply::Match(true)));
        assert_eq!(world.operator.asked(DISCOVERY).len(), 2 + count, "not asked for again at once");
    }
    assert_eq!(world.camara.state(), BreakerState::Closed);
}

#[tokio::test]
async fn many_devices_ask_for_it_once() {
    let world = World::start().await;
    let question = Question::WhichNumber;
    let journeys = join_all((0..20).map(|_| world.depart(question))).await;
    assert!(journeys.iter().all(Result::is_ok));
    assert_eq!(world.operator.asked(DISCOVERY).len(), 1);

    let world = World::start().await;
    world.operator.says(DISCOVERY, Saying::HangUp);
    let journeys = join_all((0..20).map(|_| world.depart(question))).await;
    assert!(journeys.iter().all(|journey| *journey == Err(ErrorCode::MnoServerError)));
    assert_eq!(world.operator.asked(DISCOVERY).len(), 2, "once, and once more");
    assert_eq!(world.camara.state(), BreakerState::Closed, "one failure is one, however many waited for it");
}

#[tokio::test]
async fn a_description_is_of_whom_we_asked_and_whole() {
    let changes = [
        json!({ "issuer": "https://other.example" }),
        json!({ "issuer": null }),
        json!({ "authorization_endpoint": null }),
        json!({ "token_endpoint": "javascript:alert(1)" }),
        json!({ "jwks_uri": null }),
    ];
    for change in changes {
        let world = World::start().await;
        let mut description = world.operator.description();
        description.as_object_mut().unwrap().extend(change.as_object().unwrap().clone());
        world.operator.says(DISCOVERY, Saying::Json(200, description));
        assert_eq!(world.depart(Question::WhichNumber).await, Err(ErrorCode::MnoResponseError), "{change}");
    }
}

#[tokio::test]
async fn a_description_may_be_elsewhere() {
    for (issuer, is_right) in [(None, true), (Some("right"), true), (Some("http://other.example"), false)] {
        let world = World::with(|config, operator| {
            let issuer = issuer.map(|issuer| if issuer == "right" { operator.issuer() } else { issuer.to_owned() });
            config.provider = Provider::Discovery { url: operator.url("/elsewhere"), issuer };
        });
        let world = world.await;
        world.operator.says("/elsewhere", Saying::Json(200, world.operator.description()));
        assert_eq!(world.verify().await.is_ok(), is_right, "{issuer:?}");
        assert!(world.operator.asked(DISCOVERY).is_empty());
    }
}

#[tokio::test]
async fn a_read_is_repeated_once_and_nothing_else_is() {
    let (bad, lost) = (|status| Saying::Json(status, json!({})), Saying::HangUp);
    for saying in [bad(502), bad(503), bad(504), lost] {
        let world = World::start().await;
        world.operator.says_all(DISCOVERY, vec![saying.clone(), described(&world, "")]);
        assert!(world.ask(Question::WhichNumber).await.is_ok());
        assert_eq!(world.operator.asked(DISCOVERY).len(), 2);

        // A code and a token are good for one call each, and who was cut off may have used it.
        for (place, question, answer) in [
            (TOKEN, Question::WhichNumber, granted()),
            (VERIFY, Question::IsNumber(&number()), json!({ "devicePhoneNumberVerified": true })),
            (NUMBER, Question::WhichNumber, json!({ "devicePhoneNumber": "+447700900123" })),
        ] {
            let world = World::start().await;
            world.operator.says_all(place, vec![saying.clone(), Saying::Json(200, answer)]);
            assert!(world.ask(question).await.is_err());
            assert_eq!(world.operator.asked(place).len(), 1, "{place}");
        }
    }
    for status in [400, 429, 500] {
        let world = World::start().await;
        world.operator.says(DISCOVERY, bad(status));
        assert!(world.ask(Question::WhichNumber).await.is_err());
        assert_eq!(world.operator.asked(DISCOVERY).len(), 1, "{status}");
    }
}
