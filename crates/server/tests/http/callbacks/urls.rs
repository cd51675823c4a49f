//! Callback and redirect URLs of projects.

use jiff::SignedDuration;
use ringtrue_server::config::BaseUrl;
use ringtrue_server::config::HeaderEnrichmentSection;
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    operators::networks::configured,
    products::reverse_sms,
    receiver::Receiver,
    silent::silent_client::{DISCOVERY, SECURE_SNA},
    world::World,
};

/// Products that have a callback URL, and products that have a redirect URL.
const CALLBACKS: [&str; 3] = ["reverse_sms", "secure_sna", "discovery"];
const REDIRECTS: [&str; 2] = ["secure_sna", "discovery"];

/// URLs that are invalid in both modes.
fn malformed() -> Vec<String> {
    let mut urls: Vec<String> = [
        "",
        "/relative",
        "shop.example/x",
        "//shop.example/x",
        "https:shop.example",
        "https:/shop.example",
        "https://",
        "https:///x",
        "ftp://shop.example/",
        "javascript:alert(1)",
        "data:text/plain,x",
        "file:///etc/passwd",
        "gopher://shop.example/",
        "ws://shop.example/",
        "https://user@shop.example/",
        "https://user:secret@shop.example/",
        "https://@shop.example/",
        "https://shop.example/#part",
        "https://shop.example/a b",
        " https://shop.example/",
        "https://shop.example/\n",
        "https://shop.example/\t",
        "https://shop.example/\u{0}",
        "https://shop .example/",
        "https://shop.example./",
        "https://shop..example/",
        "https://shop.example:0/",
        "https://shop.example:99999/",
        "https://shop.example:/",
        "https://shop.example:x/",
        "https://shop.example/../x",
        "https://shop.example/%2e%2e/x",
        "https://shop.example/%zz",
        "https://shop.example\\@evil.example/",
        "https://[::1",
        "https://[fe80::1%25eth0]/",
        "https://999.1.1.1/",
        "https://1.2.3.4.5/",
        "https://shop.example/\u{fc}",
    ]
    .map(str::to_owned)
    .into();
    urls.push(format!("https://shop.example/{}", "x".repeat(2_048)));
    urls.push(format!("https://{}.example/", "x".repeat(64)));
    urls
}

/// Private addresses in various notations.
const PRIVATE: &[&str] = &[
    "127.0.0.1",
    "localhost",
    "LOCALHOST",
    "db.localhost",
    "2130706433",
    "0177.0.0.1",
    "0x7f000001",
    "0x7f.1",
    "127.1",
    "0.0.0.0",
    "0",
    "10.0.0.1",
    "172.16.0.1",
    "192.168.1.1",
    "169.254.169.254",
    "100.64.0.1",
    "198.18.0.1",
    "224.0.0.1",
    "240.0.0.1",
    "255.255.255.255",
    "[::1]",
    "[::]",
    "[::ffff:10.0.0.1]",
    "[::ffff:7f00:1]",
    "[64:ff9b::a9fe:a9fe]",
    "[2002:a00:1::]",
    "[fd00::]",
    "[fe80::1]",
    "[ff02::1]",
    "[::127.0.0.1]",
    "127.0.0.1.nip.io",
    "10-0-0-1.nip.io",
    "169.254.169.254.sslip.io",
    "\u{ff11}\u{ff12}\u{ff17}.0.0.1",
];

async fn malformed_urls_are_rejected_in_both_modes(world: World) {
    for mode in ["sandbox", "live"] {
        for url in malformed() {
            let response = set(&world, mode, "reverse_sms", "callback_url", &url).await;
            assert_eq!((response.status, response.code().as_str()), (400, "callback_url_invalid"), "{mode}: {url:?}");
            let response = set(&world, mode, "discovery", "redirect_url", &url).await;
            assert_eq!((response.status, response.code().as_str()), (400, "redirect_url_invalid"), "{mode}: {url:?}");
        }
    }
}

/// The `detail` of the error names the URL schemes that the project may use.
#[tokio::test]
async fn errors_name_the_accepted_schemes() {
    let world = World::sqlite().await;
    for (mode, accepted) in [("sandbox", "`https` nor `http`"), ("live", "is not `https`")] {
        for (product, member) in [("reverse_sms", "callback_url"), ("discovery", "redirect_url")] {
            let detail = set(&world, mode, product, member, "ftp://shop.example/").await.detail();
            assert!(detail.contains(accepted), "{mode}: {detail}");
            let detail = set(&world, mode, product, member, "shop.example/x").await.detail();
            assert_eq!(detail.contains("`http://`"), mode == "sandbox", "{detail}");
        }
    }
}

#[tokio::test]
async fn callback_urls_in_private_networks_are_rejected() {
    let world = World::sqlite().await;
    for mode in ["sandbox", "live"] {
        for host in PRIVATE {
            for url in [format!("https://{host}/x"), format!("https://{host}:8443/x")] {
                let response = set(&world, mode, "secure_sna", "callback_url", &url).await;
                assert_eq!((response.status, response.code().as_str()), (400, "callback_url_invalid"), "{mode}: {url}");
                assert!(!response.detail().contains(host), "the error does not echo the host");
            }
        }
    }
}

/// Tests the host names and the addresses of all our listeners.
#[tokio::test]
async fn callback_urls_of_our_own_endpoints_are_rejected() {
    const WEBHOOK: &str = r#"
        [connectors.twilio]
        kind = "sms_http"
        driver = "twilio"
        public_url = "https://sms.ours.example/southbound/sms/twilio"
        auth_token_env = "AUTH_TOKEN"
        receivers = ["+447700900001"]
    "#;
    let webhook = configured(WEBHOOK);
    let world = World::configured(|config| {
        (config.ingress, config.connectors) = (webhook.ingress, webhook.connectors);
        config.base_url = Some(BaseUrl::parse("https://8.8.8.8").unwrap());
        config.header_enrichment = Some(HeaderEnrichmentSection {
            listen: ([127, 0, 0, 1], 0).into(),
            public_url: Some(BaseUrl::parse("http://he.ours.example").unwrap()),
            trusted_proxies: vec![],
        });
    })
    .await;
    for host in ["8.8.8.8", "134744072", "he.ours.example", "HE.ours.example:81", "sms.ours.example"] {
        let response = set(&world, "live", "reverse_sms", "callback_url", &format!("https://{host}/x")).await;
        assert_eq!((response.status, response.code().as_str()), (400, "callback_url_invalid"), "{host}");
    }
    for host in ["8.8.4.4", "ours.example"] {
        set(&world, "live", "reverse_sms", "callback_url", &format!("https://{host}/x")).await.assert(201);
    }
}

/// The device, not the server, follows the redirect, so the target is not restricted.
#[tokio::test]
async fn redirect_urls_may_use_any_host() {
    let world = World::sqlite().await;
    for host in ["10.0.0.1", "localhost", "[::1]", "app.internal"] {
        let url = format!("https://{host}/x");
        assert_eq!(
            kept(&set(&world, "live", "secure_sna", "redirect_url", &url).await, "secure_sna", "redirect_url"),
            url
        );
    }
}

/// Only the origin is normalised; path and query are part of the signature.
async fn valid_urls_are_stored(world: World) {
    for (given, stored) in [
        ("https://shop.example/hook", "https://shop.example/hook"),
        ("https://shop.example", "https://shop.example/"),
        ("https://shop.example?x=1", "https://shop.example/?x=1"),
        ("HTTPS://Shop.Example:443/Hook", "https://shop.example/Hook"),
        ("https://shop.example:8443/hook?a=b&c=%2F", "https://shop.example:8443/hook?a=b&c=%2F"),
        ("https://b\u{fc}cher.example/", "https://xn--bcher-kva.example/"),
        ("https://8.8.8.8/", "https://8.8.8.8/"),
        ("https://134744072/", "https://8.8.8.8/"),
        ("https://[2606:4700::1111]/", "https://[2606:4700::1111]/"),
    ] {
        for mode in ["sandbox", "live"] {
            for product in CALLBACKS {
                let response = set(&world, mode, product, "callback_url", given).await;
                assert_eq!(kept(&response, product, "callback_url"), stored, "{mode}");
            }
            for product in REDIRECTS {
                let response = set(&world, mode, product, "redirect_url", given).await;
                assert_eq!(kept(&response, product, "redirect_url"), stored, "{mode}");
            }
        }
    }
    let longest = format!("https://shop.example/{}", "x".repeat(2_048 - "https://shop.example/".len()));
    assert_eq!(
        kept(&set(&world, "live", "discovery", "callback_url", &longest).await, "discovery", "callback_url"),
        longest
    );
}

async fn plain_http_is_allowed_in_sandbox_only(world: World) {
    let url = "http://shop.example/hook";
    for product in CALLBACKS {
        assert_eq!(kept(&set(&world, "sandbox", product, "callback_url", url).await, product, "callback_url"), url);
        set(&world, "live", product, "callback_url", url).await.assert_problem(400, "callback_url_invalid");
    }
    for product in REDIRECTS {
        assert_eq!(kept(&set(&world, "sandbox", product, "redirect_url", url).await, product, "redirect_url"), url);
        set(&world, "live", product, "redirect_url", url).await.assert_problem(400, "redirect_url_invalid");
    }
}

#[tokio::test]
async fn configuration_can_allow_plain_http() {
    let world = World::configured(|config| config.callbacks.allow_http = true).await;
    let url = "http://shop.example/hook";
    assert_eq!(kept(&set(&world, "live", "discovery", "callback_url", url).await, "discovery", "callback_url"), url);
}

#[tokio::test]
async fn configuration_can_allow_private_addresses() {
    let world = World::configured(|config| {
        config.callbacks.allowed_addresses = vec!["10.20.0.0/16".parse().unwrap()];
        config.callbacks.allowed_hosts = vec!["hooks.localhost".to_owned()];
    })
    .await;
    for (host, allowed) in [
        ("10.20.30.40", true),
        ("[::ffff:10.20.30.40]", true),
        ("10.21.0.1", false),
        ("hooks.localhost", true),
        ("HOOKS.localhost", true),
        ("other.localhost", false),
        ("127.0.0.1", false),
    ] {
        let response = set(&world, "live", "reverse_sms", "callback_url", &format!("https://{host}/")).await;
        assert_eq!(response.status, if allowed { 201 } else { 400 }, "{host}");
    }
}

/// A callback to ourselves would be a loop and bypass access rules.
#[tokio::test]
async fn callback_urls_of_our_own_addresses_are_rejected() {
    let world =
        World::configured(|config| config.base_url = Some(BaseUrl::parse("https://eu.verify.example").unwrap())).await;
    for url in
        ["https://eu.verify.example/oauth2/token", "https://EU.Verify.Example:8443/", "https://eu.verify.example"]
    {
        let response = set(&world, "live", "reverse_sms", "callback_url", url).await;
        response.assert_problem(400, "callback_url_invalid");
    }
}

/// `ringtrue dev` also allows callbacks to local addresses, but must not send callbacks to itself.
#[tokio::test]
async fn own_listener_is_rejected_even_in_an_allowed_range() {
    let world = World::configured(|config| {
        config.callbacks.allowed_addresses = vec!["127.0.0.0/8".parse().unwrap(), "::1/128".parse().unwrap()];
    })
    .await;
    let port = world.node.address.port();
    for (authority, allowed) in [
        (format!("127.0.0.1:{port}"), false),
        (format!("localhost:{port}"), false),
        (format!("[::ffff:127.0.0.1]:{port}"), false),
        ("127.0.0.1:9099".to_owned(), true),
        ("localhost:9099".to_owned(), true),
    ] {
        let url = format!("http://{authority}/southbound/sms/kannel");
        let response = set(&world, "sandbox", "reverse_sms", "callback_url", &url).await;
        if allowed { drop(response.assert(201)) } else { drop(response.assert_problem(400, "callback_url_invalid")) }
    }
}

async fn going_live_validates_urls_again(world: World) {
    for (product, member, code) in [
        ("reverse_sms", "callback_url", "callback_url_invalid"),
        ("secure_sna", "callback_url", "callback_url_invalid"),
        ("callbacks", "url", "callback_url_invalid"),
        ("discovery", "redirect_url", "redirect_url_invalid"),
    ] {
        let configuration = json!({product: {member: "http://shop.example/hook"}});
        let project = world.project(&format!("{product} {member}"), json!({"configuration": configuration})).await;
        let forced = |path: &str| format!("{path}?force=true");
        let patch = async |body: Value| world.manage(Request::patch(&forced(&project.path)).json(&body)).await;

        let response = patch(json!({"mode": "live"})).await.assert_problem(400, code);
        assert!(response.detail().contains(&format!("/configuration/{product}/{member}")), "{}", response.detail());
        assert_eq!(world.manage(Request::get(&project.path)).await.json()["mode"], "sandbox");

        patch(json!({"name": format!("still {product} {member}")})).await.assert(200);
        let with_https = json!({"mode": "live", "configuration": {product: {member: "https://shop.example/hook"}}});
        patch(with_https).await.assert(200);
        patch(json!({"configuration": configuration})).await.assert_problem(400, code);

        let other = world.project(&format!("other {product} {member}"), json!({"configuration": configuration})).await;
        let body = json!({"mode": "live", "configuration": {product: {member: null}}});
        world.manage(Request::patch(&forced(&other.path)).json(&body)).await.assert(200);
    }
}

/// A check's own URL comes first, then the project's URL for its product, then the project's URL for all products.
async fn most_specific_callback_url_is_used(world: World) {
    let mut receiver = Receiver::start().await;
    let callbacks = json!({"url": receiver.url("/all")});
    let shared = world.project("Shared", json!({"configuration": {"callbacks": callbacks}})).await;
    let own = |product: &str| json!({"callback_url": receiver.url(&format!("/{product}"))});
    let [reverse_sms, secure_sna, discovery] = CALLBACKS.map(own);
    let configuration = json!({
        "callbacks": callbacks, "reverse_sms": reverse_sms, "secure_sna": secure_sna, "discovery": discovery,
    });
    let overridden = world.project("Overridden", json!({"configuration": configuration})).await;
    for (product, path, body) in [
        ("reverse_sms", reverse_sms::CHECKS, json!({"phone_number": reverse_sms::EVEN})),
        ("secure_sna", SECURE_SNA.checks, SECURE_SNA.body()),
        ("discovery", DISCOVERY.checks, DISCOVERY.body()),
    ] {
        let product_target = format!("/{product}");
        for (project, requested, target) in [
            (&shared, None, "/all"),
            (&overridden, None, product_target.as_str()),
            (&shared, Some("/request"), "/request"),
            (&overridden, Some("/request"), "/request"),
        ] {
            let token = world.token(&project.client_id, &project.client_secret, product).await;
            let mut body = body.clone();
            if let Some(requested) = requested {
                body["callback_url"] = json!(receiver.url(requested));
            }
            let check = world.send(Request::post(path).bearer(&token).json(&body)).await.assert(201).json();
            world.advance(SignedDuration::from_mins(5));
            let callback = receiver.next().await;
            assert_eq!((callback.target.as_str(), &callback.json()["check_id"]), (target, &check["check_id"]));
        }
    }
}

on_both_stores!(
    most_specific_callback_url_is_used,
    malformed_urls_are_rejected_in_both_modes,
    valid_urls_are_stored,
    plain_http_is_allowed_in_sandbox_only,
    going_live_validates_urls_again,
);

/// Creates a project with one URL set, and returns the response.
async fn set(world: &World, mode: &str, product: &str, member: &str, url: &str) -> HttpResponse {
    let any_name = u64::from_be_bytes(world.node.engine.entropy().bytes()).to_string();
    let body = json!({"name": any_name, "mode": mode, "configuration": {product: {member: url}}});
    let path = format!("{}/projects", world.acme.path());
    let response = world.manage(Request::post(&path).json(&body)).await;
    if response.status == 400 {
        let pointer = format!("`/configuration/{product}/{member}`: ");
        assert!(response.detail().starts_with(&pointer), "{}", response.detail());
    }
    response
}

#[track_caller]
fn kept(response: &HttpResponse, product: &str, member: &str) -> String {
    assert_eq!(response.status, 201, "{}", response.text());
    response.json()["configuration"][product][member].as_str().unwrap().to_owned()
}
