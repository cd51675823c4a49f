//! Page with all accounts of the deployment, for administrators.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_engine::{accounts::AccessLink, ports::accounts::AccountSummary};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    page::{self, Layout, MenuSection, Pagination, error::ConsoleError},
    session::{console_session::ConsoleSession, forms::SessionForm},
    workspace::members::{LinkView, parse_account_id},
};

const ACCOUNTS_PATH: &str = "/console/deployment/accounts";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/deployment/accounts", list)
        .post("/console/deployment/accounts/{account_id}/link", create_link)
        .post("/console/deployment/accounts/{account_id}/make-admin", make_admin)
        .post("/console/deployment/accounts/{account_id}/remove-admin", remove_admin)
        .post("/console/deployment/accounts/{account_id}/disable", disable)
        .post("/console/deployment/accounts/{account_id}/enable", enable)
        .post("/console/deployment/accounts/{account_id}/remove-second-factor", remove_second_factor)
        .post("/console/deployment/accounts/{account_id}/unlink", unlink)
}

#[derive(Debug, Template)]
#[template(path = "deployment/accounts.html")]
struct AccountsPage {
    layout: Layout,
    link: Option<LinkView>,
    accounts: Vec<AccountRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct AccountRow {
    summary: AccountSummary,
    /// Actions on the account: path suffix and button label.
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
        Some(id) => app.engine.accounts.find_account_link(&administrator, id).await?,
        None => None,
    };
    let found =
        app.engine.accounts.list_accounts(&administrator, query.page_with_default_size(page::PAGE_SIZE)?).await?;
    Ok(page::render_ok(&AccountsPage {
        layout: session.layout("Accounts").in_deployment(MenuSection::Accounts),
        link: link.map(|link| LinkView::new(&app, &link)),
        pagination: Pagination::new(&found, ACCOUNTS_PATH, &[]),
        accounts: found.items.into_iter().map(account_row).collect(),
    }))
}

/// `POST /console/deployment/accounts/{account_id}/link`
async fn create_link(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    Ok(redirect_to_link(
        &app.engine.accounts.create_password_reset_link(&administrator, parse_account_id(&ids)?).await?,
    ))
}

/// `POST /console/deployment/accounts/{account_id}/make-admin`
async fn make_admin(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    Ok(redirect_to_link(&app.engine.accounts.make_admin(&administrator, parse_account_id(&ids)?).await?))
}

/// `POST /console/deployment/accounts/{account_id}/remove-admin`
async fn remove_admin(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    let account = parse_account_id(&ids)?;
    app.engine.accounts.remove_admin(&administrator, account).await?;
    let is_self = account == form.session.user.account.id;
    Ok(page::see_other(if is_self { "/console" } else { ACCOUNTS_PATH }))
}

/// `POST /console/deployment/accounts/{account_id}/disable`
async fn disable(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.accounts.disable_account(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

/// `POST /console/deployment/accounts/{account_id}/enable`
async fn enable(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.accounts.enable_account(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

/// `POST /console/deployment/accounts/{account_id}/remove-second-factor`
async fn remove_second_factor(
    State(app): State<App>,
    ids: PathParameters,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.accounts.remove_second_factor(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

/// `POST /console/deployment/accounts/{account_id}/unlink`
async fn unlink(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let administrator = form.session.require_admin()?;
    app.engine.accounts.unlink_identity(&administrator, parse_account_id(&ids)?).await?;
    Ok(page::see_other(ACCOUNTS_PATH))
}

fn redirect_to_link(link: &AccessLink) -> Response {
    page::see_other(&format!("{ACCOUNTS_PATH}?link={}", link.id))
}

fn account_row(summary: AccountSummary) -> AccountRow {
    let mut actions = match (summary.is_disabled, summary.account.is_admin) {
        (true, _) => vec![("enable", "Enable")],
        (false, true) => {
            vec![("link", "New link"), ("remove-admin", "Remove as administrator"), ("disable", "Disable")]
        }
        (false, false) => vec![("link", "New link"), ("make-admin", "Make administrator"), ("disable", "Disable")],
    };
    if summary.has_second_factor {
        actions.push(("remove-second-factor", "Remove second factor"));
    }
    if summary.has_identity {
        actions.push(("unlink", "Unlink OpenID Connect"));
    }
    AccountRow { summary, actions }
}
