//! Whole Secure SNA flows through the sandbox operator, on SQLite: a check is created, its device goes to the operator
//! and comes back, the code is redeemed. Against the same requests to handlers that do nothing, which are answered what
//! a real flow was answered.
//!
//! Eight requests in all: five by the load, and three by the server to the operator, for the device's authorization, for
//! a token and for the number. With the token comes an ID token, which the operator must sign, and whose signature must
//! be verified where no TLS tells who sent it (OpenID Connect Core 1.0, 2 and 3.1.3.7): the bare handlers do that as well,
//! and nothing else.

use std::net::SocketAddr;

use anyhow::{Context, ensure};

use crate::{
    chain::{self, Handler, Question, TOKEN},
    cost::Cost,
    creates::Numbers,
    deployment::{Deployment, json_request},
    load::{self, Connection, Errand},
    report::{self, Rates},
};

const CHECKS: &str = "/v1/number-verification/secure-sna-checks";
const AUTHORIZE: &str = "/v1/sandbox/operator/authorize";
const CALLBACK: &str = "/southbound/camara/sandbox/callback";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Silent flows on SQLite: Secure SNA through the sandbox operator, 256 devices at a time");
    let deployment = Deployment::start_on_sqlite("")?;
    let project = deployment.sandbox_project_for("secure_sna").await?;
    let numbers = Numbers::default();
    let flow = || Flow { token: project.token.clone(), numbers: numbers.clone() };
    let told = flow().whole(&mut Connection::open(deployment.address).await?).await?;
    let chain = chain::start(&told.handlers()?)?;

    let rate = async |address: SocketAddr| load::rate_of_errands(address, load::CONNECTIONS, load::ROUND, flow).await;
    let mut ours = Rates::new("silent flows");
    let mut bare = Rates::new("the same chain of bare handlers");
    let mut cost = Cost::on_sqlite(&deployment);
    // Nobody is measured cold.
    for address in [deployment.address, chain.address] {
        rate(address).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(cost.count(rate(deployment.address)).await?);
        bare.rounds.push(rate(chain.address).await?);
    }
    report::rates(&ours, "flows/s");
    cost.report();
    report::rates(&bare, "flows/s");
    Ok(report::ratio(&ours, &bare, 0.4))
}

/// A backend and its user's device.
struct Flow {
    token: String,
    numbers: Numbers,
}

/// What a flow was answered.
struct Told {
    created: String,
    at_operator: String,
    back: String,
    farewell: String,
    redeemed: String,
}

impl Errand for Flow {
    async fn run(&mut self, connection: &mut Connection) -> anyhow::Result<()> {
        self.whole(connection).await.map(drop)
    }
}

impl Flow {
    async fn whole(&self, connection: &mut Connection) -> anyhow::Result<Told> {
        let body = format!(r#"{{"phone_number":"{}"}}"#, self.numbers.next());
        let request = json_request("POST", CHECKS, &self.token, &body);
        let created = String::from_utf8(connection.exchange(request.as_bytes()).await?.to_vec())?;

        let at_operator = opened(connection, member(&created, "url")?).await?;
        let back = opened(connection, &at_operator).await?;
        let farewell = String::from_utf8(connection.exchange(&device_request(&back)?).await?.to_vec())?;

        let path = format!("{CHECKS}/{}", member(&created, "check_id")?);
        let body = format!(r#"{{"code":"{}"}}"#, member(&farewell, "code")?);
        let request = json_request("POST", &path, &self.token, &body);
        let redeemed = String::from_utf8(connection.exchange(request.as_bytes()).await?.to_vec())?;
        ensure!(member(&redeemed, "status")? == "COMPLETED", "a check did not complete: {redeemed}");
        Ok(Told { created, at_operator, back, farewell, redeemed })
    }
}

/// A device follows a URL: the one that it is sent to next.
async fn opened(connection: &mut Connection, url: &str) -> anyhow::Result<String> {
    Ok(connection.redirected(&device_request(url)?).await?.to_owned())
}

fn device_request(url: &str) -> anyhow::Result<Vec<u8>> {
    let target = url.split_once("://").and_then(|(_, rest)| Some(&rest[rest.find('/')?..]));
    let target = target.with_context(|| format!("no path in {url}"))?;
    Ok(format!("GET {target} HTTP/1.1\r\nHost: 127.0.0.1\r\nAccept: application/json\r\n\r\n").into_bytes())
}

/// A text in flat JSON that has nothing to unescape.
fn member<'a>(json: &'a str, name: &str) -> anyhow::Result<&'a str> {
    let value = json.split_once(&format!("\"{name}\":\"")).and_then(|(_, rest)| rest.split('"').next());
    value.with_context(|| format!("no {name} in {json}"))
}

impl Told {
    /// Handlers that tell the next flow the same.
    fn handlers(&self) -> anyhow::Result<Vec<Handler>> {
        let handler = |method: &str, path: String, body: &str| Handler {
            method: method.to_owned(),
            path,
            body: body.to_owned(),
            ..Handler::default()
        };
        let leading =
            |path: String, location: &str| Handler { location: Some(location.to_owned()), ..handler("GET", path, "") };
        let (_, query) = self.at_operator.split_once('?').context("nothing is said to the operator")?;
        let (_, code) = self.back.split_once("code=").context("no code of the operator")?;
        let code = code.split('&').next().unwrap_or_default();
        let asks_to_authorize = Question {
            method: "GET".to_owned(),
            path: "/authorize".to_owned(),
            query: format!("?{query}"),
            body: String::new(),
            answer: self.back.clone(),
            is_signed: false,
        };
        let (callback, _) = self.back.split_once('?').context("nothing is brought back")?;
        let post = |path: &str, body: String, answer: String| Question {
            method: "POST".to_owned(),
            path: path.to_owned(),
            query: String::new(),
            body,
            answer,
            is_signed: false,
        };
        let asks_for_token = Question {
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
        let asks_for_number = post(
            "/number-verification/v2/verify",
            r#"{"phoneNumber":"+990000000000010"}"#.to_owned(),
            r#"{"devicePhoneNumberVerified":true}"#.to_owned(),
        );
        Ok(vec![
            handler("POST", CHECKS.to_owned(), &self.created),
            leading(format!("{CHECKS}/{{check_id}}/redirect"), &self.at_operator),
            Handler { asks: vec![asks_to_authorize], ..leading(AUTHORIZE.to_owned(), &self.back) },
            Handler {
                asks: vec![asks_for_token, asks_for_number],
                ..handler("GET", CALLBACK.to_owned(), &self.farewell)
            },
            handler("POST", format!("{CHECKS}/{{check_id}}"), &self.redeemed),
        ])
    }
}
