use std::{
    fmt::{Debug, Write},
    sync::{Arc, Mutex},
};

use ringtrue_engine::ports::Question;
use ringtrue_operators::camara::SimSwapFlow;
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{
    operator::{BACKCHANNEL, DATE, DISCOVERY, NUMBER, Saying, TOKEN, VERIFY, granted},
    sim_swap::only_sim_swap,
    world::{TICKET, World, carried, number},
};

/// Hears all that we log, in every test of this process: a listener of one thread would miss what another thread has
/// found nobody to listen to.
#[derive(Clone, Default)]
struct Listener(Arc<Mutex<String>>);

impl Subscriber for Listener {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ringtrue")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut heard = self.0.lock().unwrap();
        write!(heard, "{} ", event.metadata().level()).unwrap();
        event.record(&mut Line(&mut heard));
        heard.push('\n');
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct Line<'a>(&'a mut String);

impl Visit for Line<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[tokio::test]
async fn logs_say_what_happened_and_nothing_of_whom() {
    let listener = Listener::default();
    tracing::subscriber::set_global_default(listener.clone()).unwrap();
    let theirs = "words-of-others";
    let fixed =
        [TICKET, "secret of ours", "7700900123", "device-code", "token-of-the-device", "id.token.secret", theirs];
    let mut secrets = fixed.map(str::to_owned).to_vec();
    let mut with_token = granted();
    with_token["id_token"] = json!("id.token.secret");
    let refusal = |status, code: &str| {
        Saying::Json(status, json!({ "error": code, "code": code, "message": "words-of-others +447700900123" }))
    };
    let no_number = Saying::Json(200, json!({ "devicePhoneNumber": "447700900123" }));
    for (place, saying, expected) in [
        (
            DISCOVERY,
            refusal(500, "INTERNAL"),
            r#"WARN connector="op" stage="discovery" symptom=Camara("INTERNAL") status=500"#,
        ),
        (
            TOKEN,
            refusal(401, "invalid_client"),
            r#"ERROR connector="op" stage="token" symptom=OAuth("invalid_client")"#,
        ),
        (TOKEN, refusal(400, theirs), r#"WARN connector="op" stage="token" symptom=StatusClass(4) status=400"#),
        (TOKEN, Saying::Json(200, with_token), r#"WARN connector="op" stage="id_token" symptom=Nonsense(IdToken)"#),
        (VERIFY, refusal(404, "IDENTIFIER_NOT_FOUND"), r#"DEBUG connector="op" stage="api""#),
        (NUMBER, no_number, r#"WARN connector="op" stage="api" symptom=Nonsense(Number)"#),
    ] {
        let world = World::start().await;
        world.operator.says(place, saying);
        let claimed = number();
        let question = if place == NUMBER { Question::WhichNumber } else { Question::IsNumber(&claimed) };
        if let Ok(journey) = world.depart(question).await {
            secrets.extend(["nonce", "code_challenge"].map(|name| carried(&journey)[name].clone()));
            assert!(world.arrive(question, &journey, &[("code", "device-code")]).await.is_err());
        }
        secrets.extend(world.operator.asked(TOKEN).iter().map(|request| request.form()["code_verifier"].clone()));
        let heard = listener.0.lock().unwrap().clone();
        let without_message = |line: &str| {
            let (level, rest) = line.split_once(" message=").unwrap_or_default();
            format!("{level} {}", &rest[rest.find("connector=").unwrap_or(0)..])
        };
        assert!(heard.lines().any(|line| without_message(line).starts_with(expected)), "{expected} in {heard}");
    }
    secrets.push("request-of-ours".to_owned());
    for (place, saying, expected) in [
        (BACKCHANNEL, refusal(400, theirs), r#"stage="backchannel" symptom=StatusClass(4) status=400"#),
        (TOKEN, refusal(400, "slow_down"), r#"stage="token" symptom=OAuth("slow_down") status=400"#),
        (DATE, Saying::Json(200, json!({ "latestSimChange": theirs })), r#"stage="api" symptom=Nonsense(Date)"#),
        (DATE, Saying::Json(200, json!({ "latestSimChange": null })), r#"stage="api" symptom=NoHistory"#),
    ] {
        let world = World::with(only_sim_swap(SimSwapFlow::Ciba)).await;
        world.operator.says(place, saying);
        assert!(world.sim_history(60).await.is_err());
        let heard = listener.0.lock().unwrap().clone();
        assert!(heard.contains(expected), "{expected} in {heard}");
    }
    let world = World::start().await;
    let journey = world.depart(Question::WhichNumber).await.unwrap();
    let query = [("error", theirs), ("error_description", theirs)];
    assert!(world.arrive(Question::WhichNumber, &journey, &query).await.is_err());
    let heard = listener.0.lock().unwrap().clone();
    assert!(heard.contains(r#"stage="redirect" symptom=Nonsense(UnknownError)"#), "{heard}");
    for secret in secrets {
        assert!(!heard.contains(&secret), "{secret} in {heard}");
    }
}
