//! SIM Swap settings of `camara` connectors.

use jiff::SignedDuration;
use ringtrue_operators::camara::{Audience, SigningKey, SimSwapConfig, SimSwapFlow, SimSwapOperation};

use super::{
    super::{
        ConfigError,
        value_type::{Integer, ListOf, OneOf},
    },
    authentication::{AUDIENCES, token_text},
    camara::base_path,
    section_reader::SectionReader,
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

const FLOWS: OneOf<Flow> = OneOf(&[
    ("off", Flow::Off),
    ("client_credentials", Flow::ClientCredentials),
    ("ciba", Flow::Ciba),
    ("jwt_bearer", Flow::JwtBearer),
]);
const ALL_OPERATIONS: OneOf<SimSwapOperation> =
    OneOf(&[("retrieve_date", SimSwapOperation::RetrieveDate), ("check", SimSwapOperation::Check)]);

/// `None`: SIM Swap is off.
pub(super) fn read_sim_swap(
    reader: &SectionReader<'_>,
    key: Option<&SigningKey>,
) -> Result<Option<SimSwapConfig>, ConfigError> {
    let section = reader.section;
    let flow = match section.read_optional(FLOW, &FLOWS)?.unwrap_or(Flow::Off) {
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
            let missing_key = || section.invalid(FLOW, "\"jwt_bearer\"", "another flow, because no signing key is set");
            let audience: Option<Audience> = section.read_optional("assertion_audience", &AUDIENCES)?;
            SimSwapFlow::JwtBearer {
                key: key.cloned().ok_or_else(missing_key)?,
                audience: audience.unwrap_or_default(),
            }
        }
    };
    let defaults = SimSwapConfig::new(flow);
    let days = section.read_optional(ASSUMED_DAYS, &Integer(1..=3_650_i64))?;
    Ok(Some(SimSwapConfig {
        path: section.read_optional(PATH, &base_path())?.unwrap_or(defaults.path),
        operations: read_operations(reader)?.unwrap_or(defaults.operations),
        retrieve_date_scope: section
            .read_optional(RETRIEVE_DATE_SCOPE, &token_text())?
            .unwrap_or(defaults.retrieve_date_scope),
        check_scope: section.read_optional(CHECK_SCOPE, &token_text())?.unwrap_or(defaults.check_scope),
        assumed_window: days.map(|days| SignedDuration::from_hours(24 * days)),
        flow: defaults.flow,
    }))
}

fn read_operations(reader: &SectionReader<'_>) -> Result<Option<Vec<SimSwapOperation>>, ConfigError> {
    let section = reader.section;
    let Some(operations) = section.read_optional(OPERATIONS, &ListOf(ALL_OPERATIONS))? else { return Ok(None) };
    let is_first_occurrence = |(position, operation)| !operations[..position].contains(operation);
    if operations.is_empty() || !operations.iter().enumerate().all(is_first_occurrence) {
        let found = if operations.is_empty() { "[]" } else { "a duplicate" };
        return Err(section.invalid(OPERATIONS, found, "\"retrieve_date\", \"check\" or both, each only once"));
    }
    Ok(Some(operations))
}
