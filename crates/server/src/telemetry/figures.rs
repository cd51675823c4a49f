//! What the courier and the connectors count by themselves, for Prometheus.

use std::{fmt, sync::Arc, time::Duration};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric, NoLabelSet},
    metrics::{MetricType, counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use ringtrue_domain::activity;
use ringtrue_engine::{
    Engine, callback,
    nodes::clock_skew,
    ports::{BreakerPosition, Condition},
};

use crate::connectors::Connectors;

#[derive(Debug)]
pub(super) struct Figures {
    pub engine: Engine,
    pub connectors: Arc<Connectors>,
}

impl Collector for Figures {
    fn encode(&self, mut encoder: DescriptorEncoder) -> Result<(), fmt::Error> {
        let totals = self.engine.activity().totals();
        let created = totals.iter().map(|total| (vec![("product", total.product.as_str())], total.created));
        counters(&mut encoder, "checks_created", "Checks created on this node", created)?;
        let ended = totals.iter().flat_map(|total| {
            let labels = |outcome| vec![("product", total.product.as_str()), ("outcome", outcome)];
            total.ended.iter().map(move |(outcome, count)| (labels(*outcome), *count))
        });
        counters(&mut encoder, "checks_ended", "Checks that ended on this node, by outcome", ended)?;
        let durations = totals.iter().map(|total| {
            let buckets = total.durations.iter().zip(seconds(activity::LATENCY_BOUNDS.map(i64::unsigned_abs)));
            let buckets = buckets.map(|(count, bound)| (bound, *count)).collect();
            (
                vec![("product", total.product.as_str())],
                Observed { sum: Duration::from_millis(total.duration_millis).as_secs_f64(), buckets },
            )
        });
        histograms(&mut encoder, "check_duration_seconds", "Time from creation to completion of checks", durations)?;
        let courier = self.engine.courier().figures();
        let attempts = courier.attempts.iter().map(|(result, count)| (vec![("result", *result)], *count));
        counters(&mut encoder, "callback_attempts", "Attempts to deliver a callback", attempts)?;
        let buckets = courier.latency.iter().zip(seconds(callback::LATENCY_BOUNDS));
        let buckets = buckets.map(|(count, bound)| (bound, *count)).collect();
        let took = Observed { sum: Duration::from_micros(courier.latency_micros).as_secs_f64(), buckets };
        let (name, help) = ("callback_attempt_duration_seconds", "Time that attempts to deliver a callback took");
        histograms(&mut encoder, name, help, [(vec![], took)])?;
        for (name, help, count) in [
            ("callbacks_delivered", "Callbacks that were answered with 200", courier.delivered),
            ("callbacks_given_up", "Callbacks that failed seven times", courier.given_up),
            ("callbacks_put_off", "Callbacks that were left to their lease for want of room", courier.put_off),
            ("callbacks_unsettled", "Attempts whose end could not be recorded", courier.unsettled),
        ] {
            counters(&mut encoder, name, help, [(vec![], count)])?;
        }
        for (name, help, value) in [
            ("callbacks_waiting", "Callbacks in memory that wait for their turn", courier.waiting),
            ("callbacks_in_flight", "Callbacks that are being sent", courier.in_flight),
        ] {
            gauges(&mut encoder, name, help, [(vec![], value)])?;
        }
        let searches = self.engine.search_limiter();
        let running = [(vec![], searches.running())];
        gauges(&mut encoder, "searches_running", "Searches that run or wait for a connection", running)?;
        let rejected = [(vec![], searches.rejected())];
        counters(
            &mut encoder,
            "searches_rejected",
            "Searches rejected because their workspace ran too many",
            rejected,
        )?;
        let skew = clock_skew(self.engine.clock()).as_secs_f64();
        let name = "clock_skew_seconds";
        let help = "How far the clock of this machine is ahead of the database's time";
        let gauge = ConstGauge::new(skew);
        gauge.encode(encoder.encode_descriptor(name, help, None::<&Unit>, gauge.metric_type())?)?;
        let omitted = self.engine.request_log().omissions();
        for (name, help, count) in [
            ("request_log_skipped", "Requests that are not in their log because there were too many", omitted.skipped),
            ("request_log_lost", "Requests that could not be written into their log", omitted.lost),
        ] {
            counters(&mut encoder, name, help, [(vec![], count)])?;
        }
        let counts = self.connectors.counts();
        let inbound =
            counts.iter().map(|(name, outcome, count)| (vec![("connector", &**name), ("outcome", *outcome)], *count));
        counters(&mut encoder, "inbound_sms", "What came in from operators, by what became of it", inbound)?;
        let binds = self.connectors.binds_up();
        let binds = binds.iter().map(|(name, binds)| (vec![("connector", &**name)], *binds as u64));
        gauges(&mut encoder, "smpp_binds", "SMPP binds that are up", binds)?;
        let reports = self.connectors.reports();
        let up = reports.iter().map(|report| {
            let is_up = !matches!(report.condition, Condition::Down);
            (vec![("connector", &*report.name), ("kind", report.kind)], u64::from(is_up))
        });
        gauges(&mut encoder, "connector_up", "0 while a connector is down", up)?;
        let breakers = reports.iter().flat_map(|report| {
            let is_open = |position| u64::from(position != BreakerPosition::Closed);
            let labels = |of| vec![("connector", &*report.name), ("of", of)];
            report.breakers.iter().map(move |breaker| (labels(breaker.of), is_open(breaker.position)))
        });
        gauges(&mut encoder, "breaker_open", "1 while an operator is not asked because it cannot answer", breakers)?;
        let calls = reports.iter().flat_map(|report| {
            report.breakers.iter().flat_map(|breaker| {
                let labels = |outcome| vec![("connector", &*report.name), ("of", breaker.of), ("outcome", outcome)];
                breaker.calls.iter().map(move |(outcome, count)| (labels(*outcome), *count))
            })
        });
        counters(&mut encoder, "operator_calls", "Calls to operators, by outcome", calls)
    }
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

/// Durations that were observed: their sum in seconds, and how many are in each class, by upper bound.
struct Observed {
    sum: f64,
    buckets: Vec<(f64, u64)>,
}

/// Upper bounds in seconds, and one more for the rest.
fn seconds(millis: impl IntoIterator<Item = u64>) -> impl Iterator<Item = f64> {
    millis.into_iter().map(|millis| Duration::from_millis(millis).as_secs_f64()).chain([f64::INFINITY])
}

fn histograms<'a>(
    encoder: &mut DescriptorEncoder,
    name: &str,
    help: &str,
    series: impl IntoIterator<Item = (Labels<'a>, Observed)>,
) -> Result<(), fmt::Error> {
    let mut metric = encoder.encode_descriptor(name, help, None::<&Unit>, MetricType::Histogram)?;
    for (labels, Observed { sum, buckets }) in series {
        let count = buckets.iter().map(|(_, count)| count).sum();
        let labels = labels.as_slice();
        metric.encode_family(&labels)?.encode_histogram::<NoLabelSet>(sum, count, &buckets, None)?;
    }
    Ok(())
}

fn counters<'a>(
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

fn gauges<'a>(
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
