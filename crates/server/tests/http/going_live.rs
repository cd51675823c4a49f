//! A project goes from the sandbox to live once: with new credentials, and without anything that was simulated.

use serde_json::{Value, json};

use crate::{
    client::{Answer, Request},
    on_both_stores,
    reverse_sms::{Asker, CHECKS, EVEN},
    scripted_operator::ScriptedOperator,
    seeker::{BOTH, Seeker},
    world::{ProjectOf, World},
};

async fn patch(world: &World, project: &ProjectOf, body: Value) -> Answer {
    world.manage(Request::patch(&project.path).json(&body)).await
}

/// Takes a project live: the project with its new credential.
async fn go_live(world: &World, project: &ProjectOf) -> ProjectOf {
    let answer = patch(world, project, json!({"mode": "live"})).await.assert(200).json();
    ProjectOf::from_answer(&world.acme, &answer)
}

async fn a_project_goes_live_once_and_gets_new_credentials(world: World) {
    let project = world.project("Shop", json!({})).await;
    let other = world.project("Other", json!({})).await;
    let second = world.manage(Request::post(&format!("{}/credentials", project.path)).json(&json!({}))).await.json();
    let old = Asker {
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

/// Of several who take a project live at the same moment one gets the credential.
async fn of_many_who_go_live_one_gets_the_credential(world: World) {
    let project = world.project("Shop", json!({})).await;
    let token = world.manager().await;
    let request = Request::patch(&project.path).bearer(&token).json(&json!({"mode": "live"}));
    let answers = futures_util::future::join_all((0..5).map(|_| world.send(request.clone()))).await;
    let bodies: Vec<Value> = answers.into_iter().map(|answer| answer.assert(200).json()).collect();
    let winners: Vec<&Value> = bodies.iter().filter(|body| body.get("credentials").is_some()).collect();
    assert_eq!(winners.len(), 1, "{bodies:?}");
    let live = ProjectOf::from_answer(&world.acme, winners[0]);
    world.token(&live.client_id, &live.client_secret, "sim_swap").await;
}

async fn answers_of_products_name_the_mode(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mode = |answer: &Answer| answer.header("x-project-mode").map(str::to_owned);
    let sandbox = Some("sandbox".to_owned());
    assert_eq!(mode(&asker.post(json!({"phone_number": EVEN})).await.assert(201)), sandbox);
    assert_eq!(mode(&asker.post(json!({"phone_number": "x"})).await.assert(400)), sandbox);
    assert_eq!(mode(&asker.get("01a1d990-1c2d-7e3f-8a4b-5c6d7e8f9a0b").await.assert(404)), sandbox);
    let wrong_scope = Request::get("/v1/sim-swap-checks").bearer(&asker.token);
    assert_eq!(mode(&world.send(wrong_scope).await.assert(403)), sandbox);
    assert_eq!(mode(&world.send(Request::get("/v1/sim-swap-checks")).await.assert(401)), None);
    assert_eq!(mode(&world.manage(Request::get(&asker.project.path)).await.assert(200)), None);

    let live = go_live(&world, &asker.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "sim_swap").await;
    let listed = world.send(Request::get("/v1/sim-swap-checks").bearer(&token)).await.assert(200);
    assert_eq!(mode(&listed).as_deref(), Some("live"));
}

/// What a key was answered with in the sandbox is not repeated to a live call.
async fn keys_of_the_sandbox_are_not_answered_live(world: World) {
    let asker = Asker::sandbox(&world).await;
    let create = |token: &str| {
        let request = Request::post(CHECKS).bearer(token).header("Idempotency-Key", "order-1");
        world.send(request.json(&json!({"phone_number": EVEN})))
    };
    create(&asker.token).await.assert(201);
    assert_eq!(create(&asker.token).await.assert(201).header("idempotent-replayed"), Some("true"));
    let live = go_live(&world, &asker.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    create(&token).await.assert_problem(400, "phone_number_invalid");
}

/// A simulated verdict must not pass for a real one, whenever it was given.
async fn checks_of_the_sandbox_are_not_read_live(world: World) {
    let sandbox = Asker::sandbox(&world).await;
    let check = sandbox.create(json!({"phone_number": EVEN})).await;
    sandbox.text(EVEN, &check.receiver, &check.body).await;
    sandbox.ends_as(&check.id, "COMPLETED").await;
    let live = go_live(&world, &sandbox.project).await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    let live = Asker { world: &world, project: live, token };
    live.get(&check.id).await.assert_problem(404, "check_not_found");
    for search in ["", "?search=status==COMPLETED", "?search=reference_id==none,status==COMPLETED"] {
        let listed =
            world.send(Request::get(&format!("{CHECKS}{search}")).bearer(&live.token)).await.assert(200).json();
        assert_eq!((&listed["content"], &listed["page"]["total_elements"]), (&json!([]), &json!(0)), "{search}");
    }
}

/// A simulated SMS that comes after the change ends nothing.
async fn open_reverse_sms_checks_of_the_sandbox_do_not_complete(world: World) {
    let gone = Asker::sandbox(&world).await;
    let stays = world.project("Stays", json!({})).await;
    let token = world.token(&stays.client_id, &stays.client_secret, "reverse_sms").await;
    let stays = Asker { world: &world, project: stays, token };
    let mut checks = vec![];
    for asker in [&gone, &stays] {
        let check = asker.create(json!({"phone_number": EVEN})).await;
        let sms = json!({"from": EVEN, "to": check.receiver, "body": check.body, "faults": {"late_seconds": 2}});
        asker.text_with(sms).await;
        checks.push(check.id);
    }
    let live = go_live(&world, &gone.project).await;
    stays.ends_as(&checks[1], "COMPLETED").await;
    let token = world.token(&live.client_id, &live.client_secret, "reverse_sms").await;
    let live = Asker { world: &world, project: live, token };
    live.get(&checks[0]).await.assert_problem(404, "check_not_found");
}

/// Neither a device on its way nor a code that was given out completes a check.
async fn open_silent_checks_of_the_sandbox_do_not_complete(world: World) {
    ScriptedOperator::of(&world);
    for path in BOTH {
        let sandbox = Seeker::new(&world, path).await;
        let [decided, visited, created] = [(); 3].map(|()| sandbox.create(json!({})));
        let (decided, visited, created) = (decided.await, visited.await, created.await);
        let code = sandbox.travel(&decided.target).await;
        let ticket = sandbox.depart(&visited.target).await;

        let live = Seeker::of(&world, path, go_live(&world, &sandbox.project).await).await;
        live.redeem(&decided.id, &code).await.assert_problem(404, "check_not_found");
        live.come_back(&ticket).await;
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
    a_project_goes_live_once_and_gets_new_credentials,
    checks_of_the_sandbox_are_not_read_live,
    of_many_who_go_live_one_gets_the_credential,
    answers_of_products_name_the_mode,
    keys_of_the_sandbox_are_not_answered_live,
    open_reverse_sms_checks_of_the_sandbox_do_not_complete,
    open_silent_checks_of_the_sandbox_do_not_complete,
);
