//! Stores the request log.

use async_trait::async_trait;
use jiff::Timestamp;
use ringtrue_domain::{
    lifecycle::CheckId,
    page::{Page, PageRequest},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{
    request_log::{Rejection, RequestLogEntry, RequestLogFilter, RequestLogLimits, RequestLogStore, StatusClass},
    store::StoreError,
};

use super::{PagedQuery, SqlStore, placeholders};
use crate::{
    driver::{Database, TransactionEnd, work},
    row::{Row, Value, values},
};

macro_rules! columns {
    () => {
        "id, project_id, at, request_id, method, route, check_id, status, error_code, detail, client_id, \
         authenticated, micros, query, body, skipped"
    };
}
const COLUMN_COUNT: usize = 16;
/// Maximum number of rows in an insert. Both databases limit the number of parameters of a statement.
const ROWS_PER_STATEMENT: usize = 1_000;

#[async_trait]
impl<D: Database> RequestLogStore for SqlStore<D> {
    async fn append_requests(&self, requests: Vec<RequestLogEntry>) -> Result<(), StoreError> {
        self.transact(work!(|tx| {
            for rows in requests.chunks(ROWS_PER_STATEMENT) {
                let row_placeholders = |row: usize| format!("({})", placeholders(row * COLUMN_COUNT + 1, COLUMN_COUNT));
                let row_placeholders: Vec<_> = (0..rows.len()).map(row_placeholders).collect();
                let sql =
                    format!(concat!("insert into requests (", columns!(), ") values {}"), row_placeholders.join(", "));
                let values: Vec<Value> = rows.iter().flat_map(to_columns).collect();
                tx.query(sql.into(), &values).await?;
            }
            Ok(TransactionEnd::Commit(()))
        }))
        .await
    }

    async fn list_requests(
        &self,
        project: ProjectId,
        filter: &RequestLogFilter,
        page: PageRequest,
    ) -> Result<Page<RequestLogEntry>, StoreError> {
        let mut values = values![project].to_vec();
        let mut condition = "project_id = $1".to_owned();
        let mut add_condition = |column: &str, operator: &str, value: Value| {
            values.push(value);
            condition = format!("{condition} and {column} {operator} ${}", values.len());
        };
        if let Some(range) = filter.class.map(StatusClass::range) {
            add_condition("status", ">=", i64::from(*range.start()).into());
            add_condition("status", "<=", i64::from(*range.end()).into());
        }
        if let Some(code) = &filter.error_code {
            add_condition("error_code", "=", code.as_str().into());
        }
        if let Some(id) = &filter.request_id {
            add_condition("request_id", "=", id.as_str().into());
        }
        if let Some(route) = &filter.route {
            add_condition("route", "=", route.as_str().into());
        }
        if let Some(client) = &filter.client {
            add_condition("client_id", "=", client.as_str().into());
        }
        let from = format!("requests where {condition}").into();
        let list = PagedQuery { columns: columns!(), from, values, order: "id desc", page };
        self.read_page(project, list, request_from_row).await
    }

    async fn trim_requests(&self, project: ProjectId, kept: RequestLogLimits) -> Result<u64, StoreError> {
        self.transact(work!(|tx| {
            let mut deleted = 0;
            for (authenticated, most) in [(true, kept.authenticated), (false, kept.unauthenticated)] {
                let delete = "delete from requests where project_id = $1 and authenticated = $2 and id <=
                                (select id from requests where project_id = $1 and authenticated = $2
                                  order by id desc limit 1 offset $3)
                              returning 1";
                let rows = tx.run(delete, values![project, authenticated, i64::from(most)]).await?;
                deleted += rows.len() as u64;
            }
            Ok(TransactionEnd::Commit(deleted))
        }))
        .await
    }

    async fn delete_requests_before(&self, before: Timestamp) -> Result<u64, StoreError> {
        let delete = "delete from requests where (project_id, id) in
                        (select project_id, id from requests where at < $1 order by at limit 1000)
                      returning 1";
        Ok(self.execute(delete, values![before]).await?.len() as u64)
    }
}

fn to_columns(request: &RequestLogEntry) -> [Value; COLUMN_COUNT] {
    let rejection = request.rejection.as_ref();
    [
        request.id.into(),
        request.project.into(),
        request.at.into(),
        request.request_id.as_str().into(),
        request.method.as_str().into(),
        request.route.as_str().into(),
        request.check.into(),
        i64::from(request.status).into(),
        rejection.map(|rejection| rejection.error_code.as_str()).into(),
        rejection.map(|rejection| rejection.detail.as_str()).into(),
        request.client.as_str().into(),
        request.authenticated.into(),
        i64::try_from(request.duration_micros).unwrap_or(i64::MAX).into(),
        request.query.as_deref().into(),
        request.body.as_deref().into(),
        i64::from(request.skipped).into(),
    ]
}

fn request_from_row(row: Row) -> Result<RequestLogEntry, StoreError> {
    let mut row = row.reader("requests");
    let (id, project) = (row.uuid("id")?, ProjectId(row.uuid("project_id")?));
    let (at, request_id) = (row.instant("at")?, row.text("request_id")?);
    let (method, route) = (row.text("method")?, row.text("route")?);
    let check = row.uuid_or_null("check_id")?.map(CheckId);
    let status = row.int("status")?;
    let status = u16::try_from(status).map_err(|problem| row.corrupt("status", problem))?;
    let rejection = match (row.text_or_null("error_code")?, row.text_or_null("detail")?) {
        (Some(error_code), Some(detail)) => Some(Rejection { error_code, detail }),
        _ => None,
    };
    let (client, authenticated) = (row.parsed("client_id")?, row.boolean("authenticated")?);
    let duration_micros = row.int("micros")?.unsigned_abs();
    let (query, body) = (row.text_or_null("query")?, row.text_or_null("body")?);
    let skipped = u32::try_from(row.int("skipped")?).unwrap_or(u32::MAX);
    Ok(RequestLogEntry {
        id,
        project,
        at,
        request_id,
        method,
        route,
        check,
        status,
        rejection,
        client,
        authenticated,
        duration_micros,
        query,
        body,
        skipped,
    })
}
