//! Pages of the project menu's group "Configure": settings, allowed networks and credentials.

mod allowed_networks;
mod brand_preview;
pub mod credentials;
mod go_live;
mod settings;
pub mod sign_in_client;

use ringtrue_web::routes::Routes;

pub fn routes() -> Routes {
    Routes::default()
        .merge(settings::routes())
        .merge(brand_preview::routes())
        .merge(go_live::routes())
        .merge(allowed_networks::routes())
        .merge(credentials::routes())
}
