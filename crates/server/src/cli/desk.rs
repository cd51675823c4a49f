//! What every command has at hand: the configuration, the database, the engine.

use std::{path::PathBuf, sync::Arc};

use ringtrue_engine::{
    Engine, Parts,
    keys::{KeyRing, MasterKey, are_without_schedules},
    nodes::sample_database_time,
    ports::{DatabaseClock, Store, StoreError, SystemClock, SystemEntropy},
};

use ringtrue_operators::outbound::{Outbound, OutboundSettings};

use super::{failure::Failure, printer::Printer};
use crate::{
    config::{self, Config, Environment, Loaded},
    groundwork::OwnPlaces,
    wiring,
};

#[derive(Debug)]
pub(super) struct Desk {
    /// The file that the command line names.
    pub config_file: Option<PathBuf>,
    pub environment: Environment,
    pub printer: Printer,
}

impl Desk {
    pub(super) fn load(&self) -> Result<Loaded, Failure> {
        Ok(config::load(self.config_file.as_deref(), &self.environment)?)
    }

    pub(super) fn config(&self) -> Result<Config, Failure> {
        self.load().map(|loaded| loaded.config)
    }

    pub(super) fn master_key(&self, config: &Config) -> Result<MasterKey, Failure> {
        Ok(config.keys.master_key(&self.environment)?)
    }

    /// Runs `work` with an engine over the configured database. A server that runs on it takes the changes over.
    pub(super) async fn with_engine<T>(
        &self,
        work: impl AsyncFnOnce(&Engine) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.with_engine_of(&self.config()?, work).await
    }

    /// The same, for who has read the configuration.
    pub(super) async fn with_engine_of<T>(
        &self,
        config: &Config,
        work: impl AsyncFnOnce(&Engine) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        self.with_engine_by(config, self.master_key(config)?, work).await
    }

    /// The same, for a caller that has the master key.
    pub(super) async fn with_engine_by<T>(
        &self,
        config: &Config,
        master: MasterKey,
        work: impl AsyncFnOnce(&Engine) -> Result<T, Failure>,
    ) -> Result<T, Failure> {
        let store = open_store(config).await?;
        let base_url = config.base_url.as_ref().map(ToString::to_string);
        let base_url = base_url.unwrap_or_else(|| format!("http://{}", config.http.listen));
        let parts = Parts {
            clock: Arc::new(database_clock(&*store).await?),
            store,
            entropy: Arc::new(SystemEntropy::default()),
            transport: Arc::new(Outbound::new(OutboundSettings::default()).map_err(anyhow::Error::new)?),
            master,
        };
        let engine = Engine::start(parts, wiring::settings(config, base_url, OwnPlaces::default())).await?;
        let done = work(&engine).await;
        // The engine counts as a node: while it is here, the others have less of the rate limits.
        engine.leave().await;
        done
    }
}

/// Opens the configured database, whose schema must be the one that this binary knows.
pub(super) async fn open_store(config: &Config) -> Result<Arc<dyn Store>, Failure> {
    ringtrue_store::open(&config.store.url, &config.store.options)
        .await
        .map_err(|problem| Failure::Open { url: config.store.url.to_string(), problem })
}

/// A clock that shows the time of this database.
pub(super) async fn database_clock(store: &dyn Store) -> Result<DatabaseClock, StoreError> {
    let clock = DatabaseClock::new(Arc::new(SystemClock));
    sample_database_time(store, &clock).await?;
    Ok(clock)
}

/// Opens the keys, so that nothing is sealed with a master key that is not this deployment's.
pub(super) async fn open_keys(store: &dyn Store, master: &MasterKey) -> Result<KeyRing, Failure> {
    let stored = store.all_keys().await?;
    if are_without_schedules(&stored, master) {
        return Err(Failure::refused(
            "the keys were sealed by an earlier release",
            "Start a server once: it seals them again in the present form.",
        ));
    }
    Ok(KeyRing::open(&stored, master, &KeyRing::default())?)
}
