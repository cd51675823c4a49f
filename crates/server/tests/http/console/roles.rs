use jiff::SignedDuration;
use ringtrue_domain::account::Role;

use super::{
    accounts::shown_link,
    browser::{Browser, location},
};
use crate::{client::Request, world::World};

#[tokio::test]
async fn members_see_their_own_workspace_only() {
    let world = World::sqlite().await;
    let other = world.another_tenant().await;
    let mut browser = Browser::member(&world, &world.acme, Role::Owner).await;
    let own = format!("/console/workspaces/{}", world.acme.workspace_id);
    assert_eq!(location(&browser.get("/console").await), own);
    assert!(browser.get(&own).await.assert(200).text().contains("Acme"));
    let nowhere = "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b";
    for workspace in [&*other.workspace_id, nowhere] {
        for path in ["", "/members"] {
            let text = browser.get(&format!("/console/workspaces/{workspace}{path}")).await.assert(403).text();
            assert!(text.contains("You are not a member of this workspace.") && !text.contains("Other"), "{text}");
        }
    }
    browser.get("/console/workspaces/none").await.assert(400);
    browser.get("/console/nothing/here").await.assert(404);
}

#[tokio::test]
async fn only_owners_invite_members() {
    let world = World::sqlite().await;
    let members = format!("/console/workspaces/{}/members", world.acme.workspace_id);
    let invite = [("email", "new@example.com"), ("role", "viewer")];
    for role in [Role::Viewer, Role::Developer] {
        let mut browser = Browser::member(&world, &world.acme, role).await;
        let page = browser.get(&members).await.assert(200).text();
        assert!(!page.contains("Invite"), "{page}");
        let token = browser.form_token(&members).await;
        browser.post(&members, &token, &invite).await.assert(403);
    }
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let invited = owner.submit(&members, &members, &invite).await;
    let page = owner.get(location(&invited)).await.assert(200).text();
    Browser::new(&world).get(&shown_link(&page)).await.assert(200);

    for (email, role, status) in [("x", "viewer", 400), ("y@example.com", "admin", 400)] {
        let response = owner.submit(&members, &members, &[("email", email), ("role", role)]).await;
        assert_eq!(response.status, status, "{email} {role}");
    }
}

#[tokio::test]
async fn last_owner_cannot_be_removed_or_demoted() {
    let world = World::sqlite().await;
    let members = format!("/console/workspaces/{}/members", world.acme.workspace_id);
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let [demote, remove] = ["role", "remove"].map(|action| format!("/{action}\""));
    let page = owner.get(&members).await.text();
    let [demote, remove] = [demote, remove].map(|end| {
        let action =
            page.split("action=\"").find(|rest| rest.split_once('>').is_some_and(|(tag, _)| tag.ends_with(&end)));
        action.unwrap().split('"').next().unwrap().to_owned()
    });
    owner.submit(&members, &demote, &[("role", "viewer")]).await.assert(409);
    owner.submit(&members, &demote, &[("role", "emperor")]).await.assert(400);
    owner.submit(&members, &remove, &[]).await.assert(409);

    // With a second owner, the first can be removed and loses access immediately.
    Browser::member_with_email(&world, &world.acme, "second@example.com", Role::Owner).await;
    let token = owner.form_token(&members).await;
    assert_eq!(location(&owner.post(&remove, &token, &[]).await), "/console");
    owner.get(&members).await.assert(403);
}

#[tokio::test]
async fn access_token_does_not_authenticate_the_console() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    let path = format!("/console/workspaces/{}", world.acme.workspace_id);
    let response = crate::client::send(world.node.address, &Request::get(&path).bearer(&token)).await;
    assert!(location(&response).starts_with("/console/sign-in"));
}

/// Forms count against the Management API's rate limit; pages do not.
#[tokio::test]
async fn forms_count_against_the_workspace_rate_limit() {
    let world = World::configured(|config| config.rate_limits.management = 2).await;
    let members = format!("/console/workspaces/{}/members", world.acme.workspace_id);
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let invite = [("email", "x"), ("role", "viewer")];
    for _ in 0..2 {
        owner.submit(&members, &members, &invite).await.assert(400);
    }
    let refused = owner.submit(&members, &members, &invite).await.assert(429);
    assert_eq!(refused.header("retry-after"), Some("1"));
    assert!(refused.text().contains("Rate limit exceeded"));
    world.manage(Request::get(&world.acme.path())).await.assert_problem(429, "too_many_requests");
    owner.get(&members).await.assert(200);
    world.advance(SignedDuration::from_secs(1));
    owner.submit(&members, &members, &invite).await.assert(400);
}
