//! `kill -9` under load: nothing that was answered with a 2xx is lost, on either store.
//!
//! Writers create and delete credentials, create projects with idempotency keys, and revoke tokens, each remembering
//! what it was told. The process is killed in the middle, started again, and asked. Then all over again.

#![expect(clippy::unwrap_used, clippy::expect_used, reason = "a test that cannot go on has failed")]

#[expect(dead_code, reason = "not all of it is needed here")]
mod deployment;

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::{Arc, Mutex},
};

use deployment::{
    Deployment, Server,
    client::{Answer, Request},
    database::Database,
    load::{Answers, Writers},
    try_send,
};
use serde_json::{Value, json};

const ROUNDS: usize = 5;
const WRITERS: usize = 8;
/// How many answers a round waits for before it kills.
const ANSWERS: usize = 60;

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    nothing_answered_is_lost(database.address()).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    nothing_answered_is_lost(database.address()).await;
}

async fn nothing_answered_is_lost(store: &str) {
    let deployment = Deployment::new(store);
    let mut told = Told::default();
    for round in 0..ROUNDS {
        let server = deployment.serve();
        let manager = deployment.manager(server.address).await;
        check(&server, &deployment, &manager, &told).await;
        told = load_until_killed(server, &deployment, &manager, told, round).await;
    }
    let server = deployment.serve();
    let manager = deployment.manager(server.address).await;
    check(&server, &deployment, &manager, &told).await;
    assert!(told.created.len() > ROUNDS && !told.deleted.is_empty() && !told.revoked.is_empty(), "{told:?}");
}

/// What the service has answered, over all rounds.
#[derive(Debug, Default)]
struct Told {
    /// Client ids that a 201 named and no delete was sent for.
    created: BTreeSet<String>,
    /// Client ids whose delete was answered with 204.
    deleted: BTreeSet<String>,
    /// Idempotency keys, with the answer that came, if one came.
    projects: BTreeMap<String, Option<Value>>,
    revoked: Vec<String>,
}

/// Everything that was answered is there, and every unanswered create can be repeated to get one project.
async fn check(server: &Server, deployment: &Deployment, manager: &str, told: &Told) {
    let path = format!("{}/credentials", deployment.path());
    for client_id in &told.created {
        let answer = server.get(&format!("{path}/{client_id}"), manager).await;
        assert_eq!(answer.status, 200, "the credential {client_id} was created, and is lost");
    }
    for client_id in &told.deleted {
        let answer = server.get(&format!("{path}/{client_id}"), manager).await;
        assert_eq!(answer.status, 404, "the credential {client_id} was deleted, and is back");
    }
    for token in &told.revoked {
        let answer = server.get("/v1/management/workspaces", token).await;
        assert_eq!(answer.status, 401, "a revoked token is good again");
    }
    for (key, answered) in &told.projects {
        let again = server.send(create_project(deployment, manager, key)).await;
        // A claim that its holder did not live to complete runs out after its lease.
        if again.status == 409 && answered.is_none() {
            continue;
        }
        assert_eq!(again.status, 201, "{}", String::from_utf8_lossy(&again.body));
        if let Some(answered) = answered {
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
            assert_eq!(&again.json(), answered, "the answer that was given before");
        }
    }
    let search = format!("{}/projects?size=1&search=name==%22key-*%22", deployment.path());
    let total = server.get(&search, manager).await.json()["page"]["total_elements"].as_u64().unwrap();
    assert!(total <= told.projects.len() as u64, "{total} projects for {} keys", told.projects.len());
}

/// Lets the writers loose, kills the process after a number of answers, and gathers what they were told.
async fn load_until_killed(
    mut server: Server,
    deployment: &Deployment,
    manager: &str,
    told: Told,
    round: usize,
) -> Told {
    let answers = Answers::default();
    let told = Arc::new(Mutex::new(told));
    let mut writers = Writers::default();
    for writer in 0..WRITERS {
        let writer = Writer {
            address: server.address,
            deployment: deployment.clone(),
            manager: manager.to_owned(),
            told: Arc::clone(&told),
            answers: answers.clone(),
            name: format!("{round}-{writer}"),
        };
        writers.spawn(async move { writer.write().await });
    }
    writers.get(&answers, ANSWERS).await;
    server.kill();
    writers.leave().await;
    Arc::into_inner(told).unwrap().into_inner().unwrap()
}

struct Writer {
    address: SocketAddr,
    deployment: Deployment,
    manager: String,
    told: Arc<Mutex<Told>>,
    answers: Answers,
    name: String,
}

impl Writer {
    /// Writes until the service is gone.
    async fn write(&self) {
        for step in 0.. {
            if self.step(step).await.is_none() {
                return;
            }
        }
    }

    async fn step(&self, step: usize) -> Option<()> {
        let credentials = format!("{}/credentials", self.deployment.path());
        let created = self.send(Request::new("POST", &credentials).bearer(&self.manager).json(&json!({}))).await?;
        assert_eq!(created.status, 201, "{}", String::from_utf8_lossy(&created.body));
        let client_id = created.json()["client_id"].as_str().unwrap().to_owned();
        self.told.lock().unwrap().created.insert(client_id.clone());

        if step.is_multiple_of(2) {
            // From here on its fate is open until the answer is here.
            self.told.lock().unwrap().created.remove(&client_id);
            let path = format!("{credentials}/{client_id}");
            let deleted = self.send(Request::new("DELETE", &path).bearer(&self.manager)).await?;
            assert_eq!(deleted.status, 204);
            self.told.lock().unwrap().deleted.insert(client_id);
        }

        let key = format!("key-{}-{step}", self.name);
        self.told.lock().unwrap().projects.insert(key.clone(), None);
        let project = self.send(create_project(&self.deployment, &self.manager, &key)).await?;
        assert_eq!(project.status, 201, "{}", String::from_utf8_lossy(&project.body));
        self.told.lock().unwrap().projects.insert(key, Some(project.json()));

        let token = self.send(self.deployment.token_request()).await?;
        let token = token.json()["access_token"].as_str().unwrap().to_owned();
        let revoked = self.send(self.deployment.revoke_request(&token)).await?;
        assert_eq!(revoked.status, 200);
        self.told.lock().unwrap().revoked.push(token);
        Some(())
    }

    /// `None`: the service is gone, and it is not known what became of the request.
    async fn send(&self, request: Request) -> Option<Answer> {
        let answer = try_send(self.address, &request).await?;
        self.answers.count();
        Some(answer)
    }
}

fn create_project(deployment: &Deployment, manager: &str, key: &str) -> Request {
    Request::new("POST", &format!("{}/projects", deployment.path()))
        .bearer(manager)
        .header("Idempotency-Key", key)
        .json(&json!({"name": key}))
}
