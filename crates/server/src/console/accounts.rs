//! All accounts of the deployment, for administrators.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_engine::{accounts::AccessLink, ports::AccountSummary};

use super::{
    forms::SignedForm,
    home::Pages,
    members::{LinkView, account_of},
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::SignedIn,
};
use crate::http::{App, Routes, path::PathIds, query::Query};

const HERE: &str = "/console/deployment/accounts";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/deployment/accounts", list)
        .post("/console/deployment/accounts/{account_id}/link", new_link)
        .post("/console/deployment/accounts/{account_id}/make-admin", make_admin)
        .post("/console/deployment/accounts/{account_id}/remove-admin", remove_admin)
        .post("/console/deployment/accounts/{account_id}/disable", disable)
        .post("/console/deployment/accounts/{account_id}/enable", enable)
}

#[derive(Debug, Template)]
#[template(path = "console/accounts.html")]
struct AccountsPage {
    frame: Frame,
    link: Option<LinkView>,
    accounts: Vec<AccountRow>,
    pages: Pages,
}

#[derive(Debug)]
struct AccountRow {
    id: String,
    email: String,
    is_admin: bool,
    is_disabled: bool,
    has_password: bool,
    workspaces: u64,
    signed_in_at: Option<Moment>,
    /// The end of the path, and the label of the button.
    actions: Vec<(&'static str, &'static str)>,
}

/// `GET /console/deployment/accounts`
async fn list(State(app): State<App>, who: SignedIn, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let administrator = who.administrator()?;
    let query = Query::parse(query.as_deref(), &["page", "link"])?;
    let link = match query.get("link").and_then(|id| id.parse().ok()) {
        Some(id) => app.engine.account_link(&administrator, id).await?,
        None => None,
    };
    let found = app.engine.accounts(&administrator, query.page_of(page::ROWS)?).await?;
    Ok(page::ok(&AccountsPage {
        frame: Frame::of(&who, "Accounts").in_deployment(Section::Accounts),
        link: link.map(|link| LinkView::new(&app, &link)),
        accounts: found.items.iter().map(row).collect(),
        pages: Pages::of(&found, |number| format!("{HERE}?page={number}")),
    }))
}

/// `POST /console/deployment/accounts/{account_id}/link`
async fn new_link(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let administrator = form.who.administrator()?;
    Ok(show_link(&app.engine.reset_password(&administrator, account_of(&ids)?).await?))
}

/// `POST /console/deployment/accounts/{account_id}/make-admin`
async fn make_admin(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let administrator = form.who.administrator()?;
    Ok(show_link(&app.engine.make_admin(&administrator, account_of(&ids)?).await?))
}

/// `POST /console/deployment/accounts/{account_id}/remove-admin`
async fn remove_admin(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let administrator = form.who.administrator()?;
    let account = account_of(&ids)?;
    app.engine.remove_admin(&administrator, account).await?;
    let is_me = account == form.who.person.account.id;
    Ok(page::see_other(if is_me { "/console" } else { HERE }))
}

/// `POST /console/deployment/accounts/{account_id}/disable`
async fn disable(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let administrator = form.who.administrator()?;
    app.engine.disable_account(&administrator, account_of(&ids)?).await?;
    Ok(page::see_other(HERE))
}

/// `POST /console/deployment/accounts/{account_id}/enable`
async fn enable(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let administrator = form.who.administrator()?;
    app.engine.enable_account(&administrator, account_of(&ids)?).await?;
    Ok(page::see_other(HERE))
}

fn show_link(link: &AccessLink) -> Response {
    page::see_other(&format!("{HERE}?link={}", link.id))
}

fn row(summary: &AccountSummary) -> AccountRow {
    let AccountSummary { account, is_disabled, has_password, signed_in_at, workspaces } = summary;
    let actions = match (is_disabled, account.is_admin) {
        (true, _) => vec![("enable", "Enable")],
        (false, true) => {
            vec![("link", "New link"), ("remove-admin", "Remove as administrator"), ("disable", "Disable")]
        }
        (false, false) => vec![("link", "New link"), ("make-admin", "Make administrator"), ("disable", "Disable")],
    };
    AccountRow {
        id: account.id.to_string(),
        email: account.email.to_string(),
        is_admin: account.is_admin,
        is_disabled: *is_disabled,
        has_password: *has_password,
        workspaces: *workspaces,
        signed_in_at: signed_in_at.map(Moment),
        actions,
    }
}
