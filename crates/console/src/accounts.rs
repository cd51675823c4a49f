//! The user's own account, and all accounts of the deployment for administrators.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::{
    accounts::{AccessLink, Password, PasswordError, SessionListItem, SignInMethods},
    ports::AccountSummary,
};
use ringtrue_web::{
    app::App,
    development::shell_quote,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    members::{LinkView, parse_account_id},
    page::{self, Layout, MenuSection, Pagination},
    session::{BrowserClient, ConsoleSession},
};

const ACCOUNTS_PATH: &str = "/console/deployment/accounts";
pub const ACCOUNT_PATH: &str = "/console/account";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/account", show_own)
        .post("/console/account/password", change_password)
        .post("/console/account/sessions/{session_id}/end", end_session)
        .post("/console/account/end-other-sessions", end_other_sessions)
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
#[template(path = "accounts.html")]
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
#[template(path = "account.html")]
struct AccountPage {
    layout: Layout,
    email: String,
    methods: SignInMethods,
    /// Whether the deployment requires a second factor of passwords.
    is_second_factor_required: bool,
    min_password_chars: usize,
    notice: Option<&'static str>,
    errors: AccountErrors,
    sessions: Vec<SessionListItem>,
    /// Creates a link that sets a password.
    link_command: String,
}

/// Errors of the forms on the account page.
#[derive(Debug, Default)]
pub struct AccountErrors {
    pub password: Option<String>,
    pub second_factor: Option<String>,
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

/// `GET /console/account`
async fn show_own(
    State(app): State<App>,
    session: ConsoleSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    const NOTICES: [(&str, &str); 3] = [
        ("saved", "Password changed. Your other sessions have ended."),
        ("disabled", "Second factor turned off."),
        ("ended", "Your other sessions have ended."),
    ];
    let query = Query::parse(query.as_deref(), &NOTICES.map(|(name, _)| name))?;
    let notice = NOTICES.into_iter().find(|(name, _)| query.get(name).is_some()).map(|(_, notice)| notice);
    account_page(&app, &session, notice, StatusCode::OK, AccountErrors::default()).await
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
        let (status, password) = form_error("the passwords do not match");
        return account_page(&app, &session, None, status, AccountErrors { password, ..<_>::default() }).await;
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
    let errors = AccountErrors { password: form_error(&error).1, ..AccountErrors::default() };
    let mut response = account_page(&app, &session, None, status, errors).await?;
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

/// `POST /console/account/end-other-sessions`
async fn end_other_sessions(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    app.engine.accounts.end_other_sessions(&form.session.user, &form.session.token).await?;
    Ok(page::see_other("/console/account?ended"))
}

pub async fn account_page(
    app: &App,
    session: &ConsoleSession,
    notice: Option<&'static str>,
    status: StatusCode,
    errors: AccountErrors,
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
        methods: app.engine.accounts.sign_in_methods(&session.user).await?,
        is_second_factor_required: app.engine.accounts.is_second_factor_required(),
        min_password_chars: Password::MIN_CHARS,
        notice,
        errors,
        sessions: app.engine.accounts.list_sessions(&session.user, &session.token).await?,
    };
    Ok(page::render(status, &page))
}
