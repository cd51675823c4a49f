//! The simulated handset of a sandbox project: creates checks, sends SMS, opens check URLs, plays the wallet and swaps
//! SIMs.
//!
//! The server does not store the phone's state. Only the browser holds the SMS instructions and codes, just as only API
//! callers hold them otherwise.

mod hosted_page;
mod phone_state;
mod silent_check;
mod sms;
mod wallet;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Permission,
    lifecycle::{CheckId, Reference},
    phone::Msisdn,
    product::Product,
    sim_swap::SimSwapCheck,
    tenancy::{Mode, ProjectId},
};
use ringtrue_engine::{
    checks::{CreateError, reverse_sms::CreateReverseSms, sim_swap::CreateSimSwap},
    ports::store::StoreError,
    rate_limits::RateLimitClass,
    silent::CreateSilent,
    verifications::CreateVerification,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    routes::Routes,
};
use serde::{Deserialize, Serialize};

use crate::{
    developers::handset::{
        hosted_page::{Connection, HostedPage},
        phone_state::{PhoneState, product_name},
        silent_check::{RedirectResult, SimulatedBrowser},
        sms::SmsDraft,
    },
    observe::checks::describe_sim_swap,
    page::{
        self, Layout, MenuSection, UtcTime,
        error::{ConsoleError, to_sentence},
    },
    session::{
        console_session::ProjectAccess,
        forms::{FormFields, SessionForm},
    },
};

/// Prefix of all simulated numbers that the page offers.
const NUMBER_PREFIX: &str = "+9901234567";

pub const SIMS: [SimulatedSim; 9] = [
    SimulatedSim {
        suffix: "00",
        name: "Matches",
        behaviour: "All checks succeed. All other even numbers behave the same.",
    },
    SimulatedSim {
        suffix: "01",
        name: "Does not match",
        behaviour: "The operator reports another number, Discovery finds no number, and the SIM was changed within the last \
               day. All other odd numbers behave the same.",
    },
    SimulatedSim {
        suffix: "99",
        name: "Operator fails",
        behaviour: "The check ends with mno_server_error, or internal_error for Reverse SMS.",
    },
    SimulatedSim {
        suffix: "98",
        name: "No response",
        behaviour: "The check expires. SIM Swap completes without a date.",
    },
    SimulatedSim {
        suffix: "97",
        name: "Operator not supported",
        behaviour: "Creating a check fails with mno_not_supported.",
    },
    SimulatedSim {
        suffix: "96",
        name: "No Secure SNA",
        behaviour: "Creating a Secure SNA check fails with mno_not_supported. Other products succeed.",
    },
    SimulatedSim {
        suffix: "95",
        name: "Operator times out",
        behaviour: "The check ends with mno_timeout. Reverse SMS checks do not match.",
    },
    SimulatedSim {
        suffix: "94",
        name: "Unassigned number",
        behaviour: "Creating a check fails with mno_not_supported. Eligibility returns subscriber_not_found.",
    },
    SimulatedSim {
        suffix: "93",
        name: "Lookup unavailable",
        behaviour: "Creating a check fails with lookup_unavailable, which can be retried.",
    },
];

pub const SWAP_TIMES: [SwapTime; 6] = [
    SwapTime { value: "now", title: "just now", hours: 0 },
    SwapTime { value: "5h", title: "5 hours ago", hours: 5 },
    SwapTime { value: "3d", title: "3 days ago", hours: 3 * 24 - 1 },
    SwapTime { value: "20d", title: "20 days ago", hours: 20 * 24 },
    SwapTime { value: "200d", title: "200 days ago", hours: 200 * 24 },
    SwapTime { value: "2y", title: "2 years ago", hours: 2 * 365 * 24 },
];

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/handset", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset", create)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/sms", sms::send)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/open", silent_check::open)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/code", silent_check::redeem)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/page-sms", hosted_page::send_sms)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/page-connection", hosted_page::connect)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/wallet/request", wallet::show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/wallet/confirm", wallet::confirm)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap", swap)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap-back", restore)
}

#[derive(Template)]
#[template(path = "developers/handset.html")]
struct HandsetPage {
    layout: Layout,
    check_form: CheckForm,
    screen: PhoneScreen,
    sims: &'static [SimulatedSim],
    swap_times: &'static [SwapTime],
    swaps: Vec<SwappedSim>,
}

/// Submitted values of the form that creates a check, and the error in them.
#[derive(Serialize, Deserialize)]
struct CheckForm {
    #[serde(with = "product_name")]
    product: Product,
    number: String,
    /// Connection of the phone that shows a hosted page.
    connection: Connection,
    reference: String,
    callback_url: String,
    #[serde(skip)]
    error: Option<String>,
}

#[derive(Serialize, Deserialize)]
enum PhoneScreen {
    Idle,
    Sms(Box<SmsDraft>),
    Browser(Box<SimulatedBrowser>),
    SimSwap(SimSwapResult),
    HostedPage(HostedPage),
}

/// Reason why no check was created.
enum CreateFailure {
    /// An error in the user's input, shown beside the form.
    InvalidInput(String),
    Other(ConsoleError),
}

#[derive(Debug)]
pub struct SimulatedSim {
    /// Last two digits of the number. They select its simulated behaviour.
    pub suffix: &'static str,
    pub name: &'static str,
    pub behaviour: &'static str,
}

impl SimulatedSim {
    pub fn number(&self) -> String {
        format!("{NUMBER_PREFIX}{}", self.suffix)
    }

    pub fn by_suffix(digits: &str) -> Option<&'static SimulatedSim> {
        SIMS.iter().find(|sim| sim.suffix == digits)
    }
}

/// An option of the form that swaps a SIM: how long ago the swap happened.
#[derive(Debug)]
pub struct SwapTime {
    pub value: &'static str,
    pub title: &'static str,
    hours: i64,
}

/// A simulated number whose SIM was swapped.
pub struct SwappedSim {
    pub number: String,
    pub at: UtcTime,
}

/// Result of a SIM Swap check.
#[derive(Serialize, Deserialize)]
pub struct SimSwapResult {
    pub check: String,
    pub status: String,
    pub summary: String,
}

impl SimSwapResult {
    pub fn new(check: &SimSwapCheck) -> Self {
        let summary = match (check.verdict(), check.error_code()) {
            (Some(swap), _) => describe_sim_swap(swap),
            (None, Some(code)) => format!("The check failed: {}", code.into_str()),
            (None, None) => String::new(),
        };
        SimSwapResult {
            check: check.id.to_string(),
            status: check.status().into_str().to_owned(),
            summary: to_sentence(&summary),
        }
    }
}

impl CheckForm {
    fn with_number(number: String) -> Self {
        CheckForm {
            product: Product::ReverseSms,
            number,
            connection: Connection::default(),
            reference: String::new(),
            callback_url: String::new(),
            error: None,
        }
    }

    fn parse(fields: &FormFields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        let named = fields.get("product").and_then(|name| name.parse::<Product>().ok());
        CheckForm {
            product: named.filter(|product| product.facts().has_checks).unwrap_or(Product::ReverseSms),
            number: text("number"),
            connection: Connection::parse(fields),
            reference: text("reference"),
            callback_url: text("callback_url"),
            error: None,
        }
    }

    /// Returns the options of the product selection: value, title, and whether it is selected.
    fn products(&self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        Product::WITH_CHECKS.iter().map(|product| (product.into_str(), product.title(), *product == self.product))
    }
}

/// `GET …/handset`. With the query parameter `phone`, the phone shows the result of the last form, which is in a
/// cookie.
pub async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    require_sandbox(&access)?;
    let query = Query::parse(query.as_deref(), &["sim", "phone"])?;
    let state = query.get("phone").and_then(|_| PhoneState::read(&app, &access, &headers));
    if let Some(PhoneState { check_form, mut screen, .. }) = state {
        if let PhoneScreen::Sms(draft) = &mut screen {
            draft.set_links();
        }
        return render_handset(&app, &access, check_form, screen).await;
    }
    let sim = query.get("sim").and_then(SimulatedSim::by_suffix).unwrap_or(&SIMS[0]);
    render_handset(&app, &access, CheckForm::with_number(sim.number()), PhoneScreen::Idle).await
}

/// `POST …/handset`: creates a check and shows it on the phone.
pub async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form.with_rate_limit_class(RateLimitClass::Create)).await?;
    let mut check_form = CheckForm::parse(&fields);
    match create_check(&app, &access, &check_form).await {
        Ok(screen) => PhoneState::new(&access, check_form, screen).redirect(&app, &access),
        Err(CreateFailure::InvalidInput(error)) => {
            check_form.error = Some(to_sentence(&error));
            render_handset(&app, &access, check_form, PhoneScreen::Idle).await
        }
        Err(CreateFailure::Other(error)) => Err(error),
    }
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
            let created = app.engine.checks.create_reverse_sms(&access.project, new, None).await?;
            Ok(PhoneScreen::Sms(Box::new(SmsDraft::new(&created, &check_form.number))))
        }
        Product::SecureSna | Product::Discovery => {
            let phone_number = check_form.product.facts().takes_number.then_some(phone_number);
            let new = CreateSilent { phone_number, reference, callback_url, ..CreateSilent::default() };
            let created = app.engine.silent.create_silent(&access.project, check_form.product, new, None).await?;
            Ok(PhoneScreen::Browser(Box::new(SimulatedBrowser::new(&created, &check_form.number))))
        }
        Product::SimSwap => {
            let new = CreateSimSwap { phone_number, period: None, reference };
            let check = app.engine.checks.create_sim_swap(&access.project, new, None).await?;
            Ok(PhoneScreen::SimSwap(SimSwapResult::new(&check)))
        }
        Product::Verification => {
            let new = CreateVerification { phone_number, reference, callback_url, ..CreateVerification::default() };
            let created = app.engine.verifications.create(&access.project, new, None).await?;
            let page = HostedPage::new(&created, &check_form.number, check_form.connection);
            Ok(page.map_or(PhoneScreen::Idle, PhoneScreen::HostedPage))
        }
        // Does not happen: `CheckForm::parse` accepts only products with checks.
        product @ (Product::Eligibility | Product::SignIn) => {
            Err(CreateFailure::InvalidInput(format!("{} has no checks", product.title())))
        }
    }
}

fn parse_check_id(fields: &FormFields) -> Result<CheckId, ConsoleError> {
    fields.get("check").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)
}

/// Redirects to the page of a check after its last step on the phone, and deletes the phone's state.
fn redirect_to_check(app: &App, access: &ProjectAccess, product: Product, check: CheckId) -> Response {
    PhoneState::clear(app, page::see_other(&format!("{}/checks/{product}/{check}", access.path())))
}

/// Checks that the user may use the project's handset.
async fn authorize(
    app: &App,
    ids: &PathParameters,
    form: SessionForm,
) -> Result<(ProjectAccess, FormFields), ConsoleError> {
    let (access, fields) = form.authorize_project(app, ids, Permission::Develop).await?;
    require_sandbox(&access)?;
    Ok((access, fields))
}

fn require_sandbox(access: &ProjectAccess) -> Result<(), ConsoleError> {
    if access.project.mode == Mode::Sandbox {
        return Ok(());
    }
    let text = "The handset simulates phones of sandbox projects. This project is live.";
    Err(ConsoleError::new(StatusCode::CONFLICT, "Handset unavailable", text))
}

/// Renders the page. The status is 400 if a form has an error.
async fn render_handset(
    app: &App,
    access: &ProjectAccess,
    check_form: CheckForm,
    screen: PhoneScreen,
) -> Result<Response, ConsoleError> {
    let has_screen_error = match &screen {
        PhoneScreen::Sms(draft) => draft.error.is_some(),
        PhoneScreen::HostedPage(page) => page.error.is_some(),
        PhoneScreen::Idle | PhoneScreen::Browser(_) | PhoneScreen::SimSwap(_) => false,
    };
    let has_error = check_form.error.is_some() || has_screen_error;
    let status = if has_error { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let layout = access.layout("Handset", MenuSection::Handset);
    let swaps = swapped_sims(app, access.project.id).await?;
    let page = HandsetPage { layout, check_form, screen, sims: &SIMS, swap_times: &SWAP_TIMES, swaps };
    Ok(page::render(status, &page))
}

fn problem_sentence(problem: impl Into<Problem>) -> String {
    to_sentence(&problem.into().detail.replace("`/", "`"))
}

pub async fn swapped_sims(app: &App, project: ProjectId) -> Result<Vec<SwappedSim>, ConsoleError> {
    let swapped = app.engine.simulated_sims.swapped_numbers(project).await?.into_iter();
    Ok(swapped.map(|(number, at)| SwappedSim { number, at: UtcTime(at) }).collect())
}

/// `POST …/handset/swap`
pub async fn swap(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let selected = form.fields.get("when").unwrap_or(SWAP_TIMES[0].value);
    let hours = SWAP_TIMES.iter().find(|time| time.value == selected).unwrap_or(&SWAP_TIMES[0]).hours;
    let now = app.engine.clock().now();
    let at = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(now);
    let sims = &app.engine.simulated_sims;
    update_sim(&app, &ids, form, async |project, number| sims.record_swap(project, number, at).await).await
}

/// `POST …/handset/swap-back`
pub async fn restore(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let sims = &app.engine.simulated_sims;
    update_sim(&app, &ids, form, async |project, number| sims.undo_swap(project, number).await).await
}

async fn update_sim(
    app: &App,
    ids: &PathParameters,
    form: SessionForm,
    update: impl AsyncFnOnce(ProjectId, &Msisdn) -> Result<(), StoreError>,
) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(app, ids, form).await?;
    let number = fields.get("number").unwrap_or_default().to_owned();
    let mut check_form = CheckForm { product: Product::SimSwap, ..CheckForm::with_number(number) };
    match Msisdn::parse(&check_form.number, Mode::Sandbox) {
        Ok(number) => {
            update(access.project.id, &number).await?;
            PhoneState::new(&access, check_form, PhoneScreen::Idle).redirect(app, &access)
        }
        Err(error) => {
            check_form.error = Some(to_sentence(&error.to_string()));
            render_handset(app, &access, check_form, PhoneScreen::Idle).await
        }
    }
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{phone::Msisdn, tenancy::Mode};
    use ringtrue_sandbox::operator_access::NumberBehaviour;

    use super::*;

    #[test]
    fn each_script_has_one_sim() {
        let scripts =
            SIMS.iter().map(|sim| NumberBehaviour::of(Msisdn::parse(&sim.number(), Mode::Sandbox).unwrap().tail()));
        let scripts: Vec<_> = scripts.collect();
        for script in [
            NumberBehaviour::Even,
            NumberBehaviour::Odd,
            NumberBehaviour::OperatorFault,
            NumberBehaviour::Silence,
            NumberBehaviour::NothingSupported,
            NumberBehaviour::NoSecureSna,
            NumberBehaviour::OperatorTimeout,
            NumberBehaviour::NoSubscriber,
            NumberBehaviour::LookupDown,
        ] {
            assert_eq!(scripts.iter().filter(|other| **other == script).count(), 1, "{script:?}");
        }
    }
}
