//! Counts and times HTTP requests for Prometheus.
//!
//! Label values come from closed sets (methods, route templates, status codes), never from client input.

use std::time::Duration;

use http::{Method, StatusCode};
use prometheus_client::{
    collector::Collector,
    encoding::{EncodeLabelSet, text::encode},
    metrics::{counter::Counter, family::Family, gauge::Gauge, histogram::Histogram},
    registry::Registry,
};
use ringtrue_engine::control_plane::ConcurrentMap;

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

/// Counter and histogram of one label set. Cached, to save a lookup in two metric families for each request.
#[derive(Debug)]
struct Series {
    count: Counter,
    duration: Histogram,
}

#[derive(Debug)]
pub struct Metrics {
    registry: Registry,
    requests: Family<RequestLabels, Counter>,
    durations: Family<RouteLabels, Histogram, fn() -> Histogram>,
    series: ConcurrentMap<RequestLabels, Series>,
    pub connections: Gauge,
    pub refused_connections: Counter,
}

/// Upper bounds of the duration histogram's buckets, in seconds.
const DURATION_BUCKETS: [f64; 12] = [0.0001, 0.000_25, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.05, 0.1, 0.5, 1.0, 5.0];

impl Metrics {
    /// Creates the metrics of requests. On each scrape, `collector` adds the metrics of the engine and the connectors.
    pub fn new(collector: Box<dyn Collector>) -> Self {
        let mut registry = Registry::with_prefix("ringtrue");
        let requests = Family::default();
        let durations = Family::new_with_constructor((|| Histogram::new(DURATION_BUCKETS)) as fn() -> Histogram);
        let connections = Gauge::default();
        let refused_connections = Counter::default();
        registry.register("http_requests", "HTTP requests", requests.clone());
        registry.register("http_request_duration_seconds", "Duration of HTTP requests", durations.clone());
        registry.register("http_connections", "Open connections", connections.clone());
        registry.register(
            "http_connections_refused",
            "Connections rejected or evicted by connection limits",
            refused_connections.clone(),
        );
        registry.register_collector(collector);
        Metrics { registry, requests, durations, series: ConcurrentMap::default(), connections, refused_connections }
    }

    /// Records a response. `route` is a path template, so the number of series is bounded.
    pub fn record_request(&self, method: &Method, route: &'static str, status: StatusCode, elapsed: Duration) {
        let labels = RequestLabels { method: method_label(method), route, status: status.as_u16() };
        let series = self.series.pin();
        let counted = series.get_or_insert_with(labels, || Series {
            count: self.requests.get_or_create_owned(&labels),
            duration: self.durations.get_or_create_owned(&RouteLabels { route }),
        });
        counted.count.inc();
        counted.duration.observe(elapsed.as_secs_f64());
    }

    pub fn encode(&self) -> String {
        let mut text = String::new();
        if encode(&mut text, &self.registry).is_err() {
            tracing::error!("failed to encode metrics");
        }
        text
    }
}

/// Maps a method to a label. Unknown methods share one label, so the number of labels is bounded.
fn method_label(method: &Method) -> &'static str {
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
