//! Wrong guesses at passwords.

use jiff::Timestamp;
use ringtrue_domain::guessing::{FORGIVEN_AFTER, FREE, FREE_BY_ADDRESS, Guesses};
use ringtrue_engine::ports::{Guess, Guesser, StoreError, Wait};

use crate::{
    driver::{Ending, Tx, values},
    row::Row,
};

/// So many guessers are remembered. Whoever has many network addresses cannot fill a disk; those who were quiet for the
/// longest are forgotten before their time.
const MOST: i64 = 100_000;

/// Counts a guess with its account and with its address, unless one of them has to wait.
pub(super) async fn count(tx: &mut dyn Tx, guess: Guess) -> Result<Ending<Option<Wait>>, StoreError> {
    let mut held = Vec::new();
    for (who, free) in in_order(guess) {
        held.push((who, free, hold(tx, who, guess.at).await?));
    }
    let waits = held.iter().map(|(who, free, guesses)| Wait { who: *who, until: guesses.closed_until(*free) });
    if let Some(wait) = waits.max_by_key(|wait| wait.until).filter(|wait| wait.until > guess.at) {
        return Ok(Ending::Rollback(Some(wait)));
    }
    for (who, _, guesses) in held {
        let Guesses { wrong, last } = guesses.counted(guess.at);
        let update = "update sign_in_guesses set wrong = $1, last_at = $2 where subject = $3";
        tx.run(update, values![i64::from(wrong), last, who.0]).await?;
    }
    Ok(Ending::Commit(None))
}

/// A guess was right: its account is free again, and its address has one less.
pub(super) async fn forgive(tx: &mut dyn Tx, guess: Guess) -> Result<(), StoreError> {
    for (who, _) in in_order(guess) {
        let change = if who == guess.account {
            "delete from sign_in_guesses where subject = $1"
        } else {
            "update sign_in_guesses set wrong = wrong - 1 where subject = $1 and wrong > 0"
        };
        tx.run(change, values![who.0]).await?;
    }
    Ok(())
}

/// Deletes some that are over, and some that are too many. Gives how many.
pub(super) async fn forget(tx: &mut dyn Tx, now: Timestamp) -> Result<usize, StoreError> {
    let over = now.saturating_sub(FORGIVEN_AFTER).unwrap_or(Timestamp::MIN);
    let forgiven = tx
        .run(
            "delete from sign_in_guesses where subject in
               (select subject from sign_in_guesses where last_at < $1 order by last_at, subject limit 1000)
               and last_at < $1
             returning 1",
            values![over],
        )
        .await?;
    let surplus = tx
        .run(
            "delete from sign_in_guesses where subject in
               (select subject from sign_in_guesses order by last_at desc, subject desc limit 1000 offset $1)
             returning 1",
            values![MOST],
        )
        .await?;
    Ok(forgiven.len() + surplus.len())
}

/// Everybody takes them in the same order, or two could wait for each other.
fn in_order(guess: Guess) -> [(Guesser, u32); 2] {
    let mut guessers = [(guess.account, FREE), (guess.address, FREE_BY_ADDRESS)];
    guessers.sort_unstable();
    guessers
}

/// What is counted with somebody, and nobody else counts there until the end of the transaction.
async fn hold(tx: &mut dyn Tx, who: Guesser, now: Timestamp) -> Result<Guesses, StoreError> {
    let row = tx
        .first(
            "insert into sign_in_guesses (subject, wrong, last_at) values ($1, 0, $2)
             on conflict (subject) do update set wrong = sign_in_guesses.wrong
             returning wrong, last_at",
            values![who.0, now],
        )
        .await?;
    row.map_or(Ok(Guesses { wrong: 0, last: now }), guesses)
}

fn guesses(row: Row) -> Result<Guesses, StoreError> {
    let mut row = row.of("sign_in_guesses");
    let wrong = u32::try_from(row.int("wrong")?).unwrap_or(u32::MAX);
    Ok(Guesses { wrong, last: row.instant("last_at")? })
}
