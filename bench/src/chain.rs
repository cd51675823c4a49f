//! Baseline for request chains: bare axum handlers replay recorded responses, and send as many upstream requests as the
//! real handlers send to the operator.
//!
//! The upstream is in the same process, like the sandbox operator, and is called by hyper's client on keep-alive
//! connections. Signatures that the protocol requires are created and verified with the same library.

use std::{net::SocketAddr, process::Command, sync::Arc};

use anyhow::{Context, ensure};
use aws_lc_rs::{
    rand::SystemRandom,
    rsa::{self, KeySize},
    signature::{
        ECDSA_P256_SHA256_FIXED, ECDSA_P256_SHA256_FIXED_SIGNING, EcdsaKeyPair, KeyPair as _, ParsedPublicKey,
        RSA_PKCS1_SHA256,
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
use parking_lot::Mutex;
use serde::{Deserialize, Serialize};
use tokio::net::{TcpListener, TcpStream};

use crate::{
    bare::print_address,
    cpu_cost::CpuCost,
    deployment::{Deployment, Sqlite},
    load::{self, Preparation},
    process::Process,
    report::{self, Rates},
};

/// A route and its response. Paths are templates.
#[derive(Clone, Default, Deserialize, Serialize)]
pub struct Handler {
    pub method: String,
    pub path: String,
    /// Location of a redirect response.
    pub location: Option<String>,
    pub body: String,
    /// Take place in sequence before the response.
    pub upstream_exchanges: Vec<UpstreamExchange>,
    /// The handler replaces [`TOKEN`] in its body by a newly signed ID token.
    pub signs_token: bool,
}

/// A request to the upstream and its response.
#[derive(Clone, Deserialize, Serialize)]
pub struct UpstreamExchange {
    pub method: String,
    pub path: String,
    /// Appended to the path.
    pub query: String,
    pub body: String,
    pub response: String,
    /// The upstream replaces [`TOKEN`] by a newly signed token, and the handler verifies its signature.
    pub is_signed: bool,
}

/// Placeholder of a signed token in a response.
pub const TOKEN: &str = "{token}";

pub struct BareChain {
    _process: Process,
    pub address: SocketAddr,
}

impl BareChain {
    /// Compares a deployment with the bare handlers, in alternating rounds after a warm-up. `rate` measures operations per
    /// second at an address. Returns whether the ratio is at least `floor`.
    pub async fn compare(
        &self,
        deployment: &Deployment<Sqlite>,
        rate: impl AsyncFn(SocketAddr) -> anyhow::Result<f64>,
        baseline: &'static str,
        unit: &str,
        floor: f64,
    ) -> anyhow::Result<bool> {
        let nothing = async || Ok(());
        self.compare_rounds(deployment, nothing, async |address, ()| rate(address).await, baseline, unit, floor).await
    }

    /// Like [`compare`](Self::compare), with `count` requests in each round, which can be sent once. The bare handlers
    /// get them, too. They should last for at least half a second, because the last ones of a round wait for the disk
    /// while nothing else is done.
    pub async fn compare_prepared<P: Preparation>(
        &self,
        deployment: &Deployment<Sqlite>,
        (count, preparation): (usize, impl Fn() -> P),
        baseline: &'static str,
        unit: &str,
        floor: f64,
    ) -> anyhow::Result<bool> {
        let prepare = async || load::prepare(deployment.address, count, &preparation).await;
        let rate = async |address, requests: &Arc<[String]>| load::prepared_rate(address, requests).await;
        self.compare_rounds(deployment, prepare, rate, baseline, unit, floor).await
    }

    async fn compare_rounds<R>(
        &self,
        deployment: &Deployment<Sqlite>,
        prepare: impl AsyncFn() -> anyhow::Result<R>,
        rate: impl AsyncFn(SocketAddr, &R) -> anyhow::Result<f64>,
        baseline: &'static str,
        unit: &str,
        floor: f64,
    ) -> anyhow::Result<bool> {
        let (mut ours, mut bare) = (Rates::new("ringtrue"), Rates::new(baseline));
        let mut cost = CpuCost::on_sqlite(deployment);
        let warm_up = prepare().await?;
        for address in [deployment.address, self.address] {
            rate(address, &warm_up).await?;
        }
        for _ in 0..load::ROUNDS {
            let requests = prepare().await?;
            ours.rounds.push(cost.measure(rate(deployment.address, &requests)).await?);
            bare.rounds.push(rate(self.address, &requests).await?);
        }
        report::rates(&ours, unit);
        cost.report();
        report::rates(&bare, unit);
        Ok(report::ratio_at_least(&ours, &bare, floor))
    }
}

/// Starts the handlers as a separate process, like the measured server.
pub fn start(handlers: &[Handler]) -> anyhow::Result<BareChain> {
    let binary = std::env::current_exe()?;
    let handlers = serde_json::to_string(handlers)?;
    let process = Process::start(Command::new(binary).args(["chain", &handlers]), "listening on ")?;
    let address = process.address()?;
    Ok(BareChain { _process: process, address })
}

pub async fn serve(handlers: &str) -> anyhow::Result<()> {
    let handlers: Vec<Handler> = serde_json::from_str(handlers)?;
    let upstream_listener = TcpListener::bind("127.0.0.1:0").await?;
    let signer = Signer::new()?;
    let upstream = Arc::new(UpstreamPool {
        address: upstream_listener.local_addr()?,
        idle: Mutex::default(),
        key: signer.public_key()?,
    });
    let (mut router, mut upstream_router) = (Router::new(), Router::new());
    for handler in handlers {
        for request in &handler.upstream_exchanges {
            let filter = method(&request.method)?;
            let route = if request.is_signed {
                let (signer, response) = (signer.clone(), request.response.clone());
                on(filter, move || std::future::ready(signer.sign_response(&response)))
            } else {
                let response = Bytes::from(request.response.clone());
                on(filter, move || std::future::ready(response.clone()))
            };
            upstream_router = upstream_router.route(&request.path, route);
        }
        let (filter, path) = (method(&handler.method)?, handler.path.clone());
        let (handler, upstream) = (Arc::new(PreparedHandler::new(handler)?), Arc::clone(&upstream));
        router = router.route(&path, on(filter, move || respond(Arc::clone(&handler), Arc::clone(&upstream))));
    }
    let listener = TcpListener::bind("127.0.0.1:0").await?;
    print_address(listener.local_addr()?);
    tokio::try_join!(async { axum::serve(listener, router).await }, async {
        axum::serve(upstream_listener, upstream_router).await
    })?;
    Ok(())
}

fn method(name: &str) -> anyhow::Result<MethodFilter> {
    Ok(MethodFilter::try_from(name.parse::<Method>()?)?)
}

/// A handler with parsed requests.
struct PreparedHandler {
    upstream_exchanges: Vec<PreparedRequest>,
    location: Option<String>,
    body: Bytes,
    signer: Option<IdTokenSigner>,
}

struct PreparedRequest {
    method: Method,
    target: Uri,
    body: Bytes,
    is_signed: bool,
}

impl PreparedHandler {
    fn new(handler: Handler) -> anyhow::Result<Self> {
        let upstream_exchanges =
            handler.upstream_exchanges.into_iter().map(PreparedRequest::new).collect::<anyhow::Result<_>>()?;
        let signer = handler.signs_token.then(IdTokenSigner::new).transpose()?;
        Ok(PreparedHandler { upstream_exchanges, location: handler.location, body: handler.body.into(), signer })
    }
}

impl PreparedRequest {
    fn new(request: UpstreamExchange) -> anyhow::Result<Self> {
        let target = format!("{}{}", request.path, request.query).parse()?;
        let UpstreamExchange { body, is_signed, .. } = request;
        Ok(PreparedRequest { method: request.method.parse()?, target, body: body.into(), is_signed })
    }

    fn to_http(&self) -> Request<Full<Bytes>> {
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = self.target.clone();
        request.headers_mut().insert(HOST, HeaderValue::from_static("127.0.0.1"));
        request
    }
}

async fn respond(handler: Arc<PreparedHandler>, upstream: Arc<UpstreamPool>) -> Result<Response, StatusCode> {
    for request in &handler.upstream_exchanges {
        upstream.send(request).await.map_err(|_| StatusCode::BAD_GATEWAY)?;
    }
    Ok(match (&handler.location, &handler.signer) {
        (Some(location), _) => (StatusCode::FOUND, [(LOCATION, location.clone())]).into_response(),
        (None, Some(signer)) => signer.sign_response(&handler.body)?.into_response(),
        (None, None) => handler.body.clone().into_response(),
    })
}

struct UpstreamPool {
    address: SocketAddr,
    idle: Mutex<Vec<SendRequest<Full<Bytes>>>>,
    key: ParsedPublicKey,
}

impl UpstreamPool {
    async fn send(&self, request: &PreparedRequest) -> anyhow::Result<()> {
        let idle = self.idle.lock().pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.open().await?,
        };
        connection.ready().await?;
        let response = connection.send_request(request.to_http()).await?;
        ensure!(response.status().is_success(), "unexpected status {}", response.status());
        let body = response.into_body().collect().await?.to_bytes();
        if request.is_signed {
            verify(&self.key, std::str::from_utf8(&body)?).context("invalid token signature")?;
        }
        self.idle.lock().push(connection);
        Ok(())
    }

    #[expect(clippy::disallowed_methods, reason = "connections end with the process")]
    async fn open(&self) -> anyhow::Result<SendRequest<Full<Bytes>>> {
        let stream = TcpStream::connect(self.address).await?;
        stream.set_nodelay(true)?;
        let (sender, connection) = handshake(TokioIo::new(stream)).await?;
        tokio::spawn(connection);
        Ok(sender)
    }
}

/// Signing key of the upstream.
#[derive(Clone)]
struct Signer(Arc<EcdsaKeyPair>);

impl Signer {
    fn new() -> anyhow::Result<Self> {
        Ok(Signer(Arc::new(EcdsaKeyPair::generate(&ECDSA_P256_SHA256_FIXED_SIGNING)?)))
    }

    fn public_key(&self) -> anyhow::Result<ParsedPublicKey> {
        Ok(ParsedPublicKey::new(&ECDSA_P256_SHA256_FIXED, self.0.public_key())?)
    }

    fn sign_response(&self, response: &str) -> Result<String, StatusCode> {
        let message = format!("{:0SIGNING_INPUT_LENGTH$}", 0);
        let signature = self.0.sign(&SystemRandom::new(), message.as_bytes());
        let signature = signature.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        Ok(response.replace(TOKEN, &format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature))))
    }
}

/// Signing key of a handler: RSA with 2048 bits, as that of ID tokens.
struct IdTokenSigner(rsa::KeyPair);

impl IdTokenSigner {
    fn new() -> anyhow::Result<Self> {
        Ok(IdTokenSigner(rsa::KeyPair::generate(KeySize::Rsa2048)?))
    }

    fn sign_response(&self, response: &[u8]) -> Result<String, StatusCode> {
        let message = format!("{:0SIGNING_INPUT_LENGTH$}", 0);
        let mut signature = vec![0; self.0.public_modulus_len()];
        let signed = self.0.sign(&RSA_PKCS1_SHA256, &SystemRandom::new(), message.as_bytes(), &mut signature);
        signed.map_err(|_| StatusCode::INTERNAL_SERVER_ERROR)?;
        let token = format!("{message}.{}", BASE64_URL_SAFE_NO_PAD.encode(signature));
        Ok(String::from_utf8_lossy(response).replace(TOKEN, &token))
    }
}

/// Approximate length of the signing input of ID tokens.
const SIGNING_INPUT_LENGTH: usize = 470;

fn verify(key: &ParsedPublicKey, response: &str) -> Option<()> {
    let (_, token) = response.split_once(r#""id_token":""#)?;
    let (message, signature) = token.split('"').next()?.rsplit_once('.')?;
    key.verify_sig(message.as_bytes(), &BASE64_URL_SAFE_NO_PAD.decode(signature).ok()?).ok()
}
