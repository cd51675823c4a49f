//! Who did what: in a workspace, for its owners; in all of them, for those who run the deployment.

use std::collections::HashMap;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{
    account::{AccountId, Email, Power},
    audit::{Action, Actor, AuditEvent},
    page::{Page, PageRequest},
};
use ringtrue_engine::ports::AuditFilter;

use super::{
    home::Pages,
    page::{self, Frame, Moment, Section},
    refusal::Refusal,
    visitor::SignedIn,
};
use crate::http::{App, Routes, path::PathIds, problem::Problem, query::Query};

const DEPLOYMENT: &str = "/console/deployment/audit";

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/audit", of_workspace)
        .get("/console/deployment/audit", of_deployment)
}

#[derive(Debug, Template)]
#[template(path = "console/audit.html")]
struct AuditPage {
    frame: Frame,
    is_of_deployment: bool,
    actions: Vec<Choice>,
    who: String,
    is_narrowed: bool,
    events: Vec<EventRow>,
    pages: Pages,
}

#[derive(Debug)]
struct Choice {
    name: &'static str,
    is_chosen: bool,
}

#[derive(Debug)]
struct EventRow {
    at: Moment,
    who: Who,
    action: &'static str,
    target_type: &'static str,
    target: String,
    changes: String,
    request_id: String,
    /// Path and name.
    workspace: Option<(String, String)>,
}

#[derive(Debug)]
struct Who {
    text: String,
    is_code: bool,
}

/// What a reader asked for.
struct Wanted {
    filter: AuditFilter,
    /// Somebody was named whom nobody knows.
    is_nobody: bool,
    who: String,
    page: PageRequest,
}

/// `GET /console/workspaces/{workspace_id}/audit`
async fn of_workspace(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let place = who.workspace(&app, &ids, Power::Own).await?;
    let wanted = Wanted::read(&app, query.as_deref()).await?;
    let found = if wanted.is_nobody {
        nothing(wanted.page)
    } else {
        let (filter, page) = (&wanted.filter, wanted.page);
        app.engine.audit_events(&place.manager, place.workspace.id, filter, page).await.map_err(Problem::from)?
    };
    let frame = Frame::of(&who, "Audit log").in_workspace(&who, &place.workspace, Section::AuditLog);
    let path = format!("{}/audit", frame.workspace_path());
    shown(&app, frame, &path, &wanted, &found).await
}

/// `GET /console/deployment/audit`
async fn of_deployment(State(app): State<App>, who: SignedIn, RawQuery(query): RawQuery) -> Result<Response, Refusal> {
    let administrator = who.administrator()?;
    let wanted = Wanted::read(&app, query.as_deref()).await?;
    let found = if wanted.is_nobody {
        nothing(wanted.page)
    } else {
        app.engine.all_audit_events(&administrator, &wanted.filter, wanted.page).await?
    };
    let frame = Frame::of(&who, "Audit log").in_deployment(Section::DeploymentAudit);
    shown(&app, frame, DEPLOYMENT, &wanted, &found).await
}

impl Wanted {
    async fn read(app: &App, query: Option<&str>) -> Result<Self, Refusal> {
        let query = Query::parse(query, &["action", "who", "page"])?;
        let name = query.get("action").unwrap_or_default();
        let action = Action::ALL.into_iter().find(|action| action.as_str() == name);
        if action.is_none() && !name.is_empty() {
            return Err(Problem::bad_request("`action` is none that is recorded").into());
        }
        let who = query.get("who").unwrap_or_default().trim().to_owned();
        let actor = if who.is_empty() { None } else { app.engine.actor_called(&who).await? };
        Ok(Wanted {
            is_nobody: actor.is_none() && !who.is_empty(),
            filter: AuditFilter { action, actor },
            who,
            page: query.page_of(page::ROWS)?,
        })
    }

    /// The address of a page of the same list.
    fn link(&self, path: &str, number: u32) -> String {
        let mut query = url::form_urlencoded::Serializer::new(String::new());
        if let Some(action) = self.filter.action {
            query.append_pair("action", action.as_str());
        }
        if !self.who.is_empty() {
            query.append_pair("who", &self.who);
        }
        format!("{path}?{}", query.append_pair("page", &number.to_string()).finish())
    }
}

fn nothing(request: PageRequest) -> Page<AuditEvent> {
    Page { items: vec![], request, total_items: 0 }
}

async fn shown(
    app: &App,
    frame: Frame,
    path: &str,
    wanted: &Wanted,
    found: &Page<AuditEvent>,
) -> Result<Response, Refusal> {
    let people = app.engine.people_in(&found.items).await?;
    let choice = |action: Action| Choice { name: action.as_str(), is_chosen: wanted.filter.action == Some(action) };
    Ok(page::ok(&AuditPage {
        is_of_deployment: path == DEPLOYMENT,
        actions: Action::ALL.into_iter().map(choice).collect(),
        is_narrowed: wanted.filter.action.is_some() || !wanted.who.is_empty(),
        who: wanted.who.clone(),
        events: found.items.iter().map(|event| row(app, event, &people)).collect(),
        pages: Pages::of(found, |number| wanted.link(path, number)),
        frame,
    }))
}

fn row(app: &App, event: &AuditEvent, people: &HashMap<AccountId, Email>) -> EventRow {
    let email = |account: AccountId| people.get(&account).map(ToString::to_string);
    let who = match &event.actor {
        Actor::Credential(client) => Who { text: client.to_string(), is_code: true },
        Actor::Account(account) => Who { text: email(*account).unwrap_or_else(|| account.to_string()), is_code: false },
        Actor::Operator => Who { text: "operator".to_owned(), is_code: false },
        Actor::System => Who { text: "system".to_owned(), is_code: false },
    };
    let target_type = event.action.target_type();
    let account = event.target.parse().ok().filter(|_| target_type == "account").and_then(email);
    let workspace = event.workspace.map(|id| {
        let name = app.engine.control_plane().workspace(id).map(|workspace| workspace.name.to_string());
        (format!("/console/workspaces/{id}"), name.unwrap_or_else(|| id.to_string()))
    });
    EventRow {
        at: Moment(event.at),
        who,
        action: event.action.as_str(),
        target_type,
        target: account.unwrap_or_else(|| event.target.clone()),
        changes: event.changes.join(", "),
        request_id: event.request_id.clone().unwrap_or_default(),
        workspace,
    }
}
