//! Checks whether a project is ready to go live. Going live cannot be undone.

use jiff::SignedDuration;
use ringtrue_domain::{
    network::Network,
    product::Product,
    tenancy::{ConfigurationPatch, Mode, Project},
};

use super::Management;
use crate::ports::{
    activity::{ActivityFilter, ActivityScope},
    store::StoreError,
};

/// Maximum number of networks that a message names.
const MAX_NAMED_NETWORKS: usize = 5;

/// A requirement for going live.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct LiveRequirement {
    pub topic: LiveTopic,
    /// A phrase that says what is missing. `None`: the requirement is met.
    pub missing: Option<String>,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum LiveTopic {
    Products,
    /// The project is allowed to use at least one network for the product.
    AllowedNetworks(Product),
    /// The deployment reaches every allowed network for the product.
    Connectors(Product),
    Urls,
    Callbacks,
}

impl Management {
    /// Returns all requirements for a project to go live, whether they are met or not.
    pub async fn live_requirements(&self, project: &Project) -> Result<Vec<LiveRequirement>, StoreError> {
        let products = project.products.iter().copied().filter(|product| product.requires_operator());
        let mut requirements: Vec<LiveRequirement> =
            products.flat_map(|product| self.network_requirements(project, product)).collect();
        if requirements.is_empty() {
            let missing = Some("the project has no product that uses an operator".to_owned());
            requirements.push(LiveRequirement { topic: LiveTopic::Products, missing });
        }
        requirements.push(LiveRequirement { topic: LiveTopic::Urls, missing: self.url_problem(project) });
        if project.products.iter().any(|product| project.configuration.callback_url(*product).is_some()) {
            let missing = (!self.has_delivered_callback(project).await?)
                .then(|| "no callback has been delivered yet; complete a check in the sandbox".to_owned());
            requirements.push(LiveRequirement { topic: LiveTopic::Callbacks, missing });
        }
        Ok(requirements)
    }

    fn network_requirements(&self, project: &Project, product: Product) -> Vec<LiveRequirement> {
        let directory = self.networks.directory();
        let is_allowed =
            |network: &&Network| project.allowed_networks.iter().any(|allowed| allowed.allows(&network.id, product));
        let allowed: Vec<&Network> = directory.networks().filter(is_allowed).collect();
        if allowed.is_empty() {
            let missing = Some(format!("{} is allowed on no network of this deployment", product.title()));
            return vec![LiveRequirement { topic: LiveTopic::AllowedNetworks(product), missing }];
        }
        let unreachable: Vec<&str> = allowed
            .iter()
            .filter(|network| !self.networks.is_reachable(network, product))
            .map(|network| network.name.as_str())
            .collect();
        let missing = (!unreachable.is_empty()).then(|| {
            let what = if product == Product::ReverseSms { "available receiver" } else { "working connector" };
            format!("{} has no {what} for {}", product.title(), summarize(&unreachable))
        });
        vec![
            LiveRequirement { topic: LiveTopic::AllowedNetworks(product), missing: None },
            LiveRequirement { topic: LiveTopic::Connectors(product), missing },
        ]
    }

    fn url_problem(&self, project: &Project) -> Option<String> {
        let policy = self.context.settings.url_policy.for_mode(Mode::Live);
        let checked = project.configuration.patched(&ConfigurationPatch::default(), &policy, true);
        checked.err().map(|invalid| invalid.to_string())
    }

    async fn has_delivered_callback(&self, project: &Project) -> Result<bool, StoreError> {
        const DAY: SignedDuration = SignedDuration::from_hours(24);
        let filter = ActivityFilter {
            from: project.created_at - SignedDuration::from_mins(1),
            to: self.context.now() + DAY,
            period: DAY,
            scope: ActivityScope::All,
            network: None,
        };
        let activity = self.store.activity(project.id, filter).await?;
        Ok(activity.iter().any(|period| period.counts.attempts_delivered > 0))
    }
}

/// Joins the first [`MAX_NAMED_NETWORKS`] names, and adds how many more there are.
fn summarize(names: &[&str]) -> String {
    let shown = names[..names.len().min(MAX_NAMED_NETWORKS)].join(", ");
    match names.len().saturating_sub(MAX_NAMED_NETWORKS) {
        0 => shown,
        more => format!("{shown} and {more} more"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_lists_are_cut() {
        assert_eq!(summarize(&["A"]), "A");
        assert_eq!(summarize(&["A", "B", "C", "D", "E"]), "A, B, C, D, E");
        assert_eq!(summarize(&["A", "B", "C", "D", "E", "F", "G"]), "A, B, C, D, E and 2 more");
    }
}
