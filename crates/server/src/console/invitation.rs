//! The link of an invitation: accepting it with an account, or by creating one.
//!
//! Without a session the page is the same whether or not there is an account with the address: who made the invitation
//! can open its link, and must not learn that from it.

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
    forms::{FORM_TOKEN, SignedForm, VisitorForm, invalid},
    page::{self, Frame},
    refusal::Refusal,
    sign_in::{visitor_token, with_cookie},
    visitor::{SignedIn, meter_link},
};
use crate::http::{App, Routes, arrival::Arrival};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/invitation", look)
        .post("/console/invitation", create_account)
        .post("/console/invitation/accept", accept)
}

#[derive(Debug, Template)]
#[template(path = "console/invitation.html")]
struct InvitationPage {
    frame: Frame,
    visitor: Visitor,
    token: String,
    email: String,
    workspace: String,
    role: &'static str,
    sign_in: String,
    least: usize,
    error: Option<String>,
}

/// Who has opened the link.
#[derive(Debug)]
enum Visitor {
    /// Somebody who is signed in with the address of the invitation.
    Invitee,
    SomebodyElse,
    Stranger {
        form_token: String,
    },
}

/// `GET /console/invitation`
async fn look(
    State(app): State<App>,
    State(arrival): State<Arc<Arrival>>,
    RawQuery(query): RawQuery,
    request: Request,
) -> Result<Response, Refusal> {
    meter_link(&app, arrival.address)?;
    let query = query.unwrap_or_default();
    let token = url::form_urlencoded::parse(query.as_bytes()).find(|(name, _)| name == "token");
    let token = token.map(|(_, value)| value.into_owned()).unwrap_or_default();
    let pending = app.engine.look_at_invitation(&token).await?;
    if let Some(who) = SignedIn::find(&app, request.headers(), &arrival).await? {
        let is_invitee = who.person.account.email == pending.invitation.email;
        let visitor = if is_invitee { Visitor::Invitee } else { Visitor::SomebodyElse };
        return Ok(page::ok(&invitation_page(Frame::of(&who, "Invitation"), visitor, token, &pending, None)));
    }
    let (form_token, cookie) = visitor_token(&app, request.headers())?;
    let visitor = Visitor::Stranger { form_token };
    let page = invitation_page(Frame::bare("Invitation"), visitor, token, &pending, None);
    Ok(with_cookie(page::ok(&page), cookie))
}

/// `POST /console/invitation`: creates an account.
async fn create_account(State(app): State<App>, form: VisitorForm) -> Result<Response, Refusal> {
    meter_link(&app, form.client.address)?;
    let field = |name| form.fields.raw(name).unwrap_or_default();
    let (token, password) = (field("token"), field("password"));
    let pending = app.engine.look_at_invitation(token).await?;
    let again = |status: StatusCode, error: &dyn std::fmt::Display| {
        let visitor = Visitor::Stranger { form_token: field(FORM_TOKEN).to_owned() };
        let frame = Frame::bare("Invitation");
        page::html(status, &invitation_page(frame, visitor, token.to_owned(), &pending, invalid(error).1))
    };
    if password != field("again") {
        return Ok(again(StatusCode::BAD_REQUEST, &"the two passwords differ"));
    }
    let request_id = Some(form.request_id.clone());
    match app.engine.accept_with_new_account(token, password, &form.client, request_id).await {
        Ok((session, workspace)) => {
            let response = page::see_other(&format!("/console/workspaces/{}", workspace.id));
            let response = with_cookie(response, Some(Cookie::Session.set(&app, session.reveal())));
            Ok(with_cookie(response, Some(Cookie::Visitor.clear(&app))))
        }
        Err(error @ InvitationError::AccountExists) => Ok(again(StatusCode::CONFLICT, &error)),
        Err(InvitationError::Password(error)) => Ok(again(StatusCode::BAD_REQUEST, &error)),
        Err(error) => Err(error.into()),
    }
}

/// `POST /console/invitation/accept`
async fn accept(State(app): State<App>, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let token = fields.raw("token").unwrap_or_default();
    let workspace = app.engine.accept_invitation(&who.person, token, Some(who.request_id.clone())).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}", workspace.id)))
}

fn invitation_page(
    frame: Frame,
    visitor: Visitor,
    token: String,
    PendingInvitation { invitation, workspace }: &PendingInvitation,
    error: Option<String>,
) -> InvitationPage {
    let here = format!("/console/invitation?token={token}");
    let next = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", &here).finish();
    InvitationPage {
        frame,
        visitor,
        token,
        email: invitation.email.to_string(),
        workspace: workspace.name.to_string(),
        role: invitation.role.as_str(),
        sign_in: format!("/console/sign-in?{next}"),
        least: Password::MIN_CHARS,
        error,
    }
}
