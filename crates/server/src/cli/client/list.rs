//! Paged lists of the API.

use ringtrue_domain::product::Scope;
use serde_json::Value;

use super::{api_client::PathSegments, api_session::ApiSession, arguments::ListArguments, progress::Progress};
use crate::cli::{arguments::Output, context::CommandContext, error::CliError, printer};

const MAX_PAGE_SIZE: u32 = 100;

pub(super) async fn print_list(
    context: &CommandContext,
    session: &ApiSession,
    scope: Scope,
    path: &PathSegments<'_>,
    columns: &[&'static str],
    arguments: &ListArguments,
) -> Result<(), CliError> {
    if arguments.all {
        let all = fetch_all_pages(session, scope, path, arguments.search.as_deref()).await?;
        return Ok(context.printer.print_objects(columns, &all)?);
    }
    let page =
        fetch_page(session, scope, path, arguments.search.as_deref(), arguments.size, arguments.page.get()).await?;
    context.printer.print_objects(columns, &page.content)?;
    if context.printer.output == Output::Table {
        printer::print_note(&match page.total {
            0 => "No results found.".to_owned(),
            total => format!("Page {} of {}; {total} in total.", arguments.page, page.pages),
        });
    }
    Ok(())
}

pub(super) struct Page {
    pub content: Vec<Value>,
    pages: u64,
    total: u64,
}

pub(super) async fn fetch_page(
    session: &ApiSession,
    scope: Scope,
    path: &PathSegments<'_>,
    search: Option<&str>,
    size: u32,
    number: u32,
) -> Result<Page, CliError> {
    let mut query = vec![("size", size.to_string()), ("page", number.to_string())];
    query.extend(search.map(|search| ("search", search.to_owned())));
    let mut response = session.get(scope, path, &query).await?;
    let count = |name: &str| response.pointer(name).and_then(Value::as_u64).unwrap_or(0);
    let (pages, total) = (count("/page/total_pages"), count("/page/total_elements"));
    let content = match response.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        _ => vec![],
    };
    Ok(Page { content, pages, total })
}

pub(super) async fn fetch_all_pages(
    session: &ApiSession,
    scope: Scope,
    path: &PathSegments<'_>,
    search: Option<&str>,
) -> Result<Vec<Value>, CliError> {
    let mut all = vec![];
    let mut progress = Progress::start();
    for number in 1.. {
        let next = fetch_page(session, scope, path, search, MAX_PAGE_SIZE, number).await?;
        let is_last = next.content.is_empty() || u64::from(number) >= next.pages;
        all.extend(next.content);
        progress.show(&format!("{} of {}", all.len(), next.total));
        if is_last {
            break;
        }
    }
    Ok(all)
}
