//! Token requests, against npm `oidc-provider` and a bare handler.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::Context;

use crate::{
    bare,
    deployment::{binary, token_request},
    load,
    process::Process,
    report::{self, Rates},
};

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Token requests: client credentials, 256 connections");
    let data = tempfile::tempdir()?;
    let (_ours, address, request) = start_ringtrue(data.path())?;
    let size = load::body_length(address, &request).await?;
    let (_provider, provider_address, provider_request) = start_oidc_provider()?;
    let bare_handler = bare::start(size)?;

    let mut ours = Rates::new("ringtrue");
    let mut provider = Rates::new("oidc-provider");
    let mut bare = Rates::new("bare axum handler");
    // Warm-up.
    for (address, request) in
        [(address, &request), (provider_address, &provider_request), (bare_handler.address, &request)]
    {
        load::rate(address, request).await?;
    }
    for _ in 0..load::ROUNDS {
        ours.rounds.push(load::rate(address, &request).await?);
        provider.rounds.push(load::rate(provider_address, &provider_request).await?);
        bare.rounds.push(load::rate(bare_handler.address, &request).await?);
    }
    for rates in [&ours, &provider, &bare] {
        report::rates(rates, "requests/s");
    }
    let reaches_provider_ratio = report::ratio_at_least(&ours, &provider, 10.0);
    let reaches_bare_ratio = report::ratio_at_least(&ours, &bare, 0.6);
    Ok(reaches_provider_ratio && reaches_bare_ratio)
}

/// Starts `ringtrue dev` with raised limits for tokens and connections per address.
fn start_ringtrue(data: &Path) -> anyhow::Result<(Process, SocketAddr, Vec<u8>)> {
    let process = Process::start(
        Command::new(binary()?)
            .args(["dev", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("RINGTRUE_HTTP__MAX_CONNECTIONS_PER_ADDRESS", "5000")
            .env("RINGTRUE_RATE_LIMITS__TOKEN", "1000000"),
        "is ready",
    )?;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(data.join("dev.json"))?)?;
    let text = |pointer: &str| ready.pointer(pointer).and_then(|value| value.as_str()).context("dev.json");
    let address = text("/base_url")?.trim_start_matches("http://").parse()?;
    let (id, secret) = (text("/project/client_id")?, text("/project/client_secret")?);
    let request = token_request("/oauth2/token", id, secret, "reverse_sms");
    Ok((process, address, request))
}

fn start_oidc_provider() -> anyhow::Result<(Process, SocketAddr, Vec<u8>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oidc-provider.mjs");
    let process = Process::start(Command::new("node").arg(script).env("NODE_ENV", "production"), "listening on ")?;
    let address = process.address()?;
    Ok((process, address, token_request("/token", "client", "secret", "reverse_sms")))
}
