//! The command `ringtrue api`, which sends any request to the API of a server.

use std::{
    fs,
    io::{self, Read},
};

use bytes::Bytes;
use http::StatusCode;
use ringtrue_domain::product::{Product, Scope};
use serde_json::Value;
use url::Url;

use crate::{
    api::{ApiSession, checks_path},
    arguments::ApiArguments,
    context::ClientContext,
    error::CommandError,
    printer,
    request_log::resolve_project,
};

/// Maximum size of the request body. Larger than the server's limit, so that the server reports the error.
const MAX_BODY_BYTES: u64 = 1024 * 1024;

/// Sends the request and prints the response body. If the response is an error, fails with the exit code for its
/// status.
pub(crate) async fn send(context: &ClientContext, arguments: ApiArguments) -> Result<(), CommandError> {
    let session = ApiSession::open(context, &arguments.profile_option)?;
    let path = expand_placeholders(&session, arguments.path.as_str()).await?;
    let url = resolve_path(session.base_url(), &path)?;
    let scope = match arguments.scope {
        Some(scope) => Some(scope),
        None => scope_of_path(url.path())?,
    };
    let body = arguments.data.as_ref().map(|data| read_body(data.as_str())).transpose()?;
    let key = arguments.idempotency_key.as_deref();
    let response = session.send_json(scope, arguments.method, &url, body, key).await?;
    let reason = StatusCode::from_u16(response.status).ok().and_then(|status| status.canonical_reason());
    printer::print_note(format!("{} {}", response.status, reason.unwrap_or_default()).trim_end());
    match serde_json::from_slice::<Value>(&response.body) {
        _ if response.body.is_empty() => {}
        Ok(document) => printer::print_json(&document)?,
        Err(_) => printer::print_text(&String::from_utf8_lossy(&response.body))?,
    }
    if (200..400).contains(&response.status) { Ok(()) } else { Err(session.problem(&response)) }
}

async fn expand_placeholders(session: &ApiSession, path: &str) -> Result<String, CommandError> {
    let mut path = path.to_owned();
    if path.contains("{workspace_id}") {
        path = path.replace("{workspace_id}", session.workspace_id()?);
    }
    if path.contains("{project_id}") {
        path = path.replace("{project_id}", &resolve_project(session, None).await?);
    }
    Ok(path)
}

/// Resolves a path on the server. Rejects URLs of other servers, which must not receive a token.
fn resolve_path(base_url: &Url, path: &str) -> Result<Url, CommandError> {
    let url = Some(path).filter(|path| path.starts_with('/')).and_then(|path| base_url.join(path).ok());
    url.filter(|url| url.origin() == base_url.origin()).ok_or_else(|| {
        CommandError::usage(
            "the path must begin with a single `/`",
            format!("Use a path on {base_url}, such as /v1/verifications. `ringtrue open docs` lists them."),
        )
    })
}

/// Returns the scope that a path requires. `None`: the path is public.
fn scope_of_path(path: &str) -> Result<Option<Scope>, CommandError> {
    let is_below = |prefix: &[&str]| {
        let mut segments = path.split('/').skip(1);
        prefix.iter().all(|expected| segments.next() == Some(expected))
    };
    if is_below(&["v1", "management"]) {
        return Ok(Some(Scope::Management));
    }
    if is_below(&["v1", "sandbox", "digital-credentials"]) {
        return Ok(Some(Scope::Product(Product::Verification)));
    }
    if is_below(&["v1", "sandbox"]) {
        return Ok(Some(Scope::Product(Product::ReverseSms)));
    }
    let is_of_path = |scope: &Scope| matches!(scope, Scope::Product(product) if is_below(checks_path(*product)));
    if let Some(scope) = Scope::of_access_tokens().find(is_of_path) {
        return Ok(Some(scope));
    }
    if is_below(&["v1"]) {
        let scopes: Vec<&str> = Scope::of_access_tokens().map(Scope::into_str).collect();
        return Err(CommandError::usage(
            "the path does not determine the token's scope",
            format!("Check the path, or set --scope to one of: {}.", scopes.join(", ")),
        ));
    }
    Ok(None)
}

/// Reads the request body: `data` itself, the content of a file for `@FILE`, or standard input for `-`.
fn read_body(data: &str) -> Result<Bytes, CommandError> {
    let read = match data.strip_prefix('@') {
        Some(path) => fs::read(path).map_err(|error| format!("cannot read {path}: {error}")),
        None if data == "-" => {
            let mut body = vec![];
            let read = io::stdin().lock().take(MAX_BODY_BYTES).read_to_end(&mut body);
            read.map(|_| body).map_err(|error| format!("cannot read standard input: {error}"))
        }
        None => Ok(data.as_bytes().to_vec()),
    };
    read.map(Bytes::from).map_err(|message| {
        CommandError::failed(message, "Use --data JSON, --data @FILE, or --data - for standard input.")
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scope_is_derived_from_the_path() {
        let product = |product| Some(Scope::Product(product));
        for (path, scope) in [
            ("/v1/management/workspaces", Some(Scope::Management)),
            ("/v1/number-verification/reverse-sms-checks", product(Product::ReverseSms)),
            ("/v1/number-verification/secure-sna-checks/1", product(Product::SecureSna)),
            ("/v1/number-verification/discovery-checks", product(Product::Discovery)),
            ("/v1/sim-swap-checks/1", product(Product::SimSwap)),
            ("/v1/verifications/1/next", product(Product::Verification)),
            ("/v1/eligibility/device-ips/192.0.2.1", product(Product::Eligibility)),
            ("/v1/sandbox/inbound-sms", product(Product::ReverseSms)),
            ("/v1/sandbox/digital-credentials", product(Product::Verification)),
            ("/openapi.json", None),
            ("/oauth2/authorize", None),
            ("/.well-known/jwks.json", None),
        ] {
            assert_eq!(scope_of_path(path).unwrap(), scope, "{path}");
        }
        for path in ["/v1", "/v1/managements", "/v1/number-verification/checks"] {
            let error = scope_of_path(path).unwrap_err();
            assert!(error.to_string().contains("sim_swap, eligibility") && error.exit_code() == 2, "{path}: {error}");
        }
    }

    #[test]
    fn path_stays_on_the_server() {
        let base_url: Url = "http://127.0.0.1:8080".parse().unwrap();
        let resolved = resolve_path(&base_url, "/v1/verifications?size=5").unwrap();
        assert_eq!(resolved.as_str(), "http://127.0.0.1:8080/v1/verifications?size=5");
        for path in ["v1/verifications", "https://example.com/v1", "//example.com/v1", "/\\example.com/v1", ""] {
            assert!(resolve_path(&base_url, path).is_err(), "{path}");
        }
    }
}
