//! The user's own account: password and sessions.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::accounts::{Password, PasswordError, SessionListItem};

use super::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    page::{self, Layout, UtcTime},
    session::{Client, ConsoleSession},
};
use crate::http::{App, Routes, path::PathParameters, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/account", show)
        .post("/console/account/password", change_password)
        .post("/console/account/sessions/{session_id}/end", end_session)
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
    sessions: Vec<SessionRow>,
}

#[derive(Debug)]
struct SessionRow {
    id: String,
    network: String,
    user_agent: String,
    created_at: UtcTime,
    seen_at: UtcTime,
    is_current: bool,
}

/// `GET /console/account`
async fn show(
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
    Client(client): Client,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let field = |name| fields.raw(name).unwrap_or_default();
    if field("password") != field("again") {
        return account_page(&app, &session, false, form_error("the passwords do not match")).await;
    }
    let passwords = (field("current"), field("password"));
    let error = match app.engine.change_password(&session.user, &session.token, passwords, client.address).await {
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
    if !app.engine.end_own_session(&form.session.user, id).await? {
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
    let row = |session: SessionListItem| SessionRow {
        id: session.id,
        network: session.origin.network,
        user_agent: session.origin.user_agent,
        created_at: UtcTime(session.created_at),
        seen_at: UtcTime(session.seen_at),
        is_current: session.is_current,
    };
    let page = AccountPage {
        layout: Layout::for_session(session, "Account"),
        email: session.user.account.email.to_string(),
        has_password: app.engine.has_password(&session.user).await?,
        min_password_chars: Password::MIN_CHARS,
        was_saved,
        error,
        sessions: app.engine.list_sessions(&session.user, &session.token).await?.into_iter().map(row).collect(),
    };
    Ok(page::render(status, &page))
}
