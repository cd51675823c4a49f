//! Sign-in and sign-out, single-use links to set a password or to sign in, and invitations.
//!
//! The inviter also has the invitation link, so the invitation page must not reveal whether the address has an account.
//! Without a session, the page and the response to its form are therefore the same with and without an account, and
//! lead to the sign-in page.

use std::sync::Arc;

use askama::Template;
use axum::{
    Extension,
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::{HeaderValue, StatusCode, header};
use ringtrue_engine::{
    accounts::{FirstFactorOutcome, InvitationError, LinkError, Password, PendingInvitation, SignInError},
    ports::accounts::LinkPurpose,
};
use ringtrue_web::{app::App, development::Development, request_context::RequestContext, routes::Routes};

use crate::{
    dependencies::ConsoleDependencies,
    page::{
        self, Layout,
        error::{ConsoleError, to_sentence},
    },
    session::{
        console_session::{BrowserClient, ConsoleSession, Cookie, limit_link_lookup},
        forms::{CSRF_FIELD, SecondFactorSetupForm, SessionForm, VisitorForm, form_error},
        openid_connect,
        second_factor::redirect_to_second_factor,
        visitor::{invitation_token, query_value, restrict_to_console_path, visitor_csrf_token, with_cookie},
    },
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/sign-in", show)
        .post("/console/sign-in", sign_in)
        .post("/console/sign-out", sign_out)
        .get("/console/link", show_link)
        .post("/console/link", submit_link)
        .get("/console/invitation", show_invitation)
        .post("/console/invitation", create_account)
        .post("/console/invitation/accept", accept)
}

#[derive(Debug, Template)]
#[template(path = "session/sign_in.html")]
struct SignInPage {
    layout: Layout,
    csrf_token: String,
    email: String,
    next: String,
    error: Option<String>,
    /// Name of the OpenID provider, and path of the link that starts the sign-in at the provider. `None`: no provider
    /// is configured.
    provider: Option<(String, String)>,
    /// Shell command that creates another sign-in link. Only for servers of `ringtrue dev`.
    link_command: Option<String>,
    /// Name of the workspace whose invitation the user is about to accept.
    invited_to: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "session/link.html")]
struct LinkPage {
    layout: Layout,
    csrf_token: String,
    token: String,
    email: String,
    min_password_chars: usize,
    error: Option<String>,
}

#[derive(Debug, Template)]
#[template(path = "session/invitation.html")]
struct InvitationPage {
    layout: Layout,
    viewer: InvitationViewer,
    token: String,
    email: String,
    workspace: String,
    role: &'static str,
    sign_in_path: String,
    min_password_chars: usize,
    error: Option<String>,
}

#[derive(Debug)]
enum InvitationViewer {
    /// The user has signed in with the invited address.
    Invitee,
    OtherAccount,
    Anonymous {
        csrf_token: String,
    },
}

impl SignInPage {
    fn new(
        (app, dependencies): (&App, &ConsoleDependencies),
        csrf_token: String,
        email: String,
        next: String,
        error: Option<String>,
    ) -> Self {
        let link_command = app.development.as_deref().map(Development::sign_in_link_command);
        let provider = dependencies.identity_provider.as_deref();
        let provider = provider.map(|provider| (provider.name().to_owned(), openid_connect::start_path(&next)));
        let layout = Layout::anonymous("Sign in");
        SignInPage { layout, csrf_token, email, next, error, provider, link_command, invited_to: None }
    }

    /// Adapts the sign-in page to a user who follows an invitation: explains the next steps and fills in the address.
    fn for_invitation(self, PendingInvitation { invitation, workspace }: &PendingInvitation) -> Self {
        SignInPage { email: invitation.email.to_string(), invited_to: Some(workspace.name.to_string()), ..self }
    }
}

/// `GET /console/sign-in`
async fn show(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    let headers = request.headers();
    let next = restrict_to_console_path(query_value(query.as_deref(), "next").as_deref());
    if ConsoleSession::authenticate(&app, headers, &context, Some(&next)).await?.is_some() {
        return Ok(page::see_other(&next));
    }
    let (csrf_token, cookie) = visitor_csrf_token(&app, headers)?;
    let invitation = match invitation_token(&next) {
        Some(token) => {
            limit_link_lookup(&app, context.client_ip)?;
            app.engine.accounts.find_invitation(&token).await.ok()
        }
        None => None,
    };
    let mut page = SignInPage::new((&app, &dependencies), csrf_token, String::new(), next, None);
    if let Some(pending) = &invitation {
        page = page.for_invitation(pending);
    }
    Ok(with_cookie(page::render(StatusCode::OK, &page), cookie))
}

/// `POST /console/sign-in`
async fn sign_in(
    State(app): State<App>,
    Extension(dependencies): Extension<Arc<ConsoleDependencies>>,
    form: VisitorForm,
) -> Result<Response, ConsoleError> {
    let VisitorForm { fields, client, .. } = form;
    let email = fields.get("email").unwrap_or_default();
    let next = restrict_to_console_path(fields.get("next"));
    let error = match app.engine.accounts.sign_in(email, fields.raw("password").unwrap_or_default(), &client).await {
        Ok(FirstFactorOutcome::SecondFactor(pending)) => return Ok(redirect_to_second_factor(&app, &pending, &next)),
        Ok(FirstFactorOutcome::SignedIn(token)) => {
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
    let csrf_token = fields.raw(CSRF_FIELD).unwrap_or_default().to_owned();
    let text = Some(to_sentence(&error.to_string()));
    let page = SignInPage::new((&app, &dependencies), csrf_token, email.to_owned(), next, text);
    let mut response = page::render(status, &page);
    if let SignInError::Throttled { seconds } = error {
        response.headers_mut().insert(header::RETRY_AFTER, HeaderValue::from(seconds));
    }
    Ok(response)
}

/// `POST /console/sign-out`
async fn sign_out(State(app): State<App>, form: SecondFactorSetupForm) -> Result<Response, ConsoleError> {
    app.engine.accounts.sign_out(&form.session.user, &form.session.token).await?;
    Ok(with_cookie(page::see_other("/console/sign-in"), Some(Cookie::Session.clear(&app))))
}

/// `GET /console/link`
///
/// Does not use up a set-password link, as mail scanners and previews open links too.
async fn show_link(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    BrowserClient(client): BrowserClient,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, context.client_ip)?;
    let token = query_value(query.as_deref(), "token").unwrap_or_default();
    let link = match app.engine.accounts.find_link(&token).await {
        Ok(link) => link,
        // The link was used before, but the browser has a session: the user has probably signed in with this link.
        Err(LinkError::Invalid)
            if ConsoleSession::authenticate(&app, request.headers(), &context, None).await?.is_some() =>
        {
            return Ok(page::see_other(&path_after_sign_in(&app)));
        }
        Err(error) => return Err(link_error(&app, error)),
    };
    match link.purpose {
        LinkPurpose::SignIn => {
            let session = app.engine.accounts.use_link(&token, None, &client).await;
            let next = path_after_sign_in(&app);
            match session.map_err(|error| link_error(&app, error))? {
                FirstFactorOutcome::SignedIn(session) => {
                    // The cookie must survive a restart of the browser, because the user has no password to sign in
                    // again.
                    let cookie = Cookie::Session.set_persistent(&app, session.reveal());
                    Ok(with_cookie(page::see_other(&next), Some(cookie)))
                }
                FirstFactorOutcome::SecondFactor(pending) => Ok(redirect_to_second_factor(&app, &pending, &next)),
            }
        }
        LinkPurpose::SetPassword => {
            let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
            let page = link_page(csrf_token, token, link.account.email.to_string(), None);
            Ok(with_cookie(page::render(StatusCode::OK, &page), cookie))
        }
    }
}

/// `POST /console/link`
async fn submit_link(State(app): State<App>, form: VisitorForm) -> Result<Response, ConsoleError> {
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let show_error = |error: &dyn std::fmt::Display, email: String| {
        let (status, error) = form_error(error);
        Ok(page::render(status, &link_page(field(CSRF_FIELD).to_owned(), token.to_owned(), email, error)))
    };
    limit_link_lookup(&app, form.client.address)?;
    let link = app.engine.accounts.find_link(token).await.map_err(|error| link_error(&app, error))?;
    if password != field("again") {
        return show_error(&"the passwords do not match", link.account.email.to_string());
    }
    if let Err(error) = Password::parse_new(password) {
        return show_error(&error, link.account.email.to_string());
    }
    let session = app.engine.accounts.use_link(token, Some(password), &form.client).await;
    match session.map_err(|error| link_error(&app, error))? {
        FirstFactorOutcome::SignedIn(session) => {
            Ok(with_cookie(page::see_other("/console"), Some(Cookie::Session.set(&app, session.reveal()))))
        }
        FirstFactorOutcome::SecondFactor(pending) => Ok(redirect_to_second_factor(&app, &pending, "/console")),
    }
}

/// Returns the path to which a sign-in link leads: *Getting started* of the demo project of `ringtrue dev`, otherwise
/// the start page.
fn path_after_sign_in(app: &App) -> String {
    let demo = app.development.as_ref().and_then(|development| development.demo_project());
    demo.map_or_else(
        || "/console".to_owned(),
        |(workspace, project)| format!("/console/workspaces/{workspace}/projects/{project}/getting-started"),
    )
}

fn link_error(app: &App, error: LinkError) -> ConsoleError {
    match error {
        LinkError::Invalid => ConsoleError::invalid_link(app.development.as_deref()),
        other => other.into(),
    }
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

/// `GET /console/invitation`
async fn show_invitation(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, context.client_ip)?;
    let token = query_value(query.as_deref(), "token").unwrap_or_default();
    let pending = app.engine.accounts.find_invitation(&token).await?;
    let next = invitation_path(&token);
    if let Some(session) = ConsoleSession::authenticate(&app, request.headers(), &context, Some(&next)).await? {
        let is_invitee = session.user.account.email == pending.invitation.email;
        let viewer = if is_invitee { InvitationViewer::Invitee } else { InvitationViewer::OtherAccount };
        return Ok(page::render_ok(&invitation_page(session.layout("Invitation"), viewer, token, &pending, None)));
    }
    let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
    let viewer = InvitationViewer::Anonymous { csrf_token };
    let page = invitation_page(Layout::anonymous("Invitation"), viewer, token, &pending, None);
    Ok(with_cookie(page::render_ok(&page), cookie))
}

/// `POST /console/invitation`: creates an account, unless the address has one. In both cases the user signs in next.
async fn create_account(State(app): State<App>, form: VisitorForm) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, form.client.address)?;
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let pending = app.engine.accounts.find_invitation(token).await?;
    let show_error = |status: StatusCode, error: &dyn std::fmt::Display| {
        let viewer = InvitationViewer::Anonymous { csrf_token: field(CSRF_FIELD).to_owned() };
        let layout = Layout::anonymous("Invitation");
        page::render(status, &invitation_page(layout, viewer, token.to_owned(), &pending, form_error(error).1))
    };
    if password != field("again") {
        return Ok(show_error(StatusCode::BAD_REQUEST, &"the passwords do not match"));
    }
    match app.engine.accounts.create_invited_account(token, password, Some(form.request_id.clone())).await {
        Ok(()) => Ok(page::see_other(&sign_in_path(token))),
        Err(InvitationError::Password(error)) => Ok(show_error(StatusCode::BAD_REQUEST, &error)),
        Err(error) => Err(error.into()),
    }
}

/// `POST /console/invitation/accept`
async fn accept(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let token = fields.raw("token").unwrap_or_default();
    let workspace =
        app.engine.accounts.accept_invitation(&session.user, token, Some(session.request_id.clone())).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}", workspace.id)))
}

fn invitation_path(token: &str) -> String {
    page::path_with_query("/console/invitation", &[("token", Some(token))])
}

/// Returns the path of the sign-in page that continues with the invitation.
fn sign_in_path(token: &str) -> String {
    page::path_with_query("/console/sign-in", &[("next", Some(&invitation_path(token)))])
}

fn invitation_page(
    layout: Layout,
    viewer: InvitationViewer,
    token: String,
    PendingInvitation { invitation, workspace }: &PendingInvitation,
    error: Option<String>,
) -> InvitationPage {
    InvitationPage {
        layout,
        viewer,
        sign_in_path: sign_in_path(&token),
        token,
        email: invitation.email.to_string(),
        workspace: workspace.name.to_string(),
        role: invitation.role.into_str(),
        min_password_chars: Password::MIN_CHARS,
        error,
    }
}
