//! Reaches the parts a worker needs, trying again until the start timeout. Holds nothing: what it
//! reached is handed to the caller.

use crate::{
    BoxError, Config, Error,
    config::{CONTROL_URL, GATEWAY_URL, NATS_URL},
    control::ControlPlane,
    gateway::Gateway,
    lease::Renewal,
};
use async_nats::{
    ConnectOptions,
    jetstream::{self, consumer::PullConsumer},
};
use std::time::Duration;
use tokio::time::{Instant, sleep, timeout_at};
use turnwright_kit::{Chain, Credentials, NatsUrl, backoff::Backoff};
use turnwright_proto::v1;
use turnwright_types::{Pool, WorkerIncarnation, subjects};

/// The longest pause between two tries.
const PAUSE_MAX: Duration = Duration::from_secs(1);

/// What a worker needs of others.
pub(crate) struct Reached {
    pub(crate) control: ControlPlane,
    pub(crate) gateway: Gateway,
    pub(crate) nats: async_nats::Client,
    pub(crate) consumer: PullConsumer,
    /// The first renewal of its lease.
    pub(crate) renewal: Renewal,
}

/// Reaches all of them, side by side.
pub(crate) async fn reach(config: &Config, worker: WorkerIncarnation) -> Result<Reached, Error> {
    let deadline = Instant::now() + config.start_timeout;
    let control = ControlPlane::new(&config.control_url, &config.service_token)?;
    let gateway = Gateway::new(&config.gateway_url)?;

    let leased = async {
        let part = Part::new("control plane", &config.control_url, CONTROL_URL);
        part.within(deadline, || renew(&control, worker, &config.pool)).await
    };
    let answering = async {
        let part = Part::new("gateway", &config.gateway_url, GATEWAY_URL);
        part.within(deadline, || async { Ok(gateway.healthy().await?) }).await
    };
    let queued = async {
        let nats = Part::new("NATS server", &config.nats.address, NATS_URL);
        let client = nats.within(deadline, || connect(&config.nats)).await?;
        // The control plane makes the consumer, so a young installation has none yet.
        let part = Part::new("queue of turns", &config.nats.address, NATS_URL);
        let consumer = part.within(deadline, || consumer(&client, &config.pool)).await?;
        Ok::<_, Error>((client, consumer))
    };
    let (renewal, (), (nats, consumer)) = tokio::try_join!(leased, answering, queued)?;
    Ok(Reached { control, gateway, nats, consumer, renewal })
}

async fn renew(
    control: &ControlPlane,
    worker: WorkerIncarnation,
    pool: &Pool,
) -> Result<Renewal, BoxError> {
    let sent = Instant::now();
    let request = v1::RenewLeaseRequest {
        worker_incarnation: worker.to_string(),
        pool: pool.to_string(),
        turn_ids: Vec::new(),
        draining: false,
    };
    let answer = control.renew(request).await?;
    Ok(Renewal::of(sent, answer.lease_ms))
}

async fn consumer(nats: &async_nats::Client, pool: &Pool) -> Result<PullConsumer, BoxError> {
    let queue = jetstream::new(nats.clone());
    Ok(queue.get_consumer_from_stream(format!("workers-{pool}"), subjects::TURNS).await?)
}

async fn connect(url: &NatsUrl) -> Result<async_nats::Client, BoxError> {
    let options = ConnectOptions::new()
        .name("turnwright-worker")
        .connection_timeout(Duration::from_secs(2))
        .request_timeout(Some(Duration::from_secs(5)));
    let options = match url.credentials() {
        Credentials::None => options,
        Credentials::Token(token) => options.token(token.to_owned()),
        Credentials::User(user, password) => {
            options.user_and_password(user.to_owned(), password.to_owned())
        }
    };
    Ok(options.connect(url.address.as_str()).await?)
}

/// A part to be reached, as it is named when it was not.
struct Part<'a> {
    name: &'static str,
    url: &'a str,
    variable: &'static str,
}

impl<'a> Part<'a> {
    const fn new(name: &'static str, url: &'a str, variable: &'static str) -> Self {
        Self { name, url, variable }
    }

    async fn within<T, Fut>(
        &self,
        deadline: Instant,
        mut attempt: impl FnMut() -> Fut,
    ) -> Result<T, Error>
    where
        Fut: Future<Output = Result<T, BoxError>>,
    {
        let mut backoff = Backoff::endless(Duration::from_millis(50), PAUSE_MAX);
        let mut last: BoxError = "no answer in time".into();
        loop {
            match timeout_at(deadline, attempt()).await {
                Ok(Ok(reached)) => return Ok(reached),
                Ok(Err(e)) => last = e,
                Err(_) => return Err(self.unreachable(last)),
            }
            let wait = backoff.next().unwrap_or(PAUSE_MAX);
            if Instant::now() + wait >= deadline {
                return Err(self.unreachable(last));
            }
            tracing::debug!(part = self.name, error = %Chain(&*last), "not reached yet");
            sleep(wait).await;
        }
    }

    fn unreachable(&self, source: BoxError) -> Error {
        let url = self.url.to_owned();
        Error::Unreachable { part: self.name, url, variable: self.variable, source }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[tokio::test(start_paused = true)]
    async fn it_tries_until_the_deadline_and_names_the_part() {
        let part = Part::new("gateway", "http://g", GATEWAY_URL);
        let deadline = Instant::now() + Duration::from_secs(30);
        let mut tries = 0;
        let third = part
            .within(deadline, || {
                tries += 1;
                let now = tries;
                async move { if now == 3 { Ok(now) } else { Err("away".into()) } }
            })
            .await;
        assert_eq!(third.unwrap(), 3);
        let never = part.within(deadline, || async { Err::<(), BoxError>("away".into()) }).await;
        let Err(Error::Unreachable { variable, source, .. }) = never else { panic!("reached") };
        assert_eq!((variable, source.to_string().as_str()), (GATEWAY_URL, "away"));
        assert!(Instant::now() <= deadline);
    }
}
