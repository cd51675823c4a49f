//! `ringtrue login`, `logout`, `profiles` and `token`.

use std::{fs, path::Path};

use ringtrue_domain::product::{Product, Scope};
use serde_json::{Value, json};
use url::Url;

use super::{
    arguments::{Identity, LoginArguments},
    ledger::Ledger,
    memory::Memory,
    profile::{Access, Profile, ProfileName, Profiles, WorkspaceAccess},
    secret,
    session::Session,
    tokens::Tokens,
};
use crate::cli::{
    arguments::Output,
    desk::Desk,
    failure::Failure,
    listen::Endpoint,
    printer::{self, Record},
};

const COLUMNS: [&str; 5] = ["profile", "base_url", "project_client_id", "workspace_client_id", "workspace_id"];

pub(super) async fn login(desk: &Desk, arguments: LoginArguments) -> Result<(), Failure> {
    let name = ProfileName::of(desk, &arguments.identity)?;
    let profiles = Profiles::open(desk)?;
    let profile = match (arguments.data, arguments.base_url, arguments.client_id) {
        (Some(folder), ..) => of_dev(&folder).await?,
        (None, Some(base_url), Some(client_id)) => {
            let base_url = origin(&base_url)?;
            // Another credential for the same server is added to what is there.
            let previous = profiles.find(&name)?.filter(|profile| profile.base_url == base_url);
            let mut profile = previous.unwrap_or_else(|| Profile::new(base_url, None));
            profile.ca_file = arguments.ca_file.map(|path| path.canonicalize().unwrap_or(path)).or(profile.ca_file);
            let client_secret = secret::client_secret(desk, &client_id).await?;
            with_credential(profile, Access { client_id, client_secret }).await?
        }
        (None, ..) => return Err(Failure::refused("whose credential is it?", "Name --base-url and --client-id.")),
    };
    Tokens::forget_all(desk, &name)?;
    profiles.keep(&name, &profile)?;
    Ok(desk.printer.record(record(&name.to_string(), &profile))?)
}

pub(super) fn logout(desk: &Desk, identity: &Identity) -> Result<(), Failure> {
    let name = ProfileName::of(desk, identity)?;
    let profiles = Profiles::open(desk)?;
    Tokens::forget_all(desk, &name)?;
    Memory::forget_all(desk, &name)?;
    Ledger::forget_all(desk, &name)?;
    if !profiles.forget(&name)? {
        // It says which there are.
        profiles.get(&name)?;
    }
    printer::remark(&format!("The profile `{name}` is forgotten here. Its credentials still work elsewhere."));
    Ok(())
}

pub(super) fn profiles(desk: &Desk) -> Result<(), Failure> {
    let profiles = Profiles::open(desk)?;
    let mut records = vec![];
    for text in profiles.names()? {
        if let Ok(name) = text.parse()
            && let Some(profile) = profiles.find(&name)?
        {
            records.push(record(&text, &profile));
        }
    }
    Ok(desk.printer.list(&COLUMNS, records)?)
}

pub(super) async fn token(desk: &Desk, identity: &Identity, scope: Scope) -> Result<(), Failure> {
    let token = Session::open(desk, identity)?.token(scope).await?;
    let access_token = token.access_token.reveal();
    if desk.printer.output == Output::Table {
        // So that a shell can take it as it is.
        return Ok(printer::text(access_token)?);
    }
    Ok(desk.printer.record(vec![
        ("access_token", json!(access_token)),
        ("token_type", json!("Bearer")),
        ("expires_in", json!(token.remaining())),
        ("scope", json!(scope.as_str())),
    ])?)
}

/// Never the secrets.
fn record(name: &str, profile: &Profile) -> Record {
    let workspace = profile.workspace.as_ref();
    let values = [
        json!(name),
        json!(profile.base_url.as_str().trim_end_matches('/')),
        json!(profile.project.as_ref().map(|project| &project.client_id)),
        json!(workspace.map(|workspace| &workspace.access.client_id)),
        json!(workspace.map(|workspace| &workspace.workspace_id)),
    ];
    COLUMNS.into_iter().zip(values).collect()
}

fn origin(base_url: &Endpoint) -> Result<Url, Failure> {
    let url: Url = base_url.to_string().parse().map_err(|problem: url::ParseError| Failure::Failed(problem.into()))?;
    if url.path() == "/" && url.query().is_none() && url.fragment().is_none() {
        return Ok(url);
    }
    Err(Failure::refused(
        format!("{url} is more than the address of a server"),
        format!("Name scheme, host and port only: --base-url {}", url.origin().ascii_serialization()),
    ))
}

/// What a `ringtrue dev` has published, if it still works.
async fn of_dev(folder: &Path) -> Result<Profile, Failure> {
    let path = folder.join("dev.json");
    let refused = |problem: String| {
        Failure::refused(
            format!("{}: {problem}", path.display()),
            "Start `ringtrue dev`, and say where its folder is with --data DIR.",
        )
    };
    let text = fs::read(&path).map_err(|problem| refused(problem.to_string()))?;
    let profile: Profile =
        serde_json::from_slice(&text).map_err(|_| refused("this is not what `ringtrue dev` writes".to_owned()))?;
    // Its secrets go nowhere else.
    Endpoint::local(profile.base_url.as_str()).map_err(|problem| refused(problem.to_string()))?;
    let session = Session::passing(profile)?;
    for scope in [Scope::Product(Product::ReverseSms), Scope::Management] {
        session.token(scope).await?;
    }
    Ok(session.profile)
}

/// Finds out whose credential it is, by using it.
async fn with_credential(mut profile: Profile, access: Access) -> Result<Profile, Failure> {
    let earlier = profile.workspace.replace(WorkspaceAccess { workspace_id: String::new(), access: access.clone() });
    let mut session = Session::passing(profile.clone())?;
    match session.token(Scope::Management).await {
        Ok(_) => {
            let page = session.get(Scope::Management, &["v1", "management", "workspaces"], &[]).await?;
            let id = page.pointer("/content/0/workspace_id").and_then(Value::as_str);
            let workspace_id = id.map(str::to_owned).ok_or_else(|| {
                Failure::refused(
                    "this credential shows no workspace",
                    "Ask the operator of the server for another one.",
                )
            })?;
            session.profile.workspace = Some(WorkspaceAccess { workspace_id, access });
            Ok(session.profile)
        }
        // Its client was known, but may not manage.
        Err(Failure::Problem(problem)) if problem.error_code == "invalid_scope" => {
            profile.workspace = earlier;
            profile.project = Some(access);
            Ok(profile)
        }
        Err(other) => Err(other),
    }
}
