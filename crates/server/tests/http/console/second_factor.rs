//! Tests second factors in sign-ins by password.

use aws_lc_rs::hmac;
use jiff::SignedDuration;
use ringtrue_domain::account::Role;
use ringtrue_engine::{actor::Administrator, ports::clock::Clock};
use ringtrue_web::routes::Route;

use super::{
    browser::{Browser, PASSWORD, location},
    console_routes,
    pages::{assert_well_formed, fill_path},
};
use crate::{
    client::{HttpResponse, Request},
    database::Database,
    on_both_databases, on_both_stores,
    world::World,
};

on_both_stores!(
    sign_in_asks_for_a_code,
    recovery_codes_sign_in_once,
    wrong_codes_are_throttled_across_addresses,
    set_password_link_does_not_replace_the_second_factor,
    administrators_remove_second_factors,
    replacing_takes_the_password_and_a_code,
);
on_both_databases!(required_second_factor_comes_first);

const EMAIL: &str = "jane@example.com";
const SETUP: &str = "/console/account/second-factor";
const CODE_PAGE: &str = "/console/second-factor";

pub struct SecondFactor {
    secret: Vec<u8>,
    pub recovery_codes: Vec<String>,
}

impl SecondFactor {
    /// Returns the code (RFC 4226) of the current time step plus `offset`.
    pub fn code(&self, world: &World, offset: i64) -> String {
        let step = world.clock.now().as_second() / 30 + offset;
        let key = hmac::Key::new(hmac::HMAC_SHA1_FOR_LEGACY_USE_ONLY, &self.secret);
        let tag = hmac::sign(&key, &step.to_be_bytes());
        let offset = usize::from(tag.as_ref()[19] & 15);
        let word = u32::from_be_bytes(tag.as_ref()[offset..offset + 4].try_into().unwrap());
        format!("{:06}", (word & 0x7fff_ffff) % 1_000_000)
    }
}

fn decode_base32(text: &str) -> Vec<u8> {
    let values = text
        .bytes()
        .map(|symbol| b"ABCDEFGHIJKLMNOPQRSTUVWXYZ234567".iter().position(|known| *known == symbol).unwrap());
    let bits: Vec<bool> = values.flat_map(|value| (0..5).rev().map(move |bit| value >> bit & 1 == 1)).collect();
    bits.chunks_exact(8).map(|byte| byte.iter().fold(0, |byte, bit| byte << 1 | u8::from(*bit))).collect()
}

fn text_between<'t>(text: &'t str, before: &str, after: &str) -> &'t str {
    text.split_once(before).unwrap_or_else(|| panic!("no {before}: {text}")).1.split_once(after).unwrap().0
}

async fn member(world: &World) -> Browser {
    Browser::member_with_email(world, &world.acme, EMAIL, Role::Developer).await
}

/// Sets up a second factor on the account page.
pub async fn set_up(world: &World, browser: &mut Browser) -> SecondFactor {
    let page = browser.get(SETUP).await.assert(200);
    assert_well_formed(SETUP, &page);
    let text = page.text();
    assert!(text.contains("<svg class=\"qr\""), "{text}");
    let secret = text_between(&text, "aria-label=\"Secret\"><code>", "<");
    let seed = text_between(&text, "name=\"seed\" value=\"", "\"");
    let mut factor = SecondFactor { secret: decode_base32(secret), recovery_codes: vec![] };
    assert_eq!(factor.secret.len(), 20);
    let code = factor.code(world, 0);
    let answers = [("x", PASSWORD, "This code is wrong"), (&*code, "wrong", "The current password is wrong.")];
    for (code, password, error) in answers {
        let fields = [("seed", seed), ("code", code), ("password", password)];
        let refused = browser.submit(SETUP, SETUP, &fields).await.assert(400);
        assert_well_formed(SETUP, &refused);
        let text = refused.text();
        assert!(text.contains(error) && text.contains(secret), "the secret stays the same: {text}");
    }
    let fields = [("seed", seed), ("code", &*code), ("password", PASSWORD), ("next", "/console/account?ended")];
    let enabled = browser.submit(SETUP, SETUP, &fields).await;
    factor.recovery_codes = shown_recovery_codes(browser, &enabled).await;
    factor
}

/// Returns the recovery codes of a new second factor. The page shows them once.
async fn shown_recovery_codes(browser: &mut Browser, enabled: &HttpResponse) -> Vec<String> {
    let path = location(enabled);
    assert_eq!(path, "/console/account/recovery-codes");
    let page = browser.get(path).await.assert(200);
    assert_well_formed(path, &page);
    assert_eq!(location(&browser.get(path).await), "/console/account");
    let text = page.text();
    let codes: Vec<_> = text.split("<li><code>").skip(1).map(|rest| rest[..11].to_owned()).collect();
    assert_eq!(codes.len(), 10);
    codes
}

async fn enter_password(world: &World) -> (Browser, HttpResponse) {
    let mut browser = Browser::new(world);
    let fields = [("email", EMAIL), ("password", PASSWORD), ("next", "/console/account")];
    let response = browser.submit("/console/sign-in", "/console/sign-in", &fields).await;
    (browser, response)
}

async fn enter_code(browser: &mut Browser, code: &str) -> HttpResponse {
    browser.submit(CODE_PAGE, CODE_PAGE, &[("code", code), ("next", "/console/account")]).await
}

async fn sign_in_asks_for_a_code(world: World) {
    let mut here = member(&world).await;
    let account = here.get("/console/account").await.assert(200).text();
    assert!(account.contains(&format!("href=\"{SETUP}\"")), "{account}");
    let factor = set_up(&world, &mut here).await;
    let page = here.get("/console/account").await.assert(200);
    assert_well_formed("/console/account", &page);
    assert!(page.text().contains("Unused recovery codes: 10"), "{}", page.text());

    let (mut there, response) = enter_password(&world).await;
    assert_eq!(location(&response), "/console/second-factor?next=%2Fconsole%2Faccount");
    assert!(!there.cookies.contains_key("ringtrue-session"));
    assert_eq!(location(&there.get("/console/account").await).split('?').next(), Some("/console/sign-in"));
    assert_well_formed(CODE_PAGE, &there.get(CODE_PAGE).await.assert(200));
    let used = factor.code(&world, 0);
    let repeated = enter_code(&mut there, &used).await.assert(401);
    assert_well_formed(CODE_PAGE, &repeated);
    assert!(repeated.text().contains("wrong, has expired or was used before"), "the setup used the code");
    world.advance(SignedDuration::from_secs(30));
    let code = factor.code(&world, 0);
    assert_eq!(
        location(&enter_code(&mut there, &format!(" {} {} ", &code[..3], &code[3..])).await),
        "/console/account"
    );
    there.get("/console/account").await.assert(200);
    assert!(!there.cookies.contains_key("ringtrue-second-factor"));

    // Another browser can use neither the same code again nor an older code.
    let (mut third, _) = enter_password(&world).await;
    for code in [&code, &factor.code(&world, -1)] {
        enter_code(&mut third, code).await.assert(401);
    }
    // After ten minutes without a code, the user has to enter the password again.
    world.advance(SignedDuration::from_mins(10));
    assert_eq!(location(&third.get(CODE_PAGE).await), "/console/sign-in");
    let (mut third, _) = enter_password(&world).await;
    let token = third.form_token(CODE_PAGE).await;
    world.advance(SignedDuration::from_mins(10));
    third.post(CODE_PAGE, &token, &[("code", &factor.code(&world, 0))]).await.assert(400);

    // Disabling the second factor requires a code.
    let disable = "/console/account/second-factor/disable";
    let refused = here.submit("/console/account", disable, &[("code", "000000")]).await.assert(400);
    assert_well_formed("/console/account", &refused);
    // Waits, because the third failure within an hour delays the next attempt.
    world.advance(SignedDuration::from_secs(1));
    let code = factor.code(&world, 0);
    let disabled = here.submit("/console/account", disable, &[("code", &code)]).await;
    assert!(here.get(location(&disabled)).await.assert(200).text().contains("Second factor turned off"));
    let (_, response) = enter_password(&world).await;
    assert_eq!(location(&response), "/console/account");
    assert_eq!(
        location(&here.submit("/console/account", "/console/account/end-other-sessions", &[]).await),
        "/console/account?ended"
    );
    there.get("/console/account").await.assert(303);
    here.get("/console/account?ended").await.assert(200);
}

async fn recovery_codes_sign_in_once(world: World) {
    let mut here = member(&world).await;
    let factor = set_up(&world, &mut here).await;
    for (code, status) in [
        (factor.recovery_codes[3].clone(), 303),
        (factor.recovery_codes[3].clone(), 401),
        (factor.recovery_codes[9].to_lowercase().replace('-', ""), 303),
    ] {
        let (mut browser, _) = enter_password(&world).await;
        assert_eq!(enter_code(&mut browser, &code).await.status, status, "{code}");
    }
    assert!(here.get("/console/account").await.text().contains("Unused recovery codes: 8"));
    let mut admin = Browser::admin(&world).await;
    for (action, count) in [("account.recovery_code_used", 2), ("account.second_factor_enabled", 1)] {
        let log = admin.get(&format!("/console/deployment/audit?action={action}")).await.assert(200).text();
        assert_eq!(log.split("<tbody>").nth(1).unwrap().matches(action).count(), count, "{log}");
    }
}

async fn wrong_codes_are_throttled_across_addresses(world: World) {
    let mut here = member(&world).await;
    let factor = set_up(&world, &mut here).await;
    world.advance(SignedDuration::from_secs(30));
    let (mut browser, _) = enter_password(&world).await;
    for _ in 0..3 {
        enter_code(&mut browser, "000000").await.assert(401);
    }
    let throttled = enter_code(&mut browser, &factor.code(&world, 0)).await.assert(429);
    assert_eq!(throttled.header("retry-after"), Some("1"));
    world.advance(SignedDuration::from_secs(1));
    enter_code(&mut browser, &factor.code(&world, 0)).await.assert(303);
    // A successful sign-in resets the count of failures.
    let (mut browser, _) = enter_password(&world).await;
    for _ in 0..3 {
        enter_code(&mut browser, "000000").await.assert(401);
    }
}

async fn set_password_link_does_not_replace_the_second_factor(world: World) {
    let mut here = member(&world).await;
    let factor = set_up(&world, &mut here).await;
    let (accounts, operator) = (&world.node.engine.accounts, Administrator::of_command_line());
    let account = accounts.account_id_by_email(&operator, &EMAIL.parse().unwrap()).await.unwrap();
    let link = accounts.create_password_reset_link(&operator, account).await.unwrap().path;
    let mut browser = Browser::new(&world);
    let response = browser.choose_password(&link).await;
    assert_eq!(location(&response), "/console/second-factor?next=%2Fconsole");
    here.get("/console/account").await.assert(303);
    world.advance(SignedDuration::from_secs(30));
    enter_code(&mut browser, &factor.code(&world, 0)).await.assert(303);
    browser.get("/console/account").await.assert(200);
    // A new password ends sign-ins that wait for a code.
    let (mut waiting, _) = enter_password(&world).await;
    let link = accounts.create_password_reset_link(&operator, account).await.unwrap().path;
    browser.choose_password(&link).await.assert(303);
    assert_eq!(location(&waiting.get(CODE_PAGE).await), "/console/sign-in");
}

async fn administrators_remove_second_factors(world: World) {
    let mut here = member(&world).await;
    set_up(&world, &mut here).await;
    let (accounts, operator) = (&world.node.engine.accounts, Administrator::of_command_line());
    let account = accounts.account_id_by_email(&operator, &EMAIL.parse().unwrap()).await.unwrap();
    let remove = format!("/console/deployment/accounts/{account}/remove-second-factor");
    let token = here.form_token("/console/account").await;
    here.post(&remove, &token, &[]).await.assert(403);
    let mut admin = Browser::admin(&world).await;
    let page = admin.get("/console/deployment/accounts").await.assert(200).text();
    assert!(page.contains(&remove) && page.contains("second factor</span>"), "{page}");
    admin.submit("/console/deployment/accounts", &remove, &[]).await.assert(303);
    let (_, response) = enter_password(&world).await;
    assert_eq!(location(&response), "/console/account");
    let log = admin.get("/console/deployment/audit?action=account.second_factor_disabled").await.assert(200).text();
    assert!(log.split("<tbody>").nth(1).unwrap().contains("account.second_factor_disabled"), "{log}");
}

async fn replacing_takes_the_password_and_a_code(world: World) {
    let mut here = member(&world).await;
    let old = set_up(&world, &mut here).await;
    let mut there = Browser::new(&world);
    let fields = [("email", EMAIL), ("password", PASSWORD)];
    there.submit("/console/sign-in", "/console/sign-in", &fields).await.assert(303);
    enter_code(&mut there, &old.recovery_codes[0]).await.assert(303);

    let page = here.get(SETUP).await.assert(200);
    assert_well_formed(SETUP, &page);
    let text = page.text();
    assert!(text.contains("<h1>Replace second factor</h1>"), "{text}");
    let seed = text_between(&text, "name=\"seed\" value=\"", "\"");
    let secret = text_between(&text, "aria-label=\"Secret\"><code>", "<");
    let mut new = SecondFactor { secret: decode_base32(secret), recovery_codes: vec![] };
    assert_ne!(new.secret, old.secret);
    let code = new.code(&world, 0);
    let used = old.recovery_codes[0].clone();
    for (password, current_code, error) in [
        ("wrong", &*old.recovery_codes[1], "The current password is wrong."),
        (PASSWORD, "", "The code of the current second factor is wrong"),
        (PASSWORD, &*used, "The code of the current second factor is wrong"),
    ] {
        let fields = [("seed", seed), ("code", &*code), ("password", password), ("current_code", current_code)];
        let refused = here.submit(SETUP, SETUP, &fields).await.assert(400).text();
        assert!(refused.contains(error), "{refused}");
    }
    // Waits, because the failed attempts delay the next one.
    world.advance(SignedDuration::from_secs(30));
    let code = new.code(&world, 0);
    let current = old.code(&world, 0);
    let fields = [("seed", seed), ("code", &*code), ("password", PASSWORD), ("current_code", &*current)];
    let replaced = here.submit(SETUP, SETUP, &fields).await;
    new.recovery_codes = shown_recovery_codes(&mut here, &replaced).await;

    // The other sessions end, and the old codes and recovery codes become invalid.
    there.get("/console/account").await.assert(303);
    let (mut browser, _) = enter_password(&world).await;
    enter_code(&mut browser, &old.recovery_codes[1]).await.assert(401);
    world.advance(SignedDuration::from_secs(30));
    enter_code(&mut browser, &old.code(&world, 0)).await.assert(401);
    enter_code(&mut browser, &new.recovery_codes[0]).await.assert(303);
    here.get("/console/account").await.assert(200);
}

async fn required_second_factor_comes_first(database: Database) {
    let world = World::with(database, |config| config.require_second_factor = true).await;
    let mut here = member(&world).await;
    let workspace = format!("/console/workspaces/{}", world.acme.workspace_id);
    let setup_of_workspace = format!("{SETUP}?next={}", workspace.replace('/', "%2F"));
    assert_eq!(location(&here.get(&workspace).await), setup_of_workspace);
    let page = here.get(&setup_of_workspace).await.assert(200);
    assert_well_formed(SETUP, &page);
    assert!(page.text().contains("This deployment requires a second factor"), "{}", page.text());

    // All other routes, including future ones, redirect to the setup page of the second factor and change nothing.
    let token = here.form_token(SETUP).await;
    for Route { method, path, .. } in console_routes().iter() {
        let is_setup = [SETUP, "/console/sign-out"].contains(path);
        let is_sign_in = ["/console/sign-in", CODE_PAGE, "/console/link", "/console/invitation"].contains(path)
            || path.starts_with("/console/openid-connect");
        if is_setup || is_sign_in || path.starts_with("/console/assets/") {
            continue;
        }
        let path = fill_path(path, &world.acme.workspace_id);
        let request = || {
            let request = Request::new(method, &path);
            if *method == "POST" { request.form(&[("form_token", &*token)]) } else { request }
        };
        let response = here.send(request()).await;
        assert_eq!(location(&response).split('?').next(), Some(SETUP), "{method} {path}");
        // Scripts get an error instead of a redirect, because they cannot use a page.
        for accepted in ["text/event-stream", "application/json"] {
            let refused = here.send(request().header("Accept", accepted)).await;
            assert_eq!(refused.status, 403, "{method} {path}");
        }
    }

    // When the setup is complete, other sessions that began with the password alone end.
    let (mut there, response) = enter_password(&world).await;
    assert_eq!(location(&response), "/console/account");
    assert_eq!(location(&there.get("/console/account").await), format!("{SETUP}?next=%2Fconsole%2Faccount"));
    let factor = set_up(&world, &mut here).await;
    here.get(&workspace).await.assert(200);
    assert_eq!(location(&there.get("/console/account").await).split('?').next(), Some("/console/sign-in"));

    // A required second factor can be replaced, but not disabled.
    let account = here.get("/console/account").await.assert(200);
    assert_well_formed("/console/account", &account);
    assert!(account.text().contains(SETUP) && !account.text().contains("Turn off"), "{}", account.text());
    let (disable, code) = (format!("{SETUP}/disable"), &*factor.recovery_codes[0]);
    let refused = here.submit("/console/account", &disable, &[("code", code)]).await.assert(409).text();
    assert!(refused.contains("This deployment requires a second factor"), "{refused}");
    enter_password(&world).await.1.assert(303);

    // The requirement also applies to administrators. Everybody may sign out.
    let mut admin = Browser::admin(&world).await;
    assert_eq!(location(&admin.get("/console").await), SETUP);
    assert_eq!(location(&admin.submit(SETUP, "/console/sign-out", &[]).await), "/console/sign-in");
}
