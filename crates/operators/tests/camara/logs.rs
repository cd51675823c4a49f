use std::{
    fmt::{Debug, Write},
    sync::Arc,
};

use parking_lot::Mutex;
use ringtrue_engine::ports::silent::SilentOperation;
use ringtrue_operators::camara::SimSwapFlow;
use serde_json::json;
use tracing::{
    Event, Metadata, Subscriber,
    field::{Field, Visit},
    span,
};

use super::{
    fake_operator::{BACKCHANNEL, DATE, DISCOVERY, NUMBER, ScriptedResponse::Json, TOKEN, VERIFY, token_response},
    fixture::{Fixture, STATE, number, query_parameters},
    sim_swap::only_sim_swap,
    wallet::TEMPORARY_TOKEN,
};

/// Records all log events of this process. Global, because tracing caches callsite interest across threads.
#[derive(Clone, Default)]
struct LogRecorder(Arc<Mutex<String>>);

impl Subscriber for LogRecorder {
    fn enabled(&self, metadata: &Metadata<'_>) -> bool {
        metadata.target().starts_with("ringtrue")
    }

    fn new_span(&self, _: &span::Attributes<'_>) -> span::Id {
        span::Id::from_u64(1)
    }

    fn record(&self, _: &span::Id, _: &span::Record<'_>) {}

    fn record_follows_from(&self, _: &span::Id, _: &span::Id) {}

    fn event(&self, event: &Event<'_>) {
        let mut log = self.0.lock();
        write!(log, "{} ", event.metadata().level()).unwrap();
        event.record(&mut LogLine(&mut log));
        log.push('\n');
    }

    fn enter(&self, _: &span::Id) {}

    fn exit(&self, _: &span::Id) {}
}

struct LogLine<'a>(&'a mut String);

impl Visit for LogLine<'_> {
    fn record_debug(&mut self, field: &Field, value: &dyn Debug) {
        write!(self.0, "{field}={value:?} ").unwrap();
    }
}

#[tokio::test]
async fn logs_contain_no_secrets_or_numbers() {
    let recorder = LogRecorder::default();
    tracing::subscriber::set_global_default(recorder.clone()).unwrap();
    let external = "external-text";
    let fixed =
        [STATE, "secret of ours", "7700900123", "device-code", "token-of-the-device", "id.token.secret", external];
    let mut secrets = fixed.map(str::to_owned).to_vec();
    let mut with_token = token_response();
    with_token["id_token"] = json!("id.token.secret");
    let refusal = |status, code: &str| {
        Json(status, json!({ "error": code, "code": code, "message": "external-text +447700900123" }))
    };
    let no_number = Json(200, json!({ "devicePhoneNumber": "447700900123" }));
    for (path, response, expected) in [
        (
            DISCOVERY,
            refusal(500, "INTERNAL"),
            r#"WARN connector="op" stage="discovery" cause=Camara("INTERNAL") status=500"#,
        ),
        (TOKEN, refusal(401, "invalid_client"), r#"ERROR connector="op" stage="token" cause=OAuth("invalid_client")"#),
        (TOKEN, refusal(400, external), r#"WARN connector="op" stage="token" cause=StatusClass(4) status=400"#),
        (TOKEN, Json(200, with_token), r#"WARN connector="op" stage="id_token" cause=InvalidResponse(IdToken)"#),
        (VERIFY, refusal(404, "IDENTIFIER_NOT_FOUND"), r#"DEBUG connector="op" stage="api""#),
        (NUMBER, no_number, r#"WARN connector="op" stage="api" cause=InvalidResponse(Number)"#),
    ] {
        let fixture = Fixture::start().await;
        fixture.operator.respond(path, response);
        let claimed = number();
        let operation =
            if path == NUMBER { SilentOperation::DiscoverNumber } else { SilentOperation::VerifyNumber(&claimed) };
        if let Ok(redirect) = fixture.begin(operation).await {
            secrets.extend(["nonce", "code_challenge"].map(|name| query_parameters(&redirect)[name].clone()));
            assert!(fixture.complete(operation, &redirect, &[("code", "device-code")]).await.is_err());
        }
        secrets
            .extend(fixture.operator.requests_to(TOKEN).iter().map(|request| request.form()["code_verifier"].clone()));
        let log = recorder.0.lock().clone();
        let without_message = |line: &str| {
            let (level, rest) = line.split_once(" message=").unwrap_or_default();
            format!("{level} {}", &rest[rest.find("connector=").unwrap_or(0)..])
        };
        assert!(log.lines().any(|line| without_message(line).starts_with(expected)), "{expected} in {log}");
    }
    secrets.push("request-of-ours".to_owned());
    for (path, response, expected) in [
        (BACKCHANNEL, refusal(400, external), r#"stage="backchannel" cause=StatusClass(4) status=400"#),
        (TOKEN, refusal(400, "slow_down"), r#"stage="token" cause=OAuth("slow_down") status=400"#),
        (DATE, Json(200, json!({ "latestSimChange": external })), r#"stage="api" cause=InvalidResponse(Date)"#),
        (DATE, Json(200, json!({ "latestSimChange": null })), r#"stage="api" cause=NoHistory"#),
    ] {
        let fixture = Fixture::with(only_sim_swap(SimSwapFlow::Ciba)).await;
        fixture.operator.respond(path, response);
        assert!(fixture.sim_history(60).await.is_err());
        let log = recorder.0.lock().clone();
        assert!(log.contains(expected), "{expected} in {log}");
    }
    secrets.push(TEMPORARY_TOKEN.to_owned());
    for (path, response, expected) in [
        (TOKEN, refusal(403, external), r#"stage="token" cause=Status(403)"#),
        (VERIFY, refusal(503, external), r#"stage="api" cause=Status(503)"#),
        (VERIFY, Json(200, json!({})), r#"stage="api" cause=InvalidResponse(Body)"#),
    ] {
        let fixture = Fixture::with_tokens().await;
        fixture.operator.respond(path, response);
        assert!(fixture.answer(fixture.draft()).await.is_err());
        let requests = fixture.operator.requests_to(TOKEN);
        secrets.extend(requests.iter().map(|request| request.form()["assertion"].clone()));
        let log = recorder.0.lock().clone();
        assert!(log.contains(expected), "{expected} in {log}");
    }
    let fixture = Fixture::with_tokens().await;
    let mut draft = fixture.draft();
    draft.binding_claims["aud"] = json!(external);
    assert!(fixture.answer(draft).await.is_err());
    let log = recorder.0.lock().clone();
    assert!(log.contains("invalid digital credential"), "{log}");

    let fixture = Fixture::start().await;
    let redirect = fixture.begin(SilentOperation::DiscoverNumber).await.unwrap();
    let query = [("error", external), ("error_description", external)];
    assert!(fixture.complete(SilentOperation::DiscoverNumber, &redirect, &query).await.is_err());
    let log = recorder.0.lock().clone();
    assert!(log.contains(r#"stage="redirect" cause=InvalidResponse(UnknownError)"#), "{log}");
    for secret in secrets {
        assert!(!log.contains(&secret), "{secret} in {log}");
    }
}
