//! Sign-ins of browsers with a session, on SQLite: the token request, which redeems a code for an ID token; and both
//! requests, beginning with the authorization request, which gives the code without the user. The baseline is the same
//! requests to bare handlers, of which one signs a token with an RSA key of the same size.

use std::net::SocketAddr;

use anyhow::{Context, ensure};
use base64::prelude::{BASE64_STANDARD, Engine as _};
use serde_json::json;

use crate::{
    chain::{self, Handler, TOKEN},
    deployment::{Deployment, ProjectCredentials},
    load::{self, Connection, Preparation, Workload},
    report,
    silent::string_property,
};

const CALLBACK: &str = "https://app.example/callback";
const AUTHORIZE: &str = "/oauth2/authorize";
const TOKEN_PATH: &str = "/oauth2/token";
/// Simulated number that matches.
const SIM: &str = "%2B990123456700";
/// A browser returns to the client after fewer redirects.
const MAX_REDIRECTS: usize = 10;
/// Token requests of a round.
const PREPARED_REQUESTS: usize = 3_000;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Sign-ins on SQLite: from authorization code to ID token, 256 connections");
    let deployment = Deployment::start_on_sqlite("")?;
    let configuration = json!({"sign_in": {"redirect_uris": [CALLBACK], "session": 86_400}});
    let project = deployment.configured_project(&configuration).await?;
    let cookies = begin_session(deployment.address, &project).await?;
    let flow = || Flow {
        authorize: get(&format!("{AUTHORIZE}?{}", authorization_query(&project, "")), &cookies),
        basic: basic(&project),
    };
    let recorded = flow().run_flow(&mut Connection::open(deployment.address).await?).await?;
    let chain = chain::start(&recorded.handlers()?)?;

    let baseline = "bare axum handler that signs";
    let redeems = chain.compare_prepared(&deployment, (PREPARED_REQUESTS, flow), baseline, "ID tokens/s", 0.5).await?;

    report::heading("Sign-ins on SQLite: with a session, from the authorization request to the ID token");
    let rate =
        async |address: SocketAddr| load::workload_rate(address, load::CONNECTIONS, load::ROUND_DURATION, flow).await;
    let baseline = "bare axum handlers, one of which signs";
    let signs_in = chain.compare(&deployment, rate, baseline, "sign-ins/s", 0.35).await?;
    Ok(redeems && signs_in)
}

struct Flow {
    authorize: String,
    basic: String,
}

/// Responses of a flow.
struct RecordedFlow {
    location: String,
    tokens: String,
}

impl Workload for Flow {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.run_flow(connection).await.map(drop)
    }
}

/// Prepares redemptions of codes.
impl Preparation for Flow {
    async fn prepare(&mut self, connection: &mut Connection) -> anyhow::Result<String> {
        let location = self.authorize(connection).await?;
        self.redemption(&location)
    }
}

impl Flow {
    /// Returns the location that leads back to the client.
    async fn authorize(&self, connection: &mut Connection) -> anyhow::Result<String> {
        Ok(connection.fetch_redirect(self.authorize.as_bytes()).await?.to_owned())
    }

    fn redemption(&self, location: &str) -> anyhow::Result<String> {
        let code = query_parameter(location, "code").with_context(|| format!("no code in {location}"))?;
        Ok(redemption(&self.basic, code, ""))
    }

    async fn run_flow(&self, connection: &mut Connection) -> anyhow::Result<RecordedFlow> {
        let location = self.authorize(connection).await?;
        let request = self.redemption(&location)?;
        let tokens = String::from_utf8(connection.fetch_body(request.as_bytes()).await?.to_vec())?;
        ensure!(tokens.contains("id_token"), "no ID token: {tokens}");
        Ok(RecordedFlow { location, tokens })
    }
}

impl RecordedFlow {
    fn handlers(&self) -> anyhow::Result<Vec<Handler>> {
        let id_token = string_property(&self.tokens, "id_token")?;
        Ok(vec![
            Handler {
                method: "GET".to_owned(),
                path: AUTHORIZE.to_owned(),
                location: Some(self.location.clone()),
                ..Handler::default()
            },
            Handler {
                method: "POST".to_owned(),
                path: TOKEN_PATH.to_owned(),
                body: self.tokens.replace(id_token, TOKEN),
                signs_token: true,
                ..Handler::default()
            },
        ])
    }
}

/// Signs a simulated phone in. Returns the cookies of its browser.
async fn begin_session(address: SocketAddr, project: &ProjectCredentials) -> anyhow::Result<String> {
    let mut connection = Connection::open(address).await?;
    let mut cookies: Vec<String> = vec![];
    let mut path = format!("{AUTHORIZE}?{}&sim={SIM}", authorization_query(project, ""));
    for _ in 0..MAX_REDIRECTS {
        let (head, _) = connection.fetch(get(&path, &cookies.join("; ")).as_bytes()).await?;
        let location = load::header(head, b"location:").context("no redirect")?.to_owned();
        let head = String::from_utf8_lossy(head).into_owned();
        let set = head.lines().filter_map(|line| line.split_once(':'));
        let set = set.filter(|(name, _)| name.eq_ignore_ascii_case("set-cookie"));
        cookies.extend(set.filter_map(|(_, cookie)| Some(cookie.trim().split(';').next()?.to_owned())));
        if location.starts_with(CALLBACK) {
            ensure!(location.contains("code="), "the sign-in failed: {location}");
            return Ok(cookies.join("; "));
        }
        path_of(&location)?.clone_into(&mut path);
    }
    anyhow::bail!("the browser did not return")
}

/// Query of an authorization request that shows no page. `scopes` are besides `openid phone`.
fn authorization_query(project: &ProjectCredentials, scopes: &str) -> String {
    let client = &project.client_id;
    format!("response_type=code&client_id={client}&redirect_uri={CALLBACK}&scope=openid+phone{scopes}&prompt=none")
}

/// Path and query of a URL.
pub fn path_of(url: &str) -> anyhow::Result<&str> {
    let path = url.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    path.with_context(|| format!("no path in {url}"))
}

pub fn query_parameter<'a>(url: &'a str, name: &str) -> Option<&'a str> {
    let (_, query) = url.split_once('?')?;
    query.split('&').filter_map(|pair| pair.split_once('=')).find(|(one, _)| *one == name).map(|(_, value)| value)
}

pub fn basic(project: &ProjectCredentials) -> String {
    BASE64_STANDARD.encode(format!("{}:{}", project.client_id, project.client_secret))
}

/// Request that redeems a code. `fields` are additional form fields.
pub fn redemption(basic: &str, code: &str, fields: &str) -> String {
    let body = format!("grant_type=authorization_code&code={code}&redirect_uri={CALLBACK}{fields}");
    let length = body.len();
    format!(
        "POST {TOKEN_PATH} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {basic}\r\nAccept: application/json\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    )
}

fn get(path: &str, cookies: &str) -> String {
    let cookies = if cookies.is_empty() { String::new() } else { format!("Cookie: {cookies}\r\n") };
    format!("GET {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: text/html\r\n{cookies}\r\n")
}
