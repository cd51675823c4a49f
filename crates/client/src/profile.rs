//! Profiles that `ringtrue login` saves: the URL of a server, its credentials, and cached access tokens.

use std::{
    collections::BTreeMap,
    fs,
    path::{Path, PathBuf},
};

use parking_lot::Mutex;
use ringtrue_domain::product::Scope;
use serde::{Deserialize, Serialize};
use url::Url;
use zeroize::Zeroize;

use crate::{
    argument_values::{InvalidProfileName, InvalidSecureUrl, ProfileName, SecureUrl},
    arguments::ProfileOption,
    context::{ClientContext, ConfigDir, PROFILE_VARIABLE},
    error::CommandError,
    system::now,
};

const DEFAULT_PROFILE: &str = "default";
const TOKEN_DIR: &str = "tokens";
/// A cached token must be valid for at least this long, so that it does not expire during a request.
const EXPIRY_MARGIN_SECONDS: i64 = 60;

/// A server and its credentials, saved by `ringtrue login`. `ringtrue dev` writes `dev.json` in the same format.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct Profile {
    pub base_url: Url,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Credential for the product APIs.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ProjectCredential>,
    /// Credential for the Management API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceCredential>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ProjectCredential {
    /// `None`: the id is unknown, because it cannot be read with a project credential alone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub project_id: Option<String>,
    #[serde(flatten)]
    pub credential: ClientCredential,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct WorkspaceCredential {
    pub workspace_id: String,
    #[serde(flatten)]
    pub credential: ClientCredential,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClientCredential {
    pub client_id: String,
    pub client_secret: Secret,
}

/// A secret text. It is zeroized on drop and masked in `Debug`.
#[derive(Clone, derive_more::Debug, Serialize, Deserialize)]
#[debug("Secret(…)")]
#[serde(transparent)]
pub(crate) struct Secret(String);

impl Secret {
    pub(crate) fn new(text: String) -> Self {
        Secret(text)
    }

    pub(crate) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl Profile {
    pub(crate) fn new(base_url: Url, ca_file: Option<PathBuf>) -> Self {
        Profile { base_url, ca_file, project: None, workspace: None }
    }

    /// Reads a `dev.json` file that `ringtrue dev` has written.
    pub(crate) fn read_dev_file(path: &Path) -> Result<Self, String> {
        let text = fs::read(path).map_err(|error| error.to_string())?;
        serde_json::from_slice(&text).map_err(|_| "not a `ringtrue dev` file".to_owned())
    }

    /// Returns the URL of the public keys that verify callbacks.
    pub(crate) fn jwks_url(&self) -> Result<SecureUrl, InvalidSecureUrl> {
        self.base_url.join("/.well-known/jwks.json").map_err(|_| InvalidSecureUrl::Malformed)?.try_into()
    }

    pub(crate) fn credential(&self, scope: Scope) -> Option<&ClientCredential> {
        match scope {
            Scope::Product(_) => self.project.as_ref().map(|project| &project.credential),
            Scope::Management => self.workspace.as_ref().map(|workspace| &workspace.credential),
        }
    }
}

#[derive(Clone, Debug)]
pub(crate) struct ProfileStore {
    dir: ConfigDir,
}

impl ProfileStore {
    pub(crate) fn open(context: &ClientContext) -> Result<Self, CommandError> {
        Ok(ProfileStore { dir: ConfigDir::open(context, "profiles")? })
    }

    pub(crate) fn find(&self, name: &ProfileName) -> Result<Option<Profile>, CommandError> {
        let Some(text) = self.dir.read(&file_name(name))? else { return Ok(None) };
        // The error does not show the content of the file, which has secrets.
        serde_json::from_slice(&text).map(Some).map_err(|_| {
            CommandError::failed(
                format!("the profile `{name}` is invalid"),
                format!("Create it again: ringtrue login --profile {name}"),
            )
        })
    }

    pub(crate) fn require(&self, name: &ProfileName) -> Result<Profile, CommandError> {
        if let Some(profile) = self.find(name)? {
            return Ok(profile);
        }
        let known = self.names()?;
        let known = match known.as_slice() {
            [] => "No profiles yet.".to_owned(),
            names => format!("Profiles: {}.", names.join(", ")),
        };
        let login = if name.to_string() == DEFAULT_PROFILE {
            "ringtrue login".to_owned()
        } else {
            format!("ringtrue login --profile {name}")
        };
        Err(CommandError::NotSignedIn {
            message: format!("no profile `{name}`"),
            hint: format!("{known} Create it with `{login}`; for `ringtrue dev`, with `{login} --data ringtrue-data`."),
        })
    }

    pub(crate) fn names(&self) -> Result<Vec<String>, CommandError> {
        let files = self.dir.json_files()?;
        Ok(files.iter().filter_map(|file| file.strip_suffix(".json")).map(str::to_owned).collect())
    }

    pub(crate) fn save(&self, name: &ProfileName, profile: &Profile) -> Result<(), CommandError> {
        self.dir.write_json(&file_name(name), profile)
    }

    pub(crate) fn delete(&self, name: &ProfileName) -> Result<bool, CommandError> {
        self.dir.remove(&file_name(name))
    }
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct AccessToken {
    pub access_token: Secret,
    /// Expiry time, in seconds since 1970.
    pub expires_at: i64,
}

impl AccessToken {
    pub(crate) fn remaining_seconds(&self) -> i64 {
        (self.expires_at - now().as_second()).max(0)
    }

    fn is_usable(&self) -> bool {
        self.remaining_seconds() > EXPIRY_MARGIN_SECONDS
    }
}

/// Access tokens by client id and scope. Commands share them until shortly before they expire. They are stored in a
/// file for the profile, or only in memory.
#[derive(Debug, Default)]
pub(crate) struct TokenCache {
    file: Option<(ConfigDir, String)>,
    tokens: Mutex<BTreeMap<String, AccessToken>>,
}

impl TokenCache {
    pub(crate) fn for_profile(context: &ClientContext, name: &ProfileName) -> Result<Self, CommandError> {
        let (dir, file) = (ConfigDir::open(context, TOKEN_DIR)?, file_name(name));
        let tokens = dir.read_json(&file)?.unwrap_or_default();
        Ok(TokenCache { file: Some((dir, file)), tokens: Mutex::new(tokens) })
    }

    pub(crate) fn delete(context: &ClientContext, name: &ProfileName) -> Result<(), CommandError> {
        ConfigDir::open(context, TOKEN_DIR)?.remove(&file_name(name)).map(drop)
    }

    pub(crate) fn get(&self, client_id: &str, scope: Scope) -> Option<AccessToken> {
        let tokens = self.tokens.lock();
        tokens.get(&token_key(client_id, scope)).filter(|token| token.is_usable()).cloned()
    }

    pub(crate) fn insert(&self, client_id: &str, scope: Scope, token: AccessToken) -> Result<(), CommandError> {
        self.update(|tokens| {
            tokens.retain(|_, token| token.is_usable());
            tokens.insert(token_key(client_id, scope), token);
        })
    }

    pub(crate) fn remove(&self, client_id: &str, scope: Scope) -> Result<(), CommandError> {
        self.update(|tokens| {
            tokens.remove(&token_key(client_id, scope));
        })
    }

    fn update(&self, update: impl FnOnce(&mut BTreeMap<String, AccessToken>)) -> Result<(), CommandError> {
        let mut tokens = self.tokens.lock();
        update(&mut tokens);
        match &self.file {
            Some((dir, file)) => dir.write_json(file, &*tokens),
            None => Ok(()),
        }
    }
}

/// Returns the name of the profile: from the command line, else from the environment, else the default.
pub(crate) fn resolve_profile(context: &ClientContext, option: &ProfileOption) -> Result<ProfileName, CommandError> {
    if let Some(name) = &option.profile {
        return Ok(name.clone());
    }
    let named = context.environment.profile.as_deref().filter(|name| !name.is_empty()).unwrap_or(DEFAULT_PROFILE);
    named.parse().map_err(|error: InvalidProfileName| {
        CommandError::usage(format!("{PROFILE_VARIABLE} is not a valid profile name"), error.to_string())
    })
}

fn token_key(client_id: &str, scope: Scope) -> String {
    format!("{client_id} {scope}")
}

pub(crate) fn file_name(name: &ProfileName) -> String {
    format!("{name}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_are_masked() {
        let profile: Profile = serde_json::from_str(
            r#"{"base_url": "http://127.0.0.1:1", "project": {"client_id": "prj_a", "client_secret": "rts_hidden"},
                "workspace": {"workspace_id": "w", "client_id": "wsp_a", "client_secret": "rts_hidden"}}"#,
        )
        .unwrap();
        let debug = format!("{profile:?}");
        assert!(debug.contains("prj_a") && !debug.contains("rts_hidden"), "{debug}");
    }
}
