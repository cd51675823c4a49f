//! The sources of which network serves a number, as the configuration wants them.

use std::sync::Arc;

use anyhow::Context;
use ringtrue_engine::{number_lookup::Sources, ports::NumberSource};
use ringtrue_operators::number_lookup::{EnumDns, HttpHlr, TelcoFinder};

use crate::{
    config::{NumberLookupSection, NumberSourceSection},
    connectors::Workbench,
};

/// Makes the sources ready to be asked.
pub fn sources(workbench: &Workbench, section: NumberLookupSection) -> anyhow::Result<Sources> {
    let NumberLookupSection { prefixes, deadline, sources } = section;
    let sources = sources.into_iter().map(|section| source(workbench, section)).collect::<Result<_, _>>()?;
    Ok(Sources { prefixes, sources, deadline })
}

fn source(workbench: &Workbench, section: NumberSourceSection) -> anyhow::Result<Arc<dyn NumberSource>> {
    let (clock, entropy) = (Arc::clone(&workbench.clock), Arc::clone(&workbench.entropy));
    Ok(match section {
        NumberSourceSection::Enum(config) => {
            let named = format!("number_sources.{}", config.name);
            Arc::new(EnumDns::new(*config, clock, entropy).context(named)?)
        }
        NumberSourceSection::Hlr(config, client) => {
            let named = format!("number_sources.{}", config.name);
            let client = Arc::new(workbench.client(client).with_context(|| named.clone())?);
            Arc::new(HttpHlr::new(*config, client, clock, entropy).context(named)?)
        }
        NumberSourceSection::TelcoFinder(config, client) => {
            let named = format!("number_sources.{}", config.name);
            let client = Arc::new(workbench.client(client).with_context(|| named.clone())?);
            Arc::new(TelcoFinder::new(*config, client, clock, entropy).context(named)?)
        }
    })
}
