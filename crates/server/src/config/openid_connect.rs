//! Settings of the sign-in to the console by OpenID Connect.

use std::path::PathBuf;

use ringtrue_domain::account::Role;
use ringtrue_engine::accounts::{IdentityPolicy, WorkspaceClaim};
use ringtrue_operators::openid_connect::ClientSecret;
use serde::Deserialize;
use url::Url;

use super::{
    ConfigError,
    document::{SecretParser, Section},
    value_parser::{ValueParser, boolean, display_name, list, optional, path, plain_url, string, token, value},
};

#[derive(Clone, Debug)]
pub struct OpenIdConnectSection {
    /// Issuer URL, exactly as the provider's discovery document spells it.
    pub issuer: String,
    pub client_id: String,
    /// Client secret. `None`: a public client.
    pub client_secret: Option<ClientSecret>,
    pub scopes: Vec<String>,
    pub provider_name: String,
    pub ca_file: Option<PathBuf>,
    pub roles_claim: String,
    pub policy: IdentityPolicy,
}

#[derive(Deserialize)]
#[serde(deny_unknown_fields)]
struct WorkspaceItem {
    value: String,
    workspace: String,
    role: String,
}

/// Reads the section. `None`: no issuer is set, so sign-in by OpenID Connect is off.
pub(super) fn read(section: &Section<'_>) -> Result<Option<OpenIdConnectSection>, ConfigError> {
    let secret: SecretParser<ClientSecret> = ("a secret", |text| (!text.is_empty()).then(|| text.into()));
    // Read even if OpenID Connect is off, so that errors are reported.
    let policy = IdentityPolicy {
        create_accounts: section.get("create_accounts", boolean())?,
        administrators: section.get("administrators", list(display_name()))?,
        workspaces: read_workspaces(section)?,
    };
    let client_secret = section.get_opt_secret("client_secret", &secret)?;
    let (scopes, provider_name) =
        (section.get("scopes", list(token()))?, section.get("provider_name", display_name())?);
    let (ca_file, roles_claim) =
        (section.get("ca_file", optional(path()))?, section.get("roles_claim", identifier_parser())?);
    let client_id = section.get("client_id", optional(identifier_parser()))?;
    if section.get("issuer", optional(issuer_parser()))?.is_none() {
        return Ok(None);
    }
    let missing_id = || section.invalid("client_id", "nothing", "the client id, because `issuer` is set");
    Ok(Some(OpenIdConnectSection {
        // Keeps the text instead of the parsed URL, because issuers are compared as text, and parsing may add a slash.
        issuer: section.get("issuer", token())?,
        client_id: client_id.ok_or_else(missing_id)?,
        client_secret,
        scopes,
        provider_name,
        ca_file,
        roles_claim,
        policy,
    }))
}

fn identifier_parser() -> ValueParser<String> {
    string("1 to 300 characters without whitespace and control characters", |text| {
        let is_allowed = |symbol: char| !symbol.is_whitespace() && !symbol.is_control();
        (1..=300).contains(&text.len()) && text.chars().all(is_allowed)
    })
}

/// Parses the issuer's URL. Without TLS, an attacker on the network path could sign in as any user.
fn issuer_parser() -> ValueParser<Url> {
    plain_url("the https:// URL of an issuer, or an http:// URL of a loopback address", |url| match url.scheme() {
        "https" => url.has_host(),
        "http" => match url.host() {
            Some(url::Host::Ipv4(address)) => address.is_loopback(),
            Some(url::Host::Ipv6(address)) => address.is_loopback(),
            Some(url::Host::Domain(name)) => name == "localhost",
            None => false,
        },
        _ => false,
    })
}

fn read_workspaces(section: &Section<'_>) -> Result<Vec<WorkspaceClaim>, ConfigError> {
    const ALLOWED: &str = "a list, each item { value = \"...\", workspace = \"ID\", role = \"viewer\" }, with a \
                           workspace id and the role \"viewer\", \"developer\" or \"owner\"";
    let items: Vec<WorkspaceItem> = section.get("workspaces", value(ALLOWED))?;
    let claim = |item: WorkspaceItem| {
        let role = item.role.parse::<Role>().ok()?;
        Some(WorkspaceClaim { value: item.value, workspace: item.workspace.parse().ok()?, role })
    };
    let claims: Option<Vec<_>> = items.into_iter().map(claim).collect();
    claims.ok_or_else(|| section.invalid("workspaces", section.render_value("workspaces"), ALLOWED))
}
