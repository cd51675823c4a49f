//! Prometheus metrics of the engine and the connectors. Metrics of HTTP requests are in `ringtrue_web::metrics`.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use ringtrue_console::ConnectorStatuses;
use ringtrue_domain::{activity, tenancy::Mode};
use ringtrue_engine::{
    Engine, courier,
    node::clock_skew,
    ports::connectors::{BreakerPosition, ConnectorState, ConnectorStatus},
};

use crate::connectors::Connectors;

/// Collects the metrics of the engine and the connectors on each scrape.
#[derive(Debug)]
pub struct EngineCollector {
    pub engine: Engine,
    pub connectors: Arc<Connectors>,
}

impl Collector for EngineCollector {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let totals = self.engine.activity.recorder().totals();
        let created = totals.iter().map(|total| (vec![("product", total.product.into_str())], total.created));
        encode_counters(&mut encoder, "checks_created", "Checks created on this node", created)?;
        let ended = totals.iter().flat_map(|total| {
            let labels = |outcome| vec![("product", total.product.into_str()), ("outcome", outcome)];
            total.concluded.iter().map(move |(outcome, count)| (labels(*outcome), *count))
        });
        encode_counters(&mut encoder, "checks_ended", "Checks concluded on this node, by outcome", ended)?;
        let ways = self.engine.activity.recorder().way_totals();
        let ways = ways.iter().map(|(way, result, count)| (vec![("via", way.into_str()), ("result", *result)], *count));
        encode_counters(&mut encoder, "silent_checks_ended", "Silent checks concluded on this node, by way", ways)?;
        let durations = totals.iter().map(|total| {
            let buckets = total
                .duration_buckets
                .iter()
                .zip(bounds_in_seconds(activity::LATENCY_BOUNDS_MILLIS.map(i64::unsigned_abs)));
            let buckets = buckets.map(|(count, bound)| (bound, *count)).collect();
            (
                vec![("product", total.product.into_str())],
                HistogramData { sum: Duration::from_millis(total.duration_millis).as_secs_f64(), buckets },
            )
        });
        encode_histograms(
            &mut encoder,
            "check_duration_seconds",
            "Time from creation to completion of checks",
            durations,
        )?;
        let courier = self.engine.courier().metrics();
        let attempts = courier.attempts.iter().map(|(result, count)| (vec![("result", *result)], *count));
        encode_counters(&mut encoder, "callback_attempts", "Attempts to deliver a callback", attempts)?;
        let buckets = courier.latency_buckets.iter().zip(bounds_in_seconds(courier::LATENCY_BOUNDS_MILLIS));
        let buckets = buckets.map(|(count, bound)| (bound, *count)).collect();
        let duration = HistogramData { sum: Duration::from_micros(courier.latency_sum_micros).as_secs_f64(), buckets };
        let (name, help) = ("callback_attempt_duration_seconds", "Duration of callback delivery attempts");
        encode_histograms(&mut encoder, name, help, [(vec![], duration)])?;
        for (name, help, count) in [
            ("callbacks_delivered", "Callbacks delivered (receiver responded with 200)", courier.delivered),
            ("callbacks_given_up", "Callbacks abandoned after seven failed attempts", courier.given_up),
            (
                "callbacks_deferred",
                "Callbacks deferred to the end of their lease because the queue was full",
                courier.deferred,
            ),
            ("callbacks_unrecorded", "Delivery attempts whose result could not be stored", courier.unrecorded),
        ] {
            encode_counters(&mut encoder, name, help, [(vec![], count)])?;
        }
        for (name, help, value) in [
            ("callbacks_waiting", "Callbacks queued in memory", courier.waiting),
            ("callbacks_in_flight", "Callbacks being sent", courier.in_flight),
        ] {
            encode_gauges(&mut encoder, name, help, [(vec![], value)])?;
        }
        let searches = self.engine.checks.search_limiter();
        let running = [(vec![], searches.running())];
        encode_gauges(&mut encoder, "searches_running", "Searches running or waiting for a connection", running)?;
        let rejected = [(vec![], searches.rejected())];
        encode_counters(
            &mut encoder,
            "searches_rejected",
            "Searches rejected by the limit of their workspace",
            rejected,
        )?;
        let skew = clock_skew(self.engine.clock()).as_secs_f64();
        let name = "clock_skew_seconds";
        let help = "Offset of this machine's clock from the database time";
        let gauge = ConstGauge::new(skew);
        gauge.encode(encoder.encode_descriptor(name, help, None::<&Unit>, gauge.metric_type())?)?;
        let omitted = self.engine.request_log.missing_requests();
        for (name, help, count) in [
            ("request_log_skipped", "Requests not recorded because of sampling", omitted.skipped),
            ("request_log_lost", "Requests not recorded because the queue was full or the write failed", omitted.lost),
        ] {
            encode_counters(&mut encoder, name, help, [(vec![], count)])?;
        }
        encode_connectors(&mut encoder, &self.connectors)
    }
}

fn encode_connectors(encoder: &mut DescriptorEncoder<'_>, connectors: &Connectors) -> Result<(), fmt::Error> {
    let counts = connectors.inbound_counts();
    let inbound =
        counts.iter().map(|(name, outcome, count)| (vec![("connector", &**name), ("outcome", *outcome)], *count));
    encode_counters(encoder, "inbound_sms", "Inbound SMS by connector and outcome", inbound)?;
    let binds = connectors.bind_counts();
    let binds = binds.iter().map(|(name, binds)| (vec![("connector", &**name)], *binds as u64));
    encode_gauges(encoder, "smpp_binds", "Established SMPP binds", binds)?;
    let reports = connectors.statuses();
    let has_binds = |report: &&ConnectorStatus| report.link_summary.is_some() && report.mode == Mode::Live;
    let standby = reports
        .iter()
        .filter(has_binds)
        .map(|report| (vec![("connector", &*report.name)], u64::from(report.state == ConnectorState::Standby)));
    let help = "1 while another node holds the exclusive binds of the connector";
    encode_gauges(encoder, "smpp_standby", help, standby)?;
    let up = reports.iter().map(|report| {
        let is_up = !matches!(report.state, ConnectorState::Down);
        (vec![("connector", &*report.name), ("kind", report.kind)], u64::from(is_up))
    });
    encode_gauges(encoder, "connector_up", "1 if the connector is up, 0 if it is down", up)?;
    let breakers = reports.iter().flat_map(|report| {
        let is_open = |position| u64::from(position != BreakerPosition::Closed);
        let labels = |of| vec![("connector", &*report.name), ("of", of)];
        report.breakers.iter().map(move |breaker| (labels(breaker.operation), is_open(breaker.position)))
    });
    encode_gauges(encoder, "breaker_open", "1 while the circuit breaker to an operator is open", breakers)?;
    let calls = reports.iter().flat_map(|report| {
        report.breakers.iter().flat_map(|breaker| {
            let labels = |outcome| vec![("connector", &*report.name), ("of", breaker.operation), ("outcome", outcome)];
            breaker.calls.iter().map(move |(outcome, count)| (labels(*outcome), *count))
        })
    });
    encode_counters(encoder, "operator_calls", "Calls to operators, by outcome", calls)
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Data of a histogram: the sum in seconds, and the counts by upper bound.
struct HistogramData {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

/// Converts upper bounds of buckets to seconds, and appends infinity.
fn bounds_in_seconds(millis: impl IntoIterator<Item = u64>) -> impl Iterator<Item = f64> {
    millis.into_iter().map(|millis| Duration::from_millis(millis).as_secs_f64()).chain([f64::INFINITY])
}

fn encode_histograms<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<'a>, HistogramData)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None::<&Unit>, MetricType::Histogram)?;
    for (labels, HistogramData { sum, buckets }) in series {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let labels = labels.as_slice();
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn encode_counters<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None::<&Unit>, ConstCounter::<u64>::new(0).metric_type())?;
    for (labels, count) in series {
        ConstCounter::new(count).encode(metric.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}

fn encode_gauges<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<'a>, u64)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None::<&Unit>, ConstGauge::<i64>::new(0).metric_type())?;
    for (labels, value) in series {
        let value = i64::try_from(value).unwrap_or(i64::MAX);
        ConstGauge::new(value).encode(metric.encode_family(&labels.as_slice())?)?;
    }
    Ok(())
}
