//! Eligibility: `/v1/eligibility/phone-numbers/{phone_number}` and `/v1/eligibility/device-ips/{ip}`.
//!
//! Paths contain phone numbers and IP addresses, so logs, traces and metrics record only route templates.

use std::sync::Arc;

use axum::{
    Extension,
    extract::{RawQuery, State},
    response::Response,
};
use bytes::Bytes;
use http::StatusCode;
use ringtrue_domain::{network::NetworkId, product::Product};
use ringtrue_engine::{
    lookups::{
        eligibility::{self, ServingNetwork},
        networks::NetworkInfo,
    },
    rate_limits::RateLimitClass,
};
use ringtrue_web::{
    app::App,
    parameters::{PathParameters, Query},
    problem::Problem,
    response::{json_bytes_response, render_json},
    routes::Routes,
};
use serde::{Serialize, Serializer};

use crate::caller::{ProjectCaller, scope::Eligibility};

/// Cache of rendered responses. The key is the memory address of the network and a bit set of products. The value keeps
/// the network allocated, so that no other network can get the same address.
type BodyCache = papaya::HashMap<(usize, u8), (Arc<NetworkInfo>, Bytes)>;

pub fn routes() -> Routes {
    Routes::default()
        .get("/v1/eligibility/phone-numbers/{phone_number}", by_phone_number)
        .get("/v1/eligibility/device-ips/{ip}", by_device_ip)
        .with_extension(Arc::new(BodyCache::default()))
        .rate_limit(RateLimitClass::Eligibility)
        .logged()
        .rate_limit_unmatched("/v1/eligibility/{*path}", RateLimitClass::Eligibility)
}

#[derive(Serialize)]
struct EligibilityBody<'a> {
    network: NetworkBody<'a>,
    products: Products<'a>,
}

/// A network in the response. Networks that this deployment does not configure have no name or aliases, and may have no
/// id.
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

/// Serializes as a list of [`ProductBody`].
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
            ServingNetwork::Configured(network) => Some(&**network),
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
        ProductBody { product_id: product.into_str(), product_name: product.title() }
    }
}

/// Maximum number of cached responses, more than the networks and product sets in use can produce. After a reload,
/// networks have new addresses and the old entries are useless, so a full cache is cleared.
const MAX_CACHED_BODIES: usize = 10_000;

/// Returns the response from the cache, or renders it. Subscribers of the same network with the same products get
/// identical responses.
fn cached_or_rendered_body(cache: &BodyCache, found: &eligibility::Eligibility) -> Bytes {
    let render = || Bytes::from(render_json(&EligibilityBody::from(found)));
    // Networks that are not configured have no `NetworkInfo` whose address could be the key, and are too many to cache.
    let ServingNetwork::Configured(network) = &found.network else { return render() };
    let products = found.products.iter().fold(0, |products, product| products | 1 << *product as u8);
    let key = (Arc::as_ptr(network).addr(), products);
    let cache = cache.pin();
    if let Some((_, body)) = cache.get(&key) {
        return body.clone();
    }
    if cache.len() >= MAX_CACHED_BODIES {
        cache.clear();
    }
    let body = render();
    cache.insert(key, (Arc::clone(network), body.clone()));
    body
}

/// `GET /v1/eligibility/phone-numbers/{phone_number}`
async fn by_phone_number(
    State(app): State<App>,
    caller: ProjectCaller<Eligibility>,
    Extension(bodies): Extension<Arc<BodyCache>>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let found =
        app.engine.checks.eligibility_of_number(caller.project(), ids.get("phone_number").unwrap_or_default()).await?;
    Ok(json_bytes_response(StatusCode::OK, cached_or_rendered_body(&bodies, &found)))
}

/// `GET /v1/eligibility/device-ips/{ip}`
async fn by_device_ip(
    State(app): State<App>,
    caller: ProjectCaller<Eligibility>,
    Extension(bodies): Extension<Arc<BodyCache>>,
    ids: PathParameters,
    RawQuery(query): RawQuery,
) -> Result<Response, Problem> {
    Query::parse(query.as_deref(), &[])?;
    let found = app.engine.checks.eligibility_of_address(caller.project(), ids.get("ip").unwrap_or_default())?;
    Ok(json_bytes_response(StatusCode::OK, cached_or_rendered_body(&bodies, &found)))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn named(name: &str) -> Arc<NetworkInfo> {
        Arc::new(NetworkInfo {
            id: "23410".parse().unwrap(),
            name: name.to_owned(),
            aliases: vec![],
            country: "GB".to_owned(),
            dialing_code: "44".to_owned(),
        })
    }

    #[test]
    fn cached_body_equals_rendered_body() {
        let cache = BodyCache::default();
        let (before, after) = (named("Before"), named("After"));
        let products = [&[Product::SecureSna][..], &[Product::SecureSna, Product::SimSwap], &[]];
        for _ in 0..3 {
            // After a reload, a network has the same id but another memory address.
            for network in [&before, &after] {
                for products in products {
                    let network = ServingNetwork::Configured(Arc::clone(network));
                    let found = eligibility::Eligibility { network, products: products.to_vec() };
                    assert_eq!(
                        cached_or_rendered_body(&cache, &found),
                        render_json(&EligibilityBody::from(&found)),
                        "{found:?}"
                    );
                }
            }
        }
        assert_eq!(cache.len(), 6, "each network with each of its products");
    }
}
