use futures_util::future::join_all;
use ringtrue_domain::tenancy::ProjectId;
use ringtrue_engine::ports::{ControlPlaneVersion, StoreError};
use ringtrue_store::{MigrateError, OpenError, SchemaState, StoreOptions, migrate, open, schema_state};

use crate::{check_sample, fixture::StoreFixture, sample};

const NAMES: [&str; 38] = [
    "0001_control_plane",
    "0002_idempotency",
    "0003_usage",
    "0004_nodes",
    "0005_checks",
    "0006_hash_keys",
    "0007_journeys",
    "0008_sim_swap",
    "0009_accounts",
    "0010_codes",
    "0011_resends",
    "0012_audit_by_time",
    "0013_requests",
    "0014_activity",
    "0015_deadlines",
    "0016_console",
    "0017_counter_slots",
    "0018_word_lists",
    "0019_redirects_kept",
    "0020_erasures",
    "0021_checks_by_reference",
    "0022_unauthenticated_requests",
    "0023_latency_classes",
    "0024_database_time",
    "0025_restores",
    "0026_credential_use",
    "0027_sandbox_keys",
    "0028_callback_bounds",
    "0029_invitations",
    "0030_node_demand",
    "0031_live_since",
    "0032_plain_names",
    "0033_partitions",
    "0034_shared_state",
    "0035_retention_and_upgrades",
    "0036_verifications",
    "0037_sign_in",
    "0038_console_pages",
];

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

pub async fn database_with_pending_migrations_is_rejected(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture.database.execute("drop table node_demand").await;
    fixture.database.execute("delete from schema_migrations where version = 30").await;
    let missing = vec!["0030_node_demand".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Behind { missing });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("0030_node_demand") && refused.contains("ringtrue migrate"), "{refused}");
    assert_eq!(migrate(&url, sample::now()).await.unwrap(), ["0030_node_demand"]);
    fixture.database.open().await.ping().await.unwrap();
}

/// A newer release has expanded the schema: nodes of this release go on, and start.
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

/// A newer release has removed something that this one uses.
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
    // A node that runs already is taken out of service.
    let refused = fixture.store.ping().await;
    assert!(matches!(&refused, Err(StoreError::Refused(reason)) if reason.contains("newer release")), "{refused:?}");
}

pub async fn ping_detects_missing_migrations(fixture: &StoreFixture) {
    let store = &*fixture.store;
    store.ping().await.unwrap();
    for lost in ["version = 2", "version >= 1"] {
        fixture.database.execute(&format!("delete from schema_migrations where {lost}")).await;
        let refused = store.ping().await;
        let expected = format!("of the {} migrations", NAMES.len());
        let is_explained = |reason: &str| reason.contains(&expected) && reason.contains("ringtrue migrate");
        assert!(matches!(&refused, Err(StoreError::Refused(reason)) if is_explained(reason)), "{refused:?}");
    }
    fixture.database.execute("drop table schema_migrations").await;
    let refused = store.ping().await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

pub async fn edited_migration_is_rejected(fixture: &StoreFixture) {
    let url = fixture.database.url();
    fixture.database.execute("update schema_migrations set checksum = 'edited' where version = 2").await;
    let names = vec!["0002_idempotency".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Altered { names });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Altered { .. }), "{refused}");
    let refused = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Altered { .. }), "{refused}");
}
