//! A project's first page: what it has been doing.

mod figures;

use askama::Template;
use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use ringtrue_domain::{account::Power, network::NetworkId, product::Product};
use ringtrue_engine::activity::{Overview, OverviewFilter, Span};

use super::{
    chart::Chart,
    checks::{PRODUCTS, Tab},
    page::{self, Frame, Section},
    refusal::Refusal,
    visitor::{InProject, SignedIn},
};
use crate::http::{App, path::PathIds, problem::Problem, query::Query};
use figures::{Figure, Stage};

#[derive(Debug, Template)]
#[template(path = "console/overview.html")]
struct OverviewPage {
    frame: Frame,
    tabs: Vec<Tab>,
    span: &'static str,
    /// The span in a sentence: "in the last hour".
    within: &'static str,
    products: Vec<Choice>,
    networks: Vec<Choice>,
    is_of_one_network: bool,
    has_checks: bool,
    figures: Vec<Figure>,
    checks: Chart,
    stages: Vec<Stage>,
    lost: Vec<Figure>,
    /// Where something has completed.
    latency: Option<Chart>,
    callbacks: Vec<Figure>,
    /// Where something was sent.
    attempts: Option<Chart>,
}

/// An entry of a list to choose from.
#[derive(Debug)]
struct Choice {
    value: String,
    title: String,
    is_chosen: bool,
}

/// `GET …/projects/{project_id}`
pub async fn project(State(app): State<App>, who: SignedIn, ids: PathIds) -> Result<Response, Refusal> {
    let InProject { project, .. } = who.project(&app, &ids, Power::Look).await?;
    let frame = Frame::of(&who, "").in_project(&project);
    Ok(page::see_other(&format!("{}/overview", frame.project_path())))
}

/// `GET …/projects/{project_id}/overview`
pub async fn show(
    State(app): State<App>,
    who: SignedIn,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Refusal> {
    let InProject { workspace, project, .. } = who.project(&app, &ids, Power::Look).await?;
    let filter = filter_of(query.as_deref())?;
    let overview = app.engine.overview(project.id, filter.clone()).await?;
    let frame = Frame::of(&who, "Overview").in_workspace(&who, &workspace, Section::Overview).in_project(&project);
    let networks = network_choices(&app, &filter, &overview.networks);
    Ok(page::ok(&OverviewPage::new(frame, &filter, networks, &overview)))
}

/// What is to be seen. Fields that are left empty say nothing.
fn filter_of(query: Option<&str>) -> Result<OverviewFilter, Refusal> {
    let query = Query::parse(query, &["span", "product", "network"])?;
    let said = |name: &str| query.get(name).filter(|value| !value.is_empty());
    let span = match said("span") {
        None => Span::Hour,
        Some(name) => {
            let named = Span::ALL.into_iter().find(|span| name_of(*span) == name);
            named.ok_or_else(|| Problem::bad_request("`span` is `hour`, `day` or `month`"))?
        }
    };
    let product = match said("product") {
        None => None,
        Some(name) => {
            let named = PRODUCTS.into_iter().find(|product| product.as_str() == name);
            Some(named.ok_or_else(|| Problem::bad_request("`product` is one that has checks"))?)
        }
    };
    let network = said("network").map(str::parse::<NetworkId>).transpose();
    let network = network.map_err(|error| Problem::bad_request(format!("`network`: {error}")))?;
    Ok(OverviewFilter { span, product, network })
}

fn name_of(span: Span) -> &'static str {
    match span {
        Span::Hour => "hour",
        Span::Day => "day",
        Span::Month => "month",
    }
}

/// The networks that there is something of, by their names where they are known, and the one that is chosen.
fn network_choices(app: &App, filter: &OverviewFilter, active: &[NetworkId]) -> Vec<Choice> {
    let directory = app.engine.networks().directory();
    let mut ids: Vec<&NetworkId> = active.iter().chain(&filter.network).collect();
    ids.sort_unstable();
    ids.dedup();
    let choice = |id: &NetworkId| Choice {
        value: id.to_string(),
        title: directory.known_as(id).map_or_else(|| id.to_string(), |network| format!("{} ({id})", network.name)),
        is_chosen: filter.network.as_ref() == Some(id),
    };
    ids.into_iter().map(choice).collect()
}

fn product_choices(chosen: Option<Product>) -> Vec<Choice> {
    let choice = |product: Product| Choice {
        value: product.as_str().to_owned(),
        title: product.title().to_owned(),
        is_chosen: chosen == Some(product),
    };
    PRODUCTS.into_iter().map(choice).collect()
}

impl OverviewPage {
    fn new(frame: Frame, filter: &OverviewFilter, networks: Vec<Choice>, overview: &Overview) -> Self {
        let OverviewFilter { span, product, network } = filter;
        let total = &overview.total;
        let tab = |other: Span| {
            let mut query = url::form_urlencoded::Serializer::new(String::new());
            query.append_pair("span", name_of(other));
            for (name, value) in
                [("product", product.map(Product::as_str)), ("network", network.as_ref().map(NetworkId::as_str))]
            {
                query.extend_pairs(value.map(|value| (name, value)));
            }
            Tab {
                path: format!("{}/overview?{}", frame.project_path(), query.finish()),
                title: match other {
                    Span::Hour => "Last hour",
                    Span::Day => "Last day",
                    Span::Month => "Last 30 days",
                },
                is_current: other == *span,
            }
        };
        OverviewPage {
            tabs: Span::ALL.into_iter().map(tab).collect(),
            span: name_of(*span),
            within: match span {
                Span::Hour => "in the last hour",
                Span::Day => "in the last day",
                Span::Month => "in the last 30 days",
            },
            products: product_choices(*product),
            networks,
            is_of_one_network: network.is_some(),
            has_checks: total.created > 0,
            figures: figures::of_checks(total),
            checks: figures::checks(*span, &overview.periods),
            stages: figures::stages(total),
            lost: figures::lost(total),
            latency: (total.completed > 0).then(|| figures::latency(*span, &overview.periods)),
            callbacks: figures::of_callbacks(total, overview.waiting),
            attempts: (total.attempts_delivered + total.attempts_failed > 0)
                .then(|| figures::attempts(*span, &overview.periods)),
            frame,
        }
    }
}
