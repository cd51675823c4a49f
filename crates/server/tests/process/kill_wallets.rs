//! Tests `kill -9` between the answer of a phone's wallet and the operator's verdict, on each store: an acknowledged end
//! stays, no verification ends twice, and a verification whose answer was lost ends by another answer.

use std::{net::SocketAddr, sync::Arc};

use parking_lot::Mutex;
use ringtrue_engine::ports::entropy::{Entropy, SystemEntropy};
use ringtrue_test_support::{
    database::Database,
    http_client::{Request, token_request, try_send},
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::{
    deployment::{Deployment, ResponseCounter, Writers},
    kill_checks::rounds,
};

const VERIFICATIONS: &str = "/v1/verifications";
const APP: &str = "https://app.example";
const NUMBER: &str = "+990123456700";
/// Number of rounds on each store. The environment variable `KILL_ROUNDS` overrides this number.
const ROUNDS: usize = 6;
const ANSWERS: u8 = 12;

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    answered_verifications_end_once(database.address()).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    answered_verifications_end_once(database.address()).await;
}

/// A verification, the wallet's answer, and the response to this answer if it came before the server was killed.
#[derive(Clone)]
struct Answered {
    id: String,
    credential: Value,
    end: Arc<Mutex<Option<Value>>>,
}

async fn answered_verifications_end_once(store: &str) {
    let deployment = Deployment::new(store);
    let mut token = None;
    let mut all: Vec<Answered> = vec![];
    for _ in 0..rounds(ROUNDS) {
        let mut server = deployment.serve();
        let token = match &token {
            Some(token) => token,
            None => token.insert(project_token(&deployment, &server).await),
        };
        let mut answered = vec![];
        for _ in 0..ANSWERS {
            let create = Request::post(VERIFICATIONS).bearer(token).json(&json!({"phone_number": NUMBER}));
            let created = server.send(create).await.assert(201).json();
            let id = created["verification_id"].as_str().unwrap().to_owned();
            let credential = confirm(&server, token, &created).await;
            answered.push(Answered { id, credential, end: Arc::default() });
        }
        let [kill_after] = (&SystemEntropy::default() as &dyn Entropy).bytes();
        let responses = ResponseCounter::default();
        let mut writers = Writers::default();
        for answer in answered.clone() {
            writers.spawn(submit(server.address, token.clone(), answer, responses.clone()));
        }
        responses.wait_for_count(usize::from(kill_after % ANSWERS)).await;
        server.kill();
        writers.join().await;
        all.extend(answered);
    }
    let (server, token) = (deployment.serve(), token.unwrap());
    for Answered { id, credential, end } in all {
        let path = format!("{VERIFICATIONS}/{id}");
        let again = server.send(answer_request(&path, &token, &credential)).await;
        if again.status != 200 {
            // The answer was used before the kill, and its verdict was lost.
            assert_eq!((again.status, &again.json()["error_code"]), (400, &json!("digital_credential_invalid")));
            assert!(end.lock().is_none(), "{id}: an acknowledged end was lost");
            let open = server.get(&path, &token).await.assert(200).json();
            let credential = confirm(&server, &token, &open).await;
            server.send(answer_request(&path, &token, &credential)).await.assert(200);
        }
        let ended = server.get(&path, &token).await.assert(200).json();
        let [status, is_match, method] = ["status", "match", "method"].map(|name| &ended[name]);
        assert_eq!((status, is_match, method), (&json!("COMPLETED"), &json!(true), &json!("secure_sna")), "{ended}");
        assert_eq!(ended["steps"].as_array().unwrap().len(), 1, "{ended}");
        if let Some(end) = &*end.lock() {
            assert_eq!(&ended, end, "an ended verification changed");
        }
    }
}

async fn project_token(deployment: &Deployment, server: &ServerProcess) -> String {
    let manager = deployment.manager(server.address).await;
    let project = json!({"name": "Shop", "configuration": {"secure_sna": {"app_origins": [APP]}}});
    let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager).json(&project);
    let credential = server.send(create).await.assert(201).json()["credentials"][0].clone();
    let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().unwrap());
    server.send(token_request(id, secret, "verification")).await.access_token()
}

/// Answers the request in the current step of a verification, as the wallet of the simulated phone.
async fn confirm(server: &ServerProcess, token: &str, verification: &Value) -> Value {
    let request = &verification["next_step"]["digital_credential"];
    let body = json!({"request": request, "sim": NUMBER, "origin": APP});
    server.send(Request::post("/v1/sandbox/digital-credentials").bearer(token).json(&body)).await.assert(200).json()
}

fn answer_request(path: &str, token: &str, credential: &Value) -> Request {
    Request::post(path).bearer(token).json(&json!({"digital_credential": credential}))
}

async fn submit(address: SocketAddr, token: String, answer: Answered, responses: ResponseCounter) {
    let request = answer_request(&format!("{VERIFICATIONS}/{}", answer.id), &token, &answer.credential);
    if let Some(response) = try_send(address, &request).await {
        *answer.end.lock() = Some(response.assert(200).json());
        responses.count();
    }
}
