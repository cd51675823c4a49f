//! Accepting an invitation by its link, with an existing or a new account.
//!
//! Without a session, the page does not reveal whether the address has an account, as the inviter can open the link
//! too.

use std::sync::Arc;

use askama::Template;
use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_engine::accounts::{InvitationError, Password, PendingInvitation};

use super::{
    cookies::Cookie,
    error::ConsoleError,
    forms::{CSRF_FIELD, SessionForm, VisitorForm, form_error},
    page::{self, Layout},
    session::{ConsoleSession, limit_link_lookup},
    sign_in::{visitor_csrf_token, with_cookie},
};
use crate::http::{App, Routes, request_context::RequestContext};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/invitation", show)
        .post("/console/invitation", create_account)
        .post("/console/invitation/accept", accept)
}

#[derive(Debug, Template)]
#[template(path = "console/invitation.html")]
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
    /// Signed in with the invited address.
    Invitee,
    OtherAccount,
    Anonymous {
        csrf_token: String,
    },
}

/// `GET /console/invitation`
async fn show(
    State(app): State<App>,
    State(context): State<Arc<RequestContext>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, context.client_ip)?;
    let query = query.unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let pending = app.engine.find_invitation(&token).await?;
    if let Some(session) = ConsoleSession::authenticate(&app, request.headers(), &context).await? {
        let is_invitee = session.user.account.email == pending.invitation.email;
        let viewer = if is_invitee { InvitationViewer::Invitee } else { InvitationViewer::OtherAccount };
        return Ok(page::render_ok(&invitation_page(
            Layout::for_session(&session, "Invitation"),
            viewer,
            token,
            &pending,
            None,
        )));
    }
    let (csrf_token, cookie) = visitor_csrf_token(&app, request.headers())?;
    let viewer = InvitationViewer::Anonymous { csrf_token };
    let page = invitation_page(Layout::anonymous("Invitation"), viewer, token, &pending, None);
    Ok(with_cookie(page::render_ok(&page), cookie))
}

/// `POST /console/invitation`: creates an account.
async fn create_account(State(app): State<App>, form: VisitorForm) -> Result<Response, ConsoleError> {
    limit_link_lookup(&app, form.client.address)?;
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let pending = app.engine.find_invitation(token).await?;
    let show_error = |status: StatusCode, error: &dyn std::fmt::Display| {
        let viewer = InvitationViewer::Anonymous { csrf_token: field(CSRF_FIELD).to_owned() };
        let layout = Layout::anonymous("Invitation");
        page::render(status, &invitation_page(layout, viewer, token.to_owned(), &pending, form_error(error).1))
    };
    if password != field("again") {
        return Ok(show_error(StatusCode::BAD_REQUEST, &"the passwords do not match"));
    }
    let request_id = Some(form.request_id.clone());
    match app.engine.accept_invitation_with_new_account(token, password, &form.client, request_id).await {
        Ok((session, workspace)) => {
            let response = page::see_other(&format!("/console/workspaces/{}", workspace.id));
            let response = with_cookie(response, Some(Cookie::Session.set(&app, session.reveal())));
            Ok(with_cookie(response, Some(Cookie::Visitor.clear(&app))))
        }
        Err(error @ InvitationError::AccountExists) => Ok(show_error(StatusCode::CONFLICT, &error)),
        Err(InvitationError::Password(error)) => Ok(show_error(StatusCode::BAD_REQUEST, &error)),
        Err(error) => Err(error.into()),
    }
}

/// `POST /console/invitation/accept`
async fn accept(State(app): State<App>, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let token = fields.raw("token").unwrap_or_default();
    let workspace = app.engine.accept_invitation(&session.user, token, Some(session.request_id.clone())).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}", workspace.id)))
}

fn invitation_page(
    layout: Layout,
    viewer: InvitationViewer,
    token: String,
    PendingInvitation { invitation, workspace }: &PendingInvitation,
    error: Option<String>,
) -> InvitationPage {
    let here = format!("/console/invitation?token={token}");
    let next = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", &here).finish();
    InvitationPage {
        layout,
        viewer,
        token,
        email: invitation.email.to_string(),
        workspace: workspace.name.to_string(),
        role: invitation.role.as_str(),
        sign_in_path: format!("/console/sign-in?{next}"),
        min_password_chars: Password::MIN_CHARS,
        error,
    }
}
