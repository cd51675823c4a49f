//! Credentials of a project, and of a workspace for the Management API. A secret is shown once, in the response that
//! creates it.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Permission,
    product::{Product, Scope},
    tenancy::{Credential, CredentialOwner},
};
use ringtrue_engine::management::{IssuedCredential, ManagementActor, ManagementError, NewCredential};

use super::{
    error::{ConsoleError, to_sentence},
    forms::{FormFields, SessionForm},
    page::{self, Layout, MenuSection, Pagination, UtcTime},
    session::{ConsoleSession, ProjectAccess},
};
use crate::http::{
    app::App,
    parameters::{PathParameters, Query},
};

/// Choices of a credential's lifetime.
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

#[derive(Debug, Template)]
#[template(path = "console/credentials.html")]
struct CredentialsPage {
    layout: Layout,
    base_url: String,
    /// Path of the list.
    path: String,
    is_workspace_owned: bool,
    may_change: bool,
    revealed: Option<RevealedCredential>,
    credentials: Vec<CredentialRow>,
    /// Scopes to choose from. Empty: no choice.
    scopes: Vec<(&'static str, &'static str)>,
    expiry_options: &'static [ExpiryOption],
    pagination: Pagination,
    error: Option<String>,
}

#[derive(Debug)]
struct CredentialRow {
    client_id: String,
    scopes: String,
    created_at: UtcTime,
    expires_at: Option<UtcTime>,
    last_used_at: Option<UtcTime>,
}

/// A new credential and its secret.
#[derive(derive_more::Debug)]
struct RevealedCredential {
    client_id: String,
    #[debug(skip)]
    secret: String,
    /// One of its scopes, for the example command.
    scope: &'static str,
}

impl From<&IssuedCredential> for RevealedCredential {
    fn from(issued: &IssuedCredential) -> Self {
        RevealedCredential {
            client_id: issued.credential.client_id.to_string(),
            secret: issued.secret.reveal().to_owned(),
            scope: issued.credential.scopes.first().map_or("", |scope| scope.as_str()),
        }
    }
}

/// Credentials of one owner and the user's access to them.
struct CredentialsView {
    actor: ManagementActor,
    owner: CredentialOwner,
    layout: Layout,
    path: String,
    may_change: bool,
}

impl CredentialsView {
    /// Uses the project of the path, or else the workspace, whose credentials only owners can access.
    async fn authorize(
        app: &App,
        session: ConsoleSession,
        ids: &PathParameters,
        permission: Permission,
    ) -> Result<Self, ConsoleError> {
        if ids.get("project_id").is_some() {
            return Ok(CredentialsView::for_project(session.authorize_project(app, ids, permission).await?));
        }
        let access = session.authorize_workspace(app, ids, Permission::ManageAccess).await?;
        let layout = access.layout("Credentials", MenuSection::WorkspaceCredentials);
        Ok(CredentialsView {
            actor: access.actor,
            owner: CredentialOwner::Workspace(access.workspace.id),
            path: format!("{}/credentials", layout.workspace_path()),
            may_change: layout.may_manage_access(),
            layout,
        })
    }

    fn for_project(access: ProjectAccess) -> Self {
        let layout = access.layout("Credentials", MenuSection::Credentials);
        CredentialsView {
            actor: access.actor,
            owner: CredentialOwner::Project(access.workspace.id, access.project.id),
            path: format!("{}/credentials", layout.project_path()),
            may_change: layout.may_develop(),
            layout,
        }
    }

    fn is_workspace_owned(&self) -> bool {
        matches!(self.owner, CredentialOwner::Workspace(_))
    }

    async fn render(
        self,
        app: &App,
        query: Option<&str>,
        new: Option<RevealedCredential>,
        error: Option<String>,
    ) -> Result<Response, ConsoleError> {
        let request = Query::parse(query, &["page"])?.page_with_default_size(page::PAGE_SIZE)?;
        let found = app.engine.management.list_credentials(&self.actor, self.owner, request).await?;
        let all_products = Product::ALL.map(|product| (product.as_str(), product.title()));
        let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        let page = CredentialsPage {
            base_url: app.engine.base_url().to_owned(),
            pagination: Pagination::new(&found, &self.path, &[]),
            is_workspace_owned: self.is_workspace_owned(),
            may_change: self.may_change,
            revealed: new,
            credentials: found.items.iter().map(credential_row).collect(),
            scopes: if self.is_workspace_owned() { vec![] } else { all_products.to_vec() },
            expiry_options: &EXPIRY_OPTIONS,
            path: self.path,
            layout: self.layout,
            error,
        };
        Ok(page::render(status, &page))
    }
}

fn credential_row(credential: &Credential) -> CredentialRow {
    let titles = credential.scopes.iter().map(|scope| match scope {
        Scope::Product(product) => product.title(),
        Scope::Management => "Management API",
    });
    let has_all = Product::ALL.iter().all(|product| credential.scopes.contains(&Scope::Product(*product)));
    CredentialRow {
        client_id: credential.client_id.to_string(),
        scopes: if has_all { "all products".to_owned() } else { titles.collect::<Vec<_>>().join(", ") },
        created_at: UtcTime(credential.created_at),
        expires_at: credential.expires_at.map(UtcTime),
        last_used_at: credential.last_used_at.map(UtcTime),
    }
}

/// `GET …/credentials`
pub async fn list(
    State(app): State<App>,
    session: ConsoleSession,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    CredentialsView::authorize(&app, session, &ids, Permission::View)
        .await?
        .render(&app, query.as_deref(), None, None)
        .await
}

/// `POST …/credentials`
pub async fn create(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let view = CredentialsView::authorize(&app, form.session, &ids, Permission::Develop).await?;
    let new = match parse_new_credential(&app, &view, &form.fields) {
        Ok(new) => new,
        Err(error) => return view.render(&app, None, None, Some(to_sentence(error))).await,
    };
    match app.engine.management.create_credential(&view.actor, view.owner, new, None).await {
        Ok(issued) => view.render(&app, None, Some((&issued).into()), None).await,
        Err(ManagementError::LimitReached(error)) => view.render(&app, None, None, Some(to_sentence(&error))).await,
        Err(error) => Err(error.into()),
    }
}

/// `POST …/credentials/{client_id}/delete`
pub async fn delete(State(app): State<App>, ids: PathParameters, form: SessionForm) -> Result<Response, ConsoleError> {
    let view = CredentialsView::authorize(&app, form.session, &ids, Permission::Develop).await?;
    app.engine.management.delete_credential(&view.actor, view.owner, &ids.client_id()?, &|_| true).await?;
    Ok(page::see_other(&view.path))
}

/// Shows the list with the secret of a new credential.
pub async fn show_new_credential(
    app: &App,
    access: ProjectAccess,
    new: &IssuedCredential,
) -> Result<Response, ConsoleError> {
    CredentialsView::for_project(access).render(app, None, Some(new.into()), None).await
}

/// `for=some` selects the checked products; otherwise the credential is for all products, including future ones.
fn parse_new_credential(app: &App, view: &CredentialsView, fields: &FormFields) -> Result<NewCredential, &'static str> {
    let checked = Product::ALL.into_iter().filter(|product| fields.contains(product.as_str())).map(Scope::Product);
    let scopes = match fields.get("for") {
        Some("some") if !view.is_workspace_owned() => Some(checked.collect::<Vec<_>>()),
        _ => None,
    };
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Err("select at least one product");
    }
    let expiry = fields.get("expires").unwrap_or(EXPIRY_OPTIONS[0].value);
    let option = EXPIRY_OPTIONS.iter().find(|option| option.value == expiry).ok_or("select an expiry from the list")?;
    let now = app.engine.clock().now();
    let expires_at = option.days.and_then(|days| now.checked_add(SignedDuration::from_hours(24 * days)).ok());
    Ok(NewCredential { scopes, expires_at })
}
