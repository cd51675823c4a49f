//! Page for the user's own account: password, second factor and sessions.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::accounts::{Password, PasswordError, SessionListItem, SignInMethods};
use ringtrue_web::{
    app::App,
    development::shell_quote,
    parameters::{PathParameters, Query},
    routes::Routes,
};

use crate::{
    page::{self, Layout, error::ConsoleError},
    session::{
        console_session::{BrowserClient, ConsoleSession},
        forms::{SessionForm, form_error},
    },
};

pub const ACCOUNT_PATH: &str = "/console/account";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/account", show_own)
        .post("/console/account/password", change_password)
        .post("/console/account/sessions/{session_id}/end", end_session)
        .post("/console/account/end-other-sessions", end_other_sessions)
}

#[derive(Debug, Template)]
#[template(path = "session/account.html")]
struct AccountPage {
    layout: Layout,
    email: String,
    methods: SignInMethods,
    /// Whether the deployment requires a second factor for sign-in by password.
    is_second_factor_required: bool,
    min_password_chars: usize,
    notice: Option<&'static str>,
    errors: AccountErrors,
    sessions: Vec<SessionListItem>,
    /// Shell command that creates a link to set a password.
    link_command: String,
}

/// Errors of the forms on the account page, one for each form.
#[derive(Debug, Default)]
pub struct AccountErrors {
    pub password: Option<String>,
    pub second_factor: Option<String>,
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
    if !app.engine.accounts.end_session_of_user(&form.session.user, id).await? {
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
