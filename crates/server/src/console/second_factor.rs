//! Second factor: the step after the password, and its setup on the account page.

use askama::Template;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ringtrue_engine::accounts::{PendingSignIn, SECOND_FACTOR_TIMEOUT, SecondFactorError, SecondFactorSetup};
use ringtrue_verification_page::QrSvg;

use super::{
    accounts::{ACCOUNT_PATH, AccountErrors, account_page},
    error::{ConsoleError, to_sentence},
    forms::{CSRF_FIELD, SessionForm, VisitorForm},
    page::{self, Layout},
    session::{BrowserClient, ConsoleSession, Cookie, limit_link_lookup},
    sign_in::{local_path, query_value, visitor_csrf_token, with_cookie},
};
use crate::http::{app::App, routes::Routes};

const SIGN_IN_PATH: &str = "/console/second-factor";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/second-factor", show)
        .post("/console/second-factor", submit)
        .get("/console/account/second-factor", show_setup)
        .post("/console/account/second-factor", enable)
        .post("/console/account/second-factor/disable", disable)
}

#[derive(Debug, Template)]
#[template(path = "console/second_factor.html")]
struct SecondFactorPage {
    layout: Layout,
    csrf_token: String,
    next: String,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "console/second_factor_setup.html")]
struct SetupPage {
    layout: Layout,
    setup: SecondFactorSetup,
    qr: Option<QrSvg>,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "console/recovery_codes.html")]
struct RecoveryCodesPage {
    layout: Layout,
    codes: Vec<String>,
}

/// Asks for the code of a sign-in whose password was correct.
pub fn redirect_to_second_factor(app: &App, pending: &PendingSignIn, next: &str) -> Response {
    let path = page::link(SIGN_IN_PATH, &[("next", Some(next))]);
    let cookie = Cookie::SecondFactor.set_for(app, pending.reveal(), SECOND_FACTOR_TIMEOUT);
    with_cookie(page::see_other(&path), Some(cookie))
}

/// `GET /console/second-factor`
async fn show(
    State(app): State<App>,
    BrowserClient(client): BrowserClient,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, client.address)?;
    let pending = Cookie::SecondFactor.read(&app, request.headers()).unwrap_or_default();
    if !app.engine.accounts.is_sign_in_pending(pending).await? {
        return Err(ConsoleError::Redirect("/console/sign-in".to_owned()));
    }
    let next = local_path(query_value(query.as_deref(), "next").as_deref());
    let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
    let page = SecondFactorPage { layout: Layout::anonymous("Second factor"), csrf_token, next, error: None };
    Ok(with_cookie(page::render_ok(&page), cookie))
}

/// `POST /console/second-factor`
async fn submit(State(app): State<App>, headers: HeaderMap, form: VisitorForm) -> Result<Response, ConsoleError> {
    let VisitorForm { fields, client, .. } = form;
    let pending = Cookie::SecondFactor.read(&app, &headers).unwrap_or_default();
    let next = local_path(fields.get("next"));
    let code = fields.get("code").unwrap_or_default();
    let error = match app.engine.accounts.complete_sign_in(pending, code, &client).await {
        Ok(token) => {
            let response = page::see_other(&next);
            let response = with_cookie(response, Some(Cookie::Session.set(&app, token.reveal())));
            let response = with_cookie(response, Some(Cookie::SecondFactor.clear(&app)));
            return Ok(with_cookie(response, Some(Cookie::Visitor.clear(&app))));
        }
        Err(SecondFactorError::Store(error)) => return Err(error.into()),
        Err(error @ SecondFactorError::Expired) => {
            return Err(ConsoleError::new(StatusCode::BAD_REQUEST, "Sign in again", error.to_string()));
        }
        Err(error) => error,
    };
    let page = SecondFactorPage {
        layout: Layout::anonymous("Second factor"),
        csrf_token: fields.raw(CSRF_FIELD).unwrap_or_default().to_owned(),
        next,
        error: Some(to_sentence(&error.to_string())),
    };
    Ok(with_retry_after(page::render(error_status(&error), &page), &error))
}

/// `GET /console/account/second-factor`
async fn show_setup(State(app): State<App>, session: ConsoleSession) -> Result<Response, ConsoleError> {
    let methods = app.engine.accounts.sign_in_methods(&session.user).await?;
    if !methods.has_password || methods.unused_recovery_codes.is_some() {
        return Err(ConsoleError::Redirect(ACCOUNT_PATH.to_owned()));
    }
    let setup = app.engine.accounts.generate_second_factor(&session.user)?;
    Ok(page::render_ok(&setup_page(&session, setup, None)))
}

/// `POST /console/account/second-factor`: enables it, and shows the recovery codes once.
async fn enable(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let (salt, code) = (fields.get("salt").unwrap_or_default(), fields.get("code").unwrap_or_default());
    match app.engine.accounts.enable_second_factor(&session.user, salt, code).await {
        Ok(codes) => {
            let layout = session.layout("Recovery codes");
            Ok(page::render_ok(&RecoveryCodesPage { layout, codes }))
        }
        Err(error @ SecondFactorError::WrongCode) => {
            let setup = app.engine.accounts.find_second_factor_setup(&session.user, salt)?;
            let setup = setup.ok_or_else(ConsoleError::invalid_csrf_token)?;
            let error = Some(to_sentence(&error.to_string()));
            Ok(page::render(StatusCode::BAD_REQUEST, &setup_page(&session, setup, error)))
        }
        Err(SecondFactorError::Store(error)) => Err(error.into()),
        Err(error) => Err(ConsoleError::new(StatusCode::CONFLICT, "Second factor changed", error.to_string())),
    }
}

/// `POST /console/account/second-factor/disable`
async fn disable(
    State(app): State<App>,
    BrowserClient(client): BrowserClient,
    form: SessionForm,
) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let code = fields.get("code").unwrap_or_default();
    let error = match app.engine.accounts.disable_second_factor(&session.user, code, client.address).await {
        Ok(()) => return Ok(page::see_other("/console/account?disabled")),
        Err(SecondFactorError::Store(error)) => return Err(error.into()),
        Err(error) => error,
    };
    let errors = AccountErrors { second_factor: Some(to_sentence(&error.to_string())), ..AccountErrors::default() };
    let status = if let SecondFactorError::WrongCode = error { StatusCode::BAD_REQUEST } else { error_status(&error) };
    Ok(with_retry_after(account_page(&app, &session, None, status, errors).await?, &error))
}

fn setup_page(session: &ConsoleSession, setup: SecondFactorSetup, error: Option<String>) -> SetupPage {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let email = encode(session.user.account.email.as_str());
    let uri = format!("otpauth://totp/Ringtrue:{email}?secret={}&issuer=Ringtrue", setup.secret);
    SetupPage {
        layout: session.layout("Set up second factor"),
        qr: QrSvg::encode(&uri, "QR code for your authenticator app"),
        setup,
        error,
    }
}

fn error_status(error: &SecondFactorError) -> StatusCode {
    match error {
        SecondFactorError::WrongCode => StatusCode::UNAUTHORIZED,
        SecondFactorError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        SecondFactorError::Changed => StatusCode::CONFLICT,
        SecondFactorError::Expired | SecondFactorError::Store(_) => StatusCode::BAD_REQUEST,
    }
}

fn with_retry_after(mut response: Response, error: &SecondFactorError) -> Response {
    if let SecondFactorError::Throttled { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}
