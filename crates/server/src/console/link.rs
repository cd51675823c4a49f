//! Single-use links: to set a password, or to sign in without one.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_engine::{
    accounts::{ClientInfo, LinkError, Password},
    ports::LinkPurpose,
};

use super::{
    cookies::Cookie,
    error::ConsoleError,
    forms::{CSRF_FIELD, VisitorForm, form_error},
    page::{self, Layout},
    session::{Client, ConsoleSession, limit_link_lookup},
    sign_in::{visitor_csrf_token, with_cookie},
};
use crate::http::{App, request_context::RequestContext};

#[derive(Debug, Template)]
#[template(path = "console/link.html")]
struct LinkPage {
    layout: Layout,
    csrf_token: String,
    token: String,
    email: String,
    min_password_chars: usize,
    error: Option<String>,
}

/// `GET /console/link`
///
/// Does not use up a set-password link, as mail scanners and previews open links too.
pub async fn show(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    Client(client): Client,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, context.client_ip)?;
    let query = query.unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let link = match app.engine.find_link(&token).await {
        Ok(link) => link,
        // The user has already signed in with this link.
        Err(LinkError::Invalid) if ConsoleSession::authenticate(&app, request.headers(), &context).await?.is_some() => {
            return Ok(page::see_other("/console"));
        }
        Err(error) => return Err(error.into()),
    };
    match link.purpose {
        LinkPurpose::SignIn => use_link(&app, &token, None, &client).await,
        LinkPurpose::SetPassword => {
            let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
            let page = link_page(csrf_token, token, link.account.email.to_string(), None);
            Ok(with_cookie(page::render(StatusCode::OK, &page), cookie))
        }
    }
}

/// `POST /console/link`
pub async fn submit(State(app): State<App>, form: VisitorForm) -> Result<Response, ConsoleError> {
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let show_error = |error: &dyn std::fmt::Display, email: String| {
        let (status, error) = form_error(error);
        Ok(page::render(status, &link_page(field(CSRF_FIELD).to_owned(), token.to_owned(), email, error)))
    };
    limit_link_lookup(&app, form.client.address)?;
    let link = app.engine.find_link(token).await?;
    if password != field("again") {
        return show_error(&"the passwords do not match", link.account.email.to_string());
    }
    match Password::parse_new(password) {
        Err(error) => show_error(&error, link.account.email.to_string()),
        Ok(_) => use_link(&app, token, Some(password), &form.client).await,
    }
}

async fn use_link(
    app: &App,
    token: &str,
    password: Option<&str>,
    client: &ClientInfo,
) -> Result<Response, ConsoleError> {
    let session = app.engine.use_link(token, password, client).await?;
    Ok(with_cookie(page::see_other("/console"), Some(Cookie::Session.set(app, session.reveal()))))
}

fn link_page(csrf_token: String, token: String, email: String, error: Option<String>) -> LinkPage {
    LinkPage {
        layout: Layout::anonymous("Choose a password"),
        csrf_token,
        token,
        email,
        min_password_chars: Password::MIN_CHARS,
        error,
    }
}
