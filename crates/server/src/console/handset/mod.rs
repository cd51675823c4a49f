//! The simulated handset of a sandbox project: creates checks, sends the SMS, opens check URLs and swaps SIMs.
//!
//! The phone's state exists only on the page: SMS instructions and codes are shown once, as to API callers.

mod silent_check;
mod sim_swaps;
mod sims;
mod sms;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Permission,
    lifecycle::{CheckId, Reference},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::CreateError, rate_limit::RateLimitClass, reverse_sms::CreateReverseSms, silent::CreateSilent,
    sim_swap::CreateSimSwap,
};

use self::{
    silent_check::{RedirectResult, SimulatedBrowser},
    sim_swaps::{SWAP_TIMES, SimSwapResult, SwapRow, SwapTime},
    sims::{SIMS, SimulatedSim},
    sms::SmsDraft,
};
use super::{
    error::{ConsoleError, to_sentence},
    forms::{FormFields, SessionForm},
    page::{self, Layout, Section},
    session::{ConsoleSession, ProjectAccess},
};
use crate::http::{App, Routes, path::PathParameters, problem::Problem, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/handset", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset", create)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/sms", sms::send)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/open", silent_check::open)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/code", silent_check::redeem)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap", sim_swaps::swap)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap-back", sim_swaps::restore)
}

#[derive(Template)]
#[template(path = "console/handset.html")]
struct HandsetPage {
    layout: Layout,
    check_form: CheckForm,
    screen: PhoneScreen,
    sims: &'static [SimulatedSim],
    swap_times: &'static [SwapTime],
    swaps: Vec<SwapRow>,
}

/// Submitted values of the new-check form and their error.
struct CheckForm {
    product: Product,
    number: String,
    reference: String,
    callback_url: String,
    error: Option<String>,
}

enum PhoneScreen {
    Idle,
    Sms(Box<SmsDraft>),
    Browser(Box<SimulatedBrowser>),
    SimSwap(SimSwapResult),
}

impl CheckForm {
    fn with_number(number: String) -> Self {
        CheckForm {
            product: Product::ReverseSms,
            number,
            reference: String::new(),
            callback_url: String::new(),
            error: None,
        }
    }

    fn parse(fields: &FormFields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        CheckForm {
            product: fields.get("product").and_then(|name| name.parse().ok()).unwrap_or(Product::ReverseSms),
            number: text("number"),
            reference: text("reference"),
            callback_url: text("callback_url"),
            error: None,
        }
    }

    fn is_product(&self, product: &str) -> bool {
        self.product.as_str() == product
    }
}

/// `GET …/handset`
pub async fn show(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = require_sandbox(session.authorize_project(&app, &ids, Permission::View).await?)?;
    let query = Query::parse(query.as_deref(), &["sim"])?;
    let sim = query.get("sim").and_then(SimulatedSim::by_suffix).unwrap_or(&SIMS[0]);
    Ok(render_handset(&app, &session, &access, CheckForm::with_number(sim.number()), PhoneScreen::Idle))
}

/// `POST …/handset`: creates a check and shows it on the phone.
pub async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form.with_rate_limit_class(RateLimitClass::Create);
    let access = require_sandbox(session.authorize_project(&app, &ids, Permission::Develop).await?)?;
    let mut check_form = CheckForm::parse(&fields);
    match create_check(&app, &access, &check_form).await {
        Ok(screen) => Ok(render_handset(&app, &session, &access, check_form, screen)),
        Err(CreateFailure::InvalidInput(error)) => {
            check_form.error = Some(to_sentence(&error));
            Ok(render_handset(&app, &session, &access, check_form, PhoneScreen::Idle))
        }
        Err(CreateFailure::Other(error)) => Err(error),
    }
}

/// Reason why no check was created.
enum CreateFailure {
    /// Shown beside the form.
    InvalidInput(String),
    Other(ConsoleError),
}

impl From<CreateError> for CreateFailure {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Store(cause) => CreateFailure::Other(cause.into()),
            other => CreateFailure::InvalidInput(other.to_string().replace("`/", "`")),
        }
    }
}

async fn create_check(app: &App, access: &ProjectAccess, check_form: &CheckForm) -> Result<PhoneScreen, CreateFailure> {
    let non_empty = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let reference = non_empty(&check_form.reference).map(|text| text.parse::<Reference>()).transpose();
    let reference = reference.map_err(|error| CreateFailure::InvalidInput(error.to_string()))?;
    let (phone_number, callback_url) = (check_form.number.clone(), non_empty(&check_form.callback_url));
    match check_form.product {
        Product::ReverseSms => {
            let new = CreateReverseSms { phone_number, reference, callback_url };
            let created = app.engine.create_reverse_sms(&access.project, new, None).await?;
            Ok(PhoneScreen::Sms(Box::new(SmsDraft::new(&created, &check_form.number))))
        }
        Product::SecureSna | Product::Discovery => {
            let phone_number = (check_form.product == Product::SecureSna).then_some(phone_number);
            let new = CreateSilent { phone_number, reference, callback_url, ..CreateSilent::default() };
            let created = app.engine.create_silent(&access.project, check_form.product, new, None).await?;
            Ok(PhoneScreen::Browser(Box::new(SimulatedBrowser::new(&created, &check_form.number))))
        }
        Product::SimSwap | Product::Eligibility => {
            let new = CreateSimSwap { phone_number, period: None, reference };
            let check = app.engine.create_sim_swap(&access.project, new, None).await?;
            Ok(PhoneScreen::SimSwap(SimSwapResult::new(&check)))
        }
    }
}

fn parse_check_id(fields: &FormFields) -> Result<CheckId, ConsoleError> {
    fields.get("check").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)
}

fn redirect_to_check(access: &ProjectAccess, product: Product, check: CheckId) -> Response {
    let layout = Layout::anonymous("").in_project(&access.project);
    page::see_other(&format!("{}/checks/{product}/{check}", layout.project_path()))
}

fn require_sandbox(access: ProjectAccess) -> Result<ProjectAccess, ConsoleError> {
    if access.project.mode == Mode::Sandbox {
        return Ok(access);
    }
    let text = "The handset simulates phones of sandbox projects. This project is live.";
    Err(ConsoleError::new(StatusCode::CONFLICT, "Handset unavailable", text))
}

/// Responds with 400 if a form has an error.
fn render_handset(
    app: &App,
    session: &ConsoleSession,
    access: &ProjectAccess,
    check_form: CheckForm,
    screen: PhoneScreen,
) -> Response {
    let has_error = check_form.error.is_some() || matches!(&screen, PhoneScreen::Sms(draft) if draft.error.is_some());
    let status = if has_error { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let layout = Layout::for_session(session, "Handset").in_workspace(session, &access.workspace, Section::Handset);
    let layout = layout.in_project(&access.project);
    let swaps = sim_swaps::swap_rows(app, access.project.id);
    page::render(status, &HandsetPage { layout, check_form, screen, sims: &SIMS, swap_times: &SWAP_TIMES, swaps })
}

fn problem_sentence(problem: impl Into<Problem>) -> String {
    to_sentence(&problem.into().detail.replace("`/", "`"))
}
