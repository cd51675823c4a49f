//! Randomised simulation of verifications on two nodes. Requests from devices and SMS arrive twice, steps reach their
//! deadline, and both nodes crash from time to time. Every verification must end once, with one callback, and no step
//! may begin twice.

use std::{collections::BTreeMap, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{AnyCheck, AnyVerdict, CheckId, ErrorCode, Lifecycle},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsEnvironment, SmsSender},
    tenancy::{Mode, Project, WorkspaceId},
    verification::{Method, StepState},
};
use ringtrue_engine::{
    Engine, courier,
    ports::{
        callbacks::CallbackState,
        checks::CheckQuery,
        clock::{Clock, ManualClock},
        search_limit::SearchLimiter,
        silent::SilentResult,
        sms::Inbox,
        store::{Completeness, TenantLookup},
        verifications::VerificationRecord,
    },
    silent::{DeviceRequest, DeviceReturn, NextStep},
    verifications::{CreateVerification, StepInstructions},
};
use strum::VariantArray as _;

use crate::{
    operator::{LOCATION, NAME},
    process::{Environment, Machine, Process, START, Template},
    receivers::{HOSTS, ReceiverBehavior, Receivers},
    rng::{SeededEntropy, SeededRng},
};

const NUMBERS: [&str; 3] = ["+990123456700", "+990123456702", "+990123456704"];
const DEVICE: [u8; 4] = [127, 0, 0, 1];
/// Possible results of the operator. Each step of the scenario picks one at random.
const OPERATOR_RESULTS: [Result<SilentResult, ErrorCode>; 4] = [
    Ok(SilentResult::Match(true)),
    Ok(SilentResult::Match(true)),
    Ok(SilentResult::Match(false)),
    Err(ErrorCode::MnoServerError),
];

/// What the client and the end-user know about a verification.
#[derive(Clone, Debug)]
struct Known {
    id: CheckId,
    number: Msisdn,
    has_callback: bool,
    states: Vec<String>,
    codes: Vec<String>,
    /// The conclusion, as it was first read from the store. `None`: not concluded yet.
    end: Option<Lifecycle<AnyVerdict>>,
}

/// A request from the API client, a device or the operator, or a run of the task that expires overdue checks (sweep).
#[derive(Clone, Debug)]
enum Action {
    Open(CheckId, String),
    Return(String),
    Redeem(CheckId, String),
    Sms(InboundSms),
    GiveUp(CheckId),
    Sweep,
}

pub struct VerificationScenario {
    seed: u64,
    rng: SeededRng,
    machine: Machine,
    process: Option<Process>,
    /// The second node, on the same database.
    other: Option<Engine>,
    project: Project,
    known: Vec<Known>,
    log: Vec<String>,
}

impl VerificationScenario {
    pub fn new(seed: u64, template: &Template) -> Self {
        let mut rng = SeededRng::new(seed ^ 0x0076_6572_6966_7900);
        let clock = Arc::new(ManualClock::at(START));
        let receivers = Arc::new(Receivers::new(Arc::clone(&clock)));
        for host in 0..HOSTS {
            receivers.set_behavior(host, ReceiverBehavior::Responds(200));
        }
        let entropy = Arc::new(SeededEntropy::new(rng.next()));
        let (operator, limits) = (Arc::default(), courier::CourierLimits::default());
        let machine = Machine::new(template, Environment { clock, entropy, receivers, operator, limits });
        let mut project = template.project.clone();
        project.products = Product::VARIANTS.to_vec();
        let mut scenario = VerificationScenario {
            seed,
            rng,
            machine,
            process: None,
            other: None,
            project,
            known: vec![],
            log: vec![],
        };
        scenario.start();
        scenario
    }

    fn start(&mut self) {
        let process = self.machine.start_process();
        self.other = Some(self.machine.start_node(&process));
        self.process = Some(process);
    }

    fn crash(&mut self) {
        self.log.push("crash".to_owned());
        drop(self.other.take());
        self.process.take().unwrap().kill();
        self.start();
    }

    pub fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            self.assert_invariants();
        }
        // Each round advances the clock by more than the lifetime of a verification with its SIM Swap request, and of a
        // callback's lease. After these rounds, all verifications and callback attempts have ended.
        for _ in 0..8 {
            self.clock().advance(SignedDuration::from_secs(700));
            self.perform(&[Action::Sweep, Action::Sweep]);
            self.process().run(async |engine| engine.courier().send_due().await).unwrap();
            self.wait_until_idle();
        }
        self.assert_invariants();
        for known in &self.known {
            assert!(known.end.is_some(), "{known:?}");
            let record =
                self.process().run(async |engine| engine.store().find_callback(self.project.id, known.id).await);
            match record.unwrap() {
                TenantLookup::Found(record) => {
                    assert!(known.has_callback);
                    assert_eq!(record.state, CallbackState::Delivered, "{known:?}");
                }
                _ => assert!(!known.has_callback, "{known:?}"),
            }
        }
    }

    fn step(&mut self) {
        let result = self.rng.pick(&[0, 1, 2, 3]);
        self.machine.environment.operator.set_default_result(OPERATOR_RESULTS[result].clone());
        match self.rng.below(100) {
            0..18 => self.create(),
            18..22 => self.crash(),
            22..34 => self.advance_clock(),
            _ => {
                let Some(action) = self.pick_action() else { return };
                match self.rng.below(10) {
                    0 => {
                        self.log.push(format!("{} crash during {action:?}", self.now()));
                        let polls = self.rng.below(12);
                        let project = self.project.clone();
                        self.process().poll_partially(polls, async |engine| perform(engine, &project, action).await);
                        self.crash();
                    }
                    1..5 => self.perform(&[action.clone(), action]),
                    5..8 => match self.pick_action() {
                        Some(other) => self.perform(&[action, other, Action::Sweep]),
                        None => self.perform(&[action]),
                    },
                    _ => self.perform(&[action]),
                }
            }
        }
        self.wait_until_idle();
    }

    fn create(&mut self) {
        let number = Msisdn::parse(self.rng.pick(&NUMBERS), Mode::Sandbox).unwrap();
        let host = self.rng.percent_chance(80).then(|| self.rng.below(HOSTS));
        let methods = match self.rng.below(4) {
            0 => Some(vec![Method::ReverseSms, Method::SecureSna]),
            1 => Some(vec![self.rng.pick(Method::VARIANTS)]),
            _ => None,
        };
        self.log.push(format!("{} create for {}, {methods:?}", self.now(), number.as_str()));
        let request = CreateVerification {
            phone_number: number.as_str().to_owned(),
            methods,
            callback_url: host.map(Receivers::url),
            sim_swap_period: self.rng.percent_chance(30).then(|| 60.try_into()),
            ..CreateVerification::default()
        };
        self.project.configuration.verification.fall_back_on_mismatch = self.rng.percent_chance(50);
        let project = self.project.clone();
        let create = async |engine: &Engine| engine.verifications.create(&project, request, None).await;
        let created = self.process().run(create).unwrap();
        self.known.push(Known {
            id: created.check.id,
            number,
            has_callback: host.is_some(),
            states: vec![],
            codes: vec![],
            end: None,
        });
    }

    /// Picks a random action, preferably one that an open verification waits for.
    fn pick_action(&mut self) -> Option<Action> {
        let open: Vec<_> = (0..self.known.len()).filter(|index| self.known[*index].end.is_none()).collect();
        let index = if open.is_empty() || self.rng.percent_chance(10) {
            self.rng.below(self.known.len().max(1))
        } else {
            self.rng.pick(&open)
        };
        let known = self.known.get(index)?.clone();
        let project = self.project.id;
        let current = self.process().run(async |engine| engine.verifications.read(project, known.id).await).unwrap();
        self.wait_until_idle();
        let (codes, states) = (known.codes.len(), known.states.len());
        match (current.next_step, self.rng.below(8)) {
            (_, 0) => Some(Action::GiveUp(known.id)),
            (_, 1) => Some(Action::Sweep),
            (_, 2 | 3) if codes > 0 => Some(Action::Redeem(known.id, known.codes[self.rng.below(codes)].clone())),
            (_, 2..6) if states > 0 => Some(Action::Return(known.states[self.rng.below(states)].clone())),
            (Some(StepInstructions::SecureSna { url, .. }), _) => {
                let (_, step) = current.progress.open_step()?;
                Some(Action::Open(step, url.split_once("?t=")?.1.to_owned()))
            }
            (Some(StepInstructions::ReverseSms { receiver, sms_body }), _) => {
                let from = if self.rng.percent_chance(70) { known.number.as_str() } else { self.rng.pick(&NUMBERS) };
                Some(Action::Sms(InboundSms {
                    environment: SmsEnvironment::Sandbox(project),
                    connector: "sandbox".into(),
                    from: SmsSender::Number(Msisdn::parse(from, Mode::Sandbox).unwrap()),
                    to: receiver,
                    text: sms_body,
                    received_at: self.now(),
                }))
            }
            (None, _) => Some(Action::Sweep),
        }
    }

    /// Performs actions concurrently, alternating between the two nodes.
    fn perform(&mut self, actions: &[Action]) {
        self.log.push(format!("{} {actions:?}", self.now()));
        let (project, other) = (&self.project, self.other.as_ref().unwrap());
        let effects = self.process().run(async |engine| {
            let on_nodes = actions
                .iter()
                .enumerate()
                .map(|(index, action)| perform(if index % 2 == 0 { engine } else { other }, project, action.clone()));
            futures_util::future::join_all(on_nodes).await
        });
        for (check, state, code) in effects.into_iter().flatten() {
            let owner = self.owner_of(check);
            if let Some(known) = self.known.iter_mut().find(|known| known.id == owner) {
                known.states.extend(state);
                known.codes.extend(code);
            }
        }
    }

    /// Returns the verification that a step belongs to.
    fn owner_of(&self, step: CheckId) -> CheckId {
        let project = self.project.id;
        let find = async |engine: &Engine| engine.store().find_check(project, Product::SecureSna, step).await;
        match self.process().run(find).unwrap() {
            TenantLookup::Found(check) => check.verification.expect("a step"),
            other => panic!("{other:?}"),
        }
    }

    fn advance_clock(&mut self) {
        let now = self.now();
        let next = (0..700).find_map(|second| {
            let at = now + SignedDuration::from_secs(second);
            let overdue = self
                .process()
                .run(async |engine| engine.store().overdue_checks(at, 1, Completeness::All).await)
                .unwrap();
            overdue.first().map(|check| self.deadline_of(check))
        });
        let until = match (next, self.rng.below(4)) {
            (Some(next), 0 | 1) => next,
            (Some(next), 2) => next - SignedDuration::from_millis(1),
            _ => now + SignedDuration::from_secs(i64::try_from(self.rng.below(60)).unwrap()),
        };
        self.clock().advance(until.duration_since(now).max(SignedDuration::ZERO));
    }

    /// Returns the deadline of a verification, which is that of its current step.
    fn deadline_of(&self, check: &AnyCheck) -> Timestamp {
        let record = self.record(check.id);
        let Some((product, step)) = record.progress.open_step() else { return check.expires_at };
        let project = self.project.id;
        match self.process().run(async |engine| engine.store().find_check(project, product, step).await).unwrap() {
            TenantLookup::Found(step) => step.expires_at,
            // The check of an open SIM Swap step is not stored yet.
            _ => check.expires_at,
        }
    }

    fn assert_invariants(&mut self) {
        let mut stored = BTreeMap::<Product, u64>::new();
        for index in 0..self.known.len() {
            let record = self.record(self.known[index].id);
            for product in [Product::SecureSna, Product::ReverseSms, Product::SimSwap] {
                let steps: Vec<_> = record.progress.steps.iter().filter(|step| step.product == product).collect();
                // After a mismatch, the end-user may send a second SMS, which is a second step.
                let is_second_text = product == Product::ReverseSms
                    && steps.len() == 2
                    && steps[0].state == StepState::Completed { matched: false };
                assert!(steps.len() <= 1 || is_second_text, "{record:?}");
            }
            let open = record.progress.steps.iter().filter(|step| step.state == StepState::Open).count();
            let is_open = matches!(record.check.state, Lifecycle::Open(_));
            assert_eq!(open, usize::from(is_open), "an open verification has one open step: {record:?}");
            assert_eq!(record.input.is_some(), is_open);
            self.assert_steps(&record, &mut stored);
            if !is_open {
                let end = self.known[index].end.get_or_insert_with(|| record.check.state.clone());
                assert_eq!(*end, record.check.state, "a verification ends once");
            }
        }
        // Every stored check is a step of a verification.
        for product in [Product::SecureSna, Product::ReverseSms, Product::SimSwap] {
            assert_eq!(self.total(product), stored.get(&product).copied().unwrap_or_default(), "{product}");
        }
        assert_eq!(self.total(Product::Verification), self.known.len() as u64);
        let mut bodies = BTreeMap::<String, Vec<u8>>::new();
        for post in self.machine.environment.receivers.posts() {
            let first = bodies.entry(post.check.clone()).or_insert_with(|| post.body.clone());
            assert_eq!(*first, post.body, "all attempts of a callback are the same");
            assert!(
                self.known.iter().any(|known| known.id.to_string() == post.check),
                "only verifications have callbacks"
            );
        }
    }

    fn assert_steps(&self, record: &VerificationRecord, stored: &mut BTreeMap<Product, u64>) {
        for step in &record.progress.steps {
            let Some(id) = step.check else { continue };
            let find = async |engine: &Engine| engine.store().find_check(self.project.id, step.product, id).await;
            let found = self.process().run(find).unwrap();
            let TenantLookup::Found(check) = found else {
                // A SIM Swap check is stored only when the operator has answered.
                assert!(step.product == Product::SimSwap && !matches!(step.state, StepState::Completed { .. }));
                continue;
            };
            *stored.entry(step.product).or_default() += 1;
            assert_eq!(check.verification, Some(record.check.id));
            assert_eq!(matches!(check.state, Lifecycle::Open(_)), step.state == StepState::Open, "{record:?}");
            assert_eq!(check.error_code(), step.state.error_code());
            assert!(check.expires_at <= record.check.expires_at || step.state != StepState::Open);
        }
    }

    fn total(&self, product: Product) -> u64 {
        let query = CheckQuery {
            workspace: WorkspaceId(self.project.id.0),
            project: self.project.id,
            product,
            filter: None,
            created_after: None,
            page: ringtrue_domain::page::PageRequest::new(1, 1).unwrap(),
        };
        let list = async |engine: &Engine| engine.store().list_checks(query, &SearchLimiter::default()).await;
        self.process().run(list).unwrap().total_items
    }

    fn record(&self, id: CheckId) -> VerificationRecord {
        self.process().run(async |engine| engine.store().find_verification(id).await).unwrap().expect("a verification")
    }

    fn wait_until_idle(&self) {
        let other = self.other.as_ref().unwrap();
        self.process().run(async |engine| {
            engine.verifications.wait_until_idle().await;
            other.verifications.wait_until_idle().await;
            engine.courier().wait_until_idle().await;
            other.courier().wait_until_idle().await;
        });
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("a running process")
    }

    fn clock(&self) -> &ManualClock {
        &self.machine.environment.clock
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }
}

/// Performs an action on a node. For a request from a device, returns the check, and the `state` or the code that the
/// device got.
async fn perform(
    engine: &Engine,
    project: &Project,
    action: Action,
) -> Option<(CheckId, Option<String>, Option<String>)> {
    match action {
        Action::Open(check, token) => {
            let (product, address) = (Product::SecureSna, DEVICE.into());
            let request = DeviceRequest { product, check, token: &token, sim: None, address };
            match engine.silent.open_device_url(request).await.unwrap() {
                NextStep::Redirect(location) => {
                    Some((check, location.strip_prefix(LOCATION).map(ToOwned::to_owned), None))
                }
                NextStep::Finish(_) => None,
            }
        }
        Action::Return(state) => {
            let (address, peer) = (DEVICE.into(), "127.0.0.1:4711".parse().unwrap());
            let returned = DeviceReturn { connector: NAME, state: &state, peer, address, query: &[], headers: &[] };
            let outcome = engine.silent.handle_authorization_response(returned, &[]).await.ok()?;
            Some((outcome.check, None, outcome.result.ok().map(|code| code.0)))
        }
        Action::Redeem(id, code) => {
            // Errors are expected: a code may be late, belong to another step, or be redeemed already.
            drop(engine.verifications.redeem(project.id, id, &code).await);
            None
        }
        Action::Sms(sms) => {
            engine.checks.receive(sms).await.unwrap();
            None
        }
        Action::GiveUp(id) => {
            drop(engine.verifications.give_up_step(project.id, id, None, engine.clock().now(), None).await);
            None
        }
        Action::Sweep => {
            engine.checks.sweep().await.unwrap();
            None
        }
    }
}

impl Drop for VerificationScenario {
    #[expect(clippy::print_stderr, reason = "a failure report needs the steps and the seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nSIMULATION_SEED={}", self.log.join("\n"), self.seed);
        }
    }
}
