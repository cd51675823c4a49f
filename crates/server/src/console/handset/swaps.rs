//! The phone's SIM is swapped, and a SIM Swap check tells of it.

use axum::{extract::State, response::Response};
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Power,
    phone::Msisdn,
    product::Product,
    sim_swap::SimSwapCheck,
    tenancy::{Mode, ProjectId},
};

use super::{Phone, Typed, sandbox, shown};
use crate::{
    console::{
        checks::swap_words,
        forms::SignedForm,
        page::Moment,
        refusal::{Refusal, sentence},
    },
    http::{App, path::PathIds},
};

/// How long ago a SIM was swapped. The word is what the form sends.
#[derive(Debug)]
pub struct When {
    pub word: &'static str,
    pub title: &'static str,
    hours: i64,
}

pub const WHENS: [When; 6] = [
    When { word: "now", title: "just now", hours: 0 },
    When { word: "5h", title: "5 hours ago", hours: 5 },
    When { word: "3d", title: "3 days ago", hours: 3 * 24 - 1 },
    When { word: "20d", title: "20 days ago", hours: 20 * 24 },
    When { word: "200d", title: "200 days ago", hours: 200 * 24 },
    When { word: "2y", title: "2 years ago", hours: 2 * 365 * 24 },
];

/// A number whose SIM was swapped.
pub struct SwapRow {
    pub number: String,
    pub at: Moment,
}

/// What a SIM Swap check told of the card in the phone.
pub struct Card {
    pub check: String,
    pub status: &'static str,
    pub words: String,
}

impl Card {
    pub fn new(check: &SimSwapCheck) -> Self {
        let words = match (check.verdict(), check.error_code()) {
            (Some(swap), _) => swap_words(swap),
            (None, Some(code)) => format!("The operator could not tell: {}", code.as_str()),
            (None, None) => String::new(),
        };
        Card { check: check.id.to_string(), status: check.status().as_str(), words: sentence(&words) }
    }
}

pub fn rows(app: &App, project: ProjectId) -> Vec<SwapRow> {
    let swapped = app.handsets.swapped_sims(project).into_iter();
    swapped.map(|(number, at)| SwapRow { number, at: Moment(at) }).collect()
}

/// `POST …/handset/swap`
pub async fn swap(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let word = form.fields.get("when").unwrap_or(WHENS[0].word);
    let hours = WHENS.iter().find(|when| when.word == word).unwrap_or(&WHENS[0]).hours;
    change(&app, &ids, &form, |project, number| {
        let now = app.engine.clock().now();
        let at = now.checked_sub(SignedDuration::from_hours(hours)).unwrap_or(now);
        app.handsets.swap_sim(project, number, at);
    })
    .await
}

/// `POST …/handset/swap-back`
pub async fn swap_back(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    change(&app, &ids, &form, |project, number| app.handsets.put_sim_back(project, number)).await
}

async fn change(
    app: &App,
    ids: &PathIds,
    form: &SignedForm,
    change: impl FnOnce(ProjectId, &Msisdn),
) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(app, ids, Power::Develop).await?)?;
    let typed = fields.get("number").unwrap_or_default().to_owned();
    let mut typed = Typed { product: Product::SimSwap, ..Typed::number(typed) };
    match Msisdn::parse(&typed.number, Mode::Sandbox) {
        Ok(number) => change(place.project.id, &number),
        Err(error) => typed.error = Some(sentence(&error.to_string())),
    }
    Ok(shown(app, who, &place, typed, Phone::Idle))
}
