//! Forms of the hosted page: starting the silent check, giving up a method, and ending the verification.

use std::borrow::Cow;

use axum::{
    extract::{Request, State},
    response::Response,
};
use http::{HeaderMap, header};
use ringtrue_domain::verification::UserEnd;
use ringtrue_engine::verifications::PageState;
use ringtrue_verification_page::QuestionSubject;
use ringtrue_web::{app::App, body::read_form, error_catalog::ProblemCode, problem::Problem};
use url::{Url, form_urlencoded};

use crate::verification_page::{
    SEC_FETCH_SITE,
    visitor::{PERMIT_PARAMETER, PageVisitor},
};

/// `POST /v/{token}/silent`
///
/// Issues a permit to start the silent check and redirects to `leave_for_operator`. The redirect keeps the form out of
/// the browser's history: browsers ask for a confirmation before they go back to a submitted form.
pub async fn start_silent(State(app): State<App>, visitor: PageVisitor, headers: HeaderMap) -> Response {
    let started = async {
        require_same_origin(&app, &headers)?;
        let view = visitor.load_view_for_action(&app).await?;
        if let PageState::Returned { code: Some(code), return_to: None } = &view.state {
            app.engine.verifications.page_redeem(&visitor.token, code).await?;
        }
        let key = visitor.own_or_new_key(&app, view.verification)?;
        let Some(permit) = app.engine.verifications.silent_start_token(&view, &key)? else {
            return visitor.redirect_to_page();
        };
        let mut response = visitor.redirect_to_action("/silent", Some((PERMIT_PARAMETER, &permit)))?;
        visitor.set_browser_key(&app, &headers, view.verification, &key, &mut response);
        Ok(response)
    };
    visitor.respond(started.await)
}

/// `POST /v/{token}/next`
///
/// Gives up the method that the page showed and continues with the next one. The form names the method, so submitting
/// it twice gives up only that method.
pub async fn give_up_step(State(app): State<App>, visitor: PageVisitor, request: Request) -> Response {
    let given_up = async {
        let method = read_own_form(&app, request, "method").await?;
        let method = method.and_then(|method| method.parse().ok());
        let method = method.ok_or_else(|| Problem::bad_request("the form names no method"))?;
        visitor.load_view_for_action(&app).await?;
        app.engine.verifications.page_give_up(&visitor.token, method).await?;
        visitor.redirect_to_page()
    };
    visitor.respond(given_up.await)
}

/// `POST /v/{token}/end`
///
/// Ends the verification at the end-user's request. The page has asked for confirmation before.
pub async fn end(State(app): State<App>, visitor: PageVisitor, request: Request) -> Response {
    let ended = async {
        let reason = read_own_form(&app, request, "reason").await?;
        let reason = reason.and_then(|reason| reason.parse().ok());
        let reason = reason.ok_or_else(|| Problem::bad_request("the form names no reason"))?;
        visitor.load_view_for_action(&app).await?;
        let end = match reason {
            QuestionSubject::GiveUp => UserEnd::GivenUp,
            QuestionSubject::WrongNumber => UserEnd::WrongNumber,
        };
        app.engine.verifications.end_by_user(&visitor.token, end).await?;
        visitor.redirect_to_page()
    };
    visitor.respond(ended.await)
}

/// Reads a field of a submitted form. Rejects forms of other sites.
async fn read_own_form(app: &App, request: Request, field: &str) -> Result<Option<String>, Problem> {
    let (parts, body) = request.into_parts();
    require_same_origin(app, &parts.headers)?;
    let form = read_form(app, &parts.headers, body).await?;
    let value = form_urlencoded::parse(&form).find_map(|(name, value)| (name == field).then_some(value));
    Ok(value.map(Cow::into_owned))
}

/// Rejects forms submitted from other sites, which could otherwise verify their visitors' numbers. Browsers that do not
/// send `Sec-Fetch-Site` send the form's origin instead.
pub(crate) fn require_same_origin(app: &App, headers: &HeaderMap) -> Result<(), Problem> {
    let is_same = match headers.get(SEC_FETCH_SITE) {
        Some(site) => site == "same-origin",
        None => headers.get(header::ORIGIN).and_then(|origin| origin.to_str().ok()).is_some_and(|origin| {
            let host = headers.get(header::HOST).and_then(|host| host.to_str().ok());
            let origin_host = origin.split_once("://").map(|(_, host)| host);
            origin_host.is_some() && (origin_host == host || is_origin_of(app.engine.base_url(), origin))
        }),
    };
    if is_same {
        Ok(())
    } else {
        Err(Problem::new(ProblemCode::Forbidden, "the form was not submitted by the page itself"))
    }
}

fn is_origin_of(base_url: &str, origin: &str) -> bool {
    Url::parse(base_url).is_ok_and(|url| url.origin().ascii_serialization() == origin)
}
