//! Lists of a server, a page or all of them.

use ringtrue_domain::product::Scope;
use serde_json::Value;

use super::{arguments::ListArguments, progress::Progress, server::Path, session::Session};
use crate::cli::{arguments::Output, desk::Desk, failure::Failure, printer};

const LARGEST_PAGE: u32 = 100;

pub(super) async fn list(
    desk: &Desk,
    session: &Session,
    scope: Scope,
    path: &Path<'_>,
    columns: &[&'static str],
    arguments: &ListArguments,
) -> Result<(), Failure> {
    if arguments.all {
        let all = every_page(session, scope, path, arguments.search.as_deref()).await?;
        return Ok(desk.printer.objects(columns, &all)?);
    }
    let page = page(session, scope, path, arguments.search.as_deref(), arguments.size, arguments.page.get()).await?;
    desk.printer.objects(columns, &page.content)?;
    if desk.printer.output == Output::Table {
        printer::remark(&match page.total {
            0 => "There is nothing.".to_owned(),
            total => format!("Page {} of {}; {total} in all.", arguments.page, page.pages),
        });
    }
    Ok(())
}

pub(super) struct Page {
    pub content: Vec<Value>,
    pages: u64,
    total: u64,
}

pub(super) async fn page(
    session: &Session,
    scope: Scope,
    path: &Path<'_>,
    search: Option<&str>,
    size: u32,
    number: u32,
) -> Result<Page, Failure> {
    let mut query = vec![("size", size.to_string()), ("page", number.to_string())];
    query.extend(search.map(|search| ("search", search.to_owned())));
    let mut answer = session.get(scope, path, &query).await?;
    let count = |name: &str| answer.pointer(name).and_then(Value::as_u64).unwrap_or(0);
    let (pages, total) = (count("/page/total_pages"), count("/page/total_elements"));
    let content = match answer.get_mut("content").map(Value::take) {
        Some(Value::Array(content)) => content,
        _ => vec![],
    };
    Ok(Page { content, pages, total })
}

pub(super) async fn every_page(
    session: &Session,
    scope: Scope,
    path: &Path<'_>,
    search: Option<&str>,
) -> Result<Vec<Value>, Failure> {
    let mut all = vec![];
    let mut progress = Progress::begin();
    for number in 1.. {
        let next = page(session, scope, path, search, LARGEST_PAGE, number).await?;
        let is_last = next.content.is_empty() || u64::from(number) >= next.pages;
        all.extend(next.content);
        progress.say(&format!("{} of {}", all.len(), next.total));
        if is_last {
            break;
        }
    }
    Ok(all)
}
