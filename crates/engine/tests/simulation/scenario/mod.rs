//! A scenario: performs random steps, and asserts all invariants after each.

mod assertions;
mod silent;

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{CheckOutcome, ErrorCode, Lifecycle},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, SmsSender},
    tenancy::{Mode, Project},
};
use ringtrue_engine::{
    checks::reverse_sms::CreateReverseSms,
    courier,
    ports::{
        callbacks::CallbackState,
        clock::{Clock, ManualClock},
        sms::{Inbox, SmsOutcome},
    },
};

use crate::{
    model::ModelCheck,
    process::{Environment, Machine, Process, START, Template},
    receivers::{FAILING_BEHAVIORS, HOSTS, ReceiverBehavior, Receivers},
    rng::{SeededEntropy, SeededRng},
};

/// Only a few numbers, so that checks of the same number interfere. The sandbox has no special behaviour for numbers
/// with these even endings.
const NUMBERS: [&str; 4] = ["+990123456700", "+990123456702", "+990123456704", "+990123456706"];
const TIGHT_LIMITS: courier::CourierLimits = courier::CourierLimits {
    concurrency: 4,
    unproven_concurrency: 2,
    poor_concurrency: 2,
    concurrency_per_destination: 2,
    queue: 6,
    queue_per_destination: 3,
};

pub struct Scenario {
    seed: u64,
    rng: SeededRng,
    machine: Machine,
    process: Option<Process>,
    project: Project,
    models: Vec<ModelCheck>,
    leased_at: BTreeSet<Timestamp>,
    steps: Vec<String>,
}

impl Scenario {
    pub fn new(seed: u64, template: &Template) -> Self {
        let mut rng = SeededRng::new(seed);
        let clock = Arc::new(ManualClock::at(START));
        let receivers = Arc::new(Receivers::new(Arc::clone(&clock)));
        let entropy = Arc::new(SeededEntropy::new(rng.next()));
        let limits = if rng.percent_chance(50) { TIGHT_LIMITS } else { courier::CourierLimits::default() };
        let operator = Arc::default();
        let machine = Machine::new(template, Environment { clock, entropy, receivers, operator, limits });
        let process = Some(machine.start_process());
        let project = template.project.clone();
        Scenario { seed, rng, machine, process, project, models: vec![], leased_at: BTreeSet::new(), steps: vec![] }
    }

    pub fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            self.assert_invariants();
        }
        self.run_to_completion();
    }

    fn step(&mut self) {
        match self.rng.below(100) {
            0..12 => self.create_reverse_sms(),
            12..29 => self.deliver_sms(),
            29..53 => self.step_silent(),
            53..65 => self.advance_clock(),
            65..72 => self.sweep(),
            72..82 => self.send_due_callbacks(),
            82..88 => self.change_receiver_behavior(),
            88..92 => self.read_check(),
            92..95 => self.respond_to_pending(),
            _ => self.crash(),
        }
    }

    fn create_reverse_sms(&mut self) {
        let number = self.number();
        let host = self.rng.percent_chance(85).then(|| self.rng.below(HOSTS));
        self.log_step(&format!("create a check for {}, receiver {host:?}", number.as_str()));
        let request = CreateReverseSms {
            phone_number: number.as_str().to_owned(),
            reference: None,
            callback_url: host.map(Receivers::url),
        };
        let project = self.project.clone();
        let created =
            self.process().run(async |engine| engine.checks.create_reverse_sms(&project, request, None).await);
        self.models.push(ModelCheck::new(created.unwrap(), number, host.is_some()));
    }

    fn deliver_sms(&mut self) {
        let Some(index) = self.pick_check(|model| !model.has_device()) else { return };
        let model = self.models[index].clone();
        let now = self.now();
        let from = if self.rng.percent_chance(60) { model.number.clone() } else { self.number() };
        let sms = model.sms(&from, now);
        match self.rng.below(10) {
            0 => self.deliver_unmatched_sms(InboundSms { text: "VERIFY 0000000000".to_owned(), ..sms }),
            1 => self.deliver_unmatched_sms(InboundSms { to: model.wrong_receiver(), ..sms }),
            2 => self.deliver_unattributed_sms(index, InboundSms { from: SmsSender::Unattributed, ..sms }),
            3 | 4 => self.deliver_sms_during_sweep(index, &from, sms),
            _ => self.deliver_sms_with_code(index, &from, sms),
        }
        self.process().run_until_idle();
    }

    fn deliver_unmatched_sms(&mut self, sms: InboundSms) {
        self.log_step("deliver an unmatched SMS");
        let outcome = self.process().run(async |engine| engine.checks.receive(sms).await).unwrap();
        assert_ne!(outcome, SmsOutcome::Concluded);
    }

    fn deliver_unattributed_sms(&mut self, index: usize, sms: InboundSms) {
        self.log_step(&format!("deliver an SMS to check {index}, sender withheld"));
        let end = self.models[index].expected_conclusion(CheckOutcome::Error(ErrorCode::InternalError), self.now());
        let outcome = self.process().run(async |engine| engine.checks.receive(sms).await).unwrap();
        let is_due =
            end.is_some_and(|end| matches!(end.state, Lifecycle::Concluded { outcome: CheckOutcome::Error(_), .. }));
        assert_eq!(outcome, if is_due { SmsOutcome::Concluded } else { SmsOutcome::TooLate });
        self.record_conclusion(index, end);
    }

    fn deliver_sms_with_code(&mut self, index: usize, from: &Msisdn, sms: InboundSms) {
        self.log_step(&format!("deliver an SMS to check {index} from {}", from.as_str()));
        let end = self.models[index].expected_conclusion_by_sms(from, self.now());
        let outcome = self.process().run(async |engine| engine.checks.receive(sms).await).unwrap();
        let is_due = end.is_some_and(|end| end.is_completed());
        assert_eq!(outcome, if is_due { SmsOutcome::Concluded } else { SmsOutcome::TooLate });
        self.record_conclusion(index, end);
    }

    /// Delivers the same SMS three times at once, while the sweep expires overdue checks.
    fn deliver_sms_during_sweep(&mut self, index: usize, from: &Msisdn, sms: InboundSms) {
        self.log_step(&format!("deliver an SMS to check {index} from {} three times during a sweep", from.as_str()));
        let end = self.models[index].expected_conclusion_by_sms(from, self.now());
        let outcomes = self.process().run(async |engine| {
            let [one, two, three] = [sms.clone(), sms.clone(), sms].map(|sms| engine.checks.receive(sms));
            let (swept, one, two, three) = tokio::join!(engine.checks.sweep(), one, two, three);
            swept.unwrap();
            [one.unwrap(), two.unwrap(), three.unwrap()]
        });
        let concluded = outcomes.iter().filter(|outcome| **outcome == SmsOutcome::Concluded).count();
        assert_eq!(concluded, usize::from(end.is_some_and(|end| end.is_completed())), "{outcomes:?}");
        self.record_conclusion(index, end);
        self.expire_overdue_checks();
    }

    fn advance_clock(&mut self) {
        let now = self.now();
        let next_deadline = self.models.iter().map(|model| model.expires_at).filter(|at| *at > now).min();
        let next_due = self.process().run(async |engine| engine.store().next_callback_due_at().await).unwrap();
        let until = match self.rng.below(8) {
            0 => next_deadline,
            1 => next_deadline.map(|at| at - SignedDuration::from_millis(1)),
            2..5 => next_due,
            5 => next_due.map(|at| at - SignedDuration::from_millis(1)),
            6 => Some(now + SignedDuration::from_secs(i64::try_from(self.rng.below(200)).unwrap())),
            _ => Some(now + SignedDuration::from_millis(i64::try_from(self.rng.below(15_000)).unwrap())),
        };
        if let Some(until) = until.filter(|until| *until > now) {
            self.log_step(&format!("advance the clock by {}", until.duration_since(now)));
            self.wait_until(until);
        }
    }

    /// Advances the clock to `until`. Callback requests that receivers leave hanging time out on the way.
    fn wait_until(&mut self, until: Timestamp) {
        let receivers = self.receivers();
        while let Some(end) = receivers.next_timeout().filter(|end| *end <= until) {
            self.clock().advance(end.duration_since(self.now()));
            receivers.time_out_requests();
            self.process().run_until_idle();
        }
        self.clock().advance(until.duration_since(self.now()));
    }

    fn sweep(&mut self) {
        self.log_step("sweep");
        self.process().run(async |engine| engine.checks.sweep().await).unwrap();
        self.expire_overdue_checks();
        self.process().run_until_idle();
    }

    fn send_due_callbacks(&mut self) {
        self.log_step("send due callbacks");
        self.leased_at.insert(self.now());
        self.process().run(async |engine| engine.courier().send_due().await).unwrap();
        self.process().run_until_idle();
        if self.machine.environment.limits != TIGHT_LIMITS && self.receivers().pending_count() == 0 {
            let next = self.process().run(async |engine| engine.store().next_callback_due_at().await).unwrap();
            assert!(next.is_none_or(|next| next > self.now()), "due callbacks were sent");
        }
    }

    fn change_receiver_behavior(&mut self) {
        let host = self.rng.below(HOSTS);
        let behavior = if self.rng.percent_chance(40) {
            ReceiverBehavior::Responds(200)
        } else {
            self.rng.pick(&FAILING_BEHAVIORS)
        };
        self.log_step(&format!("receiver {host}: {behavior:?}"));
        self.receivers().set_behavior(host, behavior);
    }

    fn respond_to_pending(&mut self) {
        let status = self.rng.pick(&[200, 200, 503]);
        self.log_step(&format!("respond to pending requests with {status}"));
        self.receivers().respond_to_all(status);
        self.process().run_until_idle();
    }

    fn read_check(&mut self) {
        let Some(index) = self.pick_check(|_| true) else { return };
        self.log_step(&format!("read check {index}"));
        let now = self.now();
        self.record_lease_time(&[index]);
        self.models[index].expire_if_overdue(now);
        let (project, ModelCheck { id, product, .. }) = (self.project.id, self.models[index].clone());
        let is_open = self.process().run(async |engine| match product {
            Product::ReverseSms => {
                matches!(engine.checks.reverse_sms_check(project, id).await.unwrap().state, Lifecycle::Open(_))
            }
            _ => matches!(engine.silent.silent_check(project, product, id).await.unwrap().state, Lifecycle::Open(_)),
        });
        assert_eq!(is_open, self.models[index].end.is_none());
        self.process().run_until_idle();
    }

    /// Kills the process during an operation, right after one, or while callback receivers have not responded yet.
    fn crash(&mut self) {
        let (now, polls) = (self.now(), self.rng.below(6));
        match (self.rng.below(4), self.pick_check(|model| !model.has_device())) {
            (0, Some(index)) => {
                self.log_step(&format!("crash while an SMS to check {index} is delivered"));
                let model = self.models[index].clone();
                let sms = model.sms(&model.number, now);
                let end = model.expected_conclusion_by_sms(&model.number, now);
                self.process().poll_partially(polls, async |engine| engine.checks.receive(sms).await);
                self.restart();
                let found = self.state_of(&model);
                if !matches!(found, Lifecycle::Open(_)) {
                    self.record_conclusion(index, end);
                }
                // The operator got no acknowledgement before the crash, so it sends the SMS again.
                self.deliver_sms_with_code(index, &model.number, model.sms(&model.number, now));
            }
            (1, Some(index)) => {
                self.log_step("crash right after an SMS");
                let model = self.models[index].clone();
                self.deliver_sms_with_code(index, &model.number, model.sms(&model.number, now));
                self.restart();
            }
            (2, _) => {
                self.log_step("crash while due callbacks are sent");
                self.leased_at.insert(now);
                self.process().poll_partially(polls * 8, async |engine| engine.courier().send_due().await);
                self.restart();
            }
            _ => {
                self.log_step("crash");
                self.restart();
            }
        }
        self.process().run_until_idle();
    }

    fn restart(&mut self) {
        self.process.take().unwrap().kill();
        self.process = Some(self.machine.start_process());
    }

    /// Advances the clock until all checks are concluded and all callbacks are delivered or given up. Some receivers
    /// keep failing until the end.
    fn run_to_completion(&mut self) {
        self.log_step("run to completion");
        for host in 0..HOSTS {
            let behavior = if self.rng.percent_chance(60) {
                ReceiverBehavior::Responds(200)
            } else {
                ReceiverBehavior::Unreachable
            };
            self.receivers().set_behavior(host, behavior);
        }
        self.respond_to_pending();
        loop {
            self.sweep();
            self.send_due_callbacks();
            self.assert_invariants();
            let due = self.process().run(async |engine| engine.store().next_callback_due_at().await).unwrap();
            let open = self.models.iter().filter(|model| model.end.is_none());
            let Some(next) = open.map(|model| model.expires_at).chain(due).min() else { break };
            let passed = next.duration_since(self.now()).max(SignedDuration::ZERO);
            self.clock().advance(passed);
        }
        for model in &self.models {
            let record = self.record_of(model);
            let is_done = record.map(|record| !matches!(record.state, CallbackState::Waiting { .. }));
            assert_eq!(is_done, model.has_callback.then_some(true), "{model:?}");
        }
    }

    fn record_conclusion(&mut self, index: usize, end: Option<crate::model::ModelConclusion>) {
        if let Some(end) = end {
            self.leased_at.insert(end.recorded_at);
            self.models[index].end.get_or_insert(end);
        }
    }

    fn expire_overdue_checks(&mut self) {
        let now = self.now();
        let all: Vec<_> = (0..self.models.len()).collect();
        self.record_lease_time(&all);
        for model in &mut self.models {
            model.expire_if_overdue(now);
        }
    }

    fn record_lease_time(&mut self, indices: &[usize]) {
        let now = self.now();
        if indices.iter().any(|index| self.models[*index].is_overdue(now)) {
            self.leased_at.insert(now);
        }
    }

    /// Picks a check that satisfies the predicate, preferably an open one.
    fn pick_check(&mut self, predicate: impl Fn(&ModelCheck) -> bool) -> Option<usize> {
        let matching = (0..self.models.len()).filter(|index| predicate(&self.models[*index]));
        let (open, ended): (Vec<_>, Vec<_>) = matching.partition(|index| self.models[*index].end.is_none());
        let pick_open = ended.is_empty() || (!open.is_empty() && self.rng.percent_chance(80));
        let from = if pick_open { open } else { ended };
        (!from.is_empty()).then(|| self.rng.pick(&from))
    }

    fn number(&mut self) -> Msisdn {
        Msisdn::parse(self.rng.pick(&NUMBERS), Mode::Sandbox).unwrap()
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("a running process")
    }

    fn receivers(&self) -> Arc<Receivers> {
        Arc::clone(&self.machine.environment.receivers)
    }

    fn clock(&self) -> &ManualClock {
        &self.machine.environment.clock
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn log_step(&mut self, step: &str) {
        self.steps.push(format!("{} {step}", self.now()));
    }
}

impl Drop for Scenario {
    #[expect(clippy::print_stderr, reason = "a failure report needs the steps and the seed")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nSIMULATION_SEED={}", self.steps.join("\n"), self.seed);
        }
    }
}
