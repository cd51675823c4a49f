//! Requests of attackers, and of clients that are not what they say.

use super::*;
use crate::on_both_stores;

on_both_stores!(
    unproven_requests_get_a_page,
    proven_requests_get_errors_by_redirect,
    another_browser_neither_finishes_nor_gets_a_code,
    forms_of_other_sites_are_refused,
    the_page_is_not_framed_and_not_stored,
);

async fn unproven_requests_get_a_page(world: World) {
    let party = Party::new(&world).await;
    for changes in [
        &[("client_id", "")][..],
        &[("client_id", "prj_unknown")],
        &[("client_id", &world.acme.client_id)],
        &[("redirect_uri", "")],
        &[("redirect_uri", "https://evil.example/callback?tenant=1")],
        &[("redirect_uri", "https://id.example/callback")],
        &[("redirect_uri", "https://id.example/callback?tenant=1&x=2")],
        &[("redirect_uri", "https://id.example/callback?tenant=1/../x")],
        &[("redirect_uri", "https://id.example.evil.example/callback?tenant=1")],
        &[("redirect_uri", "HTTPS://id.example/callback?tenant=1")],
        &[("request_uri", "urn:ietf:params:oauth:request_uri:unknown")],
    ] {
        let response = client::send(world.node.address, &party.authorization(changes)).await.assert(400);
        assert_eq!(response.header("location"), None, "{changes:?}");
        let page = response.text();
        assert!(page.starts_with("<!doctype html>") && !page.contains("evil.example"), "{changes:?}");
    }
    // A repeated parameter that proves the client is no proof.
    let twice = format!("{}&client_id=x", party.authorization(&[]).target);
    client::send(world.node.address, &Request::get(&twice)).await.assert(400);
}

async fn proven_requests_get_errors_by_redirect(world: World) {
    let party = Party::new(&world).await;
    for (changes, error) in [
        (&[("response_type", "")][..], "invalid_request"),
        (&[("response_type", "token")], "unsupported_response_type"),
        (&[("scope", "phone")], "invalid_scope"),
        (&[("prompt", "none")], "login_required"),
        (&[("prompt", "none login")], "invalid_request"),
        (&[("max_age", "x")], "invalid_request"),
        (&[("code_challenge", VERIFIER), ("code_challenge_method", "plain")], "invalid_request"),
        (&[("request_uri", "https://evil.example/request.jwt")], "request_uri_not_supported"),
        (&[("request", "eyJhbGciOiJub25lIn0.e30.")], "request_not_supported"),
        (&[("request", "x.y.z")], "invalid_request_object"),
        (&[("registration", "{}")], "registration_not_supported"),
        (&[("id_token_hint", "x.y.z")], "invalid_request"),
    ] {
        let response = client::send(world.node.address, &party.authorization(changes)).await.assert(302);
        let result = returned(&response);
        assert_eq!(result["error"], error, "{changes:?}");
        assert_eq!((&result["state"], &result["iss"]), (&json!("s t&te"), &json!(world.node.base_url)), "{changes:?}");
        assert_eq!(response.header("referrer-policy"), Some("no-referrer"));
    }
    // Unknown parameters, claims and values of `display` are ignored, and requests may be posted.
    let extra =
        [("extra", "foobar"), ("claims", "{}"), ("display", "popup"), ("acr_values", "1 2"), ("claims_locales", "se")];
    let mut browser = Browser::default();
    party.begin(&mut browser, &extra).await;
    let query = party.authorization(&[]).target;
    let fields: Vec<_> = form_urlencoded::parse(query.split_once('?').unwrap().1.as_bytes()).into_owned().collect();
    let fields: Vec<_> = fields.iter().map(|(name, value)| (name.as_str(), value.as_str())).collect();
    let posted = client::send(world.node.address, &Request::post("/oauth2/authorize").form(&fields)).await.assert(303);
    assert!(party.path_of(&posted).starts_with("/signin/"));
    // A project without the product is an unauthorised client.
    let products = json!({"products": ["verification", "reverse_sms"]});
    world.manage(Request::patch(&party.project.path).json(&products)).await.assert(200);
    let response = client::send(world.node.address, &party.authorization(&[])).await.assert(302);
    assert_eq!(returned(&response)["error"], "unauthorized_client");
}

async fn another_browser_neither_finishes_nor_gets_a_code(world: World) {
    let party = Party::new(&world).await;
    let mut attacker = Browser::default();
    let page = party.begin(&mut attacker, &[]).await;
    // The victim opens the link of the attacker's sign-in: nothing can be entered there.
    let mut victim = Browser::default();
    let shown = victim.send(&world, Request::get(&page)).await.assert(200).text();
    assert!(shown.contains("data-state=\"other_browser\""), "{shown}");
    let refused = party.submit(&mut victim, &page, EVEN).await.assert(303);
    assert_eq!(party.path_or_self(&refused), page);
    // The attacker opens the return of the victim's sign-in: no code comes out of it.
    let page = party.begin(&mut victim, &[]).await;
    let hosted = party.path_of(&party.submit(&mut victim, &page, EVEN).await.assert(303));
    let back = party.text(&mut victim, &hosted, EVEN).await;
    let refused = attacker.send(&world, Request::get(&back)).await.assert(303);
    assert_eq!(party.path_or_self(&refused), page);
    // The victim finishes, also after a reload, with the same code.
    let code = returned(&victim.send(&world, Request::get(&back)).await.assert(302))["code"].clone();
    let reloaded = victim.send(&world, Request::get(&page)).await.assert(303);
    assert_eq!(returned(&reloaded)["code"], code);
    let shown = attacker.send(&world, Request::get(&page)).await.assert(200).text();
    assert!(shown.contains("data-state=\"other_browser\"") && !shown.contains(code.as_str().unwrap()));
}

async fn forms_of_other_sites_are_refused(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    for action in ["number", "discover", "cancel"] {
        let request = Request::post(&format!("{page}/{action}")).header("Sec-Fetch-Site", "cross-site");
        browser.send(&world, request.form(&[("phone_number", EVEN)])).await.assert(403);
        let request = Request::post(&format!("{page}/{action}")).header("Origin", "https://evil.example");
        browser.send(&world, request.form(&[("phone_number", EVEN)])).await.assert(403);
    }
    // Tokens of others are not known.
    for path in ["/signin/x", "/signin/AAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAAA", "/signin/%3Cscript%3E"] {
        let page = client::send(world.node.address, &Request::get(path)).await.assert(404).text();
        assert!(page.contains("data-state=\"unknown\"") && !page.contains("<script>alert"), "{path}");
    }
}

async fn the_page_is_not_framed_and_not_stored(world: World) {
    let party = Party::new(&world).await;
    let mut browser = Browser::default();
    let page = party.begin(&mut browser, &[]).await;
    let response = browser.send(&world, Request::get(&page)).await.assert(200);
    let policy = response.header("content-security-policy").unwrap();
    assert!(policy.contains("frame-ancestors 'none'") && policy.contains("form-action 'self' https://id.example"));
    assert_eq!(response.header("cache-control"), Some("no-store"));
    assert_eq!(response.header("referrer-policy"), Some("same-origin"));
    // The token of the page is not in its links to other sites, and the number of a hint only in the field.
    let hinted = party.begin(&mut browser, &[("login_hint", "tel:+990123456700")]).await;
    let text = browser.send(&world, Request::get(&hinted)).await.assert(200).text();
    assert!(text.contains("value=\"+990123456700\"") || text.contains("value=\"&#43;990123456700\""), "{text}");
}
