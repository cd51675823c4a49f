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
use url::Url;

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

/// Who sends the wallet's answer.
#[derive(Clone)]
enum Sender {
    /// The client's backend, for its app.
    Backend,
    /// A browser that shows the hosted page at this path. It has this cookie.
    Page { path: String, cookie: String },
}

/// A verification, the wallet's answer, and the response to this answer if it came before the server was killed.
#[derive(Clone)]
struct Answered {
    id: String,
    sender: Sender,
    credential: Value,
    end: Arc<Mutex<Option<Value>>>,
}

async fn answered_verifications_end_once(store: &str) {
    let deployment = Deployment::new(store);
    let mut token = None;
    let mut all: Vec<Answered> = vec![];
    for _ in 0..rounds(ROUNDS) {
        let mut server = serve(&deployment);
        let token = match &token {
            Some(token) => token,
            None => token.insert(project_token(&deployment, &server).await),
        };
        let mut answered = vec![];
        for index in 0..ANSWERS {
            let create = Request::post(VERIFICATIONS).bearer(token).json(&json!({"phone_number": NUMBER}));
            let created = server.send(create).await.assert(201).json();
            let id = created["verification_id"].as_str().unwrap().to_owned();
            let (sender, credential) = match index % 2 {
                0 => (Sender::Backend, confirm(&server, token, &created).await),
                _ => ask_at_page(&server, token, &created).await,
            };
            answered.push(Answered { id, sender, credential, end: Arc::default() });
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
    let (server, token) = (serve(&deployment), token.unwrap());
    for answered in all {
        let Answered { id, sender, end, .. } = &answered;
        let path = format!("{VERIFICATIONS}/{id}");
        let again = server.send(answered.request(&token)).await;
        match sender {
            Sender::Backend if again.status == 200 => {}
            Sender::Backend => {
                // The answer was used before the kill, and its verdict was lost.
                assert_eq!((again.status, &again.json()["error_code"]), (400, &json!("digital_credential_invalid")));
                assert!(end.lock().is_none(), "{id}: an acknowledged end was lost");
                let open = server.get(&path, &token).await.assert(200).json();
                let credential = confirm(&server, &token, &open).await;
                server.send(answer_request(&path, &token, &credential)).await.assert(200);
            }
            // The page shows how the verification stands. Its form finishes with a stored verdict. If the verdict was
            // lost, the page asks the wallet again.
            Sender::Page { path: page, cookie } => {
                again.assert(200);
                let form = Request::post(&format!("{page}/silent")).header("Sec-Fetch-Site", "same-origin");
                server.send(form.header("Cookie", cookie).form(&[])).await.assert(303);
                let read = server.get(&path, &token).await.assert(200).json();
                if read["status"] != "COMPLETED" {
                    assert!(end.lock().is_none(), "{id}: an acknowledged end was lost");
                    let (sender, credential) = ask_at_page(&server, &token, &read).await;
                    let fresh = Answered { sender, credential, ..answered.clone() };
                    server.send(fresh.request(&token)).await.assert(200);
                }
            }
        }
        let ended = server.get(&path, &token).await.assert(200).json();
        let [status, is_match, method] = ["status", "match", "method"].map(|name| &ended[name]);
        assert_eq!((status, is_match, method), (&json!("COMPLETED"), &json!(true), &json!("secure_sna")), "{ended}");
        assert_eq!(ended["steps"].as_array().unwrap().len(), 1, "{ended}");
        if let (Some(end), Sender::Backend) = (&*end.lock(), sender) {
            assert_eq!(&ended, end, "an ended verification changed");
        }
    }
}

/// Starts a server. The wallet's answer names the address of the hosted page, which is the same after a restart.
fn serve(deployment: &Deployment) -> ServerProcess {
    deployment.serve_with(&[("RINGTRUE_BASE_URL", "https://verify.example")])
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
    confirm_request(server, token, &verification["next_step"]["digital_credential"], APP).await
}

async fn confirm_request(server: &ServerProcess, token: &str, request: &Value, origin: &str) -> Value {
    let body = json!({"request": request, "sim": NUMBER, "origin": origin});
    server.send(Request::post("/v1/sandbox/digital-credentials").bearer(token).json(&body)).await.assert(200).json()
}

/// Asks the wallet at the hosted page of a verification.
async fn ask_at_page(server: &ServerProcess, token: &str, verification: &Value) -> (Sender, Value) {
    let url = Url::parse(verification["url"].as_str().unwrap()).unwrap();
    let path = url.path().to_owned();
    let asked = server.send(page_request(&format!("{path}/wallet-request"), &json!({}))).await.assert(200);
    let cookie = asked.header("set-cookie").unwrap().split(';').next().unwrap().to_owned();
    let credential = confirm_request(server, token, &asked.json(), &url.origin().ascii_serialization()).await;
    (Sender::Page { path, cookie }, credential)
}

fn page_request(path: &str, body: &Value) -> Request {
    Request::post(path).header("Sec-Fetch-Site", "same-origin").json(body)
}

fn answer_request(path: &str, token: &str, credential: &Value) -> Request {
    Request::post(path).bearer(token).json(&json!({"digital_credential": credential}))
}

impl Answered {
    /// Returns the request that sends the answer.
    fn request(&self, token: &str) -> Request {
        match &self.sender {
            Sender::Backend => answer_request(&format!("{VERIFICATIONS}/{}", self.id), token, &self.credential),
            Sender::Page { path, cookie } => {
                let body = json!({"digital_credential": self.credential});
                page_request(&format!("{path}/wallet"), &body).header("Cookie", cookie)
            }
        }
    }
}

async fn submit(address: SocketAddr, token: String, answer: Answered, responses: ResponseCounter) {
    if let Some(response) = try_send(address, &answer.request(&token)).await {
        *answer.end.lock() = Some(response.assert(200).json());
        responses.count();
    }
}
