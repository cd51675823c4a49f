//! Extractors for submitted forms. Each form contains a CSRF token that is bound to a cookie of the browser.

use axum::extract::{FromRequest, FromRequestParts, Request};
use http::{HeaderMap, StatusCode, header, request::Parts};
use ringtrue_domain::account::Permission;
use ringtrue_engine::{accounts::ClientInfo, rate_limits::RateLimitClass};
use ringtrue_web::{
    app::App,
    body::{Form, MAX_FORM_BYTES, read_form_with_limit, read_limited},
    multipart,
    parameters::PathParameters,
    problem::Problem,
    request_context::HandlerState,
};

use crate::{
    page::error::{ConsoleError, to_sentence},
    session::console_session::{
        BrowserClient, ConsoleSession, Cookie, ProjectAccess, SecondFactorSetupSession, WorkspaceAccess,
    },
};

/// Name of the form field with the CSRF token.
pub const CSRF_FIELD: &str = "form_token";

/// Maximum size of a form with a session. Larger than for other forms, because the networks form has a checkbox for
/// each network and product.
const MAX_SESSION_FORM_BYTES: usize = 32 * 1024;
/// Maximum size of the file in a form. Larger than any file that is accepted, so that the form can say why a file is
/// rejected.
const MAX_FILE_BYTES: usize = 512 * 1024;

#[derive(Debug, Default)]
pub struct FormFields {
    fields: Vec<(String, String)>,
    file: Option<(String, Vec<u8>)>,
}

impl FormFields {
    /// Parses a form of a browser, in either encoding.
    fn parse(content_type: &str, body: &[u8]) -> Result<Self, ConsoleError> {
        let Some(boundary) = multipart::boundary_of(content_type) else {
            return Ok(FormFields { fields: Form::parse(body)?.into_pairs(), file: None });
        };
        let invalid = |detail: &str| ConsoleError::from(Problem::bad_request(detail));
        let mut form = FormFields::default();
        for part in multipart::parse(boundary, body).map_err(|_| invalid("the form is damaged"))? {
            if part.is_file {
                form.file = Some((part.name, part.content.to_vec())).filter(|(_, content)| !content.is_empty());
            } else {
                let text = String::from_utf8(part.content.to_vec());
                let text = text.map_err(|_| invalid("the form is not valid UTF-8"))?;
                form.fields.push((part.name, text));
            }
        }
        Ok(form)
    }

    /// Returns the content of the chosen file. `None`: the user has chosen none.
    pub fn file(&self, name: &str) -> Option<&[u8]> {
        self.file.as_ref().filter(|(field, _)| field == name).map(|(_, content)| &content[..])
    }

    /// Returns the trimmed value of a field. `None` if it is missing or blank.
    pub fn get(&self, name: &str) -> Option<&str> {
        self.raw(name).map(str::trim).filter(|value| !value.is_empty())
    }

    /// Returns the value of a field without trimming it, for example a password.
    pub fn raw(&self, name: &str) -> Option<&str> {
        self.fields.iter().find(|(field, _)| field == name).map(|(_, value)| value.as_str())
    }

    pub fn names(&self) -> impl Iterator<Item = &str> {
        self.fields.iter().map(|(name, _)| name.as_str())
    }

    /// Returns whether the form contains a field. Browsers send checkboxes only if they are checked.
    pub fn contains(&self, name: &str) -> bool {
        self.raw(name).is_some()
    }
}

/// A form submitted in a session.
#[derive(Debug)]
pub struct SessionForm {
    pub session: ConsoleSession,
    pub fields: FormFields,
}

impl SessionForm {
    /// Changes the rate limit that the form counts against.
    #[must_use]
    pub fn with_rate_limit_class(mut self, class: RateLimitClass) -> Self {
        self.session.rate_limit_class = Some(class);
        self
    }

    /// Checks the user's permission in the workspace that the path names.
    pub async fn authorize_workspace(
        self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<(WorkspaceAccess, FormFields), ConsoleError> {
        Ok((self.session.authorize_workspace(app, ids, permission).await?, self.fields))
    }

    /// Checks the user's permission in the project that the path names.
    pub async fn authorize_project(
        self,
        app: &App,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<(ProjectAccess, FormFields), ConsoleError> {
        Ok((self.session.authorize_project(app, ids, permission).await?, self.fields))
    }
}

/// A form submitted in a [`SecondFactorSetupSession`].
#[derive(Debug)]
pub struct SecondFactorSetupForm {
    pub session: ConsoleSession,
    pub fields: FormFields,
}

/// A form submitted without a session.
#[derive(Debug)]
pub struct VisitorForm {
    pub fields: FormFields,
    pub client: ClientInfo,
    pub request_id: String,
}

impl FromRequest<HandlerState> for SessionForm {
    type Rejection = ConsoleError;

    async fn from_request(request: Request, state: &HandlerState) -> Result<Self, ConsoleError> {
        let (mut parts, body) = request.into_parts();
        let before = ConsoleSession::from_request_parts(&mut parts, state).await?;
        let fields = read_fields(&state.app, &parts, body, before.token.reveal(), MAX_SESSION_FORM_BYTES).await?;
        // Authenticates again, because the session may have ended or lost a role while the body was read.
        let session = ConsoleSession::from_request_parts(&mut parts, state).await?;
        Ok(SessionForm { session, fields }.with_rate_limit_class(RateLimitClass::Management))
    }
}

impl FromRequest<HandlerState> for SecondFactorSetupForm {
    type Rejection = ConsoleError;

    async fn from_request(request: Request, state: &HandlerState) -> Result<Self, ConsoleError> {
        let (mut parts, body) = request.into_parts();
        let SecondFactorSetupSession(before) = SecondFactorSetupSession::from_request_parts(&mut parts, state).await?;
        let fields = read_fields(&state.app, &parts, body, before.token.reveal(), MAX_FORM_BYTES).await?;
        let SecondFactorSetupSession(session) = SecondFactorSetupSession::from_request_parts(&mut parts, state).await?;
        Ok(SecondFactorSetupForm { session, fields })
    }
}

impl FromRequest<HandlerState> for VisitorForm {
    type Rejection = ConsoleError;

    async fn from_request(
        request: Request,
        HandlerState { app, context }: &HandlerState,
    ) -> Result<Self, ConsoleError> {
        let (parts, body) = request.into_parts();
        let cookie = Cookie::Visitor.read(app, &parts.headers).ok_or_else(ConsoleError::invalid_csrf_token)?.to_owned();
        let fields = read_fields(app, &parts, body, &cookie, MAX_FORM_BYTES).await?;
        let BrowserClient(client) = BrowserClient::from_headers(&parts.headers, context.client_ip);
        Ok(VisitorForm { fields, client, request_id: context.request_id.as_str().to_owned() })
    }
}

/// Reads a form and verifies that its CSRF token belongs to the browser's cookie.
async fn read_fields(
    app: &App,
    parts: &Parts,
    body: axum::body::Body,
    cookie: &str,
    limit: usize,
) -> Result<FormFields, ConsoleError> {
    if is_cross_site(&parts.headers) {
        return Err(ConsoleError::invalid_csrf_token());
    }
    let content_type = parts.headers.get(header::CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let content_type = content_type.unwrap_or_default();
    let body = match multipart::boundary_of(content_type) {
        Some(_) if limit == MAX_SESSION_FORM_BYTES => {
            read_limited(app, &parts.headers, body, limit + MAX_FILE_BYTES).await?
        }
        _ => read_form_with_limit(app, &parts.headers, body, limit).await?,
    };
    let fields = FormFields::parse(content_type, &body)?;
    let token = fields.raw(CSRF_FIELD).unwrap_or_default();
    if !app.engine.accounts.is_valid_csrf_token(cookie, token) {
        return Err(ConsoleError::invalid_csrf_token());
    }
    Ok(fields)
}

/// Returns whether another site sent the request. Browsers set `Sec-Fetch-Site` themselves; pages cannot change it.
fn is_cross_site(headers: &HeaderMap) -> bool {
    headers.get("sec-fetch-site").is_some_and(|site| site != "same-origin" && site != "none")
}

/// Returns status 400 and the text of an error that is shown beside the form.
pub fn form_error(text: impl std::fmt::Display) -> (StatusCode, Option<String>) {
    (StatusCode::BAD_REQUEST, Some(to_sentence(&text.to_string())))
}
