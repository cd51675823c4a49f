//! Deep page of a list against the first page, in a project with 5,000,000 checks on PostgreSQL.

use std::time::Duration;

use anyhow::{Context, ensure};
use serde_json::Value;
use tokio::time::Instant;

use crate::{
    creates::CHECKS_PATH,
    deployment::{Deployment, Project, get_request},
    load::Connection,
    report::{self, Times},
};

const CHECKS: u64 = 5_000_000;
const DEEP_PAGE: u64 = 50_000;
const PAGE_SIZE: u64 = 10;
const REQUESTS: usize = 300;
const MAX_RATIO: f64 = 2.0;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("List pages of 10 checks on PostgreSQL: 5,000,000 checks in 30 days");
    let deployment = Deployment::start("bench_pages", "")?;
    let project = deployment.sandbox_project().await?;
    let started = Instant::now();
    insert_checks(&deployment, &project)?;
    report::note(&format!("checks inserted in {} s", started.elapsed().as_secs()));

    // From day 13, not at a full hour.
    let since = deployment.database.run(
        "select to_char(to_timestamp(min(created_at) / 1000.0) at time zone 'UTC' + interval '12 days 25 minutes',
                        'YYYY-MM-DD\"T\"HH24:MI:SS\"Z\"') from checks",
    )?;
    let all = page_times(&deployment, &project, "").await?;
    let filter = format!("&search=status==COMPLETED;created_at=gt={since}");
    let filtered = page_times(&deployment, &project, &filter).await?;
    let mut reached = true;
    for (name, (first, deep)) in [("all checks", all), ("completed since a date", filtered)] {
        report::median_time(&format!("{name}: page 1"), &first);
        report::median_time(&format!("{name}: page {DEEP_PAGE}"), &deep);
        reached &=
            report::median_ratio_at_most(&format!("{name}: page {DEEP_PAGE} / page 1"), &deep, &first, MAX_RATIO);
    }
    Ok(reached)
}

/// Alternates between page 1 and the deep page.
async fn page_times(deployment: &Deployment, project: &Project, filter: &str) -> anyhow::Result<(Times, Times)> {
    let mut connection = Connection::open(deployment.address).await?;
    let request = |page| get_request(&format!("{CHECKS_PATH}?size={PAGE_SIZE}&page={page}{filter}"), &project.token);
    let (first_request, deep_request) = (request(1), request(DEEP_PAGE));
    for request in [&first_request, &deep_request] {
        let page: Value = serde_json::from_slice(connection.fetch_body(request.as_bytes()).await?)?;
        let items = page
            .as_object()
            .and_then(|page| page.values().find_map(Value::as_array))
            .context("no items in the page")?;
        ensure!(items.len() as u64 == PAGE_SIZE, "unexpected page size {}", items.len());
    }
    let (mut first, mut deep) = (Times::default(), Times::default());
    for _ in 0..REQUESTS {
        first.0.push(measure_request(&mut connection, &first_request).await?);
        deep.0.push(measure_request(&mut connection, &deep_request).await?);
    }
    Ok((first, deep))
}

async fn measure_request(connection: &mut Connection, request: &str) -> anyhow::Result<Duration> {
    let started = Instant::now();
    connection.fetch_body(request.as_bytes()).await?;
    Ok(started.elapsed())
}

/// Inserts concluded checks of 30 days, one every half second, and their counters.
fn insert_checks(deployment: &Deployment, project: &Project) -> anyhow::Result<()> {
    let project = &project.id;
    let index = "select string_agg(replace(indexdef, ' ON ONLY ', ' ON '), ';') from pg_indexes
                  where tablename = 'checks' and indexname <> 'checks_pkey'";
    let indexes = deployment.database.run(index)?;
    let names = deployment.database.run(
        "select string_agg(indexname, ',') from pg_indexes where tablename = 'checks' and indexname <> 'checks_pkey'",
    )?;
    deployment.database.run(&format!(
        "set synchronous_commit = off;
         set maintenance_work_mem = '512MB';
         drop index {names};
         alter table checks drop constraint checks_pkey;
         insert into checks (bucket, id, project_id, created_at, expires_at, concluded_at, product, mode, status, matched,
                             error_code, network_id, receiver, number_hash, number_tail)
         select (n & 4095)::smallint, (lpad(to_hex(at), 12, '0') || '7' || lpad(to_hex(n & 4095), 3, '0') || '8' || lpad(to_hex(n), 15, '0'))::uuid,
                '{project}', at, at + 300000, at + 20000, 'reverse_sms', 'sandbox',
                case when n % 10 < 7 then 'COMPLETED' when n % 10 < 9 then 'EXPIRED' else 'ERROR' end,
                case when n % 10 < 7 then n % 10 < 6 end,
                case when n % 10 = 9 then 'internal_error' end,
                '00101', '+99000000001', sha256(int8send(n)), lpad((n % 90)::text, 2, '0')
           from (select n, (extract(epoch from date_trunc('hour', now())) * 1000)::bigint
                           - ({CHECKS} - n) * 2592000000 / {CHECKS} - 3600000 as at
                   from generate_series(1, {CHECKS}::bigint) as n) as numbered;
         alter table checks add constraint checks_pkey primary key (id, bucket);
         {indexes};
         insert into usage_counters (project_id, product, hour, status, matched, network_id, slot, bucket, count)
         select project_id, product, to_char(to_timestamp(created_at / 1000) at time zone 'UTC', 'YYYY-MM-DD\"T\"HH24'),
                status, coalesce(matched::integer, -1), network_id, 0, 0, count(*)
           from checks group by 1, 2, 3, 4, 5, 6;
         insert into usage_days (project_id, product, day, status, matched, network_id, slot, bucket, count)
         select project_id, product, substr(hour, 1, 10), status, matched, network_id, 0, 0, sum(count)
           from usage_counters group by 1, 2, 3, 4, 5, 6;"
    ))?;
    // `vacuum` cannot run in a transaction.
    deployment.database.run("vacuum analyze checks").map(drop)
}
