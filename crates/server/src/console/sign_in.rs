//! Signing in and out.

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
    forms::{SignedForm, VisitorForm},
    page::{self, Frame},
    refusal::{Refusal, sentence},
    visitor::SignedIn,
};
use crate::http::{App, arrival::Arrival};

#[derive(Debug, Template)]
#[template(path = "console/sign_in.html")]
struct SignInPage {
    frame: Frame,
    form_token: String,
    email: String,
    next: String,
    error: Option<String>,
}

/// A form token for somebody who has not signed in, and the cookie that it is bound to, where there is none yet.
pub fn visitor_token(app: &App, headers: &HeaderMap) -> Result<(String, Option<HeaderValue>), Refusal> {
    if let Some(cookie) = Cookie::Visitor.read(app, headers) {
        return Ok((app.engine.form_token(cookie)?, None));
    }
    let cookie = app.engine.random_token();
    Ok((app.engine.form_token(&cookie)?, Some(Cookie::Visitor.set(app, &cookie))))
}

pub fn with_cookie(mut response: Response, cookie: Option<HeaderValue>) -> Response {
    if let Some(cookie) = cookie {
        response.headers_mut().append(header::SET_COOKIE, cookie);
    }
    response
}

/// `GET /console/sign-in`
pub async fn form(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    let headers = request.headers();
    let next = query.as_deref().map(|query| url::form_urlencoded::parse(query.as_bytes()));
    let next = next.and_then(|mut pairs| pairs.find(|(name, _)| name == "next")).map(|(_, value)| value.into_owned());
    if SignedIn::find(&app, headers, &arrival).await?.is_some() {
        return Ok(page::see_other(&inside(next.as_deref())));
    }
    let (form_token, cookie) = visitor_token(&app, headers)?;
    let next = inside(next.as_deref());
    let page = SignInPage { frame: Frame::bare("Sign in"), form_token, email: String::new(), next, error: None };
    Ok(with_cookie(page::html(StatusCode::OK, &page), cookie))
}

/// `POST /console/sign-in`
pub async fn sign_in(State(app): State<App>, form: VisitorForm) -> Result<Response, Refusal> {
    let VisitorForm { fields, client, .. } = form;
    let email = fields.get("email").unwrap_or_default();
    let next = inside(fields.get("next"));
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
        SignInError::Wait { .. } => StatusCode::TOO_MANY_REQUESTS,
        SignInError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        SignInError::Wrong | SignInError::Store(_) => StatusCode::UNAUTHORIZED,
    };
    let form_token = fields.raw(super::forms::FORM_TOKEN).unwrap_or_default().to_owned();
    let text = Some(sentence(&error.to_string()));
    let page = SignInPage { frame: Frame::bare("Sign in"), form_token, email: email.to_owned(), next, error: text };
    let mut response = page::html(status, &page);
    if let SignInError::Wait { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `POST /console/sign-out`
pub async fn sign_out(State(app): State<App>, form: SignedForm) -> Result<Response, Refusal> {
    app.engine.sign_out(&form.who.person, &form.who.token).await?;
    Ok(with_cookie(page::see_other("/console/sign-in"), Some(Cookie::Session.clear(&app))))
}

/// Where somebody goes after signing in: to a page of the console, whatever was asked for.
fn inside(next: Option<&str>) -> String {
    let is_ours = |path: &&str| {
        let rest = path.strip_prefix("/console");
        let stays = rest.is_some_and(|rest| rest.is_empty() || rest.starts_with(['/', '?']));
        stays && path.bytes().all(|byte| byte.is_ascii_graphic() && byte != b'\\') && !path.contains("//")
    };
    next.filter(is_ours).unwrap_or("/console").to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nobody_is_led_out_of_the_console() {
        for good in ["/console", "/console?x=1", "/console/workspaces/1?search=a%20b"] {
            assert_eq!(inside(Some(good)), good);
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
            assert_eq!(inside(Some(bad)), "/console", "{bad:?}");
        }
        assert_eq!(inside(None), "/console");
    }
}
