//! Kannel of Debian: `bearerbox` binds to the SMSC, `smsbox` calls the HTTP receiver.

use std::{
    net::{SocketAddr, TcpListener, TcpStream},
    process::Command,
    time::{Duration, Instant},
};

use anyhow::bail;
use tempfile::TempDir;

use crate::process::Process;

const BEARERBOX: &str = "/usr/sbin/bearerbox";
const SMSBOX: &str = "/usr/sbin/smsbox";
const START_TIMEOUT: Duration = Duration::from_secs(10);

pub struct Kannel {
    _smsbox: Process,
    _bearerbox: Process,
    _folder: TempDir,
}

impl Kannel {
    /// `smsbox` may still be starting when this returns; `bearerbox` queues messages for it.
    pub fn start(smsc: SocketAddr, receiver: SocketAddr) -> anyhow::Result<Self> {
        let folder = tempfile::tempdir()?;
        let settings = folder.path().join("kannel.conf");
        let (admin_port, smsbox_port) = free_ports()?;
        std::fs::write(&settings, configuration(smsc, receiver, admin_port, smsbox_port))?;
        let start = |binary: &str| Process::start_silent(Command::new(binary).args(["-v", "4"]).arg(&settings));
        let bearerbox = start(BEARERBOX)?;
        let started = Instant::now();
        while TcpStream::connect(("127.0.0.1", smsbox_port)).is_err() {
            if started.elapsed() > START_TIMEOUT {
                bail!("bearerbox did not start in time");
            }
            std::thread::sleep(Duration::from_millis(50));
        }
        let smsbox = start(SMSBOX)?;
        Ok(Kannel { _smsbox: smsbox, _bearerbox: bearerbox, _folder: folder })
    }
}

/// Two currently unused ports.
fn free_ports() -> anyhow::Result<(u16, u16)> {
    let (one, other) = (TcpListener::bind("127.0.0.1:0")?, TcpListener::bind("127.0.0.1:0")?);
    Ok((one.local_addr()?.port(), other.local_addr()?.port()))
}

fn configuration(smsc: SocketAddr, receiver: SocketAddr, admin_port: u16, smsbox_port: u16) -> String {
    let (host, port) = (smsc.ip(), smsc.port());
    format!(
        "group = core\n\
         admin-port = {admin_port}\n\
         admin-interface = 127.0.0.1\n\
         admin-password = kannel\n\
         smsbox-port = {smsbox_port}\n\
         smsbox-interface = 127.0.0.1\n\
         \n\
         group = smsc\n\
         smsc = smpp\n\
         smsc-id = bench\n\
         host = {host}\n\
         port = {port}\n\
         smsc-username = sandbox\n\
         smsc-password = sandbox\n\
         system-type = \"\"\n\
         transceiver-mode = true\n\
         interface-version = 34\n\
         \n\
         group = smsbox\n\
         bearerbox-host = 127.0.0.1\n\
         \n\
         group = sms-service\n\
         keyword = default\n\
         catch-all = true\n\
         max-messages = 0\n\
         get-url = \"http://{receiver}/sms?from=%p&to=%P&text=%b\"\n"
    )
}
