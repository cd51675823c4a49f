//! All accounts of the deployment, for administrators.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_engine::{accounts::AccessLink, ports::AccountSummary};

use super::{
    error::ConsoleError,
    forms::SessionForm,
    home::Pagination,
    members::{LinkView, parse_account_id},
    page::{self, Layout, Section, UtcTime},
    session::ConsoleSession,
};
use crate::http::{App, Routes, path::PathParameters, query::Query};

const ACCOUNTS_PATH: &str = "/console/deployment/accounts";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/deployment/accounts", list)
        .post("/console/deployment/accounts/{account_id}/link", create_link)
        .post("/console/deployment/accounts/{account_id}/make-admin", make_admin)
        .post("/console/deployment/accounts/{account_id}/remove-admin", remove_admin)
        .post("/console/deployment/accounts/{account_id}/disable", disable)
        .post("/console/deployment/accounts/{account_id}/enable", enable)
}

#[derive(Debug, Template)]
#[template(path = "console/accounts.html")]
struct AccountsPage {
    layout: Layout,
    link: Option<LinkView>,
    accounts: Vec<AccountRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct AccountRow {
    id: String,
    email: String,
    is_admin: bool,
    is_disabled: bool,
    has_password: bool,
    workspaces: u64,
    signed_in_at: Option<UtcTime>,
    /// Path suffixes and button labels.
    actions: Vec<(&'static str, &'static str)>,
}

/// `GET /console/deployment/accounts`
async fn list(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let administrator = session.require_admin()?;
    let query = Query::parse(query.as_deref(), &["page", "link"])?;
    let link = match query.get("link").and_then(|id| id.parse().ok()) {
        Some(id) => app.engine.find_account_link(&administrator, id).await?,
        None => None,
    };
    let found = app.engine.list_accounts(&administrator, query.page_with_default_size(page::PAGE_SIZE)?).await?;
    Ok(page::render_ok(&AccountsPage {
        layout: Layout::for_session(&session, "Accounts").in_deployment(Section::Accounts),
        link: link.map(|link| LinkView::new(&app, &link)),
        accounts: found.items.iter().map(account_row).collect(),
        pagination: Pagination::new(&found, |number| format!("{ACCOUNTS_PATH}?page={number}")),
    }))
}

/// `POST /console/deployment/accounts/{account_id}/link`
async fn create_link(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    Ok(redirect_to_link(&app.engine.create_password_reset_link(&administrator, parse_account_id(&ids)?).await?))
}

/// `POST /console/deployment/accounts/{account_id}/make-admin`
async fn make_admin(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    Ok(redirect_to_link(&app.engine.make_admin(&administrator, parse_account_id(&ids)?).await?))
}

/// `POST /console/deployment/accounts/{account_id}/remove-admin`
async fn remove_admin(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    let account = parse_account_id(&ids)?;
    app.engine.remove_admin(&administrator, account).await?;
    let is_self = account == form.session.user.account.id;
    Ok(page::see_other(if is_self { "/console" } else { ACCOUNTS_PATH }))
}

/// `POST /console/deployment/accounts/{account_id}/disable`
async fn disable(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.disable_account(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

/// `POST /console/deployment/accounts/{account_id}/enable`
async fn enable(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.enable_account(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

fn redirect_to_link(link: &AccessLink) -> Response {
    page::see_other(&format!("{ACCOUNTS_PATH}?link={}", link.id))
}

fn account_row(summary: &AccountSummary) -> AccountRow {
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
        signed_in_at: signed_in_at.map(UtcTime),
        actions,
    }
}
