//! Metrics of the overview: times to completion and counts of callbacks.

use ringtrue_domain::activity::ActivityCounts;
use ringtrue_engine::{activity::CompletionPercentiles, ports::activity::WaitingCallbacks};

use crate::page::chart::Unit;

#[derive(Debug)]
pub struct Metric {
    pub name: &'static str,
    pub value: String,
}

pub fn callback_metrics(total: &ActivityCounts, waiting: WaitingCallbacks) -> Vec<Metric> {
    let count = Unit::Count.format(i64::try_from(waiting.count).unwrap_or(i64::MAX));
    let count = if waiting.is_truncated { format!("at least {count}") } else { count };
    vec![
        metric("Delivered", total.attempts_delivered),
        metric("Failed attempts", total.attempts_failed),
        metric("Undeliverable", total.given_up),
        Metric { name: "Pending now", value: count },
    ]
}

pub fn completion_metrics(completion: Option<CompletionPercentiles>) -> Vec<Metric> {
    let metric = |name, value: fn(CompletionPercentiles) -> i64| {
        let format = |completion: CompletionPercentiles| {
            let about = if completion.is_exact { "" } else { "≈ " };
            format!("{about}{}", Unit::Millis.format(value(completion)))
        };
        Metric { name, value: completion.map_or_else(|| "–".to_owned(), format) }
    };
    vec![metric("p50", |it| it.p50), metric("p95", |it| it.p95), metric("p99", |it| it.p99)]
}

fn metric(name: &'static str, value: i64) -> Metric {
    Metric { name, value: Unit::Count.format(value.max(0)) }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn estimates_are_marked() {
        for (is_exact, shown) in [(true, "1.5 s"), (false, "≈ 1.5 s")] {
            let completion = CompletionPercentiles { p50: 1_520, p95: 2_000, p99: 3_000, is_exact };
            assert_eq!(completion_metrics(Some(completion))[0].value, shown);
        }
    }

    #[test]
    fn times_of_zero_checks_are_omitted() {
        assert!(completion_metrics(None).iter().all(|metric| metric.value == "–"));
    }

    #[test]
    fn truncated_callback_count_is_a_minimum() {
        for (is_truncated, shown) in [(false, "3"), (true, "at least 3")] {
            let metrics = callback_metrics(&ActivityCounts::default(), WaitingCallbacks { count: 3, is_truncated });
            assert_eq!(metrics[3].value, shown);
        }
    }
}
