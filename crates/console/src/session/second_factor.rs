//! Second factor: the sign-in step after the password, and the setup on the account page.

use askama::Template;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::{HeaderMap, HeaderValue, StatusCode, header};
use percent_encoding::{NON_ALPHANUMERIC, utf8_percent_encode};
use ringtrue_engine::accounts::{
    EnableSecondFactor, PendingSignIn, SECOND_FACTOR_TIMEOUT, SecondFactorError, SecondFactorSetup,
};
use ringtrue_verification_page::QrSvg;
use ringtrue_web::{app::App, routes::Routes};

use crate::{
    page::{
        self, Layout,
        error::{ConsoleError, to_sentence},
    },
    session::{
        account::{ACCOUNT_PATH, AccountErrors, account_page},
        console_session::{BrowserClient, ConsoleSession, Cookie, SecondFactorSetupSession, limit_link_lookup},
        flash::Flash,
        forms::{CSRF_FIELD, SecondFactorSetupForm, SessionForm, VisitorForm},
        visitor::{query_value, restrict_to_console_path, visitor_csrf_token, with_cookie},
    },
};

const SECOND_FACTOR_PATH: &str = "/console/second-factor";
const RECOVERY_CODES_PATH: &str = "/console/account/recovery-codes";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/second-factor", show)
        .post("/console/second-factor", submit)
        .get("/console/account/second-factor", show_setup)
        .post("/console/account/second-factor", enable)
        .get("/console/account/recovery-codes", show_recovery_codes)
        .post("/console/account/second-factor/disable", disable)
}

#[derive(Debug, Template)]
#[template(path = "session/second_factor.html")]
struct SecondFactorPage {
    layout: Layout,
    csrf_token: String,
    next: String,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "session/second_factor_setup.html")]
struct SetupPage {
    layout: Layout,
    purpose: SetupPurpose,
    setup: SecondFactorSetup,
    qr: Option<QrSvg>,
    email: String,
    next: String,
    error: Option<String>,
}

/// Reason why a user sets up a second factor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum SetupPurpose {
    Choice,
    /// The deployment requires a second factor.
    Requirement,
    /// The user replaces the current second factor.
    Replacement,
}

impl SetupPurpose {
    fn title(self) -> &'static str {
        match self {
            SetupPurpose::Choice | SetupPurpose::Requirement => "Set up second factor",
            SetupPurpose::Replacement => "Replace second factor",
        }
    }
}

#[derive(Debug, Template)]
#[template(path = "session/recovery_codes.html")]
struct RecoveryCodesPage {
    layout: Layout,
    codes: Vec<String>,
    next: String,
}

/// Redirects to the page that asks for the code of the second factor, after the password was correct.
pub fn redirect_to_second_factor(app: &App, pending: &PendingSignIn, next: &str) -> Response {
    let path = page::path_with_query(SECOND_FACTOR_PATH, &[("next", Some(next))]);
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
    let next = restrict_to_console_path(query_value(query.as_deref(), "next").as_deref());
    let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
    let page = SecondFactorPage { layout: Layout::anonymous("Second factor"), csrf_token, next, error: None };
    Ok(with_cookie(page::render_ok(&page), cookie))
}

/// `POST /console/second-factor`
async fn submit(State(app): State<App>, headers: HeaderMap, form: VisitorForm) -> Result<Response, ConsoleError> {
    let VisitorForm { fields, client, .. } = form;
    let pending = Cookie::SecondFactor.read(&app, &headers).unwrap_or_default();
    let next = restrict_to_console_path(fields.get("next"));
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
async fn show_setup(
    State(app): State<App>,
    SecondFactorSetupSession(session): SecondFactorSetupSession,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let next = next_path(query_value(query.as_deref(), "next").as_deref());
    let purpose = find_purpose(&app, &session).await?;
    let setup = app.engine.accounts.generate_second_factor(&session.user)?;
    Ok(page::render_ok(&setup_page(&session, purpose, setup, next, None)))
}

/// `POST /console/account/second-factor`: sets up a second factor, or replaces the current one.
async fn enable(
    State(app): State<App>,
    BrowserClient(client): BrowserClient,
    form: SecondFactorSetupForm,
) -> Result<Response, ConsoleError> {
    let SecondFactorSetupForm { session, fields } = form;
    let field = |name| fields.get(name).unwrap_or_default();
    let next = next_path(fields.get("next"));
    let input = EnableSecondFactor {
        seed: field("seed"),
        code: field("code"),
        password: fields.raw("password").unwrap_or_default(),
        current_code: field("current_code"),
    };
    let accounts = &app.engine.accounts;
    let error = match accounts.enable_second_factor(&session.user, &session.token, input, client.address).await {
        Ok(codes) => return Flash::RecoveryCodes { codes, next }.redirect(&app, &session, RECOVERY_CODES_PATH),
        Err(SecondFactorError::Store(error)) => return Err(error.into()),
        Err(error @ SecondFactorError::Changed) => {
            return Err(ConsoleError::new(StatusCode::CONFLICT, "Second factor changed", error.to_string()));
        }
        Err(error) => error,
    };
    let purpose = find_purpose(&app, &session).await?;
    let setup = accounts.find_second_factor_setup(&session.user, input.seed);
    let setup = setup.ok_or_else(ConsoleError::invalid_csrf_token)?;
    let page = setup_page(&session, purpose, setup, next, Some(to_sentence(&error.to_string())));
    Ok(with_retry_after(page::render(form_status(&error), &page), &error))
}

/// `GET /console/account/recovery-codes`: shows the recovery codes of a new second factor, once.
async fn show_recovery_codes(
    State(app): State<App>,
    session: ConsoleSession,
    headers: HeaderMap,
) -> Result<Response, ConsoleError> {
    let flash = Flash::read(&app, &session, &headers, RECOVERY_CODES_PATH);
    let Some(Flash::RecoveryCodes { codes, next }) = flash else {
        return Err(ConsoleError::Redirect(ACCOUNT_PATH.to_owned()));
    };
    let next = restrict_to_console_path(Some(&next));
    let page = RecoveryCodesPage { layout: session.layout("Recovery codes"), codes, next };
    Ok(Flash::clear(&app, page::render_ok(&page)))
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
    Ok(with_retry_after(account_page(&app, &session, None, form_status(&error), errors).await?, &error))
}

/// Determines why the user sets up a second factor. Redirects to the account page if the account has no password, and
/// therefore cannot have a second factor.
async fn find_purpose(app: &App, session: &ConsoleSession) -> Result<SetupPurpose, ConsoleError> {
    let methods = app.engine.accounts.sign_in_methods(&session.user).await?;
    if !methods.has_password {
        return Err(ConsoleError::Redirect(ACCOUNT_PATH.to_owned()));
    }
    Ok(if methods.unused_recovery_codes.is_some() {
        SetupPurpose::Replacement
    } else if session.user.needs_second_factor {
        SetupPurpose::Requirement
    } else {
        SetupPurpose::Choice
    })
}

/// Returns the path at which the user continues after the setup.
fn next_path(next: Option<&str>) -> String {
    next.map_or_else(|| ACCOUNT_PATH.to_owned(), |next| restrict_to_console_path(Some(next)))
}

fn setup_page(
    session: &ConsoleSession,
    purpose: SetupPurpose,
    setup: SecondFactorSetup,
    next: String,
    error: Option<String>,
) -> SetupPage {
    let encode = |text: &str| utf8_percent_encode(text, NON_ALPHANUMERIC).to_string();
    let email = session.user.account.email.to_string();
    let uri = format!("otpauth://totp/Ringtrue:{}?secret={}&issuer=Ringtrue", encode(&email), setup.secret);
    SetupPage {
        layout: session.layout(purpose.title()),
        qr: QrSvg::encode(&uri, "QR code for your authenticator app"),
        purpose,
        setup,
        email,
        next,
        error,
    }
}

/// Returns the HTTP status for an error in a form of a signed-in user.
fn form_status(error: &SecondFactorError) -> StatusCode {
    match error {
        SecondFactorError::WrongCode | SecondFactorError::WrongCurrentCode | SecondFactorError::WrongPassword => {
            StatusCode::BAD_REQUEST
        }
        other => error_status(other),
    }
}

fn error_status(error: &SecondFactorError) -> StatusCode {
    match error {
        SecondFactorError::WrongCode | SecondFactorError::WrongCurrentCode | SecondFactorError::WrongPassword => {
            StatusCode::UNAUTHORIZED
        }
        SecondFactorError::Throttled { .. } => StatusCode::TOO_MANY_REQUESTS,
        SecondFactorError::Changed | SecondFactorError::Required => StatusCode::CONFLICT,
        SecondFactorError::Busy => StatusCode::SERVICE_UNAVAILABLE,
        SecondFactorError::Expired | SecondFactorError::Store(_) => StatusCode::BAD_REQUEST,
    }
}

fn with_retry_after(mut response: Response, error: &SecondFactorError) -> Response {
    if let SecondFactorError::Throttled { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(*seconds));
    }
    response
}
