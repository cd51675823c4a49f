//! The document, the router and the catalogue of errors say the same.

use std::collections::BTreeSet;

use ringtrue_server::http::{self, catalogue::Code};

use crate::{
    client::Request,
    world::{CONTRACT, World},
};

#[test]
fn every_route_is_documented_and_every_documented_route_exists() {
    let documented = CONTRACT.routes();
    let served: BTreeSet<(String, String)> =
        http::public_routes().table().iter().map(|(method, path)| ((*method).to_owned(), (*path).to_owned())).collect();
    assert_eq!(documented, served);
}

#[test]
fn the_documented_error_codes_are_those_of_the_catalogue() {
    let documented = CONTRACT.error_codes();
    let catalogue: BTreeSet<String> = Code::ALL.iter().map(|code| code.entry().code.to_owned()).collect();
    assert_eq!(documented, catalogue);
}

#[tokio::test]
async fn every_error_has_a_page_at_its_type() {
    let world = World::sqlite().await;
    for code in Code::ALL {
        let entry = code.entry();
        let page = world.send(Request::new("GET", &format!("/errors/{}", entry.code))).await;
        assert_eq!(page.status, 200, "{}", entry.code);
        let text = String::from_utf8(page.body).unwrap();
        assert!(text.contains(entry.code) && text.contains(entry.title), "{}", entry.code);
    }
    assert_eq!(world.send(Request::new("GET", "/errors/no_such_code")).await.status, 404);
}

#[tokio::test]
async fn the_reference_and_the_document_are_served() {
    let world = World::sqlite().await;
    let reference = world.send(Request::new("GET", "/docs")).await;
    assert_eq!((reference.status, reference.header("content-type")), (200, Some("text/html; charset=utf-8")));
    assert!(reference.header("content-security-policy").unwrap().contains("default-src 'none'"));

    let document = world.send(Request::new("GET", "/openapi.json")).await.json();
    assert_eq!(document["servers"][0]["url"], world.node.base_url.as_str());
    assert!(document["openapi"].as_str().unwrap().starts_with("3.1"));
}
