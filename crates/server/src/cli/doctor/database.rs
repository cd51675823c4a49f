//! Checks of the database and its keys.

use std::{fs, io, path::Path};

use ringtrue_domain::region::Region;
use ringtrue_engine::{
    keys::{KeyRing, KeySummary, MasterKey, has_legacy_seals, list_key_summaries},
    nodes::{clock_skew, is_excessive_skew},
    ports::{Clock, ControlPlaneVersion, DatabaseClock, KeyPurpose, Store},
};
use ringtrue_store::{SchemaState, schema_state};
use rustix::fs::{Access, access};

use super::{Finding, failed, passed, skipped};
use crate::{
    cli::{
        context::{CommandContext, database_clock, open_store},
        error::REGION_HINT,
    },
    config::Config,
    state_file::StateFile,
};

const MASTER_KEY: &str = "master key";
const DATABASE: &str = "database";
const SCHEMA: &str = "schema";
const WRITES: &str = "writes";
const CLOCK: &str = "clock";
const RESTORE: &str = "restore";
const KEYS: &str = "keys";
const RESIDENCY: &str = "data residency";

pub(super) async fn check(context: &CommandContext, config: &Config) -> Vec<Finding> {
    let (master, master_finding) = match context.master_key(config) {
        Ok(master) => (Some(master), passed(MASTER_KEY, "valid and not exposed")),
        Err(error) => (
            None,
            failed(MASTER_KEY, error.to_string(), "Servers do not start without it. Keep a copy in a safe place."),
        ),
    };
    let mut findings = vec![master_finding];
    findings.extend(check_database(config, master.as_ref()).await);
    findings
}

async fn check_database(config: &Config, master: Option<&MasterKey>) -> Vec<Finding> {
    let url = &config.store.url;
    let unreachable = |database: Finding| {
        let rest = [SCHEMA, WRITES, RESTORE, CLOCK, KEYS, RESIDENCY]
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
    if state != SchemaState::Current {
        findings.extend(
            [WRITES, RESTORE, CLOCK, KEYS, RESIDENCY]
                .map(|check| skipped(check, "the schema does not match this release")),
        );
        return findings;
    }
    match open_store(config).await {
        Ok(store) => {
            findings.extend([check_writes(&*store).await, check_restore(&*store, config).await]);
            match database_clock(&*store).await {
                Ok(clock) => findings.extend([
                    check_clock(&clock),
                    check_keys(&*store, master, &clock).await,
                    check_residency(&*store, config.region, &clock).await,
                ]),
                Err(error) => {
                    findings.push(failed(CLOCK, error.to_string(), "Check the database log."));
                    findings.extend([KEYS, RESIDENCY].map(|check| skipped(check, "cannot read the database time")));
                }
            }
        }
        Err(error) => findings.push(failed(WRITES, error.to_string(), "Check the database log.")),
    }
    findings
}

/// SQLite creates files in this directory while the database is in use.
fn directory_problem(file: &Path) -> Option<String> {
    let parent = file.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = parent.unwrap_or(Path::new("."));
    let problem = match fs::metadata(directory) {
        Err(error) if error.kind() == io::ErrorKind::NotFound => "does not exist".to_owned(),
        Err(error) => format!("cannot be read: {error}"),
        Ok(found) if !found.is_dir() => "is not a directory".to_owned(),
        Ok(_) => match access(directory, Access::WRITE_OK | Access::EXEC_OK) {
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

/// Compares the database with the generation and identity that servers last recorded.
async fn check_restore(store: &dyn Store, config: &Config) -> Finding {
    let (history, identity) = match (store.database_history().await, store.database_identity().await) {
        (Ok(history), Ok(identity)) => (history, identity),
        (Err(error), _) | (_, Err(error)) => return failed(RESTORE, error.to_string(), "Check the database log."),
    };
    let recorded_generation = StateFile::for_store(&config.store).and_then(|file| file.read());
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
        let hint = "Synchronise the clock of this machine, for example with NTP. It affects log timestamps only; all \
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
    if has_legacy_seals(&stored, master) {
        return passed(KEYS, "sealed by an older release: the first server to start reseals them");
    }
    match KeyRing::open(&stored, master, &KeyRing::default()) {
        Err(error) => failed(KEYS, error.to_string(), "Use the master key that this database was created with."),
        Ok(ring) if ring.has_all_active_keys(clock.now()) => passed(KEYS, render_states(&summaries)),
        Ok(_) => failed(
            KEYS,
            format!("some purposes have no active key ({})", render_states(&summaries)),
            "Start a server once, which creates missing keys, or run `ringtrue keys rotate --emergency --purpose …`.",
        ),
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

/// Lists the key states of each purpose.
fn render_states(summaries: &[KeySummary]) -> String {
    let render = |purpose: KeyPurpose| {
        let states: Vec<_> =
            summaries.iter().filter(|key| key.purpose == purpose).map(|key| key.state.as_str()).collect();
        format!("{purpose}: {}", if states.is_empty() { "none".to_owned() } else { states.join(", ") })
    };
    KeyPurpose::ALL.map(render).join("; ")
}
