//! A silent check on the phone: its browser opens the URL, goes to the operator and comes back, hop by hop, and ends
//! with a code that the project's server redeems.
//!
//! The hops are those of a real device, by the same use cases. Only the sockets between them are left out.

use std::{net::SocketAddr, sync::Arc, time::Duration};

use axum::{extract::State, response::Response};
use http::header;
use ringtrue_domain::{account::Power, lifecycle::CheckId, product::Product, sandbox::DEFAULT_SIM};
use ringtrue_engine::{
    rate_limit::CallKind,
    silent::{ChainEnd, ChainFault, CreatedSilent, RedeemError, Return, Step, Visit},
};
use url::Url;

use super::{Phone, Typed, check_of, sandbox, shown, to_check};
use crate::{
    console::{
        forms::{Fields, SignedForm},
        refusal::{Refusal, sentence},
    },
    http::{App, arrival::Arrival, path::PathIds, problem::Problem},
};

/// Some simulated operators never answer. Nobody needs to wait that long to see it.
const PATIENCE: Duration = Duration::from_secs(5);
/// Tokens are cut after so many characters: they are long, and nobody reads them.
const SHOWN: usize = 10;

/// The browser of the phone.
pub struct Browser {
    pub check: String,
    pub product: Product,
    pub sim: String,
    /// What the check's URL has after the host, and the token of its query.
    pub path: String,
    pub token: String,
    /// How long there is time, when it is new.
    pub seconds: Option<u16>,
    pub hops: Vec<Hop>,
    pub end: Option<End>,
}

/// One request of the device, and its answer.
pub struct Hop {
    pub url: String,
    pub status: u16,
    pub text: String,
}

/// Where the way has ended.
pub enum End {
    Code(String),
    Fault(String),
}

impl Browser {
    pub fn new(created: &CreatedSilent, number: &str) -> Self {
        let url = Url::parse(&created.url).ok();
        let pairs = url.iter().flat_map(|url| url.query_pairs());
        let token = pairs.into_iter().find(|(name, _)| name == "t").map(|(_, token)| token.into_owned());
        let check = &created.check;
        Browser {
            seconds: Some(created.ttl),
            ..Browser::at(check.id, check.product, number, &token.unwrap_or_default())
        }
    }

    fn at(check: CheckId, product: Product, sim: &str, token: &str) -> Self {
        let checks = if product == Product::Discovery { "discovery-checks" } else { "secure-sna-checks" };
        Browser {
            check: check.to_string(),
            product,
            sim: if sim.is_empty() { DEFAULT_SIM.to_owned() } else { sim.to_owned() },
            path: format!("/v1/number-verification/{checks}/{check}/redirect"),
            token: token.to_owned(),
            seconds: None,
            hops: vec![],
            end: None,
        }
    }

    /// The code, if there is one.
    pub fn code(&self) -> &str {
        match &self.end {
            Some(End::Code(code)) => code,
            Some(End::Fault(_)) | None => "",
        }
    }

    fn saw(&mut self, url: &str, status: u16, text: impl Into<String>) {
        self.hops.push(Hop { url: shortened(url), status, text: text.into() });
    }

    fn failed(&mut self, url: &str, problem: &Problem) {
        let text = sentence(&problem.detail);
        self.saw(url, problem.code.entry().status.as_u16(), text.clone());
        self.end = Some(End::Fault(text));
    }

    /// The way of the device, to its end.
    async fn walk(&mut self, app: &App, check: CheckId, from: &Arrival) {
        let first = format!("{}?t={}&sim={}", self.path, self.token, self.sim);
        let (token, sim) = (self.token.clone(), self.sim.clone());
        let visit = Visit { product: self.product, check, token: &token, sim: Some(&sim), address: from.address };
        let operator = match app.engine.visit(visit).await {
            Ok(Step::Go(location)) => location,
            Ok(Step::End(end)) => return self.arrive(&first, end),
            Err(error) => return self.failed(&first, &error.into()),
        };
        self.saw(&first, 302, "The check is pending. To the operator, which knows the device by its connection.");
        let Some(back) = self.ask_operator(app, &operator).await else { return };
        match come_back(app, &back, from.peer, from).await {
            Ok(end) => self.arrive(&back, end),
            Err(problem) => self.failed(&back, &problem),
        }
    }

    /// Where the operator sends the device back to.
    async fn ask_operator(&mut self, app: &App, url: &str) -> Option<String> {
        let query = url.split_once('?').map_or("", |(_, query)| query);
        let answer = match tokio::time::timeout(PATIENCE, app.authorizer.ask(query)).await {
            Err(_) => {
                self.failed(url, &Problem::unavailable("the operator never answers; the check expires in its time"));
                return None;
            }
            Ok(None) => {
                self.failed(url, &Problem::unavailable("this deployment runs no sandbox operator"));
                return None;
            }
            Ok(Some(Err(_))) => {
                self.failed(url, &Problem::unavailable("the sandbox operator does not answer"));
                return None;
            }
            Ok(Some(Ok(answer))) => answer,
        };
        let back = answer.headers.get(header::LOCATION).and_then(|location| location.to_str().ok()).map(str::to_owned);
        if back.is_some() {
            self.saw(url, answer.status, "The operator has seen the SIM. Back, with a code of the operator.");
        } else {
            let text = sentence(&String::from_utf8_lossy(&answer.body));
            self.saw(url, answer.status, text.clone());
            self.end = Some(End::Fault(text));
        }
        back
    }

    fn arrive(&mut self, url: &str, end: ChainEnd) {
        let next = end.redirect_url.as_ref().map(|url| url.as_str().to_owned());
        let status = if next.is_some() { 302 } else { 200 };
        let to = next.map(|url| format!(" The app takes it from {url}, which it does not open.")).unwrap_or_default();
        match end.result {
            Ok(code) => {
                self.saw(url, status, format!("The operator’s word is sealed until the code is redeemed.{to}"));
                self.end = Some(End::Code(code.0));
            }
            Err(fault) => {
                let text = match fault {
                    ChainFault::Failed(code) => format!("The check has ended with {}.", code.as_str()),
                    ChainFault::Expired => "The check’s time is up.".to_owned(),
                    ChainFault::AlreadyCompleted => {
                        "The check has ended already, or has given out its code.".to_owned()
                    }
                };
                self.saw(url, status, format!("{text}{to}"));
                self.end = Some(End::Fault(text));
            }
        }
    }
}

async fn come_back(app: &App, url: &str, peer: SocketAddr, from: &Arrival) -> Result<ChainEnd, Problem> {
    let url = Url::parse(url).map_err(|error| Problem::internal(&error))?;
    let query: Vec<(String, String)> = url.query_pairs().into_owned().collect();
    let ticket = query.iter().find(|(name, _)| name == "state").map_or("", |(_, value)| value);
    let connector = url.path_segments().and_then(|segments| segments.rev().nth(1)).unwrap_or_default();
    let back = Return { connector, ticket, peer, address: from.address, query: &query, headers: &[] };
    Ok(app.engine.come_back(back).await?)
}

/// A URL without its host, and with the beginnings of what is long in its query.
fn shortened(url: &str) -> String {
    let after_scheme = url.split_once("://").map_or(url, |(_, rest)| rest.find('/').map_or("/", |at| &rest[at..]));
    let (path, query) = after_scheme.split_once('?').unwrap_or((after_scheme, ""));
    let short = |pair: &str| match pair.split_once('=') {
        Some((name, value)) if value.chars().count() > 2 * SHOWN => {
            format!("{name}={}…", value.chars().take(SHOWN).collect::<String>())
        }
        _ => pair.to_owned(),
    };
    let pairs: Vec<_> = query.split('&').filter(|pair| !pair.is_empty()).map(short).collect();
    if pairs.is_empty() { path.to_owned() } else { format!("{path}?{}", pairs.join("&")) }
}

/// `POST …/handset/open`: opens the URL, and follows it to its end.
pub async fn open(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    ids: PathIds,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let (product, check) = (product_of(&fields), check_of(&fields)?);
    // Whose check it is, is seen before anything is done with it.
    app.engine.any_check(place.project.id, product, check).await.map_err(Problem::from)?;
    let text = |name| fields.get(name).unwrap_or_default();
    let mut browser = Browser::at(check, product, text("sim"), text("t"));
    browser.walk(&app, check, &arrival).await;
    let typed = Typed { product, ..Typed::number(browser.sim.clone()) };
    Ok(shown(&app, &who, &place, typed, Phone::Browser(Box::new(browser))))
}

/// `POST …/handset/code`: gives the code that the device brought to the service, as the project's server would.
pub async fn redeem(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form.counted_as(CallKind::Create);
    let place = sandbox(who.project(&app, &ids, Power::Develop).await?)?;
    let (product, check) = (product_of(&fields), check_of(&fields)?);
    let code = fields.get("code").unwrap_or_default();
    match app.engine.redeem(place.project.id, product, check, code).await {
        // The check's page says how it ended.
        Ok(_) | Err(RedeemError::AlreadyCompleted { .. } | RedeemError::Expired) => {
            Ok(to_check(&place, product, check))
        }
        Err(error) => Err(Problem::from(error).into()),
    }
}

fn product_of(fields: &Fields) -> Product {
    match fields.get("product") {
        Some("discovery") => Product::Discovery,
        _ => Product::SecureSna,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_are_shown_without_what_nobody_reads() {
        for (url, shown) in [
            ("/v1/x?t=short&sim=+99012345600", "/v1/x?t=short&sim=+99012345600"),
            ("http://127.0.0.1:1/a?state=abcdefghijklmnopqrstu&x=1", "/a?state=abcdefghij…&x=1"),
            ("https://example.com", "/"),
            ("https://example.com/a?", "/a"),
        ] {
            assert_eq!(shortened(url), shown);
        }
    }
}
