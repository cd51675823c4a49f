//! The way of the device: it opens the check's URL, is sent to its operator, comes back with a ticket, and leaves with a
//! code.
//!
//! A fault on the way ends the check at once. What the operator says is kept sealed: the code reveals it.

use std::{
    fmt,
    net::{IpAddr, SocketAddr},
    sync::Arc,
    time::Duration,
};

use ringtrue_domain::{
    lifecycle::{CheckId, ErrorCode, Lifecycle, Reference, Status},
    network::{Located, NetworkId},
    phone::{Msisdn, NotE164},
    product::Product,
    sandbox::{self, TestAddress},
    silent::{Sighting, SilentCheck},
    tenancy::{Mode, Project},
    web_url::RedirectUrl,
};
use tokio::time::timeout;

use super::secrets::{Brief, Leg};
use crate::{
    Engine,
    activity::Activity,
    checks::{narrowed, pass_gates, whole_millis},
    ports::{Arrival, Decision, Departure, JourneyRecord, Question, Recorded, Reply, SetOut, SilentRoute, StoreError},
    rate_limit::{Standing, subscriber},
};

/// How long an operator may take for its part. A device waits no longer, and what comes after would reach nobody.
const PATIENCE: Duration = Duration::from_secs(15);

/// A device that opens a check's URL.
#[derive(Clone, Copy)]
pub struct Visit<'a> {
    pub product: Product,
    pub check: CheckId,
    pub token: &'a str,
    /// The simulated SIM that it is to have, in a sandbox.
    pub sim: Option<&'a str>,
    pub address: IpAddr,
}

impl fmt::Debug for Visit<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Visit").field("check", &self.check).finish_non_exhaustive()
    }
}

/// A device that is back from its operator.
#[derive(Clone, Copy)]
pub struct Return<'a> {
    /// The connector that it came back to.
    pub connector: &'a str,
    pub ticket: &'a str,
    pub peer: SocketAddr,
    pub address: IpAddr,
    pub query: &'a [(String, String)],
    pub headers: &'a [(String, Vec<u8>)],
}

impl fmt::Debug for Return<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Return").field("connector", &self.connector).finish_non_exhaustive()
    }
}

/// What the device does next.
#[derive(Debug)]
pub enum Step {
    /// It goes to its operator: an absolute URL, not for logs.
    Go(String),
    End(ChainEnd),
}

/// The end of the chain, as far as the device is concerned.
#[derive(Debug)]
pub struct ChainEnd {
    pub check: CheckId,
    pub reference: Option<Reference>,
    /// Where the device is sent. `None`: it is answered in person.
    pub redirect_url: Option<RedirectUrl>,
    pub result: Result<RedirectCode, ChainFault>,
    /// Whether the user can be verified by Reverse SMS instead.
    pub falls_back: bool,
}

/// What the caller redeems. Masked.
pub struct RedirectCode(pub String);

impl fmt::Debug for RedirectCode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("RedirectCode(…)")
    }
}

/// Why the device gets no code.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ChainFault {
    /// The check has just ended with this.
    Failed(ErrorCode),
    Expired,
    /// The check had ended before, or a code has been given out.
    AlreadyCompleted,
}

/// Why there is nothing to tell the device.
#[derive(Debug, thiserror::Error)]
pub enum VisitError {
    #[error("there is no such check, or the URL is not the one that its creation gave")]
    NotFound,
    #[error("`sim`: {0}")]
    Sim(#[from] NotE164),
    #[error("this return is not expected: its ticket is unknown, used, or replaced by a newer one")]
    Ticket,
    #[error("too many returns with a `state` that was used before, from this address")]
    TooManyReplays { retry_after: u32 },
    #[error(transparent)]
    Store(#[from] StoreError),
}

/// The network that a device is on, and how its operator is asked.
struct Way {
    network: NetworkId,
    route: Arc<dyn SilentRoute>,
    /// The simulated SIM, in a sandbox.
    sim: Option<Msisdn>,
}

impl Engine {
    /// A device opens a check's URL.
    pub async fn visit(&self, visit: Visit<'_>) -> Result<Step, VisitError> {
        if !self.is_device_token(visit.check, visit.token)? {
            return Err(VisitError::NotFound);
        }
        let record = self.store().journey(visit.check).await?;
        let record = record.filter(|record| record.check.product == visit.product).ok_or(VisitError::NotFound)?;
        let (check, brief) = match self.undecided(record).await? {
            Ok(undecided) => undecided,
            Err(end) => return Ok(Step::End(end)),
        };
        if self.has_left_sandbox(check.project, check.mode) {
            return self.failed(check, ErrorCode::InternalError).await.map(Step::End);
        }
        let sim = visit.sim.filter(|_| check.mode == Mode::Sandbox);
        let sim = sim.map(|sim| Msisdn::parse(sim, Mode::Sandbox)).transpose()?;
        match self.send_out(&check, &brief, sim, visit.address).await? {
            Ok(Some(location)) => Ok(Step::Go(location)),
            Ok(None) => self.ended_meanwhile(check.id).await.map(Step::End),
            Err(code) => self.failed(check, code).await.map(Step::End),
        }
    }

    /// A check whose operator has not spoken, or the end that the device is told of.
    async fn undecided(&self, record: JourneyRecord) -> Result<Result<(SilentCheck, Brief), ChainEnd>, StoreError> {
        let JourneyRecord { check, progress } = record;
        if check.is_overdue(self.clock().now()) {
            self.expire(check.clone()).await?;
            return Ok(Err(self.end_of(&narrowed(check)?, Err(ChainFault::Expired))));
        }
        let check: SilentCheck = narrowed(check)?;
        match progress {
            Some(progress) if progress.decision.is_none() => {
                let brief = self.open_brief(check.id, check.mode, &progress.brief)?;
                Ok(Ok((check, brief)))
            }
            _ => Ok(Err(self.end_of(&check, Err(fault_of(&check))))),
        }
    }

    /// Sends a device to its operator. `None`: the check has ended meanwhile, or its time is up.
    async fn send_out(
        &self,
        check: &SilentCheck,
        brief: &Brief,
        sim: Option<Msisdn>,
        device: IpAddr,
    ) -> Result<Result<Option<String>, ErrorCode>, StoreError> {
        let Way { network, route, sim } = match self.way_for(check, brief, sim, device) {
            Ok(way) => way,
            Err(code) => return Ok(Err(code)),
        };
        let now = whole_millis(self.clock().now());
        let (ticket, hash) = self.ticket(check.id)?;
        let question = question(brief);
        let departure = Departure { check: check.id, question, ticket: &ticket, sim: sim.as_ref(), device, now };
        let journey = timeout(PATIENCE, route.depart(departure)).await.unwrap_or(Err(ErrorCode::MnoTimeout));
        let journey = match journey {
            Ok(journey) => journey,
            Err(code) => return Ok(Err(code)),
        };
        if check.is_overdue(self.clock().now()) {
            return Ok(Ok(None));
        }
        let leg = self.seal_leg(check.id, &Leg::new(route.name(), device, &journey.memory))?;
        let step = SetOut { check: check.id, network: network.clone(), ticket: hash, leg, at: now };
        if !self.store().set_out(step).await? {
            return Ok(Ok(None));
        }
        self.activity().set_out(check, &network);
        Ok(Ok(Some(journey.location)))
    }

    /// The device's network, and the connector that asks its operator.
    fn way_for(
        &self,
        check: &SilentCheck,
        brief: &Brief,
        sim: Option<Msisdn>,
        device: IpAddr,
    ) -> Result<Way, ErrorCode> {
        if check.mode == Mode::Sandbox {
            judge_simulated(brief.announced, device)?;
            let network = sandbox::NETWORK_ID.parse().map_err(|_| ErrorCode::InternalError)?;
            let route = self.networks().simulated_route().ok_or(ErrorCode::MnoRedirectUnsupported)?;
            let sim = sim.or_else(|| brief.number.clone());
            return Ok(Way { network, route, sim });
        }
        let located = self.networks().locate(device);
        let claimed = brief.number.as_ref().and(check.network.as_ref());
        let sighting = Sighting { address: device, located: &located, announced: brief.announced, claimed };
        let of_both = |claimed: &NetworkId, device: &NetworkId| {
            self.networks().silent_route_of_both(claimed, device, check.product)
        };
        let network = sighting.network(|claimed, device| of_both(claimed, device).is_some())?;
        let is_allowed = |project: &Project| pass_gates(project, check.product, &network, true).is_ok();
        // The gate was passed for the number's network when the check was made; a discovered device passes it here.
        if brief.number.is_none() && !self.control_plane().project_has(check.project, is_allowed) {
            return Err(ErrorCode::MnoNotSupported);
        }
        let route = match claimed {
            Some(claimed) => of_both(claimed, &network),
            None => self.networks().silent_route(&network, check.product),
        };
        let route = route.ok_or(ErrorCode::MnoRedirectUnsupported)?;
        // The network of a number is the one that serves it, whichever it is reached through.
        Ok(Way { network: claimed.cloned().unwrap_or(network), route, sim: None })
    }

    /// Whether a device that is back may be the one that left. Who was sent its way by somebody else comes from
    /// elsewhere; one and the same device may have another address of its network at each request.
    fn may_be_the_same(&self, check: &SilentCheck, brief: &Brief, left: IpAddr, back: IpAddr) -> bool {
        if check.mode == Mode::Sandbox || subscriber(left) == subscriber(back) {
            return true;
        }
        let located = self.networks().locate(back);
        brief.announced.is_none() && matches!(located, Located::Mobile(_)) && located == self.networks().locate(left)
    }

    /// A device is back from its operator.
    pub async fn come_back(&self, back: Return<'_>) -> Result<ChainEnd, VisitError> {
        let id = self.check_of_ticket(back.ticket)?.ok_or(VisitError::Ticket)?;
        let route = self.networks().route_named(back.connector).ok_or(VisitError::Ticket)?;
        let metered = self.limiter().device_return(back.ticket, back.address, self.clock().now());
        if let Some(Standing { admitted: false, reset, .. }) = metered {
            return Err(VisitError::TooManyReplays { retry_after: reset });
        }
        let Some(came_back) = self.store().come_back(id, self.ticket_hash(id, back.ticket)?).await? else {
            return self.without_ticket(id).await;
        };
        let (check, brief) = match self.undecided(came_back.record).await? {
            Ok(undecided) => undecided,
            Err(end) => return Ok(end),
        };
        if self.has_left_sandbox(check.project, check.mode) {
            return self.failed(check, ErrorCode::InternalError).await;
        }
        let leg = self.open_leg(id, &came_back.leg)?;
        if leg.connector != back.connector {
            return Err(VisitError::Ticket);
        }
        if !self.may_be_the_same(&check, &brief, leg.departed_from, back.address) {
            return self.failed(check, ErrorCode::IpMismatch).await;
        }
        let arrival = Arrival {
            check: id,
            question: question(&brief),
            memory: &leg.memory(),
            departed_from: leg.departed_from,
            peer: back.peer,
            device: back.address,
            query: back.query,
            headers: back.headers,
            now: self.clock().now(),
        };
        let reply = timeout(PATIENCE, route.arrive(arrival)).await.unwrap_or(Err(ErrorCode::MnoTimeout));
        let reply = match (reply, &brief.number) {
            (Ok(reply @ Reply::Match(_)), Some(_)) | (Ok(reply @ Reply::Number(_)), None) => reply,
            // An answer to another question.
            (Ok(_), _) => return self.failed(check, ErrorCode::MnoResponseError).await,
            (Err(code), _) => return self.failed(check, code).await,
        };
        let (code, hash) = self.redirect_code(id)?;
        let decision = Decision { code: hash, proof: self.seal_reply(id, &reply)? };
        if check.is_overdue(self.clock().now()) || !self.store().decide(id, decision).await? {
            return self.ended_meanwhile(id).await;
        }
        Ok(self.end_of(&check, Ok(RedirectCode(code))))
    }

    /// A device whose ticket is no good may have been told of its end already.
    async fn without_ticket(&self, check: CheckId) -> Result<ChainEnd, VisitError> {
        let record = self.store().journey(check).await?.ok_or(VisitError::NotFound)?;
        match self.undecided(record).await? {
            Ok(_) => Err(VisitError::Ticket),
            Err(end) => Ok(end),
        }
    }

    /// Ends the check with a fault, unless it has ended.
    async fn failed(&self, check: SilentCheck, code: ErrorCode) -> Result<ChainEnd, VisitError> {
        tracing::info!(check = %check.id, product = %check.product, code = %code, "a silent check fails");
        let at = whole_millis(self.clock().now());
        if let Ok(concluded) = check.clone().fail(code, at) {
            let is_in_time = concluded.check().status() != Status::Expired;
            let fault = if is_in_time { ChainFault::Failed(code) } else { ChainFault::Expired };
            if let Recorded::Now { was_pending } = self.conclude(concluded).await? {
                if !was_pending {
                    self.activity().seen(Activity::place_of(&check));
                }
                return Ok(self.end_of(&check, Err(fault)));
            }
        }
        self.ended_meanwhile(check.id).await
    }

    /// The check's time was up, or someone else has ended it or decided it, while the device was on its way.
    async fn ended_meanwhile(&self, check: CheckId) -> Result<ChainEnd, VisitError> {
        let record = self.store().journey(check).await?.ok_or(VisitError::NotFound)?;
        Ok(match self.undecided(record).await? {
            Ok((check, _)) => self.end_of(&check, Err(fault_of(&check))),
            Err(end) => end,
        })
    }

    fn end_of(&self, check: &SilentCheck, result: Result<RedirectCode, ChainFault>) -> ChainEnd {
        let project = self.control_plane().project(check.project);
        let falls_back = match (&result, project, &check.network) {
            (Err(_), Some(project), Some(network)) => self.is_open_to_reverse_sms(&project, network),
            _ => false,
        };
        ChainEnd {
            check: check.id,
            reference: check.reference.clone(),
            redirect_url: check.redirect_url.as_ref().and_then(|url| self.open_redirect_url(check.id, url)),
            result,
            falls_back,
        }
    }
}

fn question(brief: &Brief) -> Question<'_> {
    brief.number.as_ref().map_or(Question::WhichNumber, Question::IsNumber)
}

fn fault_of(check: &SilentCheck) -> ChainFault {
    match check.state {
        Lifecycle::Concluded { .. } if check.status() == Status::Expired => ChainFault::Expired,
        _ => ChainFault::AlreadyCompleted,
    }
}

/// A simulated device works from any address. An announced one for tests stands for where it is; any other must be
/// where it really is.
fn judge_simulated(announced: Option<IpAddr>, device: IpAddr) -> Result<(), ErrorCode> {
    let Some(announced) = announced else { return Ok(()) };
    match TestAddress::of(announced) {
        Some(TestAddress::Mobile) => Ok(()),
        Some(TestAddress::NotMobile) => Err(ErrorCode::NotMobileIp),
        Some(TestAddress::MobileWithoutProducts | TestAddress::Unknown) => Err(ErrorCode::MnoNotSupported),
        None if announced.to_canonical() == device.to_canonical() => Ok(()),
        None => Err(ErrorCode::IpMismatch),
    }
}
