//! The Management API under `/v1/management`. It requires the scope `management` and the credential of a workspace.
//!
//! This module contains the endpoints of workspaces, networks, usage and the audit log.

mod callback_stream;
mod callbacks;
mod configuration;
mod credentials;
mod logo;
mod projects;
mod requests;

use axum::{
    extract::{RawQuery, Request, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::{
    audit::{Actor, AuditEvent},
    page::Page,
    product::Product,
    tenancy::{CredentialOwner, Name, Workspace},
    timestamp,
};
use ringtrue_engine::{
    ports::{
        activity::{UsagePeriod, UsageRow},
        audit::AuditFilter,
    },
    rate_limits::RateLimitClass,
    tenants::{UsageReport, UsageRequest},
};
use ringtrue_web::{
    app::App,
    body::{Object, as_parsed, read_json_bytes},
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{IfMatch, PageBody, json_response, json_with_etag},
    routes::{Routes, patch},
};
use serde::Serialize;

use crate::caller::{Caller, scope::Management};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/management/networks", list_networks)
        .get("/v1/management/workspaces", list_workspaces)
        .get("/v1/management/workspaces/{workspace_id}", get_workspace)
        .route("/v1/management/workspaces/{workspace_id}", patch(patch_workspace))
        .get("/v1/management/workspaces/{workspace_id}/usage", usage)
        .get("/v1/management/workspaces/{workspace_id}/audit-events", audit_events)
        .merge(projects::routes())
        .merge(logo::routes())
        .merge(credentials::routes())
        .merge(requests::routes())
        .merge(callbacks::routes())
        .merge(callback_stream::routes())
        .rate_limit(RateLimitClass::Management)
        .rate_limit_unmatched("/v1/management/{*path}", RateLimitClass::Management)
}

#[derive(Serialize)]
struct WorkspaceBody {
    workspace_id: String,
    name: String,
    data_residency: &'static str,
    created_at: String,
    updated_at: String,
}

impl From<&Workspace> for WorkspaceBody {
    fn from(workspace: &Workspace) -> Self {
        WorkspaceBody {
            workspace_id: workspace.id.to_string(),
            name: workspace.name.to_string(),
            data_residency: workspace.data_residency.into_str(),
            created_at: timestamp::format(workspace.created_at),
            updated_at: timestamp::format(workspace.updated_at),
        }
    }
}

/// `GET /v1/management/workspaces`: always one item, as a credential belongs to one workspace.
async fn list_workspaces(
    State(app): State<App>,
    caller: Caller<Management>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let request = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let manager = caller.management_actor();
    let workspace = app.engine.management.workspace(&manager, manager.workspace).await?;
    let items = if request.offset() == 0 { vec![workspace] } else { vec![] };
    let page = Page { items, request, total_items: 1 };
    Ok(json_response(StatusCode::OK, &PageBody::new(page, |workspace| WorkspaceBody::from(&workspace))))
}

/// `GET /v1/management/workspaces/{workspace_id}`
async fn get_workspace(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
) -> Result<Response, Problem> {
    let workspace = app.engine.management.workspace(&caller.management_actor(), ids.workspace_id()?).await?;
    Ok(json_with_etag(&WorkspaceBody::from(&workspace)))
}

/// `PATCH /v1/management/workspaces/{workspace_id}`
async fn patch_workspace(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    request: Request,
) -> Result<Response, Problem> {
    let id = ids.workspace_id()?;
    let manager = caller.management_actor();
    app.engine.management.authorize(&manager, CredentialOwner::Workspace(id)).await?;
    let if_match = IfMatch::from_headers(request.headers());
    let mut body = Object::parse(&read_json_bytes(&app, request).await?)?;
    let name: Option<Name> = body.take_non_null("name", as_parsed)?;
    let name = match body.finish(name)? {
        Some(name) => name,
        None => app.engine.management.workspace(&manager, id).await?.name,
    };
    let condition = |current: &Workspace| if_match.matches(&WorkspaceBody::from(current));
    let workspace = app.engine.management.rename_workspace(&manager, id, name, &condition).await?;
    Ok(json_with_etag(&WorkspaceBody::from(&workspace)))
}

#[derive(Serialize)]
struct NetworkBody {
    network_id: String,
    network_name: String,
    network_aliases: Vec<String>,
    country_code: String,
    dialing_code: String,
    products: Vec<&'static str>,
}

/// `GET /v1/management/networks`
async fn list_networks(
    State(app): State<App>,
    _: Caller<Management>,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["size", "page", "country_code"])?;
    let page = app.engine.networks().list_networks(query.get_parsed("country_code")?, query.page_request()?);
    let body = PageBody::new(page, |(network, products)| NetworkBody {
        network_id: network.id.to_string(),
        network_name: network.name.clone(),
        network_aliases: network.aliases.clone(),
        country_code: network.country.clone(),
        dialing_code: network.dialing_code.clone(),
        products: products.iter().map(Product::into_str).collect(),
    });
    Ok(json_response(StatusCode::OK, &body))
}

#[derive(Serialize)]
struct UsageBody {
    from: String,
    to: String,
    group_by: &'static str,
    content: Vec<UsageRowBody>,
}

#[derive(Serialize)]
struct UsageRowBody {
    period_start: String,
    project_id: String,
    product: &'static str,
    status: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    r#match: Option<bool>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    via: Option<&'static str>,
    count: i64,
}

impl From<UsageReport> for UsageBody {
    fn from(report: UsageReport) -> Self {
        UsageBody {
            from: timestamp::format(report.from),
            to: timestamp::format(report.to),
            group_by: match report.period {
                UsagePeriod::Hour => "hour",
                UsagePeriod::Day => "day",
                UsagePeriod::Month => "month",
            },
            content: report.rows.into_iter().map(UsageRowBody::from).collect(),
        }
    }
}

impl From<UsageRow> for UsageRowBody {
    fn from(row: UsageRow) -> Self {
        UsageRowBody {
            period_start: timestamp::format(row.period_start),
            project_id: row.project.to_string(),
            product: row.product.into_str(),
            status: row.status.into_str(),
            r#match: row.matched,
            network_id: row.network.map(|network| network.to_string()),
            via: row.via.map(|way| way.into_str()),
            count: row.count,
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/usage`
async fn usage(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["from", "to", "group_by", "project_id"])?;
    let period = match query.get("group_by") {
        Some("hour") => UsagePeriod::Hour,
        Some("day") | None => UsagePeriod::Day,
        Some("month") => UsagePeriod::Month,
        Some(_) => return Err(Problem::bad_request("`group_by` must be `hour`, `day` or `month`")),
    };
    let request = UsageRequest {
        from: query.get_timestamp("from")?,
        to: query.get_timestamp("to")?,
        period,
        project: query.get_parsed("project_id")?,
    };
    let report = app.engine.management.usage_report(&caller.management_actor(), ids.workspace_id()?, request).await?;
    Ok(json_response(StatusCode::OK, &UsageBody::from(report)))
}

#[derive(Serialize)]
struct AuditEventBody {
    event_id: String,
    at: String,
    actor: ActorBody,
    action: &'static str,
    target: TargetBody,
    changes: Vec<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    request_id: Option<String>,
}

#[derive(Serialize)]
struct ActorBody {
    r#type: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    id: Option<String>,
}

#[derive(Serialize)]
struct TargetBody {
    r#type: &'static str,
    id: String,
}

impl From<AuditEvent> for AuditEventBody {
    fn from(event: AuditEvent) -> Self {
        let actor = match event.actor {
            Actor::Credential(client_id) => ActorBody { r#type: "credential", id: Some(client_id.to_string()) },
            Actor::Account(account) => ActorBody { r#type: "account", id: Some(account.to_string()) },
            Actor::Operator => ActorBody { r#type: "operator", id: None },
            Actor::System => ActorBody { r#type: "system", id: None },
        };
        AuditEventBody {
            event_id: event.id.to_string(),
            at: timestamp::format(event.at),
            actor,
            action: event.action.into_str(),
            target: TargetBody { r#type: event.action.target_type(), id: event.target },
            changes: event.changes,
            request_id: event.request_id,
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/audit-events`
async fn audit_events(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let page = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let page = app
        .engine
        .management
        .list_audit_events(&caller.management_actor(), ids.workspace_id()?, &AuditFilter::ANY, page)
        .await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, AuditEventBody::from)))
}
