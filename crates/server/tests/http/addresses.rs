//! Whose the addresses of devices are, as a node knows it, before and after its configuration is read again.

use std::fs;

use ringtrue_engine::ports::Located;

use crate::{
    networks::{configured, world_with},
    world::World,
};

const ADDRESS: &str = "192.0.2.1";

fn located(world: &World) -> Located {
    world.node.engine.networks().locate(ADDRESS.parse().unwrap())
}

#[tokio::test]
async fn tables_are_read_again_and_kept_when_they_are_broken() {
    let folder = tempfile::tempdir().unwrap();
    let ranges = folder.path().join("ranges");
    let of = |network: &str| Located::Mobile(network.parse().unwrap());
    let settings = format!("ip_routing.range_files = [\"{}\"]", ranges.display());
    let config = || configured(&settings);
    fs::write(&ranges, format!("23410 {ADDRESS}")).unwrap();
    let world = world_with(&settings).await;
    assert_eq!(located(&world), of("23410"));

    fs::write(&ranges, format!("23415 {ADDRESS}")).unwrap();
    assert_eq!(located(&world), of("23410"), "not read yet");
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"));

    fs::write(&ranges, "nothing of use").unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"), "a broken file changes nothing");
    fs::remove_file(&ranges).unwrap();
    world.node.reload(Ok(config())).await;
    assert_eq!(located(&world), of("23415"), "nor does a missing one");

    world.node.reload(Ok(configured(""))).await;
    assert_eq!(located(&world), Located::Unknown);
}
