//! The loop of a session: wait for whatever comes first, do it, and wait again.
//!
//! Everything that is waited for may be dropped and taken up again without loss. What is already there is dealt with
//! before more is read, and written together: a burst of messages costs a few system calls.

use std::{ops::ControlFlow, pin::pin, time::Duration};

use futures_util::{StreamExt, stream::FuturesUnordered};
use tokio::{
    io::{AsyncRead, AsyncWrite},
    time::{Instant, sleep_until, timeout},
};

use super::{
    Application, Ended, Fault, Session,
    desk::{Desk, Done, End, Job},
    wire::{Reader, Wire},
};
use crate::pdu::{CommandId, CommandStatus, Reply};

/// Longer than anything is waited for.
const LONG: Duration = Duration::from_hours(24);

impl<S: AsyncRead + AsyncWrite + Unpin> Session<S> {
    /// Runs until either side unbinds, or the link is lost. Messages that are with the application at that time are
    /// brought to their end, and answered if the peer still listens.
    pub async fn run<A: Application>(self, application: &A) -> Result<Ended, Fault> {
        let Self { wire: Wire { mut reader, writer }, mut orders, config, sequence } = self;
        let mut desk = Desk::new(&config, application, writer, sequence);
        let mut work = FuturesUnordered::new();
        let mut alarm = pin!(sleep_until(Instant::now() + LONG));

        let end = loop {
            let arrived = loop {
                if let Some(job) = desk.parked.take_if(|_| work.len() < config.answer_window) {
                    work.push(attend(application, job, config.answer_timeout));
                }
                match take_next(&mut reader, &mut desk) {
                    ControlFlow::Continue(()) => {}
                    ControlFlow::Break(end) => break end,
                }
            };
            if let Some(end) = arrived {
                break end;
            }
            desk.mind_the_pause();
            desk.go_on(work.is_empty());
            if let Some(due) = desk.due().filter(|due| *due < alarm.deadline()) {
                alarm.as_mut().reset(due);
            }
            let (may_read, may_send, may_write) = (desk.may_read(), desk.may_send(), desk.writer.has_work());
            tokio::select! {
                biased;
                Some(done) = work.next(), if !work.is_empty() => desk.on_done(done),
                Some(caller) = orders.unbinds.recv() => {
                    desk.on_unbind(caller);
                    orders.requests.close();
                    while orders.requests.try_recv().is_ok() {}
                }
                Some(order) = orders.requests.recv(), if may_send => desk.on_order(order),
                written = desk.writer.step(), if may_write => {
                    if let Err(error) = written {
                        break End::Fault(error.into());
                    }
                }
                filled = reader.fill(), if may_read => match filled {
                    Ok(()) => desk.on_life(),
                    Err(Fault::Closed) if desk.is_unbinding() => break End::Unbound,
                    Err(fault) => break End::Fault(fault),
                },
                () = &mut alarm, if desk.parked.is_none() => {
                    if let Some(end) = desk.on_time() {
                        break end;
                    }
                    alarm.as_mut().reset(desk.due().unwrap_or_else(|| Instant::now() + LONG));
                }
            }
        };

        // Whoever waits for a response will not get one; the application might, and would wait for ever.
        drop(orders);
        desk.abandon_requests();
        while let Some(done) = work.next().await {
            desk.on_done(done);
        }
        if let Some(Job { sequence, request }) = desk.parked.take() {
            desk.put_off(sequence, request.command());
        }
        let ended = match end {
            End::Unbound => Ok(Ended::ByUs),
            End::UnboundByPeer { sequence } => {
                desk.reply(sequence, CommandStatus::OK, Reply::to(CommandId::UNBIND));
                Ok(Ended::ByPeer)
            }
            End::Fault(fault) => Err(fault),
        };
        if !matches!(ended, Err(Fault::Stream(_))) {
            // The peer may be gone, and then nothing is to be done about it.
            let _ = timeout(config.response_timeout, desk.writer.close()).await;
        }
        ended
    }
}

/// Deals with one PDU that is there. Breaks when there is none that may be taken, or when the session is to end.
fn take_next<A: Application, S: AsyncRead + AsyncWrite>(
    reader: &mut Reader<S>,
    desk: &mut Desk<'_, A, S>,
) -> ControlFlow<Option<End>> {
    if !desk.may_read() {
        return ControlFlow::Break(None);
    }
    match reader.next() {
        Ok(None) => ControlFlow::Break(None),
        Ok(Some((header, body))) => match desk.on_pdu(header, &body) {
            None => ControlFlow::Continue(()),
            end => ControlFlow::Break(end),
        },
        Err(length) => {
            desk.reply(0, CommandStatus::INVALID_COMMAND_LENGTH, Reply::GenericNack);
            ControlFlow::Break(Some(End::Fault(length.into())))
        }
    }
}

/// One message's stay with the application.
async fn attend<A: Application>(application: &A, Job { sequence, request }: Job, patience: Duration) -> Done {
    let command = request.command();
    let answer = timeout(patience, application.on_request(request)).await.ok();
    Done { sequence, command, answer }
}
