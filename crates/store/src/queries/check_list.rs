//! Lists checks page by page, newest first.
//!
//! Hourly and daily counters hold the number of checks by status, verdict and network. If a filter uses only these
//! fields and `created_at`, the counters give the total, and tell which hours the page covers. Only the checks of these
//! hours are read, beginning at the nearer end, so a page deep in the list costs about as much as the first. Any other
//! filter is tested on every check of its time span, in one pass: first the checks before the page, then those of the
//! page, then the rest for the total.
//!
//! A list has a budget of rows and comparisons. A query over the budget is a search, which has its own rate limit (see
//! `CheckStore::list_checks`).
//!
//! Check ids begin with the creation time. A span of time is therefore a range of ids, and lists are sorted by id.
//!
//! Counters are kept longer than checks. A list therefore starts at the retention boundary, which it reads from
//! `check_retention` in the same transaction. It shows and counts exactly the checks that are retained.

use std::collections::VecDeque;

use ringtrue_domain::{
    lifecycle::AnyCheck,
    page::{Page, PageRequest},
    product::Product,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{checks::CheckQuery, store::StoreError};
use uuid::Uuid;

use crate::{
    check_row_mapping::{self, check_columns},
    driver::{Sql, Tx},
    filter::{self, SpanFilter},
    row::{Value, values},
    time_span::{DAY_MILLIS, HOUR_MILLIS, Span},
};

/// Budget of a list: each tested row costs one, plus one for each comparison in the filter. Spending the whole budget
/// takes about two milliseconds.
const LIST_BUDGET: u64 = 8_000;

/// Maximum SQL `offset` of a page. To skip more checks, the id of the page's first check is looked up first, because an
/// index finds this id without reading the skipped checks.
const MAX_SQL_OFFSET: u64 = 200;

/// A span of time with the number of its checks that match the filter.
#[derive(Clone, Copy, Debug)]
struct CountedSpan {
    span: Span,
    count: u64,
}

/// Selects the checks of a project and product in a half-open range of ids.
const ID_RANGE_CONDITION: &str = "project_id = $1 and product = $2 and id >= $3 and id < $4";

#[derive(Debug)]
pub(super) struct CheckList {
    project: ProjectId,
    product: Product,
    filter: SpanFilter,
    page: PageRequest,
    min_id_sql: &'static str,
}

/// Remaining budget of a list. `None`: unlimited, for searches.
type Budget = Option<u64>;

impl CheckList {
    pub(super) fn new(query: CheckQuery, min_id_sql: &'static str) -> Self {
        let CheckQuery { workspace: _, project, product, filter, created_after, page } = query;
        let mut filter = SpanFilter::split(filter);
        if let Some(after) = created_after {
            filter.span = filter.span.intersect(Span::since(after.as_millisecond() + 1));
        }
        CheckList { project, product, filter, page, min_id_sql }
    }

    /// Reads a page. `None`: the query exceeds the budget of a list.
    pub(super) async fn read_within_budget(&self, tx: &mut dyn Tx) -> Result<Option<Page<AnyCheck>>, StoreError> {
        self.read_page(tx, &mut Some(LIST_BUDGET)).await
    }

    pub(super) async fn read(&self, tx: &mut dyn Tx) -> Result<Page<AnyCheck>, StoreError> {
        let page = self.read_page(tx, &mut None).await?;
        page.ok_or_else(|| StoreError::Refused("a search without a budget exceeded its budget".to_owned()))
    }

    async fn read_page(&self, tx: &mut dyn Tx, budget: &mut Budget) -> Result<Option<Page<AnyCheck>>, StoreError> {
        let deleted_before = tx.number("select deleted_before from check_retention where id = 1", &[]).await?;
        let span = self.filter.span.intersect(Span::since(deleted_before));
        if self.filter.is_covered_by_counters(self.product) {
            return self.read_by_counters(tx, span, budget).await;
        }
        if !self.spend_budget(tx, budget, span).await? {
            return Ok(None);
        }
        self.scan(tx, span).await.map(Some)
    }

    async fn read_by_counters(
        &self,
        tx: &mut dyn Tx,
        span: Span,
        budget: &mut Budget,
    ) -> Result<Option<Page<AnyCheck>>, StoreError> {
        let page = self.page;
        // The parts are newest first: a partial hour, whole hours, whole days, whole hours, a partial hour.
        let (mut counted_spans, mut total) = (VecDeque::new(), 0);
        for part in span.parts() {
            if !part.is_whole_hours && !self.spend_budget(tx, budget, part.span).await? {
                return Ok(None);
            }
            let counted = if part.is_whole_hours {
                self.count_periods(tx, part.span).await?
            } else {
                self.count_rows(tx, part.span).await?
            };
            total += counted.iter().map(|counted_span| counted_span.count).sum::<u64>();
            counted_spans.extend(counted);
        }
        let (mut items, mut skip, size) = (Vec::new(), page.offset(), page.size() as usize);
        while let Some(counted_span) = counted_spans.pop_front() {
            if counted_span.count <= skip {
                skip -= counted_span.count;
            } else if counted_span.span.millis() > HOUR_MILLIS {
                for hour in self.count_hours(tx, counted_span.span).await?.into_iter().rev() {
                    counted_spans.push_front(hour);
                }
            } else {
                let is_filtered = self.filter.remainder.is_some();
                if is_filtered && !self.spend_budget(tx, budget, counted_span.span).await? {
                    return Ok(None);
                }
                items.extend(self.read_counted_span(tx, counted_span, skip, size - items.len()).await?);
                skip = 0;
            }
            if items.len() >= size {
                break;
            }
        }
        Ok(Some(Page { items, request: page, total_items: total }))
    }

    /// Lets the connection keep the prepared statement, unless the statement contains a filter: there are too many
    /// different filters.
    fn statement(&self, sql: String) -> Sql {
        if self.filter.remainder.is_none() { Sql::Cached(sql.into()) } else { Sql::Composed(sql) }
    }

    /// Reads a page, and the total, by testing every check of the span once. Each statement continues where the
    /// previous one ended.
    async fn scan(&self, tx: &mut dyn Tx, span: Span) -> Result<Page<AnyCheck>, StoreError> {
        let page = self.page;
        let (first, mut end) = (span.first_id(), span.end_id());
        let done = |items, total_items| Ok(Page { items, request: page, total_items });
        if page.offset() > 0 {
            let (condition, mut values) = self.id_range_condition(first, end)?;
            values.push(Value::Int(i64::try_from(page.offset()).unwrap_or(i64::MAX)));
            let sql = format!(
                "select count(*), {} from
                   (select id from checks where {condition} order by id desc limit ${}) as skipped",
                self.min_id_sql,
                values.len()
            );
            let row = tx.query(sql.into(), &values).await?.into_iter().next();
            let Some(mut row) = row.map(|row| row.reader("checks")) else { return done(Vec::new(), 0) };
            let skipped = row.int("count")?.unsigned_abs();
            if skipped < page.offset() {
                return done(Vec::new(), skipped);
            }
            end = row.uuid("id")?;
        }
        let (condition, mut values) = self.id_range_condition(first, end)?;
        values.push(Value::Int(i64::from(page.size())));
        let sql = format!(
            concat!("select ", check_columns!(), " from checks where {} order by id desc limit ${}"),
            condition,
            values.len()
        );
        let rows = tx.query(sql.into(), &values).await?;
        let items = rows.into_iter().map(check_row_mapping::check_from_row).collect::<Result<Vec<_>, _>>()?;
        let until_page = page.offset() + items.len() as u64;
        match items.last() {
            Some(last) if items.len() == page.size() as usize => {
                let rest = self.count_id_range(tx, first, last.id.0).await?;
                done(items, until_page + rest)
            }
            _ => done(items, until_page),
        }
    }

    /// Deducts the cost of testing the checks of a span from the budget. `false`: the budget does not suffice.
    async fn spend_budget(&self, tx: &mut dyn Tx, budget: &mut Budget, span: Span) -> Result<bool, StoreError> {
        let Some(remaining) = budget else { return Ok(true) };
        let row_cost = 1 + self.filter.comparison_count();
        let max_rows = *remaining / row_cost;
        let mut values = values![self.project, self.product.into_str(), span.first_id(), span.end_id()].to_vec();
        let mut condition = ID_RANGE_CONDITION.to_owned();
        // A filter on a reference uses the index on references, which skips all other checks.
        if let Some(reference) = self.filter.reference_condition() {
            condition = format!("{condition} and {}", filter::compile(reference, check_column, &mut values)?);
        }
        values.push(Value::Int(i64::try_from(max_rows).unwrap_or(i64::MAX).saturating_add(1)));
        let sql =
            format!("select count(*) from (select 1 from checks where {condition} limit ${}) as tested", values.len());
        let rows = tx.number(sql, &values).await?.unsigned_abs();
        *remaining -= rows.min(max_rows) * row_cost;
        Ok(rows <= max_rows)
    }

    fn span_condition(&self, span: Span) -> Result<(String, Vec<Value>), StoreError> {
        self.id_range_condition(span.first_id(), span.end_id())
    }

    /// Returns the condition for the filter and a half-open range of ids.
    fn id_range_condition(&self, first: Uuid, end: Uuid) -> Result<(String, Vec<Value>), StoreError> {
        let mut values = values![self.project, self.product.into_str(), first, end].to_vec();
        let mut condition = ID_RANGE_CONDITION.to_owned();
        if let Some(remainder) = &self.filter.remainder {
            let remainder = filter::compile(remainder, check_column, &mut values)?;
            condition = format!("{condition} and ({remainder})");
        }
        Ok((condition, values))
    }

    /// Counts the matching checks of a partial hour, which has no counters.
    async fn count_rows(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<CountedSpan>, StoreError> {
        let count = self.count_id_range(tx, span.first_id(), span.end_id()).await?;
        Ok(if count == 0 { Vec::new() } else { vec![CountedSpan { span, count }] })
    }

    async fn count_id_range(&self, tx: &mut dyn Tx, first: Uuid, end: Uuid) -> Result<u64, StoreError> {
        let (condition, values) = self.id_range_condition(first, end)?;
        let sql = self.statement(format!("select count(*) from checks where {condition}"));
        Ok(tx.number(sql, &values).await?.unsigned_abs())
    }

    /// Counts the matching checks by day or hour, from the counters. Returns non-empty periods only, newest first.
    async fn count_periods(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<CountedSpan>, StoreError> {
        if span.is_whole_days() {
            self.read_counters(tx, span, DAY_MILLIS).await
        } else {
            self.count_hours(tx, span).await
        }
    }

    async fn count_hours(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<CountedSpan>, StoreError> {
        self.read_counters(tx, span, HOUR_MILLIS).await
    }

    async fn read_counters(&self, tx: &mut dyn Tx, span: Span, length: i64) -> Result<Vec<CountedSpan>, StoreError> {
        let (table, period) = if length == DAY_MILLIS { ("usage_days", "day") } else { ("usage_counters", "hour") };
        let (from, to) = (span.start_period_name(length), span.end_period_name(length));
        let mut values = values![self.project, self.product.into_str(), from, to].to_vec();
        let mut condition = String::new();
        if let Some(remainder) = &self.filter.remainder {
            condition = format!("and ({})", filter::compile(remainder, counter_column, &mut values)?);
        }
        let sql = format!(
            "select {period}, cast(sum(count) as bigint) from {table}
              where project_id = $1 and product = $2 and {period} >= $3 and {period} < $4 {condition}
              group by {period} having sum(count) > 0 order by {period} desc"
        );
        let rows = tx.query(self.statement(sql), &values).await?;
        rows.into_iter()
            .map(|row| {
                let mut row = row.reader("usage_counters");
                let start = row.text(period)?;
                let span = Span::parse_period(&start).ok_or_else(|| row.corrupt(period, "not a period"))?;
                Ok(CountedSpan { span, count: row.int("count")?.unsigned_abs() })
            })
            .collect()
    }

    /// Reads up to `limit` checks of a span, after skipping its newest `skip` checks.
    async fn read_counted_span(
        &self,
        tx: &mut dyn Tx,
        counted_span: CountedSpan,
        skip: u64,
        limit: usize,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        let (condition, mut values) = self.span_condition(counted_span.span)?;
        let mut offset = skip;
        if skip > MAX_SQL_OFFSET {
            let Some(first) = self.nth_id(tx, counted_span, skip).await? else { return Ok(Vec::new()) };
            // The upper bound of the id range is exclusive, and the page includes `first`.
            values[3] = Value::Uuid(Uuid::from_u128(first.as_u128().saturating_add(1)));
            offset = 0;
        }
        values.extend([limit as u64, offset].map(|rows| Value::Int(i64::try_from(rows).unwrap_or(i64::MAX))));
        let sql = format!(
            concat!("select ", check_columns!(), " from checks where {} order by id desc limit ${} offset ${}"),
            condition,
            values.len() - 1,
            values.len()
        );
        let rows = tx.query(self.statement(sql), &values).await?;
        rows.into_iter().map(check_row_mapping::check_from_row).collect()
    }

    /// Returns the id of the check that follows the newest `skip` checks of a span. Counts from the nearer end of the
    /// span.
    async fn nth_id(&self, tx: &mut dyn Tx, counted_span: CountedSpan, skip: u64) -> Result<Option<Uuid>, StoreError> {
        let (condition, mut values) = self.span_condition(counted_span.span)?;
        let from_oldest = counted_span.count - 1 - skip;
        let (order, offset) = if skip <= from_oldest { ("desc", skip) } else { ("asc", from_oldest) };
        values.push(Value::Int(i64::try_from(offset).unwrap_or(i64::MAX)));
        let sql =
            format!("select id from checks where {condition} order by id {order} limit 1 offset ${}", values.len());
        let row = tx.query(self.statement(sql), &values).await?.into_iter().next();
        row.map(|row| row.reader("checks").uuid("id")).transpose()
    }
}

fn check_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "status" => "status",
        "verified" => "matched",
        // For SIM Swap this is the verdict, for verifications a field besides the verdict.
        "no_sim_change" => "(case when product = 'sim_swap' then matched else no_sim_change end)",
        "method" => "method",
        "network_id" => "network_id",
        // As in the API: expired checks have the error code `check_expired`, except Reverse SMS checks, which have
        // none.
        "error_code" => {
            "(case when status = 'EXPIRED' and product <> 'reverse_sms' then 'check_expired' else error_code end)"
        }
        "reference_id" => "reference_id",
        "created_at" => "created_at",
        "updated_at" => "coalesce(concluded_at, pending_at)",
        _ => return None,
    })
}

/// Returns the column or expression of the counter tables for a filter field. `None`: the counters do not have the
/// field.
fn counter_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "status" => "status",
        "verified" | "no_sim_change" => "(case matched when 1 then true when 0 then false end)",
        "network_id" => "nullif(network_id, '')",
        _ => return None,
    })
}
