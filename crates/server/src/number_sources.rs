//! Builds number sources from the configuration.

use std::sync::Arc;

use anyhow::Context;
use ringtrue_engine::{lookups::number_lookup::LookupSources, ports::lookups::LookupSource};
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
    let client = |settings| anyhow::Ok(Arc::new(factory.client(settings)?));
    let section_name = format!("number_sources.{}", section.name());
    let build = || -> anyhow::Result<Arc<dyn LookupSource>> {
        Ok(match section {
            NumberSourceSection::Enum(config) => Arc::new(EnumDns::new(*config, clock, entropy)?),
            NumberSourceSection::Hlr(config, settings) => {
                Arc::new(HttpHlr::new(*config, client(settings)?, clock, entropy)?)
            }
            NumberSourceSection::TelcoFinder(config, settings) => {
                Arc::new(TelcoFinder::new(*config, client(settings)?, clock, entropy)?)
            }
        })
    };
    build().context(section_name)
}
