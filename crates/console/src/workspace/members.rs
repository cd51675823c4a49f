//! Pages for the members and pending invitations of a workspace.

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
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantNames as _;

use crate::{
    page::{self, Layout, MenuSection, Pagination, UtcTime, error::ConsoleError},
    session::{
        console_session::{ConsoleSession, WorkspaceAccess},
        forms::{SessionForm, form_error},
    },
};

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
#[template(path = "workspace/members.html")]
struct MembersPage {
    layout: Layout,
    members: Vec<MemberRow>,
    roles: &'static [&'static str],
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
#[template(path = "workspace/invitations.html")]
struct InvitationsPage {
    layout: Layout,
    link: Option<LinkView>,
    invitations: Vec<Invitation>,
    pagination: Pagination,
}

/// A link that the user has to pass on to its recipient, because the server sends no email.
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
    access: WorkspaceAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let request = Query::parse(query.as_deref(), &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
    members_page(&app, &access, request, (StatusCode::OK, None), String::new()).await
}

/// `POST /console/workspaces/{workspace_id}/members`
async fn invite(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let email = fields.get("email").unwrap_or_default();
    let role = fields.get("role").unwrap_or_default().parse::<Role>();
    let (status, error) = match (email.parse::<Email>(), role) {
        (Ok(address), Ok(role)) => match app.engine.accounts.invite_member(&access.actor, &address, role).await {
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
    members_page(&app, &access, first, (status, error), email.to_owned()).await
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/role`
async fn set_role(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, fields) = form.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let role = fields.get("role").unwrap_or_default().parse::<Role>();
    let role = role.map_err(|error| ConsoleError::new(StatusCode::BAD_REQUEST, "Invalid role", error.to_string()))?;
    app.engine.accounts.set_role(&access.actor, parse_account_id(&ids)?, role).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/members", access.workspace.id)))
}

/// `POST /console/workspaces/{workspace_id}/members/{account_id}/remove`
async fn remove(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, _) = form.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let account = parse_account_id(&ids)?;
    app.engine.accounts.remove_member(&access.actor, account).await?;
    let is_self = account == access.session.user.account.id;
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
        Some(id) => app.engine.accounts.find_invitation_link(&access.actor, id).await?,
        None => None,
    };
    let found =
        app.engine.accounts.list_invitations(&access.actor, query.page_with_default_size(page::PAGE_SIZE)?).await?;
    let layout = access.layout("Invitations", MenuSection::Members);
    Ok(page::render_ok(&InvitationsPage {
        link: link.map(|link| LinkView::new(&app, &link)),
        pagination: Pagination::new(&found, &format!("{}/invitations", layout.workspace_path()), &[]),
        invitations: found.items,
        layout,
    }))
}

/// `POST /console/workspaces/{workspace_id}/invitations/{invitation_id}/withdraw`
async fn withdraw(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let (access, _) = form.authorize_workspace(&app, &ids, Permission::ManageAccess).await?;
    let id = ids.get("invitation_id").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)?;
    app.engine.accounts.withdraw_invitation(&access.actor, id).await?;
    Ok(page::see_other(&format!("/console/workspaces/{}/invitations", access.workspace.id)))
}

pub fn parse_account_id(ids: &PathParameters) -> Result<AccountId, ConsoleError> {
    ids.get("account_id").and_then(|id| id.parse().ok()).ok_or_else(ConsoleError::not_found)
}

async fn members_page(
    app: &App,
    access: &WorkspaceAccess,
    request: PageRequest,
    (status, error): (StatusCode, Option<String>),
    email: String,
) -> Result<Response, ConsoleError> {
    let found = app.engine.accounts.list_members(&access.actor, request).await?;
    let row = |(account, role): &(Account, Role)| MemberRow {
        account_id: account.id.to_string(),
        email: account.email.to_string(),
        role: role.into_str(),
        is_self: account.id == access.session.user.account.id,
    };
    let layout = access.layout("Members", MenuSection::Members);
    let page = MembersPage {
        members: found.items.iter().map(row).collect(),
        roles: Role::VARIANTS,
        pagination: Pagination::new(&found, &format!("{}/members", layout.workspace_path()), &[]),
        layout,
        email,
        error,
    };
    Ok(page::render(status, &page))
}
