//! A project's checks as they come and change: a page, and the stream of events that keeps it up to date.
//!
//! Without a script the page is a list of the newest checks. With one it follows server-sent events, whose data are
//! rows as the page has them, made by the same template.

use std::{convert::Infallible, sync::Arc, time::Duration};

use askama::Template;
use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use ringtrue_domain::{account::Power, lifecycle::AnyCheck, product::Product, tenancy::Project};
use ringtrue_engine::live::{NEWEST, Seen, WatchError, Window};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use super::{
    checks::{CheckRow, PRODUCTS, Tab},
    page::{self, Frame, Section},
    refusal::Refusal,
    visitor::{InProject, SignedIn},
};
use crate::http::{App, path::PathIds, query::Query};

/// A word now and then, so that nobody on the way takes the connection for dead, and a window that was closed is noticed:
/// the first word after that is refused, and the second cannot be sent.
const HEARTBEAT: Duration = Duration::from_secs(2);
/// How often a window looks after itself.
const LOOK: Duration = Duration::from_secs(1);
/// How soon a browser comes back after a connection was lost, in milliseconds.
const COME_BACK: &str = "retry: 2000\n";
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

#[derive(Debug, Template)]
#[template(path = "console/live.html")]
struct LivePage {
    frame: Frame,
    tabs: Vec<Tab>,
    here: String,
    events: String,
    rows: Vec<CheckRow>,
    most: u32,
}

#[derive(Debug, Template)]
#[template(path = "console/live_row.html")]
struct RowAlone {
    row: CheckRow,
}

/// `GET …/projects/{project_id}/live`
pub async fn show(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let product = product_of(query.as_deref())?;
    let checks = app.engine.newest_checks(project.id).await?;
    let frame = Frame::of(&who, "Live").in_workspace(&who, &workspace, Section::Live).in_project(&project);
    let path = frame.project_path();
    let of = |product: Product| format!("?product={product}");
    let tab = |other: Option<Product>| Tab {
        path: format!("{path}/live{}", other.map(of).unwrap_or_default()),
        title: other.map_or("All", Product::title),
        is_current: other == product,
    };
    let products = PRODUCTS.into_iter().filter(|product| project.products.contains(product));
    let wanted = checks.iter().filter(|check| product.is_none_or(|product| product == check.product));
    Ok(page::ok(&LivePage {
        tabs: [tab(None)].into_iter().chain(products.map(|product| tab(Some(product)))).collect(),
        here: format!("{path}/live{}", product.map(of).unwrap_or_default()),
        events: format!("{path}/live/events{}", product.map(of).unwrap_or_default()),
        rows: wanted.map(|check| CheckRow::of(path, check)).collect(),
        most: NEWEST,
        frame,
    }))
}

/// `GET …/projects/{project_id}/live/events`
pub async fn events(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { project, .. } = who.project(&app, &ids, Power::Look).await?;
    let product = product_of(query.as_deref())?;
    let window = app.engine.watch(&who.person, &who.token, &project).await?;
    // Connections on which nothing is sent for long are closed: half of that is well before.
    let heartbeat = HEARTBEAT.min(app.idle_timeout / 2);
    let mut looks = interval(LOOK.min(heartbeat / 4));
    looks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let tail = Tail {
        wrote_at: Instant::now(),
        heartbeat,
        looks,
        window,
        project_path: project_path(&project),
        product,
        stage: Stage::Beginning,
        app,
    };
    let events = stream::unfold(tail, async |mut tail| {
        let event = tail.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), tail))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Proxies that gather answers would keep the news to themselves.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// One window's stream of events.
struct Tail {
    app: App,
    window: Window,
    project_path: String,
    product: Option<Product>,
    stage: Stage,
    looks: Interval,
    heartbeat: Duration,
    wrote_at: Instant,
}

#[derive(Clone, Copy)]
enum Stage {
    /// Whoever comes, or comes back, is told first what is there.
    Beginning,
    Following,
    Ended,
}

impl Tail {
    /// What is sent next. `None`: that was all.
    async fn next(&mut self) -> Option<String> {
        let event = match self.stage {
            Stage::Beginning => {
                self.stage = Stage::Following;
                format!("{COME_BACK}{}", self.present())
            }
            Stage::Following => self.follow().await?,
            Stage::Ended => return None,
        };
        self.wrote_at = Instant::now();
        Some(event)
    }

    async fn follow(&mut self) -> Option<String> {
        let shutdown = self.app.shutdown.clone();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return None,
                seen = self.window.next() => match seen? {
                    Seen::Missed(count) => return Some(event("missed", &count.to_string()) + &self.present()),
                    Seen::News(news) if self.wants(&news.check) => {
                        let name = if news.is_new { "new" } else { "change" };
                        return Some(event(name, &rendered(&self.project_path, &news.check)));
                    }
                    Seen::News(_) => {}
                    Seen::Replaced => {
                        self.stage = Stage::Ended;
                        return Some(event("replaced", "-"));
                    }
                    Seen::Ended => {
                        self.stage = Stage::Ended;
                        return Some(event("ended", "-"));
                    }
                },
                _ = self.looks.tick() => {
                    if self.wrote_at.elapsed() >= self.heartbeat {
                        return Some(":\n\n".to_owned());
                    }
                }
            }
        }
    }

    fn present(&self) -> String {
        let checks = self.window.present();
        let rows = checks.iter().filter(|check| self.wants(check)).map(|check| rendered(&self.project_path, check));
        event("present", &rows.collect::<Vec<_>>().join("\n"))
    }

    fn wants(&self, check: &AnyCheck) -> bool {
        self.product.is_none_or(|product| product == check.product)
    }
}

/// An event as it goes over the wire.
fn event(name: &str, data: &str) -> String {
    let lines = data.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    format!("event: {name}\n{}\n", lines.collect::<String>())
}

fn rendered(project_path: &str, check: &Arc<AnyCheck>) -> String {
    RowAlone { row: CheckRow::of(project_path, check) }.render().unwrap_or_default()
}

fn project_path(project: &Project) -> String {
    Frame::bare("").in_project(project).project_path().to_owned()
}

/// The product that is asked for alone.
fn product_of(query: Option<&str>) -> Result<Option<Product>, Refusal> {
    let query = Query::parse(query, &["product"])?;
    let Some(name) = query.get("product").filter(|name| !name.is_empty()) else { return Ok(None) };
    let product = name.parse().ok().filter(|product| PRODUCTS.contains(product));
    product.map(Some).ok_or_else(Refusal::not_found)
}

impl From<WatchError> for Refusal {
    fn from(error: WatchError) -> Self {
        let text = error.to_string();
        match error {
            WatchError::TooMany => Refusal::new(StatusCode::SERVICE_UNAVAILABLE, "Too many windows", text),
            WatchError::Store(cause) => cause.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_event_is_whole_whatever_is_in_it() {
        for (data, sent) in [
            ("a", "event: new\ndata: a\n\n"),
            ("a\nb", "event: new\ndata: a\ndata: b\n\n"),
            ("a\r\n\nevent: ended", "event: new\ndata: a\ndata: \ndata: \ndata: event: ended\n\n"),
        ] {
            assert_eq!(event("new", data), sent);
        }
    }
}
