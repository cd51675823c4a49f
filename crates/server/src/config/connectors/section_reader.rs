//! Reads a named section with its secrets, and computes its fingerprint.

use std::{fmt, fs, path::Path};

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::super::{
    ConfigError, Environment,
    named_sections::NamedSection,
    private_file,
    value_type::{self, Text},
};

/// Digest of the settings, secrets and certificates of a connector.
#[derive(Clone, PartialEq, Eq)]
pub struct ConnectorFingerprint([u8; 32]);

/// Masked: it would allow a brute-force search for a short password.
impl fmt::Debug for ConnectorFingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

pub(in crate::config) struct SectionReader<'a> {
    pub section: NamedSection<'a>,
    environment: &'a Environment,
    digest: Context,
}

impl<'a> SectionReader<'a> {
    pub(in crate::config) fn new(section: NamedSection<'a>, environment: &'a Environment) -> Self {
        let mut reader = SectionReader { section, environment, digest: Context::new(&SHA256) };
        reader.add_to_digest(section.name.as_bytes());
        for (member, value) in section.members() {
            reader.add_to_digest(member.as_bytes());
            reader.add_to_digest(value.to_string().as_bytes());
        }
        reader
    }

    /// Length-prefixed, so that distinct inputs have distinct digests.
    fn add_to_digest(&mut self, part: &[u8]) {
        self.digest.update(&part.len().to_be_bytes());
        self.digest.update(part);
    }

    pub(in crate::config) fn fingerprint(self) -> ConnectorFingerprint {
        let mut fingerprint = [0; 32];
        fingerprint.copy_from_slice(self.digest.finish().as_ref());
        ConnectorFingerprint(fingerprint)
    }

    /// Reads a file that is not secret.
    pub(in crate::config) fn read_file(&mut self, member: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
        let text = fs::read(path).map_err(|error| {
            let found = format!("\"{}\", which cannot be read: {error}", path.display());
            self.section.invalid(member, found, "a path to a file")
        })?;
        self.add_to_digest(&text);
        Ok(text)
    }

    /// Reads a required secret: see [`optional_secret`](Self::optional_secret).
    pub(in crate::config) fn secret<T>(&mut self, member: &str, format: &SecretFormat<T>) -> Result<T, ConfigError> {
        let secret = self.optional_secret(member, format)?;
        secret.ok_or_else(|| {
            let alternative = self.section.key(&format!("{member}_env"));
            let allowed = format!("a path to a file readable by its owner only; or set `{alternative}`");
            self.section.invalid(&format!("{member}_file"), "nothing", allowed)
        })
    }

    /// Reads a secret from the file in `MEMBER_file`, or the environment variable in `MEMBER_env`.
    pub(in crate::config) fn optional_secret<T>(
        &mut self,
        member: &str,
        format: &SecretFormat<T>,
    ) -> Result<Option<T>, ConfigError> {
        let (file, variable) = (format!("{member}_file"), format!("{member}_env"));
        let path = self.section.read_optional(&file, &value_type::file_path())?;
        let name = self.section.read_optional(&variable, &variable_name())?;
        let (member, shown, text) = match (path, name) {
            (None, None) => return Ok(None),
            (Some(path), None) => {
                let text = private_file::read(&path).map_err(|error| {
                    let found = format!("\"{}\", which {error}", path.display());
                    self.section.invalid(&file, found, "a path to a file readable by its owner only")
                })?;
                (file, format!("\"{}\"", path.display()), text)
            }
            (None, Some(name)) => {
                let text = self.environment.var(&name)?.map(|text| Zeroizing::new(text.to_owned()));
                let text = text.ok_or_else(|| {
                    let found = format!("{name:?}, which is not set");
                    self.section.invalid(&variable, found, "the name of an environment variable that holds the secret")
                })?;
                (variable, format!("{name:?}"), text)
            }
            (Some(_), Some(name)) => {
                let allowed = format!("nothing, because `{}` is set", self.section.key(&file));
                return Err(self.section.invalid(&variable, format!("{name:?}"), allowed));
            }
        };
        // Editors and `echo` append a newline.
        let secret = text.trim_end_matches(['\r', '\n']);
        self.add_to_digest(secret.as_bytes());
        let parsed = (format.parse)(secret).ok_or_else(|| {
            self.section.invalid(&member, format!("{shown}, which holds an invalid value"), format.allowed)
        })?;
        Ok(Some(parsed))
    }
}

pub(in crate::config) struct SecretFormat<T> {
    pub allowed: &'static str,
    pub parse: fn(&str) -> Option<T>,
}

fn variable_name() -> Text<String> {
    Text {
        allowed: "the name of an environment variable: letters, digits and `_`",
        parse: |text| {
            let is_name = !text.is_empty() && text.bytes().all(|byte| byte.is_ascii_alphanumeric() || byte == b'_');
            is_name.then(|| text.to_owned())
        },
    }
}
