//! Kannel from the Debian package, on free ports and in its own folder.

use std::{
    fs,
    net::{Ipv4Addr, SocketAddr, TcpListener},
    path::Path,
    process::{Child, Command, Stdio},
};

use ringtrue_engine::ports::entropy::{Entropy, SystemEntropy};
use ringtrue_test_support::{
    http_client::{self, Request},
    poll_until,
};
use tempfile::TempDir;

use super::deployment::{PATH_SECRET, PUBLIC_URL};

const BEARERBOX: &str = "/usr/sbin/bearerbox";
const SMSBOX: &str = "/usr/sbin/smsbox";
const FAKESMSC: &str = "/usr/lib/kannel/test/fakesmsc";

const MANUAL: &str = include_str!(concat!(env!("CARGO_MANIFEST_DIR"), "/../../docs/connectors.md"));

/// Free ports outside the range of ephemeral ports, so that no other program takes them before Kannel listens.
pub struct Ports {
    pub ingress: u16,
    admin: u16,
    smsbox: u16,
    smsc: u16,
}

impl Ports {
    pub fn free() -> Self {
        let entropy = SystemEntropy::default();
        let mut held = vec![];
        while held.len() < 4 {
            let port = 10_000 + u16::from_be_bytes((&entropy as &dyn Entropy).bytes()) % 20_000;
            // The port must be free on all addresses, because Kannel listens on all of them.
            held.extend(TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)));
        }
        let port = |index: usize| held[index].local_addr().unwrap().port();
        Ports { ingress: port(0), admin: port(1), smsbox: port(2), smsc: port(3) }
    }
}

/// How Kannel calls our ingress.
pub enum WebhookMethod {
    Get,
    Post,
}

/// Running Kannel. Dropping it stops its processes and removes its files.
pub struct Kannel {
    smsc: u16,
    folder: TempDir,
    _smsbox: Process,
    _bearerbox: Process,
}

impl Kannel {
    /// Starts `bearerbox` and `smsbox`, and waits until they are connected.
    pub async fn start(ports: &Ports, method: WebhookMethod) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let settings = folder.path().join("kannel.conf");
        fs::write(&settings, configuration(ports, &method, folder.path())).unwrap();
        let start_box = |binary| Process::start(Command::new(binary).args(["-v", "4"]).arg(&settings));

        let bearerbox = start_box(BEARERBOX);
        let admin = SocketAddr::from((Ipv4Addr::LOCALHOST, ports.admin));
        poll_until("bearerbox listens", async || tokio::net::TcpStream::connect(admin).await.is_ok()).await;
        let smsbox = start_box(SMSBOX);
        poll_until("smsbox is connected", async || {
            let status = http_client::send(admin, &Request::get("/status.txt?password=kannel")).await.text();
            status.contains("FAKE[") && status.contains("smsbox:") && status.contains("on-line")
        })
        .await;
        Kannel { smsc: ports.smsc, folder, _smsbox: smsbox, _bearerbox: bearerbox }
    }

    /// Sends an SMS from a phone through a simulated SMSC, which stops when the returned process is dropped.
    pub fn text(&self, from: &str, to: &str, body: &str) -> Process {
        let digits = |number: &str| number.trim_start_matches('+').to_owned();
        let message = format!("{} {} text {body}", digits(from), digits(to));
        let port = self.smsc.to_string();
        let arguments = ["-H", "127.0.0.1", "-r", &port, "-i", "0.1", "-m", "1", &message];
        Process::start(Command::new(FAKESMSC).args(arguments))
    }

    /// Returns whether `smsbox` failed to deliver this SMS to us and retries. Works with GET only, because its log then
    /// contains the URL with the code.
    pub fn retries(&self, body: &str) -> bool {
        let code = body.rsplit(' ').next().unwrap();
        let log = fs::read(self.folder.path().join("smsbox.log")).unwrap_or_default();
        String::from_utf8_lossy(&log).lines().any(|line| line.contains("Retrying request") && line.contains(code))
    }
}

/// Returns the configuration of the manual, completed with the gateway's own settings.
fn configuration(ports: &Ports, method: &WebhookMethod, folder: &Path) -> String {
    let Ports { ingress, admin, smsbox, smsc } = ports;
    let folder = folder.display();
    let mut ours = block("kannel");
    if let WebhookMethod::Post = method {
        let get_url = ours.lines().find(|line| line.starts_with("get-url")).expect("a line").to_owned();
        ours = ours.replace(&get_url, block("kannel post").trim_end());
    }
    let url = format!("http://127.0.0.1:{ingress}/southbound/sms/kannel/{PATH_SECRET}");
    assert!(ours.contains(PUBLIC_URL), "the manual contains the public URL");
    let ours = ours
        .replace(&format!("{PUBLIC_URL}/PATH-SECRET"), &url)
        .replace("http-queue-delay = 10\n", "http-queue-delay = 1\n")
        .replace("group = smsbox\n", &format!("group = smsbox\nlog-file = \"{folder}/smsbox.log\"\nlog-level = 0\n"));
    format!(
        "group = core\n\
         admin-port = {admin}\n\
         admin-interface = 127.0.0.1\n\
         admin-password = kannel\n\
         smsbox-port = {smsbox}\n\
         smsbox-interface = 127.0.0.1\n\
         log-file = \"{folder}/bearerbox.log\"\n\
         store-type = file\n\
         store-location = \"{folder}/store\"\n\
         \n\
         group = smsc\n\
         smsc = fake\n\
         smsc-id = FAKE\n\
         port = {smsc}\n\
         connect-allow-ip = 127.0.0.1\n\
         \n\
         {ours}"
    )
}

/// Returns the code block of this name in the manual.
fn block(name: &str) -> String {
    let (_, rest) = MANUAL.split_once(&format!("```ini {name}\n")).unwrap_or_else(|| panic!("no block {name}"));
    rest.split_once("```").expect("a fence").0.to_owned()
}

/// A process killed on drop.
pub struct Process(Child);

impl Process {
    fn start(command: &mut Command) -> Self {
        let child = command.stdin(Stdio::null()).stdout(Stdio::null()).stderr(Stdio::null()).spawn();
        let name = command.get_program().to_string_lossy().into_owned();
        Process(child.unwrap_or_else(|error| panic!("{name}: {error}; `make setup` installs Kannel")))
    }
}

impl Drop for Process {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}
