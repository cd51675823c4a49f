//! Comparisons that `make bench` prints: ours against others, in one run on one machine.
//!
//! Each comparison is a ratio with the least that is asked of it. Rounds of the contestants alternate, so that a slow
//! moment of the machine hits all of them. The exit code is 1 when a ratio is not reached.

mod bare;
mod callbacks;
mod cost;
mod creates;
mod deployment;
mod group_commit;
mod load;
mod pages;
mod postgres;
mod process;
mod reads;
mod receiver;
mod report;
mod rsql;
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

#[derive(Clone, Copy, Subcommand)]
enum Comparison {
    /// Token requests against npm `oidc-provider` and against a bare handler.
    Tokens,
    /// Durable writes by group commit against `pgbench`.
    GroupCommit,
    /// Creating checks over HTTP against `pgbench`.
    Creates,
    /// Reading checks by id against a bare handler.
    Reads,
    /// SMS taken in over SMPP and concluded against Kannel.
    Sms,
    /// Delivering callbacks against what the cores can sign.
    Callbacks,
    /// The first page of a long list against one deep in it.
    Pages,
    /// Parsing searches against npm `@rsql/parser`.
    Rsql,
    /// Serves a constant body: the contestant that does nothing else.
    #[command(hide = true)]
    Bare { size: usize },
}

impl Comparison {
    const ALL: [Comparison; 8] = [
        Comparison::Tokens,
        Comparison::GroupCommit,
        Comparison::Creates,
        Comparison::Reads,
        Comparison::Sms,
        Comparison::Callbacks,
        Comparison::Rsql,
        Comparison::Pages,
    ];

    /// Whether what is asked for was reached.
    async fn run(self) -> anyhow::Result<bool> {
        match self {
            Comparison::Tokens => tokens::compare().await,
            Comparison::GroupCommit => group_commit::compare().await,
            Comparison::Creates => creates::compare().await,
            Comparison::Reads => reads::compare().await,
            Comparison::Sms => sms::compare().await,
            Comparison::Callbacks => callbacks::compare().await,
            Comparison::Pages => pages::compare().await,
            Comparison::Rsql => rsql::compare(),
            Comparison::Bare { size } => bare::serve(size).await.map(|()| true),
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
