//! Usage report and audit log of a workspace.

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    audit::AuditEvent,
    page::{Page, PageRequest},
    tenancy::{ProjectId, WorkspaceId},
};

use super::{ManagementActor, ManagementError};
use crate::{
    Engine,
    ports::{AuditFilter, UsageFilter, UsageGrouping, UsageRow},
};

#[derive(Clone, Copy, Debug)]
pub struct UsageRequest {
    pub from: Option<Timestamp>,
    pub to: Option<Timestamp>,
    pub grouping: UsageGrouping,
    pub project: Option<ProjectId>,
}

#[derive(Clone, Debug)]
pub struct UsageReport {
    pub from: Timestamp,
    pub to: Timestamp,
    pub grouping: UsageGrouping,
    pub rows: Vec<UsageRow>,
}

/// Default and maximum time range of a usage report. The maximum bounds the cost of the query.
fn time_ranges(grouping: UsageGrouping) -> (SignedDuration, SignedDuration) {
    let days = |n: i64| SignedDuration::from_hours(24 * n);
    match grouping {
        UsageGrouping::Hour => (days(1), days(31)),
        UsageGrouping::Day => (days(30), days(366)),
        UsageGrouping::Month => (days(365), days(3660)),
    }
}

impl Engine {
    pub async fn usage_report(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        request: UsageRequest,
    ) -> Result<UsageReport, ManagementError> {
        let (default, max) = time_ranges(request.grouping);
        let to = request.to.unwrap_or_else(|| self.clock().now());
        let from = match request.from {
            Some(from) => from,
            None => to.checked_sub(default).unwrap_or(Timestamp::MIN),
        };
        let invalid = |problem: String| ManagementError::InvalidMember { member: "from", problem };
        if from >= to {
            return Err(invalid("`from` must be before `to`".to_owned()));
        }
        if from.duration_until(to) > max {
            let days = max.as_hours() / 24;
            return Err(invalid(format!("`from` and `to` must be at most {days} days apart with this `group_by`")));
        }
        match request.project {
            Some(project) => self.project(manager, workspace, project).await.map(|_| ())?,
            None => self.authorize_workspace(manager, workspace).await?,
        }
        let filter = UsageFilter { from, to, grouping: request.grouping, project: request.project };
        let rows = self.store().usage(workspace, filter).await?;
        Ok(UsageReport { from, to, grouping: request.grouping, rows })
    }

    pub async fn list_audit_events(
        &self,
        manager: &ManagementActor,
        workspace: WorkspaceId,
        filter: &AuditFilter,
        page: PageRequest,
    ) -> Result<Page<AuditEvent>, ManagementError> {
        self.authorize_workspace(manager, workspace).await?;
        Ok(self.store().list_audit_events(workspace, filter, page).await?)
    }
}
