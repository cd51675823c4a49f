//! Eligibility: which products a user can use, by number and by address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::{
    networks::Route,
    number_lookup::{Prefixes, Sources},
    ports::{AddressBook, Located, NumberSource, Resolved, SourceFault},
};
use serde_json::{Value, json};

use crate::{
    client::{Answer, Request},
    networks::world_with,
    on_both_stores,
    scripted_operator::ScriptedOperator,
    sim_register::SimRegister,
    world::{ProjectOf, World},
};

const ALL: [&str; 4] = ["secure_sna", "sim_swap", "reverse_sms", "discovery"];

/// A project that asks who can use what.
struct Curious<'a> {
    world: &'a World,
    project: ProjectOf,
    token: String,
}

impl<'a> Curious<'a> {
    async fn new(world: &'a World, mode: &str) -> Self {
        let project = world.project(mode, json!({"mode": mode})).await;
        let token = world.token(&project.client_id, &project.client_secret, "eligibility").await;
        Curious { world, project, token }
    }

    /// The number and the address are written as they are to stand in the path.
    async fn number(&self, number: &str) -> Answer {
        self.get(&format!("/v1/eligibility/phone-numbers/{number}")).await
    }

    async fn address(&self, address: &str) -> Answer {
        self.get(&format!("/v1/eligibility/device-ips/{address}")).await
    }

    async fn get(&self, path: &str) -> Answer {
        self.world.send(Request::get(path).bearer(&self.token)).await
    }

    async fn allow(&self, networks: &[(&str, &[&str])]) {
        let networks: Vec<Value> =
            networks.iter().map(|(id, products)| json!({"network_id": id, "products": products})).collect();
        let request = Request::put(&format!("{}/allowed-networks", self.project.path));
        self.world.manage(request.json(&json!({"networks": networks}))).await.assert(200);
    }
}

fn products(answer: Answer) -> Vec<String> {
    let answer = answer.assert(200).json();
    let products = answer["products"].as_array().unwrap().iter();
    products.map(|product| product["product_id"].as_str().unwrap().to_owned()).collect()
}

async fn simulated_numbers_do_as_their_last_digits_say(world: World) {
    let curious = Curious::new(&world, "sandbox").await;
    for (suffix, eligible) in [
        ("00", &ALL[..]),
        ("01", &ALL),
        ("99", &ALL),
        ("98", &ALL),
        ("97", &[]),
        ("96", &["sim_swap", "reverse_sms", "discovery"]),
        ("95", &ALL),
    ] {
        let literal = curious.number(&format!("+9901234567{suffix}")).await;
        let encoded = curious.number(&format!("%2B9901234567{suffix}")).await;
        assert_eq!(literal.body, encoded.body, "{suffix}");
        assert_eq!(curious.number(&format!("%2b9901234567{suffix}")).await.body, encoded.body, "{suffix}");
        assert_eq!(products(literal), eligible, "{suffix}");
    }
    assert_eq!(
        curious.number("+990123456796").await.assert(200).json(),
        json!({
            "network": {
                "network_id": "00101",
                "network_name": "Simulated operator",
                "network_aliases": [],
                "country_code": "ZZ",
                "dialing_code": "990",
            },
            "products": [
                {"product_id": "sim_swap", "product_name": "SIM Swap"},
                {"product_id": "reverse_sms", "product_name": "Reverse SMS"},
                {"product_id": "discovery", "product_name": "Discovery"},
            ],
        })
    );
    curious.number("+990123456794").await.assert_problem(404, "subscriber_not_found");
    let down = curious.number("+990123456793").await.assert_problem(503, "lookup_unavailable");
    assert!(down.header("retry-after").is_some());
}

/// A sandbox project sees only products that it has.
async fn a_sandbox_project_sees_its_own_products(world: World) {
    let curious = Curious::new(&world, "sandbox").await;
    for (enabled, number, address) in [
        (
            json!(["eligibility", "reverse_sms", "sim_swap"]),
            &["sim_swap", "reverse_sms"][..],
            &["sim_swap", "reverse_sms"][..],
        ),
        (json!(["eligibility", "secure_sna"]), &[], &["secure_sna"]),
        (json!(["eligibility"]), &[], &[]),
    ] {
        world.manage(Request::patch(&curious.project.path).json(&json!({"products": enabled}))).await.assert(200);
        assert_eq!(products(curious.number("+990123456796").await), number, "{enabled}");
        assert_eq!(products(curious.address("203.0.113.5").await), address, "{enabled}");
        assert_eq!(products(curious.address("203.0.113.200").await), [""; 0]);
        curious.number("+990123456794").await.assert_problem(404, "subscriber_not_found");
    }
}

async fn test_addresses_are_where_they_are_said_to_be(world: World) {
    let curious = Curious::new(&world, "sandbox").await;
    for (address, eligible) in [
        ("203.0.113.0", &ALL[..]),
        ("203.0.113.127", &ALL),
        ("::ffff:203.0.113.5", &ALL),
        ("%3A%3Affff%3A203.0.113.5", &ALL),
        ("::ffff:cb00:7105", &ALL),
        ("0:0:0:0:0:FFFF:203.0.113.5", &ALL),
        ("203.0.113.128", &[]),
    ] {
        assert_eq!(products(curious.address(address).await), eligible, "{address}");
    }
    curious.address("198.51.100.7").await.assert_problem(412, "not_mobile_ip");
    for unknown in ["192.0.2.1", "127.0.0.1", "10.0.0.1", "8.8.8.8", "2001:db8::1", "2a00::1", "::", "::1", "fe80::1"] {
        curious.address(unknown).await.assert_problem(404, "network_not_found");
    }
}

#[tokio::test]
async fn what_is_neither_number_nor_address_is_refused() {
    let world = World::sqlite().await;
    for mode in ["sandbox", "live"] {
        let curious = Curious::new(&world, mode).await;
        for number in [
            "990123456700",
            "447700900123",
            "00447700900123",
            "+0447700900123",
            "+44%207700%20900123",
            "%20+447700900123",
            "+447700900123%20",
            "++447700900123",
            "+4477009001234567",
            "%EF%BC%8B447700900123",
            "+%D9%A4%D9%A4%D9%A7%D9%A7",
            "tel:+447700900123",
            "+44-7700-900123",
            "+",
            "%2B",
            "+abc",
            "%FF",
            "+44%ZZ",
            "+447700900123%0A",
            "%252B447700900123",
        ] {
            curious.number(number).await.assert_problem(400, "phone_number_invalid");
        }
        for address in [
            "1.2.3",
            "1.2.3.4.5",
            "0x7f.1",
            "0x7f000001",
            "2130706433",
            "0177.0.0.1",
            "127.0.0.01",
            "999.1.1.1",
            "1.2.3.256",
            "fe80::1%25eth0",
            "fe80::1%eth0",
            "%5B::1%5D",
            ":::",
            "1:2:3:4:5:6:7",
            "::ffff:1.2.3",
            "203.0.113.5:80",
            "203.0.113.5%20",
            "localhost",
            "%FF",
            "%EF%BC%91.1.1.1",
        ] {
            curious.address(address).await.assert_problem(400, "ip_invalid");
        }
        // What some programs would read as another path is none of ours.
        for path in ["1.2.3.4/24", "1.2.3.4;x=y", "..", "%2e%2e", ""] {
            curious.address(path).await.assert_problem(404, "not_found");
        }
        curious.number("+990123456700?x=y").await.assert_problem(400, "bad_request");
        curious.address("203.0.113.5?ip=1.1.1.1").await.assert_problem(400, "bad_request");
    }
}

/// Three operators: one goes by two numbers, one is asked for nothing.
const THREE: &str = r#"
    [networks.23410]
    name = "O2"
    country = "GB"
    aliases = ["23411", "Tesco Mobile"]
    prefixes = ["+447700"]
    receivers = ["+447700900001"]

    [networks.23415]
    name = "Vodafone"
    country = "GB"
    prefixes = ["+447702"]

    [networks.27203]
    name = "Meteor"
    country = "IE"
    prefixes = ["+35385"]

    [connectors.kannel]
    kind = "sms_http"
    driver = "kannel"
    public_url = "http://127.0.0.1/southbound/sms/kannel"
    path_secret_env = "PATH_SECRET"
    receivers = ["+447700900001"]
"#;

/// A source that knows the numbers that a test tells it.
#[derive(Debug)]
struct Source(HashMap<&'static str, Result<Resolved, SourceFault>>);

#[async_trait]
impl NumberSource for Source {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn resolve(&self, number: &Msisdn) -> Result<Resolved, SourceFault> {
        self.0.get(number.as_str()).cloned().unwrap_or(Ok(Resolved::NoData))
    }
}

#[derive(Debug)]
struct Addresses(HashMap<IpAddr, Located>);

impl AddressBook for Addresses {
    fn locate(&self, address: IpAddr) -> Located {
        self.0.get(&address.to_canonical()).cloned().unwrap_or(Located::Unknown)
    }
}

const AT_O2: &str = "+447700900123";
const AT_VODAFONE: &str = "+447702900123";
/// Given out by O2, and taken to Vodafone.
const PORTED: &str = "+447700900124";
/// Of a brand on O2.
const OF_BRAND: &str = "+447700900125";
const NOBODYS: &str = "+447700900126";
/// Of an operator that is not configured.
const ELSEWHERE: &str = "+4915112345678";
/// Of a network that only a source which fails could name.
const UNSURE: &str = "+4915112345699";

async fn three_operators() -> World {
    let world = world_with(THREE).await;
    let on = |id: &str| Ok(Resolved::Network(id.parse().unwrap()));
    let known = HashMap::from([
        (PORTED, on("23415")),
        (OF_BRAND, on("23411")),
        (NOBODYS, Ok(Resolved::NoSubscriber)),
        (ELSEWHERE, on("26201")),
        (UNSURE, Err(SourceFault::Timeout)),
    ]);
    let engine = &world.node.engine;
    engine.number_lookup().replace(Sources {
        prefixes: Prefixes::Fallback,
        sources: vec![Arc::new(Source(known))],
        ..Sources::default()
    });
    let mobile = |id: &str| Located::Mobile(id.parse().unwrap());
    let addresses = [
        ("82.132.0.1", mobile("23410")),
        ("2a01:4c8::1", mobile("23411")),
        ("85.255.0.1", mobile("23415")),
        ("80.187.0.1", mobile("26201")),
        ("81.2.69.1", Located::NotMobile),
    ];
    let addresses = addresses.into_iter().map(|(address, located)| (address.parse().unwrap(), located));
    engine.networks().set_addresses(Box::new(Addresses(addresses.collect())));
    let networks = vec!["23410".parse().unwrap()];
    engine.networks().set_routes(vec![Route { networks, connector: ScriptedOperator::of(&world) }]);
    SimRegister::of(&world, &["23410", "23415"]);
    world
}

#[tokio::test]
async fn a_product_passes_three_gates() {
    let world = three_operators().await;
    let curious = Curious::new(&world, "live").await;
    curious.number("+990123456700").await.assert_problem(400, "phone_number_invalid");
    assert_eq!(products(curious.number(AT_O2).await), [""; 0], "nothing is allowed yet");
    let everything = [("23410", &ALL[..]), ("23415", &ALL), ("27203", &ALL)];
    curious.allow(&everything).await;
    for (number, eligible) in [
        (AT_O2, &ALL[..]),
        (AT_VODAFONE, &["sim_swap"]),
        (PORTED, &["sim_swap"]),
        (OF_BRAND, &ALL),
        ("+353851234567", &[]),
        (ELSEWHERE, &[]),
    ] {
        assert_eq!(products(curious.number(number).await), eligible, "{number}");
    }
    for (address, eligible) in [
        ("82.132.0.1", &ALL[..]),
        ("::ffff:82.132.0.1", &ALL),
        ("2a01:4c8::1", &ALL),
        ("2A01:04C8:0:0:0:0:0:1", &ALL),
        ("2a01%3A4c8%3A%3A1", &ALL),
        ("85.255.0.1", &["sim_swap"]),
    ] {
        assert_eq!(products(curious.address(address).await), eligible, "{address}");
    }
    curious.address("81.2.69.1").await.assert_problem(412, "not_mobile_ip");
    for unknown in ["80.187.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8"] {
        curious.address(unknown).await.assert_problem(404, "network_not_found");
    }
    curious.number(NOBODYS).await.assert_problem(404, "subscriber_not_found");
    curious.number("+442071838750").await.assert_problem(404, "subscriber_not_found");
    let unsure = curious.number(UNSURE).await.assert_problem(503, "lookup_unavailable");
    assert!(unsure.header("retry-after").is_some());

    curious.allow(&[("23410", &["discovery", "sim_swap"])]).await;
    assert_eq!(products(curious.number(AT_O2).await), ["sim_swap", "discovery"]);
    assert_eq!(products(curious.number(PORTED).await), [""; 0]);
    let request = Request::patch(&curious.project.path).json(&json!({"products": ["eligibility", "sim_swap"]}));
    world.manage(request).await.assert(200);
    assert_eq!(products(curious.number(AT_O2).await), ["sim_swap"], "the others are switched off");
}

#[tokio::test]
async fn the_network_is_told_as_it_is_configured() {
    let world = three_operators().await;
    let curious = Curious::new(&world, "live").await;
    let o2 = json!({
        "network_id": "23410",
        "network_name": "O2",
        "network_aliases": ["23411", "Tesco Mobile"],
        "country_code": "GB",
        "dialing_code": "44",
    });
    assert_eq!(curious.number(AT_O2).await.json()["network"], o2);
    assert_eq!(curious.number(OF_BRAND).await.json()["network"], o2, "a brand is told of by its network");
    assert_eq!(curious.address("2a01:4c8::1").await.json()["network"], o2);
    assert_eq!(curious.number(PORTED).await.json()["network"]["network_name"], "Vodafone");
    let irish = curious.number("+353851234567").await.json();
    assert_eq!((&irish["network"]["country_code"], &irish["network"]["dialing_code"]), (&json!("IE"), &json!("353")));
    let elsewhere = curious.number(ELSEWHERE).await.json();
    let expected = json!({"network_id": "26201", "country_code": "DE", "dialing_code": "49"});
    assert_eq!((&elsewhere["network"], &elsewhere["products"]), (&expected, &json!([])));
}

/// In service, says a source, on a network that this deployment does not connect to.
async fn a_number_on_a_network_that_is_none_of_ours_has_no_products(world: World) {
    let known = HashMap::from([
        (AT_O2, Ok(Resolved::OtherNetwork)),
        (ELSEWHERE, Ok(Resolved::Network("26201".parse().unwrap()))),
        (NOBODYS, Ok(Resolved::NoSubscriber)),
    ]);
    let sources: Vec<Arc<dyn NumberSource>> = vec![Arc::new(Source(known))];
    world.node.engine.number_lookup().replace(Sources { sources, ..Sources::default() });
    let curious = Curious::new(&world, "live").await;
    for (number, network) in [
        (AT_O2, json!({"country_code": "GB", "dialing_code": "44"})),
        (ELSEWHERE, json!({"network_id": "26201", "country_code": "DE", "dialing_code": "49"})),
    ] {
        // The second time from the cache of look-ups.
        for _ in 0..2 {
            assert_eq!(curious.number(number).await.assert(200).json(), json!({"network": network, "products": []}));
        }
    }
    for number in [NOBODYS, "+442071838750"] {
        curious.number(number).await.assert_problem(404, "subscriber_not_found");
    }
    let token = world.token(&curious.project.client_id, &curious.project.client_secret, "reverse_sms").await;
    let create = Request::post("/v1/number-verification/reverse-sms-checks").bearer(&token);
    world.send(create.json(&json!({"phone_number": AT_O2}))).await.assert_problem(400, "mno_not_supported");
}

#[tokio::test]
async fn eligibility_has_a_limit_of_its_own() {
    let world = World::configured(|config| config.rate_limits.eligibility = 2).await;
    let curious = Curious::new(&world, "sandbox").await;
    for left in ["1", "0"] {
        let answer = curious.number("+990123456700").await.assert(200);
        assert_eq!(answer.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(answer.header("x-ratelimit-remaining"), Some(left));
        assert_eq!(answer.header("cache-control"), Some("no-store"));
    }
    let refused = curious.address("203.0.113.5").await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    world.advance(SignedDuration::from_secs(1));
    curious.address("203.0.113.5").await.assert(200);
}

#[tokio::test]
async fn only_those_who_may_are_told() {
    let world = World::sqlite().await;
    let curious = Curious::new(&world, "sandbox").await;
    let ProjectOf { client_id, client_secret, .. } = &curious.project;
    let other_product = world.token(client_id, client_secret, "sim_swap").await;
    for path in ["/v1/eligibility/phone-numbers/+990123456700", "/v1/eligibility/device-ips/203.0.113.5"] {
        world.send(Request::get(path)).await.assert_problem(401, "unauthorized");
        let refused = world.send(Request::get(path).bearer(&other_product)).await.assert_problem(403, "forbidden");
        assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let refused = world.send(Request::new(method, path).bearer(&curious.token)).await;
            refused.assert_problem(405, "method_not_allowed");
        }
        let head = world.send(Request::new("HEAD", path).bearer(&curious.token)).await.assert(200);
        assert!(head.body.is_empty());
    }
    for gone in ["/coverage/v0.1/countries/GB", "/coverage/v0.1/device_ip", "/v1/eligibility", "/v2/eligibility"] {
        curious.get(gone).await.assert_problem(404, "not_found");
    }
}

on_both_stores!(
    simulated_numbers_do_as_their_last_digits_say,
    a_sandbox_project_sees_its_own_products,
    test_addresses_are_where_they_are_said_to_be,
    a_number_on_a_network_that_is_none_of_ours_has_no_products,
);
