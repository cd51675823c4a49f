//! Tests all products on a database that is distributed over a Citus cluster.

use std::net::TcpListener;

use ringtrue_test_support::{database::Database, http_client::Request, server_process::ServerProcess};
use serde_json::{Value, json};

use crate::deployment::Deployment;

#[tokio::test]
async fn selftest_passes() {
    let database = Database::citus().await;
    let deployment = Deployment::new(database.address());
    // Devices are redirected to the base URL, so the port must be known before the start.
    let address = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap();
    let base_url = format!("http://{address}");
    let mut serve = deployment.command();
    serve.arg("serve").env("RINGTRUE_HTTP__LISTEN", address.to_string()).env("RINGTRUE_BASE_URL", &base_url);
    let server = ServerProcess::start(&mut serve).expect("the service is ready");
    let manager = deployment.manager(server.address).await;
    let create = Request::post(&format!("{}/projects", deployment.path())).bearer(&manager);
    let project = server.send(create.json(&json!({"name": "Shop"}))).await.assert(201).json();
    let [id, secret] = ["client_id", "client_secret"].map(|name| project["credentials"][0][name].as_str().unwrap());

    let home = tempfile::tempdir().unwrap();
    let run = |arguments: &[&str]| {
        let mut command = deployment.command();
        command.args(arguments).env("HOME", home.path()).env("XDG_CONFIG_HOME", home.path());
        command.env("RINGTRUE_CLIENT_SECRET", secret).output().unwrap()
    };
    let login = run(&["login", "--base-url", &base_url, "--client-id", id]);
    assert!(login.status.success(), "{}", String::from_utf8_lossy(&login.stderr));
    let selftest = run(&["--output", "json", "selftest", "--profile", "default"]);
    let cases: Value = serde_json::from_slice(&selftest.stdout).unwrap();
    let passed = cases.as_array().unwrap().iter().filter(|case| case["result"] == "works").count();
    assert!(selftest.status.success() && passed > 8, "{cases:#}");
}
