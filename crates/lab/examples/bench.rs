use clap::Parser;
#[derive(Parser)]
struct P { #[command(flatten)] b: lab::cli::Bench }
fn main() -> std::process::ExitCode { lab::cli::run(P::parse().b) }
