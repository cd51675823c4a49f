//! Page that explains which products an end-user can use, with the result of each gate (condition of eligibility). For
//! developers of a project, and for administrators.
//!
//! Numbers and addresses are sent in a form, so that they never appear in URLs. The page does not show them again.

use std::sync::Arc;

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    eligibility::{EligibilityGate, verification_methods},
    product::Product,
    tenancy::{Mode, Project, ProjectId},
};
use ringtrue_engine::{
    lookups::{
        eligibility::{EligibilityExplanation, EligibilitySubject},
        networks::NetworkInfo,
    },
    rate_limits::RateLimitClass,
};
use ringtrue_web::{app::App, parameters::PathParameters, routes::Routes};

use crate::{
    page::{
        self, Layout, MenuSection,
        error::{ConsoleError, to_sentence},
    },
    session::{
        console_session::{ConsoleSession, ProjectAccess},
        forms::{FormFields, SessionForm},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", show_for_project)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/eligibility", explain_for_project)
        .get("/console/deployment/eligibility", show_for_deployment)
        .post("/console/deployment/eligibility", explain_for_deployment)
}

#[derive(Debug, Template)]
#[template(path = "developers/eligibility.html")]
struct EligibilityPage {
    layout: Layout,
    action: String,
    may_submit: bool,
    /// Project id that an administrator has submitted. `None` on the page of a project.
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
    network: Result<Arc<NetworkInfo>, String>,
    note: Option<String>,
    /// Names of the number sources, such as an HLR, and the results of their lookups.
    sources: Vec<(String, String)>,
    products: Vec<ProductRow>,
    /// Titles of the methods that a verification would use.
    verification_methods: Vec<&'static str>,
}

#[derive(Debug)]
struct ProductRow {
    title: &'static str,
    is_eligible: bool,
    /// Results for connectivity, authorisation and product support, in the order of evaluation.
    gates: [GateResult; 3],
    reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum GateResult {
    Passed,
    Failed,
    /// Not evaluated, because an earlier gate failed.
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
async fn show_for_project(State(_): State<App>, access: ProjectAccess) -> Response {
    let page = EligibilityPage::for_project(&access);
    page::render_ok(&EligibilityPage { may_submit: page.layout.may_develop(), ..page })
}

/// `POST …/projects/{project_id}/eligibility`
async fn explain_for_project(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    // The form counts against the same rate limit as Eligibility requests to the API.
    let form = form.with_rate_limit_class(RateLimitClass::Eligibility);
    let (access, fields) = form.authorize_project(&app, &ids, Permission::Develop).await?;
    let outcome = explain(&app, Some(&access.project), &fields).await;
    Ok(EligibilityPage::for_project(&access).render(outcome))
}

/// `GET /console/deployment/eligibility`
async fn show_for_deployment(State(_): State<App>, session: ConsoleSession) -> Result<Response, ConsoleError> {
    session.require_admin()?;
    Ok(page::render_ok(&EligibilityPage::for_deployment(&session, String::new(), None)))
}

/// `POST /console/deployment/eligibility`
async fn explain_for_deployment(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    session.require_admin()?;
    let input = fields.get("project").unwrap_or_default().to_owned();
    let project = input.parse::<ProjectId>().ok().and_then(|id| app.engine.control_plane().project(id));
    let outcome = if project.is_none() && !input.is_empty() {
        Err("No project has this id.".to_owned())
    } else {
        explain(&app, project.as_deref(), &fields).await
    };
    Ok(EligibilityPage::for_deployment(&session, input, project.as_deref()).render(outcome))
}

impl EligibilityPage {
    fn for_project(access: &ProjectAccess) -> Self {
        EligibilityPage {
            layout: access.layout("Eligibility", MenuSection::Eligibility),
            action: format!("{}/eligibility", access.path()),
            may_submit: true,
            project_id: None,
            example: example_number(Some(&access.project)),
            error: None,
            explanation: None,
        }
    }

    fn for_deployment(session: &ConsoleSession, project_id: String, project: Option<&Project>) -> Self {
        EligibilityPage {
            layout: session.layout("Eligibility").in_deployment(MenuSection::DeploymentEligibility),
            action: "/console/deployment/eligibility".to_owned(),
            may_submit: true,
            project_id: Some(project_id),
            example: example_number(project),
            error: None,
            explanation: None,
        }
    }

    fn render(mut self, outcome: Result<ExplanationView, String>) -> Response {
        match outcome {
            Ok(explanation) => self.explanation = Some(explanation),
            Err(error) => self.error = Some(error),
        }
        let status = if self.error.is_none() { StatusCode::OK } else { StatusCode::BAD_REQUEST };
        page::render(status, &self)
    }
}

async fn explain(app: &App, project: Option<&Project>, fields: &FormFields) -> Result<ExplanationView, String> {
    let user = EligibilitySubject::parse(fields.get("user").unwrap_or_default(), project)
        .map_err(|problem| to_sentence(&problem.to_string()))?;
    let EligibilityExplanation { source_results, network, note, gates } =
        app.engine.checks.explain_eligibility(project, &user).await;
    Ok(ExplanationView {
        user: user.masked(),
        project: project.map(|project| project.name.to_string()),
        is_sandbox: project.is_some_and(|project| project.mode == Mode::Sandbox),
        network,
        note: note.map(|note| to_sentence(&note)),
        sources: source_results.iter().map(|result| (result.source.clone(), result.describe())).collect(),
        verification_methods: verification_methods(project, &gates)
            .into_iter()
            .map(|method| method.product().title())
            .collect(),
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

fn example_number(project: Option<&Project>) -> &'static str {
    if project.is_some_and(|project| project.mode == Mode::Sandbox) { "+990123456700" } else { "+447700900123" }
}
