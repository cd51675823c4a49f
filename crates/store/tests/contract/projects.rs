use std::collections::HashSet;

use futures_util::future::join_all;
use jiff::SignedDuration;
use ringtrue_domain::{
    account::AccountId,
    audit::{Action, Actor, AuditEvent},
    product::Product,
    tenancy::{Configuration, CredentialOwner, Mode, Name, Project, ProjectId},
    verification::{LogoImage, LogoUrl, UploadedLogo},
};
use ringtrue_engine::ports::{
    audit::{AuditCap, AuditCapScope, AuditFilter},
    keys::KeyPurpose,
    store::{ControlPlaneVersion, TenantLookup},
    tenants::{CreateProjectOutcome, UpdateProjectOutcome},
};

use crate::{accounts::stored, fixture::StoreFixture, sample};

pub async fn project_round_trips(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, credential) = sample::stored_project(store, acme.id, "Shop").await;
    assert_eq!(store.find_project(acme.id, project.id).await.unwrap(), TenantLookup::Found(project.clone()));
    let found = store.find_credential(credential.owner, &credential.client_id).await.unwrap();
    assert_eq!(found, TenantLookup::Found(credential));

    let bare = Project {
        mode: Mode::Live,
        disabled: true,
        configuration: Configuration::default(),
        products: vec![],
        allowed_networks: vec![],
        ..sample::project(acme.id, "Bare")
    };
    let credential = sample::credential(CredentialOwner::Project(acme.id, bare.id));
    store.create_project(&bare, &credential, &[], None, 1_000).await.unwrap();
    assert_eq!(store.find_project(acme.id, bare.id).await.unwrap(), TenantLookup::Found(bare));
}

pub async fn project_is_visible_only_to_its_workspace(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    assert_eq!(store.find_project(other.id, project.id).await.unwrap(), TenantLookup::OtherTenant);
    let nothing = store.find_project(acme.id, ProjectId(sample::uuid())).await.unwrap();
    assert_eq!(nothing, TenantLookup::NotFound);
}

pub async fn project_name_is_unique_in_its_workspace(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    sample::stored_project(store, acme.id, "Shop").await;
    sample::stored_project(store, other.id, "Shop").await;
    sample::stored_project(store, acme.id, "shop").await;

    let twin = sample::project(acme.id, "Shop");
    let credential = sample::credential(CredentialOwner::Project(acme.id, twin.id));
    let event = sample::event(acme.id, Action::ProjectCreated);
    let before = store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap();
    let written = store.create_project(&twin, &credential, &[event], None, 1_000).await.unwrap();
    assert_eq!(written, CreateProjectOutcome::NameTaken);
    assert_eq!(store.find_project(acme.id, twin.id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.find_credential(credential.owner, &credential.client_id).await.unwrap(), TenantLookup::NotFound);
    assert_eq!(store.list_audit_events(acme.id, sample::ANY, sample::first_100()).await.unwrap(), before);
}

pub async fn concurrent_creations_of_a_name_succeed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let attempts = (0..16).map(|number| {
        let store = stores[number % 2].clone();
        async move {
            let project = sample::project(acme.id, "Shop");
            let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
            let event = sample::event(acme.id, Action::ProjectCreated);
            store.create_project(&project, &credential, &[event], None, 1_000).await.unwrap()
        }
    });
    let written = join_all(attempts).await;
    assert_eq!(written.iter().filter(|&&written| written == CreateProjectOutcome::Created).count(), 1);
    assert_eq!(fixture.store.list_projects(acme.id, sample::first_100(), None).await.unwrap().total_items, 1);
}

pub async fn project_is_updated(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    let changed = Project {
        name: "Store".parse().unwrap(),
        mode: Mode::Live,
        disabled: true,
        configuration: Configuration::default(),
        products: vec![Product::Eligibility],
        allowed_networks: vec![],
        updated_at: sample::later(5),
        revision: project.revision.next(),
        ..project
    };
    let event = sample::event(acme.id, Action::ProjectUpdated);
    assert_eq!(
        store.update_project(&changed, None, None, std::slice::from_ref(&event)).await.unwrap(),
        UpdateProjectOutcome::Updated
    );
    assert_eq!(store.find_project(acme.id, changed.id).await.unwrap(), TenantLookup::Found(changed));
    assert_eq!(store.list_audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items, [event]);
}

pub async fn uploaded_logo_is_kept_replaced_and_removed(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    let (neighbour, _) = sample::stored_project(store, acme.id, "Neighbour").await;
    let image = sample::logo_image();
    let logos = [1, 2].map(|digest| UploadedLogo::new(project.id, [digest; 16], image.format()));
    let others = UploadedLogo::new(neighbour.id, [1; 16], image.format());
    let update = async |project: &Project, logo: Option<&UploadedLogo>, new: Option<&LogoImage>| {
        let mut changed = Project { revision: project.revision.next(), ..project.clone() };
        changed.configuration.verification.brand.logo_url = logo.cloned().map(LogoUrl::Uploaded);
        let event = sample::event(acme.id, Action::ProjectUpdated);
        let updated = store.update_project(&changed, None, new, &[event]).await.unwrap();
        assert_eq!(updated, UpdateProjectOutcome::Updated);
        changed
    };
    let found = async |logo: &UploadedLogo| store.find_logo(logo).await.unwrap();
    update(&neighbour, Some(&others), Some(&image)).await;
    assert_eq!(found(&logos[0]).await, None, "the same image of another project");

    let first = update(&project, Some(&logos[0]), Some(&image)).await;
    assert_eq!(found(&logos[0]).await.as_deref(), Some(image.content()));
    let kept = update(&first, Some(&logos[0]), None).await;
    let again = update(&kept, Some(&logos[0]), Some(&image)).await;
    assert!(found(&logos[0]).await.is_some());
    let replaced = update(&again, Some(&logos[1]), Some(&image)).await;
    assert!(found(&logos[0]).await.is_none() && found(&logos[1]).await.is_some());
    update(&replaced, None, None).await;
    assert_eq!(found(&logos[1]).await, None);
    assert!(found(&others).await.is_some());
}

pub async fn update_of_an_old_revision_is_stale(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (project, _) = sample::stored_project(store, acme.id, "Shop").await;
    let event = sample::event(acme.id, Action::ProjectUpdated);
    let next = Project { revision: project.revision.next(), ..project.clone() };
    let foreign = Project { workspace: other.id, ..next.clone() };
    let unknown = Project { id: ProjectId(sample::uuid()), ..next.clone() };
    for stale in [&project, &foreign, &unknown] {
        assert_eq!(
            store.update_project(stale, None, None, std::slice::from_ref(&event)).await.unwrap(),
            UpdateProjectOutcome::Stale
        );
    }
    assert_eq!(
        store.update_project(&next, None, None, std::slice::from_ref(&event)).await.unwrap(),
        UpdateProjectOutcome::Updated
    );
    assert_eq!(
        store.update_project(&next, None, None, std::slice::from_ref(&event)).await.unwrap(),
        UpdateProjectOutcome::Stale
    );
}

pub async fn concurrent_updates_of_a_revision_succeed_once(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let (project, _) = sample::stored_project(&*fixture.store, acme.id, "Shop").await;
    let attempts = (0..16).map(|number| {
        let store = stores[number % 2].clone();
        let changed = Project {
            name: format!("Shop {number}").parse().unwrap(),
            revision: project.revision.next(),
            ..project.clone()
        };
        async move {
            let event = sample::event(acme.id, Action::ProjectUpdated);
            (
                changed.name.clone(),
                store.update_project(&changed, None, None, std::slice::from_ref(&event)).await.unwrap(),
            )
        }
    });
    let updated = join_all(attempts).await;
    let winners: Vec<&Name> =
        updated.iter().filter(|(_, result)| *result == UpdateProjectOutcome::Updated).map(|(name, _)| name).collect();
    assert_eq!(winners.len(), 1);
    let TenantLookup::Found(found) = fixture.store.find_project(acme.id, project.id).await.unwrap() else { panic!() };
    assert_eq!((&found.name, found.revision), (winners[0], project.revision.next()));
}

pub async fn update_to_a_taken_name_is_rejected(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    sample::stored_project(store, acme.id, "Shop").await;
    let (project, _) = sample::stored_project(store, acme.id, "Store").await;
    let event = sample::event(acme.id, Action::ProjectUpdated);
    let renamed = Project { name: "Shop".parse().unwrap(), revision: project.revision.next(), ..project.clone() };
    assert_eq!(
        store.update_project(&renamed, None, None, std::slice::from_ref(&event)).await.unwrap(),
        UpdateProjectOutcome::NameTaken
    );
    assert_eq!(store.find_project(acme.id, project.id).await.unwrap(), TenantLookup::Found(project));
}

pub async fn projects_are_listed_newest_first_and_in_pages(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    sample::stored_project(store, other.id, "Not ours").await;
    let mut ids = Vec::new();
    for number in 0..5 {
        // The last two projects have the same creation time, and are sorted by id.
        let project =
            Project { created_at: sample::later(number.min(3)), ..sample::project(acme.id, &format!("Shop {number}")) };
        let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
        store.create_project(&project, &credential, &[], None, 1_000).await.unwrap();
        ids.push(project.id);
    }
    ids.reverse();
    for (number, expected) in [(1, &ids[..2]), (2, &ids[2..4]), (3, &ids[4..]), (4, &[])] {
        let listed = store.list_projects(acme.id, sample::page(2, number), None).await.unwrap();
        assert_eq!(listed.items.iter().map(|project| project.id).collect::<Vec<_>>(), expected, "page {number}");
        assert_eq!(listed.total_items, 5);
    }
}

pub async fn change_inserts_its_audit_event(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let mut event = sample::event(acme.id, Action::WorkspaceUpdated);
    for (actor, request_id) in [(Actor::Operator, None), (Actor::System, Some("r".to_owned()))] {
        event = AuditEvent { id: sample::uuid(), actor, request_id, changes: vec![], ..event };
        store.rename_workspace(acme.id, &acme.name, None, sample::now(), &event).await.unwrap();
        assert_eq!(
            store.list_audit_events(acme.id, sample::ANY, sample::page(1, 1)).await.unwrap().items,
            [event.clone()]
        );
    }
}

pub async fn audit_events_are_listed_newest_first(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    for seconds in [3, 1, 2] {
        let event = AuditEvent { at: sample::later(seconds), ..sample::event(acme.id, Action::WorkspaceUpdated) };
        store.rename_workspace(acme.id, &acme.name, None, sample::now(), &event).await.unwrap();
    }
    let listed = store.list_audit_events(acme.id, sample::ANY, sample::page(3, 1)).await.unwrap();
    let instants: Vec<_> = listed.items.iter().map(|event| event.at).collect();
    assert_eq!(instants, [sample::later(3), sample::later(2), sample::later(1)]);
    assert_eq!(listed.total_items, 4);
    assert_eq!(listed.items.iter().map(|event| event.id).collect::<HashSet<_>>().len(), 3);
    assert_eq!(store.list_audit_events(other.id, sample::ANY, sample::first_100()).await.unwrap().total_items, 1);
}

pub async fn capped_audit_events_are_counted_by_actor_or_target(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let acme = sample::stored_workspace(store).await;
    let [jane, joe] = [(); 2].map(|()| Actor::Account(AccountId(sample::uuid())));
    let add = async |scope, actor: &Actor, target: &str, seconds| {
        let event = sample::event(acme.id, Action::NumberSearched);
        let event = AuditEvent { at: sample::later(seconds), actor: actor.clone(), target: target.to_owned(), ..event };
        let cap = AuditCap { limit: 2, since: sample::later(seconds) - SignedDuration::from_secs(60), scope };
        store.add_audit_event(&event, cap).await.unwrap()
    };
    for (scope, actor, target, seconds, is_added) in [
        (AuditCapScope::Actor, &jane, "a", 1, true),
        (AuditCapScope::Actor, &jane, "b", 2, true),
        (AuditCapScope::Actor, &jane, "c", 3, false),
        (AuditCapScope::Target, &jane, "c", 3, true),
        (AuditCapScope::Actor, &joe, "a", 3, true),
        (AuditCapScope::Target, &jane, "a", 4, true),
        (AuditCapScope::Target, &jane, "a", 4, false),
        (AuditCapScope::Actor, &jane, "a", 62, false),
        (AuditCapScope::Actor, &jane, "a", 63, true),
    ] {
        assert_eq!(add(scope, actor, target, seconds).await, is_added, "{scope:?} {target} {seconds}");
    }
    let mary = Actor::Account(stored(store, "mary@example.com").await.id);
    let added = join_all((0..6).map(|_| add(AuditCapScope::Actor, &mary, "x", 90))).await;
    assert_eq!(added.iter().filter(|is_added| **is_added).count(), 2, "concurrent events count each other");
}

pub async fn audit_events_are_filtered_by_action_and_actor(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, other) = (sample::stored_workspace(store).await, sample::stored_workspace(store).await);
    let (client, jane) = (sample::client_id(), AccountId(sample::uuid()));
    let actors = [Actor::Operator, Actor::Credential(client.clone()), Actor::Account(jane)];
    for (seconds, actor) in (1..).zip(actors.iter().cycle().take(5)) {
        let event = sample::event(acme.id, Action::WorkspaceUpdated);
        let event = AuditEvent { at: sample::later(seconds), actor: actor.clone(), ..event };
        store.rename_workspace(acme.id, &acme.name, None, sample::now(), &event).await.unwrap();
    }
    let key = AuditEvent { at: sample::later(9), ..sample::event(None, Action::KeyCreated) };
    store.add_first_key(&sample::key(KeyPurpose::Seal), &key).await.unwrap();

    let by = |action, actor: &Actor| AuditFilter { action, actor: Some(actor.clone()) };
    let updated = Some(Action::WorkspaceUpdated);
    for (filter, of_acme, of_all) in [
        (by(updated, &Actor::Operator), 2, 2),
        (by(updated, &Actor::Credential(client)), 2, 2),
        (by(None, &Actor::Account(jane)), 1, 1),
        (by(None, &Actor::Account(AccountId(sample::uuid()))), 0, 0),
        (by(Some(Action::KeyRotated), &Actor::Operator), 0, 0),
        (AuditFilter { action: Some(Action::KeyCreated), actor: None }, 0, 1),
        (AuditFilter { action: updated, actor: None }, 5, 5),
        (AuditFilter::ANY, 6, 8),
    ] {
        let own = store.list_audit_events(acme.id, &filter, sample::page(1, 1)).await.unwrap();
        let all = store.list_all_audit_events(&filter, sample::page(1, 1)).await.unwrap();
        assert_eq!((own.total_items, all.total_items), (of_acme, of_all), "{filter:?}");
    }
    let all = store.list_all_audit_events(sample::ANY, sample::first_100()).await.unwrap().items;
    assert_eq!(all[0], key, "newest first");
    assert!(all.iter().any(|event| event.workspace == Some(other.id)));
}

pub async fn projects_per_workspace_are_limited(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let (acme, other) =
        (sample::stored_workspace(&*fixture.store).await, sample::stored_workspace(&*fixture.store).await);
    sample::stored_project(&*fixture.store, other.id, "Shop").await;
    let create = async |number: usize| {
        let project = sample::project(acme.id, &format!("Shop {number}"));
        let credential = sample::credential(CredentialOwner::Project(acme.id, project.id));
        stores[number % 2].create_project(&project, &credential, &[], None, 3).await.unwrap()
    };
    let written = join_all((0..9).map(create)).await;
    assert_eq!(written.iter().filter(|written| **written == CreateProjectOutcome::Created).count(), 3, "{written:?}");
    assert_eq!(written.iter().filter(|written| **written == CreateProjectOutcome::LimitReached).count(), 6);
    assert_eq!(fixture.store.list_projects(acme.id, sample::first_100(), None).await.unwrap().total_items, 3);
}

pub async fn going_live_replaces_all_credentials(fixture: &StoreFixture) {
    let stores = [fixture.store.clone(), fixture.database.open().await];
    let acme = sample::stored_workspace(&*fixture.store).await;
    let (shop, old) = sample::stored_project(&*fixture.store, acme.id, "Shop").await;
    let (_, of_bank) = sample::stored_project(&*fixture.store, acme.id, "Bank").await;
    let live = Project { mode: Mode::Live, revision: shop.revision.next(), ..shop };
    let go_live = async |number: usize| {
        let replacement = sample::credential(old.owner);
        let events = [sample::event(acme.id, Action::ProjectUpdated)];
        let updated = stores[number % 2].update_project(&live, Some(&replacement), None, &events).await.unwrap();
        (updated == UpdateProjectOutcome::Updated).then_some(replacement)
    };
    let replacements: Vec<_> = join_all((0..6).map(go_live)).await.into_iter().flatten().collect();
    assert_eq!(replacements.len(), 1, "a project goes live once");
    let left = fixture.store.list_credentials(old.owner, sample::first_100()).await.unwrap().items;
    assert_eq!(left, replacements);
    let changed = fixture.store.changes_since(ControlPlaneVersion(0), sample::now()).await.unwrap().credentials;
    assert!(changed.iter().any(|credential| credential.client_id == old.client_id && credential.deleted_at.is_some()));
    let found = fixture.store.find_credential(of_bank.owner, &of_bank.client_id).await.unwrap();
    assert_eq!(found, TenantLookup::Found(of_bank), "other projects keep their credentials");
}
