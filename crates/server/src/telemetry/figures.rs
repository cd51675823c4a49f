//! What the courier and the connectors count by themselves, for Prometheus.

use std::{fmt, sync::Arc};

use prometheus_client::{
    collector::Collector,
    encoding::{DescriptorEncoder, EncodeMetric},
    metrics::{counter::ConstCounter, gauge::ConstGauge},
    registry::Unit,
};
use ringtrue_engine::{Engine, ports::BreakerPosition};

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
            let labels = |end| vec![("product", total.product.as_str()), ("end", end)];
            total.ended.iter().map(move |(end, count)| (labels(*end), *count))
        });
        counters(&mut encoder, "checks_ended", "Checks that ended on this node, by how", ended)?;
        let courier = self.engine.courier().figures();
        let attempts = courier.attempts.iter().map(|(result, count)| (vec![("result", *result)], *count));
        counters(&mut encoder, "callback_attempts", "Attempts to deliver a callback", attempts)?;
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
        let breakers = reports.iter().flat_map(|report| {
            let is_open = |position| u64::from(position != BreakerPosition::Closed);
            let labels = |of| vec![("connector", &*report.name), ("of", of)];
            report.breakers.iter().map(move |breaker| (labels(breaker.of), is_open(breaker.position)))
        });
        gauges(&mut encoder, "breaker_open", "1 while an operator is not asked because it cannot answer", breakers)
    }
}

type Labels<'a> = Vec<(&'a str, &'a str)>;

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
