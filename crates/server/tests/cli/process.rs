//! Runs the binary and sends requests to it.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::TcpStream,
    path::Path,
    process::{Child, Command, ExitStatus, Output, Stdio},
    sync::mpsc::{self, Receiver},
    thread,
    time::{Duration, Instant},
};

use serde_json::Value;

/// Timeout for a command. Long enough for busy machines.
pub const TIMEOUT: Duration = Duration::from_mins(1);

/// Returns a command that runs the binary with an empty environment.
pub fn ringtrue(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrue"));
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// Output of a command that has exited.
pub struct CommandOutput(Output);

pub fn run(command: &mut Command) -> CommandOutput {
    CommandOutput(command.output().expect("the binary runs"))
}

impl From<Output> for CommandOutput {
    fn from(output: Output) -> Self {
        CommandOutput(output)
    }
}

impl CommandOutput {
    pub fn code(&self) -> Option<i32> {
        self.0.status.code()
    }

    pub fn text(&self) -> String {
        String::from_utf8(self.0.stdout.clone()).expect("the output is UTF-8")
    }

    pub fn errors(&self) -> String {
        String::from_utf8(self.0.stderr.clone()).expect("the output is UTF-8")
    }

    #[track_caller]
    pub fn expect_code(self, code: i32) -> Self {
        assert_eq!(self.code(), Some(code), "{}\n{}", self.text(), self.errors());
        self
    }

    #[track_caller]
    pub fn json(self) -> Value {
        let done = self.expect_code(0);
        serde_json::from_str(&done.text()).expect("the output is JSON")
    }
}

/// Long-running command, killed on drop.
pub struct RunningCommand {
    child: Child,
    lines: Receiver<String>,
}

impl RunningCommand {
    pub fn start(command: &mut Command) -> Self {
        let mut child = command.stdout(Stdio::piped()).spawn().expect("the binary runs");
        let output = child.stdout.take().expect("the output is piped");
        let (sender, lines) = mpsc::channel();
        thread::spawn(move || {
            for line in BufReader::new(output).lines().map_while(Result::ok) {
                if sender.send(line).is_err() {
                    break;
                }
            }
        });
        RunningCommand { child, lines }
    }

    /// Waits for the first line that contains `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        self.lines_until(text).pop().expect("the line")
    }

    /// Waits for the first line that contains `text`, and returns it after the lines before it.
    #[track_caller]
    pub fn lines_until(&self, text: &str) -> Vec<String> {
        let mut seen = vec![];
        let deadline = Instant::now() + TIMEOUT;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            let is_last = line.contains(text);
            seen.push(line);
            if is_last {
                return seen;
            }
        }
        panic!("no line with {text:?} in:\n{}", seen.join("\n"));
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell runs").success());
    }

    /// Waits for the process to exit.
    #[track_caller]
    pub fn wait_for_exit(&mut self) -> ExitStatus {
        // The channel closes when the process exits.
        let deadline = Instant::now() + TIMEOUT;
        while self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < deadline, "the process does not exit");
        self.child.wait().expect("the exit status")
    }

    #[track_caller]
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.wait_for_exit().code(), Some(0));
    }
}

impl Drop for RunningCommand {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Returns a URL without its scheme, which is `host:port` for a base URL.
pub fn address(url: &str) -> &str {
    url.strip_prefix("http://").expect("plain HTTP")
}

/// Sends a request. Returns the status and body of the response.
pub fn request(base_url: &str, head: &str, body: &str) -> (u16, String) {
    let response = raw_request(base_url, head, body);
    let status = response.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    let body = response.split_once("\r\n\r\n").expect("a head and a body").1;
    (status, body.to_owned())
}

/// Sends a request. Returns the head and body of the response.
pub fn raw_request(base_url: &str, head: &str, body: &str) -> String {
    let address = address(base_url);
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(TIMEOUT)).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut response = String::new();
    stream.read_to_string(&mut response).expect("a response");
    response
}

pub fn get(base_url: &str, path: &str) -> (u16, String) {
    request(base_url, &format!("GET {path} HTTP/1.1"), "")
}

/// Requests a token with a credential printed by a command, and returns the status.
pub fn token(base_url: &str, credential: &Value, scope: &str) -> u16 {
    let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().expect("a credential"));
    let login = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{id}:{secret}"));
    let head = format!(
        "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic {login}\r\ncontent-type: application/x-www-form-urlencoded"
    );
    request(base_url, &head, &format!("grant_type=client_credentials&scope={scope}")).0
}
