//! Check creation with open live feeds of the console, against check creation without; and lists of a workspace while
//! sessions of another workspace load the console, against the same lists without.

use std::{
    net::SocketAddr,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
    time::Duration,
};

use anyhow::{Context, ensure};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    task::JoinSet,
    time::{Instant, MissedTickBehavior, interval, sleep},
};

use crate::{
    creates::{CHECKS_PATH, NumberSequence},
    deployment::{Deployment, Project, get_request, json_request, json_text},
    load::{self, Connection, header},
    postgres::CLIENTS,
    report::{self, Rates, Times},
};

const USERS: usize = 3;
/// Users with live feeds.
const WATCHERS: usize = 2;
/// Limit of live feeds for each session.
const FEEDS_PER_USER: usize = 5;
const ROUND_DURATION: Duration = Duration::from_secs(3);
const ROUNDS: usize = 7;
/// Interval of a session's requests, a little above the default limit of 20 per second.
const PAGE_INTERVAL: Duration = Duration::from_millis(45);
/// Pages of a session that load at the same time.
const TABS: usize = 8;
/// Time for the pages to start before lists are measured.
const WARM_UP: Duration = Duration::from_secs(1);
const OWN_CHECKS: usize = 200;
const LISTS_PER_ROUND: usize = 300;
const LIST_INTERVAL: Duration = Duration::from_millis(10);
/// Limit for the 99th percentile of the response times of lists, with the pages divided by without.
const MAX_LIST_RATIO: f64 = 10.0;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Check creation on PostgreSQL: with and without ten live feeds of the console on the project");
    let deployment = Deployment::start("bench_console", "")?;
    let project = deployment.sandbox_project().await?;
    let mut sessions = Vec::new();
    for user in 0..USERS {
        sessions.push(sign_in(&deployment, &format!("user{user}@example.com")).await?);
    }
    let numbers = NumberSequence::default();
    let creates = async |round| {
        let (token, numbers) = (project.token.clone(), numbers.clone());
        let write = move |request: &mut Vec<u8>| {
            let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
            request.extend_from_slice(json_request("POST", CHECKS_PATH, &token, &body).as_bytes());
        };
        load::generated_rate(deployment.address, CLIENTS, round, write).await
    };
    let mut with_feeds = Rates::new("with live feeds");
    let mut without_feeds = Rates::new("without live feeds");
    let mut received = 0;
    creates(Duration::from_secs(1)).await?;
    for _ in 0..ROUNDS {
        let feeds = LiveFeeds::open(&deployment, &project, &sessions[..WATCHERS]).await?;
        with_feeds.rounds.push(creates(ROUND_DURATION).await?);
        received += feeds.close()?;
        without_feeds.rounds.push(creates(ROUND_DURATION).await?);
    }
    report::rates(&with_feeds, "checks/s");
    report::rates(&without_feeds, "checks/s");
    report::note(&format!("received by the live feeds: {received} bytes"));
    let keeps_rate = report::ratio_at_least(&with_feeds, &without_feeds, 0.9);
    Ok(compare_lists(&deployment, &project, &sessions).await? && keeps_rate)
}

/// Compares lists of another workspace, with and without sessions that load pages about `busy`, a project with many
/// checks.
async fn compare_lists(deployment: &Deployment, busy: &Project, sessions: &[String]) -> anyhow::Result<bool> {
    report::heading("Lists on PostgreSQL: with and without three sessions of another workspace that load the console");
    let own = deployment.sandbox_project_of_another_workspace().await?;
    let mut connection = Connection::open(deployment.address).await?;
    let numbers = NumberSequence::default();
    for _ in 0..OWN_CHECKS {
        let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
        connection.fetch_body(json_request("POST", CHECKS_PATH, &own.token, &body).as_bytes()).await?;
    }
    let list = get_request(&format!("{CHECKS_PATH}?size=20"), &own.token);
    let (mut with, mut without) = (Times::default(), Times::default());
    let loaded = Arc::new(LoadedPages::default());
    measure_lists(&mut connection, &list, &mut Times::default()).await?;
    for _ in 0..ROUNDS {
        measure_lists(&mut connection, &list, &mut without).await?;
        let mut tabs = load_pages(deployment, busy, sessions, &loaded).await?;
        sleep(WARM_UP).await;
        measure_lists(&mut connection, &list, &mut with).await?;
        if let Some(ended) = tabs.try_join_next() {
            ended??;
        }
    }
    report::percentile("99th percentile without the pages", &without, 0.99);
    report::percentile("99th percentile with the pages", &with, 0.99);
    let count = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
    let (shown, limited, failed) = (count(&loaded.shown), count(&loaded.limited), count(&loaded.failed));
    report::note(&format!("pages: {shown} shown, {limited} rejected with 429, {failed} failed"));
    ensure!(shown > 0, "no page was shown");
    Ok(report::percentile_ratio_at_most("lists, with the pages", (&with, &without), 0.99, MAX_LIST_RATIO))
}

async fn measure_lists(connection: &mut Connection, list: &str, times: &mut Times) -> anyhow::Result<()> {
    let mut next = interval(LIST_INTERVAL);
    next.set_missed_tick_behavior(MissedTickBehavior::Delay);
    for _ in 0..LISTS_PER_ROUND {
        next.tick().await;
        let started = Instant::now();
        connection.fetch_body(list.as_bytes()).await?;
        times.0.push(started.elapsed());
    }
    Ok(())
}

/// Counts of page responses by status.
#[derive(Default)]
struct LoadedPages {
    shown: AtomicU64,
    limited: AtomicU64,
    failed: AtomicU64,
}

/// Loads pages about a project in each session, until dropped.
async fn load_pages(
    deployment: &Deployment,
    project: &Project,
    sessions: &[String],
    loaded: &Arc<LoadedPages>,
) -> anyhow::Result<JoinSet<anyhow::Result<()>>> {
    let workspace = format!("/console/workspaces/{}", deployment.workspace_id());
    let of_project = ["overview", "checks/reverse_sms", "callbacks", "requests"];
    let of_project = of_project.map(|page| format!("{workspace}/projects/{}/{page}", project.id));
    let paths: Vec<String> = of_project.into_iter().chain([format!("{workspace}/usage")]).collect();
    let mut tabs = JoinSet::new();
    for session in sessions {
        let mut ticks = interval(PAGE_INTERVAL);
        ticks.set_missed_tick_behavior(MissedTickBehavior::Delay);
        let ticks = Arc::new(tokio::sync::Mutex::new(ticks));
        for tab in 0..TABS {
            let request = |path: &String| {
                format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\nCookie: {session}\r\n\r\n")
            };
            let requests: Vec<String> = paths.iter().map(request).collect();
            let mut connection = Connection::open(deployment.address).await?;
            let (ticks, loaded) = (Arc::clone(&ticks), Arc::clone(loaded));
            tabs.spawn(async move {
                for request in requests.iter().cycle().skip(tab) {
                    ticks.lock().await.tick().await;
                    let (head, _) = connection.fetch(request.as_bytes()).await?;
                    let counter = match head.get(9..12) {
                        Some(b"200") => &loaded.shown,
                        Some(b"429") => &loaded.limited,
                        _ => &loaded.failed,
                    };
                    counter.fetch_add(1, Ordering::Relaxed);
                }
                anyhow::Ok(())
            });
        }
    }
    Ok(tabs)
}

/// Signs in an administrator as a browser does; returns the session cookie.
async fn sign_in(deployment: &Deployment, email: &str) -> anyhow::Result<String> {
    let link = deployment.run(&["console", "link", "--admin", email])?;
    let url = json_text(&link, "/url")?;
    let (_, token) = url.split_once("token=").context("no token in the link")?;
    let mut connection = Connection::open(deployment.address).await?;
    let request = format!("GET /console/link?token={token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let (head, page) = connection.fetch(request.as_bytes()).await?;
    let visitor_cookie = cookie(head)?.to_owned();
    let form_token =
        std::str::from_utf8(page)?.split_once("name=\"form_token\" value=\"").context("no form in the page")?.1;
    let form_token = form_token.split('"').next().unwrap_or_default();
    let password = "correct-horse-battery-staple";
    let form = format!("form_token={form_token}&token={token}&password={password}&again={password}");
    let request = format!(
        "POST /console/link HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {visitor_cookie}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    Ok(cookie(connection.fetch(request.as_bytes()).await?.0)?.to_owned())
}

fn cookie(head: &[u8]) -> anyhow::Result<&str> {
    let set = header(head, b"set-cookie:").with_context(|| String::from_utf8_lossy(head).into_owned())?;
    Ok(set.split(';').next().unwrap_or_default())
}

/// Open event streams of the live page.
struct LiveFeeds {
    readers: JoinSet<()>,
    bytes: Arc<AtomicU64>,
}

impl LiveFeeds {
    /// Opens the streams and waits for the first event of each.
    async fn open(deployment: &Deployment, project: &Project, sessions: &[String]) -> anyhow::Result<Self> {
        let (workspace, project) = (deployment.workspace_id(), &project.id);
        let bytes = Arc::new(AtomicU64::new(0));
        let mut readers = JoinSet::new();
        for session in sessions.iter().flat_map(|session| [session; FEEDS_PER_USER]) {
            let request = format!(
                "GET /console/workspaces/{workspace}/projects/{project}/live/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                 Accept: text/event-stream\r\nCookie: {session}\r\n\r\n"
            );
            let mut stream = open_event_stream(deployment.address, &request).await?;
            let bytes = Arc::clone(&bytes);
            readers.spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    bytes.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
        }
        Ok(LiveFeeds { readers, bytes })
    }

    /// Number of received bytes. Fails if the server has closed a stream.
    fn close(mut self) -> anyhow::Result<u64> {
        ensure!(self.readers.try_join_next().is_none(), "the server closed a live feed");
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

/// Opens an event stream and waits for its first event.
async fn open_event_stream(address: SocketAddr, request: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    loop {
        ensure!(stream.read_buf(&mut text).await? > 0, "the server closed the connection");
        ensure!(text.starts_with(b"HTTP/1.1 200"), "unexpected response: {}", String::from_utf8_lossy(&text));
        let head = text.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|head| text.len() > head + 4) {
            return Ok(stream);
        }
    }
}
