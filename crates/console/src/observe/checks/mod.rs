//! Pages for the checks of a project: the list with filters and CSV export, and the page of a check with its timeline.

mod check_view;
mod detail;
mod filters;
mod list;
mod timeline;

use ringtrue_web::routes::Routes;

pub use check_view::{CheckRow, describe_sim_swap, search_fields};

pub fn routes() -> Routes {
    list::routes().merge(detail::routes())
}
