//! Checks the master key, the database, its schema, clock and keys, and the disk of a SQLite database.

use std::{
    fs, io,
    os::unix::fs::PermissionsExt,
    path::{Path, PathBuf},
    sync::Arc,
};

use ringtrue_domain::region::Region;
use ringtrue_engine::{
    keys::{KeyRing, KeySummary, MasterKey, list_key_summaries},
    node::{NODE_TIMEOUT, clock_skew, is_excessive_skew},
    ports::{
        clock::{Clock, DatabaseClock},
        combined::Store,
        keys::KeyPurpose,
        store::ControlPlaneVersion,
    },
};
use ringtrue_operators::smpp::lease_name;
use ringtrue_store::{
    CitusAccess, DistributionState, SchemaState, ShardDistribution, distribution_state, schema_state, test_servers,
};
use rustix::fs::{Access, access, statvfs};
use strum::VariantArray as _;

use super::{Finding, failed, passed, skipped};
use crate::{
    cli::{
        context::{database_clock, open_store},
        error::{CliError, REGION_HINT},
    },
    config::{Config, Connector, Distribute},
    generation_file::GenerationFile,
};

const MASTER_KEY: &str = "master key";
const DATABASE: &str = "database";
const SCHEMA: &str = "schema";
const DISTRIBUTION: &str = "distribution";
const WRITES: &str = "writes";
const CLOCK: &str = "clock";
const RESTORE: &str = "restore";
const KEYS: &str = "keys";
const ALTERED_ROWS: &str = "rows that grant rights";
const RESIDENCY: &str = "data residency";
/// Maximum number of altered rows that are listed for each table.
const MAX_ALTERED_ROWS: usize = 5;

/// Minimum free disk space. Enough for the write-ahead log of a busy server and a day of checks.
const MIN_FREE_BYTES: u64 = 256 << 20;

pub(super) async fn check_key_and_database(config: &Config, master: Result<MasterKey, CliError>) -> Vec<Finding> {
    let (master, master_finding) = match master {
        Ok(master) => (Some(master), passed(MASTER_KEY, "valid and not exposed")),
        Err(error) => (
            None,
            failed(MASTER_KEY, error.to_string(), "Servers do not start without it. Keep a copy in a safe place."),
        ),
    };
    let mut findings = vec![master_finding];
    findings.extend(check_database(config, master.as_ref()).await);
    findings.extend(check_disk(config));
    findings
}

async fn check_database(config: &Config, master: Option<&MasterKey>) -> Vec<Finding> {
    let url = &config.store.url;
    let unreachable = |database: Finding| {
        let rest = [SCHEMA, WRITES, RESTORE, CLOCK, KEYS, ALTERED_ROWS, RESIDENCY]
            .map(|check| skipped(check, "the database is unreachable"));
        [database].into_iter().chain(rest).collect()
    };
    if let Some(problem) = url.sqlite_path().and_then(directory_problem) {
        let hint = "Create the directory, writable by the user that runs the server, or correct `store.url`.";
        return unreachable(failed(DATABASE, format!("{url}: {problem}"), hint));
    }
    let state = match schema_state(url).await {
        Ok(state) => state,
        Err(error) => {
            let hint = "Check `store.url`, that the database is running, and that this machine and user can reach it.";
            return unreachable(failed(DATABASE, format!("{url}: {error}"), hint));
        }
    };
    let mut findings = vec![passed(DATABASE, url.to_string()), check_schema(&state)];
    if !matches!(state, SchemaState::Current | SchemaState::Newer { .. }) {
        findings.extend(
            [WRITES, RESTORE, CLOCK, KEYS, ALTERED_ROWS, RESIDENCY]
                .map(|check| skipped(check, "the schema does not match this release")),
        );
        return findings;
    }
    findings.extend(check_distribution(config).await);
    match open_store(config).await {
        Ok(store) => {
            findings.extend([check_writes(&*store).await, check_restore(&*store, config).await]);
            match database_clock(&*store).await {
                Ok(clock) => {
                    findings.extend([
                        check_clock(&clock),
                        check_keys(&*store, master, &clock).await,
                        check_altered_rows(&*store, master).await,
                        check_residency(&*store, config.region, &clock).await,
                    ]);
                    findings.extend(check_exclusive_binds(&*store, config, &clock).await);
                }
                Err(error) => {
                    findings.push(failed(CLOCK, error.to_string(), "Check the database log."));
                    findings.extend(
                        [KEYS, ALTERED_ROWS, RESIDENCY].map(|check| skipped(check, "cannot read the database time")),
                    );
                }
            }
        }
        Err(error) => findings.push(failed(WRITES, error.to_string(), "Check the database log.")),
    }
    findings
}

/// Checks the free disk space, and that other users cannot read the database. `None`: the directory does not exist,
/// which another check reports.
fn check_disk(config: &Config) -> Option<Finding> {
    const CHECK: &str = "disk";
    let Some(file) = config.store.url.sqlite_path() else {
        return Some(skipped(CHECK, "the database server has its own"));
    };
    let directory = directory_of(file);
    let free = match statvfs(&directory) {
        Ok(disk) => disk.f_bavail.saturating_mul(disk.f_frsize),
        Err(_) if !directory.is_dir() => return None,
        Err(error) => {
            let hint = "Check the directory's permissions.";
            return Some(failed(CHECK, format!("{}: {error}", directory.display()), hint));
        }
    };
    let mode = fs::metadata(file).map_or(0, |metadata| metadata.permissions().mode() & 0o7777);
    let detail = format!("{} MiB free in {}", free >> 20, directory.display());
    Some(if free < MIN_FREE_BYTES {
        let hint = "Free some space, or move the database: SQLite rejects writes on a full disk.";
        failed(CHECK, format!("{detail}, fewer than {}", MIN_FREE_BYTES >> 20), hint)
    } else if mode & 0o007 != 0 {
        let path = file.display();
        failed(
            CHECK,
            format!("every user of this machine can open {path} (mode {mode:04o})"),
            format!("Run `chmod 600 {path} {path}-wal {path}-shm`."),
        )
    } else {
        passed(CHECK, detail)
    })
}

fn directory_of(file: &Path) -> PathBuf {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    parent.unwrap_or(Path::new(".")).to_owned()
}

/// Describes why the directory of a SQLite database cannot be used. SQLite creates files in it while the database is in
/// use. `None`: there is no problem.
fn directory_problem(file: &Path) -> Option<String> {
    let directory = directory_of(file);
    let problem = match fs::metadata(&directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
        Ok(found) if !found.is_dir() => "is not a directory".to_owned(),
        Ok(_) => match access(&directory, Access::WRITE_OK | Access::EXEC_OK) {
            Ok(()) => return None,
            Err(error) => format!("is not writable: {error}"),
        },
    };
    Some(format!("the directory {} {problem}", directory.display()))
}

fn check_schema(state: &SchemaState) -> Finding {
    const MIGRATE: &str = "Run `ringtrue migrate`.";
    match state {
        SchemaState::Current => passed(SCHEMA, "up to date"),
        SchemaState::Newer { names } => {
            passed(SCHEMA, format!("migrated by a newer release, which supports this one: {}", names.join(", ")))
        }
        SchemaState::Empty => failed(SCHEMA, "not created yet", MIGRATE),
        SchemaState::Behind { missing } => failed(SCHEMA, format!("{} missing", missing.join(", ")), MIGRATE),
        SchemaState::Unknown { names } => failed(
            SCHEMA,
            format!("migrations from a newer release: {}", names.join(", ")),
            "Run that release, or restore a backup taken before it.",
        ),
        SchemaState::Altered { names } => failed(
            SCHEMA,
            format!("migrations with different content were applied: {}", names.join(", ")),
            "This database was not created by a release. Create a new one, or restore a backup.",
        ),
    }
}

/// Checks whether tables are distributed over the Citus cluster. `None`: the database cannot be distributed, or the
/// configuration says not to.
async fn check_distribution(config: &Config) -> Option<Finding> {
    const DISTRIBUTE: &str = "Run `ringtrue distribute`, or set `store.distribute` to \"never\".";
    let state = match distribution_state(&config.store.url).await {
        Ok(state) => state?,
        Err(error) => return Some(failed(DISTRIBUTION, error.to_string(), "Check the database log.")),
    };
    match state {
        DistributionState::NoCitus => None,
        DistributionState::NoWorkers | DistributionState::Pending(_)
            if config.store.distribute == Distribute::Never =>
        {
            None
        }
        DistributionState::NoWorkers => {
            Some(failed(DISTRIBUTION, "Citus has no workers", "Add workers with `citus_add_node`."))
        }
        DistributionState::Pending(tables) => {
            Some(failed(DISTRIBUTION, format!("not distributed: {}", tables.join(", ")), DISTRIBUTE))
        }
        DistributionState::Distributed(balance) => Some(check_servers(config, &describe_balance(&balance)).await),
    }
}

/// Checks that this node can reach each server of the cluster, unless it is configured to use the coordinator only.
async fn check_servers(config: &Config, balance: &str) -> Finding {
    if config.store.options.citus == CitusAccess::Coordinator {
        return passed(DISTRIBUTION, format!("{balance}; all statements go through the coordinator (`store.citus`)"));
    }
    let problem = match test_servers(&config.store.url).await {
        Ok(Ok(servers)) => {
            return passed(DISTRIBUTION, format!("{balance}; nodes connect to {servers} servers directly"));
        }
        Ok(Err(problem)) => problem,
        Err(error) => error.to_string(),
    };
    failed(
        DISTRIBUTION,
        format!("a server cannot be used directly, so its statements go through the coordinator: {problem}"),
        "Let nodes connect to every server under its address in `pg_dist_node`, as the owner of the tables, or set \
         `store.citus` to \"coordinator\", which is slower.",
    )
}

/// Returns the number of Citus workers to which a node connects. 0 if it is unknown, which another check reports.
pub(super) async fn count_workers(config: &Config) -> usize {
    if config.store.options.citus == CitusAccess::Coordinator {
        return 0;
    }
    match distribution_state(&config.store.url).await {
        Ok(Some(DistributionState::Distributed(balance))) => balance.servers.len(),
        _ => 0,
    }
}

/// Describes how shards are spread, for example "13 tables on every server, 11 distributed; 10.0.0.5:5432 has 88 shards
/// (120 MiB), ...".
fn describe_balance(balance: &ShardDistribution) -> String {
    let server =
        |(name, shards, bytes): &(String, i64, i64)| format!("{name} has {shards} shards ({} MiB)", bytes / (1 << 20));
    let servers: Vec<String> = balance.servers.iter().map(server).collect();
    format!(
        "{} tables on every server, {} distributed; {}",
        balance.reference_tables,
        balance.distributed_tables,
        servers.join(", ")
    )
}

async fn check_writes(store: &dyn Store) -> Finding {
    match store.ping().await {
        Ok(()) => passed(WRITES, "accepted"),
        Err(error) => failed(
            WRITES,
            error.to_string(),
            "Check the disk's free space, the file's owner and permissions, or whether the server is a read-only replica.",
        ),
    }
}

/// Detects a database that was restored from a backup: compares its generation and identity with those that servers
/// last recorded.
async fn check_restore(store: &dyn Store, config: &Config) -> Finding {
    let (history, identity) = match (store.database_history().await, store.database_identity().await) {
        (Ok(history), Ok(identity)) => (history, identity),
        (Err(error), _) | (_, Err(error)) => return failed(RESTORE, error.to_string(), "Check the database log."),
    };
    let recorded_generation = GenerationFile::for_store(&config.store).and_then(|file| file.read());
    let is_behind = match recorded_generation {
        Some(generation) => history.generation < generation,
        None => history.identity.is_some() && identity.is_some() && history.identity != identity,
    };
    if is_behind || history.rollback_detected_at.is_some() {
        failed(
            RESTORE,
            "the database is older than the last recorded state: it was restored from a backup, copied or replaced",
            "Stop all servers, run `ringtrue restored`, and start them again.",
        )
    } else {
        passed(RESTORE, "no restore detected")
    }
}

fn check_clock(clock: &DatabaseClock) -> Finding {
    let skew = clock_skew(clock).as_secs_f64();
    let side = if skew < 0.0 { "behind" } else { "ahead of" };
    let detail = format!("{:.3} s {side} the database's time", skew.abs());
    if is_excessive_skew(clock_skew(clock)) {
        let hint = "Synchronise this machine's clock, for example with NTP. It affects log timestamps only; all \
                      decisions use the database time.";
        failed(CLOCK, detail, hint)
    } else {
        passed(CLOCK, detail)
    }
}

async fn check_keys(store: &dyn Store, master: Option<&MasterKey>, clock: &DatabaseClock) -> Finding {
    let Some(master) = master else { return skipped(KEYS, "no master key available") };
    let (stored, summaries) = match (store.list_keys().await, list_key_summaries(store, clock).await) {
        (Ok(stored), Ok(summaries)) => (stored, summaries),
        (Err(error), _) | (_, Err(error)) => return failed(KEYS, error.to_string(), "Check the database log."),
    };
    if stored.is_empty() {
        return passed(KEYS, "none yet: the first server to start creates them");
    }
    match KeyRing::from_sealed(&stored, master, &KeyRing::default()) {
        Err(error) => failed(KEYS, error.to_string(), "Use the master key that this database was created with."),
        Ok(ring) if ring.has_all_active_keys(clock.now()) => passed(KEYS, render_key_states(&summaries)),
        Ok(_) => failed(
            KEYS,
            format!("some purposes have no active key ({})", render_key_states(&summaries)),
            "Start a server once, which creates missing keys, or run `ringtrue keys rotate --emergency --purpose …`.",
        ),
    }
}

/// Verifies the MACs of accounts, memberships, invitations and credentials, which reveal rows that were altered outside
/// Ringtrue.
async fn check_altered_rows(store: &dyn Store, master: Option<&MasterKey>) -> Finding {
    let Some(master) = master else { return skipped(ALTERED_ROWS, "no master key available") };
    let ring = match store.list_keys().await {
        Ok(stored) if stored.is_empty() => return passed(ALTERED_ROWS, "none yet"),
        Ok(stored) => KeyRing::from_sealed(&stored, master, &KeyRing::default()),
        Err(error) => return failed(ALTERED_ROWS, error.to_string(), "Check the database log."),
    };
    let Ok(ring) = ring else { return skipped(ALTERED_ROWS, "the master key does not unseal the keys") };
    store.set_row_signer(Arc::new(ring));
    match store.find_altered_rows(MAX_ALTERED_ROWS).await {
        Ok(altered) if altered.is_empty() => passed(ALTERED_ROWS, "none was altered outside Ringtrue"),
        Ok(altered) => {
            let rows: Vec<_> = altered.iter().map(|row| format!("{} {}", row.table, row.row)).collect();
            failed(
                ALTERED_ROWS,
                format!("written or altered outside Ringtrue, and rejected: {}", rows.join("; ")),
                "Find out who can write to the database. Then run `ringtrue console reset EMAIL` for accounts, delete \
                 credentials, and remove memberships and invitations in the console.",
            )
        }
        Err(error) => failed(ALTERED_ROWS, error.to_string(), "Check the database log."),
    }
}

async fn check_residency(store: &dyn Store, region: Region, clock: &DatabaseClock) -> Finding {
    let control_plane = match store.changes_since(ControlPlaneVersion(0), clock.now()).await {
        Ok(control_plane) => control_plane,
        Err(error) => return failed(RESIDENCY, error.to_string(), "Check the database log."),
    };
    match region.check_residency(control_plane.workspaces.iter().map(|workspace| workspace.data_residency)) {
        Ok(()) => passed(RESIDENCY, format!("all workspaces reside in `{region}`")),
        Err(misplaced) => failed(RESIDENCY, misplaced.to_string(), REGION_HINT),
    }
}

/// Reports which nodes hold the binds of exclusive connectors. Only one node at a time binds such a connector; the
/// others stand by.
async fn check_exclusive_binds(store: &dyn Store, config: &Config, clock: &DatabaseClock) -> Option<Finding> {
    const CHECK: &str = "exclusive binds";
    let exclusive = config.connectors.iter().filter_map(|section| match &section.connector {
        Connector::Smpp(smpp) if smpp.is_exclusive => Some(&smpp.name),
        _ => None,
    });
    let (mut bound, mut unbound) = (vec![], vec![]);
    for name in exclusive {
        match store.find_lease(&lease_name(name), clock.machine_now()).await {
            Ok(Some(lease)) if lease.links_up > 0 => bound.push(format!("{name} on node {}", lease.holder.0)),
            Ok(_) => unbound.push(name.to_string()),
            Err(error) => return Some(failed(CHECK, error.to_string(), "Check the database log.")),
        }
    }
    if unbound.is_empty() {
        return (!bound.is_empty()).then(|| passed(CHECK, format!("bound: {}", bound.join(", "))));
    }
    let unbound = unbound.join(", ");
    Some(match store.count_live_nodes(clock.now() - NODE_TIMEOUT).await {
        Ok(0) => skipped(CHECK, format!("no server is running that could bind {unbound}")),
        Ok(_) => failed(
            CHECK,
            format!("no node is bound: {unbound}"),
            "Find out from the servers' logs why the bind failed.",
        ),
        Err(error) => failed(CHECK, error.to_string(), "Check the database log."),
    })
}

/// Renders the states of all keys, grouped by purpose.
fn render_key_states(summaries: &[KeySummary]) -> String {
    let render = |purpose: &KeyPurpose| {
        let states: Vec<_> =
            summaries.iter().filter(|key| key.purpose == *purpose).map(|key| key.state.into_str()).collect();
        format!("{purpose}: {}", if states.is_empty() { "none".to_owned() } else { states.join(", ") })
    };
    KeyPurpose::VARIANTS.iter().map(render).collect::<Vec<_>>().join("; ")
}
