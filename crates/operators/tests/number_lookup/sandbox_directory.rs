//! ENUM and HLR sources in sequence against the sandbox operator's directory.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, header::AUTHORIZATION};
use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_engine::{
    lookups::{
        networks::Networks,
        number_lookup::{LookupSources, LookupUnavailable, NumberLookup, NumberResolution, PrefixPolicy},
    },
    ports::{
        clock::SystemClock,
        lookups::{LookupError, LookupResult},
    },
};
use ringtrue_operators::number_lookup::{
    EnumConfig,
    enum_dns::RecordRules,
    http_hlr::{GenericJson, HlrDriver, NetworkPointers},
};
use ringtrue_sandbox::directory::{Directory, DirectoryConfig, DirectoryFault, EnumFault, HlrFault, RecordStyle};

use crate::{LookupOutcome, fake_dns, fake_vendor, network, vendor_configs};

const PRESENT: &str = "+447700900123";
const PORTED: &str = "+447700900124";
const ABSENT: &str = "+447700900125";
const UNKNOWN: &str = "+447700900126";

const NO_DATA: LookupOutcome = Ok(LookupResult::NoData);
const NO_SUBSCRIBER: LookupOutcome = Ok(LookupResult::NoSubscriber);

async fn directory(records: RecordStyle, ported_only: bool) -> Directory {
    let subscribers = [
        "+447700900123 23430",
        "+447700900124 23410 ported-from 23430",
        "+447700900125 310012 absent",
        "+447700900126 23430 unknown",
    ];
    let subscribers = subscribers.iter().map(|text| text.parse().unwrap()).collect();
    let hlr_secret = Some("s3cret".to_owned());
    let config = DirectoryConfig { subscribers, hlr_secret, records, ported_only, ..DirectoryConfig::default() };
    Directory::start(config).await.unwrap()
}

fn enum_config(directory: &Directory) -> EnumConfig {
    fake_dns::config(&[directory.dns_address().unwrap().port()])
}

fn hlr(directory: &Directory, secret: &'static str) -> HlrDriver {
    let pointers = NetworkPointers::Separate { country: "/mcc".to_owned(), network: "/mnc".to_owned() };
    let url = format!("{}?number={{number}}", directory.hlr_url().unwrap());
    HlrDriver::GenericJson(GenericJson {
        headers: [(AUTHORIZATION, HeaderValue::from_static(secret))].into_iter().collect(),
        state: Some("/status".to_owned()),
        absent_values: vec!["absent".to_owned()],
        invalid_values: vec!["unknown".to_owned()],
        ..GenericJson::new(url, pointers)
    })
}

/// Creates a lookup that queries ENUM first, and then the HLR with this timeout.
fn lookup(directory: &Directory, config: EnumConfig, hlr_timeout: Duration) -> Arc<NumberLookup> {
    let first = Arc::new(fake_dns::source(config));
    let second = Arc::new(vendor_configs::source(
        hlr(directory, "Bearer s3cret"),
        &fake_vendor::client_with_timeout(hlr_timeout),
    ));
    let networks = Networks::default();
    let ids = ["23410", "23430", "310012"];
    networks.replace(NetworkDirectory::new(ids.map(configured).into(), vec![], vec![]).unwrap());
    let lookup = NumberLookup::new(Arc::new(networks), Arc::new(SystemClock), 100);
    let deadline = Duration::from_mins(2);
    lookup.replace(LookupSources { prefixes: PrefixPolicy::Fallback, sources: vec![first, second], deadline });
    lookup
}

fn configured(id: &str) -> Network {
    Network {
        id: id.parse().unwrap(),
        name: id.to_owned(),
        aliases: vec![],
        country: "GB".parse().unwrap(),
        prefixes: vec![],
        receivers: vec![],
    }
}

/// Returns the results of the queried sources, and the resolution.
async fn look_up(
    lookup: &NumberLookup,
    number: &str,
) -> (Vec<LookupOutcome>, Result<NumberResolution, LookupUnavailable>) {
    let report = lookup.look_up_uncached(&Msisdn::parse(number, Mode::Live).unwrap()).await;
    let source_results =
        report.source_results.into_iter().filter(|entry| entry.source != "prefixes").map(|entry| entry.result);
    (source_results.collect(), report.resolution)
}

fn known(id: &str) -> Result<NumberResolution, LookupUnavailable> {
    id.parse().map(NumberResolution::Network).map_err(|_| LookupUnavailable)
}

const LONG_TIMEOUT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn ported_and_absent_subscribers_have_networks() {
    let directory = directory(RecordStyle::MccMnc, false).await;
    let lookup = lookup(&directory, enum_config(&directory), LONG_TIMEOUT);
    for (number, outcomes, answer) in [
        (PRESENT, vec![network("23430")], known("23430")),
        (PORTED, vec![network("23410")], known("23410")),
        (ABSENT, vec![network("310012")], known("310012")),
        (UNKNOWN, vec![NO_DATA, NO_SUBSCRIBER], Ok(NumberResolution::NoSubscriber)),
        ("+447700900199", vec![NO_DATA, NO_SUBSCRIBER], Ok(NumberResolution::NoSubscriber)),
    ] {
        assert_eq!(look_up(&lookup, number).await, (outcomes, answer), "{number}");
    }
    let counts = directory.counts();
    assert_eq!((counts.udp_queries, counts.tcp_queries, counts.hlr_requests, counts.unauthorized), (5, 0, 2, 0));
}

#[tokio::test]
async fn numbers_missing_in_enum_are_looked_up_by_hlr() {
    let directory = directory(RecordStyle::MccMnc, true).await;
    let lookup = lookup(&directory, enum_config(&directory), LONG_TIMEOUT);
    for (number, outcomes, answer) in [
        (PRESENT, vec![NO_DATA, network("23430")], known("23430")),
        (PORTED, vec![network("23410")], known("23410")),
        (ABSENT, vec![NO_DATA, network("310012")], known("310012")),
        (UNKNOWN, vec![NO_DATA, NO_SUBSCRIBER], Ok(NumberResolution::NoSubscriber)),
    ] {
        assert_eq!(look_up(&lookup, number).await, (outcomes, answer), "{number}");
    }
}

#[tokio::test]
async fn routing_numbers_are_mapped_by_tables() {
    let directory = directory(RecordStyle::RoutingNumber, false).await;
    let id = |text: &str| text.parse().unwrap();
    let usual = enum_config(&directory);
    let table = || [("23410", id("23410"))].into_iter().collect();
    let not_ported = Some(id("23430"));
    for (rules, ported, present) in [
        (
            RecordRules { routing_numbers: table(), not_ported, ..RecordRules::default() },
            network("23410"),
            network("23430"),
        ),
        (RecordRules { service_providers: table(), ..RecordRules::default() }, network("23410"), NO_DATA),
        (RecordRules::default(), Ok(LookupResult::OtherNetwork), NO_DATA),
    ] {
        let lookup = lookup(&directory, EnumConfig { rules, ..usual.clone() }, LONG_TIMEOUT);
        assert_eq!(look_up(&lookup, PORTED).await.0[0], ported);
        assert_eq!(look_up(&lookup, PRESENT).await.0[0], present);
    }
}

#[tokio::test]
async fn enum_errors_fall_back_to_hlr() {
    let directory = directory(RecordStyle::MccMnc, false).await;
    let long_timeout = enum_config(&directory);
    let short_timeout = EnumConfig { timeout: Duration::from_millis(50), ..long_timeout.clone() };
    for (fault, config, kind, expected_queries) in [
        (EnumFault::Refused, &long_timeout, LookupError::Refused, 2),
        (EnumFault::ServerFailure, &long_timeout, LookupError::Refused, 2),
        (EnumFault::NoResponse, &short_timeout, LookupError::Timeout, 2),
        (EnumFault::Delayed(Duration::from_hours(1)), &short_timeout, LookupError::Timeout, 2),
    ] {
        directory.set_fault(DirectoryFault::Enum(fault));
        let before = directory.counts();
        let lookup = lookup(&directory, config.clone(), LONG_TIMEOUT);
        assert_eq!(look_up(&lookup, PORTED).await, (vec![Err(kind), network("23410")], known("23410")), "{fault:?}");
        let (source_results, looked_up) = (
            directory.counts().udp_queries - before.udp_queries,
            directory.counts().hlr_requests - before.hlr_requests,
        );
        assert_eq!((source_results, looked_up), (expected_queries, 1), "{fault:?}");
    }

    // Truncated responses are repeated over TCP without a request to the HLR.
    directory.set_fault(DirectoryFault::Enum(EnumFault::Truncated));
    let before = directory.counts();
    let lookup = lookup(&directory, long_timeout, LONG_TIMEOUT);
    assert_eq!(look_up(&lookup, PORTED).await, (vec![network("23410")], known("23410")));
    assert_eq!(
        (directory.counts().tcp_queries, directory.counts().hlr_requests),
        (before.tcp_queries + 1, before.hlr_requests)
    );
}

#[tokio::test]
async fn lookup_is_unavailable_if_all_sources_fail() {
    let directory = directory(RecordStyle::MccMnc, false).await;
    directory.set_fault(DirectoryFault::Enum(EnumFault::ServerFailure));
    let short_timeout = Duration::from_millis(150);
    for (fault, hlr_timeout, kind) in [
        (HlrFault::InternalError, LONG_TIMEOUT, LookupError::Refused),
        (HlrFault::TooManyRequests { retry_after: 9 }, LONG_TIMEOUT, LookupError::Refused),
        (HlrFault::GarbledBody, LONG_TIMEOUT, LookupError::InvalidResponse),
        (HlrFault::Hang, short_timeout, LookupError::Timeout),
    ] {
        directory.set_fault(DirectoryFault::Hlr(fault));
        let lookup = lookup(&directory, enum_config(&directory), hlr_timeout);
        let outcomes = vec![Err(LookupError::Refused), Err(kind)];
        assert_eq!(look_up(&lookup, PORTED).await, (outcomes, Err(LookupUnavailable)), "{fault:?}");
    }
    // The lookup succeeds after the HLR has recovered.
    directory.clear_faults();
    directory.set_fault(DirectoryFault::Enum(EnumFault::ServerFailure));
    let lookup = lookup(&directory, enum_config(&directory), LONG_TIMEOUT);
    assert_eq!(look_up(&lookup, PORTED).await.1, known("23410"));
}

#[tokio::test]
async fn hlr_rejects_a_wrong_secret() {
    use ringtrue_engine::ports::lookups::LookupSource as _;

    let directory = directory(RecordStyle::MccMnc, false).await;
    let wrong_secret = vendor_configs::source(hlr(&directory, "Bearer another"), &fake_vendor::client());
    let number = Msisdn::parse(PORTED, Mode::Live).unwrap();
    assert_eq!(wrong_secret.resolve(&number).await, Err(LookupError::Refused));
    assert_eq!(directory.counts().unauthorized, 1);
}
