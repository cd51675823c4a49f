//! How a connector that asks by CAMARA asks about SIM cards.

use jiff::SignedDuration;
use ringtrue_operators::camara::{Audience, SigningKey, SimSwapConfig, SimSwapFlow, SimSwapOperation};

use super::{
    super::{
        ConfigError,
        kind::{ListOf, Whole, Word},
    },
    authentication::{AUDIENCES, word},
    camara::base_path,
    reader::Reader,
};

pub(super) const SIM_SWAP_MEMBERS: [&str; 6] = [FLOW, PATH, OPERATIONS, RETRIEVE_DATE_SCOPE, CHECK_SCOPE, ASSUMED_DAYS];

const FLOW: &str = "sim_swap";
const PATH: &str = "sim_swap_path";
const OPERATIONS: &str = "sim_swap_operations";
const RETRIEVE_DATE_SCOPE: &str = "sim_swap_retrieve_date_scope";
const CHECK_SCOPE: &str = "sim_swap_check_scope";
const ASSUMED_DAYS: &str = "sim_swap_assumed_days";

#[derive(Clone, Copy)]
enum Flow {
    Off,
    ClientCredentials,
    Ciba,
    JwtBearer,
}

const FLOWS: Word<Flow> = Word(&[
    ("off", Flow::Off),
    ("client_credentials", Flow::ClientCredentials),
    ("ciba", Flow::Ciba),
    ("jwt_bearer", Flow::JwtBearer),
]);
const ALL_OPERATIONS: Word<SimSwapOperation> =
    Word(&[("retrieve_date", SimSwapOperation::RetrieveDate), ("check", SimSwapOperation::Check)]);

/// `None`: the operator is not asked about SIM cards.
pub(super) fn sim_swap(reader: &Reader<'_>, key: Option<&SigningKey>) -> Result<Option<SimSwapConfig>, ConfigError> {
    let section = reader.section;
    let flow = match section.read_if(FLOW, &FLOWS)?.unwrap_or(Flow::Off) {
        Flow::Off => {
            let set = section.members().find(|(member, _)| member.starts_with("sim_swap_"));
            return match set {
                None => Ok(None),
                Some((member, value)) => {
                    let allowed = format!("nothing, because `{}` is \"off\"", section.key(FLOW));
                    Err(section.invalid(member, value.to_string(), allowed))
                }
            };
        }
        Flow::ClientCredentials => SimSwapFlow::ClientCredentials,
        Flow::Ciba => SimSwapFlow::Ciba,
        Flow::JwtBearer => {
            let without_key =
                || section.invalid(FLOW, "\"jwt_bearer\"", "another one, because there is no signing key");
            let audience: Option<Audience> = section.read_if("assertion_audience", &AUDIENCES)?;
            SimSwapFlow::JwtBearer {
                key: key.cloned().ok_or_else(without_key)?,
                audience: audience.unwrap_or_default(),
            }
        }
    };
    let usual = SimSwapConfig::new(flow);
    let days = section.read_if(ASSUMED_DAYS, &Whole(1..=3_650_i64))?;
    Ok(Some(SimSwapConfig {
        path: section.read_if(PATH, &base_path())?.unwrap_or(usual.path),
        operations: operations(reader)?.unwrap_or(usual.operations),
        retrieve_date_scope: section.read_if(RETRIEVE_DATE_SCOPE, &word())?.unwrap_or(usual.retrieve_date_scope),
        check_scope: section.read_if(CHECK_SCOPE, &word())?.unwrap_or(usual.check_scope),
        assumed_window: days.map(|days| SignedDuration::from_hours(24 * days)),
        flow: usual.flow,
    }))
}

fn operations(reader: &Reader<'_>) -> Result<Option<Vec<SimSwapOperation>>, ConfigError> {
    let section = reader.section;
    let Some(operations) = section.read_if(OPERATIONS, &ListOf(ALL_OPERATIONS))? else { return Ok(None) };
    let is_once = |(position, operation)| !operations[..position].contains(operation);
    if operations.is_empty() || !operations.iter().enumerate().all(is_once) {
        let found = if operations.is_empty() { "[]" } else { "one twice" };
        return Err(section.invalid(OPERATIONS, found, "\"retrieve_date\", \"check\" or both, each once"));
    }
    Ok(Some(operations))
}
