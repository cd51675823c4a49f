//! `ringtrue login`, `logout`, `profiles` and `token`.

use std::{fs, path::Path};

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use url::Url;

use super::{
    api_session::ApiSession,
    arguments::{LoginArguments, ProfileOption},
    client_secret,
    listen_journal::ListenJournal,
    pending_actions::PendingActions,
    profile::{ClientCredential, Profile, ProfileName, ProfileStore, WorkspaceCredential},
    token_cache::TokenCache,
};
use crate::cli::{
    arguments::Output,
    context::CommandContext,
    error::CliError,
    listen::SecureUrl,
    printer::{self, Record},
};

const COLUMNS: [&str; 5] = ["profile", "base_url", "project_client_id", "workspace_client_id", "workspace_id"];

pub(super) async fn login(context: &CommandContext, arguments: LoginArguments) -> Result<(), CliError> {
    let name = ProfileName::resolve(context, &arguments.profile_option)?;
    let profiles = ProfileStore::open(context)?;
    let profile = match (arguments.data, arguments.base_url, arguments.client_id) {
        (Some(folder), ..) => profile_from_dev(&folder).await?,
        (None, Some(base_url), Some(client_id)) => {
            let base_url = require_origin(&base_url)?;
            // A profile keeps its other credential for the same server.
            let previous = profiles.find(&name)?.filter(|profile| profile.base_url == base_url);
            let mut profile = previous.unwrap_or_else(|| Profile::new(base_url, None));
            profile.ca_file = arguments.ca_file.map(|path| path.canonicalize().unwrap_or(path)).or(profile.ca_file);
            let client_secret = client_secret::read_client_secret(context, &client_id).await?;
            add_credential(profile, ClientCredential { client_id, client_secret }).await?
        }
        (None, ..) => return Err(CliError::with_hint("no credential given", "Use --base-url and --client-id.")),
    };
    TokenCache::delete(context, &name)?;
    profiles.save(&name, &profile)?;
    Ok(context.printer.print_record(profile_record(&name.to_string(), &profile))?)
}

pub(super) fn logout(context: &CommandContext, profile_option: &ProfileOption) -> Result<(), CliError> {
    let name = ProfileName::resolve(context, profile_option)?;
    let profiles = ProfileStore::open(context)?;
    TokenCache::delete(context, &name)?;
    PendingActions::delete(context, &name)?;
    ListenJournal::delete(context, &name)?;
    if !profiles.delete(&name)? {
        // Fails with the list of profiles.
        profiles.require(&name)?;
    }
    printer::print_note(&format!("Deleted the profile `{name}`. Its credentials remain valid."));
    Ok(())
}

pub(super) fn profiles(context: &CommandContext) -> Result<(), CliError> {
    let profiles = ProfileStore::open(context)?;
    let mut records = vec![];
    for text in profiles.names()? {
        if let Ok(name) = text.parse()
            && let Some(profile) = profiles.find(&name)?
        {
            records.push(profile_record(&text, &profile));
        }
    }
    Ok(context.printer.print_list(&COLUMNS, records)?)
}

pub(super) async fn token(
    context: &CommandContext,
    profile_option: &ProfileOption,
    scope: Scope,
) -> Result<(), CliError> {
    let token = ApiSession::open(context, profile_option)?.token(scope).await?;
    let access_token = token.access_token.reveal();
    if context.printer.output == Output::Table {
        // The bare token, for use in shell scripts.
        return Ok(printer::print_text(access_token)?);
    }
    Ok(context.printer.print_record(vec![
        ("access_token", json!(access_token)),
        ("token_type", json!("Bearer")),
        ("expires_in", json!(token.remaining_seconds())),
        ("scope", json!(scope.as_str())),
    ])?)
}

/// Never includes secrets.
fn profile_record(name: &str, profile: &Profile) -> Record {
    let workspace = profile.workspace.as_ref();
    let values = [
        json!(name),
        json!(profile.base_url.as_str().trim_end_matches('/')),
        json!(profile.project.as_ref().map(|project| &project.client_id)),
        json!(workspace.map(|workspace| &workspace.credential.client_id)),
        json!(workspace.map(|workspace| &workspace.workspace_id)),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

fn require_origin(base_url: &SecureUrl) -> Result<Url, CliError> {
    let url: Url = base_url.to_string().parse().map_err(|error: url::ParseError| CliError::Other(error.into()))?;
    if url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
        return Ok(url);
    }
    Err(CliError::with_hint(
        format!("{url} is not the base URL of a server"),
        format!("Use scheme, host and port only: --base-url {}", url.origin().ascii_serialization()),
    ))
}

/// Reads `dev.json` of a `ringtrue dev`, and verifies its credentials.
async fn profile_from_dev(folder: &Path) -> Result<Profile, CliError> {
    let path = folder.join("dev.json");
    let invalid_file = |error: String| {
        CliError::with_hint(
            format!("{}: {error}", path.display()),
            "Start `ringtrue dev`, and set its data directory with --data DIR.",
        )
    };
    let text = fs::read(&path).map_err(|error| invalid_file(error.to_string()))?;
    let profile: Profile =
        serde_json::from_slice(&text).map_err(|_| invalid_file("not a file of `ringtrue dev`".to_owned()))?;
    // The secrets must not leave this machine.
    SecureUrl::parse_local(profile.base_url.as_str()).map_err(|error| invalid_file(error.to_string()))?;
    let session = ApiSession::ephemeral(profile)?;
    for scope in [Scope::Product(Product::ReverseSms), Scope::Management] {
        session.token(scope).await?;
    }
    Ok(session.profile)
}

/// Determines whether the credential belongs to a workspace or a project by requesting a token.
async fn add_credential(mut profile: Profile, credential: ClientCredential) -> Result<Profile, CliError> {
    let earlier =
        profile.workspace.replace(WorkspaceCredential { workspace_id: String::new(), credential: credential.clone() });
    let mut session = ApiSession::ephemeral(profile.clone())?;
    match session.token(Scope::Management).await {
        Ok(_) => {
            let page = session.get(Scope::Management, &["v1", "management", "workspaces"], &[]).await?;
            let id = page.pointer("/content/0/workspace_id").and_then(Value::as_str);
            let workspace_id = id.map(str::to_owned).ok_or_else(|| {
                CliError::with_hint(
                    "this credential has access to no workspace",
                    "Ask the operator of the server for another credential.",
                )
            })?;
            session.profile.workspace = Some(WorkspaceCredential { workspace_id, credential });
            Ok(session.profile)
        }
        // Valid credential without the management scope: it belongs to a project.
        Err(CliError::Api(problem)) if problem.error_code == "invalid_scope" => {
            profile.workspace = earlier;
            profile.project = Some(credential);
            Ok(profile)
        }
        Err(other) => Err(other),
    }
}
