//! Signature debugger: checks the signature of a callback that the user pastes as it was received, and explains what is
//! wrong.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_callback_signature::diagnosis::ComparedLine;
use ringtrue_domain::{account::Permission, lifecycle::CheckId, tenancy::Mode};
use ringtrue_engine::callbacks::{PastedCallback, SignatureDebugError, SignatureDebugReport};
use ringtrue_web::{app::App, parameters::PathParameters, routes::Routes};

use crate::{
    page::{
        self, Layout, MenuSection,
        error::{ConsoleError, to_sentence},
        redaction::NumberMask,
    },
    session::{console_session::ProjectAccess, forms::SessionForm},
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/signatures", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/signatures", compare)
}

#[derive(Template)]
#[template(path = "developers/signatures.html")]
struct SignaturesPage {
    layout: Layout,
    request: String,
    url: String,
    error: Option<String>,
    comparison: Option<ComparisonView>,
}

struct ComparisonView {
    is_valid: bool,
    kid: String,
    is_sandbox_key: bool,
    reason: Vec<TextSpan>,
    /// `valid`, or the code of the error.
    label: &'static str,
    check: Option<CheckId>,
    attempt: Option<u32>,
    has_signed_lines: bool,
    lines: Vec<LineView>,
}

/// Part of a sentence. Parts that were between backquotes are shown as code.
struct TextSpan {
    text: String,
    is_code: bool,
}

fn split_code_spans(sentence: &str) -> Vec<TextSpan> {
    let span = |(number, text): (usize, &str)| TextSpan { text: text.to_owned(), is_code: number % 2 == 1 };
    sentence.split('`').enumerate().map(span).collect()
}

struct LineView {
    name: &'static str,
    signed: String,
    received: Option<String>,
    differs: bool,
    is_first_difference: bool,
}

/// `GET …/signatures`
async fn show(State(_): State<App>, access: ProjectAccess) -> Response {
    let page = SignaturesPage {
        layout: access.layout("Signatures", MenuSection::SignatureDebugger),
        request: String::new(),
        url: String::new(),
        error: None,
        comparison: None,
    };
    page::render_ok(&page)
}

/// `POST …/signatures`
async fn compare(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let request = fields.raw("request").unwrap_or_default().to_owned();
    let url = fields.get("url").map(str::to_owned);
    let report = app
        .engine
        .callbacks
        .debug_callback_signature(&access.project, PastedCallback { request: &request, url: url.as_deref() })
        .await;
    let (status, error, comparison) = match report {
        Ok(report) => (StatusCode::OK, None, Some(ComparisonView::from(report))),
        Err(SignatureDebugError::Store(cause)) => return Err(cause.into()),
        Err(error @ (SignatureDebugError::Request(_) | SignatureDebugError::Url)) => {
            (StatusCode::BAD_REQUEST, Some(to_sentence(&error.to_string())), None)
        }
    };
    let url = url.unwrap_or_default();
    let layout = access.layout("Signatures", MenuSection::SignatureDebugger);
    Ok(page::render(status, &SignaturesPage { layout, request, url, error, comparison }))
}

impl From<SignatureDebugReport> for ComparisonView {
    fn from(SignatureDebugReport { diagnosis, check, attempt }: SignatureDebugReport) -> Self {
        let first = diagnosis.first_difference();
        let mask = NumberMask::default();
        let line = |(number, line): (usize, &ComparedLine)| LineView {
            name: line.name,
            signed: mask.apply(line.signed.as_deref().unwrap_or_default()),
            received: line.received.as_deref().map(|received| mask.apply(received)),
            differs: line.differs(),
            is_first_difference: first == Some(number),
        };
        ComparisonView {
            is_valid: diagnosis.verdict.is_ok(),
            is_sandbox_key: diagnosis.verdict.as_ref().is_ok_and(|verified| verified.mode == Mode::Sandbox),
            kid: diagnosis.verdict.as_ref().map(|verified| verified.kid.clone()).unwrap_or_default(),
            reason: split_code_spans(
                &diagnosis.verdict.as_ref().err().map(|flaw| to_sentence(&flaw.to_string())).unwrap_or_default(),
            ),
            label: diagnosis.verdict.as_ref().err().map_or("valid", |flaw| flaw.as_str()),
            check,
            attempt,
            has_signed_lines: diagnosis.lines.iter().any(|line| line.signed.is_some()),
            lines: diagnosis.lines.iter().enumerate().map(line).collect(),
        }
    }
}
