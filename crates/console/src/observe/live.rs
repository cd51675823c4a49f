//! Live view of a project's checks: a page and its stream of server-sent events.
//!
//! Without JavaScript the page is a static list of the newest checks. Events contain table rows, rendered by the same
//! template as the page.

use std::{convert::Infallible, time::Duration};

use askama::Template;
use axum::{
    body::Body,
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use futures_util::stream;
use http::{HeaderName, HeaderValue, StatusCode, header};
use ringtrue_domain::{lifecycle::AnyCheck, product::Product};
use ringtrue_engine::live::{LiveEvent, LiveSubscription, MAX_NEWEST_CHECKS, WatchError};
use ringtrue_web::{app::App, parameters::Query, routes::Routes};
use tokio::time::{Instant, Interval, MissedTickBehavior, interval};

use crate::{
    observe::checks::CheckRow,
    page::{self, Badge, Layout, MenuSection, ShortId, Tab, error::ConsoleError},
    session::console_session::{ConsoleSession, ProjectAccess},
};

/// Interval of heartbeats. They keep proxies from closing the connection, and detect a connection that the client has
/// closed: the client rejects the first write, and the second write fails.
const HEARTBEAT_INTERVAL: Duration = Duration::from_secs(2);
/// How often the stream checks whether a heartbeat is due.
const TICK_INTERVAL: Duration = Duration::from_secs(1);
/// Field of an event stream that sets the browser's reconnection delay, in milliseconds.
const RETRY_FIELD: &str = "retry: 2000\n";
const X_ACCEL_BUFFERING: HeaderName = HeaderName::from_static("x-accel-buffering");

pub fn routes() -> Routes {
    Routes::default()
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live", show)
        .get("/console/workspaces/{workspace_id}/projects/{project_id}/live/events", events)
}

#[derive(Debug, Template)]
#[template(path = "observe/live.html")]
struct LivePage {
    layout: Layout,
    tabs: Vec<Tab>,
    live_path: String,
    events_path: String,
    rows: Vec<LiveRow>,
    max_rows: u32,
}

#[derive(Debug, Template)]
#[template(path = "observe/live_row.html")]
struct LiveRow {
    row: CheckRow,
    badge: Badge,
    id: ShortId,
}

impl LiveRow {
    fn new(app: &App, project_path: &str, check: &AnyCheck) -> Self {
        let row = CheckRow::new(app, project_path, check);
        let id = ShortId::new(check.id.to_string()).linked(row.path.clone());
        LiveRow { row, badge: Badge::of_check(check), id }
    }
}

/// `GET …/projects/{project_id}/live`
async fn show(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let product = parse_product(query.as_deref())?;
    let checks = app.engine.live.newest_checks(access.project.id).await?;
    let layout = access.layout("Live", MenuSection::Live);
    let path = layout.project_path();
    let product_query = |product: Product| format!("?product={product}");
    let tab = |other: Option<Product>| Tab {
        path: format!("{path}/live{}", other.map(product_query).unwrap_or_default()),
        title: other.map_or("All", Product::title),
        is_current: other == product,
    };
    let products = Product::WITH_CHECKS.iter().copied().filter(|product| access.project.products.contains(product));
    let shown = checks.iter().filter(|check| product.is_none_or(|product| product == check.product));
    Ok(page::render_ok(&LivePage {
        tabs: [tab(None)].into_iter().chain(products.map(|product| tab(Some(product)))).collect(),
        live_path: format!("{path}/live{}", product.map(product_query).unwrap_or_default()),
        events_path: format!("{path}/live/events{}", product.map(product_query).unwrap_or_default()),
        rows: shown.map(|check| LiveRow::new(&app, path, check)).collect(),
        max_rows: MAX_NEWEST_CHECKS,
        layout,
    }))
}

/// `GET …/projects/{project_id}/live/events`
async fn events(
    State(app): State<App>,
    access: ProjectAccess,
    RawQuery(query): RawQuery,
) -> Result<Response, ConsoleError> {
    let product = parse_product(query.as_deref())?;
    let ConsoleSession { user, token, .. } = &access.session;
    let subscription = app.engine.live.watch_project(user, token, &access.project).await?;
    // The server closes connections that are idle for `idle_timeout`, so heartbeats must be more frequent.
    let heartbeat = HEARTBEAT_INTERVAL.min(app.http.idle_timeout / 2);
    let mut ticks = interval(TICK_INTERVAL.min(heartbeat / 4));
    ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
    let stream = EventStream {
        wrote_at: Instant::now(),
        heartbeat,
        ticks,
        subscription,
        project_path: access.path(),
        product,
        state: StreamState::Starting,
        app,
    };
    let events = stream::unfold(stream, async |mut stream| {
        let event = stream.next().await?;
        Some((Ok::<_, Infallible>(Bytes::from(event)), stream))
    });
    let mut response = Response::new(Body::from_stream(events));
    let headers = response.headers_mut();
    headers.insert(header::CONTENT_TYPE, HeaderValue::from_static("text/event-stream"));
    // Asks proxies not to buffer the response, which would delay the events.
    headers.insert(X_ACCEL_BUFFERING, HeaderValue::from_static("no"));
    Ok(response)
}

/// Stream of server-sent events for one subscription.
struct EventStream {
    app: App,
    subscription: LiveSubscription,
    project_path: String,
    product: Option<Product>,
    state: StreamState,
    ticks: Interval,
    heartbeat: Duration,
    wrote_at: Instant,
}

#[derive(Clone, Copy)]
enum StreamState {
    /// A new or reconnected client gets a snapshot before the changes.
    Starting,
    Following,
    Ended,
}

impl EventStream {
    /// Waits for the next event. `None`: the stream has ended.
    async fn next(&mut self) -> Option<String> {
        let event = match self.state {
            StreamState::Starting => {
                self.state = StreamState::Following;
                format!("{RETRY_FIELD}{}", self.snapshot_event())
            }
            StreamState::Following => self.follow().await?,
            StreamState::Ended => return None,
        };
        self.wrote_at = Instant::now();
        Some(event)
    }

    async fn follow(&mut self) -> Option<String> {
        let shutdown = self.app.shutdown.clone();
        loop {
            tokio::select! {
                () = shutdown.cancelled() => return None,
                seen = self.subscription.next() => match seen? {
                    LiveEvent::Missed(count) => return Some(event("missed", &count.to_string()) + &self.snapshot_event()),
                    LiveEvent::Updated(update) if self.includes(&update.check) => {
                        let name = if update.is_new { "new" } else { "change" };
                        return Some(event(name, &self.render_row(&update.check)));
                    }
                    LiveEvent::Updated(_) => {}
                    LiveEvent::Replaced => {
                        self.state = StreamState::Ended;
                        return Some(event("replaced", "-"));
                    }
                    LiveEvent::Ended => {
                        self.state = StreamState::Ended;
                        return Some(event("ended", "-"));
                    }
                },
                _ = self.ticks.tick() => {
                    if self.wrote_at.elapsed() >= self.heartbeat {
                        return Some(":\n\n".to_owned());
                    }
                }
            }
        }
    }

    fn snapshot_event(&self) -> String {
        let checks = self.subscription.snapshot();
        let rows = checks.iter().filter(|check| self.includes(check)).map(|check| self.render_row(check));
        event("present", &rows.collect::<Vec<_>>().join("\n"))
    }

    fn render_row(&self, check: &AnyCheck) -> String {
        LiveRow::new(&self.app, &self.project_path, check).render().unwrap_or_default()
    }

    fn includes(&self, check: &AnyCheck) -> bool {
        self.product.is_none_or(|product| product == check.product)
    }
}

/// Renders a server-sent event.
fn event(name: &str, data: &str) -> String {
    let lines = data.split(['\n', '\r']).map(|line| format!("data: {line}\n"));
    format!("event: {name}\n{}\n", lines.collect::<String>())
}

/// Parses the product filter. `None`: all products.
fn parse_product(query: Option<&str>) -> Result<Option<Product>, ConsoleError> {
    let query = Query::parse(query, &["product"])?;
    let Some(name) = query.get("product").filter(|name| !name.is_empty()) else { return Ok(None) };
    let product = name.parse().ok().filter(|product: &Product| product.facts().has_checks);
    product.map(Some).ok_or_else(ConsoleError::not_found)
}

impl From<WatchError> for ConsoleError {
    fn from(error: WatchError) -> Self {
        match error {
            WatchError::TooManyViewers => {
                ConsoleError::new(StatusCode::SERVICE_UNAVAILABLE, "Too many live views", error.to_string())
            }
            WatchError::Store(cause) => cause.into(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn event_data_cannot_break_the_framing() {
        for (data, sent) in [
            ("a", "event: new\ndata: a\n\n"),
            ("a\nb", "event: new\ndata: a\ndata: b\n\n"),
            ("a\r\n\nevent: ended", "event: new\ndata: a\ndata: \ndata: \ndata: event: ended\n\n"),
        ] {
            assert_eq!(event("new", data), sent);
        }
    }
}
