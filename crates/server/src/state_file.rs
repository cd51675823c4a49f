//! What a node remembers of its database across restarts: the generation, which only grows.
//!
//! The file lies outside the database, so a database that was restored from a backup is behind it. See
//! `ringtrue_engine::restore`.

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
pub struct StateFile {
    path: PathBuf,
}

impl StateFile {
    /// The configured file; otherwise one beside the file of a SQLite database. `None`: nothing is remembered.
    pub fn of(store: &StoreSection) -> Option<Self> {
        let beside = |database: &Path| {
            let mut path = database.as_os_str().to_owned();
            path.push(".state");
            PathBuf::from(path)
        };
        let path = store.state_file.clone().or_else(|| store.url.sqlite_path().map(beside))?;
        Some(StateFile { path })
    }

    /// The generation that was remembered. A file that is missing or damaged remembers none.
    pub fn read(&self) -> Option<i64> {
        match fs::read_to_string(&self.path) {
            Ok(text) => {
                let generation = text.trim().parse().ok();
                if generation.is_none() {
                    tracing::warn!(path = %self.path.display(), "the state file holds no number; it will be replaced");
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

    /// Replaces the file as a whole.
    fn write(&self, generation: i64) -> io::Result<()> {
        let mut unfinished = self.path.as_os_str().to_owned();
        unfinished.push(".new");
        fs::write(&unfinished, format!("{generation}\n"))?;
        fs::rename(&unfinished, &self.path)
    }

    /// Remembers the generation that a node has seen last.
    pub async fn remember(self: &Arc<Self>, engine: &Engine) {
        let (file, generation) = (Arc::clone(self), engine.database_generation());
        let written = tokio::task::spawn_blocking(move || file.write(generation)).await;
        if let Ok(Err(error)) = written {
            tracing::warn!(
                path = %self.path.display(), %error,
                "failed to write the state file; a restored database may go unnoticed"
            );
        }
    }

    /// Remembers the generation every few seconds until the future is dropped.
    pub async fn keep(self: Arc<Self>, engine: Engine) {
        loop {
            self.remember(&engine).await;
            tokio::time::sleep(WRITE_INTERVAL).await;
        }
    }
}
