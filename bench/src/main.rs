//! Comparisons that `make bench` prints: ours against others, in one run on one machine.
//!
//! Each comparison is a ratio with the least that is asked of it. Rounds of the contestants alternate, so that a slow
//! moment of the machine hits all of them. The exit code is 1 when a ratio is not reached.

mod addresses;
mod bare;
mod callbacks;
mod chain;
mod console;
mod cost;
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
mod search_isolation;
mod silent;
mod sim_swap;
mod sms;
mod tokens;

use clap::{Parser, Subcommand};

#[derive(Parser)]
#[command(about = "Compares Ringtrue with others on this machine")]
struct Arguments {
    /// Only this comparison.
    #[command(subcommand)]
    only: Option<Comparison>,
}

#[derive(Clone, Subcommand)]
enum Comparison {
    /// Token requests against npm `oidc-provider` and against a bare handler.
    Tokens,
    /// Durable writes by group commit against `pgbench`.
    GroupCommit,
    /// Creating checks over HTTP against `pgbench`.
    Creates,
    /// Creating checks while people watch them at the console against unwatched.
    Console,
    /// Reading checks by id against a bare handler.
    Reads,
    /// SMS taken in over SMPP and concluded against Kannel.
    Sms,
    /// Delivering callbacks against what the cores can sign.
    Callbacks,
    /// First attempts while another workspace's receivers never answer against without them.
    Hanging,
    /// The first page of a long list against one deep in it.
    Pages,
    /// Reads by id while another workspace searches against reads without searches.
    SearchIsolation,
    /// Parsing searches against npm `@rsql/parser`.
    Rsql,
    /// Whole Secure SNA flows through the sandbox operator against the same chain of bare handlers.
    Silent,
    /// SIM Swap checks through the sandbox operator against a bare handler that asks another.
    SimSwap,
    /// Eligibility by number and by address against a bare handler.
    Eligibility,
    /// Looking addresses up against the crate `maxminddb`.
    Addresses,
    /// Serves a constant body: the contestant that does nothing else.
    #[command(hide = true)]
    Bare { size: usize },
    /// Serves answers that are given as JSON: contestants that do nothing but ask each other.
    #[command(hide = true)]
    Chain { handlers: String },
}

impl Comparison {
    const ALL: [Comparison; 15] = [
        Comparison::Tokens,
        Comparison::GroupCommit,
        Comparison::Creates,
        Comparison::Console,
        Comparison::Reads,
        Comparison::Sms,
        Comparison::Callbacks,
        Comparison::Hanging,
        Comparison::Silent,
        Comparison::SimSwap,
        Comparison::Eligibility,
        Comparison::Addresses,
        Comparison::Rsql,
        Comparison::SearchIsolation,
        Comparison::Pages,
    ];

    /// Whether what is asked for was reached.
    async fn run(self) -> anyhow::Result<bool> {
        match self {
            Comparison::Tokens => tokens::compare().await,
            Comparison::GroupCommit => group_commit::compare().await,
            Comparison::Creates => creates::compare().await,
            Comparison::Console => console::compare().await,
            Comparison::Reads => reads::compare().await,
            Comparison::Sms => sms::compare().await,
            Comparison::Callbacks => callbacks::compare().await,
            Comparison::Hanging => hanging::compare().await,
            Comparison::Pages => pages::compare().await,
            Comparison::SearchIsolation => search_isolation::compare().await,
            Comparison::Rsql => rsql::compare(),
            Comparison::Silent => silent::compare().await,
            Comparison::SimSwap => sim_swap::compare().await,
            Comparison::Eligibility => eligibility::compare().await,
            Comparison::Addresses => addresses::compare(),
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
