//! The signature debugger: a callback that a receiver could not verify, beside what was signed.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{account::Power, lifecycle::CheckId, tenancy::Mode};
use ringtrue_engine::callback::{Examination, ExaminationError, Paste, signature::diagnosis::Line};

use super::{
    forms::SignedForm,
    masking::NumberMask,
    page::{self, Frame, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, SignedIn},
};
use crate::http::{App, Routes, path::PathIds};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/signatures", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/signatures", examine)
}

#[derive(Template)]
#[template(path = "console/signatures.html")]
struct SignaturesPage {
    frame: Frame,
    request: String,
    url: String,
    error: Option<String>,
    result: Option<ResultView>,
}

struct ResultView {
    is_good: bool,
    /// The key that it is by.
    kid: String,
    is_sandbox_key: bool,
    reason: Vec<Part>,
    /// One word for the reason.
    word: &'static str,
    check: Option<CheckId>,
    attempt: Option<u32>,
    is_signed_known: bool,
    lines: Vec<LineView>,
}

/// Part of a sentence: what stands between back quotes is shown as it is written.
struct Part {
    text: String,
    is_code: bool,
}

fn parts_of(sentence: &str) -> Vec<Part> {
    let part = |(number, text): (usize, &str)| Part { text: text.to_owned(), is_code: number % 2 == 1 };
    sentence.split('`').enumerate().map(part).collect()
}

struct LineView {
    name: &'static str,
    signed: String,
    arrived: Option<String>,
    differs: bool,
    is_first: bool,
}

/// `GET …/signatures`
async fn show(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.project(&app, &ids, Power::Look).await?;
    let page = SignaturesPage {
        frame: frame(&who, &place),
        request: String::new(),
        url: String::new(),
        error: None,
        result: None,
    };
    Ok(page::ok(&page))
}

/// `POST …/signatures`
async fn examine(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.project(&app, &ids, Power::Develop).await?;
    let request = fields.raw("request").unwrap_or_default().to_owned();
    let url = fields.get("url").map(str::to_owned);
    let examined = app.engine.examine_callback(&place.project, Paste { request: &request, url: url.as_deref() }).await;
    let (status, error, result) = match examined {
        Ok(examination) => (StatusCode::OK, None, Some(ResultView::from(examination))),
        Err(ExaminationError::Store(cause)) => return Err(cause.into()),
        Err(error @ (ExaminationError::Request(_) | ExaminationError::Url)) => {
            (StatusCode::BAD_REQUEST, Some(sentence(&error.to_string())), None)
        }
    };
    let url = url.unwrap_or_default();
    Ok(page::html(status, &SignaturesPage { frame: frame(&who, &place), request, url, error, result }))
}

fn frame(who: &SignedIn, place: &InProject) -> Frame {
    let frame = Frame::of(who, "Signatures").in_workspace(who, &place.workspace, Section::Signatures);
    frame.in_project(&place.project)
}

impl From<Examination> for ResultView {
    fn from(Examination { diagnosis, check, attempt }: Examination) -> Self {
        let first = diagnosis.first_difference();
        let mask = NumberMask::default();
        let line = |(number, line): (usize, &Line)| LineView {
            name: line.name,
            signed: mask.apply(line.signed.as_deref().unwrap_or_default()),
            arrived: line.arrived.as_deref().map(|arrived| mask.apply(arrived)),
            differs: line.differs(),
            is_first: first == Some(number),
        };
        ResultView {
            is_good: diagnosis.verdict.is_ok(),
            is_sandbox_key: diagnosis.verdict.as_ref().is_ok_and(|verified| verified.mode == Mode::Sandbox),
            kid: diagnosis.verdict.as_ref().map(|verified| verified.kid.clone()).unwrap_or_default(),
            reason: parts_of(
                &diagnosis.verdict.as_ref().err().map(|flaw| sentence(&flaw.to_string())).unwrap_or_default(),
            ),
            word: diagnosis.verdict.as_ref().err().map_or("good", |flaw| flaw.as_str()),
            check,
            attempt,
            is_signed_known: diagnosis.lines.iter().any(|line| line.signed.is_some()),
            lines: diagnosis.lines.iter().enumerate().map(line).collect(),
        }
    }
}
