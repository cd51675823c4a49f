//! The wallet of the simulated phone. The hosted page in the phone's frame cannot ask a real wallet, so it asks the
//! script of this page (`assets/handset.js`), which shows the wallet to the user and calls these endpoints.

use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::{phone::Msisdn, silent::AppOrigin, tenancy::Mode};
use ringtrue_engine::ports::operator_tokens::DigitalCredential;
use ringtrue_sandbox::{
    camara::PhoneNumber,
    handsets::{HandsetError, Handsets},
    wallet::{CredentialRequest, Forgery},
};
use ringtrue_web::{app::App, parameters::PathParameters, problem::Problem, response::json_response};
use serde::{Deserialize, Serialize};
use serde_json::Value;
use url::Url;

use crate::{
    developers::handset::{SIMS, authorize, problem_sentence},
    page::error::ConsoleError,
    session::forms::{FormFields, SessionForm},
};

/// Request to a wallet, or its response, as JSON.
#[derive(Serialize, Deserialize)]
struct CredentialJson {
    protocol: String,
    data: Value,
}

/// What the wallet shows before the user confirms.
#[derive(Serialize)]
struct WalletSheet {
    consent_text: String,
    policy_text: String,
    policy_link: Option<String>,
    sims: Vec<OfferedSim>,
}

#[derive(Serialize)]
struct OfferedSim {
    number: String,
    name: &'static str,
}

#[derive(Serialize)]
struct WalletConfirmation {
    credential: CredentialJson,
}

/// Why the wallet has no response.
#[derive(Serialize)]
struct WalletProblem {
    /// What the hosted page gets to know; or `no_answer`: it gets no answer.
    error: &'static str,
    text: String,
}

impl WalletSheet {
    /// Offers the SIM with the hinted number first, or without a hint the phone's own.
    fn new(request: CredentialRequest, own_sim: Option<&str>) -> Self {
        let CredentialRequest { consent, hinted_number, .. } = request;
        let first_name = if hinted_number.is_some() { "Number to verify" } else { "SIM of this phone" };
        let first = hinted_number.as_ref().map(PhoneNumber::as_str).or(own_sim);
        let first = first.and_then(|number| Msisdn::parse(number, Mode::Sandbox).ok());
        let first = first.filter(Handsets::offers_sim).map(|number| number.as_str().to_owned());
        let is_offered =
            |number: &str| Msisdn::parse(number, Mode::Sandbox).is_ok_and(|number| Handsets::offers_sim(&number));
        let listed = SIMS.iter().map(|sim| OfferedSim { number: sim.number(), name: sim.name });
        let mut sims: Vec<_> = listed.filter(|sim| is_offered(&sim.number)).collect();
        let position = sims.iter().position(|sim| first.as_deref() == Some(&sim.number));
        match (position, first) {
            (Some(index), _) => sims[..=index].rotate_right(1),
            (None, Some(number)) => sims.insert(0, OfferedSim { number, name: first_name }),
            (None, None) => {}
        }
        let is_web = Url::parse(&consent.policy_link).is_ok_and(|link| matches!(link.scheme(), "http" | "https"));
        WalletSheet {
            consent_text: consent.text,
            policy_text: consent.policy_text,
            policy_link: is_web.then_some(consent.policy_link),
            sims,
        }
    }
}

/// `POST …/handset/wallet/request`: reads a request, and returns what the wallet shows.
pub async fn show(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (_, fields) = authorize(&app, &ids, form).await?;
    Ok(match read_request(&app, &fields) {
        Ok(request) => json_response(StatusCode::OK, &WalletSheet::new(request, fields.get("own_sim"))),
        Err(error) => problem_response(error),
    })
}

/// `POST …/handset/wallet/confirm`: returns the wallet's response for a SIM. With `forgery`, the response is forged.
pub async fn confirm(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (_, fields) = authorize(&app, &ids, form).await?;
    let invalid = |detail: &str| ConsoleError::from(Problem::bad_request(detail));
    let sim = Msisdn::parse(fields.get("sim").unwrap_or_default(), Mode::Sandbox);
    let sim = sim.map_err(|_| invalid("`sim`: invalid phone number"))?;
    let forgery = fields.get("forgery").map(str::parse::<Forgery>).transpose();
    let forgery = forgery.map_err(|_| invalid("`forgery`: unknown value"))?;
    // The hosted page belongs to this deployment.
    let origin = AppOrigin::from_stored(app.engine.base_url()).map_err(|error| Problem::internal(&error))?;
    let confirmed = read_request(&app, &fields)
        .and_then(|request| app.handsets.respond_to_credential_request(&request, &sim, &origin, None, forgery));
    Ok(match confirmed {
        Ok(DigitalCredential { protocol, data }) => {
            json_response(StatusCode::OK, &WalletConfirmation { credential: CredentialJson { protocol, data } })
        }
        Err(error) => problem_response(error),
    })
}

fn read_request(app: &App, fields: &FormFields) -> Result<CredentialRequest, HandsetError> {
    // Text that is no request becomes an empty one, which the wallet rejects.
    let request = serde_json::from_str(fields.get("request").unwrap_or_default());
    let CredentialJson { protocol, data } =
        request.unwrap_or(CredentialJson { protocol: String::new(), data: Value::Null });
    app.handsets.validate_credential_request(&DigitalCredential { protocol, data })
}

fn problem_response(error: HandsetError) -> Response {
    let name = match error {
        HandsetError::SimNotEligible => "no_sim",
        HandsetError::NoAnswer => "no_answer",
        _ => "unavailable",
    };
    json_response(StatusCode::BAD_REQUEST, &WalletProblem { error: name, text: problem_sentence(error) })
}
