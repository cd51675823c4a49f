//! The database, and the keys in it.

use std::{fs, io, path::Path};

use ringtrue_domain::region::Region;
use ringtrue_engine::{
    keys::{KeyRing, KeySummary, MasterKey, are_without_schedules, key_summaries},
    nodes::{clock_skew, is_skewed},
    ports::{Clock, DatabaseClock, KeyPurpose, Store, Version},
};
use ringtrue_store::{SchemaState, schema_state};
use rustix::fs::{Access, access};

use super::{Finding, bad, good, skipped};
use crate::{
    cli::{
        desk::{Desk, database_clock, open_store},
        failure::WHERE_DATA_BELONGS,
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

pub(super) async fn examine(desk: &Desk, config: &Config) -> Vec<Finding> {
    let (master, about_master) = match desk.master_key(config) {
        Ok(master) => (Some(master), good(MASTER_KEY, "there, well-formed, and not exposed")),
        Err(failure) => {
            (None, bad(MASTER_KEY, failure.to_string(), "Without it no server starts. Keep a copy in a safe place."))
        }
    };
    let mut findings = vec![about_master];
    findings.extend(examine_database(config, master.as_ref()).await);
    findings
}

async fn examine_database(config: &Config, master: Option<&MasterKey>) -> Vec<Finding> {
    let url = &config.store.url;
    let unreachable = |database: Finding| {
        let rest = [SCHEMA, WRITES, RESTORE, CLOCK, KEYS, RESIDENCY]
            .map(|check| skipped(check, "the database cannot be reached"));
        [database].into_iter().chain(rest).collect()
    };
    if let Some(problem) = url.sqlite_path().and_then(directory_problem) {
        let remedy = "Create the directory, writable by the user that runs the server, or correct `store.url`.";
        return unreachable(bad(DATABASE, format!("{url}: {problem}"), remedy));
    }
    let state = match schema_state(url).await {
        Ok(state) => state,
        Err(error) => {
            let remedy = "Check `store.url`, that the database runs, and that this machine and user may reach it.";
            return unreachable(bad(DATABASE, format!("{url}: {error}"), remedy));
        }
    };
    let mut findings = vec![good(DATABASE, url.to_string()), schema(&state)];
    if state != SchemaState::Current {
        findings
            .extend([WRITES, RESTORE, CLOCK, KEYS, RESIDENCY].map(|check| skipped(check, "the schema does not fit")));
        return findings;
    }
    match open_store(config).await {
        Ok(store) => {
            findings.extend([writes(&*store).await, restore(&*store, config).await]);
            match database_clock(&*store).await {
                Ok(clock) => findings.extend([
                    machine_clock(&clock),
                    keys(&*store, master, &clock).await,
                    residency(&*store, config.region, &clock).await,
                ]),
                Err(error) => {
                    findings.push(bad(CLOCK, error.to_string(), "Look at the database's own log."));
                    findings.extend([KEYS, RESIDENCY].map(|check| skipped(check, "the time cannot be read")));
                }
            }
        }
        Err(failure) => findings.push(bad(WRITES, failure.to_string(), "Look at the database's own log.")),
    }
    findings
}

/// What is wrong with the directory of a SQLite database. Files are created in it while the database is in use.
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

fn schema(state: &SchemaState) -> Finding {
    const MIGRATE: &str = "Run `ringtrue migrate`.";
    match state {
        SchemaState::Current => good(SCHEMA, "up to date"),
        SchemaState::Empty => bad(SCHEMA, "there is none yet", MIGRATE),
        SchemaState::Behind { missing } => bad(SCHEMA, format!("{} missing", missing.join(", ")), MIGRATE),
        SchemaState::Unknown { names } => bad(
            SCHEMA,
            format!("a newer release wrote {}", names.join(", ")),
            "Run that release, or restore a backup from before it.",
        ),
        SchemaState::Altered { names } => bad(
            SCHEMA,
            format!("{} had another content when it was applied", names.join(", ")),
            "This database was not made by a release. Begin with a new one, or restore a backup.",
        ),
    }
}

async fn writes(store: &dyn Store) -> Finding {
    match store.ping().await {
        Ok(()) => good(WRITES, "taken"),
        Err(error) => bad(
            WRITES,
            error.to_string(),
            "Check the disk's free space, the file's owner and permissions, or whether the server is a read-only replica.",
        ),
    }
}

/// Whether the database is the one that servers knew last.
async fn restore(store: &dyn Store, config: &Config) -> Finding {
    let (history, identity) = match (store.database_history().await, store.database_identity().await) {
        (Ok(history), Ok(identity)) => (history, identity),
        (Err(error), _) | (_, Err(error)) => return bad(RESTORE, error.to_string(), "Look at the database's own log."),
    };
    let remembered = StateFile::of(&config.store).and_then(|file| file.read());
    let is_behind = match remembered {
        Some(generation) => history.generation < generation,
        None => history.identity.is_some() && identity.is_some() && history.identity != identity,
    };
    if is_behind || history.went_back_at.is_some() {
        bad(
            RESTORE,
            "the database is older than it was: it was restored from a backup, copied or replaced",
            "Stop all servers, run `ringtrue restored`, and start them again.",
        )
    } else {
        good(RESTORE, "the database has not gone back")
    }
}

fn machine_clock(clock: &DatabaseClock) -> Finding {
    let skew = clock_skew(clock).as_secs_f64();
    let side = if skew < 0.0 { "behind" } else { "ahead of" };
    let found = format!("{:.3} s {side} the database's time", skew.abs());
    if is_skewed(clock_skew(clock)) {
        let remedy = "Correct the clock of this machine, for example with NTP. Nothing is decided by it; until then, \
                      times in logs are wrong.";
        bad(CLOCK, found, remedy)
    } else {
        good(CLOCK, found)
    }
}

async fn keys(store: &dyn Store, master: Option<&MasterKey>, clock: &DatabaseClock) -> Finding {
    let Some(master) = master else { return skipped(KEYS, "there is no master key to open them with") };
    let (stored, summaries) = match (store.all_keys().await, key_summaries(store, clock).await) {
        (Ok(stored), Ok(summaries)) => (stored, summaries),
        (Err(error), _) | (_, Err(error)) => return bad(KEYS, error.to_string(), "Look at the database's own log."),
    };
    if stored.is_empty() {
        return good(KEYS, "none yet: the first server to start makes them");
    }
    if are_without_schedules(&stored, master) {
        return good(KEYS, "sealed by an earlier release: the first server to start seals them again");
    }
    match KeyRing::open(&stored, master, &KeyRing::default()) {
        Err(error) => bad(KEYS, error.to_string(), "Use the master key that this database was set up with."),
        Ok(ring) if ring.is_complete(clock.now()) => good(KEYS, states(&summaries)),
        Ok(_) => bad(
            KEYS,
            format!("not every purpose has a key in use ({})", states(&summaries)),
            "Start a server once, which makes missing keys, or run `ringtrue keys rotate --emergency --purpose …`.",
        ),
    }
}

async fn residency(store: &dyn Store, here: Region, clock: &DatabaseClock) -> Finding {
    let everything = match store.changes_since(Version(0), clock.now()).await {
        Ok(everything) => everything,
        Err(error) => return bad(RESIDENCY, error.to_string(), "Look at the database's own log."),
    };
    match here.holds_only_its_own(everything.workspaces.iter().map(|workspace| workspace.data_residency)) {
        Ok(()) => good(RESIDENCY, format!("all workspaces reside in `{here}`")),
        Err(misplaced) => bad(RESIDENCY, misplaced.to_string(), WHERE_DATA_BELONGS),
    }
}

/// How many keys of each purpose are in which state.
fn states(summaries: &[KeySummary]) -> String {
    let of = |purpose: KeyPurpose| {
        let states: Vec<_> =
            summaries.iter().filter(|key| key.purpose == purpose).map(|key| key.state.as_str()).collect();
        format!("{purpose}: {}", if states.is_empty() { "none".to_owned() } else { states.join(", ") })
    };
    KeyPurpose::ALL.map(of).join("; ")
}
