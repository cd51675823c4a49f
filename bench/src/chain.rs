//! Contestants that do nothing, in a chain: bare axum handlers that answer what the real ones have answered, and ask
//! other bare handlers as often as the real ones ask an operator.
//!
//! The operator's side is in the same process, as the sandbox's is, and is asked on connections that stay open.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use axum::{
    Router,
    http::{Method, StatusCode, header::LOCATION},
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use bytes::Bytes;
use serde::{Deserialize, Serialize};
use tokio::net::TcpListener;

use crate::{bare::announce, load::Connection, process::Process};

/// A route, and what it answers. Paths are templates.
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct Handler {
    pub method: String,
    pub path: String,
    /// Where it leads; then the answer is a redirect.
    pub location: Option<String>,
    pub body: String,
    /// What it asks, one after the other, before it answers.
    pub asks: Vec<Question>,
}

/// A request to the operator's side.
#[derive(Clone, Deserialize, Serialize)]
pub struct Question {
    pub method: String,
    pub path: String,
    /// What stands after the path.
    pub query: String,
    pub body: String,
    pub answer: String,
}

pub struct Chain {
    _process: Process,
    pub address: SocketAddr,
}

/// Starts them as a process of their own, as their rivals are.
pub fn start(handlers: &[Handler]) -> anyhow::Result<Chain> {
    let binary = std::env::current_exe()?;
    let handlers = serde_json::to_string(handlers)?;
    let process = Process::start(Command::new(binary).args(["chain", &handlers]), "listening on ")?;
    let address = process.address()?;
    Ok(Chain { _process: process, address })
}

pub async fn serve(handlers: &str) -> anyhow::Result<()> {
    let handlers: Vec<Handler> = serde_json::from_str(handlers)?;
    let operator = TcpListener::bind("127.0.0.1:0").await?;
    let asked = Arc::new(Pool { address: operator.local_addr()?, idle: Mutex::default() });
    let (mut front, mut behind) = (Router::new(), Router::new());
    for handler in handlers {
        for question in &handler.asks {
            let answer = Bytes::from(question.answer.clone());
            let route = on(method(&question.method)?, move || std::future::ready(answer.clone()));
            behind = behind.route(&question.path, route);
        }
        let (filter, path) = (method(&handler.method)?, handler.path.clone());
        let (known, asked) = (Arc::new(Known::new(handler)), Arc::clone(&asked));
        front = front.route(&path, on(filter, move || answer(Arc::clone(&known), Arc::clone(&asked))));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    announce(listener.local_addr()?);
    tokio::try_join!(async { axum::serve(listener, front).await }, async { axum::serve(operator, behind).await })?;
    Ok(())
}

fn method(name: &str) -> anyhow::Result<MethodFilter> {
    Ok(MethodFilter::try_from(name.parse::<Method>()?)?)
}

/// What a handler says, ready to be sent.
struct Known {
    questions: Vec<Vec<u8>>,
    location: Option<String>,
    body: Bytes,
}

impl Known {
    fn new(handler: Handler) -> Self {
        let questions = handler.asks.iter().map(Question::request).collect();
        Known { questions, location: handler.location, body: handler.body.into() }
    }
}

impl Question {
    fn request(&self) -> Vec<u8> {
        let Question { method, path, query, body, .. } = self;
        let length = body.len();
        format!("{method} {path}{query} HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Length: {length}\r\n\r\n{body}")
            .into_bytes()
    }
}

async fn answer(known: Arc<Known>, asked: Arc<Pool>) -> Result<Response, StatusCode> {
    for question in &known.questions {
        asked.ask(question).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    }
    Ok(match &known.location {
        Some(location) => (StatusCode::FOUND, [(LOCATION, location.clone())]).into_response(),
        None => known.body.clone().into_response(),
    })
}

struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<Connection>>,
}

impl Pool {
    async fn ask(&self, question: &[u8]) -> anyhow::Result<()> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => Connection::open(self.address).await?,
        };
        connection.exchange(question).await?;
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(())
    }
}
