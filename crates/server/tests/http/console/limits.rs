//! Console pages are limited by session and by workspace.

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use serde_json::json;

use super::{browser::Browser, pages::assert_well_formed};
use crate::{
    client::{self, Request},
    database::Database,
    on_both_databases,
    products::reverse_sms::ReverseSmsClient,
    world::World,
};

on_both_databases!(one_viewer_cannot_occupy_the_console);

async fn one_viewer_cannot_occupy_the_console(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.console_per_session = 20;
        config.rate_limits.console_per_workspace = 25;
    })
    .await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let other = world.another_tenant().await;
    let project = world.project_of(&other, "Bank", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let bank = ReverseSmsClient { world: &world, project, token };
    let overview =
        format!("/console/workspaces/{}/projects/{}/overview", world.acme.workspace_id, backend.project.project_id);
    let banks = format!("/console/workspaces/{}/projects/{}/overview", other.workspace_id, bank.project.project_id);
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let mut colleague = Browser::member(&world, &world.acme, Role::Owner).await;
    let mut outsider = Browser::member(&world, &other, Role::Viewer).await;
    // Uses each session once beforehand. Otherwise the node would not know yet that the session is valid, and would
    // count its requests against the limit of the IP address.
    for (browser, path) in [(&mut viewer.clone(), &overview), (&mut colleague, &overview), (&mut outsider, &banks)] {
        browser.get(path).await.assert(200);
    }
    world.advance(SignedDuration::from_secs(1));

    let cookie = viewer.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect::<Vec<_>>().join("; ");
    let requests = (0..40).map(|_| {
        let request = Request::get(&overview).header("Cookie", cookie.clone());
        let address = world.node.address;
        async move { client::send(address, &request).await }
    });
    let responses = join_all(requests).await;
    let count = |status| responses.iter().filter(|response| response.status == status).count();
    assert_eq!((count(200), count(429)), (20, 20));
    let refused = responses.iter().find(|response| response.status == 429).unwrap();
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert_well_formed(&overview, refused);
    // All members of a workspace share its limit.
    let mut statuses = vec![];
    for _ in 0..6 {
        statuses.push(colleague.get(&overview).await.status);
    }
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    // Another workspace has its own limit, and the API is not affected.
    outsider.get(&banks).await.assert(200);
    bank.list("").await.assert(200);
    backend.list("").await.assert(200);

    world.advance(SignedDuration::from_secs(1));
    colleague.get(&overview).await.assert(200);
}
