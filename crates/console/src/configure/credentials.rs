//! Pages for the credentials of a project, and for a workspace's credentials for the Management API. A new secret is
//! shown once, on the page that follows the form.

use std::collections::HashMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::{HeaderMap, StatusCode};
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    account::{AccountId, Email, Permission},
    audit::Actor,
    product::{Product, Scope},
    tenancy::{Credential, CredentialOwner, Name},
};
use ringtrue_engine::{
    actor::ManagementActor,
    tenants::{IssuedCredential, ManagementError, NewCredential},
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    routes::Routes,
};
use strum::VariantArray as _;

use crate::{
    page::{
        self, Layout, MenuSection, Pagination, ShortId, UtcTime,
        error::{ConsoleError, to_sentence},
    },
    session::{
        console_session::{ConsoleSession, ProjectAccess},
        flash::Flash,
        forms::{FormFields, SessionForm},
    },
};

/// Lifetimes that the form offers for a new credential.
const EXPIRY_OPTIONS: [ExpiryOption; 4] = [
    ExpiryOption { value: "never", title: "never", days: None },
    ExpiryOption { value: "30", title: "in 30 days", days: Some(30) },
    ExpiryOption { value: "90", title: "in 90 days", days: Some(90) },
    ExpiryOption { value: "365", title: "in a year", days: Some(365) },
];

#[derive(Debug)]
struct ExpiryOption {
    value: &'static str,
    title: &'static str,
    days: Option<i64>,
}

/// Periods that the form offers for a replaced credential to stay valid.
const OVERLAP_OPTIONS: [OverlapOption; 5] = [
    OverlapOption { value: "24", title: "24 hours", hours: 24 },
    OverlapOption { value: "1", title: "1 hour", hours: 1 },
    OverlapOption { value: "168", title: "7 days", hours: 7 * 24 },
    OverlapOption { value: "720", title: "30 days", hours: 30 * 24 },
    OverlapOption { value: "0", title: "not at all: it stops working at once", hours: 0 },
];

#[derive(Debug)]
struct OverlapOption {
    value: &'static str,
    title: &'static str,
    hours: i64,
}

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/credentials", list)
        .post("/console/workspaces/{workspace_id}/credentials", create)
        .get("/console/workspaces/{workspace_id}/credentials/{client_id}/rotate", show_rotation)
        .post("/console/workspaces/{workspace_id}/credentials/{client_id}/rotate", rotate)
        .get("/console/workspaces/{workspace_id}/credentials/{client_id}/delete", show_deletion)
        .post("/console/workspaces/{workspace_id}/credentials/{client_id}/delete", delete)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/credentials", list)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/credentials", create)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}/rotate", show_rotation)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}/rotate", rotate)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}/delete", show_deletion)
        .post("/console/workspaces/{workspace_id}/projects/{project_id}/credentials/{client_id}/delete", delete)
}

#[derive(Debug, Template)]
#[template(path = "configure/credentials.html")]
struct CredentialsPage {
    layout: Layout,
    base_url: String,
    /// Path of the credentials list.
    path: String,
    is_workspace_owned: bool,
    may_change: bool,
    revealed: Option<RevealedCredential>,
    credentials: Vec<CredentialRow>,
    /// Scopes to choose from, with their titles. Empty for a workspace, whose credentials all have the same scope.
    scopes: Vec<(&'static str, &'static str)>,
    expiry_options: &'static [ExpiryOption],
    /// Label as the user entered it, shown again after an error.
    label: String,
    pagination: Pagination,
    error: Option<String>,
}

/// Page that asks for confirmation before a credential is rotated or deleted.
#[derive(Debug, Template)]
#[template(path = "configure/credential.html")]
struct CredentialConfirmationPage {
    layout: Layout,
    /// Path of the credentials list.
    path: String,
    credential: CredentialRow,
    is_rotation: bool,
    overlap_options: &'static [OverlapOption],
    error: Option<String>,
}

#[derive(Debug)]
struct CredentialRow {
    id: ShortId,
    client_id: String,
    label: String,
    scopes: String,
    created_at: UtcTime,
    /// Who created the credential. Empty if unknown.
    creator: String,
    valid_until: Option<UtcTime>,
    is_active: bool,
    /// Whether the credential was rotated: a new one has replaced it, and it stays valid for a while.
    is_retiring: bool,
    last_used_at: Option<UtcTime>,
}

/// A new credential and its secret, shown once.
#[derive(derive_more::Debug)]
struct RevealedCredential {
    client_id: String,
    #[debug(skip)]
    secret: String,
    /// A scope for which the credential gets access tokens, for the example command. Empty: there is none.
    scope: String,
    /// Whether the project has just switched to live mode, which replaced all its other credentials.
    went_live: bool,
}

/// The signed-in user's access to the credentials pages of one project or workspace.
struct CredentialsAccess {
    session: ConsoleSession,
    actor: ManagementActor,
    owner: CredentialOwner,
    layout: Layout,
    path: String,
    may_change: bool,
}

impl CredentialsAccess {
    /// Checks the user's permission. The owner of the credentials is the project in the path, otherwise the workspace.
    /// Only workspace owners can access a workspace's credentials.
    async fn authorize(
        app: &App,
        session: ConsoleSession,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<Self, ConsoleError> {
        if ids.get("project_id").is_some() {
            return Ok(CredentialsAccess::for_project(session.authorize_project(app, ids, permission).await?));
        }
        let access = session.authorize_workspace(app, ids, Permission::ManageAccess).await?;
        let layout = access.layout("Credentials", MenuSection::WorkspaceCredentials);
        Ok(CredentialsAccess {
            actor: access.actor,
            owner: CredentialOwner::Workspace(access.workspace.id),
            path: format!("{}/credentials", layout.workspace_path()),
            may_change: layout.may_manage_access(),
            layout,
            session: access.session,
        })
    }

    fn for_project(access: ProjectAccess) -> Self {
        let layout = access.layout("Credentials", MenuSection::Credentials);
        CredentialsAccess {
            actor: access.actor,
            owner: CredentialOwner::Project(access.workspace.id, access.project.id),
            path: format!("{}/credentials", layout.project_path()),
            may_change: layout.may_develop(),
            layout,
            session: access.session,
        }
    }

    fn is_workspace_owned(&self) -> bool {
        matches!(self.owner, CredentialOwner::Workspace(_))
    }

    /// Redirects to the credentials list, which shows the secret once.
    fn reveal(&self, app: &App, issued: &IssuedCredential, went_live: bool) -> Result<Response, ConsoleError> {
        let flash = Flash::NewCredential {
            client_id: issued.credential.client_id.to_string(),
            secret: issued.secret.reveal().to_owned(),
            scope: token_scope(&issued.credential.scopes).map_or("", Scope::into_str).to_owned(),
            went_live,
        };
        flash.redirect(app, &self.session, &self.path)
    }

    async fn render(
        self,
        app: &App,
        query: Option<&str>,
        new: Option<RevealedCredential>,
        (error, label): (Option<String>, String),
    ) -> Result<Response, ConsoleError> {
        let request = Query::parse(query, &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
        let found = app.engine.management.list_credentials(&self.actor, self.owner, request).await?;
        let emails = app.engine.management.emails_of_creators(&found.items).await?;
        let now = app.engine.clock().now();
        let all_products = Product::VARIANTS.iter().map(|product| (product.into_str(), product.title()));
        let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        let page = CredentialsPage {
            base_url: app.engine.base_url().to_owned(),
            pagination: Pagination::new(&found, &self.path, &[]),
            is_workspace_owned: self.is_workspace_owned(),
            may_change: self.may_change,
            revealed: new,
            credentials: found.items.iter().map(|credential| credential_row(credential, &emails, now)).collect(),
            scopes: if self.is_workspace_owned() { vec![] } else { all_products.collect() },
            expiry_options: &EXPIRY_OPTIONS,
            label,
            path: self.path,
            layout: self.layout,
            error,
        };
        Ok(page::render(status, &page))
    }

    /// Renders the page that asks for confirmation before the credential is rotated or deleted.
    async fn render_confirmation(
        self,
        app: &App,
        ids: &PathParameters,
        is_rotation: bool,
        error: Option<String>,
    ) -> Result<Response, ConsoleError> {
        let credential = app.engine.management.credential(&self.actor, self.owner, &ids.client_id()?).await?;
        let credential = [credential];
        let emails = app.engine.management.emails_of_creators(&credential).await?;
        let [credential] = credential.map(|one| credential_row(&one, &emails, app.engine.clock().now()));
        let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        let page = CredentialConfirmationPage {
            layout: self.layout,
            path: self.path,
            credential,
            is_rotation,
            overlap_options: &OVERLAP_OPTIONS,
            error,
        };
        Ok(page::render(status, &page))
    }
}

/// Returns the first of a credential's scopes for which there are access tokens.
fn token_scope(scopes: &[Scope]) -> Option<Scope> {
    Scope::of_access_tokens().find(|scope| scopes.contains(scope))
}

fn credential_row(credential: &Credential, emails: &HashMap<AccountId, Email>, now: Timestamp) -> CredentialRow {
    let titles = credential.scopes.iter().map(|scope| match scope {
        Scope::Product(product) => product.title(),
        Scope::Management => "Management API",
    });
    let has_all = Product::VARIANTS.iter().all(|product| credential.scopes.contains(&Scope::Product(*product)));
    let creator = match &credential.created_by {
        Actor::Account(account) => emails.get(account).map_or_else(|| account.to_string(), ToString::to_string),
        Actor::Credential(client) => client.to_string(),
        Actor::Operator => "operator".to_owned(),
        Actor::System => "system".to_owned(),
    };
    CredentialRow {
        id: ShortId::new(credential.client_id.to_string()),
        client_id: credential.client_id.to_string(),
        label: credential.label.as_ref().map(ToString::to_string).unwrap_or_default(),
        scopes: if has_all { "all products".to_owned() } else { titles.collect::<Vec<_>>().join(", ") },
        created_at: UtcTime(credential.created_at),
        creator,
        valid_until: credential.valid_until().map(UtcTime),
        is_active: credential.is_active(now),
        is_retiring: credential.retires_at.is_some(),
        last_used_at: credential.last_used_at.map(UtcTime),
    }
}

/// `GET …/credentials`
async fn list(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    headers: HeaderMap,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let access = CredentialsAccess::authorize(&app, session, &ids, Permission::View).await?;
    let Some(Flash::NewCredential { client_id, secret, scope, went_live }) =
        Flash::read(&app, &access.session, &headers, &access.path)
    else {
        return access.render(&app, query.as_deref(), None, (None, String::new())).await;
    };
    let new = Some(RevealedCredential { client_id, secret, scope, went_live });
    let response = access.render(&app, query.as_deref(), new, (None, String::new())).await?;
    Ok(Flash::clear(&app, response))
}

/// `POST …/credentials`
async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = CredentialsAccess::authorize(&app, form.session, &ids, Permission::Develop).await?;
    let label = form.fields.get("label").unwrap_or_default().to_owned();
    let new = match parse_new_credential(&app, &access, &form.fields) {
        Ok(new) => new,
        Err(error) => return access.render(&app, None, None, (Some(to_sentence(&error)), label)).await,
    };
    match app.engine.management.create_credential(&access.actor, access.owner, new, None).await {
        Ok(issued) => access.reveal(&app, &issued, false),
        Err(ManagementError::LimitReached(error)) => {
            access.render(&app, None, None, (Some(to_sentence(&error)), label)).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET …/credentials/{client_id}/rotate`
async fn show_rotation(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    CredentialsAccess::authorize(&app, session, &ids, Permission::Develop)
        .await?
        .render_confirmation(&app, &ids, true, None)
        .await
}

/// `POST …/credentials/{client_id}/rotate`
async fn rotate(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = CredentialsAccess::authorize(&app, form.session, &ids, Permission::Develop).await?;
    let overlap = form.fields.get("overlap").unwrap_or(OVERLAP_OPTIONS[0].value);
    let Some(option) = OVERLAP_OPTIONS.iter().find(|option| option.value == overlap) else {
        return access.render_confirmation(&app, &ids, true, Some("Select an overlap from the list.".to_owned())).await;
    };
    let (client_id, overlap) = (ids.client_id()?, SignedDuration::from_hours(option.hours));
    match app.engine.management.rotate_credential(&access.actor, access.owner, &client_id, overlap).await {
        Ok(issued) => access.reveal(&app, &issued, false),
        Err(ManagementError::LimitReached(error)) => {
            access.render_confirmation(&app, &ids, true, Some(to_sentence(&error))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// `GET …/credentials/{client_id}/delete`
async fn show_deletion(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
) -> Result<Response, ConsoleError> {
    CredentialsAccess::authorize(&app, session, &ids, Permission::Develop)
        .await?
        .render_confirmation(&app, &ids, false, None)
        .await
}

/// `POST …/credentials/{client_id}/delete`
async fn delete(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let access = CredentialsAccess::authorize(&app, form.session, &ids, Permission::Develop).await?;
    match app.engine.management.delete_credential(&access.actor, access.owner, &ids.client_id()?, &|_| true).await {
        Ok(()) => Ok(page::see_other(&access.path)),
        Err(error @ ManagementError::LastCredential) => {
            access.render_confirmation(&app, &ids, false, Some(to_sentence(&error.to_string()))).await
        }
        Err(error) => Err(error.into()),
    }
}

/// Redirects to the project's credentials list, which shows the secret of the new credential once.
pub fn redirect_to_new_credential(
    app: &App,
    access: ProjectAccess,
    new: &IssuedCredential,
) -> Result<Response, ConsoleError> {
    CredentialsAccess::for_project(access).reveal(app, new, false)
}

/// Like [`redirect_to_new_credential`], for a project that has just gone live.
pub fn redirect_to_live_credential(
    app: &App,
    access: ProjectAccess,
    new: &IssuedCredential,
) -> Result<Response, ConsoleError> {
    CredentialsAccess::for_project(access).reveal(app, new, true)
}

/// Parses the form for a new credential. `for=some` limits the credential to the checked products. Otherwise it is for
/// all products, including those that the project does not use yet.
fn parse_new_credential(app: &App, access: &CredentialsAccess, fields: &FormFields) -> Result<NewCredential, String> {
    let checked =
        Product::VARIANTS.iter().copied().filter(|product| fields.contains(product.into_str())).map(Scope::Product);
    let scopes = match fields.get("for") {
        Some("some") if !access.is_workspace_owned() => Some(checked.collect::<Vec<_>>()),
        _ => None,
    };
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Err("select at least one product".to_owned());
    }
    let label = fields.get("label").map(str::parse::<Name>).transpose().map_err(|error| format!("label: {error}"))?;
    let expiry = fields.get("expires").unwrap_or(EXPIRY_OPTIONS[0].value);
    let option = EXPIRY_OPTIONS.iter().find(|option| option.value == expiry);
    let option = option.ok_or_else(|| "select an expiry from the list".to_owned())?;
    let now = app.engine.clock().now();
    let expires_at = option.days.and_then(|days| now.checked_add(SignedDuration::from_hours(24 * days)).ok());
    Ok(NewCredential { scopes, expires_at, label })
}
