//! Tests accounts, invitations and sessions, including attempts of another tenant to gain access.

use futures_util::future::join;
use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_engine::actor::Administrator;

use super::{
    browser::{Browser, PASSWORD, location},
    pages::assert_well_formed,
};
use crate::{
    on_both_stores,
    world::{Tenant, World},
};

on_both_stores!(
    inviting_a_pending_administrator_grants_no_access,
    account_created_by_an_invitation_has_no_other_access,
    invitation_does_not_reveal_whether_an_account_exists,
    invitation_is_accepted_by_the_invited_address_only,
    invited_account_accepts_after_signing_in,
    promoted_account_loses_its_password_and_sessions,
    disabled_account_is_signed_out_immediately,
    concurrent_owner_removals_keep_one_owner,
    users_change_their_password_and_end_sessions,
    administrators_create_workspaces,
);

const ACCOUNTS: &str = "/console/deployment/accounts";

fn workspace_path(tenant: &Tenant) -> String {
    format!("/console/workspaces/{}", tenant.workspace_id)
}

/// Returns the path of the link that a page shows.
pub fn shown_link(page: &str) -> String {
    let shown = page.split("aria-label=\"Link\"><code>").nth(1).unwrap_or_else(|| panic!("no link: {page}"));
    let url = shown.split('<').next().unwrap();
    url[url.find("/console").unwrap()..].to_owned()
}

async fn invite_and_get_page(owner: &mut Browser, tenant: &Tenant, email: &str, role: &str) -> String {
    let members = format!("{}/members", workspace_path(tenant));
    let response = owner.submit(&members, &members, &[("email", email), ("role", role)]).await;
    let next = location(&response).to_owned();
    owner.get(&next).await.assert(200).text()
}

async fn invite(owner: &mut Browser, tenant: &Tenant, email: &str, role: &str) -> String {
    shown_link(&invite_and_get_page(owner, tenant, email, role).await)
}

async fn sign_in(browser: &mut Browser, email: &str, password: &str) -> u16 {
    let fields = [("email", email), ("password", password)];
    browser.submit("/console/sign-in", "/console/sign-in", &fields).await.status
}

/// Returns the path of an action in the table row of an email address.
async fn find_action(browser: &mut Browser, page: &str, email: &str, action: &str) -> String {
    let text = browser.get(page).await.assert(200).text();
    let row = text
        .split("<tr>")
        .find(|row| row.contains(&format!("<th scope=\"row\">{email}")))
        .unwrap_or_else(|| panic!("{email}: {text}"));
    let paths = row.split("action=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let end = format!("/{action}");
    paths.into_iter().find(|path| path.ends_with(&end)).unwrap_or_else(|| panic!("{action}: {row}")).to_owned()
}

async fn inviting_a_pending_administrator_grants_no_access(world: World) {
    let other = world.another_tenant().await;
    let mut attacker = Browser::member(&world, &other, Role::Owner).await;
    let (engine, operator) = (&world.node.engine, Administrator::of_command_line());
    let admins = engine.accounts.invite_admin(&operator, &"root@example.com".parse().unwrap()).await.unwrap().path;
    let joes = Browser::member_with_email(&world, &world.acme, "joe@example.com", Role::Owner).await;
    for email in ["root@example.com", "joe@example.com"] {
        let link = invite(&mut attacker, &other, email, "viewer").await;
        assert!(link.starts_with("/console/invitation?token="), "{link}");
        // The invitation link of an existing account neither signs in nor sets the password.
        let mut visitor = Browser::new(&world);
        assert!(location(&visitor.choose_password(&link).await).starts_with("/console/sign-in?next="));
        assert!(!visitor.cookies.keys().any(|name| name.contains("session")));
        visitor.get(&link.replace("/invitation", "/link")).await.assert(410);
        assert_eq!(sign_in(&mut visitor, email, "some password of the attacker").await, 401);
        let members = attacker.get(&format!("{}/members", workspace_path(&other))).await.assert(200).text();
        assert!(!members.contains(email), "membership requires acceptance");
    }
    Browser::with_link(&world, &admins).await.get(ACCOUNTS).await.assert(200);
    let mut joes = joes;
    joes.get(&workspace_path(&world.acme)).await.assert(200);
    assert_eq!(location(&joes.get("/console").await), workspace_path(&world.acme), "the other workspace is not shown");
}

async fn account_created_by_an_invitation_has_no_other_access(world: World) {
    let other = world.another_tenant().await;
    let mut attacker = Browser::member(&world, &other, Role::Owner).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    // The attacker creates an account with another user's email address.
    let link = invite(&mut attacker, &other, "jane@example.com", "viewer").await;
    let mut impostor = Browser::with_link(&world, &link).await;
    let invitation = invite(&mut owner, &world.acme, "jane@example.com", "owner").await;
    assert_eq!(location(&impostor.get("/console").await), workspace_path(&other));
    impostor.get(&workspace_path(&world.acme)).await.assert(403);
    impostor.get(&link).await.assert(410);

    // An administrator gives the real user a password reset link, and the user accepts the invitation.
    let (engine, operator) = (&world.node.engine, Administrator::of_command_line());
    let account = engine.accounts.account_id_by_email(&operator, &"jane@example.com".parse().unwrap()).await.unwrap();
    let own = engine.accounts.create_password_reset_link(&operator, account).await.unwrap().path;
    let mut jane = Browser::with_link(&world, &own).await;
    assert!(location(&impostor.get("/console").await).starts_with("/console/sign-in"));
    let token = invitation.split_once("token=").unwrap().1;
    let accepted = jane.submit(&invitation, "/console/invitation/accept", &[("token", token)]).await;
    assert_eq!(location(&accepted), workspace_path(&world.acme));
    jane.get(&format!("{}/credentials", workspace_path(&world.acme))).await.assert(200);
}

async fn invitation_does_not_reveal_whether_an_account_exists(world: World) {
    let other = world.another_tenant().await;
    Browser::member_with_email(&world, &world.acme, "known@example.com", Role::Owner).await;
    let mut owner = Browser::member(&world, &other, Role::Owner).await;
    let mut pages = vec![];
    for email in ["known@example.com", "other@example.com"] {
        let page = invite_and_get_page(&mut owner, &other, email, "viewer").await;
        let link = shown_link(&page);
        let id = page.split("?invited=").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let mut visitor = Browser::new(&world);
        visitor.get("/console/sign-in").await;
        let opened = visitor.get(&link).await.assert(200);
        assert_well_formed(&link, &opened);
        let token = link.split_once("token=").unwrap().1;
        let form_token = visitor.form_token(&link).await;
        let same =
            |text: String| text.replace(token, "T").replace(email, "E").replace(&id, "I").replace(&form_token, "F");
        // Neither the response to the form nor the list of members afterwards reveals whether the account exists.
        let cookies = visitor.cookies.clone();
        let submitted = visitor.choose_password(&link).await;
        assert_eq!(visitor.cookies, cookies, "no session");
        let next = location(&submitted).to_owned();
        let sign_in = visitor.get(&next).await.assert(200);
        assert_well_formed(&next, &sign_in);
        assert!(sign_in.text().contains("accept the invitation to <strong>Other</strong>"), "{}", sign_in.text());
        let members = owner.get(&format!("{}/members", workspace_path(&other))).await.assert(200).text();
        assert!(!members.contains(email), "{members}");
        let reopened = visitor.get(&link).await.assert(200).text();
        pages.push([page, opened.text(), next, sign_in.text(), members, reopened].map(same));
        let withdraw =
            find_action(&mut owner, &format!("{}/invitations", workspace_path(&other)), email, "withdraw").await;
        owner.submit(&format!("{}/invitations", workspace_path(&other)), &withdraw, &[]).await.assert(303);
        visitor.get(&link).await.assert(410);
    }
    assert_eq!(pages[0], pages[1]);
    // The existing account still has its own password.
    for (password, status) in [(PASSWORD, 303), ("another password", 401)] {
        assert_eq!(sign_in(&mut Browser::new(&world), "known@example.com", password).await, status);
    }
}

async fn invited_account_accepts_after_signing_in(world: World) {
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let link = invite(&mut owner, &world.acme, "jane@example.com", "developer").await;
    let mut jane = Browser::new(&world);
    let token = link.split_once("token=").unwrap().1;
    for (password, again, why) in [("short", "short", "at least 12"), (PASSWORD, "other", "do not match")] {
        let fields = [("token", token), ("password", password), ("again", again)];
        let refused = jane.submit(&link, "/console/invitation", &fields).await.assert(400);
        assert_well_formed(&link, &refused);
        assert!(refused.text().contains(why), "{}", refused.text());
    }
    jane.choose_password(&link).await.assert(303);
    // If somebody else with the link submits the form again, the password is not replaced.
    let fields = [("token", token), ("password", "some other password"), ("again", "some other password")];
    Browser::new(&world).submit(&link, "/console/invitation", &fields).await.assert(303);
    assert_eq!(sign_in(&mut Browser::new(&world), "jane@example.com", "some other password").await, 401);
    let fields = [("email", "jane@example.com"), ("password", PASSWORD), ("next", &*link)];
    assert_eq!(location(&jane.submit("/console/sign-in", "/console/sign-in", &fields).await), link);
    jane.get(&workspace_path(&world.acme)).await.assert(403);
    let accepted = jane.submit(&link, "/console/invitation/accept", &[("token", token)]).await;
    assert_eq!(location(&accepted), workspace_path(&world.acme));
    jane.get(&workspace_path(&world.acme)).await.assert(200);
}

async fn invitation_is_accepted_by_the_invited_address_only(world: World) {
    let other = world.another_tenant().await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let mut joe = Browser::member_with_email(&world, &other, "joe@example.com", Role::Viewer).await;
    let mut eve = Browser::member_with_email(&world, &other, "eve@example.com", Role::Viewer).await;
    let voided = invite(&mut owner, &world.acme, "joe@example.com", "owner").await;
    let link = invite(&mut owner, &world.acme, "joe@example.com", "developer").await;
    joe.get(&voided).await.assert(410);
    let token = link.split_once("token=").unwrap().1.to_owned();
    let page_for_eve = eve.get(&link).await.assert(200);
    assert_well_formed(&link, &page_for_eve);
    assert!(
        page_for_eve.text().contains("signed in with another address")
            && !page_for_eve.text().contains("invitation/accept")
    );
    let accept = [("token", &*token)];
    eve.submit("/console/account", "/console/invitation/accept", &accept).await.assert(403);
    let mut bad = token.clone();
    bad.replace_range(5..6, if &token[5..6] == "A" { "B" } else { "A" });
    joe.submit("/console/account", "/console/invitation/accept", &[("token", &*bad)]).await.assert(410);
    assert_well_formed(&link, &joe.get(&link).await.assert(200));
    let accepted = joe.submit(&link, "/console/invitation/accept", &accept).await;
    assert_eq!(location(&accepted), workspace_path(&world.acme));
    joe.submit("/console", "/console/invitation/accept", &accept).await.assert(410);
    let members = format!("{}/members", workspace_path(&world.acme));
    let repeated = owner.submit(&members, &members, &[("email", "joe@example.com"), ("role", "owner")]).await;
    assert!(repeated.assert(409).text().contains("is already a member"));

    let late = invite(&mut owner, &world.acme, "late@example.com", "viewer").await;
    world.advance(SignedDuration::from_hours(7 * 24));
    Browser::new(&world).get(&late).await.assert(410);
}

async fn promoted_account_loses_its_password_and_sessions(world: World) {
    let mut admin = Browser::admin(&world).await;
    let mut jane = Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Viewer).await;
    let promote = find_action(&mut admin, ACCOUNTS, "jane@example.com", "make-admin").await;
    let promoted = admin.submit(ACCOUNTS, &promote, &[]).await;
    let page = admin.get(location(&promoted)).await.assert(200);
    assert_well_formed(ACCOUNTS, &page);
    assert!(location(&jane.get("/console").await).starts_with("/console/sign-in"));
    assert_eq!(sign_in(&mut Browser::new(&world), "jane@example.com", PASSWORD).await, 401);
    let first = shown_link(&page.text());
    let repeated = find_action(&mut admin, ACCOUNTS, "jane@example.com", "link").await;
    let repeated = admin.submit(ACCOUNTS, &repeated, &[]).await;
    let second = shown_link(&admin.get(location(&repeated)).await.text());
    Browser::new(&world).get(&first).await.assert(410);
    let mut jane = Browser::with_link(&world, &second).await;
    jane.get(ACCOUNTS).await.assert(200);

    // Another administrator can demote Jane. The last administrator cannot be demoted.
    let demote = find_action(&mut admin, ACCOUNTS, "jane@example.com", "remove-admin").await;
    admin.submit(ACCOUNTS, &demote, &[]).await.assert(303);
    jane.get(ACCOUNTS).await.assert(403);
    let own = find_action(&mut admin, ACCOUNTS, "root@example.com", "remove-admin").await;
    let refused = admin.submit(ACCOUNTS, &own, &[]).await.assert(409).text();
    assert!(refused.contains("last administrator of a deployment"), "{refused}");
}

async fn disabled_account_is_signed_out_immediately(world: World) {
    let mut admin = Browser::admin(&world).await;
    let mut joe = Browser::member_with_email(&world, &world.acme, "joe@example.com", Role::Owner).await;
    let token = joe.form_token("/console/account").await;
    let disable = find_action(&mut admin, ACCOUNTS, "joe@example.com", "disable").await;
    joe.post(&disable, &token, &[]).await.assert(403);
    let link = find_action(&mut admin, ACCOUNTS, "joe@example.com", "link").await;
    let linked = admin.submit(ACCOUNTS, &link, &[]).await;
    let link = shown_link(&admin.get(location(&linked)).await.text());
    admin.submit(ACCOUNTS, &disable, &[]).await.assert(303);
    assert!(location(&joe.get("/console").await).starts_with("/console/sign-in"));
    Browser::new(&world).get(&link).await.assert(410);
    assert_eq!(sign_in(&mut Browser::new(&world), "joe@example.com", PASSWORD).await, 401);
    let enable = find_action(&mut admin, ACCOUNTS, "joe@example.com", "enable").await;
    admin.submit(ACCOUNTS, &enable, &[]).await.assert(303);
    assert_eq!(sign_in(&mut Browser::new(&world), "joe@example.com", PASSWORD).await, 303);
    let own = find_action(&mut admin, ACCOUNTS, "root@example.com", "disable").await;
    admin.submit(ACCOUNTS, &own, &[]).await.assert(409);
}

async fn concurrent_owner_removals_keep_one_owner(world: World) {
    let members = format!("{}/members", workspace_path(&world.acme));
    let mut jane = Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Owner).await;
    let mut joe = Browser::member_with_email(&world, &world.acme, "joe@example.com", Role::Owner).await;
    let remove_joe = find_action(&mut jane, &members, "joe@example.com", "remove").await;
    let remove_jane = find_action(&mut jane, &members, "jane@example.com", "remove").await;
    let (janes, joes) = (jane.form_token(&members).await, joe.form_token(&members).await);
    let (one, other) = join(jane.post(&remove_joe, &janes, &[]), joe.post(&remove_jane, &joes, &[])).await;
    let statuses = [one.status, other.status];
    assert!(statuses.contains(&303) && statuses.iter().any(|status| [403, 409].contains(status)), "{statuses:?}");
    let page = Browser::admin(&world).await.get(&members).await.assert(200).text();
    assert_eq!(
        ["jane@example.com</th>", "joe@example.com</th>"].map(|one| page.matches(one).count()).iter().sum::<usize>(),
        1
    );
}

async fn users_change_their_password_and_end_sessions(world: World) {
    const NEW: &str = "another horse entirely";
    let mut here = Browser::member_with_email(&world, &world.acme, "jane@example.com", Role::Viewer).await;
    let (mut there, mut third) = (Browser::new(&world), Browser::new(&world));
    for browser in [&mut there, &mut third] {
        assert_eq!(sign_in(browser, "jane@example.com", PASSWORD).await, 303);
    }
    let page = here.get("/console/account").await.assert(200);
    assert_well_formed("/console/account", &page);
    assert_eq!(page.text().matches("127.0.0.0/24").count(), 3, "three sessions, each with its network");
    let end = page
        .text()
        .split("action=\"")
        .find(|rest| rest.starts_with("/console/account/sessions/"))
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    let mut eve = Browser::member_with_email(&world, &world.acme, "eve@example.com", Role::Owner).await;
    eve.submit("/console/account", &end, &[]).await.assert(404);
    here.submit("/console/account", &end, &[]).await.assert(303);
    let mut open = 0;
    for browser in [&mut there, &mut third] {
        open += usize::from(browser.get("/console/account").await.status == 200);
    }
    assert_eq!(open, 1);

    let change = async |browser: &mut Browser, current: &str, new: &str, again: &str| {
        let fields = [("current", current), ("password", new), ("again", again)];
        browser.submit("/console/account", "/console/account/password", &fields).await
    };
    assert!(change(&mut here, "wrong", NEW, NEW).await.assert(400).text().contains("current password is wrong"));
    assert!(change(&mut here, PASSWORD, NEW, "other").await.assert(400).text().contains("do not match"));
    assert!(change(&mut here, PASSWORD, "short", "short").await.assert(400).text().contains("at least 12"));
    let changed = change(&mut here, PASSWORD, NEW, NEW).await;
    assert!(here.get(location(&changed)).await.assert(200).text().contains("Password changed"));
    for browser in [&mut there, &mut third] {
        browser.get("/console/account").await.assert(303);
    }
    assert_eq!(sign_in(&mut Browser::new(&world), "jane@example.com", PASSWORD).await, 401);
    assert_eq!(sign_in(&mut Browser::new(&world), "jane@example.com", NEW).await, 303);
    // Wrong current passwords are throttled like failed sign-ins.
    for expected in [400, 400, 400, 429] {
        assert_eq!(change(&mut here, "wrong", NEW, NEW).await.status, expected);
    }
}

async fn administrators_create_workspaces(world: World) {
    let mut admin = Browser::admin(&world).await;
    let bad = admin.submit("/console", "/console/new-workspace", &[("name", "")]).await.assert(400);
    assert_well_formed("/console", &bad);
    let created = admin.submit("/console", "/console/new-workspace", &[("name", "Globex")]).await;
    let workspace = location(&created).to_owned();
    assert!(admin.get(&workspace).await.assert(200).text().contains("Globex"));
    assert!(admin.get(&format!("{workspace}/audit")).await.assert(200).text().contains("workspace.created"));
    // A workspace created in the console has no credential.
    let credentials = admin.get(&format!("{workspace}/credentials")).await.assert(200).text();
    assert!(!credentials.contains("/delete\""), "{credentials}");
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let token = owner.form_token(&workspace_path(&world.acme)).await;
    owner.post("/console/new-workspace", &token, &[("name", "Mine")]).await.assert(403);
}

#[tokio::test]
async fn members_are_paginated_and_limited() {
    let world = World::configured(|config| config.max_members = 28).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    for number in 0..26 {
        invite(&mut owner, &world.acme, &format!("guest-{number:02}@example.com"), "viewer").await;
    }
    let link = invite(&mut owner, &world.acme, "last@example.com", "viewer").await;
    let members = format!("{}/members", workspace_path(&world.acme));
    let more = owner.submit(&members, &members, &[("email", "more@example.com"), ("role", "viewer")]).await;
    assert_well_formed(&members, &more);
    assert!(more.assert(409).text().contains("limit of 28 members and pending invitations"));
    let invitations = format!("{}/invitations", workspace_path(&world.acme));
    let first = owner.get(&invitations).await.assert(200).text();
    assert!(first.contains("Page 1 of 2") && !first.contains("last@example.com"), "{first}");
    assert!(owner.get(&format!("{invitations}?page=2")).await.text().contains("last@example.com"));
    // An accepted invitation counts once against the limit: as a member.
    Browser::with_link(&world, &link).await;
    assert!(owner.get(&members).await.assert(200).text().contains("last@example.com"));
    // The link of another workspace's invitation is not shown.
    let other = world.another_tenant().await;
    let mut outsider = Browser::member(&world, &other, Role::Owner).await;
    let id = owner.get(&invitations).await.text().split("?invited=").nth(1).unwrap()[..36].to_owned();
    let theirs = outsider.get(&format!("{}/invitations?invited={id}", workspace_path(&other))).await.assert(200).text();
    assert!(!theirs.contains("token="), "{theirs}");
}
