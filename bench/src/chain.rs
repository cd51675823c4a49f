//! Contestants that do nothing, in a chain: bare axum handlers that answer what the real ones have answered, and ask
//! other bare handlers as often as the real ones ask an operator.
//!
//! The operator's side is in the same process, as the sandbox's is, and is asked by hyper's client on connections that stay
//! open. Where the protocol between the two demands a signature, it is made and verified here too, with the same library:
//! nobody who speaks that protocol could do without.

use std::{
    net::SocketAddr,
    process::Command,
    sync::{Arc, Mutex, PoisonError},
};

use anyhow::{Context, ensure};
use aws_lc_rs::{
    rand::SystemRandom,
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, ParsedPublicKey,
    },
};
use axum::{
    Router,
    http::{
        HeaderValue, Method, Request, StatusCode, Uri,
        header::{HOST, LOCATION},
    },
    response::{IntoResponse, Response},
    routing::{MethodFilter, on},
};
use base64::prelude::{BASE64_URL_SAFE_NO_PAD, Engine as _};
use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::http1::{SendRequest, handshake};
use hyper_util::rt::TokioIo;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use crate::{bare::announce, process::Process};

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
    /// The answer holds a token instead of [`TOKEN`], which the operator signs anew for each request, and whose signature
    /// whoever asks verifies.
    pub is_signed: bool,
}

/// Where a token is to stand in an answer.
pub const TOKEN: &str = "{token}";

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
    let signer = Signer::new()?;
    let asked = Arc::new(Pool { address: operator.local_addr()?, idle: Mutex::default(), key: signer.public_key()? });
    let (mut front, mut behind) = (Router::new(), Router::new());
    for handler in handlers {
        for question in &handler.asks {
            let filter = method(&question.method)?;
            let route = if question.is_signed {
                let (signer, answer) = (signer.clone(), question.answer.clone());
                on(filter, move || std::future::ready(signer.answer(&answer)))
            } else {
                let answer = Bytes::from(question.answer.clone());
                on(filter, move || std::future::ready(answer.clone()))
            };
            behind = behind.route(&question.path, route);
        }
        let (filter, path) = (method(&handler.method)?, handler.path.clone());
        let (known, asked) = (Arc::new(Known::new(handler)?), Arc::clone(&asked));
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
    asks: Vec<Asked>,
    location: Option<String>,
    body: Bytes,
}

struct Asked {
    method: Method,
    target: Uri,
    body: Bytes,
    is_signed: bool,
}

impl Known {
    fn new(handler: Handler) -> anyhow::Result<Self> {
        let asks = handler.asks.into_iter().map(Asked::new).collect::<anyhow::Result<_>>()?;
        Ok(Known { asks, location: handler.location, body: handler.body.into() })
    }
}

impl Asked {
    fn new(question: Question) -> anyhow::Result<Self> {
        let target = format!("{}{}", question.path, question.query).parse()?;
        let Question { body, is_signed, .. } = question;
        Ok(Asked { method: question.method.parse()?, target, body: body.into(), is_signed })
    }

    fn request(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        request.headers_mut().insert(HOST, HeaderValue::from_static("127.0.0.1"));
        request
    }
}

async fn answer(known: Arc<Known>, asked: Arc<Pool>) -> Result<Response, StatusCode> {
    for question in &known.asks {
        asked.ask(question).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    }
    Ok(match &known.location {
        Some(location) => (StatusCode::FOUND, [(LOCATION, location.clone())]).into_response(),
        None => known.body.clone().into_response(),
    })
}

struct Pool {
    address: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    key: ParsedPublicKey,
}

impl Pool {
    async fn ask(&self, question: &Asked) -> anyhow::Result<()> {
        let kept = self.idle.lock().unwrap_or_else(PoisonError::into_inner).pop();
        let mut connection = match kept {
            Some(connection) => connection,
            None => self.open().await?,
        };
        connection.ready().await?;
        let answer = connection.send_request(question.request()).await?;
        ensure!(answer.status().is_success(), "answered {}", answer.status());
        let body = answer.into_body().collect().await?.to_bytes();
        if question.is_signed {
            verify(&self.key, std::str::from_utf8(&body)?).context("the token is not signed")?;
        }
        self.idle.lock().unwrap_or_else(PoisonError::into_inner).push(connection);
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "a connection ends with the process")]
    async fn open(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// The operator's key.
#[derive(Clone)]
struct Signer(Arc<EcdsaKeyPair>);

impl Signer {
    fn new() -> anyhow::Result<Self> {
        Ok(Signer(Arc::new(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?)))
    }

    fn public_key(&self) -> anyhow::Result<ParsedPublicKey> {
        Ok(ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.0.public_key())?)
    }

    fn answer(&self, answer: &str) -> Result<String, StatusCode> {
        let message = format!("{:0LENGTH$}", 0);
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(answer.replace(TOKEN, &format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))))
    }
}

/// How long the signed part of the sandbox's ID tokens is, about.
const LENGTH: usize = 470;

fn verify(key: &ParsedPublicKey, answer: &str) -> Option<()> {
    let (_, token) = answer.split_once(r#""id_token":""#)?;
    let (message, signature) = token.split('"').next()?.rsplit_once('.')?;
    key.verify_sig(message.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?).ok()
}
