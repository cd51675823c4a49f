//! Address tables for device IPs, before and after a reload.

use std::fs;

use ringtrue_engine::ports::lookups::AddressNetwork;

use crate::{
    operators::networks::{configured, world_with},
    world::World,
};

const ADDRESS: &str = "192.0.2.1";

fn address_network(world: &World) -> AddressNetwork {
    world.node.engine.networks().network_of_address(ADDRESS.parse().unwrap())
}

#[tokio::test]
async fn broken_address_tables_do_not_replace_the_current_ones() {
    let folder = tempfile::tempdir().unwrap();
    let ranges = folder.path().join("ranges");
    let of = |network: &str| AddressNetwork::Mobile(network.parse().unwrap());
    let settings = format!("ip_routing.range_files = [\"{}\"]", ranges.display());
    let config = || configured(&settings);
    fs::write(&ranges, format!("23410 {ADDRESS}")).unwrap();
    let world = world_with(&settings).await;
    assert_eq!(address_network(&world), of("23410"));

    fs::write(&ranges, format!("23415 {ADDRESS}")).unwrap();
    assert_eq!(address_network(&world), of("23410"), "the file is only read on reload");
    world.node.reload(Ok(config())).await;
    assert_eq!(address_network(&world), of("23415"));

    fs::write(&ranges, "invalid").unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(address_network(&world), of("23415"), "an invalid file has no effect");
    fs::remove_file(&ranges).unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(address_network(&world), of("23415"), "a missing file has no effect");

    world.node.reload(Ok(configured(""))).await;
    assert_eq!(address_network(&world), AddressNetwork::Unknown);
}
