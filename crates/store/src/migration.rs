//! Applies numbered migrations, which are embedded in the binary.
//!
//! Both databases have migrations with the same names. Never edit a released migration: the database stores its
//! checksum, and a different checksum is an error.
//!
//! Two releases can share a database, for a rolling upgrade or to roll an upgrade back. A migration only adds to the
//! schema, and a later release removes what is no longer used. The table `schema_compatibility` names the oldest schema
//! version whose releases can still use the database. An older release therefore keeps running on a newer schema, until
//! a migration raises this version.

use aws_lc_rs::digest::{SHA256, digest};
use ringtrue_engine::ports::store::StoreError;

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

macro_rules! all_migrations {
    ($folder:literal) => {
        migrations!($folder: 1 "0001_schema")
    };
}

pub(crate) const SQLITE: &[Migration] = all_migrations!("sqlite");
pub(crate) const POSTGRES: &[Migration] = all_migrations!("postgres");

/// Creates the table of applied migrations, in either database.
pub(crate) const CREATE_TABLE: &str = "create table if not exists schema_migrations (
    version     bigint primary key,
    name        text not null,
    checksum    text not null,
    applied_at  bigint not null
)";
pub(crate) const SELECT: &str = "select version, name, checksum from schema_migrations order by version";
pub(crate) const INSERT: &str =
    "insert into schema_migrations (version, name, checksum, applied_at) values ($1, $2, $3, $4)";
pub(crate) const SELECT_OLDEST_VERSION: &str = "select oldest_version from schema_compatibility where id = 1";

impl Migration {
    pub(crate) fn checksum(&self) -> String {
        let hash = digest(&SHA256, self.sql.as_bytes());
        hex::encode(hash)
    }
}

/// A row of `schema_migrations`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct AppliedMigration {
    pub version: i64,
    pub name: String,
    pub checksum: String,
}

/// The migrations that were applied to a database.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct AppliedSchema {
    pub migrations: Vec<AppliedMigration>,
    /// A release can use the database if the newest migration that the release knows has at least this version. `None`:
    /// only a release that knows all applied migrations can use the database.
    pub oldest_version: Option<i64>,
}

impl AppliedSchema {
    /// Whether an older release, which has the migrations `known`, can use the database although a newer release has
    /// migrated it.
    fn supports_older_release(&self, known: &[Migration]) -> bool {
        let newest = newest_version(known);
        self.oldest_version.is_some_and(|oldest| oldest <= newest)
            && self.unknown_migrations(known).iter().all(|migration| migration.version > newest)
    }

    fn unknown_migrations(&self, known: &[Migration]) -> Vec<&AppliedMigration> {
        self.migrations.iter().filter(|row| row.find_in(known).is_none()).collect()
    }
}

impl AppliedMigration {
    fn find_in<'k>(&self, known: &'k [Migration]) -> Option<&'k Migration> {
        known.iter().find(|one| one.version == self.version && one.name == self.name)
    }
}

pub(crate) fn newest_version(known: &[Migration]) -> i64 {
    known.last().map_or(0, |migration| migration.version)
}

/// Compares the schema of a database with the migrations of this binary.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum SchemaState {
    Current,
    /// No migration was applied yet.
    Empty,
    /// The migrations in `missing` are still to be applied.
    Behind {
        missing: Vec<String>,
    },
    /// A newer release has applied these migrations. This release can run on the newer schema.
    Newer {
        names: Vec<String>,
    },
    /// A newer release has applied these migrations. This release cannot use the newer schema.
    Unknown {
        names: Vec<String>,
    },
    /// The content of these migrations differs from the content that was applied.
    Altered {
        names: Vec<String>,
    },
}

impl SchemaState {
    pub(crate) fn compare(known: &[Migration], applied: &AppliedSchema) -> Self {
        let migrations = &applied.migrations;
        if migrations.is_empty() {
            return SchemaState::Empty;
        }
        let names = |rows: Vec<&AppliedMigration>| rows.into_iter().map(|row| row.name.clone()).collect::<Vec<_>>();

        let unknown = names(applied.unknown_migrations(known));
        if !unknown.is_empty() && !applied.supports_older_release(known) {
            return SchemaState::Unknown { names: unknown };
        }
        let is_altered = |row: &&AppliedMigration| row.find_in(known).is_some_and(|one| one.checksum() != row.checksum);
        let altered: Vec<_> = migrations.iter().filter(is_altered).collect();
        if !altered.is_empty() {
            return SchemaState::Altered { names: names(altered) };
        }
        let missing: Vec<_> = pending_migrations(known, applied).map(|migration| migration.name.to_owned()).collect();
        if !missing.is_empty() {
            return SchemaState::Behind { missing };
        }
        if unknown.is_empty() { SchemaState::Current } else { SchemaState::Newer { names: unknown } }
    }
}

/// Returns the migrations that were not applied yet, in order.
pub(crate) fn pending_migrations<'k>(
    known: &'k [Migration],
    applied: &AppliedSchema,
) -> impl Iterator<Item = &'k Migration> {
    known.iter().filter(|one| applied.migrations.iter().all(|row| row.version != one.version))
}

#[derive(Debug, thiserror::Error)]
pub enum MigrateError {
    #[error("database error: {0}")]
    Database(#[from] StoreError),
    #[error("the database was migrated by a newer release of Ringtrue ({}): run that release, or restore a backup", .names.join(", "))]
    Unknown { names: Vec<String> },
    #[error("applied migrations differ from those of this release: {}; the database was modified or belongs to an unofficial build", .names.join(", "))]
    Altered { names: Vec<String> },
    #[error("migration {name} failed and was rolled back: {cause}")]
    Failed { name: &'static str, cause: StoreError },
}

/// Fails if this binary cannot use the schema, even after it has applied its pending migrations.
pub(crate) fn ensure_compatible(known: &[Migration], applied: &AppliedSchema) -> Result<(), MigrateError> {
    match SchemaState::compare(known, applied) {
        SchemaState::Current | SchemaState::Empty | SchemaState::Behind { .. } | SchemaState::Newer { .. } => Ok(()),
        SchemaState::Unknown { names } => Err(MigrateError::Unknown { names }),
        SchemaState::Altered { names } => Err(MigrateError::Altered { names }),
    }
}

#[cfg(test)]
mod tests {
    use std::{
        collections::{BTreeMap, BTreeSet},
        fs,
        path::Path,
    };

    use super::*;

    fn names_in(folder: &str) -> BTreeSet<String> {
        let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("migrations").join(folder);
        let file = |entry: Result<fs::DirEntry, _>| entry.unwrap().file_name().into_string().unwrap();
        fs::read_dir(folder).unwrap().map(file).collect()
    }

    #[test]
    fn every_migration_file_is_registered() {
        let names: BTreeSet<_> = SQLITE.iter().map(|migration| format!("{}.sql", migration.name)).collect();
        assert_eq!(names_in("sqlite"), names);
        assert_eq!(names_in("postgres"), names);
    }

    #[test]
    fn migrations_are_numbered_in_order() {
        for migrations in [SQLITE, POSTGRES] {
            assert!(migrations.is_sorted_by(|one, next| one.version < next.version));
            for Migration { version, name, .. } in migrations {
                assert!(name.starts_with(&format!("{version:04}_")), "{name}");
            }
        }
    }

    /// Returns the tables that the migrations create, each with the tables that its foreign keys refer to. Omits
    /// partitions.
    fn tables_of(migrations: &[Migration]) -> BTreeMap<String, BTreeSet<String>> {
        let mut tables = BTreeMap::new();
        for statement in migrations.iter().flat_map(|migration| migration.sql.split(";\n")).chain([CREATE_TABLE]) {
            let code: Vec<_> = statement.lines().filter(|line| !line.trim_start().starts_with("--")).collect();
            let code = code.join(" ");
            let table = code.split_once("create table ").filter(|(_, table)| !table.contains(" partition of "));
            let Some((_, table)) = table else { continue };
            let (name, columns) = table.split_once(" (").unwrap();
            let references = columns.split("references ").skip(1).filter_map(|text| text.split(' ').next());
            let name = name.trim_start_matches("if not exists ").to_owned();
            tables.insert(name, references.map(str::to_owned).collect());
        }
        tables
    }

    #[test]
    fn documentation_shows_all_tables_and_foreign_keys() {
        let page = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs/schema.md");
        let page = fs::read_to_string(page).unwrap();
        let mut documented = BTreeMap::new();
        for row in page.lines().filter_map(|line| line.strip_prefix("| `")) {
            let (table, _) = row.split_once('`').unwrap();
            let references = row.split("**`").skip(1).filter_map(|text| text.split('`').next());
            documented.insert(table.to_owned(), references.map(str::to_owned).collect::<BTreeSet<_>>());
        }
        assert_eq!(documented, tables_of(POSTGRES));
        documented.remove("number_limits");
        assert_eq!(documented, tables_of(SQLITE));
    }

    #[test]
    fn schema_state_compares_names_and_checksums() {
        let migration = |version, name| Migration { version, name, sql: "" };
        let known = &[migration(1, "0001_first"), migration(2, "0002_second")];
        let applied = |one: &Migration| AppliedMigration {
            version: one.version,
            name: one.name.to_owned(),
            checksum: one.checksum(),
        };
        let [first, second] = [applied(&known[0]), applied(&known[1])];
        let newer = AppliedMigration { version: 99, name: "0099_tomorrow".to_owned(), checksum: String::new() };
        let renamed = AppliedMigration { name: "0002_other".to_owned(), ..second.clone() };
        let edited = AppliedMigration { checksum: "0".to_owned(), ..first.clone() };
        let unknown = |name: &str| SchemaState::Unknown { names: vec![name.to_owned()] };
        let missing = SchemaState::Behind { missing: vec!["0002_second".to_owned()] };
        let altered = SchemaState::Altered { names: vec!["0001_first".to_owned()] };
        for (migrations, oldest_version, state) in [
            (vec![], None, SchemaState::Empty),
            (vec![first.clone(), second.clone()], None, SchemaState::Current),
            (vec![first.clone(), second.clone()], Some(2), SchemaState::Current),
            (vec![first.clone()], None, missing.clone()),
            // A newer release has applied a migration. This release can run if `oldest_version` permits it.
            (vec![first.clone(), second.clone(), newer.clone()], None, unknown("0099_tomorrow")),
            (vec![first.clone(), second.clone(), newer.clone()], Some(3), unknown("0099_tomorrow")),
            (
                vec![first.clone(), second.clone(), newer.clone()],
                Some(2),
                SchemaState::Newer { names: vec!["0099_tomorrow".to_owned()] },
            ),
            (vec![first.clone(), newer.clone()], Some(2), missing),
            (vec![first, renamed], Some(2), unknown("0002_other")),
            (vec![edited.clone(), second.clone(), newer.clone()], None, unknown("0099_tomorrow")),
            (vec![edited.clone(), second.clone(), newer], Some(2), altered.clone()),
            (vec![edited, second], None, altered),
        ] {
            let applied = AppliedSchema { migrations, oldest_version };
            assert_eq!(SchemaState::compare(known, &applied), state, "{applied:?}");
        }
    }
}
