use std::{net::SocketAddr, time::Duration};

use ringtrue_domain::account::Role;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{browser::Browser, pages::assert_well_formed};
use ringtrue_test_support::{WAIT_LIMIT, poll_until};

use crate::{
    client::Request,
    on_both_stores,
    products::{
        reverse_sms::{EVEN, ReverseSmsClient},
        scripted_sim_swap::ScriptedSimSwap,
        sim_swap,
    },
    world::{TestProject, World},
};

on_both_stores!(
    new_and_changed_checks_are_streamed,
    stream_ends_when_the_membership_is_removed,
    streams_are_limited_by_workspace,
);

fn path_of(world: &World, project: &TestProject) -> String {
    format!("/console/workspaces/{}/projects/{}/live", world.acme.workspace_id, project.project_id)
}

/// Minimal client for server-sent events.
pub struct Events {
    stream: TcpStream,
    pub status: u16,
    buffer: String,
    /// Received bytes that are not decoded yet. They may end within a character.
    unread: Vec<u8>,
}

impl Events {
    pub async fn open(browser: &Browser, path: &str) -> Self {
        let cookies: Vec<_> = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(path).header("Last-Event-ID", "7").header("Cookie", cookies.join("; "));
        Events::send(browser.address, request).await
    }

    pub async fn send(address: SocketAddr, request: Request) -> Self {
        let request = request.header("Accept", "text/event-stream").header("Connection", "keep-alive");
        let mut stream = TcpStream::connect(address).await.unwrap();
        stream.write_all(&request.bytes(address)).await.unwrap();
        let mut events = Events { stream, status: 0, buffer: String::new(), unread: vec![] };
        let head = events.until("\r\n\r\n").await.expect("a response");
        events.status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_ascii_lowercase();
        if events.status == 200 {
            assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
            assert!(head.contains("transfer-encoding: chunked") && head.contains("cache-control: no-store"), "{head}");
        }
        events
    }

    /// Waits for the end of the stream. The server ends it within two seconds; the longer timeout allows for slow
    /// machines.
    async fn expect_end(&mut self) {
        let ended = timeout(Duration::from_secs(10), self.expect("ended")).await;
        ended.expect("the stream ends");
    }

    /// Reads the text before a delimiter. `None`: the connection has ended.
    async fn until(&mut self, mark: &str) -> Option<String> {
        loop {
            if let Some((before, after)) = self.buffer.split_once(mark) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.buffer = after;
                return Some(before);
            }
            self.read_more().await?;
        }
    }

    /// Reads the next event and its data. One HTTP chunk is one event or heartbeat.
    pub async fn next(&mut self) -> Option<(String, String)> {
        let size = self.until("\r\n").await?;
        let size = usize::from_str_radix(&size, 16).unwrap();
        while self.buffer.len() < size + 2 {
            self.read_more().await?;
        }
        let chunk = self.buffer[..size].to_owned();
        self.buffer.drain(..size + 2);
        if size == 0 {
            return None;
        }
        let name = chunk.lines().find_map(|line| line.strip_prefix("event: ")).unwrap_or(":").to_owned();
        let data: Vec<_> = chunk.lines().filter_map(|line| line.strip_prefix("data: ")).collect();
        Some((name, data.join("\n")))
    }

    /// Reads at least one whole character. `None`: the connection has ended.
    async fn read_more(&mut self) -> Option<()> {
        loop {
            let read = self.stream.read_buf(&mut self.unread);
            let read = timeout(WAIT_LIMIT, read).await.expect("an event").unwrap_or(0);
            if read == 0 {
                return None;
            }
            if let Ok(text) = std::str::from_utf8(&self.unread) {
                self.buffer += text;
                self.unread.clear();
                return Some(());
            }
        }
    }

    /// Reads the next event, which must have this name. Skips heartbeats.
    pub async fn expect(&mut self, name: &str) -> String {
        loop {
            let (found, data) = self.next().await.unwrap_or_else(|| panic!("the stream ended before {name}"));
            if found == name {
                return data;
            }
            assert_eq!(found, ":", "expected {name}: {data}");
        }
    }
}

async fn new_and_changed_checks_are_streamed(world: World) {
    let backend = ReverseSmsClient::sandbox(&world).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let live = path_of(&world, &backend.project);
    let page = viewer.get(&live).await.assert(200);
    assert_well_formed(&live, &page);
    assert!(page.text().contains("No checks yet") && page.text().contains("/live/events\""), "{}", page.text());

    let mut events = Events::open(&viewer, &format!("{live}/events")).await;
    assert_eq!(events.expect("present").await, "");
    let mut others = Events::open(&viewer, &format!("{live}/events?product=sim_swap")).await;
    assert_eq!(others.expect("present").await, "");
    let hostile = "\"><script>alert(1)</script>";
    let check = backend.create(json!({"phone_number": EVEN, "reference_id": hostile})).await;
    let row = events.expect("new").await;
    for part in [&*check.id, "ACCEPTED", "Reverse SMS", "…00", "&#60;script&#62;", "/checks/reverse_sms/"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(!row.contains(EVEN) && !row.contains(&check.body) && !row.contains("<script"), "{row}");
    backend.text(EVEN, &check.receiver, &check.body).await;
    let row = events.expect("change").await;
    assert!(row.contains(&check.id) && row.contains("COMPLETED") && row.contains("match"), "{row}");

    // A new stream starts with a snapshot, and the page shows the same rows without JavaScript.
    let mut second = Events::open(&viewer, &format!("{live}/events")).await;
    let present = second.expect("present").await;
    let page = viewer.get(&live).await.assert(200);
    assert_well_formed(&live, &page);
    for text in [&present, &page.text()] {
        assert!(text.contains(&format!("id=\"check-{}\"", check.id)) && text.contains("COMPLETED"), "{text}");
    }
    let other_product = viewer.get(&format!("{live}?product=sim_swap")).await.assert(200);
    assert!(!other_product.text().contains(&check.id), "{}", other_product.text());
    viewer.get(&format!("{live}?product=eligibility")).await.assert(404);

    // The stream of another product receives only checks of that product. Streams of a project share one feed.
    assert_eq!(world.node.engine.live.watched_projects(), 1);
    let TestProject { client_id, client_secret, .. } = &backend.project;
    let token = world.token(client_id, client_secret, "sim_swap").await;
    ScriptedSimSwap::simulated(&world);
    let create = Request::post(sim_swap::CHECKS).bearer(&token).json(&json!({"phone_number": EVEN}));
    let other = world.send(create).await.assert(201).json()["check_id"].as_str().unwrap().to_owned();
    let row = others.expect("new").await;
    assert!(row.contains(&other) && !row.contains(&check.id), "{row}");
    drop((events, second, others));
    poll_until("no subscriptions are left", async || world.node.engine.live.watched_projects() == 0).await;
}

#[tokio::test]
async fn checks_of_other_nodes_are_streamed() {
    let world = World::postgres().await;
    let backend = ReverseSmsClient::sandbox(&world).await;
    let (second, _) = world.stoppable_node().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    viewer.address = second.address;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &backend.project))).await;
    assert_eq!(events.expect("present").await, "");
    let check = backend.create(json!({"phone_number": EVEN})).await;
    assert!(events.expect("new").await.contains(&check.id));
}

#[tokio::test]
async fn sixth_stream_replaces_the_oldest() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let path = format!("{}/events", path_of(&world, &project));
    let mut open = vec![];
    for _ in 0..5 {
        open.push(Events::open(&viewer, &path).await);
    }
    let other = Browser::member(&world, &world.acme, Role::Owner).await;
    open.push(Events::open(&other, &path).await);
    open.push(Events::open(&viewer, &path).await);
    assert!(open.iter().all(|events| events.status == 200));
    let mut oldest = open.remove(0);
    oldest.expect("present").await;
    oldest.expect("replaced").await;
    assert_eq!(oldest.next().await, None);

    for events in &mut open {
        events.expect("present").await;
    }
    let token = world.token(&project.client_id, &project.client_secret, "reverse_sms").await;
    let backend = ReverseSmsClient { world: &world, project, token };
    let check = backend.create(json!({"phone_number": EVEN})).await;
    for events in &mut open {
        assert!(events.expect("new").await.contains(&check.id), "the other streams continue");
    }
}

#[tokio::test]
async fn stream_ends_with_its_session() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let live = path_of(&world, &project);
    let mut events = Events::open(&viewer, &format!("{live}/events")).await;
    events.expect("present").await;
    let token = viewer.form_token(&live).await;
    let cookies = viewer.cookies.clone();
    viewer.post("/console/sign-out", &token, &[]).await.assert(303);
    events.expect_end().await;
    assert_eq!(events.next().await, None);
    viewer.cookies = cookies;
    assert_eq!(Events::open(&viewer, &format!("{live}/events")).await.status, 303, "the session is no longer valid");
}

async fn stream_ends_when_the_membership_is_removed(world: World) {
    let project = world.project("Shop", json!({})).await;
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &project))).await;
    events.expect("present").await;
    let members = format!("/console/workspaces/{}/members", world.acme.workspace_id);
    let page = owner.get(&members).await.text();
    let row = page.split("<tr>").find(|row| row.contains("viewer.")).unwrap();
    let action = row
        .split("action=\"")
        .find(|rest| rest.split('"').next().unwrap().ends_with("/remove"))
        .unwrap()
        .split('"')
        .next()
        .unwrap()
        .to_owned();
    owner.submit(&members, &action, &[]).await.assert(303);
    events.expect_end().await;
}

/// The limit of one workspace does not affect other workspaces or administrators.
async fn streams_are_limited_by_workspace(world: World) {
    let other = world.another_tenant().await;
    let (ours, theirs) = (world.project("Shop", json!({})).await, world.project_of(&other, "Shop", json!({})).await);
    let path = format!("{}/events", path_of(&world, &ours));
    let mut open = vec![];
    for number in 0..10 {
        let email = format!("viewer-{number}@example.com");
        let viewer = Browser::member_with_email(&world, &world.acme, &email, Role::Viewer).await;
        for _ in 0..5 {
            open.push(Events::open(&viewer, &path).await);
        }
    }
    assert!(open.iter().all(|events| events.status == 200));
    let viewer = Browser::member_with_email(&world, &world.acme, "late@example.com", Role::Viewer).await;
    assert_eq!(Events::open(&viewer, &path).await.status, 503);
    let admin = Browser::admin(&world).await;
    assert_eq!(Events::open(&admin, &path).await.status, 200);
    let outsider = Browser::member(&world, &other, Role::Viewer).await;
    let path = format!("/console/workspaces/{}/projects/{}/live/events", other.workspace_id, theirs.project_id);
    assert_eq!(Events::open(&outsider, &path).await.status, 200);
}

#[tokio::test]
async fn stream_ends_when_the_node_stops() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let (node, shutdown) = world.stoppable_node().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    viewer.address = node.address;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &project))).await;
    events.expect("present").await;
    shutdown.cancel();
    assert_eq!(events.next().await, None);
    timeout(WAIT_LIMIT, node.wait_until_stopped()).await.expect("the node stops");
}

#[tokio::test]
async fn idle_stream_sends_heartbeats() {
    let world = World::configured(|config| config.http.idle_timeout = Duration::from_millis(600)).await;
    let project = world.project("Shop", json!({})).await;
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &project))).await;
    events.expect("present").await;
    // Waits several times as long as the idle timeout.
    for _ in 0..8 {
        assert_eq!(events.next().await, Some((":".to_owned(), String::new())));
    }
}

#[tokio::test]
async fn checks_of_another_workspace_are_not_shown() {
    let world = World::sqlite().await;
    let other = world.another_tenant().await;
    let theirs = world.project_of(&other, "Theirs", json!({})).await;
    let mut owner = Browser::member(&world, &world.acme, Role::Owner).await;
    let live = path_of(&world, &theirs);
    for page in [live.clone(), format!("{live}/events")] {
        assert!(!owner.get(&page).await.assert(404).text().contains("Theirs"));
    }
    let elsewhere = live.replace(&world.acme.workspace_id, &other.workspace_id);
    assert_eq!(Events::open(&owner, &format!("{elsewhere}/events")).await.status, 403);
    assert_eq!(Events::open(&Browser::new(&world), &format!("{live}/events")).await.status, 303);
}
