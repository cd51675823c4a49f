//! The user's own account, and all accounts of the deployment for administrators.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::{
    accounts::{AccessLink, Password, PasswordError, SessionListItem},
    ports::AccountSummary,
};

use super::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    members::{LinkView, parse_account_id},
    page::{self, Layout, MenuSection, Pagination},
    session::{BrowserClient, ConsoleSession},
};
use crate::{
    development::shell_quote,
    http::{
        app::App,
        parameters::{PathParameters, Query},
        routes::Routes,
    },
};

const ACCOUNTS_PATH: &str = "/console/deployment/accounts";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/account", show_own)
        .post("/console/account/password", change_password)
        .post("/console/account/sessions/{session_id}/end", end_session)
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
    summary: AccountSummary,
    /// Path suffixes and button labels.
    actions: Vec<(&'static str, &'static str)>,
}

#[derive(Debug, Template)]
#[template(path = "console/account.html")]
struct AccountPage {
    layout: Layout,
    email: String,
    has_password: bool,
    min_password_chars: usize,
    was_saved: bool,
    error: Option<String>,
    sessions: Vec<SessionListItem>,
    /// Creates a link that sets a password.
    link_command: String,
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

fn redirect_to_link(link: &AccessLink) -> Response {
    page::see_other(&format!("{ACCOUNTS_PATH}?link={}", link.id))
}

fn account_row(summary: AccountSummary) -> AccountRow {
    let actions = match (summary.is_disabled, summary.account.is_admin) {
        (true, _) => vec![("enable", "Enable")],
        (false, true) => {
            vec![("link", "New link"), ("remove-admin", "Remove as administrator"), ("disable", "Disable")]
        }
        (false, false) => vec![("link", "New link"), ("make-admin", "Make administrator"), ("disable", "Disable")],
    };
    AccountRow { summary, actions }
}

/// `GET /console/account`
async fn show_own(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let was_saved = Query::parse(query.as_deref(), &["saved"])?.get("saved").is_some();
    account_page(&app, &session, was_saved, (StatusCode::OK, None)).await
}

/// `POST /console/account/password`
async fn change_password(
    State(app): State<App>,
    BrowserClient(client): BrowserClient,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let field = |name| fields.raw(name).unwrap_or_default();
    if field("password") != field("again") {
        return account_page(&app, &session, false, form_error("the passwords do not match")).await;
    }
    let passwords = (field("current"), field("password"));
    let error =
        match app.engine.accounts.change_password(&session.user, &session.token, passwords, client.address).await {
            Ok(()) => return Ok(page::see_other("/console/account?saved")),
            Err(PasswordError::Store(error)) => return Err(error.into()),
            Err(error) => error,
        };
    let status = match &error {
        PasswordError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        PasswordError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        PasswordError::WrongPassword | PasswordError::Invalid(_) | PasswordError::Store(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = account_page(&app, &session, false, (status, form_error(&error).1)).await?;
    if let PasswordError::Throttled { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `POST /console/account/sessions/{session_id}/end`
async fn end_session(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let id = ids.get("session_id").unwrap_or_default();
    if !app.engine.accounts.end_own_session(&form.session.user, id).await? {
        return Err(ConsoleError::not_found());
    }
    Ok(page::see_other("/console/account"))
}

async fn account_page(
    app: &App,
    session: &ConsoleSession,
    was_saved: bool,
    (status, error): (StatusCode, Option<String>),
) -> Result<Response, ConsoleError> {
    let email = session.user.account.email.to_string();
    let link = format!("console link --account {}", shell_quote(&email));
    let page = AccountPage {
        layout: session.layout("Account"),
        link_command: app
            .development
            .as_deref()
            .map_or_else(|| format!("ringtrue {link}"), |development| development.data_command(&link)),
        email,
        has_password: app.engine.accounts.has_password(&session.user).await?,
        min_password_chars: Password::MIN_CHARS,
        was_saved,
        error,
        sessions: app.engine.accounts.list_sessions(&session.user, &session.token).await?,
    };
    Ok(page::render(status, &page))
}
