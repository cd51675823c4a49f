//! Tests sandbox checks on three server processes behind a load balancer that sends each request to the next one in
//! turn.

use std::sync::atomic::{AtomicUsize, Ordering};

use ringtrue_test_support::{
    database::Database,
    http_client::{HttpResponse, Request, token_request},
    poll_until,
    server_process::ServerProcess,
};
use serde_json::{Value, json};

use crate::deployment::{CHECKS, Deployment};

const BASE_URL: &str = "https://eu.verify.example";
const NUMBER: &str = "+990123456700";

/// Three processes, used in turn.
struct Cluster {
    nodes: [ServerProcess; 3],
    next: AtomicUsize,
    /// The credential of a sandbox project.
    credential: Value,
}

impl Cluster {
    async fn start(database: &Database) -> Self {
        let deployment = Deployment::new(database.address());
        let nodes = [(); 3].map(|()| deployment.serve_with(&[("RINGTRUE_BASE_URL", BASE_URL)]));
        let manager = deployment.manager(nodes[0].address).await;
        let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager);
        let project = nodes[0].send(create.json(&json!({"name": "Shop"}))).await.assert(201).json();
        let cluster = Cluster { nodes, next: AtomicUsize::new(0), credential: project["credentials"][0].clone() };
        for node in &cluster.nodes {
            poll_until("the node knows the project", async || {
                node.send(cluster.token_request("reverse_sms")).await.status == 200
            })
            .await;
        }
        cluster
    }

    fn token_request(&self, scope: &str) -> Request {
        let [id, secret] = ["client_id", "client_secret"].map(|name| self.credential[name].as_str().unwrap());
        token_request(id, secret, scope)
    }

    /// Sends a request to the next node.
    async fn send(&self, request: Request) -> HttpResponse {
        let next = self.next.fetch_add(1, Ordering::Relaxed);
        self.nodes[next % self.nodes.len()].send(request).await
    }

    async fn token(&self, scope: &str) -> String {
        self.send(self.token_request(scope)).await.access_token()
    }

    /// Opens a URL on a device and follows its redirects, each on the next node.
    async fn follow(&self, url: &str) -> Value {
        let mut target = url.strip_prefix(BASE_URL).expect("our own URL").to_owned();
        loop {
            let response = self.send(Request::get(&target)).await;
            if response.status == 200 {
                return response.json();
            }
            let response = response.assert(302);
            response.header("location").unwrap().strip_prefix(BASE_URL).expect("our own URL").clone_into(&mut target);
        }
    }
}

#[tokio::test]
async fn silent_check_spans_three_processes() {
    let database = Database::postgres().await;
    let cluster = Cluster::start(&database).await;
    // Each product runs three times, from another first node each time, so that each step happens on each node.
    for (scope, path, body, verdict) in [
        ("secure_sna", "secure-sna-checks", json!({"phone_number": NUMBER}), ("match", json!(true))),
        ("discovery", "discovery-checks", json!({}), ("phone_number", json!(NUMBER))),
    ] {
        for first_node in 0..3 {
            let token = cluster.token(scope).await;
            cluster.next.store(first_node, Ordering::Relaxed);
            let path = format!("/v1/number-verification/{path}");
            let check = cluster.send(Request::post(&path).bearer(&token).json(&body)).await.assert(201).json();
            let url = format!("{}&sim={}", check["url"].as_str().unwrap(), NUMBER.replace('+', "%2B"));
            let end = cluster.follow(&url).await;
            let path = format!("{path}/{}", check["check_id"].as_str().unwrap());
            let redeem = Request::post(&path).bearer(&token).json(&json!({"code": end["code"]}));
            let redeemed = cluster.send(redeem).await.assert(200).json();
            assert_eq!((&redeemed["status"], &redeemed[verdict.0]), (&json!("COMPLETED"), &verdict.1), "{redeemed}");
            let read = cluster.send(Request::get(&path).bearer(&token)).await.assert(200).json();
            assert_eq!(read["status"], "COMPLETED");
        }
    }
}

#[tokio::test]
async fn simulated_sms_reaches_a_check_of_another_process() {
    let database = Database::postgres().await;
    let cluster = Cluster::start(&database).await;
    let token = cluster.token("reverse_sms").await;
    // The second text needs several parts.
    for appendix in [String::new(), format!("\n{}", "Sent from my phone. ".repeat(20))] {
        for first_node in 0..3 {
            cluster.next.store(first_node, Ordering::Relaxed);
            let create = Request::post(CHECKS).bearer(&token).json(&json!({"phone_number": NUMBER}));
            let check = cluster.send(create).await.assert(201).json();
            let body = format!("{}{appendix}", check["expected_sms_body"].as_str().unwrap());
            let sms = json!({"from": NUMBER, "to": check["receiver_phone_number"], "body": body});
            cluster.send(Request::post("/v1/sandbox/inbound-sms").bearer(&token).json(&sms)).await.assert(202);
            let path = format!("{CHECKS}/{}", check["check_id"].as_str().unwrap());
            let mut read = Value::Null;
            poll_until("the check is concluded", async || {
                read = cluster.send(Request::get(&path).bearer(&token)).await.assert(200).json();
                read["status"] == "COMPLETED"
            })
            .await;
            assert_eq!(read["match"], true, "{read}");
        }
    }
}
