use std::{
    collections::BTreeSet,
    fs::{self, File},
    io::{BufReader, BufWriter},
    path::{Path, PathBuf},
};

use ringtrue_domain::{
    account::Role,
    activity::ActivityCounts,
    audit::Action,
    product::Product,
    tenancy::{CredentialOwner, Project, ProjectId, WorkspaceId},
    verification::{
        LogoUrl, UploadedLogo,
        funnel::{FunnelEvent, FunnelStage},
    },
};
use ringtrue_engine::ports::{
    accounts::LinkPurpose,
    activity::FunnelDelta,
    callbacks::AttemptOutcome,
    combined::Store,
    keys::KeyPurpose,
    node::{LastSeenDatabase, NodeId},
    store::ControlPlaneVersion,
};
use ringtrue_store::{ExportOptions, TransferError, TransferProgress, export, import, migrate};
use strum::VariantArray as _;
use tempfile::TempDir;

use crate::{
    accounts, activity, callbacks, check_sample,
    fixture::{Database, StoreFixture},
    requests, sample, sandbox, sign_ins, silent_sample, sms_parts, verifications,
};

/// The export files of one test.
struct Exports {
    directory: TempDir,
}

impl Exports {
    fn new() -> Self {
        Exports { directory: tempfile::tempdir().unwrap() }
    }

    async fn export(&self, database: &Database, name: &str) -> Result<PathBuf, TransferError> {
        let path = self.directory.path().join(name);
        let options = ExportOptions { now: sample::now(), allow_running_servers: false };
        let file = BufWriter::new(File::create(&path).unwrap());
        export(&database.url(), options, file, |_| ()).await?;
        Ok(path)
    }

    /// Writes a changed copy of an export.
    fn changed(&self, original: &Path, change: impl FnOnce(&mut Vec<u8>)) -> PathBuf {
        let mut content = fs::read(original).unwrap();
        change(&mut content);
        let path = self.directory.path().join("changed");
        fs::write(&path, content).unwrap();
        path
    }
}

async fn import_file(database: &Database, path: &Path) -> Result<u64, TransferError> {
    import(&database.url(), BufReader::new(File::open(path).unwrap()), |_| ()).await
}

/// Stores at least one row in every table, and a value in every optional column.
async fn store_everything(store: &dyn Store) -> (WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    let (shop, _) = sample::stored_project(store, acme.id, "Shop").await;
    let image = sample::logo_image();
    let mut branded = Project { revision: shop.revision.next(), ..shop.clone() };
    let logo = UploadedLogo::new(shop.id, [1; 16], image.format());
    branded.configuration.verification.brand.logo_url = Some(LogoUrl::Uploaded(logo));
    let audit = sample::event(acme.id, Action::ProjectUpdated);
    store.update_project(&branded, None, Some(&image), &[audit]).await.unwrap();
    let credential = sample::credential(CredentialOwner::Project(acme.id, shop.id));
    let audit = sample::event(acme.id, Action::CredentialCreated);
    store.create_credential(&credential, &audit, None, sample::LIMITS).await.unwrap();
    for &purpose in KeyPurpose::VARIANTS {
        assert!(store.add_first_key(&sample::key(purpose), &sample::event(None, Action::KeyCreated)).await.unwrap());
    }
    store.revoke_token(sample::revocation()).await.unwrap();
    let jane = accounts::stored(store, "jane@example.com").await;
    accounts::join_as(store, &jane, acme.id, Role::Owner).await;
    accounts::linked(store, jane.id, LinkPurpose::SetPassword).await;
    accounts::signed_in(store, jane.id, sample::later(60)).await;
    let invitation = accounts::invitation(acme.id, "joe@example.com", Role::Viewer);
    accounts::invite(store, &invitation, 100).await;
    store.count_login_attempt(accounts::login_attempt()).await.unwrap();
    store.claim_idempotency_key(&sample::claim(shop.id.0, 1, 1)).await.unwrap();

    check_sample::store_check(store, shop.id).await;
    let silent = silent_sample::store_check(store, shop.id, Product::SecureSna).await;
    assert!(store.begin_redirect(silent_sample::redirect(&silent, "23410")).await.unwrap());
    silent_sample::redeemed(store, shop.id, Product::Discovery).await;
    verifications::stored(store, shop.id).await;
    verifications::completed(store, shop.id).await;
    let concluded = check_sample::concluded(store, shop.id, sample::now()).await;
    let retry = AttemptOutcome::RetryAt(sample::later(10));
    assert!(store.settle_attempt(callbacks::settlement(concluded.id, 1, retry)).await.unwrap());
    let number = concluded.claimed.unwrap().hash;
    store.erase_number(number, &sample::event(acme.id, Action::NumberErased)).await.unwrap();

    let counts = ActivityCounts { created: 3, ..ActivityCounts::default() };
    store.add_activity(vec![activity::count(shop.id, "2026-11-15T02:30:00Z", Some("23410"), counts)]).await.unwrap();
    let opened = FunnelDelta {
        project: shop.id,
        minute: "2026-11-15T02:30:00Z".parse().unwrap(),
        event: FunnelEvent::Reached(FunnelStage::Opened),
        count: 3,
    };
    store.add_funnel(vec![opened]).await.unwrap();
    sign_ins::store_everything(store, shop.id).await;
    store.add_sms_part(&sms_parts::part(1, 2, 1, b'a', 0)).await.unwrap();
    store.record_simulated_sim_swap(shop.id, &sandbox::swap(1, 100), 20, sample::now()).await.unwrap();
    store.append_requests(vec![requests::record(shop.id, 400, "one")]).await.unwrap();
    store.delete_old_checks(sample::now(), std::time::Duration::ZERO).await.unwrap();
    // A server has stopped a minute ago. Its heartbeat is too old to prevent an export.
    let node = NodeId(sample::uuid());
    let long_ago = sample::later(-60);
    store.heartbeat(node, long_ago, long_ago, LastSeenDatabase::default()).await.unwrap();
    (acme.id, shop.id)
}

/// Returns the lines between the header and the trailer, as a set, because rows have no order.
fn rows(path: &Path) -> BTreeSet<String> {
    let text = fs::read_to_string(path).unwrap();
    let lines: Vec<_> = text.lines().collect();
    lines[1..lines.len() - 1].iter().map(|line| (*line).to_owned()).collect()
}

pub async fn deployment_moves_to_the_other_database_and_back(fixture: &StoreFixture) {
    let exports = Exports::new();
    let (_, shop) = store_everything(&*fixture.store).await;
    fixture.database.execute("update database_state set identity = null").await;
    let first = exports.export(&fixture.database, "first").await.unwrap();
    let tables = fs::read_to_string(&first).unwrap();
    let empty = tables
        .lines()
        .zip(tables.lines().skip(1))
        .find(|(line, next)| line.starts_with("{\"table\"") && !next.starts_with('['));
    assert_eq!(empty, None, "the test has no row of this table");

    let (other, back) = (fixture.database.other_kind().await, fixture.database.another().await);
    for (database, from) in [(&other, "first"), (&back, "second")] {
        migrate(&database.url(), sample::now()).await.unwrap();
        let imported = import_file(database, &exports.directory.path().join(from)).await.unwrap();
        assert_eq!(imported, rows(&first).iter().filter(|line| line.starts_with('[')).count() as u64);
        exports.export(database, if from == "first" { "second" } else { "third" }).await.unwrap();
    }
    assert_eq!(rows(&first), rows(&exports.directory.path().join("third")), "nothing is lost or changed on the way");

    // The store returns the same data from all three databases.
    let stores = [fixture.store.clone(), other.open().await, back.open().await];
    let changes = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
    let page = sample::first_100();
    for store in &stores {
        store.ping().await.unwrap();
        let found = store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap();
        assert_eq!((&found.workspaces, &found.projects), (&changes.workspaces, &changes.projects));
        assert_eq!((found.version, &found.revocations), (changes.version, &changes.revocations));
        assert_eq!(store.list_keys().await.unwrap(), fixture.store.list_keys().await.unwrap());
        for product in [Product::ReverseSms, Product::SecureSna, Product::Discovery, Product::Verification] {
            let expected = check_sample::list(&*fixture.store, shop, product, None, page).await.unwrap();
            let found = check_sample::list(&**store, shop, product, None, page).await.unwrap();
            assert_eq!((found.items, found.total_items), (expected.items, expected.total_items));
        }
        assert_eq!(
            store.list_all_audit_events(sample::ANY, page).await.unwrap().items,
            fixture.store.list_all_audit_events(sample::ANY, page).await.unwrap().items
        );
    }
    // The copies are complete databases: they accept writes.
    for store in &stores[1..] {
        check_sample::concluded(&**store, shop, sample::now()).await;
        let due = store.lease_due_callbacks(sample::later(60), sample::later(90), 9, &[]).await.unwrap();
        assert_eq!(due.len(), 4);
    }
    drop(stores);
    other.clear().await;
    back.clear().await;
}

pub async fn export_requires_stopped_servers(fixture: &StoreFixture) {
    let exports = Exports::new();
    let node = NodeId(sample::uuid());
    let heartbeat = async |at| {
        fixture.store.heartbeat(node, at, at, LastSeenDatabase::default()).await.unwrap();
    };
    heartbeat(sample::later(-4)).await;
    let refused = exports.export(&fixture.database, "refused").await;
    assert!(matches!(refused, Err(TransferError::ServersRunning { count: 1 })), "{refused:?}");
    let options = ExportOptions { now: sample::now(), allow_running_servers: true };
    let mut tables = Vec::new();
    let (sender, receiver) = std::sync::mpsc::channel();
    let report = move |progress: TransferProgress| sender.send(progress).unwrap();
    export(&fixture.database.url(), options, std::io::sink(), report).await.unwrap();
    tables.extend(receiver.iter().filter(|progress| progress.is_complete).map(|progress| progress.table));
    assert!(tables.starts_with(&["workspaces", "projects"]) && tables.contains(&"callback_attempts"), "{tables:?}");

    fixture.store.deregister_node(node).await.unwrap();
    exports.export(&fixture.database, "stopped").await.unwrap();
}

pub async fn import_requires_an_empty_database_of_the_same_schema(fixture: &StoreFixture) {
    let exports = Exports::new();
    store_everything(&*fixture.store).await;
    let file = exports.export(&fixture.database, "export").await.unwrap();
    let refused = import_file(&fixture.database, &file).await;
    assert!(matches!(&refused, Err(TransferError::NotEmpty { table }) if table == "workspaces"), "{refused:?}");

    let empty = fixture.database.other_kind().await;
    let refused = import_file(&empty, &file).await;
    assert!(matches!(refused, Err(TransferError::SchemaMismatch)), "not migrated yet: {refused:?}");
    migrate(&empty.url(), sample::now()).await.unwrap();
    let other_schema = exports.changed(&file, |content| {
        let text = String::from_utf8(content.clone()).unwrap();
        *content = text.replacen("\"schema\":\"00", "\"schema\":\"99", 1).into_bytes();
    });
    let refused = import_file(&empty, &other_schema).await;
    assert!(matches!(refused, Err(TransferError::OtherSchema { .. })), "{refused:?}");
    empty.clear().await;
}

/// If a file is rejected, the database stays empty.
pub async fn damaged_export_is_rejected_as_a_whole(fixture: &StoreFixture) {
    let exports = Exports::new();
    store_everything(&*fixture.store).await;
    let file = exports.export(&fixture.database, "export").await.unwrap();
    let empty = fixture.database.other_kind().await;
    migrate(&empty.url(), sample::now()).await.unwrap();
    let content = fs::read(&file).unwrap();
    let (length, header) = (content.len(), content.iter().position(|byte| *byte == b'\n').unwrap());
    // A line break there already would make the change below none.
    let middle_of_rows = (header.midpoint(length)..length).find(|at| content[*at] != b'\n').unwrap();

    let cut = |length| exports.changed(&file, |content| content.truncate(length));
    for length in [length - 1, length - 20, middle_of_rows] {
        let refused = import_file(&empty, &cut(length)).await;
        assert!(matches!(refused, Err(TransferError::Truncated { .. })), "{length}: {refused:?}");
    }
    // Changes a value to another one that is valid by itself.
    let changed = exports.changed(&file, |content| {
        let text = String::from_utf8(content.clone()).unwrap();
        *content = text.replacen("jane@example.com", "jade@example.com", 1).into_bytes();
    });
    let refused = import_file(&empty, &changed).await;
    assert!(matches!(refused, Err(TransferError::WrongChecksum)), "{refused:?}");
    let changed = exports.changed(&file, |content| content[middle_of_rows] = b'\n');
    let refused = import_file(&empty, &changed).await;
    assert!(matches!(refused, Err(TransferError::Damaged { .. })), "{refused:?}");
    let foreign = exports.changed(&file, |content| *content = b"-- PostgreSQL database dump\n\n".to_vec());
    let refused = import_file(&empty, &foreign).await;
    assert!(matches!(refused, Err(TransferError::NotAnExport)), "{refused:?}");

    import_file(&empty, &file).await.unwrap();
    empty.clear().await;
}
