//! Links that are good once: to choose a password, or to come in without one.

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
    forms::{FORM_TOKEN, VisitorForm, invalid},
    page::{self, Frame},
    refusal::Refusal,
    sign_in::{visitor_token, with_cookie},
    visitor::{Client, SignedIn, meter_link},
};
use crate::http::{App, arrival::Arrival};

#[derive(Debug, Template)]
#[template(path = "console/link.html")]
struct LinkPage {
    frame: Frame,
    form_token: String,
    token: String,
    email: String,
    least: usize,
    error: Option<String>,
}

/// `GET /console/link`
///
/// A link for a password is only looked at: programs that open links before people do must not use it up.
pub async fn look(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    Client(client): Client,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    meter_link(&app, arrival.address)?;
    let query = query.unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let link = match app.engine.look_at_link(&token).await {
        Ok(link) => link,
        // Whoever follows a link twice is in already.
        Err(LinkError::NotGood) if SignedIn::find(&app, request.headers(), &arrival).await?.is_some() => {
            return Ok(page::see_other("/console"));
        }
        Err(error) => return Err(error.into()),
    };
    match link.purpose {
        LinkPurpose::SignIn => come_in(&app, &token, None, &client).await,
        LinkPurpose::SetPassword => {
            let (form_token, cookie) = visitor_token(&app, request.headers())?;
            let page = link_page(form_token, token, link.account.email.to_string(), None);
            Ok(with_cookie(page::html(StatusCode::OK, &page), cookie))
        }
    }
}

/// `POST /console/link`
pub async fn follow(State(app): State<App>, form: VisitorForm) -> Result<Response, Refusal> {
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let again = |error: &dyn std::fmt::Display, email: String| {
        let (status, error) = invalid(error);
        Ok(page::html(status, &link_page(field(FORM_TOKEN).to_owned(), token.to_owned(), email, error)))
    };
    meter_link(&app, form.client.address)?;
    let link = app.engine.look_at_link(token).await?;
    if password != field("again") {
        return again(&"the two passwords differ", link.account.email.to_string());
    }
    match Password::chosen(password) {
        Err(error) => again(&error, link.account.email.to_string()),
        Ok(_) => come_in(&app, token, Some(password), &form.client).await,
    }
}

async fn come_in(app: &App, token: &str, password: Option<&str>, client: &ClientInfo) -> Result<Response, Refusal> {
    let session = app.engine.use_link(token, password, client).await?;
    Ok(with_cookie(page::see_other("/console"), Some(Cookie::Session.set(app, session.reveal()))))
}

fn link_page(form_token: String, token: String, email: String, error: Option<String>) -> LinkPage {
    LinkPage { frame: Frame::bare("Choose a password"), form_token, token, email, least: Password::MIN_CHARS, error }
}
