//! Starts the scripted provider and stops it on SIGTERM or ctrl-c. It must hold no logic of its own.
use anyhow::Context as _;
use clap::Parser as _;
use std::io::IsTerminal as _;
use tokio::{
    net::TcpListener,
    signal::unix::{SignalKind, signal},
};
use tokio_util::sync::CancellationToken;
use tracing_subscriber::EnvFilter;
use turnwright_scripted::Args;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let args = Args::parse();
    tracing_subscriber::fmt()
        .with_env_filter(EnvFilter::try_from_default_env().unwrap_or_else(|_| "info".into()))
        .with_writer(std::io::stderr)
        .with_ansi(std::io::stderr().is_terminal())
        .init();
    let config = args.config()?;
    let mut terminate = signal(SignalKind::terminate()).context("listen for SIGTERM")?;
    let listener = TcpListener::bind(args.listen).await.context("open the listener")?;
    let address = listener.local_addr().context("read the listener's address")?;
    args.write_port(address.port())?;
    tracing::info!(%address, "scripted provider is listening");

    let stop = CancellationToken::new();
    let served = turnwright_scripted::serve(config, listener, stop.clone());
    tokio::pin!(served);
    tokio::select! {
        end = &mut served => return Ok(end?),
        _ = terminate.recv() => {}
        _ = tokio::signal::ctrl_c() => {}
    }
    tracing::info!("scripted provider is stopping");
    stop.cancel();
    Ok(served.await?)
}
