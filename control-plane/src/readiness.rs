//! Waits for PostgreSQL and NATS at the start, and says what to do when they do not come.

use crate::{Config, Error, dispatch::Reconnected};
use std::{future::Future, time::Duration};
use turnwright_control_store::Store;
use turnwright_kit::{Credentials, backoff::Backoff, config::without_credentials};

type Cause = Box<dyn std::error::Error + Send + Sync>;

async fn within<T, F>(
    config: &Config,
    what: &'static str,
    url: String,
    var: &'static str,
    mut attempt: impl FnMut() -> F,
) -> Result<T, Error>
where
    F: Future<Output = Result<T, Cause>>,
{
    let deadline = tokio::time::Instant::now() + config.start_timeout;
    let mut backoff = Backoff::endless(Duration::from_millis(50), Duration::from_secs(1));
    loop {
        let end = tokio::time::timeout_at(deadline, attempt()).await;
        let source: Cause = match end {
            Ok(Ok(value)) => return Ok(value),
            Ok(Err(e)) => e,
            Err(e) => Box::new(e),
        };
        let pause = backoff.next().unwrap_or_default();
        if tokio::time::Instant::now() + pause >= deadline {
            let seconds = config.start_timeout.as_secs();
            return Err(Error::Unreachable { what, url, seconds, var, source });
        }
        tokio::time::sleep(pause).await;
    }
}

/// PostgreSQL, with schema `control` in place.
pub(crate) async fn store(config: &Config) -> Result<Store, Error> {
    let url = without_credentials(&config.database_url);
    within(config, "postgresql", url, "TURNWRIGHT_CONTROL_DATABASE_URL", || async {
        let store = Store::connect(&config.database_url, 24).await?;
        store.revision().await?;
        Ok(store)
    })
    .await
}

/// NATS with JetStream. `reconnected` is told each time the connection comes back.
pub(crate) async fn nats(
    config: &Config,
    reconnected: &Reconnected,
) -> Result<async_nats::Client, Error> {
    let url = config.nats.to_string();
    within(config, "nats-server", url, "TURNWRIGHT_NATS_URL", || async {
        let told = reconnected.clone();
        let options = async_nats::ConnectOptions::new()
            .name("turnwright-control-plane")
            .connection_timeout(Duration::from_secs(3))
            .event_callback(move |event| {
                if matches!(event, async_nats::Event::Connected) {
                    told.tell();
                }
                std::future::ready(())
            });
        let options = match config.nats.credentials() {
            Credentials::None => options,
            Credentials::Token(token) => options.token(token.to_owned()),
            Credentials::User(user, password) => {
                options.user_and_password(user.to_owned(), password.to_owned())
            }
        };
        let client = options.connect(&config.nats.address).await?;
        // Answers only where JetStream is on.
        async_nats::jetstream::new(client.clone()).query_account().await?;
        Ok(client)
    })
    .await
}
