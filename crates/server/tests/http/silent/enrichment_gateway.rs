//! nginx as an operator's gateway that adds the subscriber's number to plain HTTP requests.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
};

use ringtrue_test_support::poll_until;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::UnixStream};

use crate::{
    client::{HttpResponse, Request, parse, read_until_closed},
    silent::{
        header_enrichment::{finish_redirect, handle_target, silent, world},
        silent_client::{DISCOVERY, SECURE_SNA},
    },
    world::World,
};

/// The gateway's address, inside the operator's range. Spoofed requests come from elsewhere.
const GATEWAY: &str = "127.0.0.9";
const NUMBER: &str = "+447700900123";

/// The gateway with one subscriber and a socket for each of our listeners.
struct Gateway {
    folder: TempDir,
    nginx: Child,
}

impl Gateway {
    async fn start(world: &World) -> Self {
        let folder = tempfile::tempdir().unwrap();
        let enrichment = world.node.enrichment_address.unwrap();
        fs::write(folder.path().join("nginx.conf"), settings(folder.path(), world.node.address, enrichment)).unwrap();
        let nginx = Command::new("/usr/sbin/nginx")
            .arg("-p")
            .arg(folder.path())
            .args(["-e", "stderr", "-c", "nginx.conf"])
            .stderr(Stdio::null())
            .spawn()
            .expect("nginx: `make test` installs it");
        let gateway = Gateway { folder, nginx };
        poll_until("nginx listens", async || UnixStream::connect(gateway.socket("web")).await.is_ok()).await;
        gateway
    }

    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// Sends a request through the gateway, as a device of the operator would, to one of our listeners.
    async fn send_through(&self, to: &str, request: &Request) -> HttpResponse {
        let mut stream = UnixStream::connect(self.socket(to)).await.unwrap();
        let host = SocketAddr::from(([127, 0, 0, 1], 80));
        stream.write_all(&request.bytes(host)).await.unwrap();
        parse(&read_until_closed(&mut stream).await, false)
    }
}

impl Drop for Gateway {
    fn drop(&mut self) {
        let _ = self.nginx.kill();
        let _ = self.nginx.wait();
    }
}

fn settings(folder: &Path, public: SocketAddr, enrichment: SocketAddr) -> String {
    let folder = folder.display();
    format!(
        "daemon off;
         master_process off;
         pid {folder}/pid;
         events {{}}
         http {{
             access_log off;
             client_body_temp_path {folder}/a; proxy_temp_path {folder}/b; fastcgi_temp_path {folder}/c;
             uwsgi_temp_path {folder}/d; scgi_temp_path {folder}/e;
             proxy_http_version 1.1;
             proxy_bind {GATEWAY};
             server {{
                 listen unix:{folder}/web;
                 location / {{ proxy_pass http://{public}; proxy_set_header Host $http_host; }}
             }}
             server {{
                 listen unix:{folder}/enriched;
                 location / {{
                     proxy_pass http://{enrichment};
                     proxy_set_header X-MSISDN {};
                 }}
             }}
         }}",
        NUMBER.trim_start_matches('+')
    )
}

/// Opens the URL of a check through the gateway. Returns the path on the enrichment listener to which it redirects.
async fn redirected_target(world: &World, gateway: &Gateway, created: &Value) -> String {
    let target = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap();
    let response = gateway.send_through("web", &Request::get(target)).await.assert(302);
    let origin = format!("http://{}", world.node.enrichment_address.unwrap());
    response.header("location").unwrap().strip_prefix(&origin).unwrap().to_owned()
}

#[tokio::test]
async fn trusted_gateway_identifies_devices() {
    let world = world().await;
    let gateway = Gateway::start(&world).await;
    let secure_sna = silent(&world, SECURE_SNA).await;
    for (number, is_match) in [(NUMBER, true), ("+447700900124", false)] {
        let created = secure_sna.post(&json!({"phone_number": number})).await.assert(201).json();
        let target = redirected_target(&world, &gateway, &created).await;
        // A device cannot forge the headers, because the gateway overwrites them.
        let request = Request::get(&target).header("X-MSISDN", "447700900199").header("X-Forwarded-For", "127.0.1.7");
        let handle = handle_target(&world, &gateway.send_through("enriched", &request).await);
        let end = gateway.send_through("web", &Request::get(&handle)).await.assert(200).json();
        let id = created["check_id"].as_str().unwrap();
        let redeemed = secure_sna.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!(redeemed["match"], is_match);
    }
    let discovery = silent(&world, DISCOVERY).await;
    let created = discovery.post(&json!({})).await.assert(201).json();
    let target = redirected_target(&world, &gateway, &created).await;
    let handle = handle_target(&world, &gateway.send_through("enriched", &Request::get(&target)).await);
    let end = gateway.send_through("web", &Request::get(&handle)).await.assert(200).json();
    let id = created["check_id"].as_str().unwrap();
    let redeemed = discovery.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], NUMBER);
}

#[tokio::test]
async fn forged_enrichment_headers_are_ignored() {
    let world = world().await;
    let gateway = Gateway::start(&world).await;
    let discovery = silent(&world, DISCOVERY).await;
    let spoofed = ("X-MSISDN", "447700900123");
    for from in ["127.0.1.7", "127.0.0.8"] {
        let created = discovery.post(&json!({})).await.assert(201).json();
        let target = redirected_target(&world, &gateway, &created).await;
        let end = finish_redirect(&world, from, &target, &[spoofed, ("X-Forwarded-For", GATEWAY)]).await;
        assert_eq!(end.get("code"), None, "{from}");
        let ended = discovery.get(created["check_id"].as_str().unwrap()).await.assert(200).json();
        assert_eq!(ended["status"], "ERROR");
    }
    // The header is ignored on all other listeners.
    let created = discovery.post(&json!({})).await.assert(201).json();
    let target = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap();
    let request = Request::get(target).header(spoofed.0, spoofed.1);
    let response = gateway.send_through("web", &request).await.assert(302);
    assert!(response.header("location").is_some_and(|location| location.contains("/he/legacy/")));
}
