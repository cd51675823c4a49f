//! Eligibility: `/v1/eligibility/phone-numbers/{phone_number}` and `/v1/eligibility/device-ips/{ip}`.
//!
//! The path is about a person. Nobody here writes it down: logs, traces and metrics know routes only.

use std::sync::Arc;

use axum::{
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use http::StatusCode;
use ringtrue_domain::{network::NetworkId, product::Product};
use ringtrue_engine::eligibility::{self, ServingNetwork, UserNetwork};
use serde::{Serialize, Serializer};

use super::{
    App, Routes,
    caller::{ProjectCaller, scope::Eligibility},
    json_bytes,
    path::PathIds,
    problem::Problem,
    query::Query,
    rendered,
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

/// A network that is none of the deployment's has no name and no aliases, and perhaps no id.
#[derive(Serialize)]
struct NetworkBody<'a> {
    #[serde(skip_serializing_if = "Option::is_none")]
    network_id: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_name: Option<&'a str>,
    #[serde(skip_serializing_if = "Option::is_none")]
    network_aliases: Option<&'a [String]>,
    #[serde(skip_serializing_if = "Option::is_none")]
    country_code: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    dialing_code: Option<String>,
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
        let ours = match &found.network {
            ServingNetwork::Ours(network) => Some(&**network),
            ServingNetwork::Other { .. } => None,
        };
        EligibilityBody {
            network: NetworkBody {
                network_id: found.network.id().map(NetworkId::as_str),
                network_name: ours.map(|network| network.name.as_str()),
                network_aliases: ours.map(|network| network.aliases.as_slice()),
                country_code: found.network.country_code(),
                dialing_code: found.network.dialing_code(),
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

/// What was told of networks: users of the same network are told the same, over and over.
#[derive(Debug, Default)]
pub struct ToldNetworks(papaya::HashMap<Told, Body>);

/// A network by its place in memory, where it stays as long as its [`Body`] is kept, and its products.
type Told = (usize, u8);

#[derive(Debug)]
struct Body {
    _network: Arc<UserNetwork>,
    document: Bytes,
}

/// More than there are networks with what their users may use. They grow in number when networks are read anew.
const MOST_TOLD: usize = 10_000;

impl ToldNetworks {
    fn body(&self, found: &eligibility::Eligibility) -> Bytes {
        let render = || Bytes::from(rendered(&EligibilityBody::from(found)));
        // Other networks are many, and none is kept in memory.
        let ServingNetwork::Ours(network) = &found.network else { return render() };
        let products = found.products.iter().fold(0, |products, product| products | 1 << *product as u8);
        let told = (Arc::as_ptr(network).addr(), products);
        let kept = self.0.pin();
        if let Some(body) = kept.get(&told) {
            return body.document.clone();
        }
        if kept.len() >= MOST_TOLD {
            kept.clear();
        }
        let document = render();
        kept.insert(told, Body { _network: Arc::clone(network), document: document.clone() });
        document
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
    Ok(json_bytes(StatusCode::OK, app.told_networks.body(&found)))
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
    Ok(json_bytes(StatusCode::OK, app.told_networks.body(&found)))
}

/// What the path asks about.
fn asked<'a>(ids: &'a PathIds, name: &str) -> &'a str {
    ids.get(name).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<UserNetwork> {
        Arc::new(UserNetwork {
            id: "23410".parse().unwrap(),
            name: name.to_owned(),
            aliases: vec![],
            country: "GB".to_owned(),
            dialing_code: "44".to_owned(),
        })
    }

    #[test]
    fn what_is_kept_is_what_would_be_told() {
        let told = ToldNetworks::default();
        let (before, after) = (named("Before"), named("After"));
        let products = [&[Product::SecureSna][..], &[Product::SecureSna, Product::SimSwap], &[]];
        for _ in 0..3 {
            // The same network read anew, in between.
            for network in [&before, &after] {
                for products in products {
                    let network = ServingNetwork::Ours(Arc::clone(network));
                    let found = eligibility::Eligibility { network, products: products.to_vec() };
                    assert_eq!(told.body(&found), rendered(&EligibilityBody::from(&found)), "{found:?}");
                }
            }
        }
        assert_eq!(told.0.len(), 6, "each network with each of its products");
    }
}
