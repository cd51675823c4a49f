//! One deployment, one region: what belongs to the other is refused, with an explanation.

use ringtrue_domain::region::Region;

use crate::{client::Request, on_both_stores, routes, world::World};

async fn eu_and_us() -> [World; 2] {
    [
        World::configured(|config| config.region = Region::Eu).await,
        World::foreign(|config| config.region = Region::Us).await,
    ]
}

#[tokio::test]
async fn a_token_of_the_other_region_is_told_where_it_belongs() {
    let [eu, us] = eu_and_us().await;
    // A deployment that was set up from a copy of another's database has the same keys.
    let copy = World::configured(|config| config.region = Region::Us).await;
    for (here, there) in [(&eu, &us), (&us, &eu), (&eu, &copy), (&copy, &eu)] {
        let token = there.manager().await;
        let answer = here.send(Request::get("/v1/management/workspaces").bearer(&token)).await;
        let answer = answer.assert_problem(401, "unauthorized");
        assert_eq!(answer.header("www-authenticate"), Some(r#"Bearer error="invalid_token""#));
        assert!(answer.detail().contains("`eu`") && answer.detail().contains("`us`"), "{}", answer.detail());
    }
}

#[tokio::test]
async fn a_workspace_lives_where_its_deployment_does() {
    for (world, region) in eu_and_us().await.iter().zip(["eu", "us"]) {
        let workspace = world.manage(Request::get(&world.acme.path())).await.assert(200).json();
        assert_eq!(workspace["data_residency"], region);
    }
}

async fn a_database_of_the_other_region_is_refused(world: World) {
    let why = world.refusal(|config| config.region = Region::Us).await;
    assert!(why.contains("`us`") && why.contains("`eu`") && why.contains("workspaces"), "{why}");
    assert!(world.second_node().await.engine.region() == Region::Eu, "the right one still starts");
}

on_both_stores!(a_database_of_the_other_region_is_refused);

/// Two deployments of one region are strangers too.
#[tokio::test]
async fn a_token_of_another_deployment_is_no_token() {
    let [here, there] = [World::sqlite().await, World::foreign(|_| {}).await];
    let answer = here.send(Request::get("/v1/management/workspaces").bearer(&there.manager().await)).await;
    answer.assert_problem(401, "unauthorized");
}

#[tokio::test]
async fn a_host_name_of_the_other_region_is_421_everywhere() {
    let [eu, us] = eu_and_us().await;
    for (world, ours, theirs) in [(&eu, "eu", "us"), (&us, "us", "eu")] {
        for path in ["/livez", "/oauth2/token", "/.well-known/jwks.json", "/v1/management/workspaces", "/docs"] {
            let method = if path == "/oauth2/token" { "POST" } else { "GET" };
            for host in [format!("{theirs}.api.example.com"), format!("{}.x.example:8443", theirs.to_uppercase())] {
                let answer = world.send(Request::new(method, path).header("Host", &host)).await;
                let answer = answer.assert_problem(421, "wrong_region");
                assert!(answer.detail().contains("`eu`") && answer.detail().contains("`us`"), "{}", answer.detail());
            }
        }
        for host in
            [&format!("{ours}.api.example.com"), "api.example.com", "127.0.0.1", theirs, "[::1]:80", "usa.example.com"]
        {
            world.send(Request::get("/livez").header("Host", host)).await.assert(200);
        }
        let in_target = Request::get(&format!("http://{theirs}.api.example.com/livez"));
        let answer = crate::client::send(world.node.address, &in_target).await;
        answer.assert_problem(421, "wrong_region");
    }
}

#[tokio::test]
async fn there_is_one_version() {
    let world = World::sqlite().await;
    let token = world.manager().await;
    for route in routes::managed() {
        for version in ["/v2/", "/v0/", "/v1.0/", "/V1/", "/v01/", "/latest/", "/"] {
            let path = route.template.replacen("/v1/", version, 1);
            let answer = world.send(Request::new(route.method, &path).bearer(&token)).await;
            answer.assert_problem(404, "not_found");
        }
    }
    for path in ["/v1/oauth2/token", "/oauth2/v1/token", "/v1/.well-known/jwks.json", "/v1", "/v1/"] {
        world.send(Request::post(path)).await.assert_problem(404, "not_found");
    }
}
