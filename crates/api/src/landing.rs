//! The page at `/`: describes this server and links to its other pages. It contains public information only.

use askama::Template;
use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderValue, header};
use ringtrue_web::{app::App, assets::HTML_CONTENT_TYPE, problem::Problem, routes::Routes};

use crate::{pages::CONTENT_SECURITY_POLICY, silent::accept_quality};

pub fn routes() -> Routes {
    Routes::default().get("/", show)
}

#[derive(Debug, Template)]
#[template(path = "landing.html")]
struct LandingPage {
    is_development: bool,
}

/// `GET /`. Browsers get the page. Clients that prefer JSON get 404.
async fn show(State(app): State<App>, request: Request) -> Result<Response, Problem> {
    let accept: Vec<&str> =
        request.headers().get_all(header::ACCEPT).iter().filter_map(|value| value.to_str().ok()).collect();
    if prefers_json(&accept.join(",")) {
        return Err(Problem::not_found());
    }
    let page = LandingPage { is_development: app.development.is_some() };
    let html = page.render().map_err(|error| Problem::internal(&error))?;
    let mut response = Response::new(html.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::VARY, HeaderValue::from_static("accept"));
    Ok(response)
}

fn prefers_json(accept: &str) -> bool {
    let json = accept_quality(accept, "application/json").max(accept_quality(accept, "application/problem+json"));
    json > accept_quality(accept, "text/html")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn clients_that_prefer_json_get_no_page() {
        for json in [
            "application/json",
            "application/json, text/plain, */*",
            "application/problem+json",
            "text/html;q=0.5, application/json",
        ] {
            assert!(prefers_json(json), "{json}");
        }
        for other in ["", "*/*", "text/html", "text/html,application/xhtml+xml,*/*;q=0.8", "application/json;q=0"] {
            assert!(!prefers_json(other), "{other}");
        }
    }
}
