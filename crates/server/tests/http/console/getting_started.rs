use ringtrue_domain::account::Role;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::{assert_well_formed, current_entry},
};
use crate::world::{TestProject, World};

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

#[tokio::test]
async fn sandbox_projects_have_commands_without_secrets() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({"products": ["reverse_sms", "eligibility", "verification"]})).await;
    let path = path_of(&world, &project);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = developer.get(&format!("{path}/getting-started")).await.assert(200);
    assert_well_formed(&path, &page);
    let text = page.text();
    assert_eq!(current_entry(&text), "Getting started");
    assert!(!text.contains(&project.client_secret) && text.contains("PASTE THE CLIENT SECRET"), "{text}");
    assert!(text.contains("id=\"reverse_sms-commands\"") && !text.contains("id=\"sim_swap-commands\""), "{text}");
    assert!(text.contains("Try Reverse SMS") && !text.contains("Try SIM Swap"), "{text}");
    // Only `ringtrue dev` sends callbacks to this machine and has a file of credentials.
    assert!(!text.contains("127.0.0.1:9099") && !text.contains("dev.json"), "{text}");
    let copied = text.split(" data-copies=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    assert!(copied.clone().count() > 2 && copied.into_iter().all(|id| text.contains(&format!(" id=\"{id}\""))));

    let number = [("product", "verification"), ("number", "+990123456700")];
    let handset =
        developer.submit_and_follow(&format!("{path}/getting-started"), &format!("{path}/handset"), &number).await;
    assert!(handset.assert(200).text().contains("Hosted page"));
    assert!(text.contains("Try Eligibility"), "{text}");
    let user = [("user", "+990123456726")];
    let explanation = developer.submit(&format!("{path}/getting-started"), &format!("{path}/eligibility"), &user).await;
    let explanation = explanation.assert(200).text();
    assert!(explanation.contains("A verification uses"), "{explanation}");

    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&format!("{path}/getting-started")).await.assert(200).text();
    assert!(!text.contains("Start a verification") && !text.contains("Try Reverse SMS"), "{text}");
}

#[tokio::test]
async fn live_projects_have_an_overview_instead() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({"mode": "live"})).await;
    let path = path_of(&world, &project);
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    assert_eq!(location(&viewer.get(&format!("{path}/getting-started")).await), format!("{path}/overview"));
    let text = viewer.get(&format!("{path}/overview")).await.assert(200).text();
    assert!(!text.contains("getting-started"), "{text}");
}
