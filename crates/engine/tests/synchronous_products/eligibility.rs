//! Eligibility while a receiver is unavailable.

use ringtrue_domain::product::Product;

use crate::world::{ALL, EVERYTHING, World};

#[tokio::test]
async fn unavailable_receiver_disables_reverse_sms() {
    let world = World::new().await;
    let receiver = world.engine.networks().directory().receivers().next().unwrap().clone();
    let name = "kannel".into();
    for (is_available, expected) in
        [(false, &[Product::SecureSna, Product::SimSwap, Product::Discovery][..]), (true, &ALL)]
    {
        world.engine.networks().set_receivers_available(&name, std::slice::from_ref(&receiver), is_available);
        let found = world.engine.checks.eligibility_of_number(&world.live, EVERYTHING).await.unwrap();
        assert_eq!((found.network.id().unwrap().as_str(), &*found.products), ("23410", expected));
    }
}
