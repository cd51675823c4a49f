//! Tests `kill -9` under load, on each store: no acknowledged write is lost.
//!
//! Writers create and delete credentials, create projects with idempotency keys, and revoke tokens. They record the
//! responses. Several times, the process is killed and restarted, and its data is compared with the records.

use std::{
    collections::{BTreeMap, BTreeSet},
    net::SocketAddr,
    sync::Arc,
};

use parking_lot::Mutex;
use ringtrue_test_support::{
    database::Database,
    http_client::{HttpResponse, Request, try_send},
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::deployment::{Deployment, ResponseCounter, Writers};

const ROUNDS: usize = 5;
const WRITERS: usize = 8;
/// Number of responses in each round before the kill.
const RESPONSES_PER_ROUND: usize = 60;

#[tokio::test]
async fn sqlite() {
    let database = Database::sqlite().await;
    no_acknowledged_write_is_lost(database.address()).await;
}

#[tokio::test]
async fn postgres() {
    let database = Database::postgres().await;
    no_acknowledged_write_is_lost(database.address()).await;
}

#[tokio::test]
async fn citus() {
    let database = Database::citus().await;
    no_acknowledged_write_is_lost(database.address()).await;
}

async fn no_acknowledged_write_is_lost(store: &str) {
    let deployment = Deployment::new(store);
    let mut written = WriteLog::default();
    for round in 0..ROUNDS {
        let server = deployment.serve();
        let manager = deployment.manager(server.address).await;
        assert_writes_exist(&server, &deployment, &manager, &written).await;
        written = load_until_killed(server, &deployment, &manager, written, round).await;
    }
    let server = deployment.serve();
    let manager = deployment.manager(server.address).await;
    assert_writes_exist(&server, &deployment, &manager, &written).await;
    assert!(
        written.created.len() > ROUNDS && !written.deleted.is_empty() && !written.revoked.is_empty(),
        "{written:?}"
    );
}

/// Records of the responses of all rounds.
#[derive(Debug, Default)]
struct WriteLog {
    /// Client ids whose creation was acknowledged with 201, and which were not deleted.
    created: BTreeSet<String>,
    /// Client ids whose deletion was acknowledged with 204.
    deleted: BTreeSet<String>,
    /// Idempotency keys of created projects, with the response if one arrived.
    projects: BTreeMap<String, Option<Value>>,
    revoked: Vec<String>,
}

/// Checks that all acknowledged writes exist and that unacknowledged creates can be repeated.
async fn assert_writes_exist(server: &ServerProcess, deployment: &Deployment, manager: &str, written: &WriteLog) {
    let path = format!("{}/credentials", deployment.path());
    for client_id in &written.created {
        let response = server.get(&format!("{path}/{client_id}"), manager).await;
        assert_eq!(response.status, 200, "the acknowledged credential {client_id} is lost");
    }
    for client_id in &written.deleted {
        let response = server.get(&format!("{path}/{client_id}"), manager).await;
        assert_eq!(response.status, 404, "the deleted credential {client_id} exists");
    }
    for token in &written.revoked {
        let response = server.get("/v1/management/workspaces", token).await;
        assert_eq!(response.status, 401, "a revoked token is valid again");
    }
    for (key, answered) in &written.projects {
        let again = server.send(create_project(deployment, manager, key)).await;
        // If the process was killed during a request, its lease on the idempotency key remains until it expires.
        if again.status == 409 && answered.is_none() {
            continue;
        }
        assert_eq!(again.status, 201, "{}", String::from_utf8_lossy(&again.body));
        if let Some(answered) = answered {
            assert_eq!(again.header("idempotent-replayed"), Some("true"));
            assert_eq!(&again.json(), answered, "the replay differs from the first response");
        }
    }
    let search = format!("{}/projects?size=1&search=name==%22key-*%22", deployment.path());
    let total = server.get(&search, manager).await.json()["page"]["total_elements"].as_u64().unwrap();
    assert!(
        total <= written.projects.len() as u64,
        "{total} projects were created with {} keys",
        written.projects.len()
    );
}

/// Runs the writers, kills the process after a number of responses, and returns the writers' records.
async fn load_until_killed(
    mut server: ServerProcess,
    deployment: &Deployment,
    manager: &str,
    written: WriteLog,
    round: usize,
) -> WriteLog {
    let responses = ResponseCounter::default();
    let written = Arc::new(Mutex::new(written));
    let mut writers = Writers::default();
    for writer in 0..WRITERS {
        let writer = Writer {
            address: server.address,
            deployment: deployment.clone(),
            manager: manager.to_owned(),
            written: Arc::clone(&written),
            responses: responses.clone(),
            name: format!("{round}-{writer}"),
        };
        writers.spawn(async move { writer.write().await });
    }
    writers.get(&responses, RESPONSES_PER_ROUND).await;
    server.kill();
    writers.join().await;
    Arc::into_inner(written).unwrap().into_inner()
}

struct Writer {
    address: SocketAddr,
    deployment: Deployment,
    manager: String,
    written: Arc<Mutex<WriteLog>>,
    responses: ResponseCounter,
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
        self.written.lock().created.insert(client_id.clone());

        if step.is_multiple_of(2) {
            // Removed before the request: until the response arrives, it is unknown whether the credential exists.
            self.written.lock().created.remove(&client_id);
            let path = format!("{credentials}/{client_id}");
            let deleted = self.send(Request::new("DELETE", &path).bearer(&self.manager)).await?;
            assert_eq!(deleted.status, 204);
            self.written.lock().deleted.insert(client_id);
        }

        let key = format!("key-{}-{step}", self.name);
        self.written.lock().projects.insert(key.clone(), None);
        let project = self.send(create_project(&self.deployment, &self.manager, &key)).await?;
        assert_eq!(project.status, 201, "{}", String::from_utf8_lossy(&project.body));
        self.written.lock().projects.insert(key, Some(project.json()));

        let token = self.send(self.deployment.token_request()).await?;
        let token = token.json()["access_token"].as_str().unwrap().to_owned();
        let revoked = self.send(self.deployment.revoke_request(&token)).await?;
        assert_eq!(revoked.status, 200);
        self.written.lock().revoked.push(token);
        Some(())
    }

    /// Sends a request. `None`: the service is gone, so it is unknown whether the request was processed.
    async fn send(&self, request: Request) -> Option<HttpResponse> {
        let response = try_send(self.address, &request).await?;
        self.responses.count();
        Some(response)
    }
}

fn create_project(deployment: &Deployment, manager: &str, key: &str) -> Request {
    Request::new("POST", &format!("{}/projects", deployment.path()))
        .bearer(manager)
        .header("Idempotency-Key", key)
        .json(&json!({"name": key}))
}
