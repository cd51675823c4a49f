//! Tables of outcomes by network, method and connector.

use std::collections::BTreeMap;

use ringtrue_domain::{activity::ActivityCounts, network::NetworkId, product::Product, tenancy::Mode};
use ringtrue_engine::{activity::OverviewFilter, ports::activity::NetworkActivity};
use ringtrue_web::app::App;

use crate::{
    observe::overview::{
        View,
        outcomes::{Outcome, format_percent, outcome_bar, outcomes},
    },
    page::{
        chart::{Svg, Unit},
        country_name::country_name,
        network_name::network_name,
    },
};

/// Table of outcomes by network, method or connector.
#[derive(Debug)]
pub struct Breakdown {
    pub id: &'static str,
    pub title: &'static str,
    /// Title of the column with the names of the rows.
    pub column: &'static str,
    /// Title of the column with the number of checks.
    pub counted: &'static str,
    pub note: &'static str,
    pub rows: Vec<BreakdownRow>,
}

#[derive(Debug)]
pub struct BreakdownRow {
    pub name: String,
    /// Country of a network. Empty in other tables, and for networks that the deployment does not know.
    pub country: &'static str,
    pub created: String,
    pub outcomes: Vec<Outcome>,
    pub bar: Svg,
    /// Percentage of matches among the checks that are no longer open.
    pub success: String,
}

/// Builds the tables of outcomes. For verifications, also those of their steps, by method and connector.
pub fn breakdowns(app: &App, mode: Mode, filter: &OverviewFilter, by_network: &[NetworkActivity]) -> Vec<Breakdown> {
    let view = View::of_scope(filter.scope);
    let (mut networks, mut methods, mut connectors) = (
        BTreeMap::<_, ActivityCounts>::new(),
        BTreeMap::<_, ActivityCounts>::new(),
        BTreeMap::<_, ActivityCounts>::new(),
    );
    for row in by_network.iter().filter(|row| row.counts.created != 0) {
        if filter.scope.includes(row.product, row.is_step) {
            *networks.entry(describe_network(app, row.network.as_ref())).or_default() += &row.counts;
        }
        if row.is_step {
            *methods.entry(("", row.product.title().to_owned())).or_default() += &row.counts;
        }
        if let Some(connector) = connector_name(app, mode, row) {
            *connectors.entry(("", connector)).or_default() += &row.counts;
        }
    }
    let rows = |view, counts: BTreeMap<(&'static str, String), ActivityCounts>| -> Vec<BreakdownRow> {
        counts.into_iter().map(|((country, name), counts)| breakdown_row(view, country, name, &counts)).collect()
    };
    let (steps, connectors_note) = match view {
        View::Verifications => ("Steps", "Steps of verifications, by the connectors that serve these networks now."),
        View::Checks => ("Checks", "The connectors that serve these networks now."),
    };
    let tables = [
        Breakdown {
            id: "by-network",
            title: "By country and network",
            column: "Network",
            counted: view.title(),
            note: "",
            rows: rows(view, networks),
        },
        Breakdown {
            id: "by-method",
            title: "By method",
            column: "Method",
            counted: "Steps",
            note: "Steps of verifications. A verification has a step for each method that it tries.",
            rows: rows(View::Checks, methods),
        },
        Breakdown {
            id: "by-connector",
            title: "By connector",
            column: "Connector",
            counted: steps,
            note: connectors_note,
            rows: rows(View::Checks, connectors),
        },
    ];
    tables.into_iter().filter(|table| !table.rows.is_empty()).collect()
}

/// Returns the country and the name of a network.
fn describe_network(app: &App, id: Option<&NetworkId>) -> (&'static str, String) {
    let Some(id) = id else { return ("", "No network".to_owned()) };
    let directory = app.engine.networks().directory();
    let country = directory.find_by_any_id(id).map(|network| country_name(network.country));
    (country.unwrap_or_default(), network_name(app, id))
}

/// Returns the names of the connectors that now serve the network and product of an activity row. `None` for
/// verifications, because only the checks of their steps use connectors.
fn connector_name(app: &App, mode: Mode, row: &NetworkActivity) -> Option<String> {
    if row.product == Product::Verification {
        return None;
    }
    if mode == Mode::Sandbox {
        return Some("Sandbox".to_owned());
    }
    let names = row.network.as_ref().map(|id| app.engine.networks().connector_names(id, row.product));
    let names = names.unwrap_or_default().join(", ");
    Some(if names.is_empty() { "No connector".to_owned() } else { names })
}

fn breakdown_row(view: View, country: &'static str, name: String, counts: &ActivityCounts) -> BreakdownRow {
    let concluded = counts.created - counts.open_checks();
    BreakdownRow {
        name,
        country,
        created: Unit::Count.format(counts.created.max(0)),
        outcomes: outcomes(view, counts),
        bar: outcome_bar(counts),
        success: format_percent(counts.matched, concluded),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn success_is_a_percentage_of_ended_checks() {
        let total = ActivityCounts {
            created: 20,
            completed: 14,
            matched: 12,
            expired: 3,
            failed: 1,
            ..ActivityCounts::default()
        };
        for (counts, shown) in [(total, "67 %"), (ActivityCounts::default(), "–")] {
            assert_eq!(breakdown_row(View::Checks, "", String::new(), &counts).success, shown);
        }
    }
}
