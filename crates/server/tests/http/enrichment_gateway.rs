//! nginx as an operator's gateway: devices reach us through it, and it writes their number into plain HTTP.

use std::{
    fs,
    net::SocketAddr,
    path::Path,
    process::{Child, Command, Stdio},
    time::{Duration, Instant},
};

use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{io::AsyncWriteExt, net::UnixStream, time::sleep};

use crate::{
    client::{Answer, PATIENCE, Request, parse, to_the_end},
    header_enrichment::{arrived, seeker, world},
    seeker::{DISCOVERY, SECURE_SNA},
    world::World,
};

/// The gateway's address towards us. It is in the operator's range; whoever spoofs comes from elsewhere.
const GATEWAY: &str = "127.0.0.9";
const NUMBER: &str = "+447700900123";

/// The one subscriber of the operator, and the way to us: one socket for each of our listeners.
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
        let since = Instant::now();
        while UnixStream::connect(gateway.socket("web")).await.is_err() {
            assert!(since.elapsed() < PATIENCE, "nginx does not listen");
            sleep(Duration::from_millis(20)).await;
        }
        gateway
    }

    fn socket(&self, name: &str) -> std::path::PathBuf {
        self.folder.path().join(name)
    }

    /// What a device of the operator is answered.
    async fn carries(&self, to: &str, request: &Request) -> Answer {
        let mut stream = UnixStream::connect(self.socket(to)).await.unwrap();
        let host = SocketAddr::from(([127, 0, 0, 1], 80));
        stream.write_all(&request.bytes(host)).await.unwrap();
        parse(&to_the_end(&mut stream).await, false)
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

/// The way of a device from the check's URL to the other listener: what it asks there.
async fn departed(world: &World, gateway: &Gateway, created: &Value) -> String {
    let target = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap();
    let answer = gateway.carries("web", &Request::get(target)).await.assert(302);
    let origin = format!("http://{}", world.node.enrichment_address.unwrap());
    answer.header("location").unwrap().strip_prefix(&origin).unwrap().to_owned()
}

#[tokio::test]
async fn a_gateway_tells_who_its_devices_are() {
    let world = world().await;
    let gateway = Gateway::start(&world).await;
    let secure_sna = seeker(&world, SECURE_SNA).await;
    for (number, is_match) in [(NUMBER, true), ("+447700900124", false)] {
        let created = secure_sna.post(&json!({"phone_number": number})).await.assert(201).json();
        let target = departed(&world, &gateway, &created).await;
        // The device may write what it likes: the gateway writes over it.
        let request = Request::get(&target).header("X-MSISDN", "447700900199").header("X-Forwarded-For", "127.0.1.7");
        let end = gateway.carries("enriched", &request).await.assert(200).json();
        let id = created["check_id"].as_str().unwrap();
        let redeemed = secure_sna.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
        assert_eq!(redeemed["match"], is_match);
    }
    let discovery = seeker(&world, DISCOVERY).await;
    let created = discovery.post(&json!({})).await.assert(201).json();
    let target = departed(&world, &gateway, &created).await;
    let end = gateway.carries("enriched", &Request::get(&target)).await.assert(200).json();
    let id = created["check_id"].as_str().unwrap();
    let redeemed = discovery.redeem(id, end["code"].as_str().unwrap()).await.assert(200).json();
    assert_eq!(redeemed["phone_number"], NUMBER);
}

#[tokio::test]
async fn nobody_speaks_for_a_device_past_its_gateway() {
    let world = world().await;
    let gateway = Gateway::start(&world).await;
    let discovery = seeker(&world, DISCOVERY).await;
    let spoofed = ("X-MSISDN", "447700900123");
    for from in ["127.0.1.7", "127.0.0.8"] {
        let created = discovery.post(&json!({})).await.assert(201).json();
        let target = departed(&world, &gateway, &created).await;
        let end = arrived(&world, from, &target, &[spoofed, ("X-Forwarded-For", GATEWAY)]).await;
        assert_eq!(end.get("code"), None, "{from}");
        let ended = discovery.get(created["check_id"].as_str().unwrap()).await.assert(200).json();
        assert_eq!(ended["status"], "ERROR");
    }
    // Nor at any other listener: there the header is nobody's.
    let created = discovery.post(&json!({})).await.assert(201).json();
    let target = created["url"].as_str().unwrap().strip_prefix(&world.node.base_url).unwrap();
    let request = Request::get(target).header(spoofed.0, spoofed.1);
    let answer = gateway.carries("web", &request).await.assert(302);
    assert!(answer.header("location").is_some_and(|location| location.contains("/he/legacy/")));
}
