//! Sends several requests over a connection before it waits for their results.

use std::{future::poll_fn, task::Poll};

use futures_util::{FutureExt, future::BoxFuture};

/// Polls all futures once, in order, so that their requests are sent in this order. Then waits for the results, which
/// arrive in the same order.
///
/// A future that fails on its first poll has sent nothing, because a value did not fit its parameter. In this case the
/// later requests, including `commit`, are not sent, and the caller rolls back.
pub(super) async fn await_in_order<T: Unpin, E: Unpin>(
    mut pending: Vec<BoxFuture<'_, Result<T, E>>>,
) -> Result<Vec<T>, E> {
    let mut results: Vec<Option<T>> = pending.iter().map(|_| None).collect();
    let (mut is_sent, mut finished) = (false, 0);
    poll_fn(|context| {
        if !is_sent {
            is_sent = true;
            for (future, result) in pending.iter_mut().zip(&mut results) {
                if let Poll::Ready(early) = future.poll_unpin(context)? {
                    *result = Some(early);
                }
            }
        }
        while finished < pending.len() {
            if results[finished].is_none() {
                match pending[finished].poll_unpin(context)? {
                    Poll::Ready(result) => results[finished] = Some(result),
                    Poll::Pending => return Poll::Pending,
                }
            }
            finished += 1;
        }
        Poll::Ready(Ok(results.drain(..).flatten().collect()))
    })
    .await
}
