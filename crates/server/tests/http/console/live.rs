use std::time::Duration;

use ringtrue_domain::account::Role;
use serde_json::json;
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::TcpStream,
    time::timeout,
};

use super::{browser::Browser, pages::assert_sound};
use crate::{
    client::{PATIENCE, Request},
    on_both_stores,
    reverse_sms::{Asker, EVEN},
    sim_register::SimRegister,
    sim_swap,
    world::{ProjectOf, World, eventually},
};

on_both_stores!(
    a_check_is_seen_as_it_comes_and_as_it_ends,
    a_window_closes_when_its_account_is_no_member_any_more,
    a_workspace_has_a_share_of_the_windows,
);

fn path_of(world: &World, project: &ProjectOf) -> String {
    format!("/console/workspaces/{}/projects/{}/live", world.acme.workspace_id, project.project_id)
}

/// A plain client of server-sent events: what it has not understood yet is in the buffer.
struct Events {
    stream: TcpStream,
    status: u16,
    buffer: String,
    /// What may end within a character.
    unread: Vec<u8>,
}

impl Events {
    async fn open(browser: &Browser, path: &str) -> Self {
        let cookies: Vec<_> = browser.cookies.iter().map(|(name, value)| format!("{name}={value}")).collect();
        let request = Request::get(path)
            .header("Accept", "text/event-stream")
            .header("Connection", "keep-alive")
            .header("Last-Event-ID", "7")
            .header("Cookie", cookies.join("; "));
        let mut stream = TcpStream::connect(browser.address).await.unwrap();
        stream.write_all(&request.bytes(browser.address)).await.unwrap();
        let mut events = Events { stream, status: 0, buffer: String::new(), unread: vec![] };
        let head = events.until("\r\n\r\n").await.expect("an answer");
        events.status = head.split(' ').nth(1).unwrap().parse().unwrap();
        let head = head.to_ascii_lowercase();
        if events.status == 200 {
            assert!(head.contains("content-type: text/event-stream\r\n"), "{head}");
            assert!(head.contains("transfer-encoding: chunked") && head.contains("cache-control: no-store"), "{head}");
        }
        events
    }

    /// Waits for the end, which a node promises within two seconds. Five times that leaves room for a busy machine.
    async fn ends_soon(&mut self) {
        let ended = timeout(Duration::from_secs(10), self.expect("ended")).await;
        ended.expect("the window ends");
    }

    /// What comes before a mark. `None`: the connection has ended.
    async fn until(&mut self, mark: &str) -> Option<String> {
        loop {
            if let Some((before, after)) = self.buffer.split_once(mark) {
                let (before, after) = (before.to_owned(), after.to_owned());
                self.buffer = after;
                return Some(before);
            }
            self.read_on().await?;
        }
    }

    /// The next event and its data: one chunk is one event, or a heartbeat.
    async fn next(&mut self) -> Option<(String, String)> {
        let size = self.until("\r\n").await?;
        let size = usize::from_str_radix(&size, 16).unwrap();
        while self.buffer.len() < size + 2 {
            self.read_on().await?;
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

    /// Reads what there is, at least a whole character. `None`: the connection has ended.
    async fn read_on(&mut self) -> Option<()> {
        loop {
            let read = self.stream.read_buf(&mut self.unread);
            let read = timeout(PATIENCE, read).await.expect("news").unwrap_or(0);
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

    /// The next event of this name; heartbeats are passed over.
    async fn expect(&mut self, name: &str) -> String {
        loop {
            let (found, data) = self.next().await.unwrap_or_else(|| panic!("it ended before {name}"));
            if found == name {
                return data;
            }
            assert_eq!(found, ":", "{name} was expected: {data}");
        }
    }
}

async fn a_check_is_seen_as_it_comes_and_as_it_ends(world: World) {
    let asker = Asker::sandbox(&world).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let live = path_of(&world, &asker.project);
    let page = viewer.get(&live).await.assert(200);
    assert_sound(&live, &page);
    assert!(page.text().contains("There is no check yet") && page.text().contains("/live/events\""), "{}", page.text());

    let mut events = Events::open(&viewer, &format!("{live}/events")).await;
    assert_eq!(events.expect("present").await, "");
    let mut others = Events::open(&viewer, &format!("{live}/events?product=sim_swap")).await;
    assert_eq!(others.expect("present").await, "");
    let hostile = "\"><script>alert(1)</script>";
    let check = asker.create(json!({"phone_number": EVEN, "reference_id": hostile})).await;
    let row = events.expect("new").await;
    for part in [&*check.id, "ACCEPTED", "Reverse SMS", "…00", "&#60;script&#62;", "/checks/reverse_sms/"] {
        assert!(row.contains(part), "{part}: {row}");
    }
    assert!(!row.contains(EVEN) && !row.contains(&check.body) && !row.contains("<script"), "{row}");
    asker.text(EVEN, &check.receiver, &check.body).await;
    let row = events.expect("change").await;
    assert!(row.contains(&check.id) && row.contains("COMPLETED") && row.contains("match"), "{row}");

    // Whoever comes later, or comes back, is told first what is there; and the page shows the same without a script.
    let mut again = Events::open(&viewer, &format!("{live}/events")).await;
    let present = again.expect("present").await;
    let page = viewer.get(&live).await.assert(200);
    assert_sound(&live, &page);
    for text in [&present, &page.text()] {
        assert!(text.contains(&format!("id=\"check-{}\"", check.id)) && text.contains("COMPLETED"), "{text}");
    }
    let other_product = viewer.get(&format!("{live}?product=sim_swap")).await.assert(200);
    assert!(!other_product.text().contains(&check.id), "{}", other_product.text());
    viewer.get(&format!("{live}?product=eligibility")).await.assert(404);

    // Nothing of it went to the window of another product, whose first news is a check of that; and the windows share
    // what is read.
    assert_eq!(world.node.engine.watched_projects(), 1);
    let ProjectOf { client_id, client_secret, .. } = &asker.project;
    let token = world.token(client_id, client_secret, "sim_swap").await;
    SimRegister::simulated(&world);
    let ask = Request::post(sim_swap::CHECKS).bearer(&token).json(&json!({"phone_number": EVEN}));
    let other = world.send(ask).await.assert(201).json()["check_id"].as_str().unwrap().to_owned();
    let row = others.expect("new").await;
    assert!(row.contains(&other) && !row.contains(&check.id), "{row}");
    drop((events, again, others));
    eventually("nobody watches", async || world.node.engine.watched_projects() == 0).await;
}

#[tokio::test]
async fn checks_of_other_nodes_are_seen() {
    let world = World::postgres().await;
    let asker = Asker::sandbox(&world).await;
    let (second, _) = world.mortal_node().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    viewer.address = second.address;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &asker.project))).await;
    assert_eq!(events.expect("present").await, "");
    let check = asker.create(json!({"phone_number": EVEN})).await;
    assert!(events.expect("new").await.contains(&check.id));
}

#[tokio::test]
async fn a_new_window_takes_the_place_of_the_oldest_of_five() {
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
    let asker = Asker { world: &world, project, token };
    let check = asker.create(json!({"phone_number": EVEN})).await;
    for events in &mut open {
        assert!(events.expect("new").await.contains(&check.id), "the others go on");
    }
}

#[tokio::test]
async fn a_window_closes_with_its_session() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let live = path_of(&world, &project);
    let mut events = Events::open(&viewer, &format!("{live}/events")).await;
    events.expect("present").await;
    let token = viewer.form_token(&live).await;
    let cookies = viewer.cookies.clone();
    viewer.post("/console/sign-out", &token, &[]).await.assert(303);
    events.ends_soon().await;
    assert_eq!(events.next().await, None);
    viewer.cookies = cookies;
    assert_eq!(Events::open(&viewer, &format!("{live}/events")).await.status, 303, "and nobody comes back by it");
}

async fn a_window_closes_when_its_account_is_no_member_any_more(world: World) {
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
    events.ends_soon().await;
}

/// One workspace's windows leave room for those of others and of administrators.
async fn a_workspace_has_a_share_of_the_windows(world: World) {
    let other = world.another_tenant().await;
    let (ours, theirs) = (world.project("Shop", json!({})).await, world.project_of(&other, "Shop", json!({})).await);
    let path = format!("{}/events", path_of(&world, &ours));
    let mut open = vec![];
    for number in 0..10 {
        let email = format!("viewer-{number}@example.com");
        let viewer = Browser::called(&world, &world.acme, &email, Role::Viewer).await;
        for _ in 0..5 {
            open.push(Events::open(&viewer, &path).await);
        }
    }
    assert!(open.iter().all(|events| events.status == 200));
    let viewer = Browser::called(&world, &world.acme, "late@example.com", Role::Viewer).await;
    assert_eq!(Events::open(&viewer, &path).await.status, 503);
    let admin = Browser::admin(&world).await;
    assert_eq!(Events::open(&admin, &path).await.status, 200);
    let stranger = Browser::member(&world, &other, Role::Viewer).await;
    let path = format!("/console/workspaces/{}/projects/{}/live/events", other.workspace_id, theirs.project_id);
    assert_eq!(Events::open(&stranger, &path).await.status, 200);
}

#[tokio::test]
async fn a_window_closes_when_the_node_stops() {
    let world = World::sqlite().await;
    let project = world.project("Shop", json!({})).await;
    let (node, shutdown) = world.mortal_node().await;
    let mut viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    viewer.address = node.address;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &project))).await;
    events.expect("present").await;
    shutdown.cancel();
    assert_eq!(events.next().await, None);
    timeout(PATIENCE, node.finished()).await.expect("nothing keeps the node");
}

#[tokio::test]
async fn a_quiet_window_says_now_and_then_that_it_is_there() {
    let world = World::configured(|config| config.http.idle_timeout = Duration::from_millis(600)).await;
    let project = world.project("Shop", json!({})).await;
    let viewer = Browser::member(&world, &world.acme, Role::Viewer).await;
    let mut events = Events::open(&viewer, &format!("{}/events", path_of(&world, &project))).await;
    events.expect("present").await;
    // Several times longer than a connection without a word is kept.
    for _ in 0..8 {
        assert_eq!(events.next().await, Some((":".to_owned(), String::new())));
    }
}

#[tokio::test]
async fn another_workspaces_checks_are_not_shown() {
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
    assert_eq!(Events::open(&Browser::at(&world), &format!("{live}/events")).await.status, 303);
}
