//! Why a user can use what, gate by gate: for a project's developers, and for those who run the deployment.
//!
//! A number or an address goes in by a form, so that it is in no address of a page, and is not shown again.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    eligibility::Gate,
    product::Product,
    tenancy::{Mode, Project, ProjectId},
};
use ringtrue_engine::{
    eligibility::{Explanation, User},
    rate_limit::CallKind,
};

use super::{
    forms::SignedForm,
    page::{self, Frame, Section},
    refusal::{Refusal, sentence},
    visitor::SignedIn,
};
use crate::http::{App, Routes, path::PathIds};

const DEPLOYMENT: &str = "/console/deployment/eligibility";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", of_project)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", explain_to_project)
        .get("/console/deployment/eligibility", of_deployment)
        .post("/console/deployment/eligibility", explain_to_administrator)
}

#[derive(Debug, Template)]
#[template(path = "console/eligibility.html")]
struct EligibilityPage {
    frame: Frame,
    action: String,
    may_ask: bool,
    /// The id that was typed; `None` where the page is of a project.
    project_id: Option<String>,
    example: &'static str,
    error: Option<String>,
    answer: Option<Answer>,
}

#[derive(Debug)]
struct Answer {
    user: String,
    /// What the project is called, if there is one.
    project: Option<String>,
    is_sandbox: bool,
    network: Result<NetworkView, String>,
    note: Option<String>,
    /// Name, and what it said.
    sources: Vec<(String, String)>,
    products: Vec<ProductRow>,
}

#[derive(Debug)]
struct NetworkView {
    id: String,
    name: String,
    country: String,
}

#[derive(Debug)]
struct ProductRow {
    title: &'static str,
    is_eligible: bool,
    /// One for each gate, in their order.
    gates: [Passage; 3],
    why: String,
}

/// How a product came through a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Passage {
    Open,
    Closed,
    /// It fell before.
    NotReached,
}

impl Passage {
    fn word(self) -> &'static str {
        match self {
            Passage::Open => "open",
            Passage::Closed => "closed",
            Passage::NotReached => "not reached",
        }
    }

    fn tone(self) -> &'static str {
        match self {
            Passage::Open => "s2",
            Passage::Closed => "s5",
            Passage::NotReached => "s3",
        }
    }
}

/// `GET …/projects/{project_id}/eligibility`
async fn of_project(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.project(&app, &ids, Power::Look).await?;
    let frame = Frame::of(&who, "Eligibility").in_workspace(&who, &place.workspace, Section::Eligibility);
    let frame = frame.in_project(&place.project);
    let (action, may_ask) = (format!("{}/eligibility", frame.project_path()), frame.may_develop());
    let example = example(Some(&place.project));
    let page = EligibilityPage { frame, action, may_ask, project_id: None, example, error: None, answer: None };
    Ok(page::ok(&page))
}

/// `POST …/projects/{project_id}/eligibility`
async fn explain_to_project(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    // Questions here cost what questions by the API cost.
    let SignedForm { who, fields } = form.counted_as(CallKind::Eligibility);
    let place = who.project(&app, &ids, Power::Develop).await?;
    let frame = Frame::of(&who, "Eligibility").in_workspace(&who, &place.workspace, Section::Eligibility);
    let frame = frame.in_project(&place.project);
    let action = format!("{}/eligibility", frame.project_path());
    let outcome = explain(&app, Some(&place.project), fields.get("user").unwrap_or_default()).await;
    Ok(shown(frame, action, None, Some(&place.project), outcome))
}

/// `GET /console/deployment/eligibility`
async fn of_deployment(State(_): State<App>, who: SignedIn) -> Result<Response, Refusal> {
    who.administrator()?;
    let page = EligibilityPage {
        frame: Frame::of(&who, "Eligibility").in_deployment(Section::DeploymentEligibility),
        action: DEPLOYMENT.to_owned(),
        may_ask: true,
        project_id: Some(String::new()),
        example: example(None),
        error: None,
        answer: None,
    };
    Ok(page::ok(&page))
}

/// `POST /console/deployment/eligibility`
async fn explain_to_administrator(State(app): State<App>, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    who.administrator()?;
    let frame = Frame::of(&who, "Eligibility").in_deployment(Section::DeploymentEligibility);
    let typed = fields.get("project").unwrap_or_default().to_owned();
    let project = if typed.is_empty() {
        Ok(None)
    } else {
        let found = typed.parse::<ProjectId>().ok().and_then(|id| app.engine.control_plane().project(id));
        found.map(Some).ok_or_else(|| "There is no project with this id.".to_owned())
    };
    let (project, outcome) = match project {
        Ok(project) => {
            let outcome = explain(&app, project.as_deref(), fields.get("user").unwrap_or_default()).await;
            (project, outcome)
        }
        Err(problem) => (None, Err(problem)),
    };
    Ok(shown(frame, DEPLOYMENT.to_owned(), Some(typed), project.as_deref(), outcome))
}

async fn explain(app: &App, project: Option<&Project>, typed: &str) -> Result<Answer, String> {
    let user = User::parse(typed, project).map_err(|problem| sentence(&problem.to_string()))?;
    let Explanation { asked, network, note, gates } = app.engine.explain(project, &user).await;
    Ok(Answer {
        user: user.shown(),
        project: project.map(|project| project.name.to_string()),
        is_sandbox: project.is_some_and(|project| project.mode == Mode::Sandbox),
        network: network.map(|network| NetworkView {
            id: network.id.to_string(),
            name: network.name.clone(),
            country: network.country.clone(),
        }),
        note: note.map(|note| sentence(&note)),
        sources: asked.iter().map(|asked| (asked.source.clone(), asked.in_words())).collect(),
        products: gates.into_iter().map(|(product, gate)| row(product, gate, project)).collect(),
    })
}

fn row(product: Product, gate: Result<(), Gate>, project: Option<&Project>) -> ProductRow {
    use Passage::{Closed, NotReached, Open};
    ProductRow {
        title: product.title(),
        is_eligible: gate.is_ok(),
        gates: match gate {
            Ok(()) => [Open, Open, Open],
            Err(Gate::Connectivity) => [Closed, NotReached, NotReached],
            Err(Gate::Authorisation) => [Open, Closed, NotReached],
            Err(Gate::ProductSupport) => [Open, Open, Closed],
        },
        why: gate.err().map(|gate| sentence(Explanation::why(gate, product, project))).unwrap_or_default(),
    }
}

fn shown(
    frame: Frame,
    action: String,
    project_id: Option<String>,
    project: Option<&Project>,
    outcome: Result<Answer, String>,
) -> Response {
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let (answer, error) = match outcome {
        Ok(answer) => (Some(answer), None),
        Err(error) => (None, Some(error)),
    };
    let example = example(project);
    page::html(status, &EligibilityPage { frame, action, may_ask: true, project_id, example, error, answer })
}

/// What may be typed.
fn example(project: Option<&Project>) -> &'static str {
    if project.is_some_and(|project| project.mode == Mode::Sandbox) { "+990123456700" } else { "+447700900123" }
}
