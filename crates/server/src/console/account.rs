//! A person's own account: the password, and the sessions.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::accounts::{OwnSession, Password, PasswordError};

use super::{
    forms::{SignedForm, invalid},
    page::{self, Frame, Moment},
    refusal::Refusal,
    visitor::{Client, SignedIn},
};
use crate::http::{App, Routes, path::PathIds, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/account", show)
        .post("/console/account/password", change_password)
        .post("/console/account/sessions/{session_id}/end", end_session)
}

#[derive(Debug, Template)]
#[template(path = "console/account.html")]
struct AccountPage {
    frame: Frame,
    email: String,
    has_password: bool,
    least: usize,
    was_saved: bool,
    error: Option<String>,
    sessions: Vec<SessionRow>,
}

#[derive(Debug)]
struct SessionRow {
    id: String,
    network: String,
    user_agent: String,
    created_at: Moment,
    seen_at: Moment,
    is_current: bool,
}

/// `GET /console/account`
async fn show(State(app): State<App>, who: SignedIn, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let was_saved = Query::parse(query.as_deref(), &["saved"])?.get("saved").is_some();
    account_page(&app, &who, was_saved, (StatusCode::OK, None)).await
}

/// `POST /console/account/password`
async fn change_password(
    State(app): State<App>,
    Client(client): Client,
    form: SignedForm,
) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let field = |name| fields.raw(name).unwrap_or_default();
    if field("password") != field("again") {
        return account_page(&app, &who, false, invalid("the two passwords differ")).await;
    }
    let passwords = (field("current"), field("password"));
    let error = match app.engine.change_password(&who.person, &who.token, passwords, client.address).await {
        Ok(()) => return Ok(page::see_other("/console/account?saved")),
        Err(PasswordError::Store(error)) => return Err(error.into()),
        Err(error) => error,
    };
    let status = match &error {
        PasswordError::Wait { .. } => StatusCode::TOO_MANY_REQUESTS,
        PasswordError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        PasswordError::Wrong | PasswordError::Invalid(_) | PasswordError::Store(_) => StatusCode::BAD_REQUEST,
    };
    let mut response = account_page(&app, &who, false, (status, invalid(&error).1)).await?;
    if let PasswordError::Wait { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `POST /console/account/sessions/{session_id}/end`
async fn end_session(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let id = ids.get("session_id").unwrap_or_default();
    if !app.engine.end_own_session(&form.who.person, id).await? {
        return Err(Refusal::not_found());
    }
    Ok(page::see_other("/console/account"))
}

async fn account_page(
    app: &App,
    who: &SignedIn,
    was_saved: bool,
    (status, error): (StatusCode, Option<String>),
) -> Result<Response, Refusal> {
    let row = |session: OwnSession| SessionRow {
        id: session.id,
        network: session.origin.network,
        user_agent: session.origin.user_agent,
        created_at: Moment(session.created_at),
        seen_at: Moment(session.seen_at),
        is_current: session.is_current,
    };
    let page = AccountPage {
        frame: Frame::of(who, "Your account"),
        email: who.person.account.email.to_string(),
        has_password: app.engine.has_password(&who.person).await?,
        least: Password::MIN_CHARS,
        was_saved,
        error,
        sessions: app.engine.sessions(&who.person, &who.token).await?.into_iter().map(row).collect(),
    };
    Ok(page::html(status, &page))
}
