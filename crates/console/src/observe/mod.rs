//! Pages of the project menu's group "Observe": activity, checks, callbacks and requests.

mod callbacks;
pub mod checks;
mod failure_label;
pub mod issues;
mod live;
mod overview;
mod requests;
mod search;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .merge(overview::routes())
        .merge(live::routes())
        .merge(checks::routes())
        .merge(callbacks::routes())
        .merge(requests::routes())
        .merge(search::routes())
}
