//! The console, as a browser meets it.

mod browser;
mod checks;
mod live;
mod pages;
mod projects;
mod requests;
mod roles;
mod sign_in;
