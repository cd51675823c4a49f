//! Shows the hosted page of a verification on the simulated phone, and sends the SMS that the page asks for.

use axum::{extract::State, response::Response};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ringtrue_domain::{phone::Msisdn, product::Product, tenancy::Mode};
use ringtrue_engine::verifications::{StepInstructions, Verification};
use ringtrue_sandbox::handsets::SmsFaults;
use ringtrue_web::{app::App, parameters::PathParameters};
use serde::{Deserialize, Serialize};

use crate::{
    developers::handset::{
        CheckForm, PhoneScreen, authorize, parse_check_id, phone_state::PhoneState, problem_sentence,
        redirect_to_check, render_handset,
    },
    page::error::{ConsoleError, to_sentence},
    session::forms::SessionForm,
};

/// The hosted page of an open verification, as the phone shows it.
#[derive(Serialize, Deserialize)]
pub struct HostedPage {
    pub verification: String,
    /// Path and query of the page. The query contains the number of the simulated SIM.
    pub path: String,
    pub sim: String,
    /// Reason why the SMS was not sent.
    #[serde(skip)]
    pub error: Option<String>,
}

impl HostedPage {
    /// Returns `None` if the verification has concluded.
    pub fn new(verification: &Verification, sim: &str) -> Option<Self> {
        let url = url::Url::parse(verification.page_url.as_deref()?).ok()?;
        Some(HostedPage {
            verification: verification.check.id.to_string(),
            path: format!("{}?sim={}", url.path(), utf8_percent_encode(sim, NON_ALPHANUMERIC)),
            sim: sim.to_owned(),
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
    let Some(page) = HostedPage::new(&verification, sim) else {
        return Ok(redirect_to_check(&app, &access, Product::Verification, id));
    };
    let check_form = CheckForm { product: Product::Verification, ..CheckForm::with_number(sim.to_owned()) };
    match sent {
        Ok(()) => PhoneState::new(&access, check_form, PhoneScreen::HostedPage(page)).redirect(&app, &access),
        Err(error) => {
            let page = HostedPage { error: Some(error), ..page };
            render_handset(&app, &access, check_form, PhoneScreen::HostedPage(page)).await
        }
    }
}
