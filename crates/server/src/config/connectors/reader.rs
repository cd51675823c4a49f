//! Reads the section of one connector, with the secrets that it points to, and takes its fingerprint meanwhile.

use std::{fmt, fs, path::Path};

use aws_lc_rs::digest::{Context, SHA256};
use zeroize::Zeroizing;

use super::super::{
    ConfigError, Environment,
    family::Named,
    kind::{self, Text},
    private_file,
};

/// Changes when anything does that a connector is made of: its settings, its secrets, its certificates.
#[derive(Clone, PartialEq, Eq)]
pub struct Fingerprint([u8; 32]);

/// Not shown, because whoever knows all but a short password could find that by trying.
impl fmt::Debug for Fingerprint {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Fingerprint(…)")
    }
}

pub(in crate::config) struct Reader<'a> {
    pub section: Named<'a>,
    environment: &'a Environment,
    print: Context,
}

impl<'a> Reader<'a> {
    pub(in crate::config) fn new(section: Named<'a>, environment: &'a Environment) -> Self {
        let mut reader = Reader { section, environment, print: Context::new(&SHA256) };
        reader.note(section.name.as_bytes());
        for (member, value) in section.members() {
            reader.note(member.as_bytes());
            reader.note(value.to_string().as_bytes());
        }
        reader
    }

    /// Each piece with its length: no two lists of pieces are mistaken for each other.
    fn note(&mut self, piece: &[u8]) {
        self.print.update(&piece.len().to_be_bytes());
        self.print.update(piece);
    }

    pub(in crate::config) fn fingerprint(self) -> Fingerprint {
        let mut print = [0; 32];
        print.copy_from_slice(self.print.finish().as_ref());
        Fingerprint(print)
    }

    /// The text of a file that is no secret.
    pub(in crate::config) fn file(&mut self, member: &str, path: &Path) -> Result<Vec<u8>, ConfigError> {
        let text = fs::read(path).map_err(|problem| {
            let found = format!("\"{}\", which cannot be read: {problem}", path.display());
            self.section.invalid(member, found, "a path to a file")
        })?;
        self.note(&text);
        Ok(text)
    }

    /// Reads a secret that must be there: see [`secret_if`](Self::secret_if).
    pub(in crate::config) fn secret<T>(&mut self, member: &str, form: &Form<T>) -> Result<T, ConfigError> {
        let secret = self.secret_if(member, form)?;
        secret.ok_or_else(|| {
            let instead = self.section.key(&format!("{member}_env"));
            let allowed = format!("a path to a file that its owner alone can read; or set `{instead}`");
            self.section.invalid(&format!("{member}_file"), "nothing", allowed)
        })
    }

    /// Reads a secret from the file that `MEMBER_file` names, or from the environment variable that `MEMBER_env` does.
    pub(in crate::config) fn secret_if<T>(&mut self, member: &str, form: &Form<T>) -> Result<Option<T>, ConfigError> {
        let (file, variable) = (format!("{member}_file"), format!("{member}_env"));
        let path = self.section.read_if(&file, &kind::path())?;
        let name = self.section.read_if(&variable, &variable_name())?;
        let (member, shown, text) = match (path, name) {
            (None, None) => return Ok(None),
            (Some(path), None) => {
                let text = private_file::read(&path).map_err(|problem| {
                    let found = format!("\"{}\", which {problem}", path.display());
                    self.section.invalid(&file, found, "a path to a file that its owner alone can read")
                })?;
                (file, format!("\"{}\"", path.display()), text)
            }
            (None, Some(name)) => {
                let text = self.environment.text(&name)?.map(|text| Zeroizing::new(text.to_owned()));
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
        // Editors and `echo` end a file with a new line.
        let secret = text.trim_end_matches(['\r', '\n']);
        self.note(secret.as_bytes());
        let understood = (form.parse)(secret).ok_or_else(|| {
            self.section.invalid(&member, format!("{shown}, which holds something else"), form.allowed)
        })?;
        Ok(Some(understood))
    }
}

/// What a secret must be like.
pub(in crate::config) struct Form<T> {
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
