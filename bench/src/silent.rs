//! Complete Secure SNA flows with the sandbox operator, on SQLite: create a check, redirect the device to the operator
//! and back, redeem the code. The baseline is the same requests to bare handlers that replay the responses of a real
//! flow.
//!
//! A flow has eight requests: five of the load generator, and three of the server to the operator (authorization,
//! token, number). The operator signs an ID token, whose signature must be verified without TLS (OpenID Connect Core
//! 1.0, 2 and 3.1.3.7); the bare handlers do this, too.

use std::net::SocketAddr;

use anyhow::{Context, ensure};

use crate::{
    chain::{self, Handler, TOKEN, UpstreamExchange},
    creates::NumberSequence,
    deployment::{Deployment, json_request},
    load::{self, Connection, Workload},
    report,
};

const CHECKS: &str = "/v1/number-verification/secure-sna-checks";
const AUTHORIZE: &str = "/v1/sandbox/operator/authorize";
const CALLBACK: &str = "/southbound/camara/sandbox/callback";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Secure SNA flows on SQLite: with the sandbox operator, 256 concurrent devices");
    let deployment = Deployment::start_on_sqlite("")?;
    let project = deployment.sandbox_project_for("secure_sna").await?;
    let numbers = NumberSequence::default();
    let flow = || Flow { token: project.token.clone(), numbers: numbers.clone() };
    let recorded = flow().run_flow(&mut Connection::open(deployment.address).await?).await?;
    let chain = chain::start(&recorded.handlers()?)?;

    let rate =
        async |address: SocketAddr| load::workload_rate(address, load::CONNECTIONS, load::ROUND_DURATION, flow).await;
    chain.compare(&deployment, rate, "chain of bare axum handlers", "flows/s", 0.35).await
}

/// Backend and device of a flow.
struct Flow {
    token: String,
    numbers: NumberSequence,
}

/// Responses of a flow.
struct RecordedFlow {
    created: String,
    operator_url: String,
    callback_url: String,
    device_response: String,
    redeemed: String,
}

impl Workload for Flow {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.run_flow(connection).await.map(drop)
    }
}

impl Flow {
    async fn run_flow(&self, connection: &mut Connection) -> anyhow::Result<RecordedFlow> {
        let body = format!(r#"{{"phone_number":"{}"}}"#, self.numbers.next());
        let request = json_request("POST", CHECKS, &self.token, &body);
        let created = String::from_utf8(connection.fetch_body(request.as_bytes()).await?.to_vec())?;

        let operator_url = open(connection, string_property(&created, "url")?).await?;
        let callback_url = open(connection, &operator_url).await?;
        let device_response =
            String::from_utf8(connection.fetch_body(&device_request(&callback_url)?).await?.to_vec())?;

        let path = format!("{CHECKS}/{}", string_property(&created, "check_id")?);
        let body = format!(r#"{{"code":"{}"}}"#, string_property(&device_response, "code")?);
        let request = json_request("POST", &path, &self.token, &body);
        let redeemed = String::from_utf8(connection.fetch_body(request.as_bytes()).await?.to_vec())?;
        ensure!(string_property(&redeemed, "status")? == "COMPLETED", "check did not complete: {redeemed}");
        Ok(RecordedFlow { created, operator_url, callback_url, device_response, redeemed })
    }
}

/// Opens a URL as the device; returns the redirect location.
async fn open(connection: &mut Connection, url: &str) -> anyhow::Result<String> {
    Ok(connection.fetch_redirect(&device_request(url)?).await?.to_owned())
}

/// Request of a device that opens a URL.
pub fn device_request(url: &str) -> anyhow::Result<Vec<u8>> {
    let target = url.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    let target = target.with_context(|| format!("no path in {url}"))?;
    Ok(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n").into_bytes())
}

/// A string property of flat JSON without escapes.
pub fn string_property<'a>(json: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let value = json.split_once(&format!("\"{name}\":\"")).and_then(|(_, rest)| rest.split('"').next());
    value.with_context(|| format!("no {name} in {json}"))
}

impl RecordedFlow {
    /// Bare handlers that replay the responses.
    fn handlers(&self) -> anyhow::Result<Vec<Handler>> {
        let handler = |method: &str, path: String, body: &str| Handler {
            method: method.to_owned(),
            path,
            body: body.to_owned(),
            ..Handler::default()
        };
        let redirect =
            |path: String, location: &str| Handler { location: Some(location.to_owned()), ..handler("GET", path, "") };
        let (_, query) = self.operator_url.split_once('?').context("no query in the operator URL")?;
        let (_, code) = self.callback_url.split_once("code=").context("no code in the redirect")?;
        let code = code.split('&').next().unwrap_or_default();
        let authorize_request = UpstreamExchange {
            method: "GET".to_owned(),
            path: "/authorize".to_owned(),
            query: format!("?{query}"),
            body: String::new(),
            response: self.callback_url.clone(),
            is_signed: false,
        };
        let (callback, _) = self.callback_url.split_once('?').context("no query in the redirect")?;
        let post = |path: &str, body: String, response: String| UpstreamExchange {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            body,
            response,
            is_signed: false,
        };
        let token_request = UpstreamExchange {
            is_signed: true,
            ..post(
                "/token",
                format!("grant_type=authorization_code&code={code}&redirect_uri={callback}&code_verifier={:043}", 0),
                format!(
                    r#"{{"access_token":"{:043}","token_type":"Bearer","expires_in":300,"id_token":"{TOKEN}"}}"#,
                    0
                ),
            )
        };
        let verify_request = post(
            "/number-verification/v2/verify",
            r#"{"phoneNumber":"+990000000000010"}"#.to_owned(),
            r#"{"devicePhoneNumberVerified":true}"#.to_owned(),
        );
        Ok(vec![
            handler("POST", CHECKS.to_owned(), &self.created),
            redirect(format!("{CHECKS}/{{check_id}}/redirect"), &self.operator_url),
            Handler {
                upstream_exchanges: vec![authorize_request],
                ..redirect(AUTHORIZE.to_owned(), &self.callback_url)
            },
            Handler {
                upstream_exchanges: vec![token_request, verify_request],
                ..handler("GET", CALLBACK.to_owned(), &self.device_response)
            },
            handler("POST", format!("{CHECKS}/{{check_id}}"), &self.redeemed),
        ])
    }
}
