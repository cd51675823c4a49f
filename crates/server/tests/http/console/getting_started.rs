use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_engine::tenants::TenantLimits;
use serde_json::json;

use super::{
    browser::{Browser, location},
    pages::{assert_well_formed, current_entry},
};
use crate::world::{TestProject, World};

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}", world.acme.workspace_id, project.project_id)
}

const TOOLS: [&str; 5] = ["command-line", "curl", "node", "python", "go"];

/// Returns the text of an element of the page, without its escapes.
fn code(text: &str, id: &str) -> String {
    let (_, rest) = text.split_once(&format!("<code id=\"{id}\">")).unwrap_or_else(|| panic!("no {id}: {text}"));
    let text = rest.split("</code>").next().unwrap();
    [("&#34;", "\""), ("&#39;", "'"), ("&#60;", "<"), ("&#62;", ">"), ("&#38;", "&")]
        .iter()
        .fold(text.to_owned(), |text, (escaped, character)| text.replace(escaped, character))
}

fn current_tab(text: &str) -> &str {
    let tabs = text.split("<nav class=\"tabs\" id=\"with\"").nth(1).unwrap().split("</nav>").next().unwrap();
    assert_eq!(tabs.matches(" aria-current=\"page\"").count(), 1, "{tabs}");
    tabs.split(" aria-current=\"page\">").nth(1).unwrap().split('<').next().unwrap()
}

#[tokio::test]
async fn each_tab_has_the_credential_without_its_secret() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let page = format!("{}/getting-started", path_of(&world, &project));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let titles = ["Command line", "curl", "Node.js", "Python", "Go"];
    for (tool, title) in TOOLS.into_iter().zip(titles) {
        let path = format!("{page}?with={tool}");
        let response = developer.get(&path).await.assert(200);
        assert_well_formed(&path, &response);
        let text = response.text();
        assert_eq!(current_tab(&text), title);
        for other in TOOLS {
            assert!(text.contains(&format!("href=\"{page}?with={other}#with\"")), "{tool}: {text}");
        }
        let setup = code(&text, "setup-commands");
        let base_url = world.node.engine.base_url();
        let expected = format!(
            "export RINGTRUE_URL={base_url}\nexport RINGTRUE_CLIENT_ID={}\nexport RINGTRUE_CLIENT_SECRET='PASTE THE CLIENT SECRET'",
            project.client_id
        );
        assert!(setup.starts_with(&expected), "{setup}");
        assert!(!text.contains(&project.client_secret));
        assert!(text.contains("Create a credential") && text.contains("id=\"install-commands\""), "{text}");
        // The libraries are not published, so the commands must not download them.
        let install = code(&text, "install-commands");
        assert!(!install.contains("http") && !install.contains("npm install @ringtrue"), "{install}");
    }
    for path in [page.clone(), format!("{page}?with=cobol"), format!("{page}?with=")] {
        assert_eq!(current_tab(&developer.get(&path).await.assert(200).text()), "Command line");
    }
    developer.get(&format!("{page}?lang=go")).await.assert(400);
}

#[tokio::test]
async fn libraries_have_three_programs_each() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let page = format!("{}/getting-started", path_of(&world, &project));
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    for (tool, extension) in [("node", "mjs"), ("python", "py"), ("go", "go")] {
        let text = viewer.get(&format!("{page}?with={tool}")).await.assert(200).text();
        for id in ["verify", "sign-up", "callbacks"] {
            let run = code(&text, &format!("{id}-run"));
            assert!(run.ends_with(&format!(" {id}.{extension}")), "{run}");
            assert!(code(&text, &format!("{id}-commands")).lines().count() > 5);
        }
        assert!(text.contains(&format!("href=\"{page}?with=curl#with\">curl</a>, there is an example")), "{text}");
    }
    let without = world.project("Kiosk", json!({"products": ["reverse_sms"]})).await;
    let page = format!("{}/getting-started", path_of(&world, &without));
    let text = viewer.get(&format!("{page}?with=go")).await.assert(200).text();
    assert!(!text.contains("verify-commands") && text.contains("This project has no verifications."), "{text}");
    let text = viewer.get(&page).await.assert(200).text();
    assert!(!code(&text, "client-commands").contains("verify"), "{text}");
}

#[tokio::test]
async fn new_credential_is_shown_once_in_the_chosen_tab() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let path = path_of(&world, &project);
    let (page, action) = (format!("{path}/getting-started"), format!("{path}/getting-started/credential"));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    // So that the new credential is newer than that of the project.
    world.advance(SignedDuration::from_secs(1));
    let response = developer.submit(&page, &action, &[("with", "python")]).await;
    let target = location(&response).to_owned();
    assert_eq!(target, format!("{page}?with=python"));
    let text = developer.get(&target).await.assert(200).text();
    assert_eq!(current_tab(&text), "Python");
    assert!(text.contains("Its secret is shown only once") && !text.contains("Create a credential"), "{text}");
    let setup = code(&text, "setup-commands");
    let word = |name: &str| setup.split(&format!("{name}=")).nth(1).unwrap().lines().next().unwrap().to_owned();
    let (id, secret) = (word("RINGTRUE_CLIENT_ID"), word("RINGTRUE_CLIENT_SECRET"));
    assert!(id != project.client_id && secret.starts_with("rts_"), "{setup}");
    world.token_request(&id, &secret, "verification").await.assert(200);

    for again in [target, page.clone()] {
        let text = developer.get(&again).await.assert(200).text();
        assert!(!text.contains(&secret) && text.contains("PASTE THE CLIENT SECRET"), "{text}");
        // The commands use the newest credential.
        assert!(code(&text, "setup-commands").contains(&id), "{text}");
    }
    let list = developer.get(&format!("{path}/credentials")).await.assert(200).text();
    assert!(list.contains("Getting started</td>") && !list.contains(&secret), "{list}");
    // For an unknown tool, the page shows the first tool.
    let response = developer.submit(&page, &action, &[("with", "//evil.example")]).await;
    assert_eq!(location(&response), format!("{page}?with=command-line"));
}

#[tokio::test]
async fn only_live_credentials_are_filled_in() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let path = path_of(&world, &project);
    let (page, credentials) = (format!("{path}/getting-started"), format!("{path}/credentials"));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    // The page does not use a newer credential that is limited to one product.
    let limited = [("for", "some"), ("sim_swap", "on"), ("label", "limited")];
    developer.submit(&credentials, &credentials, &limited).await;
    let text = developer.get(&page).await.assert(200).text();
    assert!(code(&text, "setup-commands").contains(&project.client_id), "{text}");

    let rotate = format!("{credentials}/{}/rotate", project.client_id);
    developer.submit(&rotate, &rotate, &[("overlap", "24")]).await;
    let text = developer.get(&page).await.assert(200).text();
    let setup = code(&text, "setup-commands");
    assert!(!setup.contains(&project.client_id) && !setup.contains("PASTE THE CLIENT ID"), "{setup}");

    let list = developer.get(&credentials).await.assert(200).text();
    let link = format!("href=\"{credentials}/");
    for id in list.split(&link).skip(1).filter_map(|rest| rest.split('"').next()?.strip_suffix("/delete")) {
        let delete = format!("{credentials}/{id}/delete");
        location(&developer.submit(&delete, &delete, &[]).await);
    }
    let text = developer.get(&page).await.assert(200).text();
    assert!(text.contains("This project has no valid credential.") && text.contains("Create a credential"), "{text}");
    assert!(code(&text, "setup-commands").contains("RINGTRUE_CLIENT_ID='PASTE THE CLIENT ID'"), "{text}");
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains("Developers and owners can create one") && !text.contains("Create a credential"), "{text}");
}

#[tokio::test]
async fn credentials_are_created_by_developers_of_the_workspace_only() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let path = path_of(&world, &project);
    let (page, action) = (format!("{path}/getting-started"), format!("{path}/getting-started/credential"));
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let text = viewer.get(&page).await.assert(200).text();
    assert!(text.contains(&project.client_id) && !text.contains("Create a credential"), "{text}");
    viewer.submit(&page, &action, &[("with", "go")]).await.assert(403);

    let other = world.another_tenant().await;
    let mut stranger = Browser::member(&world, &other, Role::Owner).await;
    // The stranger's own workspace has no such project (404), and the stranger may not see the project's workspace
    // (403).
    let own = format!("/console/workspaces/{}/projects/{}", other.workspace_id, project.project_id);
    for (path, expected) in [(own, 404), (path, 403)] {
        for tool in TOOLS {
            let page = format!("{path}/getting-started?with={tool}");
            let text = stranger.get(&page).await.assert(expected).text();
            assert!(!text.contains(&project.client_id) && !text.contains("Shop"), "{text}");
        }
        let action = format!("{path}/getting-started/credential");
        stranger.submit("/console/account", &action, &[("with", "go")]).await.assert(expected);
    }
    let mut visitor = Browser::new(&world);
    assert!(location(&visitor.get(&format!("{page}?with=go")).await).starts_with("/console/sign-in"));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    developer.post(&action, "forged", &[("with", "go")]).await.assert(403);
}

#[tokio::test]
async fn credential_limit_is_reported_in_the_tab() {
    let limits = TenantLimits { projects_per_workspace: 3, credentials_per_owner: 2 };
    let world = World::configured(|config| config.tenant_limits = limits).await;
    let project = world.project("Shop", json!({})).await;
    let path = path_of(&world, &project);
    let (page, action) = (format!("{path}/getting-started"), format!("{path}/getting-started/credential"));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    location(&developer.submit(&page, &action, &[("with", "node")]).await);
    let text = developer.submit(&page, &action, &[("with", "node")]).await.assert(400).text();
    assert_eq!(current_tab(&text), "Node.js");
    assert!(text.contains("role=\"alert\"") && text.contains("limit of 2 live credentials"), "{text}");
}

#[tokio::test]
async fn sandbox_projects_have_commands_without_secrets() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({"products": ["reverse_sms", "eligibility", "verification"]})).await;
    let path = path_of(&world, &project);
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let page = developer.get(&format!("{path}/getting-started?with=curl")).await.assert(200);
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
    assert_eq!(location(&viewer.get(&format!("{path}/getting-started?with=go")).await), format!("{path}/overview"));
    let mut developer = Browser::member(&world, &world.acme, Role::Developer).await;
    let action = format!("{path}/getting-started/credential");
    let response = developer.submit(&format!("{path}/credentials"), &action, &[("with", "go")]).await;
    assert_eq!(location(&response), format!("{path}/overview"));
    let text = developer.get(&format!("{path}/credentials")).await.assert(200).text();
    assert!(!text.contains("Getting started"), "no credential was created: {text}");
    let text = viewer.get(&format!("{path}/overview")).await.assert(200).text();
    assert!(!text.contains("getting-started"), "{text}");
}
