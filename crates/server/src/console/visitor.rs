//! Who is at the door: somebody who has signed in, or a stranger who is asked to.

use std::{convert::Infallible, net::IpAddr};

use axum::extract::FromRequestParts;
use http::{HeaderMap, Method, header, request::Parts, uri::PathAndQuery};
use ringtrue_domain::{
    account::Power,
    tenancy::{Project, Workspace, WorkspaceId},
};
use ringtrue_engine::{
    accounts::{Administrator, ClientInfo, Person, SessionToken},
    management::{ManagementError, Manager},
    rate_limit::{CallKind, Standing},
};

use super::{cookies::Cookie, refusal::Refusal};
use crate::http::{
    App,
    arrival::{Arrival, Context},
    catalogue::Code,
    path::PathIds,
    problem::Problem,
};

/// Somebody who has signed in. Whoever forgets to ask for one has nobody to let in anywhere.
#[derive(Debug)]
pub struct SignedIn {
    pub person: Person,
    pub token: SessionToken,
    /// For the forms of the page.
    pub form_token: String,
    pub request_id: String,
    /// What a form counts as in its workspace. `None`: nothing was sent but a request for a page.
    pub counted_as: Option<CallKind>,
}

/// The browser that a request came from.
#[derive(Debug)]
pub struct Client(pub ClientInfo);

impl Client {
    pub fn of(headers: &HeaderMap, address: IpAddr) -> Self {
        let user_agent = headers.get(header::USER_AGENT).and_then(|value| value.to_str().ok()).unwrap_or_default();
        Client(ClientInfo { address, user_agent: user_agent.to_owned() })
    }
}

impl FromRequestParts<Context> for Client {
    type Rejection = Infallible;

    async fn from_request_parts(parts: &mut Parts, Context { arrival, .. }: &Context) -> Result<Self, Infallible> {
        Ok(Client::of(&parts.headers, arrival.address))
    }
}

/// A person in a workspace, with the power that they asked for.
#[derive(Debug)]
pub struct InWorkspace {
    pub manager: Manager,
    pub workspace: Workspace,
}

/// A person in a project.
#[derive(Debug)]
pub struct InProject {
    pub manager: Manager,
    pub workspace: Workspace,
    pub project: Project,
}

impl SignedIn {
    /// Who has the session that the browser speaks of, if it is good.
    pub async fn find(app: &App, headers: &HeaderMap, arrival: &Arrival) -> Result<Option<Self>, Refusal> {
        let token = Cookie::Session.read(app, headers).and_then(SessionToken::parse);
        let Some(token) = token else { return Ok(None) };
        let limiter = app.engine.limiter();
        if let Some(standing) = limiter.session_lookup(token.reveal(), arrival.address, arrival.at) {
            admitted(standing)?;
        }
        let person = app.engine.session(&token).await?;
        limiter.session_looked_up(token.reveal(), person.is_some());
        let Some(person) = person else { return Ok(None) };
        let form_token = app.engine.form_token(token.reveal())?;
        let request_id = arrival.request_id.as_str().to_owned();
        Ok(Some(SignedIn { person, token, form_token, request_id, counted_as: None }))
    }

    /// Lets the person at what concerns the whole deployment.
    pub fn administrator(&self) -> Result<Administrator, Refusal> {
        Ok(self.person.administer(Some(self.request_id.clone()))?)
    }

    /// Lets the person into the workspace of the path.
    pub async fn workspace(&self, app: &App, ids: &PathIds, power: Power) -> Result<InWorkspace, Refusal> {
        let id = ids.workspace()?;
        let manager = self.person.enter(id, power, Some(self.request_id.clone()))?;
        if power != Power::Look {
            self.meter(app, id)?;
        }
        let workspace = app.engine.workspace(&manager, id).await.map_err(Problem::from)?;
        Ok(InWorkspace { manager, workspace })
    }

    /// Lets the person into the project of the path.
    pub async fn project(&self, app: &App, ids: &PathIds, power: Power) -> Result<InProject, Refusal> {
        let InWorkspace { manager, workspace } = self.workspace(app, ids, power).await?;
        let found = app.engine.project(&manager, workspace.id, ids.project()?).await;
        let project = found.map_err(|error| match error {
            // People are not told what other workspaces have.
            ManagementError::NotYours(_) => Problem::from(ManagementError::ProjectNotFound),
            other => other.into(),
        })?;
        Ok(InProject { manager, workspace, project })
    }

    /// Counts a form: it costs a workspace what the same call of the API costs.
    fn meter(&self, app: &App, workspace: WorkspaceId) -> Result<(), Refusal> {
        let Some(kind) = self.counted_as else { return Ok(()) };
        let own = app.engine.control_plane().own_limits(workspace);
        let standing = app.engine.limiter().workspace(kind, workspace, &own, app.engine.clock().now());
        if standing.admitted { Ok(()) } else { Err(Refusal::too_fast()) }
    }
}

/// Counts a request that must look up a link by its token.
pub fn meter_link(app: &App, address: IpAddr) -> Result<(), Refusal> {
    admitted(app.engine.limiter().stranger(CallKind::Console, address, app.engine.clock().now()))
}

fn admitted(standing: Standing) -> Result<(), Refusal> {
    if standing.admitted {
        return Ok(());
    }
    let detail = "too many requests with unknown sessions or links come from your address; try again in a second";
    Err(Problem::new(Code::TooManyRequests, detail).into())
}

impl FromRequestParts<Context> for SignedIn {
    type Rejection = Refusal;

    async fn from_request_parts(parts: &mut Parts, Context { app, arrival }: &Context) -> Result<Self, Refusal> {
        if let Some(signed_in) = SignedIn::find(app, &parts.headers, arrival).await? {
            return Ok(signed_in);
        }
        // Whoever was reading is brought back; what was about to be changed is not done by itself.
        let wanted =
            if parts.method == Method::GET { parts.uri.path_and_query().map(PathAndQuery::as_str) } else { None };
        Err(Refusal::Go(match wanted.filter(|path| *path != "/console") {
            Some(path) => {
                let next = url::form_urlencoded::Serializer::new(String::new()).append_pair("next", path).finish();
                format!("/console/sign-in?{next}")
            }
            None => "/console/sign-in".to_owned(),
        }))
    }
}
