//! Projects.

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    product::Product,
    search::{Field, FieldKind},
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
    detached::run_to_completion,
    etag::{IfMatch, json_with_etag, with_etag},
    idempotency::{IdempotencyHeader, idempotent},
    json::{JsonError, Node, Object, as_boolean, as_distinct_list, as_integer, as_object, as_parsed, as_text},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

const SEARCHABLE_FIELDS: &[Field] = &[
    Field { name: "name", kind: FieldKind::Text },
    Field { name: "mode", kind: FieldKind::Keyword(&["sandbox", "live"]) },
    Field { name: "disabled", kind: FieldKind::Boolean },
    Field { name: "created_at", kind: FieldKind::Instant },
    Field { name: "updated_at", kind: FieldKind::Instant },
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

/// Response to a create or to going live. Only this response contains the secret of the credential.
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
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "search"])?;
    let filter = query.search_filter(SEARCHABLE_FIELDS)?;
    let page =
        app.engine.list_projects(&caller.manager(), ids.workspace()?, query.page_request()?, filter.as_ref()).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |project| ProjectBody::from(&project))))
}

/// `POST /v1/management/workspaces/{workspace_id}/projects`
pub async fn create(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let workspace = ids.workspace()?;
    let manager = caller.manager();
    let scope = app.engine.authorize(&manager, CredentialOwner::Workspace(workspace)).await?;
    let header = IdempotencyHeader::from_request(&request);
    let bytes = read_json(&app, request).await?;
    let new = parse_new_project(&bytes)?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        idempotent(
            &app,
            scope,
            &header,
            &bytes,
            |CreatedProject { project, credential }| NewProjectBody::new(project, credential),
            async |idempotency| app.engine.create_project(&manager, workspace, new, idempotency).await,
        )
        .await
    })
    .await
}

/// `GET /v1/management/workspaces/{workspace_id}/projects/{project_id}`
pub async fn get(State(app): State<App>, caller: Caller<Management>, ids: PathParameters) -> Result<Response, Problem> {
    let project = app.engine.project(&caller.manager(), ids.workspace()?, ids.project()?).await?;
    Ok(json_with_etag(&ProjectBody::from(&project)))
}

/// `PATCH /v1/management/workspaces/{workspace_id}/projects/{project_id}` (RFC 7396)
pub async fn patch(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let (workspace, id) = (ids.workspace()?, ids.project()?);
    let manager = caller.manager();
    app.engine.authorize(&manager, CredentialOwner::Project(workspace, id)).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let patch = parse_project_patch(&read_json(&app, request).await?)?;
    let app_ = app.clone();
    run_to_completion(&app_, async move {
        let condition = |current: &Project| if_match.matches(&ProjectBody::from(current));
        let updated = app.engine.patch_project(&manager, workspace, id, patch, &condition).await?;
        let project = ProjectBody::from(&updated.project);
        Ok(match &updated.credential {
            None => json_with_etag(&project),
            Some(issued) => {
                let response = json_response(StatusCode::OK, &NewProjectBody::new(&updated.project, issued));
                with_etag(response, &project)
            }
        })
    })
    .await
}

fn parse_new_project(document: &[u8]) -> Result<NewProject, JsonError> {
    let mut body = Object::parse(document)?;
    let new = NewProject {
        name: body.require("name", as_parsed)?,
        mode: body.take("mode", as_parsed)?.unwrap_or(Mode::Sandbox),
        configuration: body.take("configuration", parse_configuration)?.unwrap_or_default(),
        products: body.take("products", parse_products)?.unwrap_or_else(|| Product::ALL.to_vec()),
    };
    body.finish()?;
    Ok(new)
}

fn parse_project_patch(document: &[u8]) -> Result<ProjectPatch, JsonError> {
    let mut body = Object::parse(document)?;
    let patch = ProjectPatch {
        name: body.replace("name", as_parsed)?,
        mode: body.replace("mode", as_parsed)?,
        disabled: body.replace("disabled", as_boolean)?,
        products: body.replace("products", parse_products)?,
        configuration: body.patch("configuration", parse_configuration)?,
    };
    body.finish()?;
    Ok(patch)
}

pub(super) fn parse_products(node: Node, pointer: &str) -> Result<Vec<Product>, JsonError> {
    let mut products: Vec<Product> = as_distinct_list(node, pointer, as_parsed)?;
    products.sort_unstable();
    Ok(products)
}

fn parse_configuration(node: Node, pointer: &str) -> Result<ConfigurationPatch, JsonError> {
    let mut members = as_object(node, pointer)?;
    let patch = ConfigurationPatch {
        reverse_sms: members.patch("reverse_sms", parse_reverse_sms)?,
        secure_sna: members.patch("secure_sna", parse_silent)?,
        discovery: members.patch("discovery", parse_silent)?,
    };
    members.finish()?;
    Ok(patch)
}

fn parse_reverse_sms(node: Node, pointer: &str) -> Result<ReverseSmsPatch, JsonError> {
    let mut members = as_object(node, pointer)?;
    let ttl = |node, pointer: &str| {
        Ttl::try_from(as_integer(node, pointer)?).map_err(|error| JsonError::new(pointer, error.to_string()))
    };
    let patch = ReverseSmsPatch {
        callback_url: members.patch("callback_url", as_text)?,
        ttl: members.patch("ttl", ttl)?,
        prefix: members.patch("prefix", as_parsed)?,
        auto_reply: members.patch("auto_reply", as_boolean)?,
    };
    members.finish()?;
    Ok(patch)
}

fn parse_silent(node: Node, pointer: &str) -> Result<SilentPatch, JsonError> {
    let mut members = as_object(node, pointer)?;
    let patch = SilentPatch {
        callback_url: members.patch("callback_url", as_text)?,
        redirect_url: members.patch("redirect_url", as_text)?,
    };
    members.finish()?;
    Ok(patch)
}

#[cfg(test)]
mod tests {
    use ringtrue_engine::management::Patch;

    use super::*;

    #[test]
    fn null_clears_a_setting_and_absence_keeps_it() {
        let patch =
            parse_project_patch(br#"{"configuration":{"reverse_sms":{"ttl":null,"prefix":"ACME"},"discovery":null}}"#);
        let Patch::Set(configuration) = patch.unwrap().configuration else { panic!("set") };
        let Patch::Set(reverse_sms) = configuration.reverse_sms else { panic!("set") };
        assert_eq!((reverse_sms.callback_url, reverse_sms.ttl), (Patch::Keep, Patch::Clear));
        assert!(matches!(configuration.secure_sna, Patch::Keep));
        assert!(matches!(configuration.discovery, Patch::Clear));
    }

    #[test]
    fn required_members_cannot_be_removed() {
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
            assert_eq!(parse_project_patch(document).unwrap_err().pointer, pointer);
        }
    }
}
