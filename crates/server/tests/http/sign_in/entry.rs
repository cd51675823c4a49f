//! Number entry, and how a sign-in ends.

use jiff::SignedDuration;

use super::*;
use crate::{
    oauth::login_throttle::behind_a_proxy, on_both_stores, silent::scripted_operator::ScriptedOperator,
    verifications::page::navigation,
};

const ANDROID: &str = "Mozilla/5.0 (Linux; Android 15; Pixel 9)";

on_both_stores!(
    wrong_numbers_are_named_on_the_page,
    wrong_number_leads_back_to_the_entry,
    every_failure_returns_to_the_client,
    discovery_finds_the_number,
    sim_change_is_reported_on_request,
    late_sign_ins_expire,
);

async fn wrong_numbers_are_named_on_the_page(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[("ui_locales", "de")]).await;
    let shown = browser.send(&world, Request::get(&page)).await.assert(200).text();
    assert!(shown.contains("lang=\"de\"") && shown.contains("data-state=\"ask_number\""));
    for number in ["", "+", "+99012", "07700 900123", "abc", "+990123456794", "+990123456793", &"1".repeat(200)] {
        let response = party.submit(&mut browser, &page, number).await.assert(422);
        assert!(response.text().contains("id=\"problem\""), "{number}");
    }
    // A number as people write it.
    for number in ["+990 123-456 700", "00990 123 456700"] {
        let accepted = party.submit(&mut browser, &page, number).await.assert(303);
        assert!(party.path_of(&accepted).starts_with("/v/"), "{number}");
    }
}

/// On Wi-Fi, Secure SNA needs an Android phone and an operator that accepts tokens of wallets at present.
#[tokio::test]
async fn phones_on_wifi_use_their_wallet() {
    let world = World::configured(behind_a_proxy).await;
    let operator = ScriptedOperator::with_wallet(&world);
    let party = Party::with_methods(&world, json!({}), &["secure_sna", "reverse_sms"]).await;
    let on_wifi = |request: Request| request.header("X-Forwarded-For", "198.51.100.7");
    let mut browser = Browser::default();
    let mut hosted_page = async |user_agent: &str| {
        let page = party.begin(&mut browser, &[]).await;
        let form = Request::post(&format!("{page}/number")).header("Sec-Fetch-Site", "same-origin");
        let form = on_wifi(form).header("User-Agent", user_agent).form(&[("phone_number", EVEN), ("country", "")]);
        let hosted = party.path_of(&browser.send(&world, form).await.assert(303));
        browser.send(&world, on_wifi(navigation(&hosted)).header("User-Agent", user_agent)).await.assert(200).text()
    };
    for other in ["Mozilla/5.0 (iPhone; CPU iPhone OS 26_0 like Mac OS X)", "Mozilla/5.0 (X11; Linux x86_64)"] {
        let page = hosted_page(other).await;
        assert!(!page.contains("data-wallet=") && page.contains("sms:"), "{page}");
    }
    let page = hosted_page(ANDROID).await;
    assert!(page.contains(r#"<div id="wallet" hidden>"#), "{page}");
    operator.break_circuit();
    let page = hosted_page(ANDROID).await;
    assert!(!page.contains("data-wallet=") && page.contains("sms:"), "{page}");
}

async fn wrong_number_leads_back_to_the_entry(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    let hosted = party.path_of(&party.submit(&mut browser, &page, ODD).await.assert(303));
    let own = |path: &str| Request::post(path).header("Sec-Fetch-Site", "same-origin");
    // The page of the sign-in leads to the verification, until the user says that the number is wrong.
    let there = browser.send(&world, Request::get(&page)).await.assert(303);
    assert_eq!(party.path_of(&there), hosted);
    browser.send(&world, own(&format!("{hosted}/end")).form(&[("reason", "wrong_number")])).await.assert(303);
    let back = browser.send(&world, Request::get(&format!("{page}/return?error=wrong_number"))).await.assert(303);
    assert_eq!(party.path_or_self(&back), page);
    let shown = browser.send(&world, Request::get(&page)).await.assert(200).text();
    assert!(shown.contains("data-state=\"ask_number\""));
    let hosted = party.path_of(&party.submit(&mut browser, &page, EVEN).await.assert(303));
    let back = party.text(&mut browser, &hosted, EVEN).await;
    assert!(returned(&browser.send(&world, Request::get(&back)).await.assert(302)).contains_key("code"));
}

async fn every_failure_returns_to_the_client(world: World) {
    let party = Party::new(&world).await;
    let own = |path: &str| Request::post(path).header("Sec-Fetch-Site", "same-origin");
    // Cancelled at the entry.
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    let cancelled = browser.send(&world, own(&format!("{page}/cancel")).form(&[])).await.assert(303);
    assert_eq!(returned(&cancelled)["error"], "access_denied");
    // A reload returns again, and nothing can be entered any more.
    let again = browser.send(&world, Request::get(&page)).await.assert(303);
    assert_eq!(returned(&again)["error"], "access_denied");
    // Given up at the hosted page.
    let page = party.begin(&mut browser, &[]).await;
    let hosted = party.path_of(&party.submit(&mut browser, &page, EVEN).await.assert(303));
    browser.send(&world, own(&format!("{hosted}/end")).form(&[("reason", "give_up")])).await.assert(303);
    let back = browser.send(&world, Request::get(&format!("{page}/return?error=given_up"))).await.assert(302);
    let result = returned(&back);
    assert_eq!((&result["error"], &result["state"]), (&json!("access_denied"), &json!("s t&te")));
    // A text from another number, twice.
    let page = party.begin(&mut browser, &[]).await;
    let hosted = party.path_of(&party.submit(&mut browser, &page, EVEN).await.assert(303));
    let forged = browser.send(&world, Request::get(&format!("{page}/return?code=forged"))).await.assert(303);
    assert_eq!(party.path_or_self(&forged), page, "a forged code changes nothing");
    assert!(browser.send(&world, Request::get(&hosted)).await.assert(200).text().contains("sms:"));
}

async fn discovery_finds_the_number(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    let with_sim = format!("{page}?sim=%2B990123456700");
    let shown = browser.send(&world, Request::get(&with_sim)).await.assert(200).text();
    assert!(shown.contains("/discover"), "{shown}");
    let discover =
        Request::post(&format!("{page}/discover?sim=%2B990123456700")).header("Sec-Fetch-Site", "same-origin");
    let leaving = browser.send(&world, discover.form(&[])).await.assert(200).text();
    let location = leaving
        .split("data-operator=\"")
        .nth(1)
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .replace("&amp;", "&")
        .replace("&#38;", "&");
    let mut path = location.strip_prefix(&world.node.base_url).expect("the simulated operator").to_owned();
    // The simulated operator sends the browser on until it returns to the client.
    for _ in 0..10 {
        if path.starts_with("/signin/") {
            // Wrong codes are counted once each: two leave one attempt.
            let forged = format!("{}?code=forged", path.split('?').next().unwrap());
            for _ in 0..2 {
                let refused = browser.send(&world, Request::get(&forged)).await.assert(303);
                assert_eq!(party.path_or_self(&refused), page);
            }
        }
        let response = browser.send(&world, Request::get(&path)).await;
        assert!([302, 303].contains(&response.status), "{path}: {} {}", response.status, response.text());
        let location = response.header("location").unwrap();
        if location.starts_with(CALLBACK) {
            let result = returned(&response);
            let tokens = party.redeem(result["code"].as_str().unwrap(), &[]).await.assert(200).json();
            let claims = party.claims(tokens["id_token"].as_str().unwrap()).await;
            assert_eq!((&claims["acr"], &claims["phone_number"]), (&json!("urn:ringtrue:silent"), &json!(EVEN)));
            assert!(!claims.contains_key("amr"));
            return;
        }
        path = location.replace(&world.node.base_url, "");
    }
    panic!("the browser did not return");
}

async fn sim_change_is_reported_on_request(world: World) {
    let party = Party::new(&world).await;
    let code = party.code(&mut Browser::default(), &[("scope", "openid sim_swap")]).await;
    let tokens = party.redeem(&code, &[]).await.assert(200).json();
    assert_eq!(tokens["scope"], "openid sim_swap");
    assert_eq!(party.claims(tokens["id_token"].as_str().unwrap()).await["sim_change"], false);
}

async fn late_sign_ins_expire(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    world.advance(SignedDuration::from_mins(16));
    let shown = browser.send(&world, Request::get(&page)).await.assert(200).text();
    assert!(shown.contains("data-state=\"ended\""), "{shown}");
    let refused = party.submit(&mut browser, &page, EVEN).await.assert(303);
    assert_eq!(party.path_or_self(&refused), page);
}
