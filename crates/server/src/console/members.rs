//! The members of a workspace, and its pending invitations.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, Power, Role},
    page::PageRequest,
};
use ringtrue_engine::accounts::{AccessLink, MemberError};

use super::{
    forms::{SignedForm, invalid},
    home::Pages,
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::{InWorkspace, SignedIn},
};
use crate::http::{App, Routes, path::PathIds, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/members", list)
        .post("/console/workspaces/{workspace_id}/members", invite)
        .post("/console/workspaces/{workspace_id}/members/{account_id}/role", set_role)
        .post("/console/workspaces/{workspace_id}/members/{account_id}/remove", remove)
        .get("/console/workspaces/{workspace_id}/invitations", invitations)
        .post("/console/workspaces/{workspace_id}/invitations/{invitation_id}/withdraw", withdraw)
}

#[derive(Debug, Template)]
#[template(path = "console/members.html")]
struct MembersPage {
    frame: Frame,
    members: Vec<MemberRow>,
    roles: [&'static str; 3],
    pages: Pages,
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

#[derive(Debug, Template)]
#[template(path = "console/invitations.html")]
struct InvitationsPage {
    frame: Frame,
    link: Option<LinkView>,
    invitations: Vec<InvitationRow>,
    pages: Pages,
}

#[derive(Debug)]
struct InvitationRow {
    id: String,
    email: String,
    role: &'static str,
    expires_at: Moment,
}

/// A link to hand over.
#[derive(Debug)]
pub struct LinkView {
    pub email: String,
    pub url: String,
    pub until: Moment,
}

impl LinkView {
    pub fn new(app: &App, link: &AccessLink) -> Self {
        LinkView {
            email: link.email.to_string(),
            url: format!("{}{}", app.engine.base_url(), link.path),
            until: Moment(link.expires_at),
        }
    }
}

/// `GET /console/workspaces/{workspace_id}/members`
async fn list(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let place = who.workspace(&app, &ids, Power::Look).await?;
    let request = Query::parse(query.as_deref(), &["page"])?.page_of(page::ROWS)?;
    members_page(&app, &who, &place, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/workspaces/{workspace_id}/members`
async fn invite(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let SignedForm { who, fields } = form;
    let place = who.workspace(&app, &ids, Power::Own).await?;
    let typed = fields.get("email").unwrap_or_default();
    let role = fields.get("role").unwrap_or_default().parse::<Role>();
    let (status, error) = match (typed.parse::<Email>(), role) {
        (Ok(email), Ok(role)) => match app.engine.invite_member(&place.manager, &email, role).await {
            Ok(link) => {
                let id = link.id;
                return Ok(page::see_other(&format!(
                    "/console/workspaces/{}/invitations?invited={id}",
                    place.workspace.id
                )));
            }
            Err(error @ (MemberError::AlreadyMember | MemberError::LimitReached { .. })) => {
                (StatusCode::CONFLICT, invalid(error).1)
            }
            Err(error) => return Err(error.into()),
        },
        (Err(error), _) => invalid(error),
        (_, Err(error)) => invalid(error),
    };
    let first = PageRequest::new(page::ROWS, 1).unwrap_or_default();
    members_page(&app, &who, &place, first, (status, error), typed.to_owned()).await
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/role`
async fn set_role(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.workspace(&app, &ids, Power::Own).await?;
    let role = form.fields.get("role").unwrap_or_default().parse::<Role>();
    let role = role.map_err(|error| Refusal::new(StatusCode::BAD_REQUEST, "No such role", error.to_string()))?;
    app.engine.set_role(&place.manager, account_of(&ids)?, role).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/members", place.workspace.id)))
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/remove`
async fn remove(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.workspace(&app, &ids, Power::Own).await?;
    let account = account_of(&ids)?;
    app.engine.remove_member(&place.manager, account).await?;
    let is_me = account == form.who.person.account.id;
    let next =
        if is_me { "/console".to_owned() } else { format!("/console/workspaces/{}/members", place.workspace.id) };
    Ok(page::see_other(&next))
}

/// `GET /console/workspaces/{workspace_id}/invitations`
async fn invitations(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let place = who.workspace(&app, &ids, Power::Own).await?;
    let query = Query::parse(query.as_deref(), &["page", "invited"])?;
    let link = match query.get("invited").and_then(|id| id.parse().ok()) {
        Some(id) => app.engine.link_of_invitation(&place.manager, id).await?,
        None => None,
    };
    let found = app.engine.invitations(&place.manager, query.page_of(page::ROWS)?).await?;
    let frame = Frame::of(&who, "Invitations").in_workspace(&who, &place.workspace, Section::Members);
    let row = |invitation: &Invitation| InvitationRow {
        id: invitation.id.to_string(),
        email: invitation.email.to_string(),
        role: invitation.role.as_str(),
        expires_at: Moment(invitation.expires_at),
    };
    Ok(page::ok(&InvitationsPage {
        link: link.map(|link| LinkView::new(&app, &link)),
        invitations: found.items.iter().map(row).collect(),
        pages: Pages::of(&found, |number| format!("{}/invitations?page={number}", frame.workspace_path())),
        frame,
    }))
}

/// `POST /console/workspaces/{workspace_id}/invitations/{invitation_id}/withdraw`
async fn withdraw(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.workspace(&app, &ids, Power::Own).await?;
    let id = ids.get("invitation_id").and_then(|id| id.parse().ok()).ok_or_else(Refusal::not_found)?;
    app.engine.withdraw_invitation(&place.manager, id).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/invitations", place.workspace.id)))
}

pub fn account_of(ids: &PathIds) -> Result<AccountId, Refusal> {
    ids.get("account_id").and_then(|id| id.parse().ok()).ok_or_else(Refusal::not_found)
}

async fn members_page(
    app: &App,
    who: &SignedIn,
    place: &InWorkspace,
    request: PageRequest,
    (status, error): (StatusCode, Option<String>),
    email: String,
) -> Result<Response, Refusal> {
    let found = app.engine.members(&place.manager, request).await?;
    let row = |(account, role): &(Account, Role)| MemberRow {
        account_id: account.id.to_string(),
        email: account.email.to_string(),
        role: role.as_str(),
        is_me: account.id == who.person.account.id,
    };
    let frame = Frame::of(who, "Members").in_workspace(who, &place.workspace, Section::Members);
    let page = MembersPage {
        members: found.items.iter().map(row).collect(),
        roles: Role::ALL.map(Role::as_str),
        pages: Pages::of(&found, |number| format!("{}/members?page={number}", frame.workspace_path())),
        frame,
        email,
        error,
    };
    Ok(page::html(status, &page))
}
