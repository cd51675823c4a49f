//! What a person opens in a browser: the API reference and a page about each error. Rendered once, when the first one
//! is asked for: most nodes never show any.

use std::{collections::BTreeMap, sync::OnceLock};

use axum::{
    extract::State,
    response::{IntoResponse, Response},
};
use bytes::Bytes;
use http::{HeaderValue, StatusCode, header};

use super::{App, Routes, catalogue::Code, json_bytes, path::PathIds, problem::Problem};
use crate::pages::{
    self, Asset, CONTENT_SECURITY_POLICY, HTML, PageError,
    error_page::{ErrorEntry, ErrorPages},
};

const CACHED: HeaderValue = HeaderValue::from_static("public, max-age=3600");

/// The pages of a deployment.
#[derive(Debug)]
pub struct Site {
    base_url: String,
    pages: OnceLock<Pages>,
}

/// The pages, ready to be sent.
#[derive(Debug)]
struct Pages {
    document: Bytes,
    reference: Bytes,
    error_index: Bytes,
    errors: BTreeMap<&'static str, Bytes>,
}

impl Site {
    pub fn new(base_url: &str) -> Self {
        Site { base_url: base_url.to_owned(), pages: OnceLock::new() }
    }

    fn pages(&self) -> Result<&Pages, Problem> {
        if let Some(pages) = self.pages.get() {
            return Ok(pages);
        }
        let rendered = Pages::render(&self.base_url).map_err(|error| Problem::internal(&error))?;
        Ok(self.pages.get_or_init(|| rendered))
    }
}

impl Pages {
    fn render(base_url: &str) -> Result<Self, PageError> {
        let document = pages::openapi::document(base_url);
        let pages = ErrorPages::new(&document)?;
        let entries: Vec<ErrorEntry<'static>> = Code::ALL.iter().map(|code| describe(*code)).collect();
        let errors = entries
            .iter()
            .map(|entry| Ok((entry.code, pages.page(entry)?.into())))
            .collect::<Result<_, PageError>>()?;
        Ok(Pages {
            reference: pages::reference::render(&document)?.into(),
            error_index: pages.index(&entries)?.into(),
            errors,
            document: document.into(),
        })
    }
}

fn describe(code: Code) -> ErrorEntry<'static> {
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

async fn document(State(app): State<App>) -> Result<Response, Problem> {
    Ok(json_bytes(StatusCode::OK, app.site.pages()?.document.to_vec()))
}

async fn reference(State(app): State<App>) -> Result<Response, Problem> {
    Ok(page(&app.site.pages()?.reference))
}

async fn error_index(State(app): State<App>) -> Result<Response, Problem> {
    Ok(page(&app.site.pages()?.error_index))
}

async fn error(State(app): State<App>, ids: PathIds) -> Result<Response, Problem> {
    let pages = app.site.pages()?;
    let found = ids.get("error_code").and_then(|code| pages.errors.get(code));
    found.map(page).ok_or_else(Problem::not_found)
}

fn page(html: &Bytes) -> Response {
    let mut response = Response::new(html.clone().into());
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static(HTML));
    headers.insert(header::CONTENT_SECURITY_POLICY, HeaderValue::from_static(CONTENT_SECURITY_POLICY));
    headers.insert(header::REFERRER_POLICY, HeaderValue::from_static("no-referrer"));
    headers.insert(header::CACHE_CONTROL, CACHED);
    response
}

fn asset(file: Asset) -> Response {
    let content_type = HeaderValue::from_static(file.content_type);
    ([(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, CACHED)], file.body).into_response()
}
