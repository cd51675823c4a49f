//! Keeps the database generation, a number that only increases, across restarts of the server.
//!
//! The file is outside the database. If the database is restored from a backup, its generation is lower than the one in
//! the file, which reveals the restore. See `ringtrue_engine::node`.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use ringtrue_engine::Engine;

use crate::config::StoreSection;

const WRITE_INTERVAL: Duration = Duration::from_secs(5);

#[derive(Debug)]
pub struct GenerationFile {
    path: PathBuf,
}

impl GenerationFile {
    /// Uses the configured file, otherwise one next to the SQLite database. Returns `None` for other databases without
    /// a configured file.
    pub fn for_store(store: &StoreSection) -> Option<Self> {
        let beside = |database: &Path| {
            let mut path = database.as_os_str().to_owned();
            path.push(".state");
            PathBuf::from(path)
        };
        let path = store.state_file.clone().or_else(|| store.url.sqlite_path().map(beside))?;
        Some(GenerationFile { path })
    }

    /// Reads the generation. Returns `None` if the file is missing or invalid.
    pub fn read(&self) -> Option<i64> {
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                let generation = text.trim().parse().ok();
                if generation.is_none() {
                    tracing::warn!(path = %self.path.display(), "state file is invalid and will be replaced");
                }
                generation
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound => None,
            Err(error) => {
                tracing::warn!(path = %self.path.display(), %error, "failed to read the state file");
                None
            }
        }
    }

    /// Replaces the file atomically.
    fn write(&self, generation: i64) -> io::Result<()> {
        let mut temporary = self.path.as_os_str().to_owned();
        temporary.push(".new");
        fs::write(&temporary, format!("{generation}\n"))?;
        fs::rename(&temporary, &self.path)
    }

    /// Writes the last generation that this node has seen.
    pub async fn write_generation(self: &Arc<Self>, engine: &Engine) {
        let (file, generation) = (Arc::clone(self), engine.node.database_generation());
        let written = tokio::task::spawn_blocking(move || file.write(generation)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(
                path = %self.path.display(), %error,
                "failed to write the state file; a restored database may go unnoticed"
            );
        }
    }

    /// Writes the generation every few seconds until the future is dropped.
    pub async fn run(self: Arc<Self>, engine: Engine) {
        loop {
            self.write_generation(&engine).await;
            tokio::time::sleep(WRITE_INTERVAL).await;
        }
    }
}
