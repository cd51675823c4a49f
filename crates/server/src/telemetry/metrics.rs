//! Counters and histograms for Prometheus.
//!
//! Labels come from closed sets (methods, route templates, status codes): nothing that a caller sends becomes one.

use std::{sync::Arc, time::Duration};

use http::{Method, StatusCode};
use prometheus_client::{
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use ringtrue_engine::{Engine, control_plane::Map};

use super::figures::Figures;
use crate::connectors::Connectors;

#[derive(Clone, Copy, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RequestLabels {
    method: &'static str,
    route: &'static str,
    status: u16,
}

#[derive(Clone, Debug, Hash, PartialEq, Eq, EncodeLabelSet)]
struct RouteLabels {
    route: &'static str,
}

/// Where the answers of one kind are counted. A label set is looked up in its family once; after that a request costs
/// one look and a few atomics.
#[derive(Debug)]
struct Handles {
    count: Counter,
    duration: Histogram,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    handles: Map<RequestLabels, Handles>,
    pub connections: Gauge,
    pub refused_connections: Counter,
}

/// From a tenth of a millisecond to some seconds.
const BUCKETS: [f64; 12] = [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

impl Metrics {
    pub fn new(engine: &Engine, connectors: &Arc<Connectors>) -> Self {
        let mut registry = Registry::with_prefix("ringtrue");
        let requests = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(BUCKETS)) as fn() -> Histogram);
        let connections = Gauge::default();
        let refused_connections = Counter::default();
        registry.register("http_requests", "Requests answered", requests.clone());
        registry.register("http_request_duration_seconds", "Time to answer a request", durations.clone());
        registry.register("http_connections", "Connections open now", connections.clone());
        registry.register(
            "http_connections_refused",
            "Connections closed at once because there were too many",
            refused_connections.clone(),
        );
        registry.register_collector(Box::new(Figures { engine: engine.clone(), connectors: Arc::clone(connectors) }));
        Metrics { registry, requests, durations, handles: Map::default(), connections, refused_connections }
    }

    /// Counts an answer. `route` is a template of ours, so there are few.
    pub fn request(&self, method: &Method, route: &'static str, status: StatusCode, elapsed: Duration) {
        let labels = RequestLabels { method: known(method), route, status: status.as_u16() };
        let known = self.handles.pin();
        let handles = known.get_or_insert_with(labels, || Handles {
            count: self.requests.get_or_create_owned(&labels),
            duration: self.durations.get_or_create_owned(&RouteLabels { route }),
        });
        handles.count.inc();
        handles.duration.observe(elapsed.as_secs_f64());
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("the metrics could not be written");
        }
        text
    }
}

/// Methods are free text on the wire.
fn known(method: &Method) -> &'static str {
    match *method {
        Method::GET => "GET",
        Method::HEAD => "HEAD",
        Method::POST => "POST",
        Method::PUT => "PUT",
        Method::PATCH => "PATCH",
        Method::DELETE => "DELETE",
        _ => "other",
    }
}
