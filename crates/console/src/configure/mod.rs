//! Project, Configure: its settings, allowed networks and credentials.

mod allowed_networks;
pub mod credentials;
mod settings;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default().merge(settings::routes()).merge(allowed_networks::routes()).merge(credentials::routes())
}
