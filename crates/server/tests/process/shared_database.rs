//! Two processes on one PostgreSQL database.

use ringtrue_test_support::{database::Database, http_client::Request, poll_until};
use serde_json::json;

use crate::deployment::{CHECKS, Deployment};

#[tokio::test]
async fn two_processes_share_a_database() {
    let database = Database::postgres().await;
    let deployment = Deployment::new(database.address());
    let (mut first, second) = (deployment.serve(), deployment.serve());
    let manager = deployment.manager(first.address).await;

    let project = deployment.product_token(&first, json!({})).await;
    poll_until("the second process knows the project", async || {
        second.get(&format!("{CHECKS}?size=1"), &project).await.status == 200
    })
    .await;
    let create = Request::post(CHECKS).bearer(&project).json(&json!({"phone_number": "+990123456700"}));
    let created = second.send(create).await.assert(201).json();
    let path = format!("{CHECKS}/{}", created["check_id"].as_str().unwrap());
    let [here, there] = [&first, &second].map(|server| server.get(&path, &project));
    let read = here.await.assert(200).json();
    assert_eq!((&read, &read["status"]), (&there.await.assert(200).json(), &json!("ACCEPTED")));

    first.send(deployment.revoke_request(&manager)).await.assert(200);
    let workspaces = "/v1/management/workspaces";
    assert_eq!(first.get(workspaces, &manager).await.status, 401);
    poll_until("the second process knows the revocation", async || {
        second.get(workspaces, &manager).await.status == 401
    })
    .await;

    // The second process works without the first.
    first.kill();
    assert_eq!(second.get(&path, &project).await.assert(200).json(), read);
}
