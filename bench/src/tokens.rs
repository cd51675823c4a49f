//! Token requests: ours against npm `oidc-provider`, and against a handler that does nothing.

use std::{net::SocketAddr, path::Path, process::Command};

use anyhow::Context;
use base64::prelude::{BASE64_STANDARD, Engine as _};

use crate::{
    load,
    process::Process,
    report::{self, Rates},
};

const ROUNDS: usize = 7;

pub async fn compare() -> anyhow::Result<bool> {
    report::heading("Token requests: client credentials, 64 connections");
    let data = tempfile::tempdir()?;
    let (_ours, address, request) = ringtrue(data.path())?;
    let size = load::body_length(address, &request).await?;
    let (_provider, provider_address, provider_request) = oidc_provider()?;
    let (_bare, bare_address) = bare(size)?;

    let mut ours = Rates::new("ringtrue");
    let mut provider = Rates::new("oidc-provider");
    let mut bare = Rates::new("bare axum handler");
    // Nobody is measured cold.
    for (address, request) in [(address, &request), (provider_address, &provider_request), (bare_address, &request)] {
        load::rate(address, request).await?;
    }
    for _ in 0..ROUNDS {
        ours.rounds.push(load::rate(address, &request).await?);
        provider.rounds.push(load::rate(provider_address, &provider_request).await?);
        bare.rounds.push(load::rate(bare_address, &request).await?);
    }
    for rates in [&ours, &provider, &bare] {
        report::rates(rates, "requests/s");
    }
    let beats_the_provider = report::ratio(&ours, &provider, 12.0);
    let nears_the_bare = report::ratio(&ours, &bare, 0.6);
    Ok(beats_the_provider && nears_the_bare)
}

/// The real binary as `make dev` runs it, but for a limit on tokens that would end the comparison at once.
fn ringtrue(data: &Path) -> anyhow::Result<(Process, SocketAddr, Vec<u8>)> {
    let binary = std::env::current_exe()?.with_file_name("ringtrue");
    let process = Process::start(
        Command::new(binary)
            .args(["dev", "--listen", "127.0.0.1:0", "--data"])
            .arg(data)
            .env("RINGTRUE_RATE_LIMITS__TOKEN", "1000000"),
        "curl",
    )?;
    let ready: serde_json::Value = serde_json::from_slice(&std::fs::read(data.join("dev.json"))?)?;
    let text = |pointer: &str| ready.pointer(pointer).and_then(|value| value.as_str()).context("dev.json");
    let address = text("/base_url")?.trim_start_matches("http://").parse()?;
    let request = request("/oauth2/token", text("/project/client_id")?, text("/project/client_secret")?, "reverse_sms");
    Ok((process, address, request))
}

fn oidc_provider() -> anyhow::Result<(Process, SocketAddr, Vec<u8>)> {
    let script = Path::new(env!("CARGO_MANIFEST_DIR")).join("oidc-provider.mjs");
    let process = Process::start(Command::new("node").arg(script).env("NODE_ENV", "production"), "listening on ")?;
    let address = address(&process)?;
    Ok((process, address, request("/token", "client", "secret", "reverse_sms")))
}

fn bare(size: usize) -> anyhow::Result<(Process, SocketAddr)> {
    let binary = std::env::current_exe()?;
    let process = Process::start(Command::new(binary).args(["bare", &size.to_string()]), "listening on ")?;
    let address = address(&process)?;
    Ok((process, address))
}

fn address(process: &Process) -> anyhow::Result<SocketAddr> {
    let (_, address) = process.first_line.split_once("listening on ").context("no address")?;
    Ok(address.trim().parse()?)
}

fn request(path: &str, id: &str, secret: &str, scope: &str) -> Vec<u8> {
    let body = format!("grant_type=client_credentials&scope={scope}");
    let basic = BASE64_STANDARD.encode(format!("{id}:{secret}"));
    let length = body.len();
    format!(
        "POST {path} HTTP/1.1\r\nHost: 127.0.0.1\r\nAuthorization: Basic {basic}\r\nAccept: application/json\r\n\
         Content-Type: application/x-www-form-urlencoded\r\nContent-Length: {length}\r\n\r\n{body}"
    )
    .into_bytes()
}
