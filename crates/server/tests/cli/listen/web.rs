//! Fake web servers: one with the key set, one as the application that receives forwarded callbacks.

use std::{
    io::{BufRead, BufReader, Read, Write},
    net::{TcpListener, TcpStream},
    sync::{
        Arc,
        mpsc::{self, Receiver},
    },
    thread,
};

use parking_lot::Mutex;
use ringtrue_callback_signature::{CallbackPublicKey, CallbackSigner};
use ringtrue_domain::tenancy::Mode;
use serde_json::json;

/// Web server that sends the same response to every request, and records the requests.
pub struct Web {
    pub address: String,
    answer: Arc<Mutex<String>>,
    pub requests: Receiver<String>,
}

impl Web {
    pub fn start(answer: String) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap().to_string();
        let answer = Arc::new(Mutex::new(answer));
        let (sender, requests) = mpsc::channel();
        let answers = Arc::clone(&answer);
        // Runs until the process exits.
        thread::spawn(move || {
            for stream in listener.incoming().map_while(Result::ok) {
                let Some(request) = read(&stream) else { continue };
                let _ = sender.send(request);
                let answer = answers.lock().clone();
                let _ = (&stream).write_all(answer.as_bytes());
            }
        });
        Web { address, answer, requests }
    }

    pub fn key_set(keys: &[&CallbackSigner]) -> Self {
        Web::start(key_set(keys))
    }

    pub fn publish(&self, keys: &[&CallbackSigner]) {
        *self.answer.lock() = key_set(keys);
    }

    pub fn url(&self, target: &str) -> String {
        format!("http://{}{target}", self.address)
    }
}

fn key_set(keys: &[&CallbackSigner]) -> String {
    let keys = keys.iter().map(|key| key.public());
    let jwk = |key: &CallbackPublicKey| {
        let mut jwk = json!({"kty": "RSA", "kid": key.kid, "n": key.n, "e": key.e});
        if key.mode == Mode::Sandbox {
            jwk["use_mode"] = json!("sandbox");
        }
        jwk
    };
    let keys: Vec<_> = keys.map(jwk).collect();
    let body = json!({ "keys": keys }).to_string();
    format!("HTTP/1.1 200 OK\r\ncontent-length: {}\r\n\r\n{body}", body.len())
}

fn read(stream: &TcpStream) -> Option<String> {
    let mut reader = BufReader::new(stream);
    let mut head = String::new();
    while !head.ends_with("\r\n\r\n") {
        if reader.read_line(&mut head).ok()? == 0 {
            return None;
        }
    }
    let length = head.lines().find_map(|line| line.strip_prefix("content-length: ")?.parse().ok()).unwrap_or(0);
    let mut body = vec![0; length];
    reader.read_exact(&mut body).ok()?;
    Some(head + &String::from_utf8_lossy(&body))
}
