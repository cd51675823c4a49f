//! The commands `ringtrue usage` and `ringtrue audit`, which use the Management API.

use std::collections::BTreeMap;

use ringtrue_domain::{product::Scope, timestamp};
use serde_json::{Value, json};

use crate::{
    api::{ApiSession, text_field},
    arguments::{AuditArguments, UsageArguments, UsagePeriod},
    context::ClientContext,
    error::CommandError,
    printer::{self, Output, Record},
    system::now,
};

const USAGE_COLUMNS: [&str; 9] =
    ["period_start", "product", "total", "completed", "match", "no_match", "expired", "error", "open"];
const DETAILED_USAGE_COLUMNS: [&str; 7] =
    ["period_start", "project_id", "product", "status", "match", "network_id", "count"];
const AUDIT_COLUMNS: [&str; 6] = ["at", "actor", "action", "target", "changes", "request_id"];

/// Counts of a product's checks in a period, by outcome.
#[derive(Debug, Default, PartialEq, Eq)]
struct UsageCounts {
    completed: u64,
    matched: u64,
    not_matched: u64,
    expired: u64,
    error: u64,
    open: u64,
}

impl UsageCounts {
    fn add(&mut self, row: &Value) {
        let count = row.get("count").and_then(Value::as_u64).unwrap_or(0);
        match text_field(row, "status") {
            Some("COMPLETED") => {
                self.completed += count;
                match row.get("match").and_then(Value::as_bool) {
                    Some(true) => self.matched += count,
                    Some(false) => self.not_matched += count,
                    // Completed checks of some products, such as Discovery, have no match.
                    None => {}
                }
            }
            Some("EXPIRED") => self.expired += count,
            Some("ERROR") => self.error += count,
            _ => self.open += count,
        }
    }

    fn total(&self) -> u64 {
        self.completed + self.expired + self.error + self.open
    }
}

pub(crate) async fn usage(context: &ClientContext, arguments: &UsageArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let period = match arguments.by {
        UsagePeriod::Hour => "hour",
        UsagePeriod::Day => "day",
        UsagePeriod::Month => "month",
    };
    let mut query = vec![("group_by", period.to_owned())];
    query.extend(arguments.since.map(|since| ("from", timestamp::format(since.resolve(now())))));
    query.extend(arguments.until.map(|until| ("to", timestamp::format(until))));
    query.extend(arguments.project.map(|project| ("project_id", project.to_string())));
    let path = ["v1", "management", "workspaces", session.workspace_id()?, "usage"];
    let report = session.get(Scope::Management, &path, &query).await?;
    let rows = report.get("content").and_then(Value::as_array).map(Vec::as_slice).unwrap_or_default();
    if arguments.detailed {
        context.printer.print_objects(&DETAILED_USAGE_COLUMNS, rows)?;
    } else {
        context.printer.print_list(&USAGE_COLUMNS, summarize_usage(rows))?;
    }
    if context.printer.output == Output::Table {
        let [from, to] = ["from", "to"].map(|name| text_field(&report, name).unwrap_or_default());
        let nothing = if rows.is_empty() { "No checks" } else { "Checks created" };
        printer::print_note(&format!("{nothing} from {from} to {to}."));
    }
    Ok(())
}

/// Adds up the counts of all projects and networks, by period and product.
fn summarize_usage(rows: &[Value]) -> Vec<Record> {
    let mut counts: BTreeMap<(&str, &str), UsageCounts> = BTreeMap::new();
    for row in rows {
        let key = (text_field(row, "period_start").unwrap_or_default(), text_field(row, "product").unwrap_or_default());
        counts.entry(key).or_default().add(row);
    }
    let record = |((period_start, product), counts): ((&str, &str), UsageCounts)| {
        let numbers = [
            counts.total(),
            counts.completed,
            counts.matched,
            counts.not_matched,
            counts.expired,
            counts.error,
            counts.open,
        ];
        let values = [json!(period_start), json!(product)].into_iter().chain(numbers.map(|number| json!(number)));
        USAGE_COLUMNS.into_iter().zip(values).collect()
    };
    counts.into_iter().map(record).collect()
}

pub(crate) async fn audit(context: &ClientContext, arguments: &AuditArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let path = ["v1", "management", "workspaces", session.workspace_id()?, "audit-events"];
    if arguments.all {
        let all = session.fetch_all_pages(Scope::Management, &path, None).await?;
        return print_audit_events(context, all);
    }
    let number = arguments.page.get();
    let mut page = session.fetch_page(Scope::Management, &path, None, arguments.size, number).await?;
    print_audit_events(context, std::mem::take(&mut page.content))?;
    session.print_page_count(number, &page);
    Ok(())
}

fn print_audit_events(context: &ClientContext, mut events: Vec<Value>) -> Result<(), CommandError> {
    // JSON output keeps the objects of the API. Tables and CSV show an actor or target as text: its type and its id.
    if context.printer.output != Output::Json {
        for event in &mut events {
            for name in ["actor", "target"] {
                if let Some(subject) = event.get_mut(name) {
                    *subject = json!(render_subject(subject));
                }
            }
        }
    }
    Ok(context.printer.print_objects(&AUDIT_COLUMNS, &events)?)
}

fn render_subject(subject: &Value) -> String {
    let words = ["type", "id"].into_iter().filter_map(|name| text_field(subject, name));
    words.collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn usage_is_summed_by_period_and_product() {
        let row = |day: &str, product: &str, status: &str, matched: Option<bool>, network: &str, count: u64| {
            json!({
                "period_start": day, "product": product, "status": status, "match": matched, "network_id": network,
                "project_id": "p", "count": count,
            })
        };
        let rows = [
            row("2026-11-02", "reverse_sms", "PENDING", None, "", 7),
            row("2026-11-01", "reverse_sms", "COMPLETED", Some(true), "23410", 1),
            row("2026-11-01", "reverse_sms", "COMPLETED", Some(true), "23415", 2),
            row("2026-11-01", "reverse_sms", "COMPLETED", Some(false), "23410", 3),
            row("2026-11-01", "reverse_sms", "EXPIRED", None, "", 4),
            row("2026-11-01", "reverse_sms", "ERROR", None, "", 5),
            row("2026-11-01", "sim_swap", "COMPLETED", None, "23410", 6),
        ];
        let summary: Vec<Vec<Value>> = summarize_usage(&rows)
            .into_iter()
            .map(|record| record.into_iter().map(|(_, value)| value).collect())
            .collect();
        assert_eq!(
            json!(summary),
            json!([
                ["2026-11-01", "reverse_sms", 15, 6, 3, 3, 4, 5, 0],
                ["2026-11-01", "sim_swap", 6, 6, 0, 0, 0, 0, 0],
                ["2026-11-02", "reverse_sms", 7, 0, 0, 0, 0, 0, 7],
            ])
        );
    }

    #[test]
    fn subjects_without_an_id_are_rendered_by_type() {
        assert_eq!(render_subject(&json!({"type": "operator"})), "operator");
        assert_eq!(render_subject(&json!({"type": "credential", "id": "wsp_a"})), "credential wsp_a");
    }
}
