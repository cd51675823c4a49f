//! Data written to the database without the master key is rejected.

use base64::prelude::{BASE64_STANDARD, Engine as _};
use jiff::SignedDuration;
use ringtrue_domain::{account::Role, audit::Action, page::PageRequest};
use ringtrue_engine::{
    actor::Administrator,
    keys::{self, KeyRing, MasterKey},
    ports::{audit::AuditFilter, keys::KeyPurpose},
};
use serde_json::json;

use crate::{
    client::{HttpResponse, Request},
    console::browser::{Browser, PASSWORD, location},
    node::keys::master,
    on_both_stores,
    protocol::metadata::rotate,
    world::{World, send_to},
};

const JANE: &str = "jane@example.com";
const MALLORY: &str = "mallory@example.com";

on_both_stores!(
    credential_written_by_sql_is_rejected,
    deleted_credential_is_not_revived_by_sql,
    account_altered_by_sql_has_no_rights_until_it_is_reset,
    membership_written_by_sql_grants_nothing,
    invitation_altered_by_sql_is_invalid,
    session_and_link_moved_to_another_account_are_rejected,
    altered_rows_are_not_signed_by_later_changes,
    rewrapped_keys_open_with_the_new_master_key,
    hash_key_is_replaced,
    links_outlive_a_rotation_but_not_an_emergency,
    second_factors_outlive_the_seal_key,
);

async fn sign_in(world: &World, email: &str) -> (Browser, HttpResponse) {
    let mut browser = Browser::new(world);
    let fields = [("email", email), ("password", PASSWORD)];
    let response = browser.submit("/console/sign-in", "/console/sign-in", &fields).await;
    (browser, response)
}

async fn can_sign_in(world: &World, email: &str) -> bool {
    sign_in(world, email).await.1.status == 303
}

async fn is_admin(browser: &mut Browser) -> bool {
    browser.get("/console/deployment/accounts").await.status == 200
}

/// Returns the table of each row that was altered outside Ringtrue. `ringtrue doctor` uses the same search.
async fn altered_tables(world: &World) -> Vec<&'static str> {
    let altered = world.node.engine.store().find_altered_rows(10).await.unwrap();
    altered.into_iter().map(|row| row.table).collect()
}

/// Returns whether a new node, which has loaded all credentials from the database, issues a token for this credential.
async fn is_issued_after_restart(world: &World, client_id: &str, secret: &str) -> bool {
    let node = world.second_node().await;
    let form = [("grant_type", "client_credentials"), ("scope", "sim_swap")];
    let request = Request::post("/oauth2/token").basic(client_id, secret).form(&form);
    send_to(node.address, request).await.status == 200
}

async fn credential_written_by_sql_is_rejected(world: World) {
    let project = world.project("Shop", json!({})).await;
    let (id, secret) = (&project.client_id, &project.client_secret);
    assert!(is_issued_after_restart(&world, id, secret).await);
    // The copied row has the digest and the MAC of the original, but another id.
    world.database.execute(&format!(
        "create temporary table copy as select * from credentials where client_id = '{id}';
         update copy set client_id = 'prj_copied-by-hand';
         insert into credentials select * from copy"
    ));
    assert!(!is_issued_after_restart(&world, "prj_copied-by-hand", secret).await);
    assert!(is_issued_after_restart(&world, id, secret).await);
    world.database.execute(&format!("update credentials set expires_at = 1 where client_id = '{id}'"));
    world.database.execute(&format!("update credentials set expires_at = null where client_id = '{id}'"));
    assert!(is_issued_after_restart(&world, id, secret).await, "the row is as Ringtrue wrote it");
    world.database.execute(&format!("update credentials set retires_at = 99999999999999 where client_id = '{id}'"));
    assert!(!is_issued_after_restart(&world, id, secret).await);
    assert_eq!(altered_tables(&world).await, ["credentials"; 2]);
}

async fn deleted_credential_is_not_revived_by_sql(world: World) {
    let project = world.project("Shop", json!({})).await;
    let created = world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await;
    let created = created.assert(201).json();
    let (id, secret) = (created["client_id"].as_str().unwrap(), created["client_secret"].as_str().unwrap());
    assert!(is_issued_after_restart(&world, id, secret).await);
    world.manage(Request::delete(&format!("{}/credentials/{id}", project.path))).await.assert(204);
    world.database.execute(&format!("update credentials set deleted_at = null where client_id = '{id}'"));
    assert!(!is_issued_after_restart(&world, id, secret).await);
    assert_eq!(altered_tables(&world).await, ["credentials"]);
    // The project's owner can still delete the altered credential.
    world.manage(Request::delete(&format!("{}/credentials/{id}", project.path))).await.assert(204);
    assert!(altered_tables(&world).await.is_empty());
}

async fn account_altered_by_sql_has_no_rights_until_it_is_reset(world: World) {
    let mut root = Browser::admin(&world).await;
    assert!(is_admin(&mut root).await);
    let mut jane = Browser::member_with_email(&world, &world.acme, JANE, Role::Viewer).await;
    for change in [
        "is_admin = (1 = 1)",
        "disabled_at = null, email = 'other@example.com'",
        "password_hash = (select password_hash from accounts where email = 'root@example.com')",
        "password_hash = null",
        "identity_issuer = 'https://id.example'",
    ] {
        jane.get("/console/account").await.assert(200);
        world.database.execute("create table saved as select * from accounts");
        world.database.execute(&format!("update accounts set {change} where email = '{JANE}'"));
        let response = jane.get("/console/account").await;
        assert_eq!(location(&response).split('?').next(), Some("/console/sign-in"), "{change}");
        assert!(!can_sign_in(&world, JANE).await, "{change}");
        assert_eq!(altered_tables(&world).await, ["accounts"], "{change}");
        world.database.execute(
            "update accounts set (email, is_admin, password_hash, identity_issuer) =
               (select email, is_admin, password_hash, identity_issuer from saved where saved.id = accounts.id);
             drop table saved",
        );
    }
    // Waits until the failed sign-ins no longer delay the next one.
    world.advance(SignedDuration::from_hours(2));
    assert!(can_sign_in(&world, JANE).await);

    let accounts = &world.node.engine.accounts;
    let (operator, email) = (Administrator::of_command_line(), JANE.parse().unwrap());
    assert!(accounts.reset_altered_account(&operator, &email).await.is_err(), "an unaltered account is kept");
    world.database.execute(&format!("update accounts set is_admin = (1 = 1) where email = '{JANE}'"));
    assert!(accounts.invite_admin(&operator, &email).await.is_err(), "not even administrators extend it");
    accounts.reset_altered_account(&operator, &email).await.unwrap();
    assert!(altered_tables(&world).await.is_empty());
    assert!(!can_sign_in(&world, JANE).await, "it has no password");
    let filter = AuditFilter { action: Some(Action::AccountReset), actor: None };
    let first = PageRequest::new(1, 1).unwrap();
    let events = world.node.engine.store().list_all_audit_events(&filter, first).await.unwrap();
    assert_eq!(events.total_items, 1);
    let account = accounts.account_id_by_email(&operator, &email).await.unwrap();
    let link = accounts.create_password_reset_link(&operator, account).await.unwrap();
    let mut jane = Browser::with_link(&world, &link.path).await;
    jane.get("/console/account").await.assert(200);
    assert!(!is_admin(&mut jane).await);
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    assert_eq!(jane.get(&workspace).await.status, 403, "its membership is gone, too");
}

async fn membership_written_by_sql_grants_nothing(world: World) {
    let other = world.another_tenant().await;
    let mut mallory = Browser::member_with_email(&world, &world.acme, MALLORY, Role::Viewer).await;
    let own = format!("/console/workspaces/{}", world.acme.workspace_id);
    mallory.get(&own).await.assert(200);
    // Gives Mallory a copy of another workspace owner's membership, with the MAC of the real membership.
    let other_owner = Browser::member(&world, &other, Role::Owner).await;
    drop(other_owner);
    world.database.execute(&format!(
        "insert into memberships (account_id, workspace_id, role, row_mac)
         select accounts.id, theirs.workspace_id, theirs.role, theirs.row_mac
           from accounts, memberships as theirs
          where accounts.email = '{MALLORY}' and theirs.account_id <> accounts.id"
    ));
    mallory.get(&format!("/console/workspaces/{}", other.workspace_id)).await.assert(403);
    mallory.get(&own).await.assert(200);
    assert_eq!(altered_tables(&world).await, ["memberships"]);
    world.database.execute("update memberships set role = 'owner' where role = 'viewer'");
    mallory.get(&own).await.assert(403);
}

async fn invitation_altered_by_sql_is_invalid(world: World) {
    let accounts = &world.node.engine.accounts;
    let workspace = world.acme.workspace_id.parse().unwrap();
    let email = MALLORY.parse().unwrap();
    let invite = async || accounts.invite_member_as_operator(workspace, &email, Role::Viewer).await.unwrap().path;
    let path = invite().await;
    world.database.execute("update invitations set role = 'owner'");
    assert_eq!(Browser::new(&world).get(&path).await.status, 410);
    assert_eq!(altered_tables(&world).await, ["invitations"]);
    // A new invitation replaces the altered one.
    Browser::with_link(&world, &invite().await).await;
    assert!(altered_tables(&world).await.is_empty());
}

async fn session_and_link_moved_to_another_account_are_rejected(world: World) {
    let _root = Browser::admin(&world).await;
    let mut mallory = Browser::member_with_email(&world, &world.acme, MALLORY, Role::Viewer).await;
    mallory.get("/console/account").await.assert(200);
    let move_rows = |table: &str| {
        world.database.execute(&format!(
            "update {table} set account_id = (select id from accounts where email = 'root@example.com')
              where account_id = (select id from accounts where email = '{MALLORY}')"
        ));
    };
    move_rows("sessions");
    assert_eq!(location(&mallory.get("/console/account").await).split('?').next(), Some("/console/sign-in"));

    let accounts = &world.node.engine.accounts;
    let operator = Administrator::of_command_line();
    let account = accounts.account_id_by_email(&operator, &MALLORY.parse().unwrap()).await.unwrap();
    let link = accounts.create_password_reset_link(&operator, account).await.unwrap();
    move_rows("account_links");
    assert_eq!(Browser::new(&world).get(&link.path).await.status, 410);
}

/// If a later change by Ringtrue computed a new MAC, the altered row would become valid.
async fn altered_rows_are_not_signed_by_later_changes(world: World) {
    let _root = Browser::admin(&world).await;
    let _jane = Browser::member_with_email(&world, &world.acme, JANE, Role::Viewer).await;
    let accounts = &world.node.engine.accounts;
    let operator = Administrator::of_command_line();
    let account = accounts.account_id_by_email(&operator, &JANE.parse().unwrap()).await.unwrap();
    world.database.execute(&format!("update accounts set is_admin = (1 = 1) where email = '{JANE}'"));
    assert!(accounts.disable_account(&operator, account).await.is_err());
    assert!(accounts.enable_account(&operator, account).await.is_err());
    assert!(accounts.remove_admin(&operator, account).await.is_err());
    assert!(accounts.remove_second_factor(&operator, account).await.is_err());
    assert!(accounts.create_password_reset_link(&operator, account).await.is_err());
    assert_eq!(altered_tables(&world).await, ["accounts"]);
}

async fn rewrapped_keys_open_with_the_new_master_key(world: World) {
    let engine = &world.node.engine;
    let token = world.management_token().await;
    let new = MasterKey::from_base64(&BASE64_STANDARD.encode([8; 32])).unwrap();
    let count = keys::rewrap_keys(&master(), &new, engine.store(), engine.clock(), engine.entropy()).await.unwrap();
    let stored = engine.store().list_keys().await.unwrap();
    assert_eq!(stored.len(), count);
    assert!(KeyRing::from_sealed(&stored, &new, &KeyRing::default()).is_ok());
    let refusal = world.start_error(|_| {}).await;
    assert!(refusal.contains("the master key cannot unseal"), "{refusal}");
    engine.node.refresh().await.unwrap();
    assert!(world.accepts_token(&token).await, "a running server is not affected");
}

async fn hash_key_is_replaced(world: World) {
    let project = world.project("Shop", json!({})).await;
    let mut root = Browser::admin(&world).await;
    let _jane = Browser::member_with_email(&world, &world.acme, JANE, Role::Viewer).await;
    let _mallory = Browser::member_with_email(&world, &world.acme, MALLORY, Role::Viewer).await;
    world.database.execute(&format!("update accounts set is_admin = (1 = 1) where email = '{MALLORY}'"));
    let engine = &world.node.engine;
    let store = engine.store();
    let hash_key = async || {
        let keys = store.list_keys().await.unwrap().into_iter().filter(|key| key.purpose == KeyPurpose::Hash);
        keys.map(|key| key.id).collect::<Vec<_>>()
    };
    let before = hash_key().await;
    let reset = keys::reset_hash_key(store, &master(), engine.clock(), engine.entropy()).await.unwrap();
    assert_eq!(reset.sessions, 3);
    let after = hash_key().await;
    assert!(after.len() == 1 && after != before, "{after:?}");

    // Starts a server that reads the replaced hash key.
    let node = world.second_node().await;
    let (id, secret) = (&project.client_id, &project.client_secret);
    assert!(is_issued_after_restart(&world, id, secret).await, "client credentials stay valid");
    root.address = node.address;
    assert_eq!(location(&root.get("/console/account").await).split('?').next(), Some("/console/sign-in"));
    let altered = node.engine.store().find_altered_rows(10).await.unwrap();
    assert_eq!(altered.iter().map(|row| row.table).collect::<Vec<_>>(), ["accounts"], "altered rows stay invalid");
    let sign_in = async |email: &str| {
        let mut browser = Browser::new(&world);
        browser.address = node.address;
        let fields = [("email", email), ("password", PASSWORD)];
        browser.submit("/console/sign-in", "/console/sign-in", &fields).await.status == 303
    };
    assert!(sign_in("root@example.com").await && sign_in(JANE).await && !sign_in(MALLORY).await);
}

async fn links_outlive_a_rotation_but_not_an_emergency(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.token(&project.client_id, &project.client_secret, "verification").await;
    let body = json!({"phone_number": "+990123456700"});
    let created = world.send(Request::post("/v1/verifications").bearer(&token).json(&body)).await.assert(201).json();
    let page = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap().to_owned();
    let accounts = &world.node.engine.accounts;
    let invitation =
        accounts.invite_admin(&Administrator::of_command_line(), &"new@example.com".parse().unwrap()).await.unwrap();
    let mut jane = Browser::member_with_email(&world, &world.acme, JANE, Role::Viewer).await;
    let form_token = jane.form_token("/console/account").await;

    rotate(&world, KeyPurpose::Link, false).await;
    world.advance(SignedDuration::from_secs(11));
    let mut visitor = Browser::new(&world);
    visitor.get(&page).await.assert(200);
    visitor.get(&invitation.path).await.assert(200);
    let shown = accounts.find_account_link(&Administrator::of_command_line(), invitation.id).await.unwrap().unwrap();
    assert_ne!(shown.path, invitation.path, "the new key derives another token");
    visitor.get(&shown.path).await.assert(200);
    assert_ne!(jane.form_token("/console/account").await, form_token);
    assert_eq!(jane.post("/console/account/end-other-sessions", &form_token, &[]).await.status, 303);

    rotate(&world, KeyPurpose::Link, true).await;
    for path in [&page, &invitation.path, &shown.path] {
        assert!([404, 410].contains(&visitor.get(path).await.status), "{path}");
    }
    assert_ne!(jane.post("/console/account/end-other-sessions", &form_token, &[]).await.status, 303);
    let shown = accounts.find_account_link(&Administrator::of_command_line(), invitation.id).await.unwrap().unwrap();
    visitor.get(&shown.path).await.assert(200);
}

/// Housekeeping encrypts the seed of a second factor again with the current seal key, so its codes stay valid after the
/// first seal key is deleted.
async fn second_factors_outlive_the_seal_key(world: World) {
    let mut jane = Browser::member_with_email(&world, &world.acme, JANE, Role::Viewer).await;
    let factor = crate::console::second_factor::set_up(&world, &mut jane).await;
    rotate(&world, KeyPurpose::Seal, true).await;
    world.node.engine.node.housekeep().await;
    // After 401 days, the next rotation deletes the key with which the seed was first encrypted.
    world.advance(SignedDuration::from_hours(24 * 401));
    rotate(&world, KeyPurpose::Seal, true).await;
    rotate(&world, KeyPurpose::Link, true).await;
    let seal_keys = world.node.engine.store().list_keys().await.unwrap();
    assert_eq!(seal_keys.iter().filter(|key| key.purpose == KeyPurpose::Seal).count(), 2);
    let (mut browser, response) = sign_in(&world, JANE).await;
    assert_eq!(location(&response).split('?').next(), Some("/console/second-factor"));
    let code = factor.code(&world, 0);
    let response = browser.submit("/console/second-factor", "/console/second-factor", &[("code", &*code)]).await;
    assert_eq!(response.status, 303, "{}", response.text());
    assert!(factor.recovery_codes.len() == 10, "{}", factor.recovery_codes.len());
}
