//! The simulated phone of a sandbox project: makes a check, texts what its user would text, opens what its user would
//! open.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{
    account::Power,
    lifecycle::{CheckId, Reference},
    phone::Msisdn,
    product::Product,
    sandbox::DEFAULT_SIM,
    tenancy::Mode,
};
use ringtrue_engine::{
    checks::CreateError,
    reverse_sms::{CreateReverseSms, Invitation},
    silent::{CreateSilent, RedeemError},
};
use ringtrue_sandbox::smsc::Behaviour;
use url::Url;

use super::{
    forms::{Fields, SignedForm},
    page::{self, Frame, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem};

/// A simulated number that matches.
const NUMBER: &str = "+990123456700";

#[derive(Debug, Template)]
#[template(path = "console/handset.html")]
struct HandsetPage {
    frame: Frame,
    typed: Typed,
    error: Option<String>,
    phone: Option<Phone>,
}

/// What was typed into the form for a new check.
#[derive(Debug)]
struct Typed {
    product: &'static str,
    number: String,
    reference: String,
    callback_url: String,
}

/// The phone, with a check on it.
#[derive(Debug)]
enum Phone {
    Sms { check: String, sim: String, receiver: String, body: String, link: String, seconds: u16 },
    Browser { check: String, product: &'static str, sim: String, path: String, token: String, seconds: u16 },
}

/// `GET …/handset`
pub async fn show(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = sandbox(who.project(&app, &ids, Power::Look).await?)?;
    let typed = Typed {
        product: Product::ReverseSms.as_str(),
        number: NUMBER.to_owned(),
        reference: String::new(),
        callback_url: String::new(),
    };
    Ok(shown(&who, &place, StatusCode::OK, typed, None, None))
}

/// `POST …/handset`: makes a check, and takes it onto the phone.
pub async fn create(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let product = fields.get("product").and_then(|name| name.parse().ok()).unwrap_or(Product::ReverseSms);
    let text = |name| fields.get(name).unwrap_or_default().to_owned();
    let typed = Typed {
        product: product.as_str(),
        number: text("number"),
        reference: text("reference"),
        callback_url: text("callback_url"),
    };
    match make(&app, &place, product, &fields).await {
        Ok(phone) => Ok(shown(&who, &place, StatusCode::OK, typed, None, Some(phone))),
        Err(NotMade::Said(error)) => {
            Ok(shown(&who, &place, StatusCode::BAD_REQUEST, typed, Some(sentence(&error)), None))
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

async fn make(app: &App, place: &InProject, product: Product, fields: &Fields) -> Result<Phone, NotMade> {
    let reference = fields.get("reference").map(str::parse::<Reference>).transpose();
    let reference = reference.map_err(|error| NotMade::Said(error.to_string()))?;
    let callback_url = fields.get("callback_url").map(str::to_owned);
    let number = fields.get("number").unwrap_or_default().to_owned();
    if product == Product::ReverseSms {
        let new = CreateReverseSms { phone_number: number.clone(), reference, callback_url };
        let created = app.engine.create_reverse_sms(&place.project, new, None).await?;
        let Invitation { receiver, sms_body, ttl } = created.invitation;
        let receiver = receiver.as_str().to_owned();
        let body = url::form_urlencoded::byte_serialize(sms_body.as_bytes()).collect::<String>().replace('+', "%20");
        let link = format!("sms:{receiver}?body={body}");
        let check = created.check.id.to_string();
        return Ok(Phone::Sms { check, sim: number, receiver, body: sms_body, link, seconds: ttl });
    }
    let phone_number = (product == Product::SecureSna).then(|| number.clone());
    let new = CreateSilent { phone_number, reference, callback_url, ..CreateSilent::default() };
    let created = app.engine.create_silent(&place.project, product, new, None).await?;
    let url = Url::parse(&created.url).map_err(|error| NotMade::Refused(Problem::internal(&error).into()))?;
    let token = url.query_pairs().find(|(name, _)| name == "t").map(|(_, token)| token.into_owned());
    Ok(Phone::Browser {
        check: created.check.id.to_string(),
        product: product.as_str(),
        sim: if number.is_empty() { DEFAULT_SIM.to_owned() } else { number },
        path: url.path().to_owned(),
        token: token.unwrap_or_default(),
        seconds: created.ttl,
    })
}

/// `POST …/handset/sms`: presses Send.
pub async fn send(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let number = |name| {
        let parsed = Msisdn::parse(fields.get(name).unwrap_or_default(), Mode::Sandbox);
        parsed.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "Not a number", error.to_string()))
    };
    let (from, to) = (number("sim")?, number("receiver")?);
    let body = fields.get("body").unwrap_or_default();
    app.handsets.text(&from, &to, body, Behaviour::new()).await.map_err(Problem::from)?;
    result(&place, Product::ReverseSms, &fields)
}

/// `POST …/handset/code`: gives the code that the device brought to the service, as the project's server would.
pub async fn redeem(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let product = match fields.get("product") {
        Some("discovery") => Product::Discovery,
        _ => Product::SecureSna,
    };
    let check = fields.get("check").and_then(|id| id.parse::<CheckId>().ok()).ok_or_else(Refusal::not_found)?;
    let code = fields.get("code").unwrap_or_default();
    match app.engine.redeem(place.project.id, product, check, code).await {
        // The check's page says how it ended.
        Ok(_) | Err(RedeemError::AlreadyCompleted { .. } | RedeemError::Expired) => result(&place, product, &fields),
        Err(error) => Err(Problem::from(error).into()),
    }
}

fn result(place: &InProject, product: Product, fields: &Fields) -> Result<Response, Refusal> {
    let check = fields.get("check").and_then(|id| id.parse::<CheckId>().ok()).ok_or_else(Refusal::not_found)?;
    let frame = Frame::bare("").in_project(&place.project);
    Ok(page::see_other(&format!("{}/checks/{product}/{check}", frame.project_path())))
}

/// Only sandbox projects have phones.
fn sandbox(place: InProject) -> Result<InProject, Refusal> {
    if place.project.mode == Mode::Sandbox {
        return Ok(place);
    }
    let text = "This project is live: its users have phones of their own.";
    Err(Refusal::new(StatusCode::CONFLICT, "Only sandbox projects have a handset", text))
}

fn shown(
    who: &SignedIn,
    place: &InProject,
    status: StatusCode,
    typed: Typed,
    error: Option<String>,
    phone: Option<Phone>,
) -> Response {
    let frame = Frame::of(who, "Handset").in_workspace(who, &place.workspace, Section::Handset);
    page::html(status, &HandsetPage { frame: frame.in_project(&place.project), typed, error, phone })
}
