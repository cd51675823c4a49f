//! Pages of checks, newest first.
//!
//! The hourly and daily counters know how many checks there are of each status, verdict and network. A filter that asks
//! for nothing else, within bounds of time, is answered from them: they give the total, and the hours that the page lies
//! in. Only these hours are read, and the counters say which of their ends is nearer, so a page deep in the list costs
//! about as much as the first. Any other filter is counted and skipped row by row.
//!
//! Ids begin with the instant of creation: a span of time is a range of ids, and the order of ids is that of the list.

use std::collections::VecDeque;

use ringtrue_domain::{
    lifecycle::AnyCheck,
    page::{Page, PageRequest},
    product::Product,
    search::Filter,
    tenancy::ProjectId,
};
use ringtrue_engine::ports::StoreError;
use uuid::Uuid;

use super::List;
use crate::{
    check_rows::{self, check_columns},
    driver::{Tx, Value, values},
    filter,
    period::{DAY, HOUR, Span},
    row::Row,
    span_filter::SpanFilter,
};

/// A span of time, and how many checks in it the filter finds.
#[derive(Clone, Copy, Debug)]
struct Segment {
    span: Span,
    count: u64,
}

#[derive(Debug)]
pub(super) struct CheckList {
    project: ProjectId,
    product: Product,
    filter: SpanFilter,
}

impl CheckList {
    pub(super) fn new(project: ProjectId, product: Product, filter: Option<Filter>) -> Self {
        CheckList { project, product, filter: SpanFilter::of(filter) }
    }

    pub(super) async fn read(self, tx: &mut dyn Tx, page: PageRequest) -> Result<Page<AnyCheck>, StoreError> {
        if !self.filter.is_counted() {
            let (condition, values) = self.within(self.filter.span)?;
            let from = format!("checks where {condition}").into();
            let list = List { columns: check_columns!(), from, values, order: "id desc", page };
            return list.read(tx, check_rows::check).await;
        }
        // The newest first: part of an hour, hours, days, hours, part of an hour.
        let (mut segments, mut total) = (VecDeque::new(), 0);
        for part in self.filter.span.parts() {
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
                items.extend(self.rows(tx, segment, skip, size - items.len()).await?);
                skip = 0;
            }
            if items.len() >= size {
                break;
            }
        }
        Ok(Page { items, request: page, total_items: total })
    }

    /// The condition of checks in a span.
    fn within(&self, span: Span) -> Result<(String, Vec<Value>), StoreError> {
        let mut values = values![self.project, self.product.as_str(), span.first_id(), span.end_id()].to_vec();
        let mut condition = "project_id = $1 and product = $2 and id >= $3 and id < $4".to_owned();
        if let Some(rest) = &self.filter.rest {
            let rest = filter::compile(rest, column, &mut values)?;
            condition = format!("{condition} and ({rest})");
        }
        Ok((condition, values))
    }

    /// Counts the checks of a part of an hour.
    async fn count(&self, tx: &mut dyn Tx, span: Span) -> Result<Vec<Segment>, StoreError> {
        let (condition, values) = self.within(span)?;
        let rows = tx.query(format!("select count(*) from checks where {condition}").into(), &values).await?;
        let count = rows.into_iter().next().map_or(Ok(0), Row::number)?.unsigned_abs();
        Ok(if count == 0 { Vec::new() } else { vec![Segment { span, count }] })
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
