use futures_util::future::join_all;
use ringtrue_engine::ports::{StoreError, Version};
use ringtrue_store::{MigrateError, OpenError, SchemaState, StoreOptions, migrate, open, schema_state};

use crate::{bench::Bench, sample};

const NAMES: [&str; 31] = [
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
];

pub async fn an_empty_database_is_not_opened(bench: &Bench) {
    let database = bench.database.another().await;
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Empty);
    let refused = open(&database.url(), &StoreOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Empty), "{refused}");
    assert!(refused.to_string().contains("ringtrue migrate"), "{refused}");
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Empty, "looking changed nothing");

    assert_eq!(migrate(&database.url(), sample::now()).await.unwrap(), NAMES);
    assert_eq!(schema_state(&database.url()).await.unwrap(), SchemaState::Current);
    database.open().await.ping().await.unwrap();
    database.clear().await;
}

pub async fn migrating_twice_is_migrating_once(bench: &Bench) {
    sample::stored_workspace(&*bench.store).await;
    assert_eq!(migrate(&bench.database.url(), sample::now()).await.unwrap(), [] as [&str; 0]);
    assert_eq!(bench.store.changes_since(Version(0), sample::now()).await.unwrap().workspaces.len(), 1);
}

pub async fn many_migrate_at_once(bench: &Bench) {
    let database = bench.database.another().await;
    let url = database.url();
    let migrated = join_all((0..6).map(|_| migrate(&url, sample::now()))).await;
    let mut names: Vec<_> = migrated.into_iter().flat_map(Result::unwrap).collect();
    names.sort_unstable();
    assert_eq!(names, NAMES, "each step was applied by one of them");
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Current);
    database.clear().await;
}

pub async fn a_database_that_is_behind_is_not_opened(bench: &Bench) {
    let url = bench.database.url();
    bench.database.execute("drop table nodes; drop table roll_call").await;
    bench.database.execute("delete from schema_migrations where version = 4").await;
    let missing = vec!["0004_nodes".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Behind { missing });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("0004_nodes") && refused.contains("ringtrue migrate"), "{refused}");
    assert_eq!(migrate(&url, sample::now()).await.unwrap(), ["0004_nodes"]);
    bench.database.open().await.ping().await.unwrap();
}

pub async fn a_database_of_a_newer_release_is_not_opened(bench: &Bench) {
    let url = bench.database.url();
    bench.database.execute("insert into schema_migrations values (99, '0099_tomorrow', '', 0)").await;
    let names = vec!["0099_tomorrow".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Unknown { names });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err().to_string();
    assert!(refused.contains("0099_tomorrow") && refused.contains("newer"), "{refused}");
    let refused = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Unknown { .. }), "{refused}");
    // Who had opened it before goes on: the schema is expanded first, and then the nodes are replaced.
    bench.store.ping().await.unwrap();
}

pub async fn a_node_notices_that_the_schema_went_back(bench: &Bench) {
    let store = &*bench.store;
    store.ping().await.unwrap();
    for lost in ["version = 2", "version >= 1"] {
        bench.database.execute(&format!("delete from schema_migrations where {lost}")).await;
        let refused = store.ping().await;
        let steps = format!("of the {} migrations", NAMES.len());
        let is_told = |reason: &str| reason.contains(&steps) && reason.contains("ringtrue migrate");
        assert!(matches!(&refused, Err(StoreError::Refused(reason)) if is_told(reason)), "{refused:?}");
    }
    bench.database.execute("drop table schema_migrations").await;
    let refused = store.ping().await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

pub async fn an_edited_migration_is_noticed(bench: &Bench) {
    let url = bench.database.url();
    bench.database.execute("update schema_migrations set checksum = 'edited' where version = 2").await;
    let names = vec!["0002_idempotency".to_owned()];
    assert_eq!(schema_state(&url).await.unwrap(), SchemaState::Altered { names });
    let refused = open(&url, &StoreOptions::default()).await.map(drop).unwrap_err();
    assert!(matches!(refused, OpenError::Altered { .. }), "{refused}");
    let refused = migrate(&url, sample::now()).await.unwrap_err();
    assert!(matches!(refused, MigrateError::Altered { .. }), "{refused}");
}
