//! Who may come into a workspace, and as what.

use askama::Template;
use axum::{extract::State, response::Response};
use http::StatusCode;
use ringtrue_domain::account::{AccountId, Email, Power, Role};
use ringtrue_engine::accounts::{Invitation, MemberError};

use super::{
    forms::{SignedForm, invalid},
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::{InWorkspace, SignedIn},
};
use crate::http::{App, path::PathIds};

#[derive(Debug, Template)]
#[template(path = "console/members.html")]
struct MembersPage {
    frame: Frame,
    members: Vec<MemberRow>,
    invited: Option<InvitedRow>,
    email: String,
    error: Option<String>,
}

#[derive(Debug)]
struct MemberRow {
    account_id: String,
    email: String,
    role: &'static str,
    is_me: bool,
}

#[derive(Debug)]
struct InvitedRow {
    email: String,
    /// `None`: they have a password, and sign in with it.
    url: Option<String>,
    until: Option<Moment>,
}

/// `GET /console/workspaces/{workspace_id}/members`
pub async fn list(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let place = who.workspace(&app, &ids, Power::Look).await?;
    shown(&app, &who, &place, StatusCode::OK, None, String::new(), None).await
}

/// `POST /console/workspaces/{workspace_id}/members`
pub async fn invite(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.workspace(&app, &ids, Power::Own).await?;
    let typed = fields.get("email").unwrap_or_default().to_owned();
    let role = fields.get("role").unwrap_or_default().parse::<Role>();
    let (email, role) = match (typed.parse::<Email>(), role) {
        (Ok(email), Ok(role)) => (email, role),
        (Err(error), _) => {
            let (status, error) = invalid(error);
            return shown(&app, &who, &place, status, None, typed, error).await;
        }
        (_, Err(error)) => {
            let (status, error) = invalid(error);
            return shown(&app, &who, &place, status, None, typed, error).await;
        }
    };
    match app.engine.invite_member(&place.manager, &email, role).await {
        Ok(invitation) => {
            let until = invitation.as_ref().map(|link| Moment(link.expires_at));
            let url = invitation.map(|Invitation { path, .. }| format!("{}{path}", app.engine.base_url()));
            let invited = InvitedRow { email: email.to_string(), url, until };
            shown(&app, &who, &place, StatusCode::OK, Some(invited), String::new(), None).await
        }
        Err(error @ MemberError::LastOwner) => {
            let (_, error) = invalid(error);
            shown(&app, &who, &place, StatusCode::CONFLICT, None, typed, error).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/remove`
pub async fn remove(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.workspace(&app, &ids, Power::Own).await?;
    let account = ids.get("account_id").and_then(|id| id.parse::<AccountId>().ok()).ok_or_else(Refusal::not_found)?;
    app.engine.remove_member(&place.manager, account).await?;
    let is_me = account == form.who.person.account.id;
    let next =
        if is_me { "/console".to_owned() } else { format!("/console/workspaces/{}/members", place.workspace.id) };
    Ok(page::see_other(&next))
}

async fn shown(
    app: &App,
    who: &SignedIn,
    place: &InWorkspace,
    status: StatusCode,
    invited: Option<InvitedRow>,
    email: String,
    error: Option<String>,
) -> Result<Response, Refusal> {
    let members = app.engine.members(&place.manager).await?;
    let row = |(account, role): &(ringtrue_domain::account::Account, Role)| MemberRow {
        account_id: account.id.to_string(),
        email: account.email.to_string(),
        role: role.as_str(),
        is_me: account.id == who.person.account.id,
    };
    let frame = Frame::of(who, "Members").in_workspace(who, &place.workspace, Section::Members);
    let members = members.iter().map(row).collect();
    Ok(page::html(status, &MembersPage { frame, members, invited, email, error }))
}
