//! The schema, as numbered steps that are part of the binary.
//!
//! Both databases have the same steps under the same names. A step that was released is never edited: what was applied
//! is remembered with its checksum, and a difference is an error. Steps expand first and contract a release later, so
//! that two releases can run on one schema.

use aws_lc_rs::digest::{SHA256, digest};
use ringtrue_engine::ports::StoreError;

/// One step.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Migration {
    pub version: i64,
    pub name: &'static str,
    pub sql: &'static str,
}

macro_rules! migrations {
    ($folder:literal: $($version:literal $name:literal),* $(,)?) => {
        &[$(Migration {
            version: $version,
            name: $name,
            sql: include_str!(concat!("../migrations/", $folder, "/", $name, ".sql")),
        }),*]
    };
}

macro_rules! steps {
    ($folder:literal) => {
        migrations!(
            $folder: 1 "0001_control_plane", 2 "0002_idempotency", 3 "0003_usage", 4 "0004_nodes", 5 "0005_checks",
            6 "0006_hash_keys", 7 "0007_journeys", 8 "0008_sim_swap", 9 "0009_accounts",
            10 "0010_codes", 11 "0011_resends", 12 "0012_audit_by_time",
            13 "0013_requests", 14 "0014_activity", 15 "0015_deadlines", 16 "0016_console",
            17 "0017_counter_slots", 18 "0018_word_lists", 19 "0019_redirects_kept",
            20 "0020_erasures", 21 "0021_checks_by_reference",
            22 "0022_unauthenticated_requests", 23 "0023_latency_classes", 24 "0024_database_time",
            25 "0025_restores", 26 "0026_credential_use", 27 "0027_sandbox_keys",
            28 "0028_callback_bounds",
            29 "0029_invitations",
            30 "0030_node_demand",
            31 "0031_live_since"
        )
    };
}

pub(crate) const SQLITE: &[Migration] = steps!("sqlite");
pub(crate) const POSTGRES: &[Migration] = steps!("postgres");

/// The table of what was applied, in words that both databases understand.
pub(crate) const CREATE_TABLE: &str = "create table if not exists schema_migrations (
    version     bigint primary key,
    name        text not null,
    checksum    text not null,
    applied_at  bigint not null
)";
pub(crate) const SELECT: &str = "select version, name, checksum from schema_migrations order by version";
pub(crate) const INSERT: &str =
    "insert into schema_migrations (version, name, checksum, applied_at) values ($1, $2, $3, $4)";

impl Migration {
    pub(crate) fn checksum(&self) -> String {
        let hash = digest(&SHA256, self.sql.as_bytes());
        hash.as_ref().iter().fold(String::new(), |text, byte| format!("{text}{byte:02x}"))
    }
}

/// A step that a database has behind it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Applied {
    pub version: i64,
    pub name: String,
    pub checksum: String,
}

/// How the schema of a database relates to the one that this binary was built for.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaState {
    /// They are the same.
    Current,
    /// The database has no schema of ours.
    Empty,
    /// These steps are still to be applied.
    Behind { missing: Vec<String> },
    /// These steps were applied by a release that this one does not know.
    Unknown { names: Vec<String> },
    /// These steps were applied with another content than they have here.
    Altered { names: Vec<String> },
}

impl SchemaState {
    pub(crate) fn of(known: &[Migration], applied: &[Applied]) -> Self {
        if applied.is_empty() {
            return SchemaState::Empty;
        }
        let twin = |step: &Applied| known.iter().find(|one| one.version == step.version && one.name == step.name);
        let names = |steps: Vec<&Applied>| steps.into_iter().map(|step| step.name.clone()).collect::<Vec<_>>();

        let unknown: Vec<_> = applied.iter().filter(|step| twin(step).is_none()).collect();
        if !unknown.is_empty() {
            return SchemaState::Unknown { names: names(unknown) };
        }
        let is_altered = |step: &&Applied| twin(step).is_some_and(|one| one.checksum() != step.checksum);
        let altered: Vec<_> = applied.iter().filter(is_altered).collect();
        if !altered.is_empty() {
            return SchemaState::Altered { names: names(altered) };
        }
        match missing(known, applied).map(|step| step.name.to_owned()).collect::<Vec<_>>() {
            missing if missing.is_empty() => SchemaState::Current,
            missing => SchemaState::Behind { missing },
        }
    }
}

/// The steps that are still to be applied, in their order.
pub(crate) fn missing<'k>(known: &'k [Migration], applied: &[Applied]) -> impl Iterator<Item = &'k Migration> {
    known.iter().filter(|one| applied.iter().all(|step| step.version != one.version))
}

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("the database cannot be reached or refuses: {0}")]
    Database(#[from] StoreError),
    #[error("the database was migrated by a newer Ringtrue ({}): use that one, or restore a backup", .names.join(", "))]
    Unknown { names: Vec<String> },
    #[error("the database was migrated with another content of {}: it was not made by a release of Ringtrue", .names.join(", "))]
    Altered { names: Vec<String> },
    #[error("{name} failed, and nothing of it was applied: {cause}")]
    Step { name: &'static str, cause: StoreError },
}

/// Whether steps may be applied on top of what there is.
pub(crate) fn check(known: &[Migration], applied: &[Applied]) -> Result<(), MigrateError> {
    match SchemaState::of(known, applied) {
        SchemaState::Current | SchemaState::Empty | SchemaState::Behind { .. } => Ok(()),
        SchemaState::Unknown { names } => Err(MigrateError::Unknown { names }),
        SchemaState::Altered { names } => Err(MigrateError::Altered { names }),
    }
}

#[cfg(test)]
mod tests {
    use std::{collections::BTreeSet, fs, path::Path};

    use super::*;

    fn names_in(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
        let file = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(file).collect()
    }

    #[test]
    fn every_file_is_a_step_of_both_databases() {
        let names: BTreeSet<_> = SQLITE.iter().map(|step| format!("{}.sql", step.name)).collect();
        assert_eq!(names_in("sqlite"), names);
        assert_eq!(names_in("postgres"), names);
    }

    #[test]
    fn steps_are_numbered_in_their_order() {
        for steps in [SQLITE, POSTGRES] {
            for (position, step) in (1..).zip(steps) {
                assert_eq!(step.version, position);
                assert!(step.name.starts_with(&format!("{position:04}_")), "{}", step.name);
            }
        }
    }

    #[test]
    fn states() {
        let known = &SQLITE[..2];
        let applied =
            |step: &Migration| Applied { version: step.version, name: step.name.to_owned(), checksum: step.checksum() };
        let [first, second] = [applied(&known[0]), applied(&known[1])];
        let newer = Applied { version: 99, name: "0099_tomorrow".to_owned(), checksum: String::new() };
        let edited = Applied { checksum: "0".to_owned(), ..first.clone() };
        let unknown = SchemaState::Unknown { names: vec!["0099_tomorrow".to_owned()] };
        for (applied, state) in [
            (vec![], SchemaState::Empty),
            (vec![first.clone(), second.clone()], SchemaState::Current),
            (vec![first.clone()], SchemaState::Behind { missing: vec!["0002_idempotency".to_owned()] }),
            (vec![first.clone(), newer.clone()], unknown.clone()),
            (vec![edited.clone(), second.clone(), newer], unknown),
            (vec![edited, second], SchemaState::Altered { names: vec!["0001_control_plane".to_owned()] }),
        ] {
            assert_eq!(SchemaState::of(known, &applied), state);
        }
    }
}
