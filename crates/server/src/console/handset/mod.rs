//! The simulated phone of a sandbox project: makes a check, texts what its user would text, opens what its user would
//! open, and has its SIM swapped.
//!
//! What is on the phone is nowhere but on the page: invitations and codes are shown once, as to a caller.

mod device;
mod message;
mod sims;
mod swaps;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    lifecycle::{CheckId, Reference},
    product::Product,
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::CreateError, rate_limit::CallKind, reverse_sms::CreateReverseSms, silent::CreateSilent,
    sim_swap::CreateSimSwap,
};

use self::{
    device::{Browser, End},
    message::Message,
    sims::{SIMS, Sim},
    swaps::{Card, SwapRow, WHENS, When},
};
use super::{
    forms::{Fields, SignedForm},
    page::{self, Frame, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, SignedIn},
};
use crate::http::{App, Routes, path::PathIds, problem::Problem, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/handset", show)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset", create)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/sms", message::send)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/open", device::open)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/code", device::redeem)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap", swaps::swap)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/handset/swap-back", swaps::swap_back)
}

#[derive(Template)]
#[template(path = "console/handset.html")]
struct HandsetPage {
    frame: Frame,
    typed: Typed,
    phone: Phone,
    sims: &'static [Sim],
    whens: &'static [When],
    swaps: Vec<SwapRow>,
}

/// What was typed into the forms, and what is wrong with it.
struct Typed {
    product: Product,
    number: String,
    reference: String,
    callback_url: String,
    error: Option<String>,
}

/// The phone, with what is on it.
enum Phone {
    Idle,
    Message(Box<Message>),
    Browser(Box<Browser>),
    Card(Card),
}

impl Typed {
    fn number(number: String) -> Self {
        Typed {
            product: Product::ReverseSms,
            number,
            reference: String::new(),
            callback_url: String::new(),
            error: None,
        }
    }

    fn of(fields: &Fields) -> Self {
        let text = |name| fields.get(name).unwrap_or_default().to_owned();
        Typed {
            product: fields.get("product").and_then(|name| name.parse().ok()).unwrap_or(Product::ReverseSms),
            number: text("number"),
            reference: text("reference"),
            callback_url: text("callback_url"),
            error: None,
        }
    }

    /// For the menu of products.
    fn is(&self, product: &str) -> bool {
        self.product.as_str() == product
    }
}

/// `GET …/handset`
pub async fn show(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let place = sandbox(who.project(&app, &ids, Power::Look).await?)?;
    let query = Query::parse(query.as_deref(), &["sim"])?;
    let sim = query.get("sim").and_then(Sim::ending).unwrap_or(&SIMS[0]);
    Ok(shown(&app, &who, &place, Typed::number(sim.number()), Phone::Idle))
}

/// `POST …/handset`: makes a check, and takes it onto the phone.
pub async fn create(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form.counted_as(CallKind::Create);
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let mut typed = Typed::of(&fields);
    match make(&app, &place, &typed).await {
        Ok(phone) => Ok(shown(&app, &who, &place, typed, phone)),
        Err(NotMade::Said(error)) => {
            typed.error = Some(sentence(&error));
            Ok(shown(&app, &who, &place, typed, Phone::Idle))
        }
        Err(NotMade::Refused(refusal)) => Err(refusal),
    }
}

/// Why there is no check.
enum NotMade {
    /// For whoever typed it.
    Said(String),
    Refused(Refusal),
}

impl From<CreateError> for NotMade {
    fn from(error: CreateError) -> Self {
        match error {
            CreateError::Store(cause) => NotMade::Refused(cause.into()),
            other => NotMade::Said(other.to_string().replace("`/", "`")),
        }
    }
}

async fn make(app: &App, place: &InProject, typed: &Typed) -> Result<Phone, NotMade> {
    let filled = |text: &str| Some(text.to_owned()).filter(|text| !text.is_empty());
    let reference = filled(&typed.reference).map(|text| text.parse::<Reference>()).transpose();
    let reference = reference.map_err(|error| NotMade::Said(error.to_string()))?;
    let (phone_number, callback_url) = (typed.number.clone(), filled(&typed.callback_url));
    match typed.product {
        Product::ReverseSms => {
            let new = CreateReverseSms { phone_number, reference, callback_url };
            let created = app.engine.create_reverse_sms(&place.project, new, None).await?;
            Ok(Phone::Message(Box::new(Message::new(&created, &typed.number))))
        }
        Product::SecureSna | Product::Discovery => {
            let phone_number = (typed.product == Product::SecureSna).then_some(phone_number);
            let new = CreateSilent { phone_number, reference, callback_url, ..CreateSilent::default() };
            let created = app.engine.create_silent(&place.project, typed.product, new, None).await?;
            Ok(Phone::Browser(Box::new(Browser::new(&created, &typed.number))))
        }
        Product::SimSwap | Product::Eligibility => {
            let new = CreateSimSwap { phone_number, period: None, reference };
            let check = app.engine.create_sim_swap(&place.project, new, None).await?;
            Ok(Phone::Card(Card::new(&check)))
        }
    }
}

/// The check that a form of the phone is about.
fn check_of(fields: &Fields) -> Result<CheckId, Refusal> {
    fields.get("check").and_then(|id| id.parse().ok()).ok_or_else(Refusal::not_found)
}

/// To the check's page, which says what came of it.
fn to_check(place: &InProject, product: Product, check: CheckId) -> Response {
    let frame = Frame::bare("").in_project(&place.project);
    page::see_other(&format!("{}/checks/{product}/{check}", frame.project_path()))
}

/// Only sandbox projects have phones.
fn sandbox(place: InProject) -> Result<InProject, Refusal> {
    if place.project.mode == Mode::Sandbox {
        return Ok(place);
    }
    let text = "This project is live: its users have phones of their own.";
    Err(Refusal::new(StatusCode::CONFLICT, "Only sandbox projects have a handset", text))
}

/// The page; what is wrong with a form is a bad request.
fn shown(app: &App, who: &SignedIn, place: &InProject, typed: Typed, phone: Phone) -> Response {
    let has_error = typed.error.is_some() || matches!(&phone, Phone::Message(message) if message.error.is_some());
    let status = if has_error { StatusCode::BAD_REQUEST } else { StatusCode::OK };
    let frame = Frame::of(who, "Handset").in_workspace(who, &place.workspace, Section::Handset);
    let frame = frame.in_project(&place.project);
    let swaps = swaps::rows(app, place.project.id);
    page::html(status, &HandsetPage { frame, typed, phone, sims: &SIMS, whens: &WHENS, swaps })
}

/// What the engine refuses, as a sentence.
fn told(problem: impl Into<Problem>) -> String {
    sentence(&problem.into().detail.replace("`/", "`"))
}
