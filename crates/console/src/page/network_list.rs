//! Search and pagination for lists of networks. A deployment may have many thousands.

use ringtrue_domain::{
    network::{Network, NetworkId},
    page::{Page, PageRequest},
};
use ringtrue_web::parameters::Query;

use crate::page::{self, error::ConsoleError};

/// Query parameters from which [`NetworkListQuery`] is read.
pub const SEARCH_PARAMETER: &str = "q";
pub const PAGE_PARAMETER: &str = "page";

/// Search text and page number of a list of networks.
#[derive(Clone, Debug)]
pub struct NetworkListQuery {
    /// Search text as the user entered it.
    pub text: String,
    page: PageRequest,
}

impl NetworkListQuery {
    pub fn parse(query: &Query) -> Result<Self, ConsoleError> {
        let text = query.get(SEARCH_PARAMETER).unwrap_or_default().trim().to_owned();
        Ok(NetworkListQuery { text, page: query.page_with_default_size(page::PAGE_SIZE)? })
    }

    pub fn is_search(&self) -> bool {
        !self.text.is_empty()
    }

    /// Returns whether the search text is the start of the network's id, a part of its name or of an alias, or its
    /// country code.
    pub fn matches(&self, network: &Network) -> bool {
        let text = self.text.to_lowercase();
        self.matches_id(&network.id)
            || network.country.to_string().eq_ignore_ascii_case(&text)
            || network.name.to_lowercase().contains(&text)
            || network.aliases.iter().any(|alias| alias.to_lowercase().contains(&text))
    }

    pub fn matches_id(&self, id: &NetworkId) -> bool {
        id.as_str().starts_with(&self.text)
    }

    /// Takes the items on the requested page, and counts all items.
    pub fn paginate<T>(&self, items: impl Iterator<Item = T>) -> Page<T> {
        let (mut selected, mut total) = (Vec::new(), 0);
        for item in items {
            let is_on_page = (self.page.offset()..self.page.offset() + u64::from(self.page.size())).contains(&total);
            if is_on_page {
                selected.push(item);
            }
            total += 1;
        }
        Page { items: selected, request: self.page, total_items: total }
    }

    /// Returns the query parameters for links to other pages of the same list.
    pub fn link_parameters(&self) -> [(&'static str, Option<&str>); 1] {
        [(SEARCH_PARAMETER, Some(self.text.as_str()).filter(|text| !text.is_empty()))]
    }
}
