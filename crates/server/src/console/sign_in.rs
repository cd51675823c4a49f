//! Sign-in and sign-out.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use ringtrue_engine::accounts::SignInError;

use super::{
    cookies::Cookie,
    error::{ConsoleError, to_sentence},
    forms::{SessionForm, VisitorForm},
    page::{self, Layout},
    session::ConsoleSession,
};
use crate::http::{App, request_context::RequestContext};

#[derive(Debug, Template)]
#[template(path = "console/sign_in.html")]
struct SignInPage {
    layout: Layout,
    csrf_token: String,
    email: String,
    next: String,
    error: Option<String>,
}

/// Returns a CSRF token for a form without a session, and a new visitor cookie if the browser has none.
pub fn visitor_csrf_token(app: &App, headers: &HeaderMap) -> Result<(String, Option<HeaderValue>), ConsoleError> {
    if let Some(cookie) = Cookie::Visitor.read(app, headers) {
        return Ok((app.engine.csrf_token(cookie)?, None));
    }
    let cookie = app.engine.generate_token();
    Ok((app.engine.csrf_token(&cookie)?, Some(Cookie::Visitor.set(app, &cookie))))
}

pub fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `GET /console/sign-in`
pub async fn show(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    let headers = request.headers();
    let next = query.as_deref().map(|query| url::form_urlencoded::parse(query.as_bytes()));
    let next = next.and_then(|mut pairs| pairs.find(|(name, _)| name == "next")).map(|(_, value)| value.into_owned());
    if ConsoleSession::authenticate(&app, headers, &context).await?.is_some() {
        return Ok(page::see_other(&local_path(next.as_deref())));
    }
    let (csrf_token, cookie) = visitor_csrf_token(&app, headers)?;
    let next = local_path(next.as_deref());
    let page = SignInPage { layout: Layout::anonymous("Sign in"), csrf_token, email: String::new(), next, error: None };
    Ok(with_cookie(page::render(StatusCode::OK, &page), cookie))
}

/// `POST /console/sign-in`
pub async fn sign_in(State(app): State<App>, form: VisitorForm) -> Result<Response, ConsoleError> {
    let VisitorForm { fields, client, .. } = form;
    let email = fields.get("email").unwrap_or_default();
    let next = local_path(fields.get("next"));
    let error = match app.engine.sign_in(email, fields.raw("password").unwrap_or_default(), &client).await {
        Ok(token) => {
            let response = page::see_other(&next);
            let response = with_cookie(response, Some(Cookie::Session.set(&app, token.reveal())));
            return Ok(with_cookie(response, Some(Cookie::Visitor.clear(&app))));
        }
        Err(SignInError::Store(error)) => return Err(error.into()),
        Err(error) => error,
    };
    let status = match &error {
        SignInError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        SignInError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        SignInError::WrongCredentials | SignInError::Store(_) => StatusCode::UNAUTHORIZED,
    };
    let csrf_token = fields.raw(super::forms::CSRF_FIELD).unwrap_or_default().to_owned();
    let text = Some(to_sentence(&error.to_string()));
    let page =
        SignInPage { layout: Layout::anonymous("Sign in"), csrf_token, email: email.to_owned(), next, error: text };
    let mut response = page::render(status, &page);
    if let SignInError::Throttled { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `POST /console/sign-out`
pub async fn sign_out(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    app.engine.sign_out(&form.session.user, &form.session.token).await?;
    Ok(with_cookie(page::see_other("/console/sign-in"), Some(Cookie::Session.clear(&app))))
}

/// Restricts the redirect after sign-in to paths of the console.
fn local_path(next: Option<&str>) -> String {
    let is_console_path = |path: &&str| {
        let rest = path.strip_prefix("/console");
        let stays = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        stays && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !path.contains("//")
    };
    next.filter(is_console_path).unwrap_or("/console").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn redirects_stay_within_the_console() {
        for good in ["/console", "/console?x=1", "/console/workspaces/1?search=a%20b"] {
            assert_eq!(local_path(Some(good)), good);
        }
        for bad in [
            "",
            "//evil.example",
            "/console//evil.example",
            "https://evil.example",
            "/consoles",
            "/docs",
            "/console\\x",
            "/console/\r\n",
        ] {
            assert_eq!(local_path(Some(bad)), "/console", "{bad:?}");
        }
        assert_eq!(local_path(None), "/console");
    }
}
