//! API reference and error pages, rendered on first access: most nodes never serve them.

use std::{collections::BTreeMap, sync::OnceLock};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::{App, Routes, error_catalog::ProblemCode, json_bytes_response, path::PathParameters, problem::Problem};
use crate::pages::{
    self, Asset, CONTENT_SECURITY_POLICY, HTML_CONTENT_TYPE, PageError,
    error_page::{ErrorEntry, ErrorPages},
};

const CACHE_FOR_AN_HOUR: HeaderValue = HeaderValue::from_static("public, max-age=3600");

#[derive(Debug)]
pub struct DocsPages {
    base_url: String,
    pages: OnceLock<RenderedPages>,
}

/// Rendered pages.
#[derive(Debug)]
struct RenderedPages {
    document: Bytes,
    error_index: Bytes,
    errors: BTreeMap<&'static str, Bytes>,
}

impl DocsPages {
    pub fn new(base_url: &str) -> Self {
        DocsPages { base_url: base_url.to_owned(), pages: OnceLock::new() }
    }

    fn pages(&self) -> Result<&RenderedPages, Problem> {
        if let Some(pages) = self.pages.get() {
            return Ok(pages);
        }
        let rendered = RenderedPages::render(&self.base_url).map_err(|error| Problem::internal(&error))?;
        Ok(self.pages.get_or_init(|| rendered))
    }
}

impl RenderedPages {
    fn render(base_url: &str) -> Result<Self, PageError> {
        let document = pages::openapi::document(base_url);
        let pages = ErrorPages::new(&document)?;
        let entries: Vec<ErrorEntry<'static>> = ProblemCode::ALL.iter().map(|code| error_entry(*code)).collect();
        let errors = entries
            .iter()
            .map(|entry| Ok((entry.code, pages.page(entry)?.into())))
            .collect::<Result<_, PageError>>()?;
        Ok(RenderedPages { error_index: pages.index(&entries)?.into(), errors, document: document.into() })
    }
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

pub fn routes() -> Routes {
    let routes = Routes::default()
        .get("/openapi.json", document)
        .get("/docs", reference)
        .get("/errors", error_index)
        .get("/errors/{error_code}", error);
    pages::ASSETS.into_iter().fold(routes, |routes, file| routes.get(file.path, move || async move { asset(file) }))
}

/// Scripts of the API reference, which are not part of the OpenAPI document.
pub fn script_routes() -> Routes {
    Routes::default()
        .get("/assets/scalar.js", scalar)
        .get("/assets/reference.js", || async { asset(pages::REFERENCE_SCRIPT) })
}

async fn document(State(app): State<App>) -> Result<Response, Problem> {
    Ok(json_bytes_response(StatusCode::OK, app.docs_pages.pages()?.document.to_vec()))
}

async fn reference() -> Response {
    page(&Bytes::from_static(pages::REFERENCE.as_bytes()), pages::REFERENCE_CONTENT_SECURITY_POLICY)
}

async fn scalar() -> Result<Response, Problem> {
    let script = scalar_api_reference::get_asset("scalar.js");
    let script = script.ok_or_else(|| Problem::internal(&"the crate `scalar_api_reference` has no script"))?;
    let content_type = HeaderValue::from_static("text/javascript; charset=utf-8");
    Ok(([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, CACHE_FOR_AN_HOUR)], script).into_response())
}

async fn error_index(State(app): State<App>) -> Result<Response, Problem> {
    Ok(page(&app.docs_pages.pages()?.error_index, CONTENT_SECURITY_POLICY))
}

async fn error(State(app): State<App>, ids: PathParameters) -> Result<Response, Problem> {
    let pages = app.docs_pages.pages()?;
    let found = ids.get("error_code").and_then(|code| pages.errors.get(code));
    found.map(|html| page(html, CONTENT_SECURITY_POLICY)).ok_or_else(Problem::not_found)
}

fn page(html: &Bytes, content_security_policy: &'static str) -> Response {
    let mut response = Response::new(html.clone().into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML_CONTENT_TYPE));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(content_security_policy));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, CACHE_FOR_AN_HOUR);
    response
}

fn asset(file: Asset) -> Response {
    let content_type = HeaderValue::from_static(file.content_type);
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, CACHE_FOR_AN_HOUR)], file.body).into_response()
}
