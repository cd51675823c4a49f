//! A device with a minimal HTTP/1.1 client that only knows title-case header names.
//!
//! Runs against the real server and an operator that requires cookies and sends relative locations.

use std::{collections::BTreeMap, net::SocketAddr};

use jiff::SignedDuration;
use ringtrue_test_support::WAIT_LIMIT;
use serde_json::{Value, json};
use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{TcpListener, TcpStream},
    task::JoinHandle,
    time::timeout,
};

use crate::{
    silent::{
        scripted_operator::{GOOD_CODE, NAME, ScriptedOperator},
        silent_client::{BOTH, DISCOVERY, SECURE_SNA, SilentClient},
    },
    world::World,
};

const MAX_REDIRECTS: usize = 10;
const READ: usize = 64 * 1024;

/// The parts of a response that a minimal client understands.
struct Reply {
    status: u16,
    location: Option<String>,
    content_type: Option<String>,
    cookies: Vec<(String, String)>,
    body: String,
}

/// HTTP client that follows redirects and keeps cookies.
#[derive(Default)]
struct MinimalClient {
    cookies: BTreeMap<(String, String), String>,
    hops: Vec<String>,
}

impl MinimalClient {
    /// Follows redirects, and returns the JSON body at their end.
    async fn follow(&mut self, url: &str) -> Value {
        let reply = self.follow_redirects(url).await;
        assert_eq!(reply.content_type.as_deref(), Some("application/json"), "{}", reply.body);
        serde_json::from_str(&reply.body).expect("JSON")
    }

    async fn follow_redirects(&mut self, url: &str) -> Reply {
        let mut url = url.to_owned();
        for _ in 0..=MAX_REDIRECTS {
            self.hops.push(url.clone());
            let reply = self.get(&url).await;
            if !(300..400).contains(&reply.status) {
                return reply;
            }
            let location = reply.location.expect("a title-case `Location:` header");
            url = if location.starts_with("http") { location } else { format!("{}{location}", origin(&url)) };
        }
        panic!("too many redirects: {:?}", self.hops);
    }

    async fn get(&mut self, url: &str) -> Reply {
        let authority = origin(url).strip_prefix("http://").expect("plain HTTP in tests");
        let target = &url[origin(url).len()..];
        let cookies = self.cookies.iter().filter(|((host, _), _)| host == authority);
        let cookies: Vec<String> = cookies.map(|((_, name), value)| format!("{name}={value}")).collect();
        let cookies = if cookies.is_empty() { String::new() } else { format!("Cookie: {}\r\n", cookies.join("; ")) };
        let request = format!(
            "GET {target} HTTP/1.1\r\nHost: {authority}\r\nUser-Agent: small/1.0\r\nAccept: */*\r\n{cookies}\
             Connection: close\r\n\r\n"
        );
        let mut stream = TcpStream::connect(authority).await.expect("a connection");
        stream.write_all(request.as_bytes()).await.expect("sent");
        let reply = timeout(WAIT_LIMIT, read(&mut stream)).await.expect("a response in time");
        for (name, value) in &reply.cookies {
            self.cookies.insert((authority.to_owned(), name.clone()), value.clone());
        }
        reply
    }
}

/// Returns scheme and host of a URL.
fn origin(url: &str) -> &str {
    let after = url.find("://").expect("an absolute URL") + 3;
    &url[..url[after..].find('/').map_or(url.len(), |slash| after + slash)]
}

/// Reads as many bytes as `Content-Length:` states.
async fn read(stream: &mut TcpStream) -> Reply {
    let mut text = String::new();
    let mut buffer = vec![0; READ];
    loop {
        if let Some((head, body)) = text.split_once("\r\n\r\n") {
            let all = |name: &str| -> Vec<String> {
                head.split("\r\n").filter_map(|line| Some(line.strip_prefix(name)?.trim().to_owned())).collect()
            };
            let one = |name: &str| all(name).into_iter().next();
            let length: usize = one("Content-Length:").expect("a length").parse().expect("a number");
            if body.len() >= length {
                let cookie = |line: String| {
                    let (name, value) = line.split(';').next()?.split_once('=')?;
                    Some((name.to_owned(), value.to_owned()))
                };
                return Reply {
                    status: head.split(' ').nth(1).expect("a status").parse().expect("a number"),
                    location: one("Location:"),
                    content_type: one("Content-Type:"),
                    cookies: all("Set-Cookie:").into_iter().filter_map(cookie).collect(),
                    body: body[..length].to_owned(),
                };
            }
        }
        let count = stream.read(&mut buffer).await.expect("readable");
        assert_ne!(count, 0, "the response ends too early: {text}");
        text.push_str(std::str::from_utf8(&buffer[..count]).expect("ASCII"));
        assert!(text.len() <= 4 * 1024, "the response exceeds 4 KiB");
    }
}

/// Starts an operator with two redirects: the first sets a cookie, the second requires it.
#[expect(clippy::disallowed_methods, reason = "the task ends with the test")]
async fn operator(back_to: String) -> (SocketAddr, JoinHandle<()>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.expect("a port");
    let address = listener.local_addr().expect("an address");
    let task = tokio::spawn(async move {
        while let Ok((mut stream, _)) = listener.accept().await {
            let mut buffer = vec![0; READ];
            let count = stream.read(&mut buffer).await.unwrap_or_default();
            let request = String::from_utf8_lossy(&buffer[..count]).into_owned();
            let target = request.split(' ').nth(1).unwrap_or_default();
            let state = target.split_once("state=").map_or("", |(_, state)| state);
            let response = if target.starts_with("/authorize") {
                format!("302 Found\r\nLocation: /known?state={state}\r\nSet-Cookie: seen=yes; Path=/; HttpOnly")
            } else if request.contains("\r\nCookie: seen=yes\r\n") {
                format!("302 Found\r\nLocation: {back_to}?code={GOOD_CODE}&state={state}")
            } else {
                "403 Forbidden".to_owned()
            };
            let _ = stream.write_all(format!("HTTP/1.1 {response}\r\nContent-Length: 0\r\n\r\n").as_bytes()).await;
        }
    });
    (address, task)
}

#[tokio::test]
async fn minimal_client_completes_the_redirect_chain() {
    let world = World::sqlite().await;
    let base = world.node.base_url.clone();
    let (address, task) = operator(format!("{base}/southbound/camara/{NAME}/callback")).await;
    ScriptedOperator::at(&world, &format!("http://{address}/authorize"));
    for path in BOTH {
        let silent = SilentClient::new(&world, path).await;
        let check = silent.create(json!({"reference_id": "small"})).await;
        let mut client = MinimalClient::default();
        let end = client.follow(&format!("{base}{}", check.target)).await;
        assert_eq!((&end["check_id"], &end["reference_id"]), (&json!(check.id), &json!("small")));
        let ours = client.hops.iter().filter(|hop| hop.starts_with(&base)).count();
        assert_eq!((ours, client.hops.len()), (2, 4), "{:?}", client.hops);
        let redeemed = silent.redeem(&check.id, end["code"].as_str().unwrap()).await.assert(200).json();
        let proof = if path == SECURE_SNA { json!(true) } else { json!("+99000000010") };
        assert_eq!(redeemed[if path == SECURE_SNA { "match" } else { "phone_number" }], proof);

        // Errors have a form that this client can parse, too.
        let mut client = MinimalClient::default();
        let elsewhere = silent.create(json!({"device_ip": "198.51.100.7"})).await;
        let reply = client.get(&format!("{base}{}", elsewhere.target)).await;
        assert_eq!((reply.status, reply.content_type.as_deref()), (412, Some("application/problem+json")));
        let body: Value = serde_json::from_str(&reply.body).expect("JSON");
        assert_eq!(body["error"], "not_mobile_ip");
    }
    task.abort();
}

/// Uses the sandbox operator through the regular connector.
#[tokio::test]
async fn last_digits_of_sandbox_sims_select_the_outcome() {
    let world = World::sqlite().await;
    let base = &world.node.base_url;
    let mut numbers = 0..;
    for (path, suffix, expected) in [
        (SECURE_SNA, "00", json!({"status": "COMPLETED", "match": true})),
        (SECURE_SNA, "01", json!({"status": "COMPLETED", "match": false})),
        (SECURE_SNA, "95", json!({"status": "ERROR", "error_code": "mno_timeout"})),
        (SECURE_SNA, "98", json!({"status": "EXPIRED", "error_code": "check_expired"})),
        (SECURE_SNA, "99", json!({"status": "ERROR", "error_code": "mno_server_error"})),
        (DISCOVERY, "00", json!({"status": "COMPLETED"})),
        (DISCOVERY, "01", json!({"status": "ERROR", "error_code": "mno_user_not_found"})),
        (DISCOVERY, "95", json!({"status": "ERROR", "error_code": "mno_timeout"})),
        (DISCOVERY, "96", json!({"status": "COMPLETED"})),
        (DISCOVERY, "98", json!({"status": "EXPIRED", "error_code": "check_expired"})),
        (DISCOVERY, "99", json!({"status": "ERROR", "error_code": "mno_server_error"})),
    ] {
        let (name, number) =
            (format!("{} {suffix}", path.scope), format!("+99012{:05}{suffix}", numbers.next().unwrap()));
        let silent = SilentClient::of(&world, path, world.project(&name, json!({})).await).await;
        let (claim, sim) = if path == SECURE_SNA {
            (json!({"phone_number": number}), String::new())
        } else {
            (json!({}), format!("&sim={number}"))
        };
        let check = silent.create(claim).await;
        let mut client = MinimalClient::default();
        let reply = client.follow_redirects(&format!("{base}{}{sim}", check.target)).await;
        // If the simulated operator never answers, programs get a 503 at once, and only browsers are kept waiting.
        let status = if expected["status"] == "EXPIRED" { 503 } else { 200 };
        assert_eq!(reply.status, status, "{name}: {}", reply.body);
        if expected["status"] == "EXPIRED" {
            world.advance(SignedDuration::from_secs(120));
        } else {
            let end: Value = serde_json::from_str(&reply.body).expect("JSON");
            assert_eq!(end.get("error"), expected.get("error_code"), "{name}: {end}");
            if let Some(code) = end.get("code") {
                silent.redeem(&check.id, code.as_str().unwrap()).await.assert(200);
            }
        }
        let ended = silent.get(&check.id).await.json();
        for (member, value) in expected.as_object().unwrap() {
            assert_eq!(&ended[member], value, "{name}: {ended}");
        }
        let is_discovered = path == DISCOVERY && expected["status"] == "COMPLETED";
        assert_eq!(ended.get("phone_number"), is_discovered.then(|| json!(number)).as_ref(), "{name}");
    }
}
