//! Context of a command: gives access to the configuration, the database and the engine.

use std::{path::PathBuf, sync::Arc};

use ringtrue_client::{CLIENT_SECRET_VARIABLE, ClientContext, ClientEnvironment, PROFILE_VARIABLE, printer::Printer};
use ringtrue_domain::page::{Page, PageRequest};
use ringtrue_engine::{
    Engine, EngineDependencies,
    keys::{KeyRing, MasterKey},
    node::sync_clock_with_database,
    ports::{
        clock::{DatabaseClock, SystemClock},
        combined::Store,
        entropy::SystemEntropy,
        store::StoreError,
    },
};
use ringtrue_operators::outbound::{Outbound, OutboundSettings};
use ringtrue_sandbox::operator_access::SandboxAccess;

use super::error::CliError;
use crate::{
    config::{self, Config, ConfigError, Environment, LoadedConfig},
    prepared::OwnEndpoints,
    wiring,
};

#[derive(Debug)]
pub(super) struct CommandContext {
    /// Value of `--config`.
    pub config_file: Option<PathBuf>,
    pub environment: Environment,
    pub printer: Printer,
}

impl CommandContext {
    pub(super) fn load(&self) -> Result<LoadedConfig, CliError> {
        Ok(config::load(self.config_file.as_deref(), &self.environment)?)
    }

    pub(super) fn config(&self) -> Result<Config, CliError> {
        self.load().map(|loaded| loaded.config)
    }

    pub(super) fn master_key(&self, config: &Config) -> Result<MasterKey, CliError> {
        Ok(config.keys.master_key(&self.environment)?)
    }

    /// Returns the context for commands that call a server's API.
    pub(super) fn client_context(&self) -> Result<ClientContext, CliError> {
        Ok(client_context(&self.environment, self.printer)?)
    }

    /// Runs `work` with an engine over the configured database. Running servers pick up the changes.
    pub(super) async fn with_engine<T>(
        &self,
        work: impl AsyncFnOnce(&Engine) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.with_engine_of(&self.config()?, work).await
    }

    pub(super) async fn with_engine_of<T>(
        &self,
        config: &Config,
        work: impl AsyncFnOnce(&Engine) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        self.with_engine_and_key(config, self.master_key(config)?, work).await
    }

    pub(super) async fn with_engine_and_key<T>(
        &self,
        config: &Config,
        master: MasterKey,
        work: impl AsyncFnOnce(&Engine) -> Result<T, CliError>,
    ) -> Result<T, CliError> {
        let store = open_store(config).await?;
        let base_url = config.base_url.as_ref().map(ToString::to_string);
        let base_url = base_url.unwrap_or_else(|| format!("http://{}", config.http.listen));
        let parts = EngineDependencies {
            clock: Arc::new(database_clock(&*store).await?),
            store,
            entropy: Arc::new(SystemEntropy::default()),
            transport: Arc::new(Outbound::new(OutboundSettings::default()).map_err(anyhow::Error::new)?),
            master_key: master,
            sandbox: Arc::new(SandboxAccess::default()),
        };
        let engine = Engine::start(parts, wiring::engine_settings(config, base_url, OwnEndpoints::default())).await?;
        let done = work(&engine).await;
        // Starting the engine has registered this process as a node. Until it is deregistered, the servers leave a part
        // of the rate limits to it.
        engine.node.deregister_node().await;
        done
    }
}

pub(super) fn client_context(environment: &Environment, printer: Printer) -> Result<ClientContext, ConfigError> {
    let variable = |name| Ok::<_, ConfigError>(environment.var(name)?.map(str::to_owned));
    let environment = ClientEnvironment {
        home: variable("HOME")?,
        xdg_config_home: variable("XDG_CONFIG_HOME")?,
        profile: variable(PROFILE_VARIABLE)?,
        client_secret: variable(CLIENT_SECRET_VARIABLE)?,
    };
    Ok(ClientContext { environment, printer })
}

/// Opens the configured database. Fails unless its schema matches this binary.
pub(super) async fn open_store(config: &Config) -> Result<Arc<dyn Store>, CliError> {
    ringtrue_store::open(&config.store.url, &config.store.options)
        .await
        .map_err(|error| CliError::Open { url: config.store.url.to_string(), error })
}

/// Returns a clock synchronised with the database time.
pub(super) async fn database_clock(store: &dyn Store) -> Result<DatabaseClock, StoreError> {
    let clock = DatabaseClock::new(Arc::new(SystemClock));
    sync_clock_with_database(store, &clock).await?;
    Ok(clock)
}

/// Decrypts the stored keys with the master key. Success proves that `master` belongs to this deployment.
pub(super) async fn open_keys(store: &dyn Store, master: &MasterKey) -> Result<KeyRing, CliError> {
    let stored = store.list_keys().await?;
    Ok(KeyRing::from_sealed(&stored, master, &KeyRing::default())?)
}

/// Reads all pages of a list.
pub(super) async fn read_all_pages<T>(
    read: impl AsyncFn(PageRequest) -> Result<Page<T>, StoreError>,
) -> Result<Vec<T>, StoreError> {
    let mut items = vec![];
    for number in 1.. {
        let Some(request) = PageRequest::new(PageRequest::MAX_SIZE, number) else { break };
        let page = read(request).await?;
        let is_last = u64::from(number) >= page.total_pages();
        items.extend(page.items);
        if is_last {
            break;
        }
    }
    Ok(items)
}
