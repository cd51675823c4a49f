//! Names of mobile networks.

use std::fmt;

use askama::filters::{Html, HtmlSafe, escape};
use ringtrue_domain::network::NetworkId;
use ringtrue_sandbox::operator_access::{NETWORK_ID, NETWORK_NAME};
use ringtrue_web::app::App;

/// Returns the name of a network with its id, or only the id if this deployment does not configure the network.
pub fn network_name(app: &App, id: &NetworkId) -> String {
    NetworkName::new(app, id).with_id()
}

/// A network in a list: its name, with the id on hover. Renders as HTML.
#[derive(Clone, Debug)]
pub struct NetworkName {
    id: String,
    /// `None`: the network is neither configured nor simulated.
    name: Option<String>,
}

impl NetworkName {
    pub fn new(app: &App, id: &NetworkId) -> Self {
        let directory = app.engine.networks().directory();
        let configured = directory.find_by_any_id(id).map(|network| network.name.clone());
        let simulated = || (id.as_str() == NETWORK_ID).then(|| NETWORK_NAME.to_owned());
        NetworkName { id: id.to_string(), name: configured.or_else(simulated) }
    }

    fn with_id(&self) -> String {
        match &self.name {
            Some(name) => format!("{name} ({})", self.id),
            None => self.id.clone(),
        }
    }
}

impl fmt::Display for NetworkName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Some(name) = &self.name else { return f.write_str(&self.id) };
        let Ok(name) = escape(name, Html);
        write!(f, "<span title=\"{id}\">{name}<span class=\"off-screen\"> ({id})</span></span>", id = self.id)
    }
}

/// Safe because the name is escaped, and an id consists of digits.
impl HtmlSafe for NetworkName {}
