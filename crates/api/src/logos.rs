//! Uploaded logos, for the hosted page: `/logos/{project_id}/{file_name}`.
//!
//! Logos are public. A URL contains a digest of the image, so caches may keep the image for ever.

use axum::{body::Body, extract::State, response::Response};
use http::{HeaderName, HeaderValue, header};
use ringtrue_domain::verification::UploadedLogo;
use ringtrue_web::{app::App, parameters::PathParameters, problem::Problem, routes::Routes};

const CACHE_FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");
/// Permits nothing, should a browser ever show the image as a document.
const CONTENT_SECURITY_POLICY: HeaderValue = HeaderValue::from_static("default-src 'none'; sandbox");
const CROSS_ORIGIN_RESOURCE_POLICY: HeaderName = HeaderName::from_static("cross-origin-resource-policy");
/// The preview in the console is in a sandbox, whose origin differs from every other.
const CROSS_ORIGIN: HeaderValue = HeaderValue::from_static("cross-origin");

/// Routes of logos. They are part of the hosted page, so the OpenAPI document does not contain them.
pub fn routes() -> Routes {
    Routes::default().get("/logos/{project_id}/{file_name}", show)
}

/// `GET /logos/{project_id}/{file_name}`
async fn show(State(app): State<App>, parameters: PathParameters) -> Result<Response, Problem> {
    let parameter = |name| parameters.get(name).unwrap_or_default();
    let logo = UploadedLogo::from_path(&format!("/logos/{}/{}", parameter("project_id"), parameter("file_name")));
    let logo = logo.filter(|logo| app.engine.management.is_current_logo(logo)).ok_or_else(Problem::not_found)?;
    let content = app.engine.management.logo_content(&logo).await?.ok_or_else(Problem::not_found)?;
    let mut response = Response::new(Body::from(content));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(logo.format().media_type()));
    headers.insert(header::CACHE_CONTROL, CACHE_FOR_EVER);
    headers.insert(header::CONTENT_SECURITY_POLICY, CONTENT_SECURITY_POLICY);
    headers.insert(CROSS_ORIGIN_RESOURCE_POLICY, CROSS_ORIGIN);
    Ok(response)
}
