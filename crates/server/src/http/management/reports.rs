//! Usage counters and the audit log.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::audit::{Actor, AuditEvent};
use ringtrue_engine::{
    management::{UsageReport, UsageRequest},
    ports::{AuditFilter, UsageGrouping, UsageRow},
};
use serde::Serialize;

use crate::http::{
    App,
    caller::{Caller, scope::Management},
    json_response,
    path::PathParameters,
    problem::Problem,
    query::{PageBody, Query},
    time,
};

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
    count: i64,
}

impl From<UsageReport> for UsageBody {
    fn from(report: UsageReport) -> Self {
        UsageBody {
            from: time::format(report.from),
            to: time::format(report.to),
            group_by: match report.grouping {
                UsageGrouping::Hour => "hour",
                UsageGrouping::Day => "day",
                UsageGrouping::Month => "month",
            },
            content: report.rows.into_iter().map(UsageRowBody::from).collect(),
        }
    }
}

impl From<UsageRow> for UsageRowBody {
    fn from(row: UsageRow) -> Self {
        UsageRowBody {
            period_start: time::format(row.period_start),
            project_id: row.project.to_string(),
            product: row.product.as_str(),
            status: row.status.as_str(),
            r#match: row.matched,
            network_id: row.network.map(|network| network.to_string()),
            count: row.count,
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/usage`
pub async fn usage(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let query = Query::parse(query.as_deref(), &["from", "to", "group_by", "project_id"])?;
    let grouping = match query.get("group_by") {
        Some("hour") => UsageGrouping::Hour,
        Some("day") | None => UsageGrouping::Day,
        Some("month") => UsageGrouping::Month,
        Some(_) => return Err(Problem::bad_request("`group_by` must be `hour`, `day` or `month`")),
    };
    let request = UsageRequest {
        from: query.get_timestamp("from")?,
        to: query.get_timestamp("to")?,
        grouping,
        project: query.get_parsed("project_id")?,
    };
    let report = app.engine.usage_report(&caller.manager(), ids.workspace()?, request).await?;
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
            at: time::format(event.at),
            actor,
            action: event.action.as_str(),
            target: TargetBody { r#type: event.action.target_type(), id: event.target },
            changes: event.changes,
            request_id: event.request_id,
        }
    }
}

/// `GET /v1/management/workspaces/{workspace_id}/audit-events`
pub async fn audit_events(
    State(app): State<App>,
    caller: Caller<Management>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    let page = Query::parse(query.as_deref(), &["size", "page"])?.page_request()?;
    let page = app.engine.list_audit_events(&caller.manager(), ids.workspace()?, &AuditFilter::ANY, page).await?;
    Ok(json_response(StatusCode::OK, &PageBody::new(page, AuditEventBody::from)))
}
