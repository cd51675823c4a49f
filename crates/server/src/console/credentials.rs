//! The credentials of a project. A secret is shown once, on the page that answers its making.

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{account::Power, tenancy::CredentialOwner};
use ringtrue_engine::management::{IssuedCredential, NewCredential};

use super::{
    forms::SignedForm,
    home::Pages,
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::{InProject, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem, query::Query};

#[derive(Debug, Template)]
#[template(path = "console/credentials.html")]
struct CredentialsPage {
    frame: Frame,
    base_url: String,
    shown: Option<Shown>,
    credentials: Vec<CredentialRow>,
    pages: Pages,
}

#[derive(Debug)]
struct CredentialRow {
    client_id: String,
    created_at: Moment,
    expires_at: Option<Moment>,
}

/// A new credential with its secret.
pub struct Shown {
    client_id: String,
    secret: String,
}

impl std::fmt::Debug for Shown {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Shown").field("client_id", &self.client_id).finish_non_exhaustive()
    }
}

impl From<&IssuedCredential> for Shown {
    fn from(issued: &IssuedCredential) -> Self {
        Shown { client_id: issued.credential.client_id.to_string(), secret: issued.secret.reveal().to_owned() }
    }
}

/// `GET …/projects/{project_id}/credentials`
pub async fn list(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let place = who.project(&app, &ids, Power::Look).await?;
    shown(&app, &who, &place, query.as_deref(), None).await
}

/// `POST …/projects/{project_id}/credentials`
pub async fn create(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.project(&app, &ids, Power::Develop).await?;
    let made = app.engine.create_credential(&place.manager, owner(&place), NewCredential::default(), None).await;
    shown_once(&app, &form.who, &place, Shown::from(&made.map_err(Problem::from)?)).await
}

/// `POST …/projects/{project_id}/credentials/{client_id}/delete`
pub async fn delete(State(app): State<App>, ids: PathIds, form: SignedForm) -> Result<Response, Refusal> {
    let place = form.who.project(&app, &ids, Power::Develop).await?;
    let client_id = ids.client_id()?;
    app.engine.delete_credential(&place.manager, owner(&place), &client_id).await.map_err(Problem::from)?;
    let frame = Frame::bare("").in_project(&place.project);
    Ok(page::see_other(&format!("{}/credentials", frame.project_path())))
}

/// The list, with a secret that nobody is shown a second time.
pub async fn shown_once(app: &App, who: &SignedIn, place: &InProject, new: Shown) -> Result<Response, Refusal> {
    shown(app, who, place, None, Some(new)).await
}

async fn shown(
    app: &App,
    who: &SignedIn,
    place: &InProject,
    query: Option<&str>,
    new: Option<Shown>,
) -> Result<Response, Refusal> {
    let request = Query::parse(query, &["page"])?.page_of(page::ROWS)?;
    let found = app.engine.credentials(&place.manager, owner(place), request).await.map_err(Problem::from)?;
    let frame = Frame::of(who, "Credentials").in_workspace(who, &place.workspace, Section::Credentials);
    let frame = frame.in_project(&place.project);
    let pages = Pages::of(&found, |number| format!("{}/credentials?page={number}", frame.project_path()));
    let credentials = found.items.iter().map(|credential| CredentialRow {
        client_id: credential.client_id.to_string(),
        created_at: Moment(credential.created_at),
        expires_at: credential.expires_at.map(Moment),
    });
    let credentials = credentials.collect();
    let base_url = app.engine.base_url().to_owned();
    Ok(page::html(StatusCode::OK, &CredentialsPage { frame, base_url, shown: new, credentials, pages }))
}

fn owner(place: &InProject) -> CredentialOwner {
    CredentialOwner::Project(place.workspace.id, place.project.id)
}
