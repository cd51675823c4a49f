//! Issues of a project that somebody has to resolve: failing receivers, connectors that are down, and credentials and
//! certificates that expire soon. They are computed when they are read; nothing is stored.

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    network::{AllowedNetwork, NetworkId, NetworkSelector},
    page::PageRequest,
    product::Product,
    tenancy::{ClientId, Credential, CredentialOwner, Mode, Name, Project},
};

use crate::{
    actor::ManagementActor,
    callbacks::{Callbacks, FailingReceiver},
    context::Context,
    lookups::networks::Networks,
    ports::{
        certificates::CertificateStatus,
        connectors::{ConnectorState, ConnectorStatus},
    },
    tenants::{Management, ManagementError},
};

const CREDENTIAL_NOTICE_DAYS: i64 = 7;
const CERTIFICATE_NOTICE_DAYS: i64 = 14;
/// A rotated credential counts as still in use if it was used within this time.
const ROTATED_USE_DAYS: i64 = 1;

#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Issue {
    FailingReceiver(FailingReceiver),
    ConnectorDown(ConnectorDown),
    ExpiringCredential(ExpiringCredential),
    ExpiringCertificate(CertificateStatus),
}

/// A connector without which this node cannot serve some of the project's networks.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ConnectorDown {
    pub connector: Arc<str>,
    /// Networks that the project allows and the connector serves.
    pub networks: Vec<NetworkId>,
    /// Time since which the connector is down. `None`: unknown.
    pub since: Option<Timestamp>,
}

/// A credential in use that stops being valid soon.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ExpiringCredential {
    pub client_id: ClientId,
    pub label: Option<Name>,
    pub ends_at: Timestamp,
    /// Whether it ends because it was rotated.
    pub is_rotated: bool,
}

/// Input that the engine cannot read from the database: the caller's rights, and the state of this process.
#[derive(Clone, Debug, Default)]
pub struct IssueSources {
    /// Whether the caller may manage the project's credentials.
    pub with_credentials: bool,
    pub connectors: Vec<ConnectorStatus>,
    /// Empty unless the caller administers the deployment.
    pub certificates: Vec<CertificateStatus>,
}

/// Finds the issues of projects.
#[derive(derive_more::Debug)]
#[debug("Issues")]
pub struct Issues {
    pub(crate) context: Arc<Context>,
    pub(crate) callbacks: Arc<Callbacks>,
    pub(crate) management: Arc<Management>,
    pub(crate) networks: Arc<Networks>,
}

impl Issues {
    /// Finds the issues of a project, which must belong to the manager's workspace.
    pub async fn find(
        &self,
        manager: &ManagementActor,
        project: &Project,
        sources: IssueSources,
    ) -> Result<Vec<Issue>, ManagementError> {
        if project.workspace != manager.workspace {
            return Err(ManagementError::OtherOwner("project"));
        }
        let now = self.context.now();
        let receivers = self.callbacks.failing_receivers(project).await?;
        let mut issues: Vec<_> = receivers.into_iter().map(Issue::FailingReceiver).collect();
        issues.extend(
            connectors_down(project.mode, &project.allowed_networks, &self.networks, &sources.connectors)
                .into_iter()
                .map(Issue::ConnectorDown),
        );
        if sources.with_credentials {
            let owner = CredentialOwner::Project(project.workspace, project.id);
            let page = PageRequest::new(PageRequest::MAX_SIZE, 1).unwrap_or_default();
            let credentials = self.management.list_credentials(manager, owner, page).await?;
            let ending = credentials.items.iter().filter_map(|credential| expiring_credential(credential, now));
            issues.extend(ending.map(Issue::ExpiringCredential));
        }
        let ends_soon =
            |certificate: &CertificateStatus| is_within(certificate.expires_at, now, CERTIFICATE_NOTICE_DAYS);
        issues.extend(sources.certificates.into_iter().filter(ends_soon).map(Issue::ExpiringCertificate));
        Ok(issues)
    }
}

/// Returns whether a time has passed or comes within some days.
fn is_within(at: Timestamp, now: Timestamp, days: i64) -> bool {
    at.duration_since(now) <= SignedDuration::from_hours(24 * days)
}

fn expiring_credential(credential: &Credential, now: Timestamp) -> Option<ExpiringCredential> {
    let ends_at = credential.valid_until().filter(|at| is_within(*at, now, CREDENTIAL_NOTICE_DAYS))?;
    let is_rotated = credential.retires_at == Some(ends_at);
    let use_days = if is_rotated { ROTATED_USE_DAYS } else { CREDENTIAL_NOTICE_DAYS };
    let is_used = credential.last_used_at.is_some_and(|at| is_within(now, at, use_days));
    (credential.is_active(now) && is_used).then(|| ExpiringCredential {
        client_id: credential.client_id.clone(),
        label: credential.label.clone(),
        ends_at,
        is_rotated,
    })
}

/// Returns the connectors that are down on this node and serve a network that a project allows. A project uses only
/// connectors of its own mode.
fn connectors_down(
    mode: Mode,
    allowed: &[AllowedNetwork],
    networks: &Networks,
    statuses: &[ConnectorStatus],
) -> Vec<ConnectorDown> {
    let is_down = |status: &&ConnectorStatus| status.state == ConnectorState::Down && status.mode == mode;
    let down: Vec<_> = statuses.iter().filter(is_down).collect();
    if down.is_empty() {
        return vec![];
    }
    let mut served = BTreeSet::<(String, NetworkId)>::new();
    for (network, product) in allowed_products(allowed, networks) {
        served.extend(networks.connector_names(&network, product).into_iter().map(|name| (name, network.clone())));
    }
    let issue = |status: &ConnectorStatus| {
        let networks = served.iter().filter(|(name, _)| **name == *status.name).map(|(_, network)| network.clone());
        ConnectorDown {
            connector: Arc::clone(&status.name),
            networks: networks.collect(),
            since: status.link_summary.map(|links| links.since),
        }
    };
    down.into_iter().map(issue).filter(|issue| !issue.networks.is_empty()).collect()
}

/// Returns each allowed network with each product that is allowed there.
fn allowed_products(allowed: &[AllowedNetwork], networks: &Networks) -> Vec<(NetworkId, Product)> {
    let directory = networks.directory();
    let mut found = vec![];
    for allowed in allowed {
        let ids: Vec<_> = match &allowed.network {
            NetworkSelector::All => directory.networks().map(|network| network.id.clone()).collect(),
            NetworkSelector::One(id) => vec![id.clone()],
        };
        for id in ids {
            found.extend(allowed.products.iter().map(|product| (id.clone(), *product)));
        }
    }
    found
}

#[cfg(test)]
mod tests {
    use ringtrue_domain::{
        audit::Actor,
        network::{Network, NetworkDirectory},
        phone::Msisdn,
        tenancy::{ProjectId, SecretDigest, WorkspaceId},
    };
    use uuid::Uuid;

    use super::*;
    use crate::ports::connectors::{ConnectorHealth, LinkSummary};

    const NOW: Timestamp = Timestamp::constant(1_767_225_600, 0);
    /// Hours of a week.
    const WEEK: i64 = 7 * 24;

    fn in_hours(hours: i64) -> Timestamp {
        NOW + SignedDuration::from_hours(hours)
    }

    #[test]
    fn credential_in_use_is_reported_a_week_before_its_end() {
        let credential = |expires_at, retires_at, last_used_at| Credential {
            client_id: "client".parse().unwrap(),
            owner: CredentialOwner::Project(WorkspaceId(Uuid::nil()), ProjectId(Uuid::nil())),
            secret_digest: SecretDigest([0; 32]),
            scopes: vec![],
            label: None,
            created_at: NOW,
            created_by: Actor::Operator,
            expires_at,
            retires_at,
            deleted_at: None,
            last_used_at,
        };
        // Hours until it expires and retires, hours since the last use, and the expected end.
        for (expires, retires, used, expected) in [
            (None, None, Some(1), None),
            (Some(WEEK), None, Some(1), Some((WEEK, false))),
            (Some(WEEK + 1), None, Some(1), None),
            (Some(WEEK), None, Some(WEEK + 1), None),
            (Some(WEEK), None, None, None),
            (None, Some(24), Some(24), Some((24, true))),
            (None, Some(24), Some(25), None),
            (Some(30), Some(24), Some(1), Some((24, true))),
            (Some(-1), None, Some(2), None),
        ] {
            let credential =
                credential(expires.map(in_hours), retires.map(in_hours), used.map(|hours: i64| in_hours(-hours)));
            let found = expiring_credential(&credential, NOW).map(|ending| (ending.ends_at, ending.is_rotated));
            let expected = expected.map(|(hours, is_rotated)| (in_hours(hours), is_rotated));
            assert_eq!(found, expected, "{expires:?} {retires:?} {used:?}");
        }
        let deleted = Credential { deleted_at: Some(NOW), ..credential(Some(in_hours(1)), None, Some(NOW)) };
        assert_eq!(expiring_credential(&deleted, NOW), None);
    }

    #[test]
    fn certificate_is_reported_two_weeks_before_its_end() {
        for (hours, expected) in [(-1, true), (14 * 24, true), (14 * 24 + 1, false)] {
            assert_eq!(is_within(in_hours(hours), NOW, CERTIFICATE_NOTICE_DAYS), expected, "{hours}");
        }
    }

    #[test]
    fn connector_of_an_allowed_network_is_reported() {
        let number = |last: u8| Msisdn::parse(&format!("+4477009000{last:02}"), Mode::Live).unwrap();
        let network = |id: &str, receiver: u8| Network {
            id: id.parse().unwrap(),
            name: id.to_owned(),
            aliases: vec![],
            country: "GB".parse().unwrap(),
            prefixes: vec![],
            receivers: vec![number(receiver)],
        };
        let networks = Networks::default();
        let all = vec![network("23410", 1), network("23420", 2)];
        networks.replace(NetworkDirectory::new(all, vec![], vec![]).unwrap());
        for (connector, receiver) in [("one", 1), ("two", 2)] {
            networks.set_receivers_available(&connector.into(), &[number(receiver)], false);
        }
        let status = |name: &str, mode, state| ConnectorStatus {
            name: name.into(),
            kind: "SMPP",
            mode,
            state,
            networks: vec![],
            receivers: vec![],
            link_summary: Some(LinkSummary { up: 0, configured: 1, since: NOW }),
            breakers: vec![],
            counts: None,
            health: ConnectorHealth::default(),
        };
        let allow = |network: NetworkSelector, product| vec![AllowedNetwork { network, products: vec![product] }];
        let one = || NetworkSelector::One("23410".parse().unwrap());
        let (live, down) = (Mode::Live, ConnectorState::Down);
        let both = || vec![status("one", live, down), status("two", live, down)];
        for (mode, allowed, statuses, expected) in [
            (live, allow(one(), Product::ReverseSms), both(), vec!["one: 23410"]),
            (live, allow(NetworkSelector::All, Product::ReverseSms), both(), vec!["one: 23410", "two: 23420"]),
            (live, allow(one(), Product::SimSwap), both(), vec![]),
            (live, vec![], both(), vec![]),
            (Mode::Sandbox, allow(one(), Product::ReverseSms), both(), vec![]),
            (live, allow(one(), Product::ReverseSms), vec![status("one", live, ConnectorState::Degraded)], vec![]),
            (live, allow(one(), Product::ReverseSms), vec![status("one", live, ConnectorState::Standby)], vec![]),
            (live, allow(one(), Product::ReverseSms), vec![status("one", Mode::Sandbox, down)], vec![]),
        ] {
            let found = connectors_down(mode, &allowed, &networks, &statuses);
            assert!(found.iter().all(|issue| issue.since == Some(NOW)));
            let shown: Vec<_> = found
                .iter()
                .map(|issue| {
                    let networks: Vec<_> = issue.networks.iter().map(NetworkId::as_str).collect();
                    format!("{}: {}", issue.connector, networks.join(" "))
                })
                .collect();
            assert_eq!(shown, expected, "{mode:?} {allowed:?} {statuses:?}");
        }
    }
}
