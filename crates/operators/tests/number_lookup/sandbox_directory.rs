//! Both kinds of sources, one after the other, against the sandbox operator's directory. It knows nothing of us.

use std::{sync::Arc, time::Duration};

use http::{HeaderValue, header::AUTHORIZATION};
use ringtrue_domain::{
    network::{Network, NetworkDirectory},
    phone::Msisdn,
    tenancy::Mode,
};
use ringtrue_engine::{
    networks::Networks,
    number_lookup::{Known, NumberLookup, Prefixes, Sources, Unavailable},
    ports::{Resolved, SourceFault, SystemClock},
};
use ringtrue_operators::number_lookup::{
    EnumConfig,
    enum_dns::Reading,
    http_hlr::{Driver, GenericJson, NetworkPointers},
};
use ringtrue_sandbox::directory::{Directory, DirectoryConfig, EnumFault, Fault, HlrFault, RecordStyle};

use crate::{Outcome, dns, network, vendor, vendors};

const PRESENT: &str = "+447700900123";
const PORTED: &str = "+447700900124";
const ABSENT: &str = "+447700900125";
const UNKNOWN: &str = "+447700900126";

const NO_DATA: Outcome = Ok(Resolved::NoData);
const NOBODY: Outcome = Ok(Resolved::NoSubscriber);

async fn directory(records: RecordStyle, ported_only: bool) -> Directory {
    let subscribers = [
        "+447700900123 23430",
        "+447700900124 23410 ported-from 23430",
        "+447700900125 310012 absent",
        "+447700900126 23430 unknown",
    ];
    let subscribers = subscribers.iter().map(|text| text.parse().unwrap()).collect();
    let secret = Some("s3cret".to_owned());
    let config = DirectoryConfig { subscribers, secret, records, ported_only, ..DirectoryConfig::default() };
    Directory::start(config).await.unwrap()
}

fn enum_config(directory: &Directory) -> EnumConfig {
    dns::config(&[directory.dns_address().unwrap().port()])
}

fn hlr(directory: &Directory, secret: &'static str) -> Driver {
    let pointers = NetworkPointers::Separate { country: "/mcc".to_owned(), network: "/mnc".to_owned() };
    let url = format!("{}?number={{number}}", directory.hlr_url().unwrap());
    Driver::GenericJson(GenericJson {
        headers: [(AUTHORIZATION, HeaderValue::from_static(secret))].into_iter().collect(),
        state: Some("/status".to_owned()),
        absent_values: vec!["absent".to_owned()],
        invalid_values: vec!["unknown".to_owned()],
        ..GenericJson::new(url, pointers)
    })
}

/// ENUM first, and who is patient with the HLR for so long.
fn lookup(directory: &Directory, config: EnumConfig, patience: Duration) -> Arc<NumberLookup> {
    let first = Arc::new(dns::source(config));
    let second = Arc::new(vendors::source(hlr(directory, "Bearer s3cret"), &vendor::with_patience(patience)));
    let networks = Networks::default();
    let ids = ["23410", "23430", "310012"];
    networks.replace(NetworkDirectory::new(ids.map(configured).into(), vec![], vec![]).unwrap());
    let lookup = NumberLookup::new(Arc::new(networks), Arc::new(SystemClock), 100);
    let deadline = Duration::from_mins(2);
    lookup.replace(Sources { prefixes: Prefixes::Fallback, sources: vec![first, second], deadline });
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

/// What each of the two says, as far as it is asked, and what comes of it.
async fn said(lookup: &NumberLookup, number: &str) -> (Vec<Outcome>, Result<Known, Unavailable>) {
    let report = lookup.ask(&Msisdn::parse(number, Mode::Live).unwrap()).await;
    let asked = report.asked.into_iter().filter(|asked| asked.source != "prefixes").map(|asked| asked.said);
    (asked.collect(), report.answer)
}

fn known(id: &str) -> Result<Known, Unavailable> {
    id.parse().map(Known::Network).map_err(|_| Unavailable)
}

const PATIENT: Duration = Duration::from_mins(1);

#[tokio::test]
async fn ported_and_absent_subscribers_have_networks_and_unknown_ones_do_not() {
    let directory = directory(RecordStyle::Codes, false).await;
    let lookup = lookup(&directory, enum_config(&directory), PATIENT);
    for (number, outcomes, answer) in [
        (PRESENT, vec![network("23430")], known("23430")),
        (PORTED, vec![network("23410")], known("23410")),
        (ABSENT, vec![network("310012")], known("310012")),
        (UNKNOWN, vec![NO_DATA, NOBODY], Ok(Known::NoSubscriber)),
        ("+447700900199", vec![NO_DATA, NOBODY], Ok(Known::NoSubscriber)),
    ] {
        assert_eq!(said(&lookup, number).await, (outcomes, answer), "{number}");
    }
    let counts = directory.counts();
    assert_eq!((counts.by_datagram, counts.over_tcp, counts.lookups, counts.without_secret), (5, 0, 2, 0));
}

#[tokio::test]
async fn a_database_of_ported_numbers_leaves_the_others_to_the_hlr() {
    let directory = directory(RecordStyle::Codes, true).await;
    let lookup = lookup(&directory, enum_config(&directory), PATIENT);
    for (number, outcomes, answer) in [
        (PRESENT, vec![NO_DATA, network("23430")], known("23430")),
        (PORTED, vec![network("23410")], known("23410")),
        (ABSENT, vec![NO_DATA, network("310012")], known("310012")),
        (UNKNOWN, vec![NO_DATA, NOBODY], Ok(Known::NoSubscriber)),
    ] {
        assert_eq!(said(&lookup, number).await, (outcomes, answer), "{number}");
    }
}

#[tokio::test]
async fn routing_numbers_are_read_by_tables() {
    let directory = directory(RecordStyle::RoutingNumber, false).await;
    let id = |text: &str| text.parse().unwrap();
    let usual = enum_config(&directory);
    let table = || [("23410", id("23410"))].into_iter().collect();
    let not_ported = Some(id("23430"));
    for (reading, ported, present) in [
        (Reading { routing_numbers: table(), not_ported, ..Reading::default() }, network("23410"), network("23430")),
        (Reading { service_providers: table(), ..Reading::default() }, network("23410"), NO_DATA),
        (Reading::default(), Ok(Resolved::OtherNetwork), NO_DATA),
    ] {
        let lookup = lookup(&directory, EnumConfig { reading, ..usual.clone() }, PATIENT);
        assert_eq!(said(&lookup, PORTED).await.0[0], ported);
        assert_eq!(said(&lookup, PRESENT).await.0[0], present);
    }
}

#[tokio::test]
async fn every_fault_of_enum_leads_to_the_hlr() {
    let directory = directory(RecordStyle::Codes, false).await;
    let patient = enum_config(&directory);
    let impatient = EnumConfig { timeout: Duration::from_millis(50), ..patient.clone() };
    for (fault, config, kind, questions) in [
        (EnumFault::Refused, &patient, SourceFault::Refused, 2),
        (EnumFault::ServerFailure, &patient, SourceFault::Refused, 2),
        (EnumFault::Silent, &impatient, SourceFault::Timeout, 2),
        (EnumFault::Late(Duration::from_hours(1)), &impatient, SourceFault::Timeout, 2),
    ] {
        directory.set_fault(Fault::Enum(fault));
        let before = directory.counts();
        let lookup = lookup(&directory, config.clone(), PATIENT);
        assert_eq!(said(&lookup, PORTED).await, (vec![Err(kind), network("23410")], known("23410")), "{fault:?}");
        let (asked, looked_up) =
            (directory.counts().by_datagram - before.by_datagram, directory.counts().lookups - before.lookups);
        assert_eq!((asked, looked_up), (questions, 1), "{fault:?}");
    }

    // What does not fit into a datagram comes over TCP, and the HLR is not needed.
    directory.set_fault(Fault::Enum(EnumFault::Truncated));
    let before = directory.counts();
    let lookup = lookup(&directory, patient, PATIENT);
    assert_eq!(said(&lookup, PORTED).await, (vec![network("23410")], known("23410")));
    assert_eq!((directory.counts().over_tcp, directory.counts().lookups), (before.over_tcp + 1, before.lookups));
}

#[tokio::test]
async fn when_the_hlr_fails_too_nobody_can_tell() {
    let directory = directory(RecordStyle::Codes, false).await;
    directory.set_fault(Fault::Enum(EnumFault::ServerFailure));
    let impatient = Duration::from_millis(150);
    for (fault, patience, kind) in [
        (HlrFault::InternalError, PATIENT, SourceFault::Refused),
        (HlrFault::TooManyRequests { retry_after: 9 }, PATIENT, SourceFault::Refused),
        (HlrFault::Garbage, PATIENT, SourceFault::Nonsense),
        (HlrFault::Hang, impatient, SourceFault::Timeout),
    ] {
        directory.set_fault(Fault::Hlr(fault));
        let lookup = lookup(&directory, enum_config(&directory), patience);
        let outcomes = vec![Err(SourceFault::Refused), Err(kind)];
        assert_eq!(said(&lookup, PORTED).await, (outcomes, Err(Unavailable)), "{fault:?}");
    }
    // And when it works again, they can.
    directory.recover();
    directory.set_fault(Fault::Enum(EnumFault::ServerFailure));
    let lookup = lookup(&directory, enum_config(&directory), PATIENT);
    assert_eq!(said(&lookup, PORTED).await.1, known("23410"));
}

#[tokio::test]
async fn the_hlr_takes_nobody_without_the_secret() {
    use ringtrue_engine::ports::NumberSource as _;

    let directory = directory(RecordStyle::Codes, false).await;
    let stranger = vendors::source(hlr(&directory, "Bearer another"), &vendor::client());
    let number = Msisdn::parse(PORTED, Mode::Live).unwrap();
    assert_eq!(stranger.resolve(&number).await, Err(SourceFault::Refused));
    assert_eq!(directory.counts().without_secret, 1);
}
