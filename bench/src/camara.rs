//! CAMARA's Number Verification with the sandbox operator, on SQLite: `verify` with a token; and complete flows, with
//! network authentication by redirects and the token request. The baseline is the same requests to bare handlers that
//! replay the responses of a real flow.
//!
//! `verify` sends a request to the operator. A flow has nine requests: six of the load generator, and three of the
//! server to the operator. The operator signs an ID token, whose signature the server and the bare handlers verify.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use serde_json::json;

use crate::{
    chain::{self, Handler, TOKEN, UpstreamExchange},
    creates::NumberSequence,
    deployment::{Deployment, ProjectCredentials, json_request},
    load::{self, Connection, Preparation, Workload},
    report,
    sign_in::{basic, path_of, query_parameter, redemption},
    silent::string_property,
};

/// `verify` requests of a round.
const PREPARED_REQUESTS: usize = 8_000;
const CALLBACK: &str = "https://app.example/callback";
const VERIFY: &str = "/number-verification/v2/verify";
/// The example of RFC 7636, appendix B.
const VERIFIER: &str = "dBjftJeZ4CVP-mB92K27uhbUJU1p1r_wW1gFWFOEjXk";
const CHALLENGE: &str = "E9Melhoa2OwvFrEMTJguCHaoeK1t8URWbuGJSstw-cM";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("CAMARA's verify on SQLite: with a token, and the sandbox operator, 256 connections");
    let deployment = Deployment::start_on_sqlite("[camara]\nenabled = true\n")?;
    let purposes = ["dpv:FraudPreventionAndDetection"];
    let configuration = json!({"sign_in": {"redirect_uris": [CALLBACK]}, "camara": {"purposes": purposes}});
    let project = deployment.configured_project(&configuration).await?;
    let numbers = NumberSequence::default();
    let flow = || Flow::new(&project, numbers.clone());
    let recorded = flow().run_flow(&mut Connection::open(deployment.address).await?).await?;
    let chain = chain::start(&recorded.handlers()?)?;

    let baseline = "chain of bare axum handlers";
    let verifies = chain.compare_prepared(&deployment, (PREPARED_REQUESTS, flow), baseline, "requests/s", 0.35).await?;

    report::heading("CAMARA's verify on SQLite: with network authentication at the sandbox operator, 256 devices");
    let rate =
        async |address: SocketAddr| load::workload_rate(address, load::CONNECTIONS, load::ROUND_DURATION, flow).await;
    let completes = chain.compare(&deployment, rate, baseline, "flows/s", 0.27).await?;
    Ok(verifies && completes)
}

/// Device and client of a flow.
struct Flow {
    authorize: String,
    basic: String,
    numbers: NumberSequence,
}

/// Responses of a flow.
struct RecordedFlow {
    /// Locations of the redirects, from the authorization endpoint to the client.
    locations: [String; 4],
    tokens: String,
    verified: String,
}

impl Workload for Flow {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.run_flow(connection).await.map(drop)
    }
}

/// Prepares `verify` requests with their tokens.
impl Preparation for Flow {
    async fn prepare(&mut self, connection: &mut Connection) -> anyhow::Result<String> {
        self.authenticate(connection).await.map(|authenticated| authenticated.verify_request)
    }
}

/// Responses of network authentication and the token request, and the request that follows.
struct Authenticated {
    locations: [String; 4],
    tokens: String,
    verify_request: String,
}

impl Flow {
    fn new(project: &ProjectCredentials, numbers: NumberSequence) -> Self {
        let authorize = format!(
            "/oauth2/authorize?response_type=code&client_id={}&redirect_uri={CALLBACK}\
             &scope=dpv:FraudPreventionAndDetection+number-verification:verify&prompt=none\
             &code_challenge={CHALLENGE}&code_challenge_method=S256",
            project.client_id
        );
        Flow { authorize, basic: basic(project), numbers }
    }

    async fn authenticate(&self, connection: &mut Connection) -> anyhow::Result<Authenticated> {
        let number = self.numbers.next();
        let begin = format!("{}&sim={}", self.authorize, number.replace('+', "%2B"));
        let operator = open(connection, &begin).await?;
        let callback = open(connection, path_of(&operator)?).await?;
        let back = open(connection, path_of(&callback)?).await?;
        let client = open(connection, path_of(&back)?).await?;
        let code = query_parameter(&client, "code").with_context(|| format!("no code in {client}"))?;

        let request = redemption(&self.basic, code, &format!("&code_verifier={VERIFIER}"));
        let tokens = String::from_utf8(connection.fetch_body(request.as_bytes()).await?.to_vec())?;
        let question = format!(r#"{{"phoneNumber":"{number}"}}"#);
        let verify_request = json_request("POST", VERIFY, string_property(&tokens, "access_token")?, &question);
        Ok(Authenticated { locations: [operator, callback, back, client], tokens, verify_request })
    }

    async fn run_flow(&self, connection: &mut Connection) -> anyhow::Result<RecordedFlow> {
        let Authenticated { locations, tokens, verify_request } = self.authenticate(connection).await?;
        let verified = String::from_utf8(connection.fetch_body(verify_request.as_bytes()).await?.to_vec())?;
        ensure!(verified.contains("devicePhoneNumberVerified"), "no answer: {verified}");
        Ok(RecordedFlow { locations, tokens, verified })
    }
}

/// Opens a path as the device; returns the redirect location.
async fn open(connection: &mut Connection, path: &str) -> anyhow::Result<String> {
    let request = format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n\r\n");
    Ok(connection.fetch_redirect(request.as_bytes()).await?.to_owned())
}

impl RecordedFlow {
    /// Bare handlers that replay the responses.
    fn handlers(&self) -> anyhow::Result<Vec<Handler>> {
        let [operator, callback, back, client] = &self.locations;
        let path = |url: &str| anyhow::Ok(path_of(url)?.split('?').next().unwrap_or_default().to_owned());
        let redirect = |path: String, location: &str| Handler {
            method: "GET".to_owned(),
            path,
            location: Some(location.to_owned()),
            ..Handler::default()
        };
        let post = |path: &str, body: &str| Handler {
            method: "POST".to_owned(),
            path: path.to_owned(),
            body: body.to_owned(),
            ..Handler::default()
        };
        let (_, query) = operator.split_once('?').context("no query in the operator URL")?;
        let authorize = UpstreamExchange {
            method: "GET".to_owned(),
            path: "/authorize".to_owned(),
            query: format!("?{query}"),
            body: String::new(),
            response: callback.clone(),
            is_signed: false,
        };
        let upstream = |path: &str, body: String, response: String| UpstreamExchange {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            body,
            response,
            is_signed: false,
        };
        let code = query_parameter(callback, "code").context("no code in the redirect")?;
        let form = format!("grant_type=authorization_code&code={code}&code_verifier={:043}", 0);
        let tokens =
            format!(r#"{{"access_token":"{:043}","token_type":"Bearer","expires_in":300,"id_token":"{TOKEN}"}}"#, 0);
        let token = UpstreamExchange { is_signed: true, ..upstream("/token", form, tokens) };
        let question = r#"{"phoneNumber":"+990000000000010"}"#.to_owned();
        let verify = upstream(VERIFY, question, self.verified.clone());
        Ok(vec![
            redirect("/oauth2/authorize".to_owned(), operator),
            Handler { upstream_exchanges: vec![authorize], ..redirect(path(operator)?, callback) },
            Handler { upstream_exchanges: vec![token], ..redirect(path(callback)?, back) },
            // The sign-in's token is in the path.
            redirect("/signin/{token}/return".to_owned(), client),
            post("/oauth2/token", &self.tokens),
            Handler { upstream_exchanges: vec![verify], ..post(VERIFY, &self.verified) },
        ])
    }
}
