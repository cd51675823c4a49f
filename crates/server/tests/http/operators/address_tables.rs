//! Address tables for device IPs, before and after a reload.

use std::fs;

use ringtrue_engine::ports::lookups::IpLocation;

use crate::{
    operators::networks::{configured, world_with},
    world::World,
};

const ADDRESS: &str = "192.0.2.1";

fn located(world: &World) -> IpLocation {
    world.node.engine.networks().locate(ADDRESS.parse().unwrap())
}

#[tokio::test]
async fn broken_address_tables_do_not_replace_the_current_ones() {
    let folder = tempfile::tempdir().unwrap();
    let ranges = folder.path().join("ranges");
    let of = |network: &str| IpLocation::Mobile(network.parse().unwrap());
    let settings = format!("ip_routing.range_files = [\"{}\"]", ranges.display());
    let config = || configured(&settings);
    fs::write(&ranges, format!("23410 {ADDRESS}")).unwrap();
    let world = world_with(&settings).await;
    assert_eq!(located(&world), of("23410"));

    fs::write(&ranges, format!("23415 {ADDRESS}")).unwrap();
    assert_eq!(located(&world), of("23410"), "the file is only read on reload");
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"));

    fs::write(&ranges, "invalid").unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"), "an invalid file has no effect");
    fs::remove_file(&ranges).unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"), "a missing file has no effect");

    world.node.reload(Ok(configured(""))).await;
    assert_eq!(located(&world), IpLocation::Unknown);
}
