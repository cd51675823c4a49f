//! `make bench`: compares Ringtrue with other programs and baselines on one machine.
//!
//! Each comparison prints a ratio and its required value. Rounds of the candidates alternate, so that a slow moment of
//! the machine affects all of them. The exit code is 1 if a required ratio is missed.

mod addresses;
mod bare;
mod callbacks;
mod camara;
mod chain;
mod console;
mod cpu_cost;
mod creates;
mod deployment;
mod eligibility;
mod group_commit;
mod hanging;
mod load;
mod mmdb;
mod pages;
mod postgres;
mod process;
mod reads;
mod receiver;
mod report;
mod rsql;
mod scaling;
mod search_isolation;
mod servers;
mod sign_in;
mod silent;
mod sim_swap;
mod sms;
mod soak;
mod startup;
mod tokens;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compares Ringtrue with other programs and baselines on this machine")]
struct Arguments {
    /// Run only this comparison.
    #[command(subcommand)]
    only: Option<Comparison>,
}

#[derive(Clone, Subcommand)]
enum Comparison {
    /// Token requests vs npm `oidc-provider` and a bare handler.
    Tokens,
    /// Durable writes by group commit vs `pgbench`.
    GroupCommit,
    /// Check creation over HTTP vs `pgbench`.
    Creates,
    /// Verifications vs Reverse SMS checks: creation over HTTP.
    Verifications,
    /// Check creation with vs without live feeds of the console, and lists with vs without another workspace that loads it.
    Console,
    /// Check reads by id vs a bare handler.
    Reads,
    /// SMS received over SMPP vs Kannel.
    Sms,
    /// Callback delivery vs the RSA signing rate of all cores.
    Callbacks,
    /// First callback attempts with vs without hanging receivers of another workspace.
    Hanging,
    /// Deep pages of a long list vs the first page.
    Pages,
    /// Reads by id with vs without searches of another workspace.
    SearchIsolation,
    /// Search expression parsing vs npm `@rsql/parser`.
    Rsql,
    /// Complete Secure SNA flows vs the same chain of bare handlers.
    Silent,
    /// Sign-ins from authorization code to ID token, and with the authorization request, vs bare handlers that sign.
    SignIn,
    /// CAMARA's `verify` with a token, and with network authentication, vs the same chain of bare handlers.
    Camara,
    /// SIM Swap checks vs a bare handler with one upstream request.
    SimSwap,
    /// Eligibility by number and IP address vs a bare handler.
    Eligibility,
    /// IP address lookups vs the crate `maxminddb`.
    Addresses,
    /// Creates, reads and SMS on Citus vs one PostgreSQL. Not part of `make bench`: needs the extension.
    Citus,
    /// CPU time per operation on Citus with 1, 2 and 4 workers vs one PostgreSQL. Not part of `make bench`.
    Servers,
    /// Creates, reads and SMS with 20 million checks stored vs none. Not part of `make bench`: inserts them first.
    Growth,
    /// Creates, reads and SMS with three nodes vs one. Not part of `make bench`: figures only.
    Nodes,
    /// Time from start to ready, and idle memory. Figures only.
    Startup,
    /// Mixed load on three nodes with faults for some minutes. Not a comparison: run it with `scripts/soak`.
    Soak {
        minutes: u32,
        /// On Citus with two workers, which are restarted too.
        #[arg(long)]
        citus: bool,
    },
    /// Serve a constant body (baseline).
    #[command(hide = true)]
    Bare { size: usize },
    /// Serve recorded responses with upstream requests (baseline).
    #[command(hide = true)]
    Chain { handlers: String },
}

impl Comparison {
    const ALL: [Comparison; 19] = [
        Comparison::Tokens,
        Comparison::GroupCommit,
        Comparison::Creates,
        Comparison::Verifications,
        Comparison::Console,
        Comparison::Reads,
        Comparison::Sms,
        Comparison::Callbacks,
        Comparison::Hanging,
        Comparison::Silent,
        Comparison::SignIn,
        Comparison::Camara,
        Comparison::SimSwap,
        Comparison::Eligibility,
        Comparison::Addresses,
        Comparison::Rsql,
        Comparison::SearchIsolation,
        Comparison::Pages,
        Comparison::Startup,
    ];

    /// Returns whether the required ratio was reached.
    async fn run(self) -> anyhow::Result<bool> {
        match self {
            Comparison::Tokens => tokens::compare().await,
            Comparison::GroupCommit => group_commit::compare().await,
            Comparison::Creates => creates::compare().await,
            Comparison::Verifications => creates::compare_verifications().await,
            Comparison::Console => console::compare().await,
            Comparison::Reads => reads::compare().await,
            Comparison::Sms => sms::compare().await,
            Comparison::Callbacks => callbacks::compare().await,
            Comparison::Hanging => hanging::compare().await,
            Comparison::Pages => pages::compare().await,
            Comparison::SearchIsolation => search_isolation::compare().await,
            Comparison::Rsql => rsql::compare(),
            Comparison::Silent => silent::compare().await,
            Comparison::SignIn => sign_in::compare().await,
            Comparison::Camara => camara::compare().await,
            Comparison::SimSwap => sim_swap::compare().await,
            Comparison::Eligibility => eligibility::compare().await,
            Comparison::Addresses => addresses::compare(),
            Comparison::Citus => scaling::compare_citus().await,
            Comparison::Servers => servers::compare().await,
            Comparison::Growth => scaling::compare_growth().await,
            Comparison::Nodes => scaling::compare_nodes().await,
            Comparison::Startup => startup::measure().await,
            Comparison::Soak { minutes, citus } => soak::run(minutes, citus).await,
            Comparison::Bare { size } => bare::serve(size).await.map(|()| true),
            Comparison::Chain { handlers } => chain::serve(&handlers).await.map(|()| true),
        }
    }
}

fn main() -> anyhow::Result<()> {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build()?;
    let comparisons = Arguments::parse().only.map_or_else(|| Comparison::ALL.to_vec(), |only| vec![only]);
    let mut reached = true;
    for comparison in comparisons {
        reached &= runtime.block_on(comparison.run())?;
    }
    std::process::exit(i32::from(!reached));
}
