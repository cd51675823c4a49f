//! Issues of a project, with links to pages on which each can be resolved. The template `observe/issues.html` shows
//! them; a page that includes it has them in its field `issues`.

use ringtrue_domain::{account::Permission, network::NetworkId};
use ringtrue_engine::{
    callbacks::FailingReceiver,
    issues::{ConnectorDown, ExpiringCredential, Issue, IssueSources},
    ports::certificates::CertificateStatus,
};
use ringtrue_web::app::App;

use crate::{
    dependencies::ConsoleDependencies,
    observe::failure_label::failure_label,
    page::{self, CodeText, MenuSection, UtcTime, error::ConsoleError, network_name::network_name},
    session::console_session::ProjectAccess,
};

/// Maximum number of networks that are named for a connector.
const MAX_NAMED_NETWORKS: usize = 5;

/// An issue as a title and a sentence, which may contain a time.
#[derive(Debug)]
pub struct IssueView {
    /// Section of the page that shows more about it.
    pub section: MenuSection,
    pub icon: &'static str,
    pub title: &'static str,
    /// Part of the sentence before the time.
    pub text: CodeText,
    pub at: Option<UtcTime>,
    /// Part of the sentence after the time.
    pub text_after: CodeText,
    pub links: Vec<RemedyLink>,
}

/// Link to a page on which the user can resolve an issue.
#[derive(Debug)]
pub struct RemedyLink {
    pub title: &'static str,
    pub path: String,
}

/// Loads the issues of a project on which the user can act.
pub async fn load(
    app: &App,
    dependencies: &ConsoleDependencies,
    access: &ProjectAccess,
) -> Result<Vec<IssueView>, ConsoleError> {
    let is_admin = access.session.user.account.is_admin;
    let sources = IssueSources {
        with_credentials: may_develop(access),
        connectors: dependencies.connectors.statuses(),
        certificates: if is_admin { dependencies.certificates.certificates() } else { vec![] },
    };
    let issues = app.engine.issues.find(&access.actor, &access.project, sources).await?;
    let view = |issue| match issue {
        Issue::FailingReceiver(receiver) => failing_receiver(access, receiver),
        Issue::ConnectorDown(connector) => connector_down(app, access, &connector),
        Issue::ExpiringCredential(credential) => expiring_credential(access, credential),
        Issue::ExpiringCertificate(certificate) => expiring_certificate(&certificate),
    };
    Ok(issues.into_iter().map(view).collect())
}

fn may_develop(access: &ProjectAccess) -> bool {
    access.session.user.role_in(access.workspace.id).is_some_and(|role| role.may(Permission::Develop))
}

fn text(text: impl Into<String>) -> CodeText {
    CodeText(text.into())
}

fn failing_receiver(access: &ProjectAccess, failing: FailingReceiver) -> IssueView {
    let FailingReceiver { receiver, since, waiting, given_up, is_at_least, last_reason } = failing;
    let callbacks = format!("{}/callbacks", access.path());
    let at_least = if is_at_least { "at least " } else { "" };
    let mut links = vec![RemedyLink {
        title: "Show callbacks",
        path: page::path_with_query(&callbacks, &[("state", Some("all")), ("receiver", Some(&receiver))]),
    }];
    if may_develop(access) {
        links.push(RemedyLink { title: "Send a test callback", path: format!("{callbacks}#test") });
    }
    IssueView {
        section: MenuSection::Callbacks,
        icon: "callbacks",
        title: "Receiver fails",
        text: text(format!("Every attempt to deliver to `{receiver}` has failed, beginning ")),
        at: Some(UtcTime(since)),
        text_after: text(format!(
            ". Last result: {}. Not delivered: {at_least}{given_up} given up, {waiting} waiting.",
            failure_label(&last_reason)
        )),
        links,
    }
}

fn connector_down(app: &App, access: &ProjectAccess, down: &ConnectorDown) -> IssueView {
    let names: Vec<_> =
        down.networks.iter().take(MAX_NAMED_NETWORKS).map(|id: &NetworkId| network_name(app, id)).collect();
    let more = match down.networks.len().saturating_sub(MAX_NAMED_NETWORKS) {
        0 => String::new(),
        more => format!(" and {more} more"),
    };
    let (advice, link) = if access.session.user.account.is_admin {
        ("", RemedyLink { title: "Show connectors", path: "/console/deployment/networks".to_owned() })
    } else {
        let path = format!("{}/networks", access.path());
        (" Ask this deployment's operator.", RemedyLink { title: "Allowed networks", path })
    };
    let connector = &down.connector;
    let networks = format!("It serves {}{more}.{advice}", names.join(", "));
    let (before, after) = match down.since {
        Some(_) => (format!("The connector `{connector}` lost its connection "), format!(". {networks}")),
        None => (format!("The connector `{connector}` does not work. {networks}"), String::new()),
    };
    IssueView {
        section: MenuSection::AllowedNetworks,
        icon: "networks",
        title: "Connector down",
        text: text(before),
        at: down.since.map(UtcTime),
        text_after: text(after),
        links: vec![link],
    }
}

fn expiring_credential(access: &ProjectAccess, ending: ExpiringCredential) -> IssueView {
    let ExpiringCredential { client_id, label, ends_at, is_rotated } = ending;
    let label = label.map(|label| format!("“{label}” ")).unwrap_or_default();
    let advice = if is_rotated {
        ". It was rotated: switch your clients to the new credential."
    } else {
        ". Rotate it, and switch your clients to the new credential."
    };
    IssueView {
        section: MenuSection::Credentials,
        icon: "credentials",
        title: "Credential ends soon",
        text: text(format!("The credential {label}`{client_id}` is in use and ends ")),
        at: Some(UtcTime(ends_at)),
        text_after: text(advice),
        links: vec![RemedyLink { title: "Show credentials", path: format!("{}/credentials", access.path()) }],
    }
}

fn expiring_certificate(certificate: &CertificateStatus) -> IssueView {
    IssueView {
        section: MenuSection::DeploymentNetworks,
        icon: "key",
        title: "Certificate expires",
        text: text(format!("The certificate `{}` expires ", certificate.setting)),
        at: Some(UtcTime(certificate.expires_at)),
        text_after: text(". Renew it, and send SIGHUP to this node."),
        links: vec![RemedyLink { title: "Show connectors", path: "/console/deployment/networks".to_owned() }],
    }
}
