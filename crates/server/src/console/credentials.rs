//! The credentials of a project, and those of a workspace, which open the Management API. A secret is shown once, on the
//! page that answers its making.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use jiff::SignedDuration;
use ringtrue_domain::{
    account::Power,
    product::{Product, Scope},
    tenancy::{Credential, CredentialOwner},
};
use ringtrue_engine::management::{IssuedCredential, ManagementError, Manager, NewCredential};

use super::{
    forms::{Fields, SignedForm},
    home::Pages,
    page::{self, Frame, Moment, Section},
    refusal::{Refusal, sentence},
    visitor::{InProject, InWorkspace, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem, query::Query};

/// How long a credential may be good for. The word is what the form sends.
const LIVES: [Life; 4] = [
    Life { word: "never", title: "never", days: None },
    Life { word: "30", title: "in 30 days", days: Some(30) },
    Life { word: "90", title: "in 90 days", days: Some(90) },
    Life { word: "365", title: "in a year", days: Some(365) },
];

#[derive(Debug)]
struct Life {
    word: &'static str,
    title: &'static str,
    days: Option<i64>,
}

#[derive(Debug, Template)]
#[template(path = "console/credentials.html")]
struct CredentialsPage {
    frame: Frame,
    base_url: String,
    /// Where they are.
    path: String,
    is_workspace: bool,
    may_change: bool,
    shown: Option<Shown>,
    credentials: Vec<CredentialRow>,
    /// What a new one can be for; nothing to choose from is not asked about.
    scopes: Vec<(&'static str, &'static str)>,
    lives: &'static [Life],
    pages: Pages,
    error: Option<String>,
}

#[derive(Debug)]
struct CredentialRow {
    client_id: String,
    scopes: String,
    created_at: Moment,
    expires_at: Option<Moment>,
    last_used_at: Option<Moment>,
}

/// A new credential with its secret.
pub struct Shown {
    client_id: String,
    secret: String,
    /// One that it can ask for.
    scope: &'static str,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl From<&IssuedCredential> for Shown {
    fn from(issued: &IssuedCredential) -> Self {
        Shown {
            client_id: issued.credential.client_id.to_string(),
            secret: issued.secret.reveal().to_owned(),
            scope: issued.credential.scopes.first().map_or("", |scope| scope.as_str()),
        }
    }
}

/// Whose credentials a page is about.
struct Desk {
    manager: Manager,
    owner: CredentialOwner,
    frame: Frame,
    path: String,
    may_change: bool,
}

impl Desk {
    /// A project's when the path names one, else the workspace's, which are the owners' business alone.
    async fn of(app: &App, who: &SignedIn, ids: &PathIds, power: Power) -> Result<Self, Refusal> {
        if ids.get("project_id").is_some() {
            return Ok(Desk::of_project(who, &who.project(app, ids, power).await?));
        }
        let InWorkspace { manager, workspace } = who.workspace(app, ids, Power::Own).await?;
        let frame = Frame::of(who, "Credentials").in_workspace(who, &workspace, Section::WorkspaceCredentials);
        let path = format!("{}/credentials", frame.workspace_path());
        Ok(Desk { manager, owner: CredentialOwner::Workspace(workspace.id), may_change: frame.may_own(), frame, path })
    }

    fn of_project(who: &SignedIn, place: &InProject) -> Self {
        let frame = Frame::of(who, "Credentials").in_workspace(who, &place.workspace, Section::Credentials);
        let frame = frame.in_project(&place.project);
        Desk {
            manager: place.manager.clone(),
            owner: CredentialOwner::Project(place.workspace.id, place.project.id),
            path: format!("{}/credentials", frame.project_path()),
            may_change: frame.may_develop(),
            frame,
        }
    }

    fn is_workspace(&self) -> bool {
        matches!(self.owner, CredentialOwner::Workspace(_))
    }

    async fn show(
        self,
        app: &App,
        query: Option<&str>,
        new: Option<Shown>,
        error: Option<String>,
    ) -> Result<Response, Refusal> {
        let request = Query::parse(query, &["page"])?.page_of(page::ROWS)?;
        let found = app.engine.credentials(&self.manager, self.owner, request).await.map_err(Problem::from)?;
        let every = Product::ALL.map(|product| (product.as_str(), product.title()));
        let status = if error.is_some() { StatusCode::BAD_REQUEST } else { StatusCode::OK };
        let page = CredentialsPage {
            base_url: app.engine.base_url().to_owned(),
            pages: Pages::of(&found, |number| format!("{}?page={number}", self.path)),
            is_workspace: self.is_workspace(),
            may_change: self.may_change,
            shown: new,
            credentials: found.items.iter().map(row).collect(),
            scopes: if self.is_workspace() { vec![] } else { every.to_vec() },
            lives: &LIVES,
            path: self.path,
            frame: self.frame,
            error,
        };
        Ok(page::html(status, &page))
    }
}

fn row(credential: &Credential) -> CredentialRow {
    let titles = credential.scopes.iter().map(|scope| match scope {
        Scope::Product(product) => product.title(),
        Scope::Management => "Management API",
    });
    let has_all = Product::ALL.iter().all(|product| credential.scopes.contains(&Scope::Product(*product)));
    CredentialRow {
        client_id: credential.client_id.to_string(),
        scopes: if has_all { "all products".to_owned() } else { titles.collect::<Vec<_>>().join(", ") },
        created_at: Moment(credential.created_at),
        expires_at: credential.expires_at.map(Moment),
        last_used_at: credential.last_used_at.map(Moment),
    }
}

/// `GET …/credentials`
pub async fn list(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    Desk::of(&app, &who, &ids, Power::Look).await?.show(&app, query.as_deref(), None, None).await
}

/// `POST …/credentials`
pub async fn create(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let desk = Desk::of(&app, &form.who, &ids, Power::Develop).await?;
    let new = match asked_for(&app, &desk, &form.fields) {
        Ok(new) => new,
        Err(error) => return desk.show(&app, None, None, Some(sentence(error))).await,
    };
    match app.engine.create_credential(&desk.manager, desk.owner, new, None).await {
        Ok(made) => desk.show(&app, None, Some(Shown::from(&made)), None).await,
        Err(ManagementError::LimitReached(error)) => desk.show(&app, None, None, Some(sentence(&error))).await,
        Err(error) => Err(Problem::from(error).into()),
    }
}

/// `POST …/credentials/{client_id}/delete`
pub async fn delete(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let desk = Desk::of(&app, &form.who, &ids, Power::Develop).await?;
    let deleted = app.engine.delete_credential(&desk.manager, desk.owner, &ids.client_id()?, &|_| true).await;
    deleted.map_err(Problem::from)?;
    Ok(page::see_other(&desk.path))
}

/// The list, with a secret that nobody is shown a second time.
pub async fn shown_once(app: &App, who: &SignedIn, place: &InProject, new: Shown) -> Result<Response, Refusal> {
    Desk::of_project(who, place).show(app, None, Some(new), None).await
}

/// What a form asks for: `some` products that are ticked, or all that there are, now and later.
fn asked_for(app: &App, desk: &Desk, fields: &Fields) -> Result<NewCredential, &'static str> {
    let ticked = Product::ALL.into_iter().filter(|product| fields.has(product.as_str())).map(Scope::Product);
    let scopes = match fields.get("for") {
        Some("some") if !desk.is_workspace() => Some(ticked.collect::<Vec<_>>()),
        _ => None,
    };
    if scopes.as_ref().is_some_and(Vec::is_empty) {
        return Err("a credential is for at least one product");
    }
    let word = fields.get("expires").unwrap_or(LIVES[0].word);
    let life =
        LIVES.iter().find(|life| life.word == word).ok_or("a credential expires never, or at a time to choose")?;
    let now = app.engine.clock().now();
    let expires_at = life.days.and_then(|days| now.checked_add(SignedDuration::from_hours(24 * days)).ok());
    Ok(NewCredential { scopes, expires_at })
}
