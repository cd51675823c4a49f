//! Members and pending invitations of a workspace.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    account::{Account, AccountId, Email, Invitation, Permission, Role},
    page::PageRequest,
};
use ringtrue_engine::accounts::{AccessLink, MemberError};

use super::{
    error::ConsoleError,
    forms::{SessionForm, form_error},
    home::Pagination,
    page::{self, Layout, Section, UtcTime},
    session::{ConsoleSession, WorkspaceAccess},
};
use crate::http::{App, Routes, path::PathParameters, query::Query};

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/members", list_members)
        .post("/console/workspaces/{workspace_id}/members", invite)
        .post("/console/workspaces/{workspace_id}/members/{account_id}/role", set_role)
        .post("/console/workspaces/{workspace_id}/members/{account_id}/remove", remove)
        .get("/console/workspaces/{workspace_id}/invitations", list_invitations)
        .post("/console/workspaces/{workspace_id}/invitations/{invitation_id}/withdraw", withdraw)
}

#[derive(Debug, Template)]
#[template(path = "console/members.html")]
struct MembersPage {
    layout: Layout,
    members: Vec<MemberRow>,
    roles: [&'static str; 3],
    pagination: Pagination,
    email: String,
    error: Option<String>,
}

#[derive(Debug)]
struct MemberRow {
    account_id: String,
    email: String,
    role: &'static str,
    is_self: bool,
}

#[derive(Debug, Template)]
#[template(path = "console/invitations.html")]
struct InvitationsPage {
    layout: Layout,
    link: Option<LinkView>,
    invitations: Vec<InvitationRow>,
    pagination: Pagination,
}

#[derive(Debug)]
struct InvitationRow {
    id: String,
    email: String,
    role: &'static str,
    expires_at: UtcTime,
}

/// A link for the user to pass on.
#[derive(Debug)]
pub struct LinkView {
    pub email: String,
    pub url: String,
    pub expires_at: UtcTime,
}

impl LinkView {
    pub fn new(app: &App, link: &AccessLink) -> Self {
        LinkView {
            email: link.email.to_string(),
            url: format!("{}{}", app.engine.base_url(), link.path),
            expires_at: UtcTime(link.expires_at),
        }
    }
}

/// `GET /console/workspaces/{workspace_id}/members`
async fn list_members(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::View).await?;
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    members_page(&app, &session, &access, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/workspaces/{workspace_id}/members`
async fn invite(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let SessionForm { session, fields } = form;
    let access = session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let email = fields.get("email").unwrap_or_default();
    let role = fields.get("role").unwrap_or_default().parse::<Role>();
    let (status, error) = match (email.parse::<Email>(), role) {
        (Ok(address), Ok(role)) => match app.engine.invite_member(&access.manager, &address, role).await {
            Ok(link) => {
                let id = link.id;
                return Ok(page::see_other(&format!(
                    "/console/workspaces/{}/invitations?invited={id}",
                    access.workspace.id
                )));
            }
            Err(error @ (MemberError::AlreadyMember | MemberError::LimitReached { .. })) => {
                (StatusCode::CONFLICT, form_error(error).1)
            }
            Err(error) => return Err(error.into()),
        },
        (Err(error), _) => form_error(error),
        (_, Err(error)) => form_error(error),
    };
    let first = PageRequest::new(page::PAGE_SIZE, 1).unwrap_or_default();
    members_page(&app, &session, &access, first, (status, error), email.to_owned()).await
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/role`
async fn set_role(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = form.session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let role = form.fields.get("role").unwrap_or_default().parse::<Role>();
    let role = role.map_err(|error| ConsoleError::new(StatusCode::BAD_REQUEST, "Invalid role", error.to_string()))?;
    app.engine.set_role(&access.manager, parse_account_id(&ids)?, role).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/members", access.workspace.id)))
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/remove`
async fn remove(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = form.session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let account = parse_account_id(&ids)?;
    app.engine.remove_member(&access.manager, account).await?;
    let is_self = account == form.session.user.account.id;
    let next =
        if is_self { "/console".to_owned() } else { format!("/console/workspaces/{}/members", access.workspace.id) };
    Ok(page::see_other(&next))
}

/// `GET /console/workspaces/{workspace_id}/invitations`
async fn list_invitations(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let query = Query::parse(query.as_deref(), &["page", "invited"])?;
    let link = match query.get("invited").and_then(|id| id.parse().ok()) {
        Some(id) => app.engine.find_invitation_link(&access.manager, id).await?,
        None => None,
    };
    let found = app.engine.list_invitations(&access.manager, query.page_with_default_size(page::PAGE_SIZE)?).await?;
    let layout =
        Layout::for_session(&session, "Invitations").in_workspace(&session, &access.workspace, Section::Members);
    let row = |invitation: &Invitation| InvitationRow {
        id: invitation.id.to_string(),
        email: invitation.email.to_string(),
        role: invitation.role.as_str(),
        expires_at: UtcTime(invitation.expires_at),
    };
    Ok(page::render_ok(&InvitationsPage {
        link: link.map(|link| LinkView::new(&app, &link)),
        invitations: found.items.iter().map(row).collect(),
        pagination: Pagination::new(&found, |number| format!("{}/invitations?page={number}", layout.workspace_path())),
        layout,
    }))
}

/// `POST /console/workspaces/{workspace_id}/invitations/{invitation_id}/withdraw`
async fn withdraw(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = form.session.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let id = ids.get("invitation_id").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)?;
    app.engine.withdraw_invitation(&access.manager, id).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/invitations", access.workspace.id)))
}

pub fn parse_account_id(ids: &PathParameters) -> Result<AccountId, ConsoleError> {
    ids.get("account_id").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)
}

async fn members_page(
    app: &App,
    session: &ConsoleSession,
    access: &WorkspaceAccess,
    request: PageRequest,
    (status, error): (StatusCode, Option<String>),
    email: String,
) -> Result<Response, ConsoleError> {
    let found = app.engine.list_members(&access.manager, request).await?;
    let row = |(account, role): &(Account, Role)| MemberRow {
        account_id: account.id.to_string(),
        email: account.email.to_string(),
        role: role.as_str(),
        is_self: account.id == session.user.account.id,
    };
    let layout = Layout::for_session(session, "Members").in_workspace(session, &access.workspace, Section::Members);
    let page = MembersPage {
        members: found.items.iter().map(row).collect(),
        roles: Role::ALL.map(Role::as_str),
        pagination: Pagination::new(&found, |number| format!("{}/members?page={number}", layout.workspace_path())),
        layout,
        email,
        error,
    };
    Ok(page::render(status, &page))
}
