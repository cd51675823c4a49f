use futures_util::future::join_all;
use ringtrue_domain::{
    audit::Action,
    guessing::{FREE, FREE_BY_ADDRESS},
};
use ringtrue_engine::ports::{Guess, Guesser, Wait};

use crate::{
    accounts::{NO_PASSWORD, event, session, stored},
    bench::{Bench, Database},
    sample,
};

/// A guess at an account from an address, some seconds from now.
fn guess(account: u8, address: u8, second: i64) -> Guess {
    let mut pair = [address; 32];
    pair[0] = account;
    pair[1] = 200;
    Guess { account: Guesser(pair), address: Guesser([address; 32]), at: sample::later(second) }
}

pub async fn who_guesses_wrong_waits_and_nobody_else_does(bench: &Bench) {
    let store = &*bench.store;
    let count = async |guess: Guess| store.count_guess(guess).await.unwrap();
    for _ in 0..FREE {
        assert_eq!(count(guess(1, 1, 0)).await, None);
    }
    let wait = |until| Some(Wait { who: guess(1, 1, 0).account, until: sample::later(until) });
    assert_eq!(count(guess(1, 1, 0)).await, wait(1));
    assert_eq!(count(guess(1, 2, 0)).await, None, "from elsewhere");
    assert_eq!(count(guess(2, 1, 0)).await, None, "another account");
    assert_eq!(count(guess(1, 1, 1)).await, None);
    assert_eq!(count(guess(1, 1, 1)).await, wait(3));
    assert_eq!(count(guess(1, 1, 2)).await, wait(3), "what was refused was not counted");
    // It is the same at every node.
    let other = bench.database.open().await;
    assert_eq!(other.count_guess(guess(1, 1, 2)).await.unwrap(), wait(3));
    assert_eq!(other.count_guess(guess(1, 1, 3)).await.unwrap(), None);
    assert_eq!(count(guess(1, 1, 3)).await, wait(7));
}

pub async fn a_network_address_that_tries_many_accounts_waits_for_all_of_them(bench: &Bench) {
    let store = &*bench.store;
    for account in 0..u8::try_from(FREE_BY_ADDRESS).unwrap() {
        assert_eq!(store.count_guess(guess(account, 7, 0)).await.unwrap(), None);
    }
    let wait = Wait { who: guess(0, 7, 0).address, until: sample::later(1) };
    assert_eq!(store.count_guess(guess(99, 7, 0)).await.unwrap(), Some(wait));
    assert_eq!(store.count_guess(guess(99, 8, 0)).await.unwrap(), None);
}

pub async fn a_right_guess_is_taken_back(bench: &Bench) {
    let store = &*bench.store;
    let jane = stored(store, "jane@example.com").await;
    let right = async || {
        assert_eq!(store.count_guess(guess(1, 1, 0)).await.unwrap(), None);
        let audit = event(None, jane.id, Action::AccountSignedIn);
        let session = session(jane.id, sample::later(600));
        assert!(store.begin_session(session, &NO_PASSWORD, guess(1, 1, 0), &audit).await.unwrap());
    };
    for _ in 0..2 * FREE_BY_ADDRESS {
        right().await;
    }
    // The wrong ones before it are forgiven with it.
    for _ in 1..FREE {
        assert_eq!(store.count_guess(guess(1, 1, 0)).await.unwrap(), None);
    }
    right().await;
    for _ in 0..FREE {
        assert_eq!(store.count_guess(guess(1, 1, 0)).await.unwrap(), None);
    }
    assert!(store.count_guess(guess(1, 1, 0)).await.unwrap().is_some());
}

pub async fn of_many_guesses_at_once_only_the_free_ones_count(bench: &Bench) {
    let other = bench.database.open().await;
    let guesses = (0..24).map(|number| {
        let store = if number % 2 == 0 { &bench.store } else { &other };
        store.count_guess(guess(1, 1, 0))
    });
    let answers = join_all(guesses).await.into_iter().map(Result::unwrap);
    assert_eq!(answers.filter(Option::is_none).count(), usize::try_from(FREE).unwrap());
}

pub async fn guesses_are_forgotten_after_a_while(bench: &Bench) {
    let store = &*bench.store;
    store.count_guess(guess(1, 1, 0)).await.unwrap();
    store.count_guess(guess(2, 1, 5)).await.unwrap();
    assert_eq!(store.forget_expired(sample::later(3_600)).await.unwrap(), 0);
    assert_eq!(store.forget_expired(sample::later(3_601)).await.unwrap(), 1);
    assert_eq!(store.forget_expired(sample::later(3_606)).await.unwrap(), 2);
}

pub async fn so_many_guessers_are_remembered_and_no_more(bench: &Bench) {
    let store = &*bench.store;
    for _ in 0..FREE {
        assert_eq!(store.count_guess(guess(1, 1, 60)).await.unwrap(), None);
    }
    let old = sample::now().as_millisecond();
    let subject = match bench.database {
        Database::Sqlite { .. } => "cast(printf('%032d', n) as blob)",
        Database::Postgres { .. } => "convert_to(lpad(n::text, 32, '0'), 'UTF8')",
    };
    bench
        .database
        .execute(&format!(
            "insert into sign_in_guesses (subject, wrong, last_at)
             with recursive step (n) as (select 1 union all select n + 1 from step where n < 100500)
             select {subject}, 1, {old} from step"
        ))
        .await;
    assert_eq!(store.forget_expired(sample::later(60)).await.unwrap(), 502);
    assert_eq!(store.forget_expired(sample::later(60)).await.unwrap(), 0);
    assert!(store.count_guess(guess(1, 1, 60)).await.unwrap().is_some(), "the newest are the last to go");
}
