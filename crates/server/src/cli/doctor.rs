//! `ringtrue config` and `ringtrue doctor`: check the configuration, and everything else that a server needs, without
//! changing anything.
//!
//! Checks of `doctor` that depend on a failed check are reported as skipped.

use std::{
    fs, io,
    net::{SocketAddr, TcpListener},
    path::Path,
    sync::Arc,
};

use ringtrue_client::{
    CommandError, is_ringtrue,
    printer::{self, Output, Printer, Record},
};
use ringtrue_domain::region::Region;
use ringtrue_engine::{
    keys::{KeyRing, KeySummary, MasterKey, has_legacy_seals, list_key_summaries},
    node::{NODE_TIMEOUT, clock_skew, is_excessive_skew},
    ports::{Clock, ControlPlaneVersion, DatabaseClock, Entropy, KeyPurpose, Store, SystemClock, SystemEntropy},
};
use ringtrue_operators::smpp::lease_name;
use ringtrue_store::{DistributionState, SchemaState, ShardBalance, distribution_state, schema_state};
use rustix::fs::{Access, access};
use serde_json::json;

use super::{
    arguments::ConfigAction,
    context::{CommandContext, database_clock, open_store},
    error::{CliError, REGION_HINT},
};
use crate::{
    config::{
        ChangedSetting, Config, Connector, DEFAULTS, Distribute, LoadedConfig, MasterKeyError, OpenIdConnectSection,
    },
    connectors::ConnectorFactory,
    console::openid_connect::OpenIdConnect,
    listener::Tls,
    prepared,
    state_file::StateFile,
};

const NO_MASTER_KEY_NOTE: &str = "No master key configured: `ringtrue serve` requires one.";

const MASTER_KEY: &str = "master key";
const DATABASE: &str = "database";
const SCHEMA: &str = "schema";
const DISTRIBUTION: &str = "distribution";
const WRITES: &str = "writes";
const CLOCK: &str = "clock";
const RESTORE: &str = "restore";
const KEYS: &str = "keys";
const RESIDENCY: &str = "data residency";
const OPENID_PROVIDER: &str = "OpenID provider";

/// File descriptors beyond connections: database, log, listeners.
const RESERVED_FILE_DESCRIPTORS: usize = 64;

#[derive(Debug, PartialEq, Eq)]
struct Finding {
    check: &'static str,
    verdict: Verdict,
}

#[derive(Debug, PartialEq, Eq)]
enum Verdict {
    Passed(String),
    Failed {
        detail: String,
        hint: String,
    },
    /// The reason.
    Skipped(String),
}

fn passed(check: &'static str, detail: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Passed(detail.into()) }
}

fn failed(check: &'static str, detail: impl Into<String>, hint: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Failed { detail: detail.into(), hint: hint.into() } }
}

fn skipped(check: &'static str, reason: impl Into<String>) -> Finding {
    Finding { check, verdict: Verdict::Skipped(reason.into()) }
}

pub(super) fn config(context: &CommandContext, action: &ConfigAction) -> Result<(), CliError> {
    match action {
        ConfigAction::Check => check_config(context),
        ConfigAction::Default => Ok(printer::print_text(DEFAULTS)?),
    }
}

fn check_config(context: &CommandContext) -> Result<(), CliError> {
    let LoadedConfig { config, file, changed } = context.load()?;
    prepared::validate(&config)?;
    match context.master_key(&config) {
        // systemd may pass the key to the server process only.
        Err(CliError::MasterKey(MasterKeyError::Missing)) => printer::print_note(NO_MASTER_KEY_NOTE),
        other => drop(other?),
    }
    let source = file.as_ref().map_or_else(|| "no file".to_owned(), |path| path.display().to_string());
    let has_changes = !changed.is_empty();
    if context.printer.output == Output::Table {
        let rest =
            if has_changes { "Settings that differ from the defaults:" } else { "All settings have their defaults." };
        printer::print_text(&format!("The configuration is valid ({source}). {rest}"))?;
    }
    if has_changes || context.printer.output != Output::Table {
        context.printer.print_list(&["key", "value", "from"], changed.iter().map(setting_record).collect())?;
    }
    Ok(())
}

fn setting_record(changed: &ChangedSetting) -> Record {
    vec![("key", json!(changed.key)), ("value", json!(changed.value)), ("from", json!(changed.origin.to_string()))]
}

pub(super) async fn doctor(context: &CommandContext) -> Result<(), CliError> {
    let findings = match context.load() {
        Err(error) => vec![failed(
            "configuration",
            error.to_string(),
            "Correct it; `ringtrue config default` documents every key.",
        )],
        Ok(loaded) => run_checks(context, loaded).await,
    };
    let all_passed = !findings.iter().any(|finding| matches!(finding.verdict, Verdict::Failed { .. }));
    print_findings(context.printer, &findings, all_passed)?;
    if all_passed { Ok(()) } else { Err(CommandError::AlreadyReported.into()) }
}

async fn run_checks(context: &CommandContext, LoadedConfig { config, file, .. }: LoadedConfig) -> Vec<Finding> {
    let source = file.map_or_else(|| "defaults and environment".to_owned(), |path| path.display().to_string());
    let mut findings = vec![passed("configuration", source), check_base_url(&config)];
    findings.extend(check_key_and_database(context, &config).await);
    findings.push(check_tls(&config));
    findings.push(check_address("http.listen", config.http.listen, config.http.tls.is_some()).await);
    if let Some(listen) = config.metrics.listen {
        findings.push(check_address("metrics.listen", listen, false).await);
    }
    findings.push(check_open_files(&config));
    if let Some(section) = &config.openid_connect {
        findings.push(check_openid_provider(&config, section).await);
    }
    findings
}

async fn check_openid_provider(config: &Config, section: &OpenIdConnectSection) -> Finding {
    const HINT: &str =
        "Check `console.openid_connect`, and that this machine can reach the provider. Passwords still work.";
    let dependencies: (Arc<dyn Clock>, Arc<dyn Entropy>) = (Arc::new(SystemClock), Arc::new(SystemEntropy::default()));
    // No redirect is sent, so any base URL serves.
    let base_url = config.base_url.as_ref().map_or_else(|| "http://localhost".to_owned(), ToString::to_string);
    let provider = ConnectorFactory::new(config, base_url.clone(), None, dependencies)
        .and_then(|factory| OpenIdConnect::new(section.clone(), &base_url, &factory));
    match provider {
        Err(error) => failed(OPENID_PROVIDER, format!("{error:#}"), HINT),
        Ok(provider) => match provider.check().await {
            Ok(()) => passed(OPENID_PROVIDER, section.issuer.clone()),
            Err(error) => failed(OPENID_PROVIDER, format!("{}: {error}", section.issuer), HINT),
        },
    }
}

/// Loading the configuration has already checked that the URL matches the region.
fn check_base_url(config: &Config) -> Finding {
    let detail = match &config.base_url {
        Some(url) => format!("{url}, region {}", config.region),
        None => format!("not set: using http.listen, on this machine only; region {}", config.region),
    };
    passed("base URL", detail)
}

async fn check_key_and_database(context: &CommandContext, config: &Config) -> Vec<Finding> {
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
    if !matches!(state, SchemaState::Current | SchemaState::Newer { .. }) {
        findings.extend(
            [WRITES, RESTORE, CLOCK, KEYS, RESIDENCY]
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
                        check_residency(&*store, config.region, &clock).await,
                    ]);
                    findings.extend(check_exclusive_binds(&*store, config, &clock).await);
                }
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

/// `None`: the database cannot be distributed, or is not meant to be.
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
        DistributionState::Distributed(balance) => Some(passed(DISTRIBUTION, describe_balance(&balance))),
    }
}

/// For example "13 tables on every server, 11 distributed; 10.0.0.5:5432 has 88 shards (120 MiB), ...".
fn describe_balance(balance: &ShardBalance) -> String {
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

/// Reads which nodes hold the binds of exclusive connectors. Only one node is bound; the others stand by.
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
            "The logs of the servers have the reason of the failed bind.",
        ),
        Err(error) => failed(CHECK, error.to_string(), "Check the database log."),
    })
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

fn check_tls(config: &Config) -> Finding {
    const CHECK: &str = "TLS";
    match &config.http.tls {
        None => skipped(CHECK, "not configured: plain HTTP, for use behind a TLS proxy"),
        Some(files) => match Tls::load(&files.certificate, &files.key) {
            Ok(_) => passed(CHECK, format!("{} matches its private key", files.certificate.display())),
            Err(error) => failed(
                CHECK,
                error.to_string(),
                "Set `http.tls.certificate` to the chain (PEM, leaf first) and `http.tls.key` to its private key (PEM).",
            ),
        },
    }
}

async fn check_address(check: &'static str, address: SocketAddr, uses_tls: bool) -> Finding {
    let Err(error) = TcpListener::bind(address) else {
        return passed(check, format!("{address} is free"));
    };
    match error.kind() {
        io::ErrorKind::AddrInUse if is_ringtrue(address).await => {
            passed(check, format!("Ringtrue is already listening on {address}"))
        }
        io::ErrorKind::AddrInUse if uses_tls => {
            skipped(check, format!("{address} is in use; not probed, because it speaks TLS"))
        }
        io::ErrorKind::AddrInUse => {
            failed(check, format!("{address} is in use by another program"), "Stop it, or use another address.")
        }
        io::ErrorKind::PermissionDenied => failed(
            check,
            format!("{address}: {error}"),
            "Ports below 1024 require CAP_NET_BIND_SERVICE; grant it, or use a higher port.",
        ),
        _ => failed(check, format!("{address}: {error}"), "Use an address of this machine."),
    }
}

fn check_open_files(config: &Config) -> Finding {
    const CHECK: &str = "open files";
    let Some(limit) = fs::read_to_string("/proc/self/limits").ok().as_deref().and_then(parse_soft_limit) else {
        return skipped(CHECK, "cannot read the limit on this system");
    };
    let options = config.store.options;
    let needed = config.http.max_connections + options.connections.max(options.readers) + RESERVED_FILE_DESCRIPTORS;
    if limit >= needed {
        passed(CHECK, format!("at most {needed} needed, {limit} allowed"))
    } else {
        failed(
            CHECK,
            format!("{limit} allowed, but `http.max_connections` may need {needed}"),
            format!(
                "Raise the limit (`ulimit -n {needed}`, or LimitNOFILE={needed} in a systemd unit), or lower the setting."
            ),
        )
    }
}

/// Parses the soft limit from `/proc/self/limits`.
fn parse_soft_limit(limits: &str) -> Option<usize> {
    let line = limits.lines().find_map(|line| line.strip_prefix("Max open files"))?;
    match line.split_whitespace().next()? {
        "unlimited" => Some(usize::MAX),
        number => number.parse().ok(),
    }
}

fn print_findings(printer: Printer, findings: &[Finding], all_passed: bool) -> Result<(), CliError> {
    if printer.output != Output::Table {
        return Ok(printer.print_list(&[], findings.iter().map(record).collect())?);
    }
    let mut text: String = findings.iter().map(line).collect();
    text.push_str(if all_passed {
        "\nAll checks passed.\n"
    } else {
        "\nSome checks failed: see the lines marked ✗.\n"
    });
    Ok(printer::print_text(&text)?)
}

fn line(Finding { check, verdict }: &Finding) -> String {
    match verdict {
        Verdict::Passed(detail) => format!("✓ {check}: {detail}\n"),
        Verdict::Failed { detail, hint } => format!("✗ {check}: {detail}\n  → {hint}\n"),
        Verdict::Skipped(reason) => format!("- {check}: {reason}\n"),
    }
}

fn record(Finding { check, verdict }: &Finding) -> Record {
    let (verdict, detail, hint) = match verdict {
        Verdict::Passed(detail) => ("good", detail, None),
        Verdict::Failed { detail, hint } => ("bad", detail, Some(hint)),
        Verdict::Skipped(reason) => ("skipped", reason, None),
    };
    vec![("check", json!(check)), ("verdict", json!(verdict)), ("detail", json!(detail)), ("remedy", json!(hint))]
}

#[cfg(test)]
mod tests {
    use tokio::io::AsyncWriteExt;

    use super::*;

    #[test]
    fn soft_limit_is_the_first_number() {
        let limits = "Limit                     Soft Limit           Hard Limit           Units     \n\
                      Max processes             1                    2                    processes \n\
                      Max open files            1024                 524288               files     \n";
        assert_eq!(parse_soft_limit(limits), Some(1024));
        assert_eq!(parse_soft_limit("Max open files  unlimited  unlimited  files"), Some(usize::MAX));
        assert_eq!(parse_soft_limit("nothing"), None);
    }

    #[tokio::test]
    async fn address_in_use_by_another_program_is_reported() {
        let other = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let taken = other.local_addr().unwrap();
        let respond = async {
            let (mut stream, _) = other.accept().await.unwrap();
            stream.write_all(b"HTTP/1.1 200 OK\r\ncontent-length: 0\r\n\r\n").await.unwrap();
        };
        let (finding, ()) = tokio::join!(check_address("http.listen", taken, false), respond);
        let expected = format!("{taken} is in use by another program");
        assert_eq!(finding, failed("http.listen", expected, "Stop it, or use another address."));
    }
}
