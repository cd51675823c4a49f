//! Builds number sources from the configuration.

use std::sync::Arc;

use anyhow::Context;
use ringtrue_engine::{number_lookup::LookupSources, ports::LookupSource};
use ringtrue_operators::number_lookup::{EnumDns, HttpHlr, TelcoFinder};

use crate::{
    config::{NumberLookupSection, NumberSourceSection},
    connectors::ConnectorFactory,
};

pub fn build_sources(factory: &ConnectorFactory, section: NumberLookupSection) -> anyhow::Result<LookupSources> {
    let NumberLookupSection { prefixes, deadline, sources } = section;
    let sources = sources.into_iter().map(|section| build_source(factory, section)).collect::<Result<_, _>>()?;
    Ok(LookupSources { prefixes, sources, deadline })
}

fn build_source(factory: &ConnectorFactory, section: NumberSourceSection) -> anyhow::Result<Arc<dyn LookupSource>> {
    let (clock, entropy) = (Arc::clone(&factory.clock), Arc::clone(&factory.entropy));
    Ok(match section {
        NumberSourceSection::Enum(config) => {
            let section_name = format!("number_sources.{}", config.name);
            Arc::new(EnumDns::new(*config, clock, entropy).context(section_name)?)
        }
        NumberSourceSection::Hlr(config, client) => {
            let section_name = format!("number_sources.{}", config.name);
            let client = Arc::new(factory.client(client).with_context(|| section_name.clone())?);
            Arc::new(HttpHlr::new(*config, client, clock, entropy).context(section_name)?)
        }
        NumberSourceSection::TelcoFinder(config, client) => {
            let section_name = format!("number_sources.{}", config.name);
            let client = Arc::new(factory.client(client).with_context(|| section_name.clone())?);
            Arc::new(TelcoFinder::new(*config, client, clock, entropy).context(section_name)?)
        }
    })
}
