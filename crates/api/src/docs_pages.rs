//! Serves the API reference and the error pages. They are rendered on first access, because most nodes never serve
//! them.

use std::{
    collections::BTreeMap,
    sync::{Arc, OnceLock},
};

use axum::{
    Extension,
    extract::{Request, State},
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};
use ringtrue_web::{
    app::App,
    assets::{CACHE_FOR_AN_HOUR, HTML_CONTENT_TYPE, SHARED_ASSETS, THEME_SCRIPT},
    error_catalog::ProblemCode,
    problem::Problem,
    response::json_bytes_response,
    routes::Routes,
};

use crate::pages::{
    self, CONTENT_SECURITY_POLICY, PageError,
    error_page::{ErrorEntry, ErrorPages},
};

const DOCUMENT_PATH: &str = "/openapi.json";
/// Path of the OpenAPI document that the API reference shows. It lacks operations that API clients never call.
const REFERENCE_DOCUMENT_PATH: &str = "/assets/reference.json";
const ERRORS_PATH: &str = "/errors";

/// Rendered documents and pages by path. Empty until first use. Cheap to clone.
#[derive(Clone, Debug, Default)]
pub struct DocsPages(Arc<OnceLock<BTreeMap<String, Bytes>>>);

pub fn routes(docs: &DocsPages) -> Routes {
    let routes = Routes::default()
        .get(DOCUMENT_PATH, document)
        .get("/docs", reference)
        .get(ERRORS_PATH, error_page)
        .get("/errors/{error_code}", error_page)
        .with_extension(docs.clone());
    SHARED_ASSETS.into_iter().fold(routes, |routes, file| routes.get(file.path, move || async move { file }))
}

/// Routes for the pages' scripts and for the document that the API reference shows. They are not part of the API, so
/// the OpenAPI document does not list them.
pub fn script_routes(docs: &DocsPages) -> Routes {
    Routes::default()
        .get(REFERENCE_DOCUMENT_PATH, reference_document)
        .with_extension(docs.clone())
        .get("/assets/scalar.js", scalar)
        .get(pages::REFERENCE_SCRIPT.path, || async { pages::REFERENCE_SCRIPT })
        .get(THEME_SCRIPT.path, || async { THEME_SCRIPT })
}

async fn document(State(app): State<App>, Extension(docs): Extension<DocsPages>) -> Result<Response, Problem> {
    Ok(json_bytes_response(StatusCode::OK, docs.rendered(&app, DOCUMENT_PATH)?))
}

async fn reference_document(
    State(app): State<App>,
    Extension(docs): Extension<DocsPages>,
) -> Result<Response, Problem> {
    Ok(json_bytes_response(StatusCode::OK, docs.rendered(&app, REFERENCE_DOCUMENT_PATH)?))
}

async fn reference() -> Response {
    page(Bytes::from_static(pages::REFERENCE_PAGE.as_bytes()), pages::REFERENCE_CONTENT_SECURITY_POLICY)
}

async fn scalar() -> Result<Response, Problem> {
    let script = scalar_api_reference::get_asset("scalar.js");
    let script = script.ok_or_else(|| Problem::internal(&"the crate `scalar_api_reference` has no script"))?;
    let content_type = HeaderValue::from_static("text/javascript; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, CACHE_FOR_AN_HOUR)], script).into_response())
}

async fn error_page(
    State(app): State<App>,
    Extension(docs): Extension<DocsPages>,
    request: Request,
) -> Result<Response, Problem> {
    Ok(page(docs.rendered(&app, request.uri().path())?, CONTENT_SECURITY_POLICY))
}

impl DocsPages {
    /// Returns the rendered document or page at a path. The first call renders all of them.
    fn rendered(&self, app: &App, path: &str) -> Result<Bytes, Problem> {
        let pages = if let Some(pages) = self.0.get() {
            pages
        } else {
            let pages = render(app.engine.base_url()).map_err(|error| Problem::internal(&error))?;
            self.0.get_or_init(|| pages)
        };
        pages.get(path).cloned().ok_or_else(Problem::not_found)
    }
}

fn render(base_url: &str) -> Result<BTreeMap<String, Bytes>, PageError> {
    let document = pages::openapi::document(base_url);
    let reference = pages::openapi::reference_document(&document)?;
    // The error pages link to operations in the API reference, so they are built from the reference's document.
    let error_pages = ErrorPages::new(&reference)?;
    let entries: Vec<ErrorEntry<'static>> = ProblemCode::ALL.iter().map(|code| error_entry(*code)).collect();
    let mut rendered = BTreeMap::from([(ERRORS_PATH.to_owned(), ErrorPages::index(&entries)?.into())]);
    for entry in &entries {
        rendered.insert(format!("{ERRORS_PATH}/{}", entry.code), error_pages.page(entry)?.into());
    }
    rendered.insert(DOCUMENT_PATH.to_owned(), document.into());
    rendered.insert(REFERENCE_DOCUMENT_PATH.to_owned(), reference.into());
    Ok(rendered)
}

fn error_entry(code: ProblemCode) -> ErrorEntry<'static> {
    let entry = code.entry();
    ErrorEntry {
        code: entry.code,
        status: entry.status.as_u16(),
        title: entry.title,
        explanation: entry.meaning,
        remedy: entry.remedy,
    }
}

fn page(html: Bytes, content_security_policy: &'static str) -> Response {
    let mut response = Response::new(html.into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(content_security_policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, CACHE_FOR_AN_HOUR);
    response
}
