//! What `ringtrue login` keeps: for each profile a server and the credentials for it.

use std::{fmt, path::PathBuf, str::FromStr};

use ringtrue_domain::product::Scope;
use serde::{Deserialize, Deserializer, Serialize, Serializer};
use url::Url;
use zeroize::Zeroize;

use super::{arguments::Identity, drawer::Drawer};
use crate::{
    cli::{desk::Desk, failure::Failure},
    config::PROFILE,
};

/// The profile that is meant when none is named.
const USUAL: &str = "default";

/// Also the name of a file.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(in crate::cli) struct ProfileName(String);

#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("a profile is named by 1 to 40 small letters, digits, `-` and `_`")]
pub(in crate::cli) struct NotAProfileName;

impl FromStr for ProfileName {
    type Err = NotAProfileName;

    fn from_str(text: &str) -> Result<Self, NotAProfileName> {
        let is_name = |byte: u8| byte.is_ascii_lowercase() || byte.is_ascii_digit() || byte == b'-' || byte == b'_';
        let shape_is_right = (1..=40).contains(&text.len()) && text.bytes().all(is_name);
        if shape_is_right { Ok(ProfileName(text.to_owned())) } else { Err(NotAProfileName) }
    }
}

impl fmt::Display for ProfileName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl ProfileName {
    /// The one that the command line names, or else the environment.
    pub(super) fn of(desk: &Desk, identity: &Identity) -> Result<Self, Failure> {
        if let Some(name) = &identity.profile {
            return Ok(name.clone());
        }
        let named = desk.environment.text(PROFILE)?.filter(|name| !name.is_empty()).unwrap_or(USUAL);
        named.parse().map_err(|problem: NotAProfileName| {
            Failure::refused(format!("{PROFILE} names no profile"), problem.to_string())
        })
    }
}

/// In the form that `dev.json` has too.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Profile {
    #[serde(serialize_with = "write_url", deserialize_with = "read_url")]
    pub base_url: Url,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub ca_file: Option<PathBuf>,
    /// Opens the products.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub project: Option<Access>,
    /// Opens the Management API.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub workspace: Option<WorkspaceAccess>,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct WorkspaceAccess {
    pub workspace_id: String,
    #[serde(flatten)]
    pub access: Access,
}

#[derive(Clone, Debug, Serialize, Deserialize)]
pub(super) struct Access {
    pub client_id: String,
    pub client_secret: Secret,
}

/// Wiped when it is no longer needed, and masked.
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

    /// The credential that may ask for this scope.
    pub(super) fn access(&self, scope: Scope) -> Option<&Access> {
        match scope {
            Scope::Product(_) => self.project.as_ref(),
            Scope::Management => self.workspace.as_ref().map(|workspace| &workspace.access),
        }
    }
}

/// All profiles, in files that only their owner can read.
#[derive(Clone, Debug)]
pub(super) struct Profiles {
    drawer: Drawer,
}

impl Profiles {
    pub(super) fn open(desk: &Desk) -> Result<Self, Failure> {
        Ok(Profiles { drawer: Drawer::open(&desk.environment, "profiles")? })
    }

    pub(super) fn find(&self, name: &ProfileName) -> Result<Option<Profile>, Failure> {
        let Some(text) = self.drawer.read(&file_of(name))? else { return Ok(None) };
        // Its content is not shown: there are secrets in it.
        serde_json::from_slice(&text).map(Some).map_err(|_| {
            Failure::refused(
                format!("the profile `{name}` cannot be understood"),
                format!("Sign in again: ringtrue login --profile {name}"),
            )
        })
    }

    pub(super) fn get(&self, name: &ProfileName) -> Result<Profile, Failure> {
        if let Some(profile) = self.find(name)? {
            return Ok(profile);
        }
        let known = self.names()?;
        let known = match known.as_slice() {
            [] => "There is none yet.".to_owned(),
            names => format!("There are: {}.", names.join(", ")),
        };
        Err(Failure::NotSignedIn {
            what: format!("there is no profile `{name}`"),
            remedy: format!(
                "{known} Make it with `ringtrue login --profile {name}`; for a `ringtrue dev`, with --data ringtrue-data."
            ),
        })
    }

    pub(super) fn names(&self) -> Result<Vec<String>, Failure> {
        let files = self.drawer.names()?;
        Ok(files.iter().filter_map(|file| file.strip_suffix(".json")).map(str::to_owned).collect())
    }

    pub(super) fn keep(&self, name: &ProfileName, profile: &Profile) -> Result<(), Failure> {
        self.drawer.write_json(&file_of(name), profile)
    }

    pub(super) fn forget(&self, name: &ProfileName) -> Result<bool, Failure> {
        self.drawer.remove(&file_of(name))
    }
}

pub(super) fn file_of(name: &ProfileName) -> String {
    format!("{name}.json")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_names_of_files() {
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
        let shown = format!("{profile:?}");
        assert!(shown.contains("prj_a") && !shown.contains("rts_hidden"), "{shown}");
    }
}
