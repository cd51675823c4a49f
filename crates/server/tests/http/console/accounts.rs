//! Accounts, invitations, sessions: who gains what by which link, with a second tenant who tries to gain more.

use futures_util::future::join;
use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_engine::accounts::Administrator;

use super::{
    browser::{Browser, PASSWORD, location},
    pages::assert_sound,
};
use crate::{
    on_both_stores,
    world::{Tenant, World},
};

on_both_stores!(
    an_owner_gains_nothing_by_inviting_a_pending_administrator,
    an_account_made_by_one_invitation_gains_nothing_elsewhere,
    an_invitation_tells_nothing_about_accounts,
    an_invitation_is_accepted_by_its_address_with_its_link,
    an_account_that_is_promoted_loses_its_password_and_sessions,
    a_disabled_account_is_out_at_once,
    of_two_owners_who_remove_each_other_one_stays,
    people_change_their_password_and_end_their_sessions,
    administrators_create_workspaces,
);

const ACCOUNTS: &str = "/console/deployment/accounts";

fn place_of(tenant: &Tenant) -> String {
    format!("/console/workspaces/{}", tenant.workspace_id)
}

/// The link that a page shows, as a path.
pub fn link_on(page: &str) -> String {
    let shown = page.split("aria-label=\"Link\"><code>").nth(1).unwrap_or_else(|| panic!("no link: {page}"));
    let url = shown.split('<').next().unwrap();
    url[url.find("/console").unwrap()..].to_owned()
}

/// Invites an address: the page that the owner gets.
async fn invited_page(owner: &mut Browser, tenant: &Tenant, email: &str, role: &str) -> String {
    let members = format!("{}/members", place_of(tenant));
    let answer = owner.submit(&members, &members, &[("email", email), ("role", role)]).await;
    let next = location(&answer).to_owned();
    owner.get(&next).await.assert(200).text()
}

async fn invite(owner: &mut Browser, tenant: &Tenant, email: &str, role: &str) -> String {
    link_on(&invited_page(owner, tenant, email, role).await)
}

async fn sign_in(browser: &mut Browser, email: &str, password: &str) -> u16 {
    let fields = [("email", email), ("password", password)];
    browser.submit("/console/sign-in", "/console/sign-in", &fields).await.status
}

/// The path of an action on an account, found by its address on a page.
async fn action_on(browser: &mut Browser, page: &str, email: &str, action: &str) -> String {
    let text = browser.get(page).await.assert(200).text();
    let row = text
        .split("<tr>")
        .find(|row| row.contains(&format!("<th scope=\"row\">{email}")))
        .unwrap_or_else(|| panic!("{email}: {text}"));
    let paths = row.split("action=\"").skip(1).map(|rest| rest.split('"').next().unwrap());
    let end = format!("/{action}");
    paths.into_iter().find(|path| path.ends_with(&end)).unwrap_or_else(|| panic!("{action}: {row}")).to_owned()
}

async fn an_owner_gains_nothing_by_inviting_a_pending_administrator(world: World) {
    let other = world.another_tenant().await;
    let mut evil = Browser::member(&world, &other, Role::Owner).await;
    let (engine, operator) = (&world.node.engine, Administrator::operator());
    let admins = engine.invite_admin(&operator, &"root@example.com".parse().unwrap()).await.unwrap().path;
    let joes = Browser::called(&world, &world.acme, "joe@example.com", Role::Owner).await;
    for email in ["root@example.com", "joe@example.com"] {
        let link = invite(&mut evil, &other, email, "viewer").await;
        assert!(link.starts_with("/console/invitation?token="), "{link}");
        // The link opens nothing of the account: neither here nor as a link to choose a password.
        let mut stranger = Browser::at(&world);
        let refused = stranger.choose_password(&link).await.assert(409).text();
        assert!(refused.contains("There is an account with this address already"), "{refused}");
        assert!(!stranger.cookies.keys().any(|name| name.contains("session")));
        stranger.get(&link.replace("/invitation", "/link")).await.assert(410);
        assert_eq!(sign_in(&mut stranger, email, "some password of evil").await, 401);
        let members = evil.get(&format!("{}/members", place_of(&other))).await.assert(200).text();
        assert!(!members.contains(email), "nobody is a member before they accept");
    }
    Browser::invited(&world, &admins).await.get(ACCOUNTS).await.assert(200);
    let mut joes = joes;
    joes.get(&place_of(&world.acme)).await.assert(200);
    assert_eq!(location(&joes.get("/console").await), place_of(&world.acme), "the stranger's workspace is not shown");
}

async fn an_account_made_by_one_invitation_gains_nothing_elsewhere(world: World) {
    let other = world.another_tenant().await;
    let mut evil = Browser::member(&world, &other, Role::Owner).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    // Evil has an account with an address that is somebody else's.
    let link = invite(&mut evil, &other, "jane@example.com", "viewer").await;
    let mut false_jane = Browser::invited(&world, &link).await;
    let wanted = invite(&mut owner, &world.acme, "jane@example.com", "owner").await;
    assert_eq!(location(&false_jane.get("/console").await), place_of(&other));
    false_jane.get(&place_of(&world.acme)).await.assert(403);
    false_jane.get(&link).await.assert(410);

    // The operator gives jane her account, and she accepts what she was invited to.
    let (engine, operator) = (&world.node.engine, Administrator::operator());
    let account = engine.account_of(&operator, &"jane@example.com".parse().unwrap()).await.unwrap();
    let own = engine.reset_password(&operator, account).await.unwrap().path;
    let mut jane = Browser::invited(&world, &own).await;
    assert!(location(&false_jane.get("/console").await).starts_with("/console/sign-in"));
    let token = wanted.split_once("token=").unwrap().1;
    let accepted = jane.submit(&wanted, "/console/invitation/accept", &[("token", token)]).await;
    assert_eq!(location(&accepted), place_of(&world.acme));
    jane.get(&format!("{}/credentials", place_of(&world.acme))).await.assert(200);
}

async fn an_invitation_tells_nothing_about_accounts(world: World) {
    let other = world.another_tenant().await;
    Browser::called(&world, &world.acme, "known@example.com", Role::Owner).await;
    let mut owner = Browser::member(&world, &other, Role::Owner).await;
    let mut pages = vec![];
    for email in ["known@example.com", "other@example.com"] {
        let page = invited_page(&mut owner, &other, email, "viewer").await;
        let link = link_on(&page);
        let id = page.split("?invited=").nth(1).unwrap().split('"').next().unwrap().to_owned();
        let mut stranger = Browser::at(&world);
        stranger.get("/console/sign-in").await;
        let opened = stranger.get(&link).await.assert(200);
        assert_sound(&link, &opened);
        let token = link.split_once("token=").unwrap().1;
        let form_token = stranger.form_token(&link).await;
        let same =
            |text: String| text.replace(token, "T").replace(email, "E").replace(&id, "I").replace(&form_token, "F");
        pages.push((same(page), same(opened.text())));
        let withdraw = action_on(&mut owner, &format!("{}/invitations", place_of(&other)), email, "withdraw").await;
        owner.submit(&format!("{}/invitations", place_of(&other)), &withdraw, &[]).await.assert(303);
        stranger.get(&link).await.assert(410);
    }
    assert_eq!(pages[0], pages[1]);
}

async fn an_invitation_is_accepted_by_its_address_with_its_link(world: World) {
    let other = world.another_tenant().await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let mut joe = Browser::called(&world, &other, "joe@example.com", Role::Viewer).await;
    let mut eve = Browser::called(&world, &other, "eve@example.com", Role::Viewer).await;
    let voided = invite(&mut owner, &world.acme, "joe@example.com", "owner").await;
    let link = invite(&mut owner, &world.acme, "joe@example.com", "developer").await;
    joe.get(&voided).await.assert(410);
    let token = link.split_once("token=").unwrap().1.to_owned();
    let eves = eve.get(&link).await.assert(200);
    assert_sound(&link, &eves);
    assert!(eves.text().contains("signed in with another address") && !eves.text().contains("invitation/accept"));
    let accept = [("token", &*token)];
    eve.submit("/console/account", "/console/invitation/accept", &accept).await.assert(403);
    let mut bad = token.clone();
    bad.replace_range(5..6, if &token[5..6] == "A" { "B" } else { "A" });
    joe.submit("/console/account", "/console/invitation/accept", &[("token", &*bad)]).await.assert(410);
    assert_sound(&link, &joe.get(&link).await.assert(200));
    let accepted = joe.submit(&link, "/console/invitation/accept", &accept).await;
    assert_eq!(location(&accepted), place_of(&world.acme));
    joe.submit("/console", "/console/invitation/accept", &accept).await.assert(410);
    let members = format!("{}/members", place_of(&world.acme));
    let again = owner.submit(&members, &members, &[("email", "joe@example.com"), ("role", "owner")]).await;
    assert!(again.assert(409).text().contains("is a member already"));

    let late = invite(&mut owner, &world.acme, "late@example.com", "viewer").await;
    world.advance(SignedDuration::from_hours(7 * 24));
    Browser::at(&world).get(&late).await.assert(410);
}

async fn an_account_that_is_promoted_loses_its_password_and_sessions(world: World) {
    let mut admin = Browser::admin(&world).await;
    let mut jane = Browser::called(&world, &world.acme, "jane@example.com", Role::Viewer).await;
    let promote = action_on(&mut admin, ACCOUNTS, "jane@example.com", "make-admin").await;
    let promoted = admin.submit(ACCOUNTS, &promote, &[]).await;
    let page = admin.get(location(&promoted)).await.assert(200);
    assert_sound(ACCOUNTS, &page);
    assert!(location(&jane.get("/console").await).starts_with("/console/sign-in"));
    assert_eq!(sign_in(&mut Browser::at(&world), "jane@example.com", PASSWORD).await, 401);
    let first = link_on(&page.text());
    let again = action_on(&mut admin, ACCOUNTS, "jane@example.com", "link").await;
    let again = admin.submit(ACCOUNTS, &again, &[]).await;
    let second = link_on(&admin.get(location(&again)).await.text());
    Browser::at(&world).get(&first).await.assert(410);
    let mut jane = Browser::invited(&world, &second).await;
    jane.get(ACCOUNTS).await.assert(200);

    // And is an administrator until another one says otherwise; one always stays.
    let demote = action_on(&mut admin, ACCOUNTS, "jane@example.com", "remove-admin").await;
    admin.submit(ACCOUNTS, &demote, &[]).await.assert(303);
    jane.get(ACCOUNTS).await.assert(403);
    let own = action_on(&mut admin, ACCOUNTS, "root@example.com", "remove-admin").await;
    let refused = admin.submit(ACCOUNTS, &own, &[]).await.assert(409).text();
    assert!(refused.contains("at least one administrator"), "{refused}");
}

async fn a_disabled_account_is_out_at_once(world: World) {
    let mut admin = Browser::admin(&world).await;
    let mut joe = Browser::called(&world, &world.acme, "joe@example.com", Role::Owner).await;
    let token = joe.form_token("/console/account").await;
    let disable = action_on(&mut admin, ACCOUNTS, "joe@example.com", "disable").await;
    joe.post(&disable, &token, &[]).await.assert(403);
    let link = action_on(&mut admin, ACCOUNTS, "joe@example.com", "link").await;
    let linked = admin.submit(ACCOUNTS, &link, &[]).await;
    let link = link_on(&admin.get(location(&linked)).await.text());
    admin.submit(ACCOUNTS, &disable, &[]).await.assert(303);
    assert!(location(&joe.get("/console").await).starts_with("/console/sign-in"));
    Browser::at(&world).get(&link).await.assert(410);
    assert_eq!(sign_in(&mut Browser::at(&world), "joe@example.com", PASSWORD).await, 401);
    let enable = action_on(&mut admin, ACCOUNTS, "joe@example.com", "enable").await;
    admin.submit(ACCOUNTS, &enable, &[]).await.assert(303);
    assert_eq!(sign_in(&mut Browser::at(&world), "joe@example.com", PASSWORD).await, 303);
    let own = action_on(&mut admin, ACCOUNTS, "root@example.com", "disable").await;
    admin.submit(ACCOUNTS, &own, &[]).await.assert(409);
}

async fn of_two_owners_who_remove_each_other_one_stays(world: World) {
    let members = format!("{}/members", place_of(&world.acme));
    let mut jane = Browser::called(&world, &world.acme, "jane@example.com", Role::Owner).await;
    let mut joe = Browser::called(&world, &world.acme, "joe@example.com", Role::Owner).await;
    let remove_joe = action_on(&mut jane, &members, "joe@example.com", "remove").await;
    let remove_jane = action_on(&mut jane, &members, "jane@example.com", "remove").await;
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

async fn people_change_their_password_and_end_their_sessions(world: World) {
    const NEW: &str = "another horse entirely";
    let mut here = Browser::called(&world, &world.acme, "jane@example.com", Role::Viewer).await;
    let (mut there, mut third) = (Browser::at(&world), Browser::at(&world));
    for browser in [&mut there, &mut third] {
        assert_eq!(sign_in(browser, "jane@example.com", PASSWORD).await, 303);
    }
    let page = here.get("/console/account").await.assert(200);
    assert_sound("/console/account", &page);
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
    let mut eve = Browser::called(&world, &world.acme, "eve@example.com", Role::Owner).await;
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
    assert!(change(&mut here, PASSWORD, NEW, "other").await.assert(400).text().contains("differ"));
    assert!(change(&mut here, PASSWORD, "short", "short").await.assert(400).text().contains("at least 12"));
    let changed = change(&mut here, PASSWORD, NEW, NEW).await;
    assert!(here.get(location(&changed)).await.assert(200).text().contains("The password was changed"));
    for browser in [&mut there, &mut third] {
        browser.get("/console/account").await.assert(303);
    }
    assert_eq!(sign_in(&mut Browser::at(&world), "jane@example.com", PASSWORD).await, 401);
    assert_eq!(sign_in(&mut Browser::at(&world), "jane@example.com", NEW).await, 303);
    // Guessing at the current password is guessing.
    for expected in [400, 400, 400, 429] {
        assert_eq!(change(&mut here, "wrong", NEW, NEW).await.status, expected);
    }
}

async fn administrators_create_workspaces(world: World) {
    let mut admin = Browser::admin(&world).await;
    let bad = admin.submit("/console", "/console/new-workspace", &[("name", "")]).await.assert(400);
    assert_sound("/console", &bad);
    let made = admin.submit("/console", "/console/new-workspace", &[("name", "Globex")]).await;
    let place = location(&made).to_owned();
    assert!(admin.get(&place).await.assert(200).text().contains("Globex"));
    assert!(admin.get(&format!("{place}/audit")).await.assert(200).text().contains("workspace.created"));
    // It has no credential until an owner makes one.
    let credentials = admin.get(&format!("{place}/credentials")).await.assert(200).text();
    assert!(!credentials.contains("/delete\""), "{credentials}");
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let token = owner.form_token(&place_of(&world.acme)).await;
    owner.post("/console/new-workspace", &token, &[("name", "Mine")]).await.assert(403);
}

#[tokio::test]
async fn members_and_accounts_are_listed_in_pages_and_limited() {
    let world = World::configured(|config| config.max_members = 28).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    for number in 0..26 {
        invite(&mut owner, &world.acme, &format!("guest-{number:02}@example.com"), "viewer").await;
    }
    let link = invite(&mut owner, &world.acme, "last@example.com", "viewer").await;
    let members = format!("{}/members", place_of(&world.acme));
    let more = owner.submit(&members, &members, &[("email", "more@example.com"), ("role", "viewer")]).await;
    assert_sound(&members, &more);
    assert!(more.assert(409).text().contains("at most 28 members and pending invitations"));
    let invitations = format!("{}/invitations", place_of(&world.acme));
    let first = owner.get(&invitations).await.assert(200).text();
    assert!(first.contains("Page 1 of 2") && !first.contains("last@example.com"), "{first}");
    assert!(owner.get(&format!("{invitations}?page=2")).await.text().contains("last@example.com"));
    // Acceptance takes no further place.
    Browser::invited(&world, &link).await;
    assert!(owner.get(&members).await.assert(200).text().contains("last@example.com"));
    // The link of another workspace's invitation is not shown.
    let other = world.another_tenant().await;
    let mut stranger = Browser::member(&world, &other, Role::Owner).await;
    let id = owner.get(&invitations).await.text().split("?invited=").nth(1).unwrap()[..36].to_owned();
    let theirs = stranger.get(&format!("{}/invitations?invited={id}", place_of(&other))).await.assert(200).text();
    assert!(!theirs.contains("token="), "{theirs}");
}
