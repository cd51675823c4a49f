//! The page at `/`.

use crate::{
    client::{self, Request},
    world::World,
};

#[tokio::test]
async fn root_is_a_page_for_browsers_and_unknown_to_api_clients() {
    let world = World::sqlite().await;
    let send = async |request: Request| client::send(world.node.address, &request).await;
    let browser = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8";
    for request in [Request::get("/"), Request::get("/").header("Accept", browser)] {
        let page = send(request).await.assert(200);
        assert_eq!(page.header("content-type"), Some("text/html; charset=utf-8"));
        let policy = page.header("content-security-policy").unwrap();
        assert!(policy.starts_with("default-src 'none'; script-src 'self';") && !policy.contains("unsafe"), "{policy}");
        assert_eq!((page.header("cache-control"), page.header("vary")), (Some("no-store"), Some("accept")));
        let text = page.text();
        for path in ["/console", "/docs", "/openapi.json", "/errors", "/readyz"] {
            assert!(text.contains(&format!("href=\"{path}\"")), "{path}: {text}");
        }
        // A server in production reveals neither its version nor its mode.
        for private in ["<script>", " style=", "http://", "development", env!("CARGO_PKG_VERSION")] {
            assert!(!text.contains(private), "{private}: {text}");
        }
    }
    let json = send(Request::get("/").header("Accept", "application/json")).await;
    assert_eq!((json.status, json.code().as_str()), (404, "not_found"));
    for method in ["POST", "DELETE"] {
        assert_eq!(send(Request::new(method, "/")).await.status, 405, "{method}");
    }
}
