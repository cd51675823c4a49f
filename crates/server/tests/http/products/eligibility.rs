//! Eligibility by number and by address.

use std::{collections::HashMap, net::IpAddr, sync::Arc};

use async_trait::async_trait;
use jiff::SignedDuration;
use ringtrue_domain::phone::Msisdn;
use ringtrue_engine::{
    lookups::{
        networks::SilentNetworkRoute,
        number_lookup::{LookupSources, PrefixPolicy},
    },
    ports::lookups::{AddressNetwork, AddressNetworkTable, LookupError, LookupResult, LookupSource},
};
use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    on_both_stores,
    operators::networks::world_with,
    products::scripted_sim_swap::ScriptedSimSwap,
    silent::scripted_operator::ScriptedOperator,
    world::{TestProject, World},
};

const ALL: [&str; 4] = ["secure_sna", "sim_swap", "reverse_sms", "discovery"];

/// Client of the Eligibility API: a project and its access token.
struct EligibilityClient<'a> {
    world: &'a World,
    project: TestProject,
    token: String,
}

impl<'a> EligibilityClient<'a> {
    async fn new(world: &'a World, mode: &str) -> Self {
        let project = world.project(mode, json!({"mode": mode})).await;
        let token = world.token(&project.client_id, &project.client_secret, "eligibility").await;
        EligibilityClient { world, project, token }
    }

    /// Requests eligibility by number. The number is inserted into the path verbatim.
    async fn number(&self, number: &str) -> HttpResponse {
        self.get(&format!("/v1/eligibility/phone-numbers/{number}")).await
    }

    async fn address(&self, address: &str) -> HttpResponse {
        self.get(&format!("/v1/eligibility/device-ips/{address}")).await
    }

    async fn get(&self, path: &str) -> HttpResponse {
        self.world.send(Request::get(path).bearer(&self.token)).await
    }

    async fn allow(&self, networks: &[(&str, &[&str])]) {
        let networks: Vec<Value> =
            networks.iter().map(|(id, products)| json!({"network_id": id, "products": products})).collect();
        let request = Request::put(&format!("{}/allowed-networks", self.project.path));
        self.world.manage(request.json(&json!({"networks": networks}))).await.assert(200);
    }
}

fn products(response: HttpResponse) -> Vec<String> {
    let response = response.assert(200).json();
    let products = response["products"].as_array().unwrap().iter();
    products.map(|product| product["product_id"].as_str().unwrap().to_owned()).collect()
}

async fn last_digits_of_sandbox_numbers_select_the_outcome(world: World) {
    let backend = EligibilityClient::new(&world, "sandbox").await;
    for (suffix, eligible) in [
        ("00", &ALL[..]),
        ("01", &ALL),
        ("99", &ALL),
        ("98", &ALL),
        ("97", &[]),
        ("96", &["sim_swap", "reverse_sms", "discovery"]),
        ("95", &ALL),
    ] {
        let literal = backend.number(&format!("+9901234567{suffix}")).await;
        let encoded = backend.number(&format!("%2B9901234567{suffix}")).await;
        assert_eq!(literal.body, encoded.body, "{suffix}");
        assert_eq!(backend.number(&format!("%2b9901234567{suffix}")).await.body, encoded.body, "{suffix}");
        assert_eq!(products(literal), eligible, "{suffix}");
        // In a sandbox project, the eligibility of real numbers is simulated, too.
        assert_eq!(products(backend.number(&format!("+4477009001{suffix}")).await), eligible, "{suffix}");
    }
    assert_eq!(
        backend.number("+990123456796").await.assert(200).json(),
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
    for start in ["+9901234567", "+4477009001"] {
        backend.number(&format!("{start}94")).await.assert_problem(404, "subscriber_not_found");
        let down = backend.number(&format!("{start}93")).await.assert_problem(503, "lookup_unavailable");
        assert!(down.header("retry-after").is_some());
    }
}

async fn sandbox_project_gets_its_enabled_products(world: World) {
    let backend = EligibilityClient::new(&world, "sandbox").await;
    for (enabled, number, address) in [
        (
            json!(["eligibility", "reverse_sms", "sim_swap"]),
            &["sim_swap", "reverse_sms"][..],
            &["sim_swap", "reverse_sms"][..],
        ),
        (json!(["eligibility", "secure_sna"]), &[], &["secure_sna"]),
        (json!(["eligibility"]), &[], &[]),
    ] {
        world.manage(Request::patch(&backend.project.path).json(&json!({"products": enabled}))).await.assert(200);
        assert_eq!(products(backend.number("+990123456796").await), number, "{enabled}");
        assert_eq!(products(backend.address("203.0.113.5").await), address, "{enabled}");
        assert_eq!(products(backend.address("203.0.113.200").await), [""; 0]);
        backend.number("+990123456794").await.assert_problem(404, "subscriber_not_found");
    }
}

async fn sandbox_addresses_are_located_as_documented(world: World) {
    let backend = EligibilityClient::new(&world, "sandbox").await;
    for (address, eligible) in [
        ("203.0.113.0", &ALL[..]),
        ("203.0.113.127", &ALL),
        ("::ffff:203.0.113.5", &ALL),
        ("%3A%3Affff%3A203.0.113.5", &ALL),
        ("::ffff:cb00:7105", &ALL),
        ("0:0:0:0:0:FFFF:203.0.113.5", &ALL),
        ("203.0.113.128", &[]),
        ("203.0.113.255", &[]),
    ] {
        assert_eq!(products(backend.address(address).await), eligible, "{address}");
    }
    backend.address("198.51.100.7").await.assert_problem(412, "not_mobile_ip");
    for unknown in ["192.0.2.1", "127.0.0.1", "10.0.0.1", "8.8.8.8", "2001:db8::1", "2a00::1", "::", "::1", "fe80::1"] {
        backend.address(unknown).await.assert_problem(404, "network_not_found");
    }
}

#[tokio::test]
async fn invalid_numbers_and_addresses_are_rejected() {
    let world = World::sqlite().await;
    for mode in ["sandbox", "live"] {
        let backend = EligibilityClient::new(&world, mode).await;
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
            backend.number(number).await.assert_problem(400, "phone_number_invalid");
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
            backend.address(address).await.assert_problem(400, "ip_invalid");
        }
        // Paths that proxies may read differently return 404.
        for path in ["1.2.3.4/24", "1.2.3.4;x=y", "..", "%2e%2e", ""] {
            backend.address(path).await.assert_problem(404, "not_found");
        }
        backend.number("+990123456700?x=y").await.assert_problem(400, "bad_request");
        backend.address("203.0.113.5?ip=1.1.1.1").await.assert_problem(400, "bad_request");
    }
}

/// Three operators: one with two ids, one without products.
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

/// A number source with fixed results.
#[derive(Debug)]
struct FixedSource(HashMap<&'static str, Result<LookupResult, LookupError>>);

#[async_trait]
impl LookupSource for FixedSource {
    fn name(&self) -> &'static str {
        "scripted"
    }

    async fn resolve(&self, number: &Msisdn) -> Result<LookupResult, LookupError> {
        self.0.get(number.as_str()).cloned().unwrap_or(Ok(LookupResult::NoData))
    }
}

#[derive(Debug)]
struct FixedNetworks(HashMap<IpAddr, AddressNetwork>);

impl AddressNetworkTable for FixedNetworks {
    fn network_of_address(&self, address: IpAddr) -> AddressNetwork {
        self.0.get(&address.to_canonical()).cloned().unwrap_or(AddressNetwork::Unknown)
    }
}

const O2_NUMBER: &str = "+447700900123";
const VODAFONE_NUMBER: &str = "+447702900123";
/// Number that has a prefix of O2, but was ported to Vodafone.
const PORTED_NUMBER: &str = "+447700900124";
/// Number of a brand that belongs to O2, but has its own network id.
const BRAND_NUMBER: &str = "+447700900125";
const UNASSIGNED_NUMBER: &str = "+447700900126";
/// Number of an operator that is not in the configuration.
const OTHER_NETWORK_NUMBER: &str = "+4915112345678";
/// Number that only a failing source knows.
const FAILING_SOURCE_NUMBER: &str = "+4915112345699";

async fn three_operators() -> World {
    let world = world_with(THREE).await;
    let on = |id: &str| Ok(LookupResult::Network(id.parse().unwrap()));
    let known = HashMap::from([
        (PORTED_NUMBER, on("23415")),
        (BRAND_NUMBER, on("23411")),
        (UNASSIGNED_NUMBER, Ok(LookupResult::NoSubscriber)),
        (OTHER_NETWORK_NUMBER, on("26201")),
        (FAILING_SOURCE_NUMBER, Err(LookupError::Timeout)),
    ]);
    let engine = &world.node.engine;
    engine.number_lookup().replace(LookupSources {
        prefixes: PrefixPolicy::Fallback,
        sources: vec![Arc::new(FixedSource(known))],
        ..LookupSources::default()
    });
    let mobile = |id: &str| AddressNetwork::Mobile(id.parse().unwrap());
    let addresses = [
        ("82.132.0.1", mobile("23410")),
        ("2a01:4c8::1", mobile("23411")),
        ("85.255.0.1", mobile("23415")),
        ("80.187.0.1", mobile("26201")),
        ("81.2.69.1", AddressNetwork::NotMobile),
    ];
    let addresses = addresses.into_iter().map(|(address, located)| (address.parse().unwrap(), located));
    engine.networks().set_address_networks(Box::new(FixedNetworks(addresses.collect())));
    let networks = vec!["23410".parse().unwrap()];
    engine.networks().set_silent_routes(vec![SilentNetworkRoute { networks, connector: ScriptedOperator::of(&world) }]);
    ScriptedSimSwap::of(&world, &["23410", "23415"]);
    world
}

#[tokio::test]
async fn product_requires_project_network_and_connector() {
    let world = three_operators().await;
    let backend = EligibilityClient::new(&world, "live").await;
    backend.number("+990123456700").await.assert_problem(400, "phone_number_invalid");
    assert_eq!(products(backend.number(O2_NUMBER).await), [""; 0], "no network is allowed yet");
    let everything = [("23410", &ALL[..]), ("23415", &ALL), ("27203", &ALL)];
    backend.allow(&everything).await;
    for (number, eligible) in [
        (O2_NUMBER, &ALL[..]),
        (VODAFONE_NUMBER, &["sim_swap"]),
        (PORTED_NUMBER, &["sim_swap"]),
        (BRAND_NUMBER, &ALL),
        ("+353851234567", &[]),
        (OTHER_NETWORK_NUMBER, &[]),
    ] {
        assert_eq!(products(backend.number(number).await), eligible, "{number}");
    }
    for (address, eligible) in [
        ("82.132.0.1", &ALL[..]),
        ("::ffff:82.132.0.1", &ALL),
        ("2a01:4c8::1", &ALL),
        ("2A01:04C8:0:0:0:0:0:1", &ALL),
        ("2a01%3A4c8%3A%3A1", &ALL),
        ("85.255.0.1", &["sim_swap"]),
    ] {
        assert_eq!(products(backend.address(address).await), eligible, "{address}");
    }
    backend.address("81.2.69.1").await.assert_problem(412, "not_mobile_ip");
    for unknown in ["80.187.0.1", "192.168.1.1", "100.64.0.1", "8.8.8.8"] {
        backend.address(unknown).await.assert_problem(404, "network_not_found");
    }
    let sandbox = EligibilityClient::new(&world, "sandbox").await;
    sandbox.address("82.132.0.1").await.assert_problem(404, "network_not_found");
    backend.number(UNASSIGNED_NUMBER).await.assert_problem(404, "subscriber_not_found");
    backend.number("+442071838750").await.assert_problem(404, "subscriber_not_found");
    let unavailable = backend.number(FAILING_SOURCE_NUMBER).await.assert_problem(503, "lookup_unavailable");
    assert!(unavailable.header("retry-after").is_some());

    backend.allow(&[("23410", &["discovery", "sim_swap"])]).await;
    assert_eq!(products(backend.number(O2_NUMBER).await), ["sim_swap", "discovery"]);
    assert_eq!(products(backend.number(PORTED_NUMBER).await), [""; 0]);
    let request = Request::patch(&backend.project.path).json(&json!({"products": ["eligibility", "sim_swap"]}));
    world.manage(request).await.assert(200);
    assert_eq!(products(backend.number(O2_NUMBER).await), ["sim_swap"], "other products are not enabled");
}

#[tokio::test]
async fn network_is_returned_as_configured() {
    let world = three_operators().await;
    let backend = EligibilityClient::new(&world, "live").await;
    let o2 = json!({
        "network_id": "23410",
        "network_name": "O2",
        "network_aliases": ["23411", "Tesco Mobile"],
        "country_code": "GB",
        "dialing_code": "44",
    });
    assert_eq!(backend.number(O2_NUMBER).await.json()["network"], o2);
    assert_eq!(backend.number(BRAND_NUMBER).await.json()["network"], o2, "a brand is returned as its network");
    assert_eq!(backend.address("2a01:4c8::1").await.json()["network"], o2);
    assert_eq!(backend.number(PORTED_NUMBER).await.json()["network"]["network_name"], "Vodafone");
    let irish = backend.number("+353851234567").await.json();
    assert_eq!((&irish["network"]["country_code"], &irish["network"]["dialing_code"]), (&json!("IE"), &json!("353")));
    let elsewhere = backend.number(OTHER_NETWORK_NUMBER).await.json();
    let expected = json!({"network_id": "26201", "country_code": "DE", "dialing_code": "49"});
    assert_eq!((&elsewhere["network"], &elsewhere["products"]), (&expected, &json!([])));
}

/// The number is active on a network to which this deployment does not connect.
async fn number_on_an_unconfigured_network_has_no_products(world: World) {
    let known = HashMap::from([
        (O2_NUMBER, Ok(LookupResult::OtherNetwork)),
        (OTHER_NETWORK_NUMBER, Ok(LookupResult::Network("26201".parse().unwrap()))),
        (UNASSIGNED_NUMBER, Ok(LookupResult::NoSubscriber)),
    ]);
    let sources: Vec<Arc<dyn LookupSource>> = vec![Arc::new(FixedSource(known))];
    world.node.engine.number_lookup().replace(LookupSources { sources, ..LookupSources::default() });
    let backend = EligibilityClient::new(&world, "live").await;
    for (number, network) in [
        (O2_NUMBER, json!({"country_code": "GB", "dialing_code": "44"})),
        (OTHER_NETWORK_NUMBER, json!({"network_id": "26201", "country_code": "DE", "dialing_code": "49"})),
    ] {
        // The second response uses the lookup cache.
        for _ in 0..2 {
            assert_eq!(backend.number(number).await.assert(200).json(), json!({"network": network, "products": []}));
        }
    }
    for number in [UNASSIGNED_NUMBER, "+442071838750"] {
        backend.number(number).await.assert_problem(404, "subscriber_not_found");
    }
    let token = world.token(&backend.project.client_id, &backend.project.client_secret, "reverse_sms").await;
    let create = Request::post("/v1/number-verification/reverse-sms-checks").bearer(&token);
    world.send(create.json(&json!({"phone_number": O2_NUMBER}))).await.assert_problem(400, "mno_not_supported");
}

#[tokio::test]
async fn eligibility_has_its_own_rate_limit() {
    let world = World::configured(|config| config.rate_limits.eligibility = 2).await;
    let backend = EligibilityClient::new(&world, "sandbox").await;
    for left in ["1", "0"] {
        let response = backend.number("+990123456700").await.assert(200);
        assert_eq!(response.header("x-ratelimit-limit"), Some("2"));
        assert_eq!(response.header("x-ratelimit-remaining"), Some(left));
        assert_eq!(response.header("cache-control"), Some("no-store"));
    }
    let refused = backend.address("203.0.113.5").await.assert_problem(429, "too_many_requests");
    assert_eq!(refused.header("retry-after"), Some("1"));
    world.advance(SignedDuration::from_secs(1));
    backend.address("203.0.113.5").await.assert(200);
}

#[tokio::test]
async fn eligibility_requires_its_scope() {
    let world = World::sqlite().await;
    let backend = EligibilityClient::new(&world, "sandbox").await;
    let TestProject { client_id, client_secret, .. } = &backend.project;
    let other_product = world.token(client_id, client_secret, "sim_swap").await;
    for path in ["/v1/eligibility/phone-numbers/+990123456700", "/v1/eligibility/device-ips/203.0.113.5"] {
        world.send(Request::get(path)).await.assert_problem(401, "unauthorized");
        let refused = world.send(Request::get(path).bearer(&other_product)).await.assert_problem(403, "forbidden");
        assert!(refused.header("www-authenticate").unwrap().contains("insufficient_scope"));
        for method in ["POST", "PUT", "DELETE", "OPTIONS"] {
            let refused = world.send(Request::new(method, path).bearer(&backend.token)).await;
            refused.assert_problem(405, "method_not_allowed");
        }
        let head = world.send(Request::new("HEAD", path).bearer(&backend.token)).await.assert(200);
        assert!(head.body.is_empty());
    }
    for gone in ["/coverage/v0.1/countries/GB", "/coverage/v0.1/device_ip", "/v1/eligibility", "/v2/eligibility"] {
        backend.get(gone).await.assert_problem(404, "not_found");
    }
}

on_both_stores!(
    last_digits_of_sandbox_numbers_select_the_outcome,
    sandbox_project_gets_its_enabled_products,
    sandbox_addresses_are_located_as_documented,
    number_on_an_unconfigured_network_has_no_products,
);
