//! `ringtrue migrate`, `distribute`, `keys`, `erase` and `restored`: maintenance of the configured database.

use std::path::Path;

use jiff::Timestamp;
use ringtrue_client::{
    Progress,
    printer::{self, Output, Record},
};
use ringtrue_domain::{phone::Msisdn, tenancy::Mode, timestamp};
use ringtrue_engine::{
    keys::{self, KeyRotation, KeySummary},
    node::NODE_TIMEOUT,
    ports::{
        clock::{Clock, SystemClock},
        entropy::SystemEntropy,
        keys::KeyPurpose,
    },
};
use ringtrue_store::{DistributionProgress, DistributionState};
use serde_json::{Value, json};

use super::{
    arguments::{EraseArguments, KeysAction, RestoredArguments},
    context::{CommandContext, database_clock, open_keys, open_store},
    error::CliError,
};
use crate::config::{Distribute, read_master_key};

const KEY_COLUMNS: [&str; 7] = ["key_id", "purpose", "state", "published_at", "active_from", "retires_at", "gone_at"];

pub(super) async fn migrate(context: &CommandContext) -> Result<(), CliError> {
    let store = context.config()?.store;
    let url = &store.url;
    let applied = ringtrue_store::migrate(url, SystemClock.now())
        .await
        .map_err(|error| CliError::Migrate { url: url.to_string(), error })?;
    let distributed = match store.distribute {
        Distribute::Auto => ringtrue_store::distribute_if_empty(url).await?,
        Distribute::Never => Vec::new(),
    };
    match (context.printer.output, applied.as_slice()) {
        (Output::Table, []) => printer::print_text(&format!("{url} is up to date."))?,
        (Output::Table, names) => {
            printer::print_text(&format!("{url} is now up to date. Applied: {}.", names.join(", ")))?;
        }
        (_, names) => {
            let mut record = vec![("applied", json!(names))];
            if !distributed.is_empty() {
                record.push(("distributed", json!(distributed)));
            }
            context.printer.print_record(record)?;
        }
    }
    if context.printer.output == Output::Table && !distributed.is_empty() {
        printer::print_text(&format!("Distributed over the Citus cluster: {}.", distributed.join(", ")))?;
    }
    if store.distribute == Distribute::Auto
        && let Some(DistributionState::Pending(tables)) = ringtrue_store::distribution_state(url).await?
    {
        printer::print_note(&format!(
            "The database belongs to a Citus cluster, but {} tables are not distributed. Run `ringtrue distribute`, or \
             set `store.distribute` to \"never\".",
            tables.len()
        ));
    }
    Ok(())
}

/// Distributes tables over the servers of a Citus cluster.
pub(super) async fn distribute(context: &CommandContext) -> Result<(), CliError> {
    let url = context.config()?.store.url;
    let mut progress = Progress::start();
    let report = |DistributionProgress { table, number, total }| {
        progress.show_bar(number as u64 - 1, total as u64, &format!("tables; {table}"));
        progress.print_line_unless_terminal(&format!("{number} of {total}: {table}"));
    };
    let distributed = ringtrue_store::distribute(&url, report).await?;
    drop(progress);
    match (context.printer.output, distributed.as_slice()) {
        (Output::Table, []) => printer::print_text("All tables are distributed.")?,
        (Output::Table, names) => printer::print_text(&format!("Distributed: {}.", names.join(", ")))?,
        (_, names) => context.printer.print_record(vec![("distributed", json!(names))])?,
    }
    Ok(())
}

pub(super) async fn erase_number(context: &CommandContext, arguments: &EraseArguments) -> Result<(), CliError> {
    // The error must not contain the number: it may be a real number with a typing error.
    let number = Msisdn::parse(&arguments.number.read()?, Mode::Sandbox).map_err(|error| {
        CliError::usage(
            format!("not a number in E.164 format: {error}"),
            "Use the country code and digits only, such as +447700900123.",
        )
    })?;
    let progress = Progress::with_spinner("erasing");
    let (erased, event) = context.with_engine(async |engine| Ok(engine.node.erase_number(&number).await?)).await?;
    drop(progress);
    context.printer.print_record(vec![
        ("erased_at", json!(timestamp::format(event.at))),
        ("audit_event_id", json!(event.id.to_string())),
        ("number", json!(format!("…{}", number.tail()))),
        ("checks", json!(erased.checks)),
        ("callbacks", json!(erased.callbacks)),
        ("attempts", json!(erased.attempts)),
        ("open_checks", json!(erased.deferred.map_or(0, |left| left.checks))),
        ("open_until", json!(erased.deferred.map(|left| timestamp::format(left.until)))),
    ])?;
    if let Some(left) = erased.deferred {
        let (number, until) = (left.checks, timestamp::format(left.until));
        printer::print_note(&format!(
            "Open checks of this number: {number}. The last one concludes by {until}; a running server erases each \
             check within about a minute of its conclusion."
        ));
    }
    Ok(())
}

/// Invalidates the sessions, tokens and callbacks that became valid again when a backup was restored.
pub(super) async fn accept_restored_database(
    context: &CommandContext,
    arguments: &RestoredArguments,
) -> Result<(), CliError> {
    let config = context.config()?;
    let store = open_store(&config).await?;
    // Must be read before the engine starts, because the engine's first heartbeat overwrites this time.
    let last_heartbeat = store.database_time(SystemClock.now()).await?.latest_recorded;
    if arguments.reset_clock {
        store.reset_latest_time().await?;
    }
    drop(store);
    let restored =
        context.with_engine_of(&config, async |engine| Ok(engine.node.repair_restored_database().await?)).await?;
    context.printer.print_record(vec![
        ("restored_at", json!(timestamp::format(restored.event.at))),
        ("changes_lost_since", json!(timestamp::format(last_heartbeat))),
        ("audit_event_id", json!(restored.event.id.to_string())),
        ("callbacks_given_up", json!(restored.callbacks)),
        ("checks_expired", json!(restored.checks)),
        ("sessions_ended", json!(restored.sessions)),
    ])?;
    printer::print_note(
        "All access tokens, console sessions and links are revoked. Everything else is as it was then. Repeat what was \
         done since, before you start servers: erased numbers; deleted credentials; removed members, roles and \
         administrators; disabled accounts; changed passwords; replaced second factors and used recovery codes; unlinked \
         identities; rotated keys; settings. See docs/backup.md.",
    );
    Ok(())
}

pub(super) async fn keys(context: &CommandContext, action: KeysAction) -> Result<(), CliError> {
    match action {
        KeysAction::List => list_keys(context).await,
        KeysAction::Rotate { purpose, emergency } => rotate_key(context, purpose, emergency).await,
        KeysAction::ResetHashKey { yes } => reset_hash_key(context, yes).await,
        KeysAction::Rewrap { new_master_key_file } => rewrap_keys(context, &new_master_key_file).await,
    }
}

async fn list_keys(context: &CommandContext) -> Result<(), CliError> {
    let store = open_store(&context.config()?).await?;
    let keys = keys::list_key_summaries(&*store, &database_clock(&*store).await?).await?;
    Ok(context.printer.print_list(&KEY_COLUMNS, keys.iter().map(key_record).collect())?)
}

async fn rotate_key(context: &CommandContext, purpose: KeyPurpose, emergency: bool) -> Result<(), CliError> {
    let config = context.config()?;
    let master = context.master_key(&config)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &master).await?;
    let rotation = KeyRotation::by_command_line(purpose, emergency);
    let clock = database_clock(&*store).await?;
    let successor = keys::rotate_key(rotation, &*store, &master, &clock, &SystemEntropy::default()).await?;
    Ok(context.printer.print_record(key_record(&successor))?)
}

const HASH_KEY_RESET_EFFECTS: &str = "\
This replaces the hash key:
- All console sessions, links and open invitations end. Users sign in again; accounts of an OpenID provider are linked
  again by their verified address.
- Open checks cannot be completed, and expire.
- Numbers of earlier checks cannot be found, erased by number or counted any more. Retention erases them on time.
- Idempotency keys are forgotten.
Client credentials, passwords, second factors and memberships stay valid.";

async fn reset_hash_key(context: &CommandContext, is_confirmed: bool) -> Result<(), CliError> {
    if !is_confirmed {
        return Err(CliError::usage(
            HASH_KEY_RESET_EFFECTS,
            "Nothing was changed. Stop all servers, and repeat the command with --yes.",
        ));
    }
    let config = context.config()?;
    let master = context.master_key(&config)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &master).await?;
    let clock = database_clock(&*store).await?;
    if store.count_live_nodes(clock.now() - NODE_TIMEOUT).await? > 0 {
        return Err(CliError::failed(
            "servers are running",
            "They would continue to use the old hash key. Stop all of them first.",
        ));
    }
    let reset = keys::reset_hash_key(&*store, &master, &clock, &SystemEntropy::default()).await?;
    context.printer.print_record(vec![
        ("signed_rows", json!(reset.signed_rows)),
        ("sessions_ended", json!(reset.sessions)),
        ("identities_unlinked", json!(reset.unlinked_identities)),
    ])?;
    printer::print_note("The hash key is replaced. Start the servers again.");
    Ok(())
}

async fn rewrap_keys(context: &CommandContext, new_master_key_file: &Path) -> Result<(), CliError> {
    let config = context.config()?;
    let old = context.master_key(&config)?;
    let new = read_master_key(new_master_key_file)?;
    let store = open_store(&config).await?;
    open_keys(&*store, &old).await?;
    let clock = database_clock(&*store).await?;
    let keys = keys::rewrap_keys(&old, &new, &*store, &clock, &SystemEntropy::default()).await?;
    context.printer.print_record(vec![("keys", json!(keys))])?;
    printer::print_note(
        "The keys are sealed with the new master key. Replace the old one and restart every server; until then, \
         running servers keep working but cannot rotate keys.",
    );
    Ok(())
}

fn key_record(key: &KeySummary) -> Record {
    let instant = |at: Timestamp| json!(timestamp::format(at));
    let instant_or_null = |at: Option<Timestamp>| at.map_or(Value::Null, instant);
    let values = [
        json!(key.id.0.to_string()),
        json!(key.purpose.into_str()),
        json!(key.state.into_str()),
        instant(key.schedule.published_at),
        instant(key.schedule.active_from),
        instant_or_null(key.schedule.retires_at),
        instant_or_null(key.schedule.gone_at),
    ];
    KEY_COLUMNS.into_iter().zip(values).collect()
}
