//! Steps of devices and of those who redeem their codes.

use ringtrue_domain::{
    lifecycle::{ErrorCode, Lifecycle, Outcome, Status},
    product::Product,
};
use ringtrue_engine::{
    Engine,
    ports::Reply,
    silent::{ChainEnd, ChainFault, CreateSilent, RedeemError, Return, Step, Visit, VisitError},
};

use super::Play;
use crate::{
    ledger::{Said, Subject},
    operator::{LOCATION, NAME, Operator},
    receivers::{HOSTS, Receivers},
};

const FAULTS: [ErrorCode; 3] = [ErrorCode::MnoTimeout, ErrorCode::MnoUserNotFound, ErrorCode::MnoServerError];
const MOST_WRONG_CODES: u32 = 3;
const DEVICE: [u8; 4] = [127, 0, 0, 1];

/// How a code was answered.
#[derive(Debug, PartialEq, Eq)]
enum Answer {
    Revealed,
    Wrong { left: u32 },
    NotReady,
    AlreadyCompleted,
    Expired,
}

impl Play {
    pub(super) fn silent(&mut self) {
        let is_new = self.chance.percent(25);
        match self.any_subject(Subject::has_device).filter(|_| !is_new) {
            None => self.create_silent(),
            Some(index) => {
                for _ in 0..=self.chance.below(4) {
                    self.a_step_of(index);
                    self.process().settle_down();
                }
            }
        }
    }

    /// Mostly the next one on the way.
    fn a_step_of(&mut self, index: usize) {
        let trip = self.subjects[index].trip();
        let next = match (&trip.code, trip.is_away) {
            (None, false) => 0,
            (None, true) => 1,
            (Some(_), _) => 2,
        };
        match if self.chance.percent(75) { next } else { self.chance.below(3) } {
            0 => self.a_device_comes(index),
            1 => self.a_device_is_back(index),
            _ => match self.chance.below(10) {
                0 | 1 => self.the_code_is_redeemed(index),
                2 => self.the_code_is_redeemed_thrice_during_a_sweep(index),
                3..7 => self.a_wrong_code_is_tried(index),
                _ => self.death_during_redemption(index),
            },
        }
    }

    fn create_silent(&mut self) {
        let product = self.chance.pick(&[Product::SecureSna, Product::Discovery]);
        let number = self.number();
        let host = self.chance.percent(85).then(|| self.chance.below(HOSTS));
        self.tell(&format!("{product} for {}, for {host:?}", number.as_str()));
        let request = CreateSilent {
            phone_number: (product == Product::SecureSna).then(|| number.as_str().to_owned()),
            callback_url: host.map(Receivers::url),
            ..CreateSilent::default()
        };
        let project = self.project.clone();
        let create = async |engine: &Engine| engine.create_silent(&project, product, request, None).await;
        let created = self.process().run(create).unwrap();
        self.subjects.push(Subject::silent(created, number, host.is_some()));
    }

    fn a_device_comes(&mut self, index: usize) {
        let fault = self.chance.percent(10).then(|| self.chance.pick(&FAULTS));
        self.tell(&format!("the device of check {index} comes, {fault:?}"));
        let over = self.is_over_for_devices(index);
        self.operator().says(fault.map_or(Ok(Reply::Match(true)), Err));
        let subject = self.subjects[index].clone();
        let visit = Visit {
            product: subject.product,
            check: subject.id,
            token: &subject.trip().token,
            sim: None,
            address: DEVICE.into(),
        };
        let step = self.process().run(async |engine| engine.visit(visit).await).unwrap();
        match (over, fault, step) {
            (Some(over), _, Step::End(end)) => assert_eq!(told(&end), Some(over)),
            (None, Some(code), Step::End(end)) => {
                assert_eq!(told(&end), Some(ChainFault::Failed(code)));
                self.ends_with(index, Outcome::Error(code));
            }
            (None, None, Step::Go(location)) => {
                let trip = self.subjects[index].trip_mut();
                trip.tickets.push(location.strip_prefix(LOCATION).unwrap().to_owned());
                trip.is_away = true;
            }
            (over, fault, step) => panic!("{over:?} {fault:?} {step:?}"),
        }
    }

    /// Mostly with the ticket that it was given last.
    fn a_device_is_back(&mut self, index: usize) {
        let subject = self.subjects[index].clone();
        let tickets = &subject.trip().tickets;
        let Some(newest) = tickets.len().checked_sub(1) else { return };
        let chosen = if self.chance.percent(75) { newest } else { self.chance.below(tickets.len()) };
        let is_good = chosen == newest && subject.trip().is_away;
        let fault = self.chance.percent(15).then(|| self.chance.pick(&FAULTS));
        let said =
            if subject.product == Product::Discovery { Said::TheNumber } else { Said::Match(self.chance.percent(70)) };
        self.tell(&format!("the device of check {index} is back with ticket {chosen}: {fault:?} {said:?}"));
        let over = self.is_over_for_devices(index);
        self.operator().says(match (fault, said) {
            (Some(code), _) => Err(code),
            (None, Said::Match(matched)) => Ok(Reply::Match(matched)),
            (None, _) => Ok(Reply::Number(subject.number.clone())),
        });
        let back = Return {
            connector: NAME,
            ticket: &tickets[chosen],
            peer: (DEVICE, 4711).into(),
            address: DEVICE.into(),
            query: &[],
            headers: &[],
        };
        let answer = self.process().run(async |engine| engine.come_back(back).await);
        match (over, answer) {
            (Some(over), Ok(end)) => assert_eq!(told(&end), Some(over)),
            (None, Err(VisitError::Ticket)) => assert!(!is_good),
            (None, Ok(end)) => {
                assert!(is_good, "a ticket was taken that is void");
                assert_eq!(told(&end), fault.map(ChainFault::Failed));
                let trip = self.subjects[index].trip_mut();
                trip.is_away = false;
                trip.code = end.result.ok().map(|code| (code.0, said));
                if let Some(code) = fault {
                    self.ends_with(index, Outcome::Error(code));
                }
            }
            (over, answer) => panic!("{over:?} {answer:?}"),
        }
    }

    /// What a device is told before anything else is looked at.
    fn is_over_for_devices(&mut self, index: usize) -> Option<ChainFault> {
        self.is_read(index);
        let subject = &self.subjects[index];
        match subject.end.map(|end| status(end.state)) {
            Some(Status::Expired) => Some(ChainFault::Expired),
            Some(_) => Some(ChainFault::AlreadyCompleted),
            None => subject.trip().code.as_ref().map(|_| ChainFault::AlreadyCompleted),
        }
    }

    fn the_code_is_redeemed(&mut self, index: usize) {
        let code = self.right_code(index);
        self.tell(&format!("the code of check {index} is redeemed"));
        let expected = self.is_redeemed(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    fn the_code_is_redeemed_thrice_during_a_sweep(&mut self, index: usize) {
        let code = self.right_code(index);
        self.tell(&format!("the code of check {index} is redeemed thrice during a sweep"));
        self.all_are_looked_at();
        let expected = self.is_redeemed(index, &code);
        let (project, Subject { id, product, .. }) = (self.project.id, &self.subjects[index]);
        let answers = self.process().run(async |engine| {
            let [one, two, three] = [(); 3].map(|()| engine.redeem(project, *product, *id, &code));
            let (swept, one, two, three) = tokio::join!(engine.sweep(), one, two, three);
            swept.unwrap();
            [one, two, three]
        });
        let revealed = answers.iter().filter(|answer| answer.is_ok()).count();
        assert_eq!(revealed, usize::from(expected == Answer::Revealed), "{answers:?}");
    }

    /// Something made up, or the code of another check.
    fn a_wrong_code_is_tried(&mut self, index: usize) {
        let code = self.wrong_code(index);
        self.tell(&format!("a wrong code is tried for check {index}"));
        let expected = self.is_redeemed(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    /// The caller was not answered, and asks again.
    fn death_during_redemption(&mut self, index: usize) {
        let is_right = self.chance.percent(50);
        let code = if is_right { self.right_code(index) } else { self.wrong_code(index) };
        let looks = self.chance.below(12);
        self.tell(&format!("death while a code of check {index} is redeemed, right: {is_right}"));
        let before = self.subjects[index].clone();
        let project = self.project.id;
        self.process().begin(looks, async |engine| engine.redeem(project, before.product, before.id, &code).await);
        self.revive();
        // How far it came is in the database; that it could come there, by the rules.
        let expected = self.is_redeemed(index, &code);
        let after = self.subjects[index].clone();
        self.subjects[index] = before.clone();
        if !matches!(self.state_of(&before), Lifecycle::Open(_)) {
            self.subjects[index] = after;
        } else if let Answer::Wrong { .. } = expected {
            let journey = self.process().run(async |engine| engine.store().journey(before.id).await).unwrap().unwrap();
            let counted = journey.progress.unwrap().wrong_codes;
            assert!([0, 1].map(|more| before.trip().wrong_codes + more).contains(&counted));
            self.subjects[index].trip_mut().wrong_codes = counted;
        }
        let expected = self.is_redeemed(index, &code);
        assert_eq!(self.redeem(index, &code), expected);
    }

    /// What comes of a code, by the rules alone.
    fn is_redeemed(&mut self, index: usize, code: &str) -> Answer {
        self.is_read(index);
        let subject = &mut self.subjects[index];
        if let Some(end) = subject.end {
            return if status(end.state) == Status::Expired { Answer::Expired } else { Answer::AlreadyCompleted };
        }
        let trip = subject.trip_mut();
        let Some((right, said)) = trip.code.clone() else { return Answer::NotReady };
        if trip.wrong_codes >= MOST_WRONG_CODES {
            self.ends_with(index, Outcome::Error(ErrorCode::CodeAttemptsExceeded));
            return Answer::AlreadyCompleted;
        }
        if code == right {
            self.ends_with(index, Outcome::Completed(said));
            return Answer::Revealed;
        }
        trip.wrong_codes += 1;
        let left = MOST_WRONG_CODES - trip.wrong_codes;
        if left == 0 {
            self.ends_with(index, Outcome::Error(ErrorCode::CodeAttemptsExceeded));
        }
        Answer::Wrong { left }
    }

    fn redeem(&self, index: usize, code: &str) -> Answer {
        let (project, Subject { id, product, .. }) = (self.project.id, &self.subjects[index]);
        match self.process().run(async |engine| engine.redeem(project, *product, *id, code).await) {
            Ok(check) => {
                assert_eq!(check.status(), Status::Completed);
                Answer::Revealed
            }
            Err(RedeemError::WrongCode { left }) => Answer::Wrong { left },
            Err(RedeemError::NotReady) => Answer::NotReady,
            Err(RedeemError::AlreadyCompleted { .. }) => Answer::AlreadyCompleted,
            Err(RedeemError::Expired) => Answer::Expired,
            Err(error @ RedeemError::Read(_)) => panic!("{error:?}"),
        }
    }

    fn right_code(&self, index: usize) -> String {
        self.subjects[index].trip().code.as_ref().map_or_else(|| "none yet".to_owned(), |(code, _)| code.clone())
    }

    fn wrong_code(&mut self, index: usize) -> String {
        let has_code = |subject: &Subject| subject.has_device() && subject.trip().code.is_some();
        let other = self.any_subject(has_code).filter(|other| *other != index);
        other.map_or_else(|| "made up".to_owned(), |other| self.right_code(other))
    }

    fn is_read(&mut self, index: usize) {
        let now = self.now();
        self.note_leases(&[index]);
        self.subjects[index].is_looked_at(now);
    }

    fn ends_with(&mut self, index: usize, outcome: Outcome<Said>) {
        let end = self.subjects[index].end_with(outcome, self.now());
        self.ends(index, end);
    }

    fn operator(&self) -> &Operator {
        &self.machine.surroundings.operator
    }
}

fn told(end: &ChainEnd) -> Option<ChainFault> {
    end.result.as_ref().err().copied()
}

fn status(state: Lifecycle<Said>) -> Status {
    match state {
        Lifecycle::Concluded { outcome, .. } => outcome.status(),
        Lifecycle::Open(_) => panic!("it is open"),
    }
}
