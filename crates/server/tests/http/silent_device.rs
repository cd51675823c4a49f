//! The way of the device, step by step, and all that can go wrong on it.

use ringtrue_domain::lifecycle::ErrorCode;
use serde_json::json;
use tokio::{io::AsyncWriteExt, net::TcpStream};

use crate::{
    client::{self, Answer, Request},
    database::Database,
    on_both_databases, on_both_stores,
    scripted_operator::{AUTHORIZE, NAME, ScriptedOperator},
    seeker::{BOTH, DISCOVERY, SECURE_SNA, Seeker, callback, ticket},
    world::{World, eventually},
};

const BROWSER: &str = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";

#[tokio::test]
async fn only_the_url_that_was_given_opens_a_check() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let [check, other] = [seeker.create(json!({})).await, seeker.create(json!({})).await];
        let (way, token) = check.target.split_once("?t=").unwrap();
        let foreign = other.target.split_once("?t=").unwrap().1;
        for (target, status, code) in [
            (way.to_owned(), 404, "check_not_found"),
            (format!("{way}?t="), 404, "check_not_found"),
            (format!("{way}?t={foreign}"), 404, "check_not_found"),
            (format!("{way}?t={}", &token[1..]), 404, "check_not_found"),
            (format!("{way}?T={token}"), 404, "check_not_found"),
            (format!("{way}?t={token}&t={token}"), 400, "bad_request"),
            (format!("{way}?t=%zz"), 400, "bad_request"),
            (format!("{way}?t={token}&sim=447700900123"), 400, "phone_number_invalid"),
            (format!("{way}?t={token}&sim={}", "x".repeat(4_097)), 400, "bad_request"),
            (way.replace(&check.id, "not-a-uuid") + "?t=x", 400, "bad_request"),
            (way.replace(&check.id, "%FF") + "?t=x", 400, "bad_request"),
            (way.replace(&check.id, "01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b") + "?t=x", 404, "check_not_found"),
        ] {
            let answer = seeker.open(&target).await.assert_problem(status, code);
            assert!(!answer.text().contains(token), "{target}");
        }
        assert_eq!(seeker.get(&check.id).await.json()["status"], "ACCEPTED", "nothing has begun");
        // What others add to a URL does no harm.
        ticket(&seeker.open(&format!("{}&utm_source=x", check.target)).await);
    }
}

#[tokio::test]
async fn looking_begins_and_ends_nothing() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let check = seeker.create(json!({})).await;
    world.send(Request::new("HEAD", &check.target)).await.assert(200);
    assert_eq!(seeker.get(&check.id).await.json()["status"], "ACCEPTED");
    let ticket = seeker.depart(&check.target).await;
    world.send(Request::new("HEAD", &callback(&ticket))).await.assert(200);
    assert!(operator.seen().is_empty());
    seeker.come_back(&ticket).await.assert(200);
}

#[tokio::test]
async fn a_redirect_suits_a_small_client() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    let check = seeker.create(json!({"redirect_url": format!("https://app.example/{}", "x".repeat(2_000))})).await;
    let answer = seeker.open(&check.target).await.assert(302);
    assert!(answer.header("location").unwrap().starts_with(AUTHORIZE));
    let end = seeker.come_back(&ticket(&answer)).await.assert(302);
    for answer in [answer, end] {
        let named =
            |wanted: &str| answer.headers.iter().find(|(name, _)| name == wanted).map(|(_, value)| value.as_str());
        assert!(named("Location").unwrap().starts_with("https://"), "{:?}", answer.headers);
        assert_eq!(named("Content-Length"), Some("0"));
        assert_eq!(named("Cache-Control"), Some("no-store"));
        assert_eq!(named("Referrer-Policy"), Some("no-referrer"));
        let length: usize = answer.headers.iter().map(|(name, value)| name.len() + value.len() + 4).sum();
        assert!(length < 4 * 1024, "{length}");
    }
}

#[tokio::test]
async fn what_is_wrong_with_the_device_has_a_status_of_its_own() {
    let world = World::sqlite().await;
    ScriptedOperator::of(&world);
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let lonely = world.project("Without SMS", json!({"products": [path.scope]})).await;
        let lonely = Seeker::of(&world, path, lonely).await;
        for (device_ip, status, code) in [
            ("198.51.100.7", 412, "not_mobile_ip"),
            ("203.0.113.200", 400, "mno_not_supported"),
            ("192.0.2.9", 400, "mno_not_supported"),
            ("10.9.8.7", 409, "ip_mismatch"),
            ("2001:db8::1", 409, "ip_mismatch"),
        ] {
            // Discovery does not know whose the device would be.
            for (seeker, falls_back) in [(&seeker, path == SECURE_SNA), (&lonely, false)] {
                let check = seeker.create(json!({"device_ip": device_ip})).await;
                let body = seeker.open(&check.target).await.assert_problem(status, code).json();
                assert_eq!((&body["check_id"], &body["error"]), (&json!(check.id), &json!(code)));
                let description = body["error_description"].as_str().unwrap();
                assert_eq!(description.contains("Reverse SMS"), falls_back, "{description}");
                assert_eq!(seeker.get(&check.id).await.json()["error_code"], code);
                seeker.open(&check.target).await.assert_problem(409, "check_already_completed");
            }
        }
        for fine in ["127.0.0.1", "::ffff:127.0.0.1", "203.0.113.7"] {
            let check = seeker.create(json!({"device_ip": fine})).await;
            seeker.travel(&check.target).await;
        }
        world.manage(Request::patch(&lonely.project.path).json(&json!({"name": path.scope}))).await.assert(200);
    }
}

#[tokio::test]
async fn nobody_can_be_asked() {
    let world = World::configured(|config| config.sandbox.enabled = false).await;
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let check = seeker.create(json!({})).await;
        let body = seeker.open(&check.target).await.assert_problem(501, "mno_redirect_unsupported").json();
        assert_eq!((&body["check_id"], &body["error"]), (&json!(check.id), &json!("mno_redirect_unsupported")));
        let redirected = seeker.create(json!({"redirect_url": "https://app.example/"})).await;
        let answer = seeker.open(&redirected.target).await.assert(302);
        assert!(answer.header("location").unwrap().contains("&error=mno_redirect_unsupported&"));
    }
}

#[tokio::test]
async fn the_same_faults_are_told_in_another_way_on_return() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    for code in [ErrorCode::NotMobileIp, ErrorCode::IpMismatch, ErrorCode::MnoNotSupported, ErrorCode::InternalError] {
        let check = seeker.create(json!({})).await;
        operator.fail(code);
        let end = seeker.come_back(&seeker.depart(&check.target).await).await.assert(200).json();
        assert_eq!(end["error"], code.as_str());
    }
    // The operator sends the device back with an error of its own.
    let check = seeker.create(json!({})).await;
    let ticket = seeker.depart(&check.target).await;
    let back =
        format!("/southbound/camara/{NAME}/callback?error=access_denied&error_description=No+way&state={ticket}");
    assert_eq!(seeker.open(&back).await.assert(200).json()["error"], "mno_user_not_found");
    let last = operator.seen().pop().unwrap();
    assert!(last.query.contains(&("error_description".to_owned(), "No way".to_owned())), "{:?}", last.query);
}

async fn a_ticket_is_good_for_one_return(world: World) {
    let operator = ScriptedOperator::of(&world);
    for path in BOTH {
        let seeker = Seeker::new(&world, path).await;
        let check = seeker.create(json!({})).await;
        let first = seeker.depart(&check.target).await;
        let second = seeker.depart(&check.target).await;
        assert_ne!(first, second);
        let before = operator.seen().len();
        seeker.come_back(&first).await.assert_problem(400, "bad_request");
        let good = format!("/southbound/camara/{NAME}/callback");
        for target in [
            good.clone(),
            format!("{good}?code=x"),
            format!("{good}?state=&code=x"),
            format!("{good}?state={second}&state={second}&code=x"),
            format!("{good}?state={second}%00&code=x"),
            format!("{good}?state=%ff&code=x"),
            format!("{good}?state={second}&code=%"),
            format!("{good}?state={second}&code={}", "x".repeat(4_097)),
            format!("{good}?state={}&code=x", &second[1..]),
            format!("{good}?state={}&code=x", second.replace(|c: char| c.is_ascii_digit(), "x")),
            callback(&second).replace(NAME, "nobody"),
        ] {
            let answer = seeker.open(&target).await.assert_problem(400, "bad_request");
            assert!(answer.header("location").is_none() && !answer.text().contains(&second), "{target}");
        }
        assert_eq!(operator.seen().len(), before, "nobody was asked");
        let code = seeker.come_back(&second).await.assert(200).json()["code"].as_str().unwrap().to_owned();
        let again = seeker.come_back(&second).await.assert_problem(409, "check_already_completed");
        assert!(!again.text().contains(&code));
        seeker.redeem(&check.id, &code).await.assert(200);
    }
}

/// The device is gone before the operator has spoken; the check ends all the same.
#[tokio::test]
async fn a_device_that_hangs_up_loses_nothing() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let check = seeker.create(json!({})).await;
    let ticket = seeker.depart(&check.target).await;
    operator.fall_silent();
    operator.fail(ErrorCode::MnoServerError);
    let mut connection = TcpStream::connect(world.node.address).await.unwrap();
    connection.write_all(&Request::get(&callback(&ticket)).bytes(world.node.address)).await.unwrap();
    eventually("the operator is asked", async || operator.seen().len() == 1).await;
    drop(connection);
    operator.speak();
    eventually("the check has ended", async || seeker.get(&check.id).await.json()["status"] == "ERROR").await;
}

#[tokio::test]
async fn a_browser_is_told_by_a_page() {
    let world = World::sqlite().await;
    let operator = ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    let browse = async |target: &str| world.send(Request::get(target).header("Accept", BROWSER)).await;
    let check = seeker.create(json!({"reference_id": "<script>"})).await;
    let ticket = ticket(&browse(&check.target).await);
    let page = browse(&callback(&ticket)).await.assert(200);
    let text = page.text();
    let code = text.split_once("<code>").and_then(|(_, rest)| rest.split_once("</code>")).expect("a code").0;
    assert!(!text.contains("<script"), "{text}");

    operator.fail(ErrorCode::MnoTimeout);
    let failing = seeker.create(json!({})).await;
    let fault = browse(&callback(&seeker.depart(&failing.target).await)).await.assert(200);
    assert!(fault.text().contains("the operator did not answer in time"), "{}", fault.text());
    let elsewhere = seeker.create(json!({"device_ip": "198.51.100.7"})).await;
    let told = [
        (browse(&elsewhere.target).await, 412, "Not a mobile address"),
        (browse(&check.target).await, 409, "Check already completed"),
        (browse(&check.target.replace("?t=", "?t=x")).await, 404, "Check not found"),
        (browse(&callback("no-ticket")).await, 400, "Bad request"),
    ];
    for (answer, status, title) in &told {
        assert_eq!(answer.status, *status, "{title}");
        assert!(answer.text().contains(&format!("<h1>{title}</h1>")), "{}", answer.text());
    }
    for page in told.iter().map(|(page, ..)| page).chain([&page, &fault]) {
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        assert!(page.header("content-security-policy").unwrap().starts_with("default-src 'none'"));
        assert_eq!(page.header("cache-control"), Some("no-store"));
        assert_eq!(page.header("referrer-policy"), Some("no-referrer"));
        assert!(page.body.len() < 4 * 1024 && page.header("location").is_none());
    }
    seeker.redeem(&check.id, code).await.assert(200);
    // With a redirect URL, the app goes on from there.
    let redirected = seeker.create(json!({"redirect_url": "https://app.example/"})).await;
    browse(&callback(&seeker.depart(&redirected.target).await)).await.assert(302);
}

/// Mobile SDKs and Java's client ask for HTML, and read JSON.
async fn only_a_browsers_navigation_gets_a_page(world: World) {
    const SDK: (&str, &str) = ("Accept", "text/html,application/xhtml+xml,application/xml,*/*");
    const JAVA: (&str, &str) = ("Accept", "text/html, image/gif, image/jpeg, *; q=.2, */*; q=.2");
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, SECURE_SNA).await;
    for (header, is_page) in [
        (SDK, false),
        (JAVA, false),
        (("Accept", "text/html"), false),
        (("Accept", BROWSER), true),
        (("Sec-Fetch-Dest", "document"), true),
        (("Sec-Fetch-Dest", "empty"), false),
    ] {
        let open = async |target: &str| world.send(Request::get(target).header(header.0, header.1)).await;
        let check = seeker.create(json!({})).await;
        let end = open(&callback(&ticket(&open(&check.target).await))).await.assert(200);
        let ended = open(&check.target).await.assert(409);
        let elsewhere = seeker.create(json!({"device_ip": "198.51.100.7"})).await;
        let refused = open(&elsewhere.target).await.assert(412);
        for (answer, json) in
            [(&end, "application/json"), (&ended, "application/problem+json"), (&refused, "application/problem+json")]
        {
            let expected = if is_page { "text/html; charset=utf-8" } else { json };
            assert_eq!(answer.header("content-type"), Some(expected), "{header:?}");
        }
        if !is_page {
            assert_eq!(end.json()["check_id"], check.id);
        }
    }
}

/// One address serves thousands of subscribers: whoever has a check's token is counted to the check alone.
async fn visits_count_by_check_and_wrong_tokens_by_address(database: Database) {
    let world = World::with(database, |config| {
        (config.rate_limits.device, config.rate_limits.device_visits) = (3, 20);
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let from =
        async |address: &str, target: &str| world.send(Request::get(target).header("X-Forwarded-For", address)).await;
    let standing = |answer: &Answer| {
        ["x-ratelimit-limit", "x-ratelimit-remaining", "x-ratelimit-reset"]
            .map(|name| answer.header(name).unwrap().parse::<u32>().unwrap())
    };
    // Many devices behind one address.
    for _ in 0..10 {
        let check = seeker.create(json!({})).await;
        assert_eq!(standing(&from("203.0.113.7", &check.target).await.assert(302)), [20, 19, 120]);
    }
    // Somebody guesses from there, and somebody else from elsewhere.
    let check = seeker.create(json!({})).await;
    let (way, _) = check.target.split_once("?t=").unwrap();
    for (place, wrong) in ["?t=AAAAAAAAAAAAAAAAAAAAAA", "", "?t=x"].into_iter().enumerate() {
        let answer = from("203.0.113.7", &format!("{way}{wrong}")).await.assert_problem(404, "check_not_found");
        assert_eq!(standing(&answer), [3, 2 - u32::try_from(place).unwrap(), 1]);
    }
    for wrong in [format!("{way}?t=x"), way.replace(&check.id, "nonsense"), format!("{way}?t=x&t=y")] {
        let refused = from("203.0.113.7", &wrong).await.assert_problem(429, "too_many_requests");
        assert_eq!(refused.header("retry-after"), Some("1"));
    }
    from("203.0.113.8", &format!("{way}?t=x")).await.assert_problem(404, "check_not_found");
    // The right token still opens the check from the address of the guesses, twenty times in all.
    for visit in 0..20_u32 {
        let address = if visit % 2 == 0 { "203.0.113.7" } else { "203.0.113.9" };
        assert_eq!(standing(&from(address, &check.target).await.assert(302)), [20, 19 - visit, 120]);
    }
    for address in ["203.0.113.7", "203.0.113.10"] {
        let refused = from(address, &check.target).await.assert_problem(429, "too_many_requests");
        assert_eq!((standing(&refused), refused.header("retry-after")), ([20, 0, 120], Some("120")));
    }
    let other = seeker.create(json!({})).await;
    let ticket = ticket(&from("203.0.113.7", &other.target).await);
    seeker.come_back(&ticket).await.assert(200);
    world.advance(jiff::SignedDuration::from_secs(1));
    from("203.0.113.7", &format!("{way}?t=x")).await.assert_problem(404, "check_not_found");
    from("203.0.113.7", &check.target).await.assert_problem(429, "too_many_requests");
    world.advance(jiff::SignedDuration::from_secs(119));
    from("203.0.113.7", &check.target).await.assert_problem(410, "check_expired");
}

#[tokio::test]
async fn visits_count_by_check_on_sqlite() {
    visits_count_by_check_and_wrong_tokens_by_address(Database::sqlite().await).await;
}

#[tokio::test]
async fn visits_count_by_check_on_postgres() {
    visits_count_by_check_and_wrong_tokens_by_address(Database::postgres().await).await;
}

/// A `state` is good for one return. Returns with a used one are counted by address; those with a new one are not.
async fn used_states_are_counted_by_address(database: Database) {
    let world = World::with(database, |config| {
        config.rate_limits.device = 3;
        config.http.trusted_proxies = vec!["127.0.0.1/32".parse().unwrap()];
    })
    .await;
    ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let returned = async |ticket: &str, address: &str| {
        world.send(Request::get(&callback(ticket)).header("X-Forwarded-For", address)).await
    };
    let mut tickets = vec![];
    for _ in 0..6 {
        world.advance(jiff::SignedDuration::from_secs(1));
        tickets.push(seeker.depart(&seeker.create(json!({})).await.target).await);
    }
    for ticket in &tickets {
        let status = returned(ticket, "127.0.0.1").await.status;
        assert!(status != 429, "{status}");
    }
    for ticket in &tickets[..3] {
        let status = returned(ticket, "203.0.113.7").await.status;
        assert!([400, 409].contains(&status), "{status}");
    }
    let answer = returned(&tickets[3], "203.0.113.7").await.assert_problem(429, "too_many_requests");
    assert_eq!(answer.header("retry-after"), Some("1"));
    assert_ne!(returned(&tickets[3], "203.0.113.8").await.status, 429);
    // What cannot be a state is not looked up, and not counted.
    for _ in 0..10 {
        returned(&"x".repeat(64), "203.0.113.9").await.assert_problem(400, "bad_request");
    }
    let next = seeker.depart(&seeker.create(json!({})).await.target).await;
    assert_ne!(returned(&next, "203.0.113.7").await.status, 429, "a new one");
    world.advance(jiff::SignedDuration::from_secs(1));
    assert_ne!(returned(&tickets[3], "203.0.113.7").await.status, 429, "in the next second");
}

on_both_databases!(used_states_are_counted_by_address);

/// Who comes back, and with what, is told to the connector: but no headers, which anybody can write.
#[tokio::test]
async fn headers_count_at_their_own_door_only() {
    let world = World::configured(|config| {
        let listen = "127.0.0.1:0".parse().unwrap();
        let (public_url, trusted_proxies) = (None, vec![]);
        config.header_enrichment =
            Some(ringtrue_server::config::HeaderEnrichment { listen, public_url, trusted_proxies });
    })
    .await;
    let operator = ScriptedOperator::of(&world);
    let seeker = Seeker::new(&world, DISCOVERY).await;
    let check = seeker.create(json!({})).await;
    let enriched =
        |request: Request| request.header("X-MSISDN", "990123456700").header("X-Forwarded-For", "203.0.113.7");
    let ticket = seeker.depart(&check.target).await;
    let target = format!("/southbound/camara/{NAME}/callback?state={ticket}");
    world.send(enriched(Request::get(&target))).await.assert(200);
    let seen = operator.seen().pop().unwrap();
    assert_eq!((seen.headers, seen.query.len()), (vec![], 1));
    assert_eq!((seen.peer.ip(), seen.device, seen.departed_from), (seen.device, seen.device, seen.device));

    let door = world.node.enrichment_address.unwrap();
    let check = seeker.create(json!({"reference_id": "he"})).await;
    let ticket = seeker.depart(&check.target).await;
    let target = format!("/he/{NAME}/{ticket}");
    let looked = client::send(door, &Request::new("HEAD", &target)).await;
    assert_eq!((looked.status, operator.seen().len()), (200, 1));
    let end = client::send(door, &enriched(Request::get(&format!("{target}?code=x")))).await.assert(200).json();
    let seen = operator.seen().pop().unwrap();
    assert!(seen.query.is_empty() && seen.headers.contains(&("x-msisdn".to_owned(), b"990123456700".to_vec())));
    assert_eq!(end["reference_id"], "he");
    seeker.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200);
    // It is no other door.
    for target in [check.target.as_str(), "/livez", &callback(&ticket), "/he/x", "/he/x/y/z"] {
        client::send(door, &Request::get(target)).await.assert_problem(404, "not_found");
    }
    client::send(door, &Request::get(&target)).await.assert_problem(409, "check_already_completed");
    client::send(door, &Request::get("/he/scripted/x")).await.assert_problem(400, "bad_request");
    world.send(Request::get(&target)).await.assert_problem(404, "not_found");
}

on_both_stores!(a_ticket_is_good_for_one_return, only_a_browsers_navigation_gets_a_page);
