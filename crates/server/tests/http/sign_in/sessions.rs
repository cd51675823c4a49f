//! Browsers that stay signed in, and requests that ask again.

use jiff::SignedDuration;

use super::*;
use crate::on_both_stores;

on_both_stores!(sessions_answer_without_the_user, without_the_setting_there_is_no_session);

async fn sessions_answer_without_the_user(world: World) {
    let party = Party::configured(&world, json!({"session": 3_600})).await;
    let mut browser = Browser::default();
    let code = party.code(&mut browser, &[]).await;
    let tokens = party.redeem(&code, &[]).await.assert(200).json();
    let id_token = tokens["id_token"].as_str().unwrap().to_owned();
    let first = party.claims(&id_token).await;
    world.advance(SignedDuration::from_secs(100));
    let result = |response: HttpResponse| returned(&response.assert(302));
    for changes in [
        &[("prompt", "none")][..],
        &[("prompt", "none"), ("id_token_hint", &id_token)],
        &[("prompt", "none"), ("login_hint", EVEN)],
        &[("max_age", "10000")],
        &[],
    ] {
        let result = result(browser.send(&world, party.authorization(changes)).await);
        let code = result["code"].as_str().unwrap_or_else(|| panic!("{changes:?}: {result:?}"));
        let tokens = party.redeem(code, &[]).await.assert(200).json();
        let claims = party.claims(tokens["id_token"].as_str().unwrap()).await;
        for name in ["sub", "acr", "auth_time"] {
            assert_eq!(claims[name], first[name], "{changes:?} {name}");
        }
    }
    // These need a new proof, which `prompt=none` does not permit.
    for changes in [&[("max_age", "99")][..], &[("login_hint", ODD)], &[("scope", "openid sim_swap")]] {
        let silent = [changes, &[("prompt", "none")]].concat();
        let result = result(browser.send(&world, party.authorization(&silent)).await);
        assert_eq!(result["error"], "login_required", "{changes:?}");
        let page = party.begin(&mut browser, changes).await;
        assert!(page.starts_with("/signin/"), "{changes:?}");
    }
    assert!(party.begin(&mut browser, &[("prompt", "login")]).await.starts_with("/signin/"));
    // Another browser and another project have no session.
    let other = result(Browser::default().send(&world, party.authorization(&[("prompt", "none")])).await);
    assert_eq!(other["error"], "login_required");
    let stranger = Party::configured(&world, json!({"session": 3_600})).await;
    let other = result(browser.send(&world, stranger.authorization(&[("prompt", "none")])).await);
    assert_eq!(other["error"], "login_required");
    // Somebody else signs in although the client expects the first user.
    let changes = [("prompt", "login"), ("id_token_hint", &*id_token)];
    let other = party.sign_in(&mut browser, "+990123456702", &changes).await;
    assert_eq!(other["error"], "login_required");
    world.advance(SignedDuration::from_hours(1));
    let late = result(browser.send(&world, party.authorization(&[("prompt", "none")])).await);
    assert_eq!(late["error"], "login_required");
}

async fn without_the_setting_there_is_no_session(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    party.code(&mut browser, &[]).await;
    let response = browser.send(&world, party.authorization(&[("prompt", "none")])).await.assert(302);
    assert_eq!(returned(&response)["error"], "login_required");
    assert!(browser.0.iter().all(|(name, _)| !name.contains("session")), "{:?}", browser.0);
}
