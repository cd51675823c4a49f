//! A project goes live once, with new credentials and without simulated results.

use serde_json::{Value, json};

use crate::{
    client::{HttpResponse, Request},
    database::Database,
    on_both_databases, on_both_stores,
    operators::networks,
    products::reverse_sms::{CHECKS, EVEN, ReverseSmsClient},
    receiver::Receiver,
    silent::{
        scripted_operator::ScriptedOperator,
        silent_client::{BOTH, SilentClient},
    },
    world::{TestProject, World},
};

async fn patch(world: &World, project: &TestProject, body: Value) -> HttpResponse {
    world.manage(Request::patch(&project.path).json(&body)).await
}

/// Takes a project live and returns it with its new credential.
async fn go_live(world: &World, project: &TestProject) -> TestProject {
    let force = Request::patch(&format!("{}?force=true", project.path)).json(&json!({"mode": "live"}));
    let response = world.manage(force).await.assert(200).json();
    TestProject::from_response(&world.acme, &response)
}

async fn project_goes_live_once_with_new_credentials(world: World) {
    let project = world.project("Shop", json!({})).await;
    let other = world.project("Other", json!({})).await;
    let second = world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await.json();
    let old = ReverseSmsClient {
        token: world.token(&project.client_id, &project.client_secret, "reverse_sms").await,
        project,
        world: &world,
    };

    let live = go_live(&world, &old.project).await;
    assert_ne!(live.client_id, old.project.client_id);
    old.list("").await.assert_problem(401, "unauthorized");
    let secrets = [
        (&*old.project.client_id, &*old.project.client_secret),
        (text(&second, "client_id"), text(&second, "client_secret")),
    ];
    for (id, secret) in secrets {
        world.token_request(id, secret, "reverse_sms").await.assert_problem(401, "unauthorized");
    }
    world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    world.token(&other.client_id, &other.client_secret, "reverse_sms").await;
    let credentials = world.manage(Request::get(&format!("{}/credentials", live.path))).await.assert(200).json();
    assert_eq!(credentials["page"]["total_elements"], 1);
    assert!(!credentials.to_string().contains("client_secret"));

    let again = patch(&world, &live, json!({"mode": "live"})).await.assert(200).json();
    assert_eq!((&again["mode"], again.get("credentials")), (&json!("live"), None));
    let back =
        patch(&world, &live, json!({"mode": "sandbox", "name": "Trial"})).await.assert_problem(400, "bad_request");
    assert!(back.detail().starts_with("`/mode`: "), "{}", back.detail());
    let now = world.manage(Request::get(&live.path)).await.assert(200).json();
    assert_eq!((&now["mode"], &now["name"]), (&json!("live"), &json!("Shop")));
}

/// The error names what is missing: first networks and receivers, then a delivered callback. Then the project can go
/// live.
async fn going_live_requires_networks_receivers_and_a_delivered_callback(database: Database) {
    let world = networks::world_on(database, networks::THREE).await;
    let mut receiver = Receiver::start().await;
    let configuration = json!({"reverse_sms": {"callback_url": "https://shop.example/cb"}});
    let body = json!({"products": ["reverse_sms", "sim_swap", "verification"], "configuration": configuration});
    let project = world.project("Shop", body).await;
    let live = json!({"mode": "live"});
    let missing = async |body: &Value| {
        let response = patch(&world, &project, body.clone()).await.assert_problem(409, "project_not_ready");
        response.detail()
    };
    let allow = async |networks: Value| {
        let request = Request::put(&format!("{}/allowed-networks", project.path)).json(&json!({"networks": networks}));
        world.manage(request).await.assert(200);
    };

    let detail = missing(&live).await;
    for phrase in [
        "Reverse SMS is allowed on no network",
        "SIM Swap is allowed on no network",
        "no callback has been delivered yet",
        "`?force=true`",
    ] {
        assert!(detail.contains(phrase), "{detail}");
    }
    allow(json!([{"network_id": "*", "products": ["reverse_sms", "sim_swap"]}])).await;
    let detail = missing(&live).await;
    assert!(detail.contains("SIM Swap has no working connector for O2, Vodafone, Meteor"), "{detail}");
    assert!(!detail.contains("Reverse SMS"), "{detail}");
    // A patch can go live and fix what is missing in the same request, here by removing SIM Swap.
    let detail = missing(&json!({"mode": "live", "products": ["reverse_sms"]})).await;
    assert!(detail.contains("no callback") && !detail.contains("SIM Swap"), "{detail}");
    assert_eq!(world.manage(Request::get(&project.path)).await.json()["mode"], "sandbox");
    for query in ["?force=false", "?force"] {
        let request = Request::patch(&format!("{}{query}", project.path)).json(&live);
        assert!(world.manage(request).await.status >= 400, "{query}");
    }

    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let backend = ReverseSmsClient { world: &world, project, token };
    let check = backend.create(json!({"phone_number": EVEN, "callback_url": receiver.url("/cb")})).await;
    backend.text(EVEN, &check.receiver, &check.body).await;
    receiver.next().await;
    world.wait_for_callback_results().await;
    world.node.engine.activity.flush().await.unwrap();
    let body = json!({"mode": "live", "products": ["reverse_sms"]});
    patch(&world, &backend.project, body).await.assert(200);
}

async fn one_of_many_concurrent_requests_to_go_live_gets_the_credential(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.management_token().await;
    let path = format!("{}?force=true", project.path);
    let request = Request::patch(&path).bearer(&token).json(&json!({"mode": "live"}));
    let responses = futures_util::future::join_all((0..5).map(|_| world.send(request.clone()))).await;
    let bodies: Vec<Value> = responses.into_iter().map(|response| response.assert(200).json()).collect();
    let winners: Vec<&Value> = bodies.iter().filter(|body| body.get("credentials").is_some()).collect();
    assert_eq!(winners.len(), 1, "{bodies:?}");
    let live = TestProject::from_response(&world.acme, winners[0]);
    world.token(&live.client_id, &live.client_secret, "sim_swap").await;
}

async fn product_responses_contain_the_project_mode(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mode = |response: &HttpResponse| response.header("x-project-mode").map(str::to_owned);
    let sandbox = Some("sandbox".to_owned());
    assert_eq!(mode(&backend.post(json!({"phone_number": EVEN})).await.assert(201)), sandbox);
    assert_eq!(mode(&backend.post(json!({"phone_number": "x"})).await.assert(400)), sandbox);
    assert_eq!(mode(&backend.get("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b").await.assert(404)), sandbox);
    let wrong_scope = Request::get("/v1/sim-swap-checks").bearer(&backend.token);
    assert_eq!(mode(&world.send(wrong_scope).await.assert(403)), sandbox);
    assert_eq!(mode(&world.send(Request::get("/v1/sim-swap-checks")).await.assert(401)), None);
    assert_eq!(mode(&world.manage(Request::get(&backend.project.path)).await.assert(200)), None);

    let live = go_live(&world, &backend.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "sim_swap").await;
    let listed = world.send(Request::get("/v1/sim-swap-checks").bearer(&token)).await.assert(200);
    assert_eq!(mode(&listed).as_deref(), Some("live"));
}

async fn sandbox_idempotency_keys_are_not_replayed_live(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let create = |token: &str| {
        let request = Request::post(CHECKS).bearer(token).header("Idempotency-Key", "order-1");
        world.send(request.json(&json!({"phone_number": EVEN})))
    };
    create(&backend.token).await.assert(201);
    assert_eq!(create(&backend.token).await.assert(201).header("idempotent-replayed"), Some("true"));
    let live = go_live(&world, &backend.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    create(&token).await.assert_problem(400, "phone_number_invalid");
}

/// A simulated verdict must never look like a real one.
async fn sandbox_checks_are_hidden_after_going_live(world: World) {
    let sandbox = ReverseSmsClient::sandbox(&world).await;
    let check = sandbox.create(json!({"phone_number": EVEN})).await;
    sandbox.text(EVEN, &check.receiver, &check.body).await;
    sandbox.expect_status(&check.id, "COMPLETED").await;
    let live = go_live(&world, &sandbox.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    let live = ReverseSmsClient { world: &world, project: live, token };
    live.get(&check.id).await.assert_problem(404, "check_not_found");
    for search in ["", "?search=status==COMPLETED", "?search=reference_id==none,status==COMPLETED"] {
        let listed =
            world.send(Request::get(&format!("{CHECKS}{search}")).bearer(&live.token)).await.assert(200).json();
        assert_eq!((&listed["content"], &listed["page"]["total_elements"]), (&json!([]), &json!(0)), "{search}");
    }
}

/// A simulated SMS received after going live concludes nothing.
async fn open_sandbox_reverse_sms_checks_do_not_complete_live(world: World) {
    let gone = ReverseSmsClient::sandbox(&world).await;
    let stays = world.project("Stays", json!({})).await;
    let token = world.token(&stays.client_id, &stays.client_secret, "reverse_sms").await;
    let stays = ReverseSmsClient { world: &world, project: stays, token };
    let mut checks = vec![];
    for backend in [&gone, &stays] {
        let check = backend.create(json!({"phone_number": EVEN})).await;
        let sms = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"late_seconds": 2}});
        backend.text_with(sms).await;
        checks.push(check.id);
    }
    let live = go_live(&world, &gone.project).await;
    stays.expect_status(&checks[1], "COMPLETED").await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    let live = ReverseSmsClient { world: &world, project: live, token };
    live.get(&checks[0]).await.assert_problem(404, "check_not_found");
}

/// After going live, neither the return of a device from the operator nor an issued code completes a sandbox check.
async fn open_sandbox_silent_checks_do_not_complete_live(world: World) {
    ScriptedOperator::of(&world);
    for path in BOTH {
        let sandbox = SilentClient::new(&world, path).await;
        let [decided, visited, created] = [(); 3].map(|()| sandbox.create(json!({})));
        let (decided, visited, created) = (decided.await, visited.await, created.await);
        let code = sandbox.complete_redirect(&decided.target).await;
        let state = sandbox.start_redirect(&visited.target).await;

        let live = SilentClient::of(&world, path, go_live(&world, &sandbox.project).await).await;
        live.redeem(&decided.id, &code).await.assert_problem(404, "check_not_found");
        live.return_from_operator(&state).await;
        live.open(&created.target).await;
        for check in [decided, visited, created] {
            live.get(&check.id).await.assert_problem(404, "check_not_found");
            live.redeem(&check.id, &code).await.assert_problem(404, "check_not_found");
        }
    }
}

fn text<'a>(body: &'a Value, name: &str) -> &'a str {
    body[name].as_str().unwrap()
}

on_both_stores!(
    project_goes_live_once_with_new_credentials,
    sandbox_checks_are_hidden_after_going_live,
    one_of_many_concurrent_requests_to_go_live_gets_the_credential,
    product_responses_contain_the_project_mode,
    sandbox_idempotency_keys_are_not_replayed_live,
    open_sandbox_reverse_sms_checks_do_not_complete_live,
    open_sandbox_silent_checks_do_not_complete_live,
);

on_both_databases!(going_live_requires_networks_receivers_and_a_delivered_callback);
