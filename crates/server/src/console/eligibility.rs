//! Explains by gate which products an end-user can use: for developers of a project and for administrators.
//!
//! Numbers and addresses are sent in a form, so that they never appear in URLs, and are not shown again.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    eligibility::EligibilityGate,
    product::Product,
    tenancy::{Mode, Project, ProjectId},
};
use ringtrue_engine::{
    eligibility::{EligibilityExplanation, EligibilitySubject},
    rate_limit::RateLimitClass,
};

use super::{
    error::{ConsoleError, to_sentence},
    forms::SessionForm,
    page::{self, Layout, Section},
    session::ConsoleSession,
};
use crate::http::{App, Routes, path::PathParameters};

const DEPLOYMENT_PATH: &str = "/console/deployment/eligibility";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", show_for_project)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", explain_for_project)
        .get("/console/deployment/eligibility", show_for_deployment)
        .post("/console/deployment/eligibility", explain_for_deployment)
}

#[derive(Debug, Template)]
#[template(path = "console/eligibility.html")]
struct EligibilityPage {
    layout: Layout,
    action: String,
    may_submit: bool,
    /// The submitted id. `None` on a project's page.
    project_id: Option<String>,
    example: &'static str,
    error: Option<String>,
    explanation: Option<ExplanationView>,
}

#[derive(Debug)]
struct ExplanationView {
    user: String,
    project: Option<String>,
    is_sandbox: bool,
    network: Result<NetworkView, String>,
    note: Option<String>,
    /// Source names and their results.
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
    /// One for each gate, in order.
    gates: [GateResult; 3],
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateResult {
    Passed,
    Failed,
    /// An earlier gate failed.
    NotEvaluated,
}

impl GateResult {
    fn label(self) -> &'static str {
        match self {
            GateResult::Passed => "passed",
            GateResult::Failed => "failed",
            GateResult::NotEvaluated => "not evaluated",
        }
    }

    fn css_class(self) -> &'static str {
        match self {
            GateResult::Passed => "s2",
            GateResult::Failed => "s5",
            GateResult::NotEvaluated => "s3",
        }
    }
}

/// `GET …/projects/{project_id}/eligibility`
async fn show_for_project(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_project(&app, &ids, Permission::View).await?;
    let layout =
        Layout::for_session(&session, "Eligibility").in_workspace(&session, &access.workspace, Section::Eligibility);
    let layout = layout.in_project(&access.project);
    let (action, may_submit) = (format!("{}/eligibility", layout.project_path()), layout.may_develop());
    let example = example_number(Some(&access.project));
    let page =
        EligibilityPage { layout, action, may_submit, project_id: None, example, error: None, explanation: None };
    Ok(page::render_ok(&page))
}

/// `POST …/projects/{project_id}/eligibility`
async fn explain_for_project(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    // Counts against the same rate limit as API requests.
    let SessionForm { session, fields } = form.with_rate_limit_class(RateLimitClass::Eligibility);
    let access = session.authorize_project(&app, &ids, Permission::Develop).await?;
    let layout =
        Layout::for_session(&session, "Eligibility").in_workspace(&session, &access.workspace, Section::Eligibility);
    let layout = layout.in_project(&access.project);
    let action = format!("{}/eligibility", layout.project_path());
    let outcome = explain(&app, Some(&access.project), fields.get("user").unwrap_or_default()).await;
    Ok(render_explanation(layout, action, None, Some(&access.project), outcome))
}

/// `GET /console/deployment/eligibility`
async fn show_for_deployment(State(_): State<App>, session: ConsoleSession) -> Result<Response, ConsoleError> {
    session.require_admin()?;
    let page = EligibilityPage {
        layout: Layout::for_session(&session, "Eligibility").in_deployment(Section::DeploymentEligibility),
        action: DEPLOYMENT_PATH.to_owned(),
        may_submit: true,
        project_id: Some(String::new()),
        example: example_number(None),
        error: None,
        explanation: None,
    };
    Ok(page::render_ok(&page))
}

/// `POST /console/deployment/eligibility`
async fn explain_for_deployment(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    session.require_admin()?;
    let layout = Layout::for_session(&session, "Eligibility").in_deployment(Section::DeploymentEligibility);
    let input = fields.get("project").unwrap_or_default().to_owned();
    let project = if input.is_empty() {
        Ok(None)
    } else {
        let found = input.parse::<ProjectId>().ok().and_then(|id| app.engine.control_plane().project(id));
        found.map(Some).ok_or_else(|| "No project has this id.".to_owned())
    };
    let (project, outcome) = match project {
        Ok(project) => {
            let outcome = explain(&app, project.as_deref(), fields.get("user").unwrap_or_default()).await;
            (project, outcome)
        }
        Err(problem) => (None, Err(problem)),
    };
    Ok(render_explanation(layout, DEPLOYMENT_PATH.to_owned(), Some(input), project.as_deref(), outcome))
}

async fn explain(app: &App, project: Option<&Project>, input: &str) -> Result<ExplanationView, String> {
    let user = EligibilitySubject::parse(input, project).map_err(|problem| to_sentence(&problem.to_string()))?;
    let EligibilityExplanation { source_results, network, note, gates } =
        app.engine.explain_eligibility(project, &user).await;
    Ok(ExplanationView {
        user: user.masked(),
        project: project.map(|project| project.name.to_string()),
        is_sandbox: project.is_some_and(|project| project.mode == Mode::Sandbox),
        network: network.map(|network| NetworkView {
            id: network.id.to_string(),
            name: network.name.clone(),
            country: network.country.clone(),
        }),
        note: note.map(|note| to_sentence(&note)),
        sources: source_results.iter().map(|result| (result.source.clone(), result.describe())).collect(),
        products: gates.into_iter().map(|(product, gate)| product_row(product, gate, project)).collect(),
    })
}

fn product_row(product: Product, gate: Result<(), EligibilityGate>, project: Option<&Project>) -> ProductRow {
    use GateResult::{Failed, NotEvaluated, Passed};
    ProductRow {
        title: product.title(),
        is_eligible: gate.is_ok(),
        gates: match gate {
            Ok(()) => [Passed, Passed, Passed],
            Err(EligibilityGate::Connectivity) => [Failed, NotEvaluated, NotEvaluated],
            Err(EligibilityGate::Authorisation) => [Passed, Failed, NotEvaluated],
            Err(EligibilityGate::ProductSupport) => [Passed, Passed, Failed],
        },
        reason: gate
            .err()
            .map(|gate| to_sentence(EligibilityExplanation::describe_gate(gate, product, project)))
            .unwrap_or_default(),
    }
}

fn render_explanation(
    layout: Layout,
    action: String,
    project_id: Option<String>,
    project: Option<&Project>,
    outcome: Result<ExplanationView, String>,
) -> Response {
    let status = if outcome.is_ok() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
    let (explanation, error) = match outcome {
        Ok(explanation) => (Some(explanation), None),
        Err(error) => (None, Some(error)),
    };
    let example = example_number(project);
    page::render(status, &EligibilityPage { layout, action, may_submit: true, project_id, example, error, explanation })
}

fn example_number(project: Option<&Project>) -> &'static str {
    if project.is_some_and(|project| project.mode == Mode::Sandbox) { "+990123456700" } else { "+447700900123" }
}
