use ringtrue_domain::{
    lifecycle::{NumberHash, Sealed},
    tenancy::ProjectId,
};
use ringtrue_engine::ports::sandbox::SimulatedSimSwap;

use crate::{fixture::StoreFixture, sample};

pub fn swap(number: u8, seconds: i64) -> SimulatedSimSwap {
    SimulatedSimSwap {
        number_hash: NumberHash([number; 32]),
        number: Sealed(vec![number]),
        swapped_at: sample::later(seconds),
    }
}

pub async fn simulated_sim_swaps_belong_to_their_project(fixture: &StoreFixture) {
    let (store, other) = (&*fixture.store, fixture.database.open().await);
    let [one, two] = [(); 2].map(|()| ProjectId(sample::uuid()));
    for (project, swap) in [(one, swap(1, 100)), (one, swap(2, 200)), (two, swap(1, 300))] {
        store.record_simulated_sim_swap(project, &swap, 20, swap.swapped_at).await.unwrap();
    }
    assert_eq!(other.list_simulated_sim_swaps(one).await.unwrap(), [swap(1, 100), swap(2, 200)]);
    other.record_simulated_sim_swap(one, &swap(1, 400), 20, sample::later(400)).await.unwrap();
    other.delete_simulated_sim_swap(one, NumberHash([2; 32])).await.unwrap();
    assert_eq!(store.list_simulated_sim_swaps(one).await.unwrap(), [swap(1, 400)]);
    assert_eq!(store.list_simulated_sim_swaps(two).await.unwrap(), [swap(1, 300)]);
}

pub async fn oldest_simulated_sim_swaps_are_deleted(fixture: &StoreFixture) {
    let store = &*fixture.store;
    let project = ProjectId(sample::uuid());
    for number in 0..5 {
        // The order of recording decides which swaps are kept, not their times: the swap that was recorded first has
        // the latest time.
        let made_at = sample::later(i64::from(number));
        store.record_simulated_sim_swap(project, &swap(number, -i64::from(number)), 3, made_at).await.unwrap();
    }
    let left = store.list_simulated_sim_swaps(project).await.unwrap();
    assert_eq!(left, [swap(2, -2), swap(3, -3), swap(4, -4)]);
}
