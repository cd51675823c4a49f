//! Simulated SIM swaps and the results of SIM Swap checks.

use axum::{extract::State, response::Response};
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Permission,
    phone::Msisdn,
    product::Product,
    sim_swap::SimSwapCheck,
    tenancy::{Mode, ProjectId},
};

use super::{CheckForm, PhoneScreen, render_handset, require_sandbox};
use crate::{
    console::{
        checks::describe_sim_swap,
        error::{ConsoleError, to_sentence},
        forms::SessionForm,
        page::UtcTime,
    },
    http::{App, path::PathParameters},
};

/// A choice of how long ago a SIM was swapped.
#[derive(Debug)]
pub struct SwapTime {
    pub value: &'static str,
    pub title: &'static str,
    hours: i64,
}

pub const SWAP_TIMES: [SwapTime; 6] = [
    SwapTime { value: "now", title: "just now", hours: 0 },
    SwapTime { value: "5h", title: "5 hours ago", hours: 5 },
    SwapTime { value: "3d", title: "3 days ago", hours: 3 * 24 - 1 },
    SwapTime { value: "20d", title: "20 days ago", hours: 20 * 24 },
    SwapTime { value: "200d", title: "200 days ago", hours: 200 * 24 },
    SwapTime { value: "2y", title: "2 years ago", hours: 2 * 365 * 24 },
];

/// A number with a swapped SIM.
pub struct SwapRow {
    pub number: String,
    pub at: UtcTime,
}

/// Result of a SIM Swap check.
pub struct SimSwapResult {
    pub check: String,
    pub status: &'static str,
    pub summary: String,
}

impl SimSwapResult {
    pub fn new(check: &SimSwapCheck) -> Self {
        let summary = match (check.verdict(), check.error_code()) {
            (Some(swap), _) => describe_sim_swap(swap),
            (None, Some(code)) => format!("The check failed: {}", code.as_str()),
            (None, None) => String::new(),
        };
        SimSwapResult { check: check.id.to_string(), status: check.status().as_str(), summary: to_sentence(&summary) }
    }
}

pub fn swap_rows(app: &App, project: ProjectId) -> Vec<SwapRow> {
    let swapped = app.handsets.swapped_sims(project).into_iter();
    swapped.map(|(number, at)| SwapRow { number, at: UtcTime(at) }).collect()
}

/// `POST …/handset/swap`
pub async fn swap(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let selected = form.fields.get("when").unwrap_or(SWAP_TIMES[0].value);
    let hours = SWAP_TIMES.iter().find(|time| time.value == selected).unwrap_or(&SWAP_TIMES[0]).hours;
    update_sim(&app, &ids, &form, |project, number| {
        let now = app.engine.clock().now();
        let at = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(now);
        app.handsets.swap_sim(project, number, at);
    })
    .await
}

/// `POST …/handset/swap-back`
pub async fn restore(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    update_sim(&app, &ids, &form, |project, number| app.handsets.restore_sim(project, number)).await
}

async fn update_sim(
    app: &App,
    ids: &PathParameters,
    form: &SessionForm,
    update: impl FnOnce(ProjectId, &Msisdn),
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = require_sandbox(session.authorize_project(app, ids, Permission::Develop).await?)?;
    let number = fields.get("number").unwrap_or_default().to_owned();
    let mut check_form = CheckForm { product: Product::SimSwap, ..CheckForm::with_number(number) };
    match Msisdn::parse(&check_form.number, Mode::Sandbox) {
        Ok(number) => update(access.project.id, &number),
        Err(error) => check_form.error = Some(to_sentence(&error.to_string())),
    }
    Ok(render_handset(app, session, &access, check_form, PhoneScreen::Idle))
}
