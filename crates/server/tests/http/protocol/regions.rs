//! A deployment serves one region and rejects the other.

use ringtrue_domain::region::Region;

use crate::{client::Request, on_both_stores, protocol::routes, world::World};

async fn eu_and_us() -> [World; 2] {
    [
        World::configured(|config| config.region = Region::Eu).await,
        World::with_own_keys(|config| config.region = Region::Us).await,
    ]
}

#[tokio::test]
async fn token_of_another_region_is_rejected_with_its_region() {
    let [eu, us] = eu_and_us().await;
    // A deployment on a copy of another deployment's database has the same keys, but must still reject the other
    // region's tokens.
    let copy = World::configured(|config| config.region = Region::Us).await;
    for (here, there) in [(&eu, &us), (&us, &eu), (&eu, &copy), (&copy, &eu)] {
        let token = there.management_token().await;
        let response = here.send(Request::get("/v1/management/workspaces").bearer(&token)).await;
        let response = response.assert_problem(401, "unauthorized");
        assert_eq!(response.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#));
        assert!(response.detail().contains("`eu`") && response.detail().contains("`us`"), "{}", response.detail());
    }
}

#[tokio::test]
async fn workspace_is_stored_in_the_region_of_its_deployment() {
    for (world, region) in eu_and_us().await.iter().zip(["eu", "us"]) {
        let workspace = world.manage(Request::get(&world.acme.path())).await.assert(200).json();
        assert_eq!(workspace["data_residency"], region);
    }
}

async fn database_of_another_region_is_rejected(world: World) {
    let why = world.start_error(|config| config.region = Region::Us).await;
    assert!(why.contains("`us`") && why.contains("`eu`") && why.contains("workspaces"), "{why}");
    assert!(world.second_node().await.engine.region() == Region::Eu, "a node of the right region starts");
}

on_both_stores!(database_of_another_region_is_rejected);

#[tokio::test]
async fn token_of_another_deployment_is_rejected() {
    let [here, there] = [World::sqlite().await, World::with_own_keys(|_| {}).await];
    let response = here.send(Request::get("/v1/management/workspaces").bearer(&there.management_token().await)).await;
    response.assert_problem(401, "unauthorized");
}

#[tokio::test]
async fn host_of_another_region_returns_421_everywhere() {
    let [eu, us] = eu_and_us().await;
    for (world, ours, theirs) in [(&eu, "eu", "us"), (&us, "us", "eu")] {
        for path in ["/livez", "/oauth2/token", "/.well-known/jwks.json", "/v1/management/workspaces", "/docs"] {
            let method = if path == "/oauth2/token" { "POST" } else { "GET" };
            for host in [format!("{theirs}.api.example.com"), format!("{}.x.example:8443", theirs.to_uppercase())] {
                let response = world.send(Request::new(method, path).header("Host", &host)).await;
                let response = response.assert_problem(421, "wrong_region");
                assert!(
                    response.detail().contains("`eu`") && response.detail().contains("`us`"),
                    "{}",
                    response.detail()
                );
            }
        }
        for host in
            [&format!("{ours}.api.example.com"), "api.example.com", "127.0.0.1", theirs, "[::1]:80", "usa.example.com"]
        {
            world.send(Request::get("/livez").header("Host", host)).await.assert(200);
        }
        let in_target = Request::get(&format!("http://{theirs}.api.example.com/livez"));
        let response = crate::client::send(world.node.address, &in_target).await;
        response.assert_problem(421, "wrong_region");
    }
}

#[tokio::test]
async fn only_api_version_1_exists() {
    let world = World::sqlite().await;
    let token = world.management_token().await;
    for route in routes::managed() {
        for version in ["/v2/", "/v0/", "/v1.0/", "/V1/", "/v01/", "/latest/", "/"] {
            let path = route.template.replacen("/v1/", version, 1);
            let response = world.send(Request::new(route.method, &path).bearer(&token)).await;
            response.assert_problem(404, "not_found");
        }
    }
    for path in ["/v1/oauth2/token", "/oauth2/v1/token", "/v1/.well-known/jwks.json", "/v1", "/v1/"] {
        world.send(Request::post(path)).await.assert_problem(404, "not_found");
    }
}
