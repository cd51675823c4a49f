//! Eligibility: `/v1/eligibility/phone-numbers/{phone_number}` and `/v1/eligibility/device-ips/{ip}`.
//!
//! The path is about a person. Nobody here writes it down: logs, traces and metrics know routes only.

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use http::StatusCode;
use ringtrue_domain::product::Product;
use ringtrue_engine::eligibility::{self, UserNetwork};
use serde::{Serialize, Serializer};

use super::{
    App, Routes,
    caller::{ProjectCaller, scope::Eligibility},
    json,
    path::PathIds,
    problem::Problem,
    query::Query,
};

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/eligibility/phone-numbers/{phone_number}", of_number)
        .get("/v1/eligibility/device-ips/{ip}", of_address)
}

#[derive(Serialize)]
struct EligibilityBody<'a> {
    network: NetworkBody<'a>,
    products: Products<'a>,
}

#[derive(Serialize)]
struct NetworkBody<'a> {
    network_id: &'a str,
    network_name: &'a str,
    network_aliases: &'a [String],
    country_code: &'a str,
    dialing_code: &'a str,
}

/// A list of [`ProductBody`].
struct Products<'a>(&'a [Product]);

impl Serialize for Products<'_> {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_seq(self.0.iter().copied().map(ProductBody::from))
    }
}

#[derive(Serialize)]
struct ProductBody {
    product_id: &'static str,
    product_name: &'static str,
}

impl<'a> From<&'a eligibility::Eligibility> for EligibilityBody<'a> {
    fn from(found: &'a eligibility::Eligibility) -> Self {
        let UserNetwork { id, name, aliases, country, dialing_code } = &found.network;
        EligibilityBody {
            network: NetworkBody {
                network_id: id.as_str(),
                network_name: name,
                network_aliases: aliases,
                country_code: country,
                dialing_code,
            },
            products: Products(&found.products),
        }
    }
}

impl From<Product> for ProductBody {
    fn from(product: Product) -> Self {
        ProductBody { product_id: product.as_str(), product_name: product.title() }
    }
}

/// `GET /v1/eligibility/phone-numbers/{phone_number}`
async fn of_number(
    State(app): State<App>,
    caller: ProjectCaller<Eligibility>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let found = app.engine.eligibility_of_number(caller.project(), asked(&ids, "phone_number")).await?;
    Ok(json(StatusCode::OK, &EligibilityBody::from(&found)))
}

/// `GET /v1/eligibility/device-ips/{ip}`
async fn of_address(
    State(app): State<App>,
    caller: ProjectCaller<Eligibility>,
    ids: PathIds,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let found = app.engine.eligibility_of_address(caller.project(), asked(&ids, "ip"))?;
    Ok(json(StatusCode::OK, &EligibilityBody::from(&found)))
}

/// What the path asks about.
fn asked<'a>(ids: &'a PathIds, name: &str) -> &'a str {
    ids.get(name).unwrap_or_default()
}
