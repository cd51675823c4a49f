use futures_util::future::join_all;
use ringtrue_domain::tenancy::ProjectId;
use ringtrue_engine::ports::store::{ControlPlaneVersion, StoreError};
use ringtrue_store::{MigrateError, OpenError, SchemaState, StoreOptions, migrate, open, schema_state};

use crate::{check_sample, fixture::StoreFixture, sample};

const NAMES: [&str; 1] = ["0001_schema"];

pub async fn empty_database_is_rejected(fixture: &StoreFixture) {
    let database = fixture.database.another().await;
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Empty);
    let refused = open(&database.url(), &StoreOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Empty), "{refused}");
    assert!(refused.to_string().contains("ringtrue migrate"), "{refused}");
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Empty, "schema_state changes nothing");

    assert_eq!(migrate(&database.url(), sample::now()).await.unwrap(), NAMES);
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Current);
    database.open().await.ping().await.unwrap();
    database.clear().await;
}

pub async fn migration_is_idempotent(fixture: &StoreFixture) {
    sample::stored_workspace(&*fixture.store).await;
    assert_eq!(migrate(&fixture.database.url(), sample::now()).await.unwrap(), [] as [&str; 0]);
    assert_eq!(fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().workspaces.len(), 1);
}

pub async fn concurrent_migrations_are_serialised(fixture: &StoreFixture) {
    let database = fixture.database.another().await;
    let url = database.url();
    let migrated = join_all((0..6).map(|_| migrate(&url, sample::now()))).await;
    let mut names: Vec<_> = migrated.into_iter().flat_map(Result::unwrap).collect();
    names.sort_unstable();
    assert_eq!(names, NAMES, "each migration is applied once");
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Current);
    database.clear().await;
}

/// The first migration counts as pending, but cannot be applied, because its tables exist already.
pub async fn database_with_pending_migrations_is_rejected(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture.database.execute("update schema_migrations set version = 99, name = '0099_tomorrow'").await;
    let behind = SchemaState::Behind { missing: vec!["0001_schema".to_owned()] };
    assert_eq!(schema_state(&url).await.unwrap(), behind);
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("0001_schema") && refused.contains("ringtrue migrate"), "{refused}");
    let failed = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(failed, MigrateError::Failed { name: "0001_schema", .. }), "{failed}");
    assert_eq!(schema_state(&url).await.unwrap(), behind, "a failed migration is rolled back");
    fixture.database.execute("update schema_migrations set version = 1, name = '0001_schema'").await;
    fixture.database.open().await.ping().await.unwrap();
}

/// A newer release has added to the schema. Nodes of this release keep running, and new ones can start.
pub async fn release_runs_on_the_expanded_schema_of_the_next(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture
        .database
        .execute(
            "alter table checks add column tomorrow text;
             create table tomorrow (id bigint primary key);
             insert into schema_migrations values (99, '0099_tomorrow', '', 0)",
        )
        .await;
    let names = vec!["0099_tomorrow".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Newer { names });
    assert_eq!(
        migrate(&url, sample::now()).await.unwrap(),
        [] as [&str; 0],
        "an older `ringtrue migrate` does nothing"
    );
    let restarted = fixture.database.open().await;
    for store in [&*fixture.store, &*restarted] {
        store.ping().await.unwrap();
        let check = check_sample::concluded(store, ProjectId(sample::uuid()), sample::now()).await;
        assert_eq!(check_sample::find(store, &check).await, check);
    }
}

/// A newer release has removed a part of the schema that this release uses.
pub async fn database_of_an_incompatible_release_is_rejected(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture
        .database
        .execute(
            "insert into schema_migrations values (99, '0099_tomorrow', '', 0);
             update schema_compatibility set oldest_version = 98",
        )
        .await;
    let names = vec!["0099_tomorrow".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Unknown { names });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("0099_tomorrow") && refused.contains("newer"), "{refused}");
    let refused = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Unknown { .. }), "{refused}");
    // A running node fails its readiness check, and is taken out of service.
    let refused = fixture.store.ping().await;
    assert!(matches!(&refused, Err(StoreError::Refused(reason)) if reason.contains("newer release")), "{refused:?}");
}

pub async fn ping_detects_missing_migrations(fixture: &StoreFixture) {
    let store = &*fixture.store;
    store.ping().await.unwrap();
    fixture.database.execute("delete from schema_migrations").await;
    let refused = store.ping().await;
    let expected = format!("0 of the {} migrations", NAMES.len());
    let is_explained = |reason: &str| reason.contains(&expected) && reason.contains("ringtrue migrate");
    assert!(matches!(&refused, Err(StoreError::Refused(reason)) if is_explained(reason)), "{refused:?}");
    fixture.database.execute("drop table schema_migrations").await;
    let refused = store.ping().await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

pub async fn edited_migration_is_rejected(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture.database.execute("update schema_migrations set checksum = 'edited' where version = 1").await;
    let names = vec!["0001_schema".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Altered { names });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Altered { .. }), "{refused}");
    let refused = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Altered { .. }), "{refused}");
}
