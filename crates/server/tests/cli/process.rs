//! Running the binary, and talking to it.

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

/// Longer than anything here takes, even on a machine that is busy.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The binary, in a folder, with none of our own environment.
pub fn ringtrue(folder: &Path) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_ringtrue"));
    command.current_dir(folder).env_clear().stdin(Stdio::null());
    command
}

/// What came of a command that ends by itself.
pub struct Done(Output);

pub fn run(command: &mut Command) -> Done {
    Done(command.output().expect("the binary runs"))
}

impl From<Output> for Done {
    fn from(output: Output) -> Self {
        Done(output)
    }
}

impl Done {
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

/// A server that runs until it is told to stop, or the test ends.
pub struct Server {
    child: Child,
    lines: Receiver<String>,
}

impl Server {
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
        Server { child, lines }
    }

    /// Waits for the first line that contains `text`.
    #[track_caller]
    pub fn wait_for(&self, text: &str) -> String {
        let mut seen = vec![];
        let deadline = Instant::now() + PATIENCE;
        while let Ok(line) = self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())) {
            if line.contains(text) {
                return line;
            }
            seen.push(line);
        }
        panic!("no line with {text:?} in:\n{}", seen.join("\n"));
    }

    pub fn signal(&self, name: &str) {
        let kill = format!("kill -{name} {}", self.child.id());
        assert!(Command::new("sh").args(["-c", &kill]).status().expect("a shell runs").success());
    }

    /// Waits for the end.
    #[track_caller]
    pub fn end(&mut self) -> ExitStatus {
        // The output ends with the process.
        let deadline = Instant::now() + PATIENCE;
        while self.lines.recv_timeout(deadline.saturating_duration_since(Instant::now())).is_ok() {}
        assert!(Instant::now() < deadline, "the server does not end");
        self.child.wait().expect("a child can be waited for")
    }

    #[track_caller]
    pub fn stop(mut self) {
        self.signal("TERM");
        assert_eq!(self.end().code(), Some(0));
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The address in a URL.
pub fn address(url: &str) -> &str {
    url.strip_prefix("http://").expect("plain HTTP")
}

/// Sends a request, and gives status and body of the answer.
pub fn request(base_url: &str, head: &str, body: &str) -> (u16, String) {
    let address = address(base_url);
    let mut stream = TcpStream::connect(address).expect("the server listens");
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    let length = body.len();
    write!(stream, "{head}\r\nhost: {address}\r\ncontent-length: {length}\r\nconnection: close\r\n\r\n{body}").unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).expect("an answer comes");
    let status = answer.split(' ').nth(1).and_then(|status| status.parse().ok()).expect("a status line");
    let body = answer.split_once("\r\n\r\n").expect("a head and a body").1;
    (status, body.to_owned())
}

pub fn get(base_url: &str, path: &str) -> (u16, String) {
    request(base_url, &format!("GET {path} HTTP/1.1"), "")
}

/// Asks for a token by the credential in a document of the command line.
pub fn token(base_url: &str, credential: &Value, scope: &str) -> u16 {
    let [id, secret] = ["client_id", "client_secret"].map(|name| credential[name].as_str().expect("a credential"));
    let login = base64::Engine::encode(&base64::prelude::BASE64_STANDARD, format!("{id}:{secret}"));
    let head = format!(
        "POST /oauth2/token HTTP/1.1\r\nauthorization: Basic {login}\r\ncontent-type: application/x-www-form-urlencoded"
    );
    request(base_url, &head, &format!("grant_type=client_credentials&scope={scope}")).0
}
