//! The command `ringtrue logs`, which prints the request log of a project through the Management API.

use std::{collections::HashMap, time::Duration};

use clap::ValueEnum;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{product::Scope, tenancy::ProjectId, timestamp};
use serde_json::{Value, json};
use tokio::time::sleep;

use crate::{
    api::{ApiSession, text_field},
    arguments::LogsArguments,
    context::ClientContext,
    error::CommandError,
    printer::{self, Output},
    watch::{TransientErrors, WATCHING_NOTE, run_until_stopped},
};

const COLUMNS: [&str; 9] =
    ["at", "method", "route", "status", "error_code", "duration_ms", "client_id", "request_id", "skipped"];
const PAGE_SIZE: u32 = 100;
/// Maximum number of pages that a poll reads, even after a long pause.
const MAX_PAGES: u32 = 50;
/// Maximum delay between a request and its log entry. Each server writes its entries about once a second, so entries of
/// different servers do not appear in the order of their times.
const MAX_WRITE_DELAY: SignedDuration = SignedDuration::from_secs(5);
/// Maximum number of projects that an error message lists.
const MAX_LISTED_PROJECTS: usize = 10;

pub(crate) async fn logs(context: &ClientContext, arguments: &LogsArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let project = resolve_project(&session, arguments.project).await?;
    let path = ["v1", "management", "workspaces", session.workspace_id()?, "projects", &project, "requests"];
    let class = arguments.status.and_then(|class| class.to_possible_value());
    let filter: Vec<(&'static str, String)> = [
        ("status", class.map(|class| class.get_name().to_owned())),
        ("error_code", arguments.error_code.clone()),
        ("request_id", arguments.request_id.clone()),
    ]
    .into_iter()
    .filter_map(|(name, value)| Some((name, value?)))
    .collect();
    let page = session.fetch_filtered_page(Scope::Management, &path, &filter, arguments.size, 1).await?;
    if arguments.follow {
        let follower = LogFollower::new(&session, &path, &filter, &page.content, arguments.size);
        return run_until_stopped(follow(follower, page.content, arguments.interval.seconds)).await;
    }
    let oldest_first: Vec<Value> = page.content.into_iter().rev().map(add_duration_ms).collect();
    context.printer.print_objects(&COLUMNS, &oldest_first)?;
    if oldest_first.is_empty() && context.printer.output == Output::Table {
        printer::print_note("No requests found.");
    }
    Ok(())
}

/// Prints the requests in `newest`, which has the newest one first, and then polls for new ones.
async fn follow(mut follower: LogFollower<'_>, newest: Vec<Value>, interval: u64) -> Result<(), CommandError> {
    let printer = follower.session.printer;
    let mut transient_errors = TransientErrors::default();
    let mut is_first = true;
    let mut next: Vec<Value> = newest.into_iter().rev().collect();
    printer::print_note(WATCHING_NOTE);
    loop {
        for entry in next {
            printer.print_stream_item(&COLUMNS, &add_duration_ms(entry), is_first)?;
            is_first = false;
        }
        sleep(Duration::from_secs(interval)).await;
        next = transient_errors.retry_if_transient(follower.poll().await)?.unwrap_or_default();
    }
}

/// Polls the request log for new entries.
#[derive(Debug)]
struct LogFollower<'a> {
    session: &'a ApiSession,
    path: &'a [&'a str],
    filter: &'a [(&'static str, String)],
    /// Times of the entries since `cutoff` that were already returned, by entry id.
    seen: HashMap<String, Timestamp>,
    /// Entries from before this time are not read again.
    cutoff: Timestamp,
}

impl<'a> LogFollower<'a> {
    /// Starts to poll after the page `newest`, which was requested with `size` entries.
    fn new(
        session: &'a ApiSession,
        path: &'a [&'a str],
        filter: &'a [(&'static str, String)],
        newest: &[Value],
        size: u32,
    ) -> Self {
        let seen: HashMap<String, Timestamp> = newest.iter().filter_map(id_and_time).collect();
        let is_full = u32::try_from(newest.len()) == Ok(size);
        // If the page is full, there are older entries that were not requested. They must not be printed later.
        let cutoff = if is_full { seen.values().min().copied() } else { None };
        let mut follower = LogFollower { session, path, filter, seen, cutoff: cutoff.unwrap_or(Timestamp::MIN) };
        follower.forget_old_entries();
        follower
    }

    /// Returns new entries, oldest first.
    async fn poll(&mut self) -> Result<Vec<Value>, CommandError> {
        let mut recent = vec![];
        for number in 1..=MAX_PAGES {
            let page = self
                .session
                .fetch_filtered_page(Scope::Management, self.path, self.filter, PAGE_SIZE, number)
                .await?
                .content;
            let is_full = u32::try_from(page.len()) == Ok(PAGE_SIZE);
            let page_length = page.len();
            let before = recent.len();
            recent.extend(page.into_iter().filter_map(|entry| {
                let (id, at) = id_and_time(&entry)?;
                (at >= self.cutoff).then_some((id, at, entry))
            }));
            if !is_full || recent.len() - before < page_length {
                break;
            }
        }
        // Drops repeated entries: if new entries arrive meanwhile, they shift others to the next page.
        let mut new: Vec<Value> = recent
            .into_iter()
            .filter_map(|(id, at, entry)| self.seen.insert(id, at).is_none().then_some(entry))
            .collect();
        new.reverse();
        self.forget_old_entries();
        Ok(new)
    }

    fn forget_old_entries(&mut self) {
        if let Some(newest) = self.seen.values().max() {
            self.cutoff = self.cutoff.max(newest.checked_sub(MAX_WRITE_DELAY).unwrap_or(*newest));
            self.seen.retain(|_, at| *at >= self.cutoff);
        }
    }
}

fn id_and_time(entry: &Value) -> Option<(String, Timestamp)> {
    Some((text_field(entry, "entry_id")?.to_owned(), timestamp::parse(text_field(entry, "at")?)?))
}

/// Adds the duration in milliseconds, because the API reports microseconds, which are hard to read.
fn add_duration_ms(mut entry: Value) -> Value {
    let micros = entry.get("duration_micros").and_then(Value::as_u64);
    if let (Some(micros), Some(members)) = (micros, entry.as_object_mut()) {
        let text = format!("{}.{:02}", micros / 1_000, micros % 1_000 / 10);
        members.insert("duration_ms".to_owned(), json!(text));
    }
    entry
}

/// Returns the project from the command line, else the project of the profile, else the only project of the workspace.
pub(crate) async fn resolve_project(session: &ApiSession, given: Option<ProjectId>) -> Result<String, CommandError> {
    if let Some(id) = given {
        return Ok(id.to_string());
    }
    if let Some(id) = session.profile.project.as_ref().and_then(|project| project.project_id.clone()) {
        return Ok(id);
    }
    let path = ["v1", "management", "workspaces", session.workspace_id()?, "projects"];
    let projects = session.fetch_page(Scope::Management, &path, None, PAGE_SIZE, 1).await?.content;
    let named: Vec<(&str, &str)> = projects
        .iter()
        .filter_map(|project| Some((text_field(project, "project_id")?, text_field(project, "name")?)))
        .collect();
    match named.as_slice() {
        [(id, _)] => Ok((*id).to_owned()),
        [] => Err(CommandError::failed(
            "the workspace has no projects",
            "Create one: ringtrue projects create NAME --use",
        )),
        several => {
            let listed = several.iter().take(MAX_LISTED_PROJECTS).map(|(id, name)| format!("\n    {id}  {name}"));
            let rest = if several.len() > MAX_LISTED_PROJECTS { "\n    …" } else { "" };
            Err(CommandError::usage(
                "the workspace has several projects, and the profile names none of them",
                format!("Use --project ID, with one of:{}{rest}", listed.collect::<String>()),
            ))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn durations_are_shown_in_milliseconds() {
        for (micros, text) in [(0, "0.00"), (9, "0.00"), (1_259, "1.25"), (1_500_000, "1500.00")] {
            assert_eq!(add_duration_ms(json!({"duration_micros": micros}))["duration_ms"], text);
        }
    }
}
