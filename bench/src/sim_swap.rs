//! SIM Swap checks through the sandbox operator, on SQLite: each asks the operator once, and is durable when it is
//! answered. Against a handler that does nothing but ask another that does nothing.

use std::net::SocketAddr;

use anyhow::ensure;

use crate::{
    chain::{self, Handler, Question},
    cost::Cost,
    creates::Numbers,
    deployment::{Deployment, json_request},
    load::{self, Connection},
    report::{self, Rates},
};

const CHECKS: &str = "/v1/sim-swap-checks";

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("SIM Swap on SQLite: one question to the sandbox operator for each check, 256 connections");
    let deployment = Deployment::start_on_sqlite("")?;
    let project = deployment.sandbox_project_for("sim_swap").await?;
    let numbers = Numbers::default();
    let request = {
        let token = project.token.clone();
        move |numbers: &Numbers| {
            json_request("POST", CHECKS, &token, &format!(r#"{{"phone_number":"{}"}}"#, numbers.next()))
        }
    };
    let mut connection = Connection::open(deployment.address).await?;
    let told = String::from_utf8(connection.exchange(request(&numbers).as_bytes()).await?.to_vec())?;
    ensure!(told.contains(r#""status":"COMPLETED""#), "the operator was not asked: {told}");
    let chain = chain::start(&[Handler {
        method: "POST".to_owned(),
        path: CHECKS.to_owned(),
        body: told,
        asks: vec![question()],
        ..Handler::default()
    }])?;

    let rate = async |address: SocketAddr| {
        let (request, numbers) = (request.clone(), numbers.clone());
        let write = move |next: &mut Vec<u8>| next.extend_from_slice(request(&numbers).as_bytes());
        load::rate_of(address, load::CONNECTIONS, load::ROUND, write).await
    };
    let mut ours = Rates::new("SIM Swap checks");
    let mut bare = Rates::new("a bare handler that asks another");
    let mut cost = Cost::on_sqlite(&deployment);
    // Nobody is measured cold.
    for address in [deployment.address, chain.address] {
        rate(address).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(cost.count(rate(deployment.address)).await?);
        bare.rounds.push(rate(chain.address).await?);
    }
    report::rates(&ours, "requests/s");
    cost.report();
    report::rates(&bare, "requests/s");
    Ok(report::ratio(&ours, &bare, 0.5))
}

/// What the operator is asked.
fn question() -> Question {
    Question {
        method: "POST".to_owned(),
        path: "/sim-swap/v2/retrieve-date".to_owned(),
        query: String::new(),
        body: r#"{"phoneNumber":"+990000000000010"}"#.to_owned(),
        answer: r#"{"latestSimChange":"2024-09-06T10:30:00Z"}"#.to_owned(),
        is_signed: false,
    }
}
