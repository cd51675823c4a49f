//! Profiles saved by `ringtrue login`: the URL of a server and its credentials.

use std::{fmt, path::PathBuf, str::FromStr};

use ringtrue_domain::product::Scope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;
use zeroize::Zeroize;

use super::{arguments::ProfileOption, config_dir::ConfigDir};
use crate::{
    cli::{context::CommandContext, error::CliError},
    config::PROFILE_VARIABLE,
};

const DEFAULT_PROFILE: &str = "default";

/// Valid as a file name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ProfileName(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile name has 1 to 40 lower-case letters, digits, `-` and `_`")]
pub(in crate::cli) struct InvalidProfileName;

impl FromStr for ProfileName {
    type Err = InvalidProfileName;

    fn from_str(text: &str) -> Result<Self, InvalidProfileName> {
        let is_allowed = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        let is_valid = (1..=40).contains(&text.len()) && text.bytes().all(is_allowed);
        if is_valid { Ok(ProfileName(text.to_owned())) } else { Err(InvalidProfileName) }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ProfileName {
    /// Resolves the name from the command line, the environment or the default.
    pub(super) fn resolve(context: &CommandContext, profile_option: &ProfileOption) -> Result<Self, CliError> {
        if let Some(name) = &profile_option.profile {
            return Ok(name.clone());
        }
        let named =
            context.environment.var(PROFILE_VARIABLE)?.filter(|name| !name.is_empty()).unwrap_or(DEFAULT_PROFILE);
        named.parse().map_err(|error: InvalidProfileName| {
            CliError::with_hint(format!("{PROFILE_VARIABLE} is not a valid profile name"), error.to_string())
        })
    }
}

/// Same format as `dev.json`.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Profile {
    #[serde(serialize_with = "write_url", deserialize_with = "read_url")]
    pub base_url: Url,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// For the products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<ClientCredential>,
    /// For the Management API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceCredential>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkspaceCredential {
    pub workspace_id: String,
    #[serde(flatten)]
    pub credential: ClientCredential,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct ClientCredential {
    pub client_id: String,
    pub client_secret: Secret,
}

/// Zeroized on drop, masked in `Debug`.
#[derive(Clone, Serialize, Deserialize)]
#[serde(transparent)]
pub(super) struct Secret(String);

impl Secret {
    pub(super) fn new(text: String) -> Self {
        Secret(text)
    }

    pub(super) fn reveal(&self) -> &str {
        &self.0
    }
}

impl Drop for Secret {
    fn drop(&mut self) {
        self.0.zeroize();
    }
}

impl fmt::Debug for Secret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Secret(…)")
    }
}

fn write_url<S: Serializer>(url: &Url, to: S) -> Result<S::Ok, S::Error> {
    to.serialize_str(url.as_str())
}

fn read_url<'de, D: Deserializer<'de>>(from: D) -> Result<Url, D::Error> {
    String::deserialize(from)?.parse().map_err(serde::de::Error::custom)
}

impl Profile {
    pub(super) fn new(base_url: Url, ca_file: Option<PathBuf>) -> Self {
        Profile { base_url, ca_file, project: None, workspace: None }
    }

    pub(super) fn credential(&self, scope: Scope) -> Option<&ClientCredential> {
        match scope {
            Scope::Product(_) => self.project.as_ref(),
            Scope::Management => self.workspace.as_ref().map(|workspace| &workspace.credential),
        }
    }
}

#[derive(Clone, Debug)]
pub(super) struct ProfileStore {
    dir: ConfigDir,
}

impl ProfileStore {
    pub(super) fn open(context: &CommandContext) -> Result<Self, CliError> {
        Ok(ProfileStore { dir: ConfigDir::open(&context.environment, "profiles")? })
    }

    pub(super) fn find(&self, name: &ProfileName) -> Result<Option<Profile>, CliError> {
        let Some(text) = self.dir.read(&file_name(name))? else { return Ok(None) };
        // The error must not show the content: it holds secrets.
        serde_json::from_slice(&text).map(Some).map_err(|_| {
            CliError::with_hint(
                format!("the profile `{name}` is invalid"),
                format!("Create it again: ringtrue login --profile {name}"),
            )
        })
    }

    pub(super) fn require(&self, name: &ProfileName) -> Result<Profile, CliError> {
        if let Some(profile) = self.find(name)? {
            return Ok(profile);
        }
        let known = self.names()?;
        let known = match known.as_slice() {
            [] => "No profiles yet.".to_owned(),
            names => format!("Profiles: {}.", names.join(", ")),
        };
        Err(CliError::NotSignedIn {
            message: format!("no profile `{name}`"),
            hint: format!(
                "{known} Create it with `ringtrue login --profile {name}`; for `ringtrue dev`, add --data ringtrue-data."
            ),
        })
    }

    pub(super) fn names(&self) -> Result<Vec<String>, CliError> {
        let files = self.dir.json_files()?;
        Ok(files.iter().filter_map(|file| file.strip_suffix(".json")).map(str::to_owned).collect())
    }

    pub(super) fn save(&self, name: &ProfileName, profile: &Profile) -> Result<(), CliError> {
        self.dir.write_json(&file_name(name), profile)
    }

    pub(super) fn delete(&self, name: &ProfileName) -> Result<bool, CliError> {
        self.dir.remove(&file_name(name))
    }
}

pub(super) fn file_name(name: &ProfileName) -> String {
    format!("{name}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn profile_names_are_safe_file_names() {
        for (text, is_name) in [
            ("default", true),
            ("acme-eu_2", true),
            ("", false),
            ("..", false),
            ("a/b", false),
            ("Acme", false),
            (&"a".repeat(41), false),
        ] {
            assert_eq!(text.parse::<ProfileName>().is_ok(), is_name, "{text}");
        }
    }

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
