//! Pages of checks, newest first.
//!
//! The hourly and daily counters know how many checks there are of each status, verdict and network. A filter that asks
//! for nothing else, within bounds of time, is answered from them: they give the total, and the hours that the page lies
//! in. Only these hours are read, and the counters say which of their ends is nearer, so a page deep in the list costs
//! about as much as the first. Any other filter is tested on every check of its span, in one pass: first the checks that
//! the page skips, then those of the page, then the rest of the total.
//!
//! Reading rows for a filter costs time that others would wait for. A list has a small budget of it, and whatever exceeds
//! the budget is a search, which is limited (see `CheckStore::list_checks`).
//!
//! Ids begin with the instant of creation: a span of time is a range of ids, and the order of ids is that of the list.

use std::collections::VecDeque;

use ringtrue_domain::{
    lifecycle::AnyCheck,
    page::{Page, PageRequest},
    product::Product,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::{CheckQuery, StoreError};
use uuid::Uuid;

use crate::{
    check_rows::{self, check_columns},
    driver::{Tx, Value, values},
    filter,
    period::{DAY, HOUR, Span},
    row::Row,
    span_filter::SpanFilter,
};

/// Comparisons that a list may make, one for each row that it reads included: about two milliseconds.
const LIST_BUDGET: u64 = 8_000;

/// A span of time, and how many checks in it the filter finds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    span: Span,
    count: u64,
}

/// Checks of a project and product from one id until before another.
const BETWEEN: &str = "project_id = $1 and product = $2 and id >= $3 and id < $4";

#[derive(Debug)]
pub(super) struct CheckList {
    project: ProjectId,
    product: Product,
    filter: SpanFilter,
    page: PageRequest,
    /// See `Database::MIN_ID`.
    min_id: &'static str,
}

/// Comparisons that may still be made. `None`: any number.
type Budget = Option<u64>;

impl CheckList {
    pub(super) fn new(query: CheckQuery, min_id: &'static str) -> Self {
        let CheckQuery { workspace: _, project, product, filter, created_after, page } = query;
        let mut filter = SpanFilter::of(filter);
        if let Some(after) = created_after {
            filter.span = filter.span.and(Span::since(after.as_millisecond() + 1));
        }
        CheckList { project, product, filter, page, min_id }
    }

    /// `None`: that would read too many rows for a list.
    pub(super) async fn read_within_budget(&self, tx: &mut dyn Tx) -> Result<Option<Page<AnyCheck>>, StoreError> {
        self.read_page(tx, &mut Some(LIST_BUDGET)).await
    }

    pub(super) async fn read(&self, tx: &mut dyn Tx) -> Result<Page<AnyCheck>, StoreError> {
        let page = self.read_page(tx, &mut None).await?;
        page.ok_or_else(|| StoreError::Refused("a search without a budget exceeded it".to_owned()))
    }

    async fn read_page(&self, tx: &mut dyn Tx, budget: &mut Budget) -> Result<Option<Page<AnyCheck>>, StoreError> {
        if self.filter.is_counted() {
            return self.read_counted(tx, budget).await;
        }
        if !self.spend(tx, budget, self.filter.span).await? {
            return Ok(None);
        }
        self.scan(tx).await.map(Some)
    }

    async fn read_counted(&self, tx: &mut dyn Tx, budget: &mut Budget) -> Result<Option<Page<AnyCheck>>, StoreError> {
        let page = self.page;
        // The newest first: part of an hour, hours, days, hours, part of an hour.
        let (mut segments, mut total) = (VecDeque::new(), 0);
        for part in self.filter.span.parts() {
            if !part.is_whole && !self.spend(tx, budget, part.span).await? {
                return Ok(None);
            }
            let counted =
                if part.is_whole { self.counted(tx, part.span).await? } else { self.count(tx, part.span).await? };
            total += counted.iter().map(|segment| segment.count).sum::<u64>();
            segments.extend(counted);
        }
        let (mut items, mut skip, size) = (Vec::new(), page.offset(), page.size() as usize);
        while let Some(segment) = segments.pop_front() {
            if segment.count <= skip {
                skip -= segment.count;
            } else if segment.span.millis() > HOUR {
                for hour in self.hours(tx, segment.span).await?.into_iter().rev() {
                    segments.push_front(hour);
                }
            } else {
                let is_filtered = self.filter.rest.is_some();
                if is_filtered && !self.spend(tx, budget, segment.span).await? {
                    return Ok(None);
                }
                items.extend(self.rows(tx, segment, skip, size - items.len()).await?);
                skip = 0;
            }
            if items.len() >= size {
                break;
            }
        }
        Ok(Some(Page { items, request: page, total_items: total }))
    }

    /// Tests every check of the span once: each statement continues where the one before it ended.
    async fn scan(&self, tx: &mut dyn Tx) -> Result<Page<AnyCheck>, StoreError> {
        let page = self.page;
        let (first, mut end) = (self.filter.span.first_id(), self.filter.span.end_id());
        let done = |items, total_items| Ok(Page { items, request: page, total_items });
        if page.offset() > 0 {
            let (condition, mut values) = self.between(first, end)?;
            values.push(Value::Int(i64::try_from(page.offset()).unwrap_or(i64::MAX)));
            let sql = format!(
                "select count(*), {} from
                   (select id from checks where {condition} order by id desc limit ${}) as skipped",
                self.min_id,
                values.len()
            );
            let row = tx.query(sql.into(), &values).await?.into_iter().next();
            let Some(mut row) = row.map(|row| row.of("checks")) else { return done(Vec::new(), 0) };
            let skipped = row.int("count")?.unsigned_abs();
            if skipped < page.offset() {
                return done(Vec::new(), skipped);
            }
            end = row.uuid("id")?;
        }
        let (condition, mut values) = self.between(first, end)?;
        values.push(Value::Int(i64::from(page.size())));
        let sql = format!(
            concat!("select ", check_columns!(), " from checks where {} order by id desc limit ${}"),
            condition,
            values.len()
        );
        let rows = tx.query(sql.into(), &values).await?;
        let items = rows.into_iter().map(check_rows::check).collect::<Result<Vec<_>, _>>()?;
        let until_page = page.offset() + items.len() as u64;
        match items.last() {
            Some(last) if items.len() == page.size() as usize => {
                let rest = self.count_between(tx, first, last.id.0).await?;
                done(items, until_page + rest)
            }
            _ => done(items, until_page),
        }
    }

    /// Whether the budget allows to test the checks of a span, which it then pays for.
    async fn spend(&self, tx: &mut dyn Tx, budget: &mut Budget, span: Span) -> Result<bool, StoreError> {
        let Some(left) = budget else { return Ok(true) };
        let row_cost = 1 + self.filter.comparisons();
        let most = *left / row_cost;
        let mut values = values![self.project, self.product.as_str(), span.first_id(), span.end_id()].to_vec();
        let mut condition = BETWEEN.to_owned();
        // There is an index on references: checks with others are not read.
        if let Some(reference) = self.filter.reference() {
            condition = format!("{condition} and {}", filter::compile(reference, column, &mut values)?);
        }
        values.push(Value::Int(i64::try_from(most).unwrap_or(i64::MAX).saturating_add(1)));
        let sql =
            format!("select count(*) from (select 1 from checks where {condition} limit ${}) as tested", values.len());
        let rows = tx.query(sql.into(), &values).await?;
        let rows = rows.into_iter().next().map_or(Ok(0), Row::number)?.unsigned_abs();
        *left -= rows.min(most) * row_cost;
        Ok(rows <= most)
    }

    /// The condition of checks in a span.
    fn within(&self, span: Span) -> Result<(String, Vec<Value>), StoreError> {
        self.between(span.first_id(), span.end_id())
    }

    /// The condition of checks from one id until before another.
    fn between(&self, first: Uuid, end: Uuid) -> Result<(String, Vec<Value>), StoreError> {
        let mut values = values![self.project, self.product.as_str(), first, end].to_vec();
        let mut condition = BETWEEN.to_owned();
        if let Some(rest) = &self.filter.rest {
            let rest = filter::compile(rest, column, &mut values)?;
            condition = format!("{condition} and ({rest})");
        }
        Ok((condition, values))
    }

    /// Counts the checks of a part of an hour.
    async fn count(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<Segment>, StoreError> {
        let count = self.count_between(tx, span.first_id(), span.end_id()).await?;
        Ok(if count == 0 { Vec::new() } else { vec![Segment { span, count }] })
    }

    async fn count_between(&self, tx: &mut dyn Tx, first: Uuid, end: Uuid) -> Result<u64, StoreError> {
        let (condition, values) = self.between(first, end)?;
        let rows = tx.query(format!("select count(*) from checks where {condition}").into(), &values).await?;
        Ok(rows.into_iter().next().map_or(Ok(0), Row::number)?.unsigned_abs())
    }

    /// Whole days or hours that have any, the newest first.
    async fn counted(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<Segment>, StoreError> {
        if span.is_whole_days() { self.periods(tx, span, DAY).await } else { self.hours(tx, span).await }
    }

    async fn hours(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<Segment>, StoreError> {
        self.periods(tx, span, HOUR).await
    }

    async fn periods(&self, tx: &mut dyn Tx, span: Span, length: i64) -> Result<Vec<Segment>, StoreError> {
        let (table, period) = if length == DAY { ("usage_days", "day") } else { ("usage_counters", "hour") };
        let (from, to) = (span.name_of_start(length), span.name_of_end(length));
        let mut values = values![self.project, self.product.as_str(), from, to].to_vec();
        let mut condition = String::new();
        if let Some(rest) = &self.filter.rest {
            condition = format!("and ({})", filter::compile(rest, counter_column, &mut values)?);
        }
        let sql = format!(
            "select {period}, cast(sum(count) as bigint) from {table}
              where project_id = $1 and product = $2 and {period} >= $3 and {period} < $4 {condition}
              group by {period} having sum(count) > 0 order by {period} desc"
        );
        let rows = tx.query(sql.into(), &values).await?;
        rows.into_iter()
            .map(|row| {
                let mut row = row.of("usage_counters");
                let start = row.text(period)?;
                let span = Span::of_period(&start).ok_or_else(|| row.inconsistent(period, "not a period"))?;
                Ok(Segment { span, count: row.int("count")?.unsigned_abs() })
            })
            .collect()
    }

    /// Checks of an hour, without the newest `skip` of them.
    async fn rows(
        &self,
        tx: &mut dyn Tx,
        segment: Segment,
        skip: u64,
        limit: usize,
    ) -> Result<Vec<AnyCheck>, StoreError> {
        let (condition, mut values) = self.within(segment.span)?;
        if skip > 0 {
            let Some(first) = self.nth(tx, segment, skip).await? else { return Ok(Vec::new()) };
            // The range of ids ends with this one.
            values[3] = Value::Uuid(Uuid::from_u128(first.as_u128().saturating_add(1)));
        }
        values.push(Value::Int(i64::try_from(limit).unwrap_or(i64::MAX)));
        let sql = format!(
            concat!("select ", check_columns!(), " from checks where {} order by id desc limit ${}"),
            condition,
            values.len()
        );
        tx.query(sql.into(), &values).await?.into_iter().map(check_rows::check).collect()
    }

    /// The id of the check that stands after the newest `skip` of a segment, from whichever end is nearer.
    async fn nth(&self, tx: &mut dyn Tx, segment: Segment, skip: u64) -> Result<Option<Uuid>, StoreError> {
        let (condition, mut values) = self.within(segment.span)?;
        let from_the_oldest = segment.count - 1 - skip;
        let (order, offset) = if skip <= from_the_oldest { ("desc", skip) } else { ("asc", from_the_oldest) };
        values.push(Value::Int(i64::try_from(offset).unwrap_or(i64::MAX)));
        let sql =
            format!("select id from checks where {condition} order by id {order} limit 1 offset ${}", values.len());
        let row = tx.query(sql.into(), &values).await?.into_iter().next();
        row.map(|row| row.of("checks").uuid("id")).transpose()
    }
}

fn column(field: &str) -> Option<&'static str> {
    Some(match field {
        "status" => "status",
        "verified" => "matched",
        "network_id" => "network_id",
        // As resources show it: an expired Reverse SMS check has none.
        "error_code" => {
            "(case when status = 'EXPIRED' and product in ('secure_sna', 'discovery') then 'check_expired' else error_code end)"
        }
        "reference_id" => "reference_id",
        "created_at" => "created_at",
        "updated_at" => "coalesce(concluded_at, pending_at)",
        _ => return None,
    })
}

/// The same fields in a counter, as far as it has them.
fn counter_column(field: &str) -> Option<&'static str> {
    Some(match field {
        "status" => "status",
        "verified" => "(case matched when 1 then true when 0 then false end)",
        "network_id" => "nullif(network_id, '')",
        _ => return None,
    })
}
