//! Durable SIM Swap checks with one request to the sandbox operator, on SQLite, against a bare handler with one
//! upstream request.

use std::net::SocketAddr;

use anyhow::ensure;

use crate::{
    chain::{self, Handler, UpstreamExchange},
    creates::NumberSequence,
    deployment::{Deployment, json_request},
    load::{self, Connection},
    report,
};

const CHECKS: &str = "/v1/sim-swap-checks";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("SIM Swap checks on SQLite: one request to the sandbox operator each, 256 connections");
    let deployment = Deployment::start_on_sqlite("")?;
    let project = deployment.sandbox_project_for("sim_swap").await?;
    let numbers = NumberSequence::default();
    let request = {
        let token = project.token.clone();
        move |numbers: &NumberSequence| {
            json_request("POST", CHECKS, &token, &format!(r#"{{"phone_number":"{}"}}"#, numbers.next()))
        }
    };
    let mut connection = Connection::open(deployment.address).await?;
    let response = String::from_utf8(connection.fetch_body(request(&numbers).as_bytes()).await?.to_vec())?;
    ensure!(response.contains(r#""status":"COMPLETED""#), "check did not complete: {response}");
    let chain = chain::start(&[Handler {
        method: "POST".to_owned(),
        path: CHECKS.to_owned(),
        body: response,
        upstream_exchanges: vec![operator_request()],
        ..Handler::default()
    }])?;

    let rate = async |address: SocketAddr| {
        let (request, numbers) = (request.clone(), numbers.clone());
        let write = move |next: &mut Vec<u8>| next.extend_from_slice(request(&numbers).as_bytes());
        load::generated_rate(address, load::CONNECTIONS, load::ROUND_DURATION, write).await
    };
    chain.compare(&deployment, rate, "bare axum handler with one upstream request", "requests/s", 0.4).await
}

fn operator_request() -> UpstreamExchange {
    UpstreamExchange {
        method: "POST".to_owned(),
        path: "/sim-swap/v2/retrieve-date".to_owned(),
        query: String::new(),
        body: r#"{"phoneNumber":"+990000000000010"}"#.to_owned(),
        response: r#"{"latestSimChange":"2024-09-06T10:30:00Z"}"#.to_owned(),
        is_signed: false,
    }
}
