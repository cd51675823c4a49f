//! A `ringtrue serve` process, which is killed on drop.

use std::{
    io::{BufRead, BufReader},
    net::SocketAddr,
    process::{Child, Command, ExitStatus, Stdio},
    thread,
};

use serde_json::Value;
use tokio::{sync::watch, time::timeout};

use crate::{
    WAIT_LIMIT,
    http_client::{self, HttpResponse, Request},
};

#[derive(Debug)]
pub struct ServerProcess {
    pub address: SocketAddr,
    /// The log line with which the server reports that it is ready, as JSON. It contains the addresses of the
    /// listeners.
    pub ready: Value,
    child: Child,
    has_exited: watch::Receiver<bool>,
}

impl ServerProcess {
    /// Starts a process and waits until it is ready. It must log JSON. `None`: it exited before it was ready.
    pub fn start(command: &mut Command) -> Option<Self> {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary starts: run `make setup`");
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines().map_while(Result::ok);
        let mut messages = lines.by_ref().filter_map(|line| serde_json::from_str::<Value>(&line).ok());
        let Some(ready) = messages.find(|message| message["message"] == "ready") else {
            child.wait().unwrap();
            return None;
        };
        let address = ready["address"].as_str().unwrap().parse().unwrap();
        let (exited, has_exited) = watch::channel(false);
        thread::spawn(move || {
            // The output closes when the process has ended, together with any tracer that shares the output, such as
            // `strace`.
            lines.for_each(drop);
            exited.send_replace(true);
        });
        Some(ServerProcess { address, ready, child, has_exited })
    }

    pub async fn get(&self, path: &str, token: &str) -> HttpResponse {
        self.send(Request::get(path).bearer(token)).await
    }

    pub async fn send(&self, request: Request) -> HttpResponse {
        http_client::send(self.address, &request).await
    }

    /// Sends SIGKILL and waits for the end of the process.
    pub fn kill(&mut self) {
        self.child.kill().unwrap();
        self.child.wait().unwrap();
    }

    pub fn id(&self) -> u32 {
        self.child.id()
    }

    /// Sends SIGTERM. Does not wait for the end of the process.
    pub fn terminate(&self) {
        let status = Command::new("kill").args(["-TERM", &self.child.id().to_string()]).status().expect("kill runs");
        assert!(status.success(), "{status}");
    }

    pub async fn wait_for_exit(&mut self) -> ExitStatus {
        timeout(WAIT_LIMIT, self.has_exited.wait_for(|has_exited| *has_exited))
            .await
            .expect("the process exits")
            .expect("the process is watched");
        self.child.wait().unwrap()
    }
}

impl Drop for ServerProcess {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}
