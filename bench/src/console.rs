//! Creating checks while people watch them at the console, against creating them unwatched.

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
};

use crate::{
    creates::{Numbers, PATH},
    deployment::{Deployment, Project, json_request, text},
    load::{self, Connection, header},
    postgres::CLIENTS,
    report::{self, Rates},
};

const PEOPLE: usize = 2;
/// As many as one person may have.
const WINDOWS_EACH: usize = 5;
const ROUND: Duration = Duration::from_secs(3);
const ROUNDS: usize = 7;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Creates on PostgreSQL: with ten live windows of the console open on the project, and with none");
    let deployment = Deployment::start("bench_console", "")?;
    let project = deployment.sandbox_project().await?;
    let mut sessions = Vec::new();
    for person in 0..PEOPLE {
        sessions.push(sign_in(&deployment, &format!("person{person}@example.com")).await?);
    }
    let numbers = Numbers::default();
    let creates = async |round| {
        let (token, numbers) = (project.token.clone(), numbers.clone());
        let write = move |request: &mut Vec<u8>| {
            let body = format!(r#"{{"phone_number":"{}"}}"#, numbers.next());
            request.extend_from_slice(json_request("POST", PATH, &token, &body).as_bytes());
        };
        load::rate_of(deployment.address, CLIENTS, round, write).await
    };
    let mut watched = Rates::new("creates, watched");
    let mut unwatched = Rates::new("creates, unwatched");
    let mut shown = 0;
    creates(Duration::from_secs(1)).await?;
    for _ in 0..ROUNDS {
        let windows = Windows::open(&deployment, &project, &sessions).await?;
        watched.rounds.push(creates(ROUND).await?);
        shown += windows.close()?;
        unwatched.rounds.push(creates(ROUND).await?);
    }
    report::rates(&watched, "rows/s");
    report::rates(&unwatched, "rows/s");
    report::note(&format!("shown in the windows: {shown} bytes"));
    Ok(report::ratio(&watched, &unwatched, 0.9))
}

/// The cookie of somebody who runs the deployment, and has come in as a browser does.
async fn sign_in(deployment: &Deployment, email: &str) -> anyhow::Result<String> {
    let invited = deployment.run(&["console", "link", "--admin", email])?;
    let url = text(&invited, "/url")?;
    let (_, token) = url.split_once("token=").context("a link without a token")?;
    let mut connection = Connection::open(deployment.address).await?;
    let request = format!("GET /console/link?token={token} HTTP/1.1\r\nHost: 127.0.0.1\r\n\r\n");
    let (head, page) = connection.answer(request.as_bytes()).await?;
    let visitor = cookie(head)?.to_owned();
    let form_token = std::str::from_utf8(page)?.split_once("name=\"form_token\" value=\"").context("no form")?.1;
    let form_token = form_token.split('"').next().unwrap_or_default();
    let password = "correct-horse-battery-staple";
    let form = format!("form_token={form_token}&token={token}&password={password}&again={password}");
    let request = format!(
        "POST /console/link HTTP/1.1\r\nHost: 127.0.0.1\r\nCookie: {visitor}\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {}\r\n\r\n{form}",
        form.len()
    );
    Ok(cookie(connection.answer(request.as_bytes()).await?.0)?.to_owned())
}

fn cookie(head: &[u8]) -> anyhow::Result<&str> {
    let set = header(head, b"set-cookie:").with_context(|| String::from_utf8_lossy(head).into_owned())?;
    Ok(set.split(';').next().unwrap_or_default())
}

/// Pages that are open, each with a stream of events.
struct Windows {
    readers: JoinSet<()>,
    bytes: Arc<AtomicU64>,
}

impl Windows {
    /// Opens them, and waits until each shows something.
    async fn open(deployment: &Deployment, project: &Project, sessions: &[String]) -> anyhow::Result<Self> {
        let (workspace, project) = (deployment.workspace_id(), &project.id);
        let bytes = Arc::new(AtomicU64::new(0));
        let mut readers = JoinSet::new();
        for session in sessions.iter().flat_map(|session| [session; WINDOWS_EACH]) {
            let request = format!(
                "GET /console/workspaces/{workspace}/projects/{project}/live/events HTTP/1.1\r\nHost: 127.0.0.1\r\n\
                 Accept: text/event-stream\r\nCookie: {session}\r\n\r\n"
            );
            let mut stream = events(deployment.address, &request).await?;
            let bytes = Arc::clone(&bytes);
            readers.spawn(async move {
                let mut buffer = vec![0; 16 * 1024];
                while let Ok(read @ 1..) = stream.read(&mut buffer).await {
                    bytes.fetch_add(read as u64, Ordering::Relaxed);
                }
            });
        }
        Ok(Windows { readers, bytes })
    }

    /// How much came. An error, if the server has closed one.
    fn close(mut self) -> anyhow::Result<u64> {
        ensure!(self.readers.try_join_next().is_none(), "a window was closed");
        Ok(self.bytes.load(Ordering::Relaxed))
    }
}

/// A stream whose first event has begun.
async fn events(address: SocketAddr, request: &str) -> anyhow::Result<TcpStream> {
    let mut stream = TcpStream::connect(address).await?;
    stream.write_all(request.as_bytes()).await?;
    let mut text = Vec::new();
    loop {
        ensure!(stream.read_buf(&mut text).await? > 0, "the server hung up");
        ensure!(text.starts_with(b"HTTP/1.1 200"), "answered {}", String::from_utf8_lossy(&text));
        let head = text.windows(4).position(|window| window == b"\r\n\r\n");
        if head.is_some_and(|head| text.len() > head + 4) {
            return Ok(stream);
        }
    }
}
