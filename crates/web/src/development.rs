//! Paths and project of a server started by `ringtrue dev`, used to show shell commands on its pages.

use std::{path::Path, sync::OnceLock};

use ringtrue_domain::tenancy::{ProjectId, WorkspaceId};

/// Paths and demo project for shell commands on the server's pages. Exists only in servers that `ringtrue dev` started.
/// Such servers listen on loopback addresses only, so their pages may show local paths.
#[derive(Debug)]
pub struct Development {
    /// Path of the binary. All paths here are quoted for a POSIX shell.
    binary: String,
    data_dir: String,
    credentials_file: String,
    /// Project whose credential is in the credentials file. Unset while the server starts.
    demo_project: OnceLock<(WorkspaceId, ProjectId)>,
}

impl Development {
    pub fn new(binary: &Path, data_dir: &Path, credentials_file: &Path) -> Self {
        Development {
            binary: shell_quote(&binary.display().to_string()),
            data_dir: shell_quote(&data_dir.display().to_string()),
            credentials_file: shell_quote(&credentials_file.display().to_string()),
            demo_project: OnceLock::new(),
        }
    }

    pub fn set_demo_project(&self, workspace: WorkspaceId, project: ProjectId) {
        // A second call would be ignored, but the server sets the project only once, when it starts.
        let _ = self.demo_project.set((workspace, project));
    }

    pub fn demo_project(&self) -> Option<(WorkspaceId, ProjectId)> {
        self.demo_project.get().copied()
    }

    pub fn credentials_file(&self) -> &str {
        &self.credentials_file
    }

    /// Renders a shell command that runs this binary.
    pub fn command(&self, arguments: &str) -> String {
        format!("{} {arguments}", self.binary)
    }

    /// Renders a shell command that runs this binary with this server's data directory.
    pub fn data_command(&self, arguments: &str) -> String {
        format!("{} {arguments} --data {}", self.binary, self.data_dir)
    }

    /// Returns the command that creates another sign-in link to the console.
    pub fn sign_in_link_command(&self) -> String {
        self.data_command("console link")
    }
}

/// Quotes a word for a POSIX shell if needed.
pub fn shell_quote(word: &str) -> String {
    let is_plain = word.chars().all(|character| character.is_alphanumeric() || "/._-+:@".contains(character));
    if is_plain { word.to_owned() } else { format!("'{}'", word.replace('\'', r"'\''")) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn words_with_special_characters_are_quoted() {
        for (word, quoted) in [("/a/b-c.d", "/a/b-c.d"), ("/a b", "'/a b'"), ("/it's", r"'/it'\''s'"), ("/$x", "'/$x'")]
        {
            assert_eq!(shell_quote(word), quoted);
        }
    }
}
