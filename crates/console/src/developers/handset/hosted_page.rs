//! Shows the hosted page of a verification on the simulated phone, over mobile data or Wi-Fi, and sends the SMS that the
//! page asks for.

use axum::{extract::State, response::Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ringtrue_domain::{phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::verifications::{StepInstructions, Verification};
use ringtrue_sandbox::handsets::SmsFaults;
use ringtrue_web::{app::App, parameters::PathParameters};
use serde::{Deserialize, Serialize};
use strum::{EnumString, IntoStaticStr, VariantArray};

use crate::{
    developers::handset::{
        CheckForm, PhoneScreen, authorize, parse_check_id, phone_state::PhoneState, problem_sentence,
        redirect_to_check, render_handset,
    },
    page::error::{ConsoleError, to_sentence},
    session::forms::{FormFields, SessionForm},
};

/// The hosted page of an open verification, as the phone shows it.
#[derive(Serialize, Deserialize)]
pub struct HostedPage {
    pub verification: String,
    /// Path and query of the page. The query contains the number of the simulated SIM, and the address of the phone if
    /// it is not mobile.
    pub path: String,
    pub sim: String,
    pub connection: Connection,
    /// Reason why the SMS was not sent.
    #[serde(skip)]
    pub error: Option<String>,
}

/// How the simulated phone is connected to the internet.
#[derive(
    Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize, EnumString, IntoStaticStr, VariantArray,
)]
#[strum(serialize_all = "snake_case", const_into_str)]
pub enum Connection {
    #[default]
    MobileData,
    Wifi,
}

impl Connection {
    pub fn parse(fields: &FormFields) -> Self {
        fields.get("connection").and_then(|name| name.parse().ok()).unwrap_or_default()
    }

    pub fn title(self) -> &'static str {
        match self {
            Connection::MobileData => "Mobile data",
            Connection::Wifi => "Wi-Fi",
        }
    }

    /// Returns the options of a selection: value, title, and whether it is selected.
    pub fn options(self) -> impl Iterator<Item = (&'static str, &'static str, bool)> {
        Connection::VARIANTS.iter().map(move |option| (option.into_str(), option.title(), *option == self))
    }

    /// Returns the query parameter that tells the hosted page the phone's address.
    fn address_parameter(self) -> &'static str {
        match self {
            Connection::MobileData => "",
            // A test address that is not mobile.
            Connection::Wifi => "&ip=198.51.100.1",
        }
    }
}

impl HostedPage {
    /// Returns `None` if the verification has concluded.
    pub fn new(verification: &Verification, sim: &str, connection: Connection) -> Option<Self> {
        let url = url::Url::parse(verification.page_url.as_deref()?).ok()?;
        let encoded_sim = utf8_percent_encode(sim, NON_ALPHANUMERIC);
        Some(HostedPage {
            verification: verification.check.id.to_string(),
            path: format!("{}?sim={encoded_sim}{}", url.path(), connection.address_parameter()),
            sim: sim.to_owned(),
            connection,
            error: None,
        })
    }
}

/// `POST …/handset/page-sms`: sends the SMS that the hosted page asks for.
pub async fn send_sms(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form).await?;
    let id = parse_check_id(&fields)?;
    let sim = fields.get("sim").unwrap_or_default();
    let verification = app.engine.verifications.read(access.project.id, id).await?;
    let sent = match (&verification.next_step, Msisdn::parse(sim, Mode::Sandbox)) {
        (_, Err(error)) => Err(to_sentence(&format!("invalid SIM number: {error}"))),
        (Some(StepInstructions::ReverseSms { receiver, sms_body }), Ok(from)) => app
            .handsets
            .send_sms(&access.project, (&from).into(), receiver, sms_body, SmsFaults::default())
            .await
            .map_err(problem_sentence),
        (_, Ok(_)) => Err("The page does not ask for an SMS.".to_owned()),
    };
    let verification = app.engine.verifications.read(access.project.id, id).await?;
    let connection = Connection::parse(&fields);
    let Some(page) = HostedPage::new(&verification, sim, connection) else {
        return Ok(redirect_to_check(&app, &access, Product::Verification, id));
    };
    let check_form = check_form(sim, connection);
    match sent {
        Ok(()) => PhoneState::new(&access, check_form, PhoneScreen::HostedPage(page)).redirect(&app, &access),
        Err(error) => {
            let page = HostedPage { error: Some(error), ..page };
            render_handset(&app, &access, check_form, PhoneScreen::HostedPage(page)).await
        }
    }
}

/// `POST …/handset/page-connection`: opens the hosted page again, over another connection.
pub async fn connect(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = authorize(&app, &ids, form).await?;
    let id = parse_check_id(&fields)?;
    let (sim, connection) = (fields.get("sim").unwrap_or_default(), Connection::parse(&fields));
    let verification = app.engine.verifications.read(access.project.id, id).await?;
    match HostedPage::new(&verification, sim, connection) {
        Some(page) => {
            let check_form = check_form(sim, connection);
            PhoneState::new(&access, check_form, PhoneScreen::HostedPage(page)).redirect(&app, &access)
        }
        None => Ok(redirect_to_check(&app, &access, Product::Verification, id)),
    }
}

fn check_form(sim: &str, connection: Connection) -> CheckForm {
    CheckForm { product: Product::Verification, connection, ..CheckForm::with_number(sim.to_owned()) }
}
