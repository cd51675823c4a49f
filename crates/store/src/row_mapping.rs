//! Maps rows of the control-plane tables to domain types and back.
//!
//! One macro lists the columns of a table, and the function below it reads them in the same order. Lists and settings
//! are stored as JSON. The JSON types at the end of this file are part of the schema, and may change only in compatible
//! ways. Unknown members are ignored, because a newer node may write them during a rolling upgrade.

use std::{collections::BTreeMap, fmt, str::FromStr};

use jiff::Timestamp;
use ringtrue_domain::{
    account::AccountId,
    audit::{Actor, AuditEvent},
    key_schedule::KeySchedule,
    network::{AllowedNetwork, NetworkSelector},
    tenancy::{
        Configuration, Credential, CredentialOwner, Project, ProjectId, RateLimits, Revision, SecretDigest, Setting,
        SettingValue, Workspace, WorkspaceId,
    },
};
use ringtrue_engine::ports::{
    keys::{KeyId, SealedKey},
    row_mac::RowMac,
    store::StoreError,
    tokens::{Revocation, TokenId},
};
use serde::{Deserialize, Serialize};

use crate::row::{Row, RowReader};

macro_rules! workspace_columns {
    () => {
        "id, name, data_residency, rate_limits, created_at, updated_at"
    };
}
pub(crate) use workspace_columns;

pub(crate) fn workspace_from_row(row: Row) -> Result<Workspace, StoreError> {
    let mut row = row.reader("workspaces");
    Ok(Workspace {
        id: WorkspaceId(row.uuid("id")?),
        name: row.parsed("name")?,
        data_residency: row.parsed("data_residency")?,
        rate_limits: row.json::<WorkspaceRateLimitsJson>("rate_limits")?.into(),
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
    })
}

macro_rules! project_columns {
    () => {
        "id, workspace_id, name, mode, disabled, configuration, products, allowed_networks, created_at, updated_at, \
         revision, live_since"
    };
}
pub(crate) use project_columns;

pub(crate) fn project_from_row(row: Row) -> Result<Project, StoreError> {
    let mut row = row.reader("projects");
    Ok(Project {
        id: ProjectId(row.uuid("id")?),
        workspace: WorkspaceId(row.uuid("workspace_id")?),
        name: row.parsed("name")?,
        mode: row.parsed("mode")?,
        disabled: row.boolean("disabled")?,
        configuration: read_configuration(&mut row)?,
        products: parse_list(&mut row, "products")?,
        allowed_networks: read_allowed_networks(&mut row)?,
        created_at: row.instant("created_at")?,
        updated_at: row.instant("updated_at")?,
        revision: Revision(row.int("revision")?),
        live_since: row.instant_or_null("live_since")?,
    })
}

macro_rules! credential_columns {
    () => {
        "client_id, workspace_id, project_id, secret_digest, scopes, label, created_at, creator, expires_at, \
         retires_at, deleted_at, last_used_at"
    };
}
pub(crate) use credential_columns;

pub(crate) fn credential_from_row(row: Row) -> Result<Credential, StoreError> {
    credential_from_reader(&mut row.reader("credentials"))
}

/// Reads `row_mac`, followed by the columns of a credential.
pub(crate) fn credential_with_mac_from_row(row: Row) -> Result<(Option<RowMac>, Credential), StoreError> {
    let mut row = row.reader("credentials");
    Ok((row.digest_or_null("row_mac")?.map(RowMac), credential_from_reader(&mut row)?))
}

fn credential_from_reader(row: &mut RowReader) -> Result<Credential, StoreError> {
    Ok(Credential {
        client_id: row.parsed("client_id")?,
        owner: {
            let workspace = WorkspaceId(row.uuid("workspace_id")?);
            match row.uuid_or_null("project_id")? {
                None => CredentialOwner::Workspace(workspace),
                Some(project) => CredentialOwner::Project(workspace, ProjectId(project)),
            }
        },
        secret_digest: SecretDigest(row.digest("secret_digest")?),
        scopes: parse_list(row, "scopes")?,
        label: row.parsed_or_null("label")?,
        created_at: row.instant("created_at")?,
        created_by: {
            let creator = parse_creator(&row.text("creator")?);
            creator.ok_or_else(|| row.corrupt("creator", "not an actor"))?
        },
        expires_at: row.instant_or_null("expires_at")?,
        retires_at: row.instant_or_null("retires_at")?,
        deleted_at: row.instant_or_null("deleted_at")?,
        last_used_at: row.instant_or_null("last_used_at")?,
    })
}

macro_rules! key_columns {
    () => {
        "id, purpose, published_at, active_from, retires_at, gone_at, sealed"
    };
}
pub(crate) use key_columns;

pub(crate) fn key_from_row(row: Row) -> Result<SealedKey, StoreError> {
    let mut row = row.reader("sealed_keys");
    Ok(SealedKey {
        id: KeyId(row.uuid("id")?),
        purpose: row.parsed("purpose")?,
        schedule: KeySchedule {
            published_at: row.instant("published_at")?,
            active_from: row.instant("active_from")?,
            retires_at: row.instant_or_null("retires_at")?,
            gone_at: row.instant_or_null("gone_at")?,
        },
        sealed: row.bytes("sealed")?,
    })
}

pub(crate) fn revocation_from_row(row: Row) -> Result<Revocation, StoreError> {
    let mut row = row.reader("revocations");
    Ok(Revocation { token: TokenId(row.uuid("token_id")?), expires_at: row.instant("expires_at")? })
}

macro_rules! audit_columns {
    () => {
        "id, workspace_id, at, actor, client_id, account_id, action, target, changes, request_id"
    };
}
pub(crate) use audit_columns;

pub(crate) fn audit_event_from_row(row: Row) -> Result<AuditEvent, StoreError> {
    let mut row = row.reader("audit_events");
    Ok(AuditEvent {
        id: row.uuid("id")?,
        workspace: row.uuid_or_null("workspace_id")?.map(WorkspaceId),
        at: row.instant("at")?,
        actor: {
            let kind = row.text("actor")?;
            match (kind.as_str(), row.text_or_null("client_id")?, row.uuid_or_null("account_id")?) {
                ("credential", Some(client), None) => {
                    Actor::Credential(client.parse().map_err(|problem| row.corrupt("client_id", problem))?)
                }
                ("account", None, Some(account)) => Actor::Account(AccountId(account)),
                ("operator", None, None) => Actor::Operator,
                ("system", None, None) => Actor::System,
                _ => return Err(row.corrupt("actor", "not an actor")),
            }
        },
        action: row.parsed("action")?,
        target: row.text("target")?,
        changes: row.json("changes")?,
        request_id: row.text_or_null("request_id")?,
    })
}

/// Returns the values of the columns `actor`, `client_id` and `account_id`.
pub(crate) fn actor_columns(actor: &Actor) -> (&'static str, Option<&str>, Option<AccountId>) {
    match actor {
        Actor::Credential(client) => ("credential", Some(client.as_str()), None),
        Actor::Account(account) => ("account", None, Some(*account)),
        Actor::Operator => ("operator", None, None),
        Actor::System => ("system", None, None),
    }
}

/// Returns the value of the column `creator`: the kind of the actor, followed by its id.
pub(crate) fn creator_column(actor: &Actor) -> String {
    match actor {
        Actor::Credential(client) => format!("credential {client}"),
        Actor::Account(account) => format!("account {account}"),
        Actor::Operator => "operator".to_owned(),
        Actor::System => "system".to_owned(),
    }
}

fn parse_creator(text: &str) -> Option<Actor> {
    match text.split_once(' ').unwrap_or((text, "")) {
        ("credential", client) => client.parse().ok().map(Actor::Credential),
        ("account", account) => account.parse().ok().map(Actor::Account),
        ("operator", "") => Some(Actor::Operator),
        ("system", "") => Some(Actor::System),
        _ => None,
    }
}

/// Formats the hour of an instant as the key of an hourly counter: `2026-11-15T02`.
pub(crate) fn format_hour(at: Timestamp) -> String {
    at.strftime("%Y-%m-%dT%H").to_string()
}

/// Parses the start of a month, day or hour: `2026-11`, `2026-11-15` or `2026-11-15T02`.
pub(crate) fn parse_period_start(text: &str) -> Option<Timestamp> {
    let missing = match text.len() {
        7 => "-01T00:00:00Z",
        10 => "T00:00:00Z",
        13 => ":00:00Z",
        _ => return None,
    };
    format!("{text}{missing}").parse().ok()
}

pub(crate) fn to_json<T: Serialize>(shape: &T) -> Result<String, StoreError> {
    serde_json::to_string(shape).map_err(|problem| StoreError::Refused(format!("JSON encoding failed: {problem}")))
}

/// Formats a list of products or scopes as JSON.
pub(crate) fn names_to_json<T: fmt::Display>(items: &[T]) -> Result<String, StoreError> {
    to_json(&items.iter().map(ToString::to_string).collect::<Vec<_>>())
}

fn parse_list<T>(row: &mut RowReader, column: &str) -> Result<Vec<T>, StoreError>
where
    T: FromStr<Err: fmt::Display>,
{
    let names: Vec<String> = row.json(column)?;
    parse_all(row, column, &names)
}

fn parse_all<T>(row: &RowReader, column: &str, names: &[String]) -> Result<Vec<T>, StoreError>
where
    T: FromStr<Err: fmt::Display>,
{
    names.iter().map(|name| name.parse().map_err(|problem| row.corrupt(column, problem))).collect()
}

fn read_configuration(row: &mut RowReader) -> Result<Configuration, StoreError> {
    let ConfigurationJson(values) = row.json("configuration")?;
    // Ignores settings that only a newer release has.
    let known = values.into_iter().filter_map(|(path, value)| Some((Setting::find(&path)?, value.into())));
    Configuration::from_stored(known).map_err(|problem| row.corrupt("configuration", problem))
}

fn read_allowed_networks(row: &mut RowReader) -> Result<Vec<AllowedNetwork>, StoreError> {
    const COLUMN: &str = "allowed_networks";
    let networks: Vec<AllowedNetworkJson> = row.json(COLUMN)?;
    networks
        .iter()
        .map(|allowed| {
            Ok(AllowedNetwork {
                network: allowed.network.parse::<NetworkSelector>().map_err(|problem| row.corrupt(COLUMN, problem))?,
                products: parse_all(row, COLUMN, &allowed.products)?,
            })
        })
        .collect()
}

/// The JSON in `workspaces.rate_limits`.
#[derive(Serialize, Deserialize)]
pub(crate) struct WorkspaceRateLimitsJson {
    #[serde(skip_serializing_if = "Option::is_none")]
    create: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    read: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    eligibility: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    management: Option<u32>,
    #[serde(skip_serializing_if = "Option::is_none")]
    token: Option<u32>,
}

impl From<RateLimits> for WorkspaceRateLimitsJson {
    fn from(RateLimits { create, read, eligibility, management, token }: RateLimits) -> Self {
        WorkspaceRateLimitsJson { create, read, eligibility, management, token }
    }
}

impl From<WorkspaceRateLimitsJson> for RateLimits {
    fn from(WorkspaceRateLimitsJson { create, read, eligibility, management, token }: WorkspaceRateLimitsJson) -> Self {
        RateLimits { create, read, eligibility, management, token }
    }
}

/// The JSON in `projects.configuration`: setting values by path.
#[derive(Serialize, Deserialize)]
pub(crate) struct ConfigurationJson(BTreeMap<String, SettingValueJson>);

#[derive(Serialize, Deserialize)]
#[serde(untagged)]
enum SettingValueJson {
    Boolean(bool),
    Integer(i64),
    Text(String),
    List(Vec<String>),
}

impl From<&Configuration> for ConfigurationJson {
    fn from(configuration: &Configuration) -> Self {
        let values = configuration.non_default_settings();
        ConfigurationJson(values.map(|(setting, value)| (setting.path.to_owned(), value.into())).collect())
    }
}

impl From<SettingValue> for SettingValueJson {
    fn from(value: SettingValue) -> Self {
        match value {
            SettingValue::Boolean(value) => SettingValueJson::Boolean(value),
            SettingValue::Integer(value) => SettingValueJson::Integer(value),
            SettingValue::Text(value) => SettingValueJson::Text(value),
            SettingValue::List(value) => SettingValueJson::List(value),
        }
    }
}

impl From<SettingValueJson> for SettingValue {
    fn from(value: SettingValueJson) -> Self {
        match value {
            SettingValueJson::Boolean(value) => SettingValue::Boolean(value),
            SettingValueJson::Integer(value) => SettingValue::Integer(value),
            SettingValueJson::Text(value) => SettingValue::Text(value),
            SettingValueJson::List(value) => SettingValue::List(value),
        }
    }
}

/// An item of the JSON list in `projects.allowed_networks`.
#[derive(Serialize, Deserialize)]
pub(crate) struct AllowedNetworkJson {
    network: String,
    products: Vec<String>,
}

impl From<&AllowedNetwork> for AllowedNetworkJson {
    fn from(allowed: &AllowedNetwork) -> Self {
        AllowedNetworkJson {
            network: allowed.network.to_string(),
            products: allowed.products.iter().map(ToString::to_string).collect(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn period_start_parses_months_days_and_hours() {
        let at: Timestamp = "2026-11-15T02:59:59.999Z".parse().unwrap();
        let hour = format_hour(at);
        assert_eq!(hour, "2026-11-15T02");
        for (length, start) in [(13, "2026-11-15T02:00:00Z"), (10, "2026-11-15T00:00:00Z"), (7, "2026-11-01T00:00:00Z")]
        {
            assert_eq!(parse_period_start(&hour[..length]), Some(start.parse().unwrap()));
        }
        for wrong in ["2026-13", "yesterday", "", "2026-11-15T02:00:00Z00000"] {
            assert_eq!(parse_period_start(wrong), None, "{wrong}");
        }
    }
}
