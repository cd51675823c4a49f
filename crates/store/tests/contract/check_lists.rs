use std::{collections::BTreeMap, fmt::Write as _};

use futures_util::future::join_all;
use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{AnyVerdict, Check},
    product::Product,
    reverse_sms::{HashedSender, ReverseSmsCheck, SEARCH_FIELDS, SmsEnvironment},
    search::{Field, FieldKind, FieldTest, Filter, InstantTest, SetTest, TextTest, parse},
    tenancy::{ProjectId, WorkspaceId},
};
use ringtrue_engine::ports::{
    activity::{UsageFilter, UsagePeriod},
    checks::CreateCheckOutcome,
    combined::Store,
    store::StoreError,
};

use crate::{check_sample, fixture::StoreFixture, sample};

/// A generator of pseudo-random numbers. The same seed gives the same numbers.
pub struct Random(pub u64);

impl Random {
    fn below(&mut self, bound: u64) -> u64 {
        self.0 = self.0.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407);
        (self.0 >> 33) % bound
    }

    fn pick<T: Copy>(&mut self, from: &[T]) -> T {
        from[usize::try_from(self.below(from.len() as u64)).unwrap()]
    }

    /// Returns a random time within a few days around the end of a month, often at the boundary of an hour or day.
    fn instant(&mut self) -> Timestamp {
        let start: Timestamp = "2026-10-31T10:00:00Z".parse().unwrap();
        let hours = i64::try_from(self.below(60)).unwrap();
        let millis = if self.below(4) == 0 { self.pick(&[0, 1, 3_599_999]) } else { self.below(3_600_000) };
        start + SignedDuration::from_hours(hours) + SignedDuration::from_millis(millis.try_into().unwrap())
    }

    fn filter(&mut self) -> String {
        let mut text = String::new();
        let depth = self.below(4);
        for part in 0..=depth {
            if part > 0 {
                text.push(if self.below(8) == 0 { ',' } else { ';' });
            }
            self.comparison(&mut text);
        }
        text
    }

    fn comparison(&mut self, out: &mut String) {
        let (either, list) = (self.pick(&["==", "!="]), self.pick(&["=in=", "=out="]));
        match self.below(9) {
            0 => write!(out, "status{either}{}", self.pick(&["ACCEPTED", "PENDING", "COMPLETED", "EXPIRED", "ERROR"])),
            1 => write!(out, "status{list}(COMPLETED,ERROR)"),
            2 => write!(out, "verified{either}{}", self.pick(&["true", "false"])),
            3 => write!(out, "network_id{either}{}", self.pick(&["23410", "310004", "*", "310*", "99999"])),
            4 => write!(out, "reference_id{either}{}", self.pick(&["a", "*", "b*"])),
            5 => write!(out, "error_code{either}internal_error"),
            6 => write!(out, "updated_at{}{}", self.pick(&["<", ">="]), self.instant()),
            _ => {
                let at = self.instant() + SignedDuration::from_micros(self.pick(&[0, 0, 1, 999]));
                write!(out, "created_at{}{at}", self.pick(&["==", "<", "<=", ">", ">="]))
            }
        }
        .unwrap();
    }
}

/// Stores checks in all states, created over several days. Returns them newest first.
pub async fn checks(store: &dyn Store, project: ProjectId, random: &mut Random, number: usize) -> Vec<ReverseSmsCheck> {
    let mut checks: Vec<_> = (0..number)
        .map(|_| Check {
            network: random.pick(&[None, Some("23410"), Some("310004")]).map(|network| network.parse().unwrap()),
            reference: random.pick(&[None, Some("a"), Some("bc")]).map(|reference| reference.parse().unwrap()),
            ..check_sample::check(project, random.instant())
        })
        .collect();
    let stored = join_all(checks.iter().map(|check| store.create_check(check_sample::new(check.clone())))).await;
    assert!(stored.into_iter().all(|result| result.unwrap() == CreateCheckOutcome::Created));
    let mut conclusions = Vec::new();
    for check in &mut checks {
        if random.below(3) == 0 {
            let (number, at) = (check.claimed.unwrap().hash, check.created_at + SignedDuration::from_secs(1));
            let marked = store
                .mark_pending(SmsEnvironment::Operator, number, &check_sample::receiver(), "acme", at)
                .await
                .unwrap();
            assert_eq!(marked.len(), 1);
            *check = check_sample::find(store, check).await;
        }
        let at = check.created_at + SignedDuration::from_secs(2);
        let concluded = match random.below(5) {
            0 => continue,
            1 => check.clone().expire().unwrap(),
            2 => check.clone().evaluate_sms(HashedSender::Unattributed, at).unwrap(),
            3 => check_sample::received(check, true),
            _ => check_sample::received(check, false),
        };
        let (conclusion, concluded) = check_sample::conclusion(concluded);
        *check = concluded;
        conclusions.push(conclusion);
    }
    // Each check is concluded twice: the second conclusion must not change a counter.
    join_all(
        conclusions
            .iter()
            .cycle()
            .take(conclusions.len() * 2)
            .map(|conclusion| store.conclude(conclusion.clone(), None)),
    )
    .await;
    checks.sort_unstable_by_key(|check| std::cmp::Reverse(check.id));
    checks
}

pub async fn project(store: &dyn Store) -> (WorkspaceId, ProjectId) {
    let acme = sample::stored_workspace(store).await;
    (acme.id, sample::stored_project(store, acme.id, "Shop").await.0.id)
}

pub async fn counters_match_the_checks(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (acme, shop) = project(store).await;
    let mut expected = BTreeMap::<_, i64>::new();
    for check in checks(store, shop, &mut Random(1), 150).await {
        let hour = check.created_at.as_second() / 3_600;
        let network = check.network.as_ref().map(ToString::to_string);
        let matched = check.verdict().map(|verdict| verdict.0);
        *expected.entry((hour, check.status(), matched, network)).or_default() += 1;
    }
    let all = UsageFilter {
        from: "2026-01-01T00:00:00Z".parse().unwrap(),
        to: "2027-01-01T00:00:00Z".parse().unwrap(),
        period: UsagePeriod::Hour,
        project: Some(shop),
    };
    let counted: BTreeMap<_, _> = store
        .usage(acme, all)
        .await
        .unwrap()
        .into_iter()
        .map(|row| {
            let network = row.network.map(|network| network.to_string());
            ((row.period_start.as_second() / 3_600, row.status, row.matched, network), row.count)
        })
        .collect();
    assert_eq!(counted, expected);
}

pub async fn lists_match_an_evaluation_in_memory(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let (_, shop) = project(store).await;
    let mut random = Random(7);
    let stored = checks(store, shop, &mut random, 120).await;
    checks(store, ProjectId(sample::uuid()), &mut random, 20).await;
    assert_lists_match(store, shop, &stored, &mut random, 120).await;
}

/// Lists checks with random filters, and compares the pages and totals with `stored`, which is sorted newest first.
pub async fn assert_lists_match(
    store: &dyn Store,
    shop: ProjectId,
    stored: &[ReverseSmsCheck],
    random: &mut Random,
    rounds: usize,
) {
    for round in 0..rounds {
        let text = if round == 0 { String::new() } else { random.filter() };
        let filter =
            (round > 0).then(|| parse(&text, &SEARCH_FIELDS).unwrap_or_else(|error| panic!("{text}: {error}")));
        let expected: Vec<_> =
            stored.iter().filter(|check| filter.as_ref().is_none_or(|filter| holds(filter, check))).collect();
        let size = random.pick(&[1, 3, 10, 100]);
        let last = expected.len() / usize::try_from(size).unwrap() + 1;
        for number in [1, 2, u32::try_from(last).unwrap().div_ceil(2), u32::try_from(last).unwrap(), i32::MAX as u32] {
            let page = sample::page(size, number);
            let listed = check_sample::list(store, shop, Product::ReverseSms, filter.clone(), page).await.unwrap();
            assert_eq!(listed.total_items, expected.len() as u64, "{text}");
            let offset = usize::try_from(page.offset()).unwrap();
            let expected_items: Vec<_> = expected
                .iter()
                .skip(offset)
                .take(size as usize)
                .map(|check| (*check).clone().map(AnyVerdict::from))
                .collect();
            assert_eq!(listed.items, expected_items, "{text} {page:?}");
        }
    }
}

pub async fn unknown_filter_field_is_rejected(fixture: &StoreFixture) {
    static UNKNOWN: [Field; 1] = [Field { name: "colour", kind: FieldKind::Boolean }];
    let filter = parse("colour==true", &UNKNOWN).unwrap();
    let (store, shop) = (&*fixture.store, ProjectId(sample::uuid()));
    let refused = check_sample::list(store, shop, Product::ReverseSms, Some(filter), sample::first_100()).await;
    assert!(matches!(refused, Err(StoreError::Refused(_))), "{refused:?}");
}

fn holds(filter: &Filter, check: &ReverseSmsCheck) -> bool {
    match filter {
        Filter::And(parts) => parts.iter().all(|part| holds(part, check)),
        Filter::Or(parts) => parts.iter().any(|part| holds(part, check)),
        Filter::Comparison { field, test } => match (field.name, test) {
            ("status", FieldTest::Keyword(choice)) => among(choice, Some(&check.status().into_str())),
            ("verified", FieldTest::Boolean(choice)) => among(choice, check.verdict().map(|verdict| &verdict.0)),
            ("network_id", FieldTest::Text(test)) => text(test, check.network.as_ref().map(ToString::to_string)),
            ("reference_id", FieldTest::Text(test)) => {
                text(test, check.reference.as_ref().map(|text| text.as_str().to_owned()))
            }
            ("error_code", FieldTest::Text(test)) => text(test, check.error_code().map(|code| code.to_string())),
            ("created_at", FieldTest::Instant(test)) => instant(test, Some(check.created_at)),
            ("updated_at", FieldTest::Instant(test)) => instant(test, check.updated_at()),
            other => panic!("{other:?}"),
        },
    }
}

fn among<T: PartialEq>(choice: &SetTest<T>, value: Option<&T>) -> bool {
    match choice {
        SetTest::OneOf(values) => value.is_some_and(|value| values.contains(value)),
        SetTest::NoneOf(values) => value.is_none_or(|value| !values.contains(value)),
    }
}

fn text(test: &TextTest, value: Option<String>) -> bool {
    match test {
        TextTest::Set(choice) => among(choice, value.as_ref()),
        TextTest::Matches(pattern) => value.is_some_and(|value| crate::filters::matches_pattern(&value, pattern)),
        TextTest::DiffersFrom(pattern) => value.is_none_or(|value| !crate::filters::matches_pattern(&value, pattern)),
        TextTest::Before(bound) => value.is_some_and(|value| value < *bound),
        TextTest::NotAfter(bound) => value.is_some_and(|value| value <= *bound),
        TextTest::After(bound) => value.is_some_and(|value| value > *bound),
        TextTest::NotBefore(bound) => value.is_some_and(|value| value >= *bound),
    }
}

fn instant(test: &InstantTest, value: Option<Timestamp>) -> bool {
    match test {
        InstantTest::Set(choice) => among(choice, value.as_ref()),
        InstantTest::Before(at) => value.is_some_and(|value| value < *at),
        InstantTest::NotAfter(at) => value.is_some_and(|value| value <= *at),
        InstantTest::After(at) => value.is_some_and(|value| value > *at),
        InstantTest::NotBefore(at) => value.is_some_and(|value| value >= *at),
    }
}
