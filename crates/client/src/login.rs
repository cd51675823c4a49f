//! The commands `ringtrue login`, `logout`, `profiles` and `token`.

use std::{
    fs::File,
    io::{self, IsTerminal, Read},
    path::Path,
};

use ringtrue_domain::product::{Product, Scope};
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use serde_json::{Value, json};
use tokio::signal::unix::{SignalKind, signal};
use url::Url;

use crate::{
    api::ApiSession,
    argument_values::SecureUrl,
    arguments::{LoginArguments, ProfileOption},
    context::{CLIENT_SECRET_VARIABLE, ClientContext},
    error::CommandError,
    listen::ListenJournal,
    printer::{self, Output, Record},
    profile::{
        ClientCredential, Profile, ProfileStore, ProjectCredential, Secret, TokenCache, WorkspaceCredential,
        resolve_profile,
    },
    prompt::prompt_line,
    trigger::PendingActions,
};

const COLUMNS: [&str; 5] = ["profile", "base_url", "project_client_id", "workspace_client_id", "workspace_id"];
const MAX_SECRET_BYTES: u64 = 1_024;

pub(crate) async fn login(context: &ClientContext, arguments: LoginArguments) -> Result<(), CommandError> {
    let name = resolve_profile(context, &arguments.profile_option)?;
    let profiles = ProfileStore::open(context)?;
    let profile = match (arguments.data, arguments.base_url, arguments.client_id) {
        (Some(folder), ..) => profile_from_dev(context, &folder).await?,
        (None, base_url, client_id) => {
            let previous = profiles.find(&name)?;
            let (base_url, client_id) = ask_for_missing(base_url, client_id, previous.as_ref()).await?;
            let base_url = require_origin(&base_url)?;
            // If the profile has another credential for the same server, that credential is kept.
            let previous = previous.filter(|profile| profile.base_url == base_url);
            let mut profile = previous.unwrap_or_else(|| Profile::new(base_url, None));
            profile.ca_file = arguments.ca_file.map(|path| path.canonicalize().unwrap_or(path)).or(profile.ca_file);
            let client_secret = read_client_secret(context, &client_id).await?;
            add_credential(context, profile, ClientCredential { client_id, client_secret }).await?
        }
    };
    TokenCache::delete(context, &name)?;
    profiles.save(&name, &profile)?;
    Ok(context.printer.print_record(profile_record(&name.to_string(), &profile))?)
}

pub(crate) fn logout(context: &ClientContext, profile_option: &ProfileOption) -> Result<(), CommandError> {
    let name = resolve_profile(context, profile_option)?;
    let profiles = ProfileStore::open(context)?;
    TokenCache::delete(context, &name)?;
    PendingActions::delete_all(context, &name)?;
    ListenJournal::delete(context, &name)?;
    if !profiles.delete(&name)? {
        // Fails with an error that lists the existing profiles.
        profiles.require(&name)?;
    }
    printer::print_note(&format!("Deleted the profile `{name}`. Its credentials remain valid."));
    Ok(())
}

pub(crate) fn profiles(context: &ClientContext) -> Result<(), CommandError> {
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

/// Returns the names of all profiles, for shell completion.
pub fn list_profile_names(context: &ClientContext) -> Result<Vec<String>, CommandError> {
    ProfileStore::open(context)?.names()
}

pub(crate) async fn token(
    context: &ClientContext,
    profile_option: &ProfileOption,
    scope: Scope,
) -> Result<(), CommandError> {
    let token = ApiSession::open(context, profile_option)?.token(scope).await?;
    let access_token = token.access_token.reveal();
    if context.printer.output == Output::Table {
        // Prints only the token, for use in shell scripts.
        return Ok(printer::print_text(access_token)?);
    }
    Ok(context.printer.print_record(vec![
        ("access_token", json!(access_token)),
        ("token_type", json!("Bearer")),
        ("expires_in", json!(token.remaining_seconds())),
        ("scope", json!(scope.into_str())),
    ])?)
}

/// Returns the fields of a profile to print, without its secrets.
fn profile_record(name: &str, profile: &Profile) -> Record {
    let workspace = profile.workspace.as_ref();
    let values = [
        json!(name),
        json!(profile.base_url.as_str().trim_end_matches('/')),
        json!(profile.project.as_ref().map(|project| &project.credential.client_id)),
        json!(workspace.map(|workspace| &workspace.credential.client_id)),
        json!(workspace.map(|workspace| &workspace.workspace_id)),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

fn require_origin(base_url: &SecureUrl) -> Result<Url, CommandError> {
    let url = base_url.as_url();
    if url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
        return Ok(url.clone());
    }
    Err(CommandError::usage(
        format!("{url} is not the base URL of a server"),
        format!("Use scheme, host and port only: --base-url {}", url.origin().ascii_serialization()),
    ))
}

/// Prompts for the URL and the client id if they are missing and standard input is a terminal.
async fn ask_for_missing(
    base_url: Option<SecureUrl>,
    client_id: Option<String>,
    previous: Option<&Profile>,
) -> Result<(SecureUrl, String), CommandError> {
    const DEV_FILE: &str = "ringtrue-data/dev.json";
    if (base_url.is_none() || client_id.is_none()) && !io::stdin().is_terminal() {
        let missing: Vec<&str> = [("--base-url", base_url.is_none()), ("--client-id", client_id.is_none())]
            .into_iter()
            .filter_map(|(option, is_missing)| is_missing.then_some(option))
            .collect();
        return Err(CommandError::usage(
            format!("{} missing, and standard input is not a terminal", missing.join(" and ")),
            "Use --base-url URL and --client-id ID; or, for `ringtrue dev`, --data ringtrue-data.",
        ));
    }
    let base_url = if let Some(base_url) = base_url {
        base_url
    } else {
        if Path::new(DEV_FILE).is_file() {
            printer::print_note("For the `ringtrue dev` of this directory, use `ringtrue login --data ringtrue-data`.");
        }
        let default = previous.map(|profile| profile.base_url.as_str().trim_end_matches('/').to_owned());
        prompt_line("URL of the server", default.as_deref()).await?
    };
    let client_id = match client_id {
        Some(client_id) => client_id,
        None => prompt_line("Client id of a project or workspace", None).await?,
    };
    Ok((base_url, client_id))
}

/// Reads the file `dev.json` that `ringtrue dev` has written, and verifies its credentials.
async fn profile_from_dev(context: &ClientContext, folder: &Path) -> Result<Profile, CommandError> {
    let path = folder.join("dev.json");
    let invalid_file = |error: String| {
        CommandError::failed(
            format!("{}: {error}", path.display()),
            "Start `ringtrue dev`, and set its data directory with --data DIR.",
        )
    };
    let profile = Profile::read_dev_file(&path).map_err(invalid_file)?;
    // Accepts only a server on this machine, because the secrets must not leave it.
    SecureUrl::parse_local(profile.base_url.as_str()).map_err(|error| invalid_file(error.to_string()))?;
    let session = ApiSession::ephemeral(context, profile)?;
    for scope in [Scope::Product(Product::ReverseSms), Scope::Management] {
        session.token(scope).await?;
    }
    Ok(session.profile)
}

/// Adds a credential to a profile. Requests a token to find out whether it belongs to a workspace or a project.
async fn add_credential(
    context: &ClientContext,
    mut profile: Profile,
    credential: ClientCredential,
) -> Result<Profile, CommandError> {
    // The workspace id is still unknown. The token request does not need it, and the second request finds it.
    let earlier =
        profile.workspace.replace(WorkspaceCredential { workspace_id: String::new(), credential: credential.clone() });
    let mut session = ApiSession::ephemeral(context, profile.clone())?;
    match session.token(Scope::Management).await {
        Ok(_) => {
            let page = session.get(Scope::Management, &["v1", "management", "workspaces"], &[]).await?;
            let id = page.pointer("/content/0/workspace_id").and_then(Value::as_str);
            let workspace_id = id.map(str::to_owned).ok_or_else(|| {
                CommandError::failed(
                    "this credential has access to no workspace",
                    "Ask the operator of the server for another credential.",
                )
            })?;
            session.profile.workspace = Some(WorkspaceCredential { workspace_id, credential });
            Ok(session.profile)
        }
        // The credential is valid, but has no management scope, so it belongs to a project.
        Err(CommandError::Api(problem)) if problem.error_code == "invalid_scope" => {
            profile.workspace = earlier;
            profile.project = Some(ProjectCredential { project_id: None, credential });
            Ok(profile)
        }
        Err(other) => Err(other),
    }
}

/// Reads a client secret from the environment, from a prompt without echo, or from standard input.
async fn read_client_secret(context: &ClientContext, client_id: &str) -> Result<Secret, CommandError> {
    if let Some(secret) = context.environment.client_secret.as_ref().filter(|secret| !secret.is_empty()) {
        return Ok(Secret::new(secret.clone()));
    }
    let input = if io::stdin().is_terminal() {
        prompt_without_echo(format!("Client secret of {client_id}: ")).await
    } else {
        io::read_to_string(io::stdin().lock().take(MAX_SECRET_BYTES))
    };
    let input = input.map_err(|error| match error.kind() {
        io::ErrorKind::Interrupted => CommandError::failed("interrupted", "No changes were made."),
        _ => CommandError::failed(
            format!("cannot read standard input: {error}"),
            format!("Pipe the secret in, or set {CLIENT_SECRET_VARIABLE}."),
        ),
    })?;
    match input.trim() {
        "" => Err(CommandError::failed(
            "no client secret given",
            format!("Enter it at the prompt, pipe it in, or set {CLIENT_SECRET_VARIABLE}."),
        )),
        secret => Ok(Secret::new(secret.to_owned())),
    }
}

async fn prompt_without_echo(prompt: String) -> io::Result<String> {
    // The prompt raises SIGINT on Ctrl+C. With a handler, the process stays alive until the echo is restored.
    let _handler = signal(SignalKind::interrupt())?;
    let read = || {
        // rpassword prints the prompt before it turns the echo off. A secret pasted in between would be visible.
        let _echo_off = EchoOff::new()?;
        rpassword::prompt_password(prompt)
    };
    tokio::task::spawn_blocking(read).await.map_err(io::Error::other)?
}

/// Turns off the echo of the terminal until it is dropped.
struct EchoOff {
    terminal: File,
    original: Termios,
}

impl EchoOff {
    fn new() -> io::Result<Self> {
        let terminal = File::open("/dev/tty")?;
        let original = tcgetattr(&terminal)?;
        let mut silent = original.clone();
        silent.local_modes.remove(LocalModes::ECHO);
        tcsetattr(&terminal, OptionalActions::Now, &silent)?;
        Ok(EchoOff { terminal, original })
    }
}

impl Drop for EchoOff {
    fn drop(&mut self) {
        let _ = tcsetattr(&self.terminal, OptionalActions::Now, &self.original);
    }
}
