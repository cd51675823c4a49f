//! Projects.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    product::Product,
    search::{Field, Kind},
    tenancy::{Configuration, CredentialOwner, Mode, Project, ReverseSmsSettings, SilentSettings, Ttl},
};
use ringtrue_engine::management::{
    ConfigurationPatch, CreatedProject, IssuedCredential, NewProject, ProjectPatch, ReverseSmsPatch, SilentPatch,
};
use serde::Serialize;

use super::credentials::NewCredentialBody;
use crate::http::{
    App,
    body::read_json,
    caller::{Caller, scope::Management},
    etag::{IfMatch, tagged, with_etag},
    idempotency::{Sent, once},
    json,
    json::{Invalid, Node, Object, boolean, distinct, integer, object, parsed, text},
    path::PathIds,
    problem::Problem,
    query::{PageBody, Query},
    time,
    to_the_end::to_the_end,
};

/// What a list of projects can be filtered by.
const FIELDS: &[Field] = &[
    Field { name: "name", kind: Kind::Text },
    Field { name: "mode", kind: Kind::Keyword(&["sandbox", "live"]) },
    Field { name: "disabled", kind: Kind::Boolean },
    Field { name: "created_at", kind: Kind::Instant },
    Field { name: "updated_at", kind: Kind::Instant },
];

#[derive(Serialize)]
struct ProjectBody {
    project_id: String,
    workspace_id: String,
    name: String,
    mode: &'static str,
    disabled: bool,
    configuration: ConfigurationBody,
    products: Vec<&'static str>,
    created_at: String,
    updated_at: String,
}

/// The project as it is shown once, when it is created or goes live: with the secret of its only credential.
#[derive(Serialize)]
struct NewProjectBody {
    #[serde(flatten)]
    project: ProjectBody,
    credentials: [NewCredentialBody; 1],
}

#[derive(Serialize)]
struct ConfigurationBody {
    reverse_sms: ReverseSmsBody,
    secure_sna: SilentBody,
    discovery: SilentBody,
}

#[derive(Serialize)]
struct ReverseSmsBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    ttl: Option<u16>,
    #[serde(skip_serializing_if = "Option::is_none")]
    prefix: Option<String>,
    #[serde(skip_serializing_if = "std::ops::Not::not")]
    auto_reply: bool,
}

#[derive(Serialize)]
struct SilentBody {
    #[serde(skip_serializing_if = "Option::is_none")]
    callback_url: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    redirect_url: Option<String>,
}

impl From<&Project> for ProjectBody {
    fn from(project: &Project) -> Self {
        ProjectBody {
            project_id: project.id.to_string(),
            workspace_id: project.workspace.to_string(),
            name: project.name.to_string(),
            mode: project.mode.as_str(),
            disabled: project.disabled,
            configuration: (&project.configuration).into(),
            products: project.products.iter().map(|product| product.as_str()).collect(),
            created_at: time::format(project.created_at),
            updated_at: time::format(project.updated_at),
        }
    }
}

impl NewProjectBody {
    fn new(project: &Project, issued: &IssuedCredential) -> Self {
        NewProjectBody { project: project.into(), credentials: [issued.into()] }
    }
}

impl From<&Configuration> for ConfigurationBody {
    fn from(configuration: &Configuration) -> Self {
        ConfigurationBody {
            reverse_sms: (&configuration.reverse_sms).into(),
            secure_sna: (&configuration.secure_sna).into(),
            discovery: (&configuration.discovery).into(),
        }
    }
}

impl From<&ReverseSmsSettings> for ReverseSmsBody {
    fn from(settings: &ReverseSmsSettings) -> Self {
        ReverseSmsBody {
            callback_url: settings.callback_url.as_ref().map(|url| url.as_str().to_owned()),
            ttl: settings.ttl.map(Ttl::seconds),
            prefix: settings.prefix.as_ref().map(ToString::to_string),
            auto_reply: settings.auto_reply,
        }
    }
}

impl From<&SilentSettings> for SilentBody {
    fn from(settings: &SilentSettings) -> Self {
        SilentBody {
            callback_url: settings.callback_url.as_ref().map(|url| url.as_str().to_owned()),
            redirect_url: settings.redirect_url.as_ref().map(|url| url.as_str().to_owned()),
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/projects`
pub async fn list(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let filter = query.search(FIELDS)?;
    let page = app.engine.projects(&caller.manager(), ids.workspace()?, query.page()?, filter.as_ref()).await?;
    Ok(json(StatusCode::OK, &PageBody::new(page, |project| ProjectBody::from(&project))))
}

/// `POST /v1/management/workspaces/{workspace_id}/projects`
pub async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let workspace = ids.workspace()?;
    let manager = caller.manager();
    let scope = app.engine.authorize(&manager, CredentialOwner::Workspace(workspace)).await?;
    let sent = Sent::by(&request);
    let bytes = read_json(&app, request).await?;
    let new = new_project(&bytes)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        once(
            &app,
            scope,
            &sent,
            &bytes,
            |CreatedProject { project, credential }| NewProjectBody::new(project, credential),
            async |once| app.engine.create_project(&manager, workspace, new, once).await,
        )
        .await
    })
    .await
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathIds) -> Result<Response, Problem> {
    let project = app.engine.project(&caller.manager(), ids.workspace()?, ids.project()?).await?;
    Ok(tagged(&ProjectBody::from(&project)))
}

/// `PATCH /v1/management/workspaces/{workspace_id}/projects/{project_id}` (RFC 7396)
pub async fn patch(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathIds,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace()?, ids.project()?);
    let manager = caller.manager();
    app.engine.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let if_match = IfMatch::of(request.headers());
    let patch = project_patch(&read_json(&app, request).await?)?;
    let app_ = app.clone();
    to_the_end(&app_, async move {
        let condition = |current: &Project| if_match.admits(&ProjectBody::from(current));
        let updated = app.engine.patch_project(&manager, workspace, id, patch, &condition).await?;
        let project = ProjectBody::from(&updated.project);
        Ok(match &updated.credential {
            None => tagged(&project),
            Some(issued) => {
                let response = json(StatusCode::OK, &NewProjectBody::new(&updated.project, issued));
                with_etag(response, &project)
            }
        })
    })
    .await
}

fn new_project(document: &[u8]) -> Result<NewProject, Invalid> {
    let mut body = Object::parse(document)?;
    let new = NewProject {
        name: body.require("name", parsed)?,
        mode: body.take("mode", parsed)?.unwrap_or(Mode::Sandbox),
        configuration: body.take("configuration", configuration)?.unwrap_or_default(),
        products: body.take("products", products)?.unwrap_or_else(|| Product::ALL.to_vec()),
    };
    body.finish()?;
    Ok(new)
}

fn project_patch(document: &[u8]) -> Result<ProjectPatch, Invalid> {
    let mut body = Object::parse(document)?;
    let patch = ProjectPatch {
        name: body.replace("name", parsed)?,
        mode: body.replace("mode", parsed)?,
        disabled: body.replace("disabled", boolean)?,
        products: body.replace("products", products)?,
        configuration: body.patch("configuration", configuration)?,
    };
    body.finish()?;
    Ok(patch)
}

pub(super) fn products(node: Node, pointer: &str) -> Result<Vec<Product>, Invalid> {
    let mut products: Vec<Product> = distinct(node, pointer, parsed)?;
    products.sort_unstable();
    Ok(products)
}

fn configuration(node: Node, pointer: &str) -> Result<ConfigurationPatch, Invalid> {
    let mut members = object(node, pointer)?;
    let patch = ConfigurationPatch {
        reverse_sms: members.patch("reverse_sms", reverse_sms)?,
        secure_sna: members.patch("secure_sna", silent)?,
        discovery: members.patch("discovery", silent)?,
    };
    members.finish()?;
    Ok(patch)
}

fn reverse_sms(node: Node, pointer: &str) -> Result<ReverseSmsPatch, Invalid> {
    let mut members = object(node, pointer)?;
    let ttl = |node, pointer: &str| {
        Ttl::try_from(integer(node, pointer)?).map_err(|error| Invalid::new(pointer, error.to_string()))
    };
    let patch = ReverseSmsPatch {
        callback_url: members.patch("callback_url", text)?,
        ttl: members.patch("ttl", ttl)?,
        prefix: members.patch("prefix", parsed)?,
        auto_reply: members.patch("auto_reply", boolean)?,
    };
    members.finish()?;
    Ok(patch)
}

fn silent(node: Node, pointer: &str) -> Result<SilentPatch, Invalid> {
    let mut members = object(node, pointer)?;
    let patch = SilentPatch {
        callback_url: members.patch("callback_url", text)?,
        redirect_url: members.patch("redirect_url", text)?,
    };
    members.finish()?;
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use ringtrue_engine::management::Patch;

    use super::*;

    #[test]
    fn null_takes_a_setting_away_and_absence_leaves_it() {
        let patch =
            project_patch(br#"{"configuration":{"reverse_sms":{"ttl":null,"prefix":"ACME"},"discovery":null}}"#);
        let Patch::Set(configuration) = patch.unwrap().configuration else { panic!("set") };
        let Patch::Set(reverse_sms) = configuration.reverse_sms else { panic!("set") };
        assert_eq!((reverse_sms.callback_url, reverse_sms.ttl), (Patch::Keep, Patch::Clear));
        assert!(matches!(configuration.secure_sna, Patch::Keep));
        assert!(matches!(configuration.discovery, Patch::Clear));
    }

    #[test]
    fn what_a_project_must_have_cannot_be_taken_away() {
        for (document, pointer) in [
            (&br#"{"name":null}"#[..], "/name"),
            (br#"{"products":null}"#, "/products"),
            (br#"{"mode":null}"#, "/mode"),
            (br#"{"disabled":null}"#, "/disabled"),
            (br#"{"products":["reverse_sms","reverse_sms"]}"#, "/products/1"),
            (br#"{"mode":"production"}"#, "/mode"),
            (br#"{"configuration":{"reverse_sms":{"ttl":59}}}"#, "/configuration/reverse_sms/ttl"),
            (br#"{"configuration":{"sim_swap":{}}}"#, "/configuration/sim_swap"),
        ] {
            assert_eq!(project_patch(document).unwrap_err().pointer, pointer);
        }
    }
}
