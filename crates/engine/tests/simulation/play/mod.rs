//! The play: steps that chance picks, and what must hold after each.

mod look;
mod silent;

use std::{collections::BTreeSet, sync::Arc};

use jiff::{SignedDuration, Timestamp};
use ringtrue_domain::{
    lifecycle::{ErrorCode, Lifecycle, Outcome},
    phone::Msisdn,
    product::Product,
    reverse_sms::{InboundSms, Sender},
    tenancy::{Mode, Project},
};
use ringtrue_engine::{
    callback,
    ports::{CallbackState, Clock, Disposition, Inbox, ManualClock},
    reverse_sms::CreateReverseSms,
};

use crate::{
    chance::{Chance, SeededEntropy},
    ledger::Subject,
    process::{BEGINNING, Machine, Process, Surroundings, Template},
    receivers::{BAD_MOODS, HOSTS, Mood, Receivers},
};

/// Few people, so that they get into each other's way. Even numbers: the simulation's own, not the sandbox's.
const NUMBERS: [&str; 4] = ["+990123456700", "+990123456702", "+990123456704", "+990123456706"];
/// Limits that are soon reached.
const TIGHT: callback::Limits = callback::Limits {
    in_flight: 4,
    unproven_in_flight: 2,
    poor_in_flight: 2,
    per_destination: 2,
    queued: 6,
    queued_per_destination: 3,
};

pub struct Play {
    seed: u64,
    chance: Chance,
    machine: Machine,
    process: Option<Process>,
    project: Project,
    subjects: Vec<Subject>,
    leased_at: BTreeSet<Timestamp>,
    story: Vec<String>,
}

impl Play {
    pub fn new(seed: u64, template: &Template) -> Self {
        let mut chance = Chance::new(seed);
        let clock = Arc::new(ManualClock::at(BEGINNING));
        let receivers = Arc::new(Receivers::new(Arc::clone(&clock)));
        let entropy = Arc::new(SeededEntropy::new(chance.next()));
        let limits = if chance.percent(50) { TIGHT } else { callback::Limits::default() };
        let operator = Arc::default();
        let machine = Machine::new(template, Surroundings { clock, entropy, receivers, operator, limits });
        let process = Some(machine.boot());
        let project = template.project.clone();
        Play { seed, chance, machine, process, project, subjects: vec![], leased_at: BTreeSet::new(), story: vec![] }
    }

    pub fn run(mut self, steps: usize) {
        for _ in 0..steps {
            self.step();
            self.look();
        }
        self.bring_to_an_end();
    }

    fn step(&mut self) {
        match self.chance.below(100) {
            0..12 => self.create(),
            12..29 => self.sms(),
            29..53 => self.silent(),
            53..65 => self.time_passes(),
            65..72 => self.sweep(),
            72..82 => self.tick(),
            82..88 => self.a_receiver_changes(),
            88..92 => self.someone_reads(),
            92..95 => self.receivers_let_go(),
            _ => self.crash(),
        }
    }

    fn create(&mut self) {
        let number = self.number();
        let host = self.chance.percent(85).then(|| self.chance.below(HOSTS));
        self.tell(&format!("{} is asked about, for {host:?}", number.as_str()));
        let request = CreateReverseSms {
            phone_number: number.as_str().to_owned(),
            reference: None,
            callback_url: host.map(Receivers::url),
        };
        let project = self.project.clone();
        let created = self.process().run(async |engine| engine.create_reverse_sms(&project, request, None).await);
        self.subjects.push(Subject::new(created.unwrap(), number, host.is_some()));
    }

    fn sms(&mut self) {
        let Some(index) = self.any_subject(|subject| !subject.has_device()) else { return };
        let subject = self.subjects[index].clone();
        let now = self.now();
        let from = if self.chance.percent(60) { subject.number.clone() } else { self.number() };
        let sms = subject.sms(&from, now);
        match self.chance.below(10) {
            0 => self.useless_sms(InboundSms { text: "VERIFY 0000000000".to_owned(), ..sms }),
            1 => self.useless_sms(InboundSms { to: subject.wrong_receiver(), ..sms }),
            2 => self.unattributed_sms(index, InboundSms { from: Sender::Unattributed, ..sms }),
            3 | 4 => self.sms_and_sweep(index, &from, sms),
            _ => self.good_sms(index, &from, sms),
        }
        self.process().settle_down();
    }

    fn useless_sms(&mut self, sms: InboundSms) {
        self.tell("an SMS ends nothing");
        let disposition = self.process().run(async |engine| engine.receive(sms).await).unwrap();
        assert_ne!(disposition, Disposition::Concluded);
    }

    fn unattributed_sms(&mut self, index: usize, sms: InboundSms) {
        self.tell(&format!("check {index} hears from a sender that is withheld"));
        let end = self.subjects[index].end_with(Outcome::Error(ErrorCode::InternalError), self.now());
        let disposition = self.process().run(async |engine| engine.receive(sms).await).unwrap();
        let is_due =
            end.is_some_and(|end| matches!(end.state, Lifecycle::Concluded { outcome: Outcome::Error(_), .. }));
        assert_eq!(disposition, if is_due { Disposition::Concluded } else { Disposition::TooLate });
        self.ends(index, end);
    }

    fn good_sms(&mut self, index: usize, from: &Msisdn, sms: InboundSms) {
        self.tell(&format!("check {index} hears from {}", from.as_str()));
        let end = self.subjects[index].end_by(from, self.now());
        let disposition = self.process().run(async |engine| engine.receive(sms).await).unwrap();
        let is_due = end.is_some_and(|end| end.is_in_time());
        assert_eq!(disposition, if is_due { Disposition::Concluded } else { Disposition::TooLate });
        self.ends(index, end);
    }

    /// The same SMS three times, and the sweeper, at once.
    fn sms_and_sweep(&mut self, index: usize, from: &Msisdn, sms: InboundSms) {
        self.tell(&format!("check {index} hears from {} thrice during a sweep", from.as_str()));
        let end = self.subjects[index].end_by(from, self.now());
        let dispositions = self.process().run(async |engine| {
            let [one, two, three] = [sms.clone(), sms.clone(), sms].map(|sms| engine.receive(sms));
            let (swept, one, two, three) = tokio::join!(engine.sweep(), one, two, three);
            swept.unwrap();
            [one.unwrap(), two.unwrap(), three.unwrap()]
        });
        let concluded = dispositions.iter().filter(|disposition| **disposition == Disposition::Concluded).count();
        assert_eq!(concluded, usize::from(end.is_some_and(|end| end.is_in_time())), "{dispositions:?}");
        self.ends(index, end);
        self.all_are_looked_at();
    }

    fn time_passes(&mut self) {
        let now = self.now();
        let next_deadline = self.subjects.iter().map(|subject| subject.expires_at).filter(|at| *at > now).min();
        let next_due = self.process().run(async |engine| engine.store().next_due().await).unwrap();
        let until = match self.chance.below(8) {
            0 => next_deadline,
            1 => next_deadline.map(|at| at - SignedDuration::from_millis(1)),
            2..5 => next_due,
            5 => next_due.map(|at| at - SignedDuration::from_millis(1)),
            6 => Some(now + SignedDuration::from_secs(i64::try_from(self.chance.below(200)).unwrap())),
            _ => Some(now + SignedDuration::from_millis(i64::try_from(self.chance.below(15_000)).unwrap())),
        };
        if let Some(until) = until.filter(|until| *until > now) {
            self.tell(&format!("{} pass", until.duration_since(now)));
            self.wait_until(until);
        }
    }

    /// Nobody waits for an answer for longer than an attempt may take.
    fn wait_until(&mut self, until: Timestamp) {
        let receivers = self.receivers();
        while let Some(end) = receivers.patience_ends().filter(|end| *end <= until) {
            self.clock().advance(end.duration_since(self.now()));
            receivers.run_out_of_patience();
            self.process().settle_down();
        }
        self.clock().advance(until.duration_since(self.now()));
    }

    fn sweep(&mut self) {
        self.tell("the sweeper comes");
        self.process().run(async |engine| engine.sweep().await).unwrap();
        self.all_are_looked_at();
        self.process().settle_down();
    }

    fn tick(&mut self) {
        self.tell("the courier looks");
        self.leased_at.insert(self.now());
        self.process().run(async |engine| engine.courier().tick().await).unwrap();
        self.process().settle_down();
        if self.machine.surroundings.limits != TIGHT && self.receivers().hung() == 0 {
            let next = self.process().run(async |engine| engine.store().next_due().await).unwrap();
            assert!(next.is_none_or(|next| next > self.now()), "what is due is sent when it is due");
        }
    }

    fn a_receiver_changes(&mut self) {
        let host = self.chance.below(HOSTS);
        let mood = if self.chance.percent(40) { Mood::Answers(200) } else { self.chance.pick(&BAD_MOODS) };
        self.tell(&format!("receiver {host}: {mood:?}"));
        self.receivers().becomes(host, mood);
    }

    fn receivers_let_go(&mut self) {
        let status = self.chance.pick(&[200, 200, 503]);
        self.tell(&format!("who waits is answered {status}"));
        self.receivers().let_go(status);
        self.process().settle_down();
    }

    fn someone_reads(&mut self) {
        let Some(index) = self.any_subject(|_| true) else { return };
        self.tell(&format!("check {index} is read"));
        let now = self.now();
        self.note_leases(&[index]);
        self.subjects[index].is_looked_at(now);
        let (project, Subject { id, product, .. }) = (self.project.id, self.subjects[index].clone());
        let is_open = self.process().run(async |engine| match product {
            Product::ReverseSms => matches!(engine.reverse_sms(project, id).await.unwrap().state, Lifecycle::Open(_)),
            _ => matches!(engine.silent_check(project, product, id).await.unwrap().state, Lifecycle::Open(_)),
        });
        assert_eq!(is_open, self.subjects[index].end.is_none());
        self.process().settle_down();
    }

    /// The process dies: in the middle of something, just after it, or while it waits for an answer.
    fn crash(&mut self) {
        let (now, looks) = (self.now(), self.chance.below(6));
        match (self.chance.below(4), self.any_subject(|subject| !subject.has_device())) {
            (0, Some(index)) => {
                self.tell(&format!("death while check {index} hears from its number"));
                let subject = self.subjects[index].clone();
                let sms = subject.sms(&subject.number, now);
                let end = subject.end_by(&subject.number, now);
                self.process().begin(looks, async |engine| engine.receive(sms).await);
                self.revive();
                let found = self.state_of(&subject);
                if !matches!(found, Lifecycle::Open(_)) {
                    self.ends(index, end);
                }
                // The operator was not answered, and sends it again.
                self.good_sms(index, &subject.number, subject.sms(&subject.number, now));
            }
            (1, Some(index)) => {
                self.tell("death right after an SMS");
                let subject = self.subjects[index].clone();
                self.good_sms(index, &subject.number, subject.sms(&subject.number, now));
                self.revive();
            }
            (2, _) => {
                self.tell("death while the courier looks");
                self.leased_at.insert(now);
                self.process().begin(looks * 8, async |engine| engine.courier().tick().await);
                self.revive();
            }
            _ => {
                self.tell("death");
                self.revive();
            }
        }
        self.process().settle_down();
    }

    fn revive(&mut self) {
        self.process.take().unwrap().die();
        self.process = Some(self.machine.boot());
    }

    /// Time goes on until there is nothing left to do; some receivers never recover.
    fn bring_to_an_end(&mut self) {
        self.tell("the end");
        for host in 0..HOSTS {
            let mood = if self.chance.percent(60) { Mood::Answers(200) } else { Mood::IsDown };
            self.receivers().becomes(host, mood);
        }
        self.receivers_let_go();
        loop {
            self.sweep();
            self.tick();
            self.look();
            let due = self.process().run(async |engine| engine.store().next_due().await).unwrap();
            let open = self.subjects.iter().filter(|subject| subject.end.is_none());
            let Some(next) = open.map(|subject| subject.expires_at).chain(due).min() else { break };
            let passed = next.duration_since(self.now()).max(SignedDuration::ZERO);
            self.clock().advance(passed);
        }
        for subject in &self.subjects {
            let record = self.record_of(subject);
            let is_done = record.map(|record| !matches!(record.state, CallbackState::Waiting { .. }));
            assert_eq!(is_done, subject.has_callback.then_some(true), "{subject:?}");
        }
    }

    fn ends(&mut self, index: usize, end: Option<crate::ledger::End>) {
        if let Some(end) = end {
            self.leased_at.insert(end.recorded_at);
            self.subjects[index].end.get_or_insert(end);
        }
    }

    fn all_are_looked_at(&mut self) {
        let now = self.now();
        let all: Vec<_> = (0..self.subjects.len()).collect();
        self.note_leases(&all);
        for subject in &mut self.subjects {
            subject.is_looked_at(now);
        }
    }

    fn note_leases(&mut self, looked_at: &[usize]) {
        let now = self.now();
        if looked_at.iter().any(|index| self.subjects[*index].is_overdue(now)) {
            self.leased_at.insert(now);
        }
    }

    /// One of these, and rather one that is open.
    fn any_subject(&mut self, is_one: impl Fn(&Subject) -> bool) -> Option<usize> {
        let some = (0..self.subjects.len()).filter(|index| is_one(&self.subjects[*index]));
        let (open, ended): (Vec<_>, Vec<_>) = some.partition(|index| self.subjects[*index].end.is_none());
        let is_open_one = ended.is_empty() || (!open.is_empty() && self.chance.percent(80));
        let from = if is_open_one { open } else { ended };
        (!from.is_empty()).then(|| self.chance.pick(&from))
    }

    fn number(&mut self) -> Msisdn {
        Msisdn::parse(self.chance.pick(&NUMBERS), Mode::Sandbox).unwrap()
    }

    fn process(&self) -> &Process {
        self.process.as_ref().expect("it is alive")
    }

    fn receivers(&self) -> Arc<Receivers> {
        Arc::clone(&self.machine.surroundings.receivers)
    }

    fn clock(&self) -> &ManualClock {
        &self.machine.surroundings.clock
    }

    fn now(&self) -> Timestamp {
        self.clock().now()
    }

    fn tell(&mut self, what: &str) {
        self.story.push(format!("{} {what}", self.now()));
    }
}

impl Drop for Play {
    #[expect(clippy::print_stderr, reason = "whoever reads of the failure needs the story, and the seed to repeat it")]
    fn drop(&mut self) {
        if std::thread::panicking() {
            eprintln!("{}\nSIMULATION_SEED={}", self.story.join("\n"), self.seed);
        }
    }
}
